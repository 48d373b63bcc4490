"""Reductions without a gradient: their results stop it, and other nodes go on with them."""

from typing import Any

from random_graphs.layer import Layer, Options, Shape

from .writing import Names, node

AXES = {"Row": 3, "Column": 2, "FeatureChannels": 1}
KINDS: dict[str, Any] = {
    "Sum": lambda x, axis: x.sum(axis, keepdim=True),
    "Mean": lambda x, axis: x.mean(axis, keepdim=True),
    "Min": lambda x, axis: x.amin(axis, keepdim=True),
    "Max": lambda x, axis: x.amax(axis, keepdim=True),
    "ArgumentMin": lambda x, axis: x.argmin(axis, keepdim=True).to(x.dtype),
    "ArgumentMax": lambda x, axis: x.argmax(axis, keepdim=True).to(x.dtype),
}


def draw(drawing: Any, shape: Shape) -> dict[str, Any]:
    return {"options": {}, "stop": True}


def reduction(name: str, axis: int, kind: str) -> Layer:
    def shape(options: Options, shapes: list[Shape]) -> list[Shape]:
        return [[1 if k == axis else extent for k, extent in enumerate(shapes[0])]]

    def expression(options: Options, shapes: list[Shape], names: Names) -> str:
        return node(name, names, {})

    return Layer(
        draw,
        shape,
        expression,
        lambda t, options, sources, at: KINDS[kind](sources[0], axis),
        often=2,
    )


NODES = {
    name: reduction(name, axis, kind)
    for place, axis in AXES.items()
    for kind in KINDS
    if place == "FeatureChannels" or not kind.startswith("Argument")
    for name in [f"MPSNNReduction{place}{kind}Node"]
}
