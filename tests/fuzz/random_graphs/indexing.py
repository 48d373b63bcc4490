"""Gather and scatter. Indices are of one axis and pick slices, or pick element by element."""

from typing import Any

import numpy as np

from .layer import Layer, Options, Shape, need, written


def agree(axis: int, one: Shape, other: Shape) -> bool:
    """But for one axis."""
    pairs = enumerate(zip(one, other, strict=False))
    return len(one) == len(other) and all(k == axis or a == b for k, (a, b) in pairs)


def draw_indices(drawing: Any, shape: Shape, axis: int, slices: bool, below: int) -> str:
    """Slices are the same for every row of a batch, which such indices do not have."""
    kind = {"kind": "index", "below": below, "type": drawing.choice(["int32", "int64"])}
    if slices:
        return str(drawing.value("constant", [shape[axis]], **kind))
    return str(drawing.value("input", shape, **kind))


def draw_gather(drawing: Any, shape: Shape) -> dict[str, Any]:
    axis, slices = drawing.axis(shape), drawing.chance(0.5) or len(shape) == 1
    wanted = [*shape[:axis], drawing.choice([1, 2, 3, 5, shape[axis]]), *shape[axis + 1 :]]
    indices = draw_indices(drawing, wanted, axis, slices, shape[axis])
    return {"options": {"dimension": axis}, "more": [indices]}


def gather_shape(options: Options, shapes: list[Shape]) -> list[Shape]:
    axis, (shape, indices) = options["dimension"], shapes
    need(axis < len(shape))
    if len(indices) == 1:
        return [[*shape[:axis], indices[0], *shape[axis + 1 :]]]
    need(agree(axis, shape, indices))
    return [list(indices)]


def compute_gather(t: Any, options: Options, sources: list[Any], at: Any) -> Any:
    x, indices = sources[0], sources[1].long()
    if indices.dim() == 1:
        return x.index_select(options["dimension"], indices)
    return x.gather(options["dimension"], indices)


def draw_scatter(drawing: Any, shape: Shape) -> dict[str, Any]:
    axis, slices = drawing.axis(shape), drawing.chance(0.5) or len(shape) == 1
    copied = drawing.flow(lambda other: agree(axis, other, shape))
    below = drawing.shapes[copied][axis]
    indices = draw_indices(drawing, shape, axis, slices, below)
    reduction = drawing.choice(["none", "sum"])
    options = {"dimension": axis, "reduction_type": reduction}
    return {"options": options, "more": [indices, copied]}


def scatter_shape(options: Options, shapes: list[Shape]) -> list[Shape]:
    axis, (shape, indices, copied) = options["dimension"], shapes
    need(axis < len(shape) and agree(axis, shape, copied))
    need(indices == [shape[axis]] if len(indices) == 1 else indices == shape)
    return [list(copied)]


def compute_scatter(t: Any, options: Options, sources: list[Any], at: Any) -> Any:
    (x, indices, copied), axis = sources, options["dimension"]
    indices = indices.long()
    if indices.dim() == 1:
        shape = [1] * x.dim()
        shape[axis] = -1
        indices = indices.reshape(shape).expand(x.shape)
    if options["reduction_type"] == "sum":
        return copied.scatter_add(axis, indices, x)
    places = list(np.indices(tuple(x.shape)))
    places[axis] = indices.numpy()
    targets = np.ravel_multi_index(tuple(places), tuple(copied.shape)).ravel().tolist()
    last = {target: k for k, target in enumerate(targets)}  # of several the last one stays
    found = copied.reshape(-1).clone()
    found[list(last)] = x.reshape(-1)[list(last.values())]
    return found.reshape(copied.shape)


LAYERS = {
    "MLCGatherLayer": Layer(
        draw_gather,
        gather_shape,
        lambda options, shapes, names: written("MLCGatherLayer", **options),
        compute_gather,
    ),
    "MLCScatterLayer": Layer(
        draw_scatter,
        scatter_shape,
        lambda options, shapes, names: written("MLCScatterLayer", **options),
        compute_scatter,
    ),
}
