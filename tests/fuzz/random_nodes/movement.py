"""Nodes that put elements elsewhere, or join those of an image; and dropout."""

import math
from typing import Any

import numpy as np
from random_graphs.layer import Layer, Options, Shape, need, same, single
from random_graphs.movement import bilinear, interpolated

from .writing import Names, node, plain

# By edge mode: that of numpy.pad, and whether the edge itself stays out of the mirror.
EDGES = {
    "zero": "constant", "constant": "constant", "clamp": "edge", "mirror": "reflect",
    "mirror_with_edge": "symmetric",
}  # fmt: skip


# --- upsampling


def draw_upsampling(drawing: Any, shape: Shape) -> dict[str, Any]:
    factors = [drawing.choice([1, 2, 2, 3]), drawing.choice([1, 2, 2, 3])]
    return {"options": {"factors": factors, "corners": drawing.chance(0.4)}}


def upsampled(options: Options, shapes: list[Shape]) -> list[Shape]:
    rows, columns = options["factors"]
    return [[*shapes[0][:2], shapes[0][2] * rows, shapes[0][3] * columns]]


def upsampling(name: str, mode: str) -> Layer:
    def expression(options: Options, shapes: list[Shape], names: Names) -> str:
        rows, columns = options["factors"]
        given = {"integer_scale_factor_x": columns, "integer_scale_factor_y": rows}
        if mode == "bilinear" and options["corners"]:
            given["align_corners"] = True
        return node(name, names, {}, **given)

    def compute(t: Any, options: Options, sources: list[Any], at: Any) -> Any:
        x, (rows, columns) = sources[0], options["factors"]
        if mode == "nearest":
            return x.repeat_interleave(rows, 2).repeat_interleave(columns, 3)
        size = [x.shape[2] * rows, x.shape[3] * columns]
        if options["corners"]:
            return interpolated(at, x, lambda one: bilinear(t, one, size, True))
        return interpolated(
            at, x, lambda one: from_the_first(t, from_the_first(t, one, 2, rows), 3, columns)
        )

    return Layer(draw_upsampling, upsampled, expression, compute)


def from_the_first(t: Any, x: Any, axis: int, factor: int) -> Any:
    """Pixel i at i / factor, and the last one behind the end."""
    places = t.arange(x.shape[axis] * factor, dtype=t.float64, device=x.device) / factor
    below = places.floor().long()
    above = (below + 1).clamp(max=x.shape[axis] - 1)
    shape = [-1 if k == axis else 1 for k in range(x.dim())]
    share = (places - below).to(x.dtype).reshape(shape)
    return x.index_select(axis, below) * (1 - share) + x.index_select(axis, above) * share


def draw_scale(drawing: Any, shape: Shape) -> dict[str, Any]:
    """Off the way of gradients: scaling has none."""
    return {"options": {"size": [drawing.choice([1, 2, 3, 5, 8]) for _ in "yx"]}, "stop": True}


# --- padding and shapes


def draw_pad(drawing: Any, shape: Shape) -> dict[str, Any]:
    mode = drawing.choice(sorted(EDGES))
    margins = [[drawing.choice([0, 0, 1, 2]), drawing.choice([0, 0, 1, 2])] for _ in "cyx"]
    return {"options": {"mode": mode, "margins": margins, "fill": drawing.choice([0.0, 0.75])}}


def padded_shape(options: Options, shapes: list[Shape]) -> list[Shape]:
    found = shapes[0][:1]
    for extent, (first, last) in zip(shapes[0][1:], options["margins"], strict=True):
        most = {"mirror": extent - 1, "mirror_with_edge": extent}.get(options["mode"], 99)
        need(max(first, last) <= most, "more than there is to mirror")
        found.append(extent + first + last)
    return [found]


def pad_expression(options: Options, shapes: list[Shape], names: Names) -> str:
    before, after = (tuple(pair[k] for pair in reversed(options["margins"])) for k in (0, 1))
    fill = {"fill_value": options["fill"]} if options["mode"] == "constant" else {}
    given = {"padding_size_before": before, "padding_size_after": after}
    return node("MPSNNPadNode", names, fill, **given, edge_mode=options["mode"])


def compute_pad(t: Any, options: Options, sources: list[Any], at: Any) -> Any:
    x = sources[0]
    if EDGES[options["mode"]] == "constant":
        fill = single(options["fill"]) if options["mode"] == "constant" else 0.0
        flat = [size for pair in reversed(options["margins"]) for size in pair]
        return t.nn.functional.pad(x, flat, value=fill)
    for axis, pair in enumerate(options["margins"]):
        places = np.pad(np.arange(x.shape[axis + 1]), pair, mode=EDGES[options["mode"]])
        x = x.index_select(axis + 1, t.tensor(places))
    return x


