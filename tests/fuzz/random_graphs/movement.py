"""Layers that put elements elsewhere."""

import math
from typing import Any

from .layer import Layer, Options, Shape, need, written


def draw_concatenation(drawing: Any, shape: Shape) -> dict[str, Any]:
    axis = drawing.axis(shape)

    def fits(other: Shape) -> bool:
        pairs = enumerate(zip(other, shape, strict=False))
        return len(other) == len(shape) and all(k == axis or a == b for k, (a, b) in pairs)

    more = [drawing.flow(fits) for _ in range(drawing.random.randrange(1, 3))]
    return {"options": {"dimension": axis}, "more": more}


def concatenation_shape(options: Options, shapes: list[Shape]) -> list[Shape]:
    axis, found = options["dimension"], list(shapes[0])
    need(axis < len(found))
    for other in shapes[1:]:
        need(len(other) == len(found))
        need(all(k == axis or a == b for k, (a, b) in enumerate(zip(other, found, strict=True))))
        found[axis] += other[axis]
    return [found]


def draw_split(drawing: Any, shape: Shape) -> dict[str, Any]:
    axis = drawing.axis(shape)
    extent = shape[axis]
    need(extent > 1)
    if drawing.chance(0.5):
        count = drawing.random.randrange(2, min(4, extent) + 1)
        return {"options": {"split_count": count, "dimension": axis}}
    first = drawing.random.randrange(1, extent)
    return {"options": {"split_section_lengths": [first, extent - first], "dimension": axis}}


def split_lengths(options: Options, extent: int) -> list[int]:
    if "split_count" not in options:
        return list(options["split_section_lengths"])
    part = -(-extent // options["split_count"])
    return [min(part, extent - at) for at in range(0, extent, part)]


def split_shapes(options: Options, shapes: list[Shape]) -> list[Shape]:
    shape, axis = shapes[0], options["dimension"]
    need(axis < len(shape))
    lengths = split_lengths(options, shape[axis])
    need(sum(lengths) == shape[axis] and min(lengths) > 0)
    need(options.get("split_count", len(lengths)) == len(lengths))
    return [[*shape[:axis], length, *shape[axis + 1 :]] for length in lengths]


def compute_split(t: Any, options: Options, sources: list[Any], at: Any) -> Any:
    axis = options["dimension"]
    return list(t.split(sources[0], split_lengths(options, sources[0].shape[axis]), axis))


def draw_reshape(drawing: Any, shape: Shape) -> dict[str, Any]:
    rest, extents = math.prod(shape[drawing.batch :]), []
    for _ in range(drawing.random.randrange(3)):
        extents.append(drawing.choice([d for d in range(1, rest + 1) if rest % d == 0]))
        rest //= extents[-1]
    return {"options": {"shape": [*extents, rest], "batch": drawing.batch}}


def reshape_shape(options: Options, shapes: list[Shape]) -> list[Shape]:
    found = [*shapes[0][: 1 if options["batch"] else 0], *options["shape"]]
    need(math.prod(found) == math.prod(shapes[0]) and len(found) <= 4)
    return [found]


def draw_transpose(drawing: Any, shape: Shape) -> dict[str, Any]:
    axes = list(range(int(drawing.batch), len(shape)))
    drawing.random.shuffle(axes)
    return {"options": {"dimensions": [0] * drawing.batch + axes}}


def transpose_shape(options: Options, shapes: list[Shape]) -> list[Shape]:
    need(sorted(options["dimensions"]) == list(range(len(shapes[0]))))
    return [[shapes[0][axis] for axis in options["dimensions"]]]


LAYERS = {
    "MLCConcatenationLayer": Layer(
        draw_concatenation,
        concatenation_shape,
        lambda options, shapes, names: written("MLCConcatenationLayer", **options),
        lambda t, options, sources, at: t.cat(sources, options["dimension"]),
    ),
    "MLCSplitLayer": Layer(
        draw_split,
        split_shapes,
        lambda options, shapes, names: written("MLCSplitLayer", **options),
        compute_split,
    ),
    "MLCReshapeLayer": Layer(
        draw_reshape,
        reshape_shape,
        lambda options, shapes, names: written(
            "MLCReshapeLayer", shape=reshape_shape(options, shapes)[0]
        ),
        lambda t, options, sources, at: sources[0].reshape(
            [*sources[0].shape[: 1 if options["batch"] else 0], *options["shape"]]
        ),
    ),
    "MLCTransposeLayer": Layer(
        draw_transpose,
        transpose_shape,
        lambda options, shapes, names: written("MLCTransposeLayer", **options),
        lambda t, options, sources, at: sources[0].permute(options["dimensions"]),
    ),
}
