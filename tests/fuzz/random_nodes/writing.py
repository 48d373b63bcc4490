"""Parts of the text of nodes."""

from typing import Any

from random_graphs.layer import Layer, Options, Shape, Text
from random_graphs.layer import same as same_shape

Names = dict[str, Any]


def call(name: str, **arguments: Any) -> str:
    return f"mps.{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def node(name: str, names: Names, properties: dict[str, Any], **arguments: Any) -> str:
    """A node of one source, with what is set after it was made."""
    text = call(name, source=Text(names["sources"][0]), **arguments)
    return dressed(text, properties)


def dressed(text: str, properties: dict[str, Any]) -> str:
    given = "".join(f", {key}={value!r}" for key, value in properties.items())
    return f"made({text}{given})" if given else text


def plain(name: str, compute: Any, draw: Any = None, shape: Any = None, **more: Any) -> Layer:
    """A node whose arguments are its options."""

    def nothing(drawing: Any, of: Shape) -> dict[str, Any]:
        return {"options": {}}

    def expression(options: Options, shapes: list[Shape], names: Names) -> str:
        return node(name, names, {}, **options)

    return Layer(draw or nothing, shape or same_shape, expression, compute, **more)
