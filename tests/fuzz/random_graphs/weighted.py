"""Layers with weights, matrix products and batch normalization."""

import math
from typing import Any

from .layer import Layer, Options, Shape, Text, joined, need, same, single, written
from .normalizing import normalized, scaled
from .windows import arguments, draw_window, padded, sides, transposed_sides

Parameters = dict[str, tuple[Shape, str, float]]
EXTENTS = [1, 2, 3, 4, 5, 7, 8, 16, 17, 33]


def biased(options: Options, names: dict[str, str]) -> dict[str, Any]:
    given = ("weights", "biases") if options["biases"] else ("weights",)
    return {role: Text(names[role]) for role in given}


def bias_shape(options: Options, count: int) -> Shape:
    forms: dict[str, Shape] = {"plain": [count], "row": [1, count], "image": [1, count, 1, 1]}
    return forms[options["biases"]]


# --- fully connected


def draw_full(drawing: Any, shape: Shape) -> dict[str, Any]:
    need(len(shape) > int(drawing.batch))
    options = {"count": drawing.choice(EXTENTS)}
    options["weights"] = drawing.choice(["matrix", "row", "image"])
    options["biases"] = drawing.choice(["", "plain", "row", "image"])
    return {"options": options}


def is_pixel(shape: Shape) -> bool:
    return len(shape) == 4 and list(shape[2:]) == [1, 1]


def full_shape(options: Options, shapes: list[Shape]) -> list[Shape]:
    shape, count = shapes[0], options["count"]
    return [[shape[0], count, 1, 1] if is_pixel(shape) else [*shape[:-1], count]]


def full_parameters(options: Options, shapes: list[Shape]) -> Parameters:
    width, count = shapes[0][1] if is_pixel(shapes[0]) else shapes[0][-1], options["count"]
    forms: dict[str, Shape] = {
        "matrix": [count, width], "row": [1, count * width], "image": [1, count * width, 1, 1]
    }  # fmt: skip
    found: Parameters = {"weights": (forms[options["weights"]], "normal", 1 / math.sqrt(width))}
    if options["biases"]:
        found["biases"] = (bias_shape(options, count), "normal", 0.5)
    return found


def full_expression(options: Options, shapes: list[Shape], names: dict[str, str]) -> str:
    width = shapes[0][1] if is_pixel(shapes[0]) else shapes[0][-1]
    descriptor = written(
        "MLCConvolutionDescriptor",
        kernel_sizes=(1, 1),
        input_feature_channel_count=width,
        output_feature_channel_count=options["count"],
    )
    given = biased(options, names)
    return written("MLCFullyConnectedLayer", **given, descriptor=Text(descriptor))


def compute_full(t: Any, options: Options, sources: list[Any], at: Any) -> Any:
    (x,), shape = sources, list(sources[0].shape)
    flat = x.reshape(shape[:2]) if is_pixel(shape) else x
    found = flat @ at["weights"].reshape(options["count"], flat.shape[-1]).T
    if options["biases"]:
        found = found + at["biases"].reshape(-1)
    return found.reshape(*found.shape, 1, 1) if is_pixel(shape) else found


# --- convolution


def draw_convolution(drawing: Any, shape: Shape) -> dict[str, Any]:
    need(len(shape) == 4)
    channels = shape[1]
    divisors = [d for d in range(1, channels + 1) if channels % d == 0]
    options = draw_window(drawing, [1, 1, 2, 3, 3, 4, 5])
    options["groups"] = drawing.choice(divisors) if drawing.chance(0.4) else 1
    options["each"] = drawing.choice([1, 2, 3, 4, 8] if options["groups"] == 1 else [1, 2, 3])
    options["depthwise"] = drawing.chance(0.2)
    options["transposed"] = not options["depthwise"] and drawing.chance(0.3)
    options["weights"] = drawing.choice(["image", "row"])
    options["biases"] = drawing.choice(["", "plain", "row", "image"])
    return {"options": options}


def channels(options: Options, shape: Shape) -> tuple[int, int, int]:
    """Groups, channels that each reads, and channels of the result."""
    groups = shape[1] if options["depthwise"] else options["groups"]
    need(shape[1] % groups == 0)
    return groups, shape[1] // groups, groups * options["each"]