def draw_reshape(drawing: Any, shape: Shape) -> dict[str, Any]:
    rest, extents = math.prod(shape[1:]), []
    for _ in range(2):
        extents.append(drawing.choice([d for d in range(1, rest + 1) if rest % d == 0]))
        rest //= extents[-1]
    return {"options": {"shape": [*extents, rest]}}


def reshaped(options: Options, shapes: list[Shape]) -> list[Shape]:
    need(math.prod(options["shape"]) == math.prod(shapes[0][1:]))
    return [[shapes[0][0], *options["shape"]]]


def reshape_expression(options: Options, shapes: list[Shape], names: Names) -> str:
    channels, rows, columns = options["shape"]
    given = {"result_width": columns, "result_height": rows, "result_feature_channels": channels}
    return node("MPSNNReshapeNode", names, {}, **given)


# --- sums over an image


def draw_gram(drawing: Any, shape: Shape) -> dict[str, Any]:
    return {"options": {"alpha": drawing.choice([1.0, 0.1, -0.3])}}


def compute_gram(t: Any, options: Options, sources: list[Any], at: Any) -> Any:
    rows = sources[0].reshape(*sources[0].shape[:2], -1)
    return single(options["alpha"]) * (rows @ rows.transpose(1, 2)).unsqueeze(2)


def draw_dropout(drawing: Any, shape: Shape) -> dict[str, Any]:
    options = {"keep_probability": drawing.choice([0.3, 0.5, 0.9])}
    strides = tuple(drawing.choice([1, 1, 1, 0]) for _ in "xyc")
    return {"options": options | {"seed": drawing.random.randrange(1000), "strides": strides}}


def dropout_expression(options: Options, shapes: list[Shape], names: Names) -> str:
    given = {key: options[key] for key in ("keep_probability", "seed")}
    strides = tuple(options["strides"])
    return node("MPSCNNDropoutNode", names, {}, **given, mask_stride_in_pixels=strides)


def compute_dropout(t: Any, options: Options, sources: list[Any], at: Any) -> Any:
    """By the mask that the run had."""
    x = sources[0]
    columns, rows, channels = (
        extent if stride else 1
        for extent, stride in zip(reversed(x.shape[1:]), options["strides"], strict=True)
    )
    mask = t.tensor(at.mask.reshape(-1, rows, columns, channels)).permute(0, 3, 1, 2)
    return t.where(mask > 0, x / single(options["keep_probability"]), t.zeros_like(x))


NODES = {
    "MPSCNNUpsamplingNearestNode": upsampling("MPSCNNUpsamplingNearestNode", "nearest"),
    "MPSCNNUpsamplingBilinearNode": upsampling("MPSCNNUpsamplingBilinearNode", "bilinear"),
    "MPSNNBilinearScaleNode": Layer(
        draw_scale,
        lambda options, shapes: [[*shapes[0][:2], *options["size"]]],
        lambda options, shapes, names: node(
            "MPSNNBilinearScaleNode", names, {}, output_size=tuple(reversed(options["size"]))
        ),
        lambda t, options, sources, at: interpolated(
            at, sources[0], lambda one: bilinear(t, one, options["size"], False)
        ),
        often=2,
    ),
    "MPSNNPadNode": Layer(draw_pad, padded_shape, pad_expression, compute_pad, often=2),
    "MPSNNReshapeNode": Layer(
        draw_reshape,
        reshaped,
        reshape_expression,
        lambda t, options, sources, at: sources[0].reshape(-1, *options["shape"]),
    ),
    "MPSNNReductionSpatialMeanNode": plain(
        "MPSNNReductionSpatialMeanNode",
        lambda t, options, sources, at: sources[0].mean((2, 3), keepdim=True),
        shape=lambda options, shapes: [[*shapes[0][:2], 1, 1]],
    ),
    "MPSNNGramMatrixCalculationNode": plain(
        "MPSNNGramMatrixCalculationNode",
        compute_gram,
        draw_gram,
        lambda options, shapes: [[*shapes[0][:2], 1, shapes[0][1]]],
    ),
    "MPSCNNDropoutNode": Layer(draw_dropout, same, dropout_expression, compute_dropout, often=2),
}
