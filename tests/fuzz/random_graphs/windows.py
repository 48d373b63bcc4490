"""Where windows of convolution and pooling lie, and pooling."""

import math
from typing import Any

from .layer import Layer, Options, Shape, Text, need, written

Side = tuple[int, int, int]  # padding before, padding behind, extent of the result


def draw_window(drawing: Any, kernels: list[int]) -> Options:
    """Rows and columns differ in half of all windows."""

    def pair(choices: list[int]) -> list[int]:
        first = drawing.choice(choices)
        return [first, first if drawing.chance(0.5) else drawing.choice(choices)]

    policy = drawing.choice(["same", "same", "valid", "sized"])
    window = {"kernel": pair(kernels), "strides": pair([1, 1, 1, 2, 3]), "policy": policy}
    window |= {"dilation": pair([1, 1, 1, 2, 3])}
    return window | ({"padding": pair([0, 1, 2, 3])} if policy == "sized" else {})


def before(options: Options, k: int, both_sides: int) -> int:
    """Padding of both sides by an alignment: what comes first; negative is what stays unused."""
    align, to_end = options["align"], options["remainder"][k]
    if align == "top_left":
        return max(both_sides, 0)
    if align == "bottom_right":
        return min(both_sides, 0)
    if both_sides < 0:
        return -((-both_sides + to_end) // 2)
    return (both_sides + (not to_end)) // 2


def aligned(options: Options, k: int, extent: int, reach: int) -> Side:
    """By a padding policy of MPS."""
    stride, size = options["strides"][k], options["size"]
    touched = extent + {"valid_only": 0, "same": 0, "full": 2 * (reach - 1)}[size]
    need(touched >= reach, "a window larger than the image")
    count = -(-extent // stride) if size == "same" else (touched - reach) // stride + 1
    both_sides = (count - 1) * stride + reach - extent
    first = before(options, k, both_sides)
    return first, both_sides - first, count


def sides(options: Options, shape: Shape) -> list[Side]:
    """Of rows and of columns."""
    need(len(shape) == 4)
    found = []
    for k, extent in enumerate(shape[2:]):
        stride = options["strides"][k]
        reach = (options["kernel"][k] - 1) * options["dilation"][k] + 1
        if options["policy"] == "aligned":
            found.append(aligned(options, k, extent, reach))
            continue
        if options["policy"] == "same":
            count = -(-extent // stride)
            total = max((count - 1) * stride + reach - extent, 0)
            found.append((total // 2, total - total // 2, count))
            continue
        pad = options["padding"][k] if options["policy"] == "sized" else 0
        need(extent + 2 * pad >= reach, "a window larger than the image")
        found.append((pad, pad, (extent + 2 * pad - reach) // stride + 1))
    return found


def transposed_sides(options: Options, shape: Shape) -> list[tuple[int, int]]:
    """Of a transposed window, rows and columns: what is cut off first, and what is left."""
    need(len(shape) == 4)
    found = []
    for k, extent in enumerate(shape[2:]):
        stride = options["strides"][k]
        reach = (options["kernel"][k] - 1) * options["dilation"][k] + 1
        whole = (extent - 1) * stride + reach
        if options["policy"] == "same":
            found.append((max(reach - stride, 0) // 2, extent * stride))
            continue
        pad = options["padding"][k] if options["policy"] == "sized" else 0
        need(whole > 2 * pad, "nothing is left")
        found.append((pad, whole - 2 * pad))
    return found


def arguments(options: Options) -> dict[str, Any]:
    """Of a descriptor."""
    policy: Any = options["policy"]
    if policy == "sized":
        y, x = options["padding"]
        policy = Text(f"tg.MLCPaddingPolicy.sized(y={y}, x={x})")
    named = {"kernel_sizes": "kernel", "strides": "strides", "dilation_rates": "dilation"}
    return {key: tuple(options[own]) for key, own in named.items()} | {"padding_policy": policy}


def padded(t: Any, x: Any, options: Options, value: float = 0) -> Any:
    (top, bottom, _), (left, right, _) = sides(options, list(x.shape))
    return t.nn.functional.pad(x, (left, right, top, bottom), value=value)


def draw_pooling(drawing: Any, shape: Shape) -> dict[str, Any]:
    need(len(shape) == 4)
    kind = drawing.choice(["max", "average", "l2_norm"])
    counted = kind == "average" and drawing.chance(0.3)
    return {"options": {**draw_window(drawing, [1, 2, 3, 5]), "type": kind, "counted": counted}}


def pooling_shape(options: Options, shapes: list[Shape]) -> list[Shape]:
    (shape,) = shapes
    rows_and_columns = sides(options, shape)
    for k, (before, _, count) in enumerate(rows_and_columns):
        stride, dilation = options["strides"][k], options["dilation"][k]
        for at in range(count):  # each window holds an element of the image
            taps = [at * stride + tap * dilation - before for tap in range(options["kernel"][k])]
            need(any(0 <= tap < shape[2 + k] for tap in taps), "a window of padding alone")
    return [[*shape[:2], *(count for _, _, count in rows_and_columns)]]


def pooling_expression(options: Options, shapes: list[Shape], names: dict[str, str]) -> str:
    own = {"type": options["type"], "count_includes_padding": options["counted"]}
    descriptor = written("MLCPoolingDescriptor", **own, **arguments(options))
    return written("MLCPoolingLayer", descriptor=Text(descriptor))


def compute_pooling(t: Any, options: Options, sources: list[Any], at: Any) -> Any:
    x, F = sources[0], t.nn.functional  # noqa: N806
    kernel, strides, dilation = (tuple(options[k]) for k in ("kernel", "strides", "dilation"))
    if options["type"] == "max":
        return F.max_pool2d(padded(t, x, options, -math.inf), kernel, strides, 0, dilation)

    def windows(of: Any) -> Any:
        planes = padded(t, of.reshape(-1, 1, *of.shape[2:]), options)
        return F.unfold(planes, kernel, dilation, 0, strides)

    taps = windows(x)
    if options["type"] == "average":
        count = math.prod(kernel) if options["counted"] else windows(t.ones_like(x)).sum(1)
        found = taps.sum(1) / count
    else:  # the derivative at 0 is 0
        squares = (taps * taps).sum(1)
        roots = t.sqrt(t.where(squares > 0, squares, t.ones_like(squares)))
        found = t.where(squares > 0, roots, t.zeros_like(squares))
    return found.reshape(*x.shape[:2], *(count for _, _, count in sides(options, list(x.shape))))


LAYERS = {
    "MLCPoolingLayer": Layer(
        draw_pooling, pooling_shape, pooling_expression, compute_pooling, often=3
    )
}