def is_transposed(options: Options) -> bool:
    return bool(options.get("transposed"))  # programs of old have no word of it


def convolution_shape(options: Options, shapes: list[Shape]) -> list[Shape]:
    _, read, count = channels(options, shapes[0])
    if is_transposed(options):
        extents = [left for _, left in transposed_sides(options, shapes[0])]
        work = math.prod(shapes[0]) * math.prod(options["kernel"]) * options["each"]
        need(math.prod(extents) < 2500, "a large image")
    else:
        extents = [count for _, _, count in sides(options, shapes[0])]
        work = shapes[0][0] * count * math.prod(extents) * math.prod(options["kernel"]) * read
    need(work < 3e6, "much work")
    return [[shapes[0][0], count, *extents]]


def convolution_parameters(options: Options, shapes: list[Shape]) -> Parameters:
    _, read, count = channels(options, shapes[0])
    kernel = options["kernel"]
    lead = [count, read] if options["weights"] == "image" else [1, count * read]
    if is_transposed(options) and options["weights"] == "image":
        lead = [shapes[0][1], options["each"]]
    scale = 1 / math.sqrt(read * math.prod(kernel))
    found: Parameters = {"weights": ([*lead, *kernel], "normal", scale)}
    if options["biases"]:
        found["biases"] = (bias_shape(options, count), "normal", 0.5)
    return found


def convolution_expression(options: Options, shapes: list[Shape], names: dict[str, str]) -> str:
    groups, _, count = channels(options, shapes[0])
    kind = {"type": "depthwise"} if options["depthwise"] else {"group_count": groups}
    kind |= {"type": "transposed"} if is_transposed(options) else {}
    descriptor = written(
        "MLCConvolutionDescriptor",
        input_feature_channel_count=shapes[0][1],
        output_feature_channel_count=count,
        **kind,
        **arguments(options),
    )
    return written("MLCConvolutionLayer", **biased(options, names), descriptor=Text(descriptor))


def compute_convolution(t: Any, options: Options, sources: list[Any], at: Any) -> Any:
    groups, read, count = channels(options, list(sources[0].shape))
    biases = at["biases"].reshape(-1) if options["biases"] else None
    strides, dilation = tuple(options["strides"]), tuple(options["dilation"])
    if is_transposed(options):
        weights = at["weights"].reshape(-1, options["each"], *options["kernel"])
        x = sources[0].contiguous()
        whole = t.nn.functional.conv_transpose2d(x, weights, None, strides, 0, 0, groups, dilation)
        (top, rows), (left, columns) = transposed_sides(options, list(x.shape))
        short = [max(0, cut + size - have) for (cut, size), have in
                 (((left, columns), whole.shape[3]), ((top, rows), whole.shape[2]))]  # fmt: skip
        whole = t.nn.functional.pad(whole, (0, short[0], 0, short[1]))
        y = whole[..., top : top + rows, left : left + columns]
        return y if biases is None else y + biases.reshape(1, -1, 1, 1)
    weights = at["weights"].reshape(count, read, *options["kernel"])
    x = padded(t, sources[0], options)
    # PyTorch 2.13 gives wrong gradients of grouped weights where channels lie last.
    x = x.contiguous()
    return t.nn.functional.conv2d(x, weights, biases, strides, 0, dilation, groups)


# --- matrix products


def draw_matmul(drawing: Any, shape: Shape) -> dict[str, Any]:
    need(len(shape) >= 2)
    options = {"alpha": drawing.choice([1.0, 0.5, -1.3])}
    options["transposes_x"] = drawing.chance(0.3) and not (drawing.batch and len(shape) == 2)
    options["transposes_y"] = turned = drawing.chance(0.3)
    inner = shape[-2] if options["transposes_x"] else shape[-1]

    def fits(other: Shape) -> bool:
        several = len(other) == len(shape) > 2 if drawing.batch else len(other) > 1
        return several and other[-1 if turned else -2] == inner

    if drawing.chance(0.5) and (found := drawing.flow(fits, "")):
        return {"options": options, "more": [found]}
    width = drawing.choice([1, 3, 4, 8, 17])
    other = [width, inner] if turned else [inner, width]
    if drawing.chance(0.4):
        lead = shape[int(drawing.batch) : -2]
        other = [*(extent if drawing.chance(0.5) else 1 for extent in lead), *other]
    role = drawing.choice(["constant", "trained"])
    return {"options": options, "more": [drawing.value(role, other)]}


