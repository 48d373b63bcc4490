"""What the fuzz knows of a class of layers; the tables of the other files are made of these."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Shape = list[int]
Options = dict[str, Any]


class Invalid(Exception):  # noqa: N818
    """A program that makes no sense, as a shape that does not fit: drawn or cut anew."""


def no_parameters(options: Options, shapes: list[Shape]) -> dict[str, tuple[Shape, str, float]]:
    return {}


@dataclass(frozen=True)
class Layer:
    """`options` are what a program keeps of a layer: plain data, which `draw` chooses."""

    draw: Callable[[Any, Shape], dict[str, Any]]
    """(drawing, shape of a source) -> a node's "options", and "more" sources or all "sources"."""
    results: Callable[[Options, list[Shape]], list[Shape]]
    """Shapes of the results; raises Invalid where the sources do not fit."""
    expression: Callable[[Options, list[Shape], dict[str, str]], str]
    """The layer as Python text; the last argument has its parameters' variables by role."""
    compute: Callable[[Any, Options, list[Any], Any], Any]
    """(torch, options, sources, Parameters of torch_judge.py) -> the result, or a list of them."""
    parameters: Callable[[Options, list[Shape]], dict[str, tuple[Shape, str, float]]] = (
        no_parameters
    )
    """By role: the shape, the kind of numbers it starts with (see numbers.py) and their scale."""
    running: tuple[str, ...] = ()
    """Roles that no optimizer updates."""
    often: int = 1
    reads_flow: bool = True
    """Whether floats that flow may be its sources; else each use is drawn, with sources."""

    @property
    def has_parameters(self) -> bool:
        return self.parameters is not no_parameters


def need(fits: bool, why: str = "a shape does not fit") -> None:
    if not fits:
        raise Invalid(why)


def single(number: float) -> float:
    """What a float32 field of a descriptor holds."""
    return float(np.float32(number))


def joined(*shapes: Shape) -> Shape:
    """The shape of an element-wise result."""
    try:
        return list(np.broadcast_shapes(*map(tuple, shapes)))
    except ValueError as error:
        raise Invalid(str(error)) from error


def same(options: Options, shapes: list[Shape]) -> list[Shape]:
    return [list(shapes[0])]


def written(name: str, **arguments: Any) -> str:
    """A call of the package, with arguments as they are printed."""
    return f"tg.{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


@dataclass(frozen=True)
class Text:
    """An argument that stands as it is: the name of a variable, or another call."""

    text: str

    def __repr__(self) -> str:
        return self.text


def reached(nodes: dict[str, Any], ends: list[str]) -> set[str]:
    """Nodes and values that these results depend on."""
    names = {end.rpartition("_")[0] for end in ends}
    for name in reversed(list(nodes)):
        if name in names:
            sources = nodes[name]["sources"]
            names |= {s.rpartition("_")[0] or s for s in sources} | {nodes[name].get("again", name)}
    return names
