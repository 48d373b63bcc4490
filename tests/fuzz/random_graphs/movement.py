"""Layers that put elements elsewhere."""

import math
from collections.abc import Callable
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


def draw_slice(drawing: Any, shape: Shape) -> dict[str, Any]:
    start, end, stride = [], list(shape), []
    for axis, extent in enumerate(shape):
        whole = axis == 0 and drawing.batch
        start.append(0 if whole else drawing.random.randrange(extent))
        if not whole:
            end[axis] = drawing.random.randrange(start[axis] + 1, extent + 1)
        stride.append(1 if whole else drawing.choice([1, 1, 2, 3]))
    return {"options": {"start": start, "end": end, "stride": stride, "batch": drawing.batch}}


def slice_shape(options: Options, shapes: list[Shape]) -> list[Shape]:
    """The first axis of a batch is taken as it is declared."""
    start, end, stride = options["start"], list(options["end"]), options["stride"]
    need(len(end) == len(shapes[0]))
    if options["batch"]:
        need(end[0] == shapes[0][0])
    need(all(stop <= extent for stop, extent in zip(end, shapes[0], strict=True)))
    return [[-(-(b - a) // s) for a, b, s in zip(start, end, stride, strict=True)]]


def written_slice(options: Options, shapes: list[Shape], names: dict[str, str]) -> str:
    return written("MLCSliceLayer", **{k: v for k, v in options.items() if k != "batch"})


def compute_slice(t: Any, options: Options, sources: list[Any], at: Any) -> Any:
    ends = [None, *options["end"][1:]] if options["batch"] else options["end"]
    return sources[0][tuple(map(slice, options["start"], ends, options["stride"]))]


PADDING = {"zero": "constant", "constant": "constant", "reflection": "reflect", "symmetric": None}


def draw_padding(drawing: Any, shape: Shape) -> dict[str, Any]:
    need(len(shape) >= 3)
    kind = drawing.choice(list(PADDING))
    sizes = [drawing.random.randrange(3) for _ in range(4)]
    options = {"sizes": sizes, "kind": kind}
    return {"options": options | ({"constant_value": 0.5} if kind == "constant" else {})}


def padding_shape(options: Options, shapes: list[Shape]) -> list[Shape]:
    found, (top, bottom, left, right) = list(shapes[0]), options["sizes"]
    need(len(found) >= 3)
    if options["kind"] in ("reflection", "symmetric"):
        edge = options["kind"] == "reflection"
        need(max(top, bottom) <= found[-2] - edge and max(left, right) <= found[-1] - edge)
    found[-2] += top + bottom
    found[-1] += left + right
    return [found]


def written_padding(options: Options, shapes: list[Shape], names: dict[str, str]) -> str:
    more = {key: value for key, value in options.items() if key == "constant_value"}
    return written("MLCPaddingLayer", **{f"{options['kind']}_padding": options["sizes"]}, **more)


def compute_padding(t: Any, options: Options, sources: list[Any], at: Any) -> Any:
    x, (top, bottom, left, right), kind = sources[0], options["sizes"], options["kind"]
    if kind == "symmetric":
        for axis, before, after in ((-2, top, bottom), (-1, left, right)):
            extent = x.shape[axis]
            places = [*range(before - 1, -1, -1), *range(extent)]
            places += range(extent - 1, extent - 1 - after, -1)
            x = x.index_select(x.dim() + axis, t.tensor(places))
        return x
    value = {"value": options["constant_value"]} if kind == "constant" else {}
    lead = x.shape[:-2]
    x = x.reshape(1, -1, *x.shape[-2:])
    x = t.nn.functional.pad(x, (left, right, top, bottom), PADDING[kind], **value)
    return x.reshape(*lead, *x.shape[-2:])


def draw_upsampling(drawing: Any, shape: Shape) -> dict[str, Any]:
    need(len(shape) == 4)
    wanted = [extent + drawing.random.randrange(5) for extent in shape[2:]]
    mode = drawing.choice(["nearest", "linear"])
    aligned = mode == "linear" and drawing.chance(0.5)
    return {"options": {"shape": wanted, "sample_mode": mode, "aligns_corners": aligned}}


def upsampled_shape(options: Options, shapes: list[Shape]) -> list[Shape]:
    wanted = options["shape"]
    need(len(shapes[0]) == 4)
    need(all(a >= b for a, b in zip(wanted, shapes[0][2:], strict=True)))
    return [[*shapes[0][:2], *wanted]]


def compute_upsampling(t: Any, options: Options, sources: list[Any], at: Any) -> Any:
    x, size = sources[0], options["shape"]
    if options["sample_mode"] == "nearest":
        return t.nn.functional.interpolate(x, size)
    return interpolated(at, x, lambda one: bilinear(t, one, size, options["aligns_corners"]))


def bilinear(t: Any, x: Any, size: Shape, corners: bool) -> Any:
    return t.nn.functional.interpolate(x, tuple(size), mode="bilinear", align_corners=corners)


def interpolated(at: Any, x: Any, resize: Callable[[Any], Any]) -> Any:
    """Shares of pixels round as their places do, up to the extent: terms that cancel leave that."""
    y = resize(x)
    if at.disturbed is None:
        return y
    terms = 4 * max(x.shape[2:]) * resize(x.detach().abs())
    return y + (at.disturbed(terms) - terms)


LAYERS = {
    "MLCUpsampleLayer": Layer(
        draw_upsampling,
        upsampled_shape,
        lambda options, shapes, names: written("MLCUpsampleLayer", **options),
        compute_upsampling,
    ),
    "MLCSliceLayer": Layer(draw_slice, slice_shape, written_slice, compute_slice),
    "MLCPaddingLayer": Layer(draw_padding, padding_shape, written_padding, compute_padding),
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