def matmul_shape(options: Options, shapes: list[Shape]) -> list[Shape]:
    x, y = (list(shape) for shape in shapes)
    need(len(x) >= 2 and len(y) >= 2)
    if options["transposes_x"]:
        x[-2:] = x[:-3:-1]
    if options["transposes_y"]:
        y[-2:] = y[:-3:-1]
    need(x[-1] == y[-2])
    return [[*joined(x[:-2], y[:-2]), x[-2], y[-1]]]


def compute_matmul(t: Any, options: Options, sources: list[Any], at: Any) -> Any:
    x, y = sources
    x = x.transpose(-1, -2) if options["transposes_x"] else x
    y = y.transpose(-1, -2) if options["transposes_y"] else y
    return single(options["alpha"]) * (x @ y)


# --- batch normalization


def draw_normalization(drawing: Any, shape: Shape) -> dict[str, Any]:
    need(len(shape) > 1)
    options = {"momentum": drawing.choice([0.5, 0.9, 0.99])}
    options["variance_epsilon"] = drawing.choice([1e-5, 1e-3])
    options["parameters"] = drawing.choice(["plain", "row", "image"])
    return {"options": options}


def normalization_shape(options: Options, shapes: list[Shape]) -> list[Shape]:
    need(1 < len(shapes[0]) <= 4)
    return same(options, shapes)


def normalization_parameters(options: Options, shapes: list[Shape]) -> Parameters:
    shape = bias_shape({"biases": options["parameters"]}, shapes[0][1])
    kinds = {"mean": "zeros", "variance": "ones", "beta": "normal", "gamma": "near 1"}
    left_out = options.get("left_out", ())
    return {role: (shape, kind, 0.5) for role, kind in kinds.items() if role not in left_out}


def normalization_expression(options: Options, shapes: list[Shape], names: dict[str, str]) -> str:
    numbers = {key: options[key] for key in ("variance_epsilon", "momentum")}
    tensors = {role: Text(name) for role, name in names.items()}
    count = shapes[0][1]
    return written("MLCBatchNormalizationLayer", feature_channel_count=count, **tensors, **numbers)


def compute_normalization(t: Any, options: Options, sources: list[Any], at: Any) -> Any:
    x, epsilon = sources[0], single(options["variance_epsilon"])
    shape = [1, -1] + [1] * (x.dim() - 2)
    if at.frozen:
        mean, variance = at["mean"].reshape(shape), at["variance"].reshape(shape)
        unit = (x - mean) / t.sqrt(variance + epsilon)
    else:
        axes = tuple(axis for axis in range(x.dim()) if axis != 1)
        unit, mean, variance = normalized(t, x, axes, epsilon, at)
        kept = single(options["momentum"])
        for role, new in (("mean", mean), ("variance", variance)):
            moved = kept * at[role].reshape(-1) + (1 - kept) * new.detach().reshape(-1)
            at[role] = moved.reshape(at[role].shape)
    return scaled(unit, at, shape)


LAYERS = {
    "MLCFullyConnectedLayer": Layer(
        draw_full, full_shape, full_expression, compute_full, full_parameters, often=4
    ),
    "MLCConvolutionLayer": Layer(
        draw_convolution,
        convolution_shape,
        convolution_expression,
        compute_convolution,
        convolution_parameters,
        often=6,
    ),
    "MLCMatMulLayer": Layer(
        draw_matmul,
        matmul_shape,
        lambda options, shapes, names: written(
            "MLCMatMulLayer", descriptor=Text(written("MLCMatMulDescriptor", **options))
        ),
        compute_matmul,
    ),
    "MLCBatchNormalizationLayer": Layer(
        draw_normalization,
        normalization_shape,
        normalization_expression,
        compute_normalization,
        normalization_parameters,
        running=("mean", "variance"),
        often=3,
    ),
}
