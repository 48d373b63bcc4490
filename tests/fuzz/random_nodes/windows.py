"""Pooling and convolutions of all kinds."""

import math
from typing import Any

from random_graphs.layer import Layer, Options, Shape, Text, need, reached
from random_graphs.weighted import channels
from random_graphs.windows import before, compute_pooling, padded, pooling_shape, sides

from .writing import Names, call, node

Parameters = dict[str, tuple[Shape, str, float]]


def draw_window(drawing: Any, kernels: list[int]) -> Options:
    """With a padding policy, or none, which is the same size, centered."""

    def pair(choices: list[int]) -> list[int]:
        first = drawing.choice(choices)
        return [first, first if drawing.chance(0.5) else drawing.choice(choices)]

    window = {"kernel": pair(kernels), "strides": pair([1, 1, 1, 2, 3]), "policy": "aligned"}
    window |= {"dilation": [1, 1], "size": "same", "align": "centered", "remainder": [0, 0]}
    if drawing.chance(0.7):
        window["size"] = drawing.choice(["same", "valid_only", "full"])
        window["align"] = drawing.choice(["centered", "centered", "top_left", "bottom_right"])
        window["remainder"] = [drawing.choice([0, 1]), drawing.choice([0, 1])]
    return window


def policy(options: Options) -> dict[str, Any]:
    """The property of a node; the corner's flag counts where it is centered."""
    flags = [f"SIZE_{options['size'].upper()}", f"ALIGN_{options['align'].upper()}"]
    rows, columns = (("TOP", "BOTTOM")[options["remainder"][0]],
                     ("LEFT", "RIGHT")[options["remainder"][1]])  # fmt: skip
    flags.append(f"ADD_REMAINDER_TO_{rows}_{columns}")
    if options.get("excludes"):
        flags.append("EXCLUDE_EDGES")
    usual = ["SIZE_SAME", "ALIGN_CENTERED", "ADD_REMAINDER_TO_TOP_LEFT"]
    given = Text(" | ".join(f"mps.MPSNNPaddingMethod.{flag}" for flag in flags))
    return {} if flags == usual else {"padding_policy": given}


# --- pooling


def draw_pooling(kind: str, dilated: bool) -> Any:
    def draw(drawing: Any, shape: Shape) -> dict[str, Any]:
        options = draw_window(drawing, [1, 2, 3, 5]) | {"type": kind, "counted": False}
        if dilated:
            options["dilation"] = [drawing.choice([1, 2, 3]), drawing.choice([1, 2, 3])]
        if kind == "average":
            options["excludes"] = drawing.chance(0.5)
            options["counted"] = not options["excludes"]
        return {"options": options}

    return draw


def pooling(name: str, kind: str, dilated: bool = False) -> Layer:
    def expression(options: Options, shapes: list[Shape], names: Names) -> str:
        (height, width), (y, x) = options["kernel"], options["strides"]
        given = {"kernel_width": width, "kernel_height": height}
        given |= {"stride_in_pixels_x": x, "stride_in_pixels_y": y}
        if dilated:
            rows, columns = options["dilation"]
            given |= {"dilation_rate_x": columns, "dilation_rate_y": rows}
        return node(name, names, policy(options), **given)

    return Layer(draw_pooling(kind, dilated), pooling_shape, expression, compute_pooling, often=2)


# --- convolutions


def draw_convolution(drawing: Any, shape: Shape) -> dict[str, Any]:
    divisors = [d for d in range(1, shape[1] + 1) if shape[1] % d == 0]
    options = draw_window(drawing, [1, 1, 2, 3, 3, 4])
    options["dilation"] = [drawing.choice([1, 1, 2, 3]), drawing.choice([1, 1, 2])]
    options["groups"] = drawing.choice(divisors) if drawing.chance(0.3) else 1
    options["each"] = drawing.choice([1, 2, 3, 4, 8] if options["groups"] == 1 else [1, 2, 3])
    options["depthwise"] = drawing.chance(0.2)
    options["biases"] = drawing.chance(0.7)
    return {"options": options}


def weights(options: Options, shapes: list[Shape]) -> Parameters:
    _, read, count = channels(options, shapes[0])
    lead = [count, *options["kernel"], read]
    scale = 1 / math.sqrt(read * math.prod(options["kernel"]))
    found: Parameters = {"weights": (lead, "normal", scale)}
    return found | ({"biases": ([count], "normal", 0.5)} if options["biases"] else {})


def descriptor(options: Options, shape: Shape) -> str:
    _, _, count = channels(options, shape)
    (height, width), (y, x), (rows, columns) = (
        options[key] for key in ("kernel", "strides", "dilation")
    )
    kind = "DepthWise" if options["depthwise"] else ""
    made = call(
        f"MPSCNN{kind}ConvolutionDescriptor.cnn_convolution_descriptor", with_kernel_width=width,
        kernel_height=height, input_feature_channels=shape[1], output_feature_channels=count,
    )  # fmt: skip
    given = {"stride_in_pixels_x": x, "stride_in_pixels_y": y}
    given |= {"dilation_rate_x": columns, "dilation_rate_y": rows}
    if not options["depthwise"]:
        given["groups"] = options["groups"]
    return f"made({made}, {', '.join(f'{key}={value}' for key, value in given.items())})"


def convolution_shape(options: Options, shapes: list[Shape]) -> list[Shape]:
    found = [shapes[0][0], channels(options, shapes[0])[2]]
    found += [count for _, _, count in sides(options, shapes[0])]
    check_work(options, shapes[0], found)
    return [found]


def check_work(options: Options, shape: Shape, result: Shape) -> None:
    taps = math.prod(options["kernel"]) * channels(options, shape)[1]
    need(max(math.prod(result), math.prod(shape)) * taps < 1e6, "much work")


def weighted(name: str) -> Any:
    def expression(options: Options, shapes: list[Shape], names: Names) -> str:
        given = {"weights": Text(names["data"])}
        if undone := options.get("undoes"):
            state = Text(f"{undone['node']}.convolution_gradient_state")
            return node(name, names, {}, convolution_gradient_state=state, **given)
        return node(name, names, policy(options), **given)

    return expression


def compute_convolution(t: Any, options: Options, sources: list[Any], at: Any) -> Any:
    groups, read, count = channels(options, list(sources[0].shape))
    kernel = at["weights"].reshape(count, *options["kernel"], read).permute(0, 3, 1, 2)
    strides, dilation = tuple(options["strides"]), tuple(options["dilation"])
    x = padded(t, sources[0], options)
    # PyTorch 2.13 gives wrong gradients of grouped weights where channels lie last.
    x = x.contiguous()
    return t.nn.functional.conv2d(x, kernel, at.get("biases"), strides, 0, dilation, groups)


def draw_full(drawing: Any, shape: Shape) -> dict[str, Any]:
    options = {"kernel": shape[2:], "strides": [1, 1], "dilation": [1, 1], "groups": 1}
    options |= {"each": drawing.choice([1, 2, 3, 4, 8, 17]), "depthwise": False}
    return {"options": options | {"biases": drawing.chance(0.7)}}


def full_shape(options: Options, shapes: list[Shape]) -> list[Shape]:
    need(options["kernel"] == shapes[0][2:])
    found = [shapes[0][0], options["each"], 1, 1]
    check_work(options, shapes[0], found)
    return [found]


def compute_full(t: Any, options: Options, sources: list[Any], at: Any) -> Any:
    x = sources[0]
    kernel = at["weights"].reshape(options["each"], *options["kernel"], x.shape[1])
    return t.nn.functional.conv2d(x, kernel.permute(0, 3, 1, 2), at.get("biases"))


# --- transposed convolution


def draw_transposed(drawing: Any, shape: Shape) -> dict[str, Any]:
    fields = draw_convolution(drawing, shape)
    fields["options"]["depthwise"] = False
    if drawing.chance(0.8):
        fields["options"] |= draw_undone(drawing, shape)
    return fields


def draw_undone(drawing: Any, shape: Shape) -> Options:
    """A convolution before the source, whose state says the size of the result."""
    fit = {}
    for name in reached(drawing.nodes, [drawing.source]) & set(drawing.nodes):
        one = drawing.nodes[name]
        if one["layer"] == "MPSCNNConvolutionNode" and drawing.shapes[f"{name}_0"][2:] == shape[2:]:
            fit[name] = one
    if not fit:
        return {}
    name = drawing.choice(sorted(fit))
    own, source = fit[name]["options"], drawing.shapes[fit[name]["sources"][0]]
    window = {key: own[key] for key in ("kernel", "strides", "dilation")}
    first = [begin for begin, _, _ in sides(own, source)]
    return {**window, "undoes": {"node": name, "size": source[2:], "first": first,
                                  "extent": shape[2:]}}  # fmt: skip


def unfolded(options: Options, shape: Shape) -> list[tuple[int, int, int]]:
    """Of rows and columns: what the convolution touches that is undone, its padding before, and
    the extent of the result."""
    found = []
    for k, extent in enumerate(shape[2:]):
        stride = options["strides"][k]
        reach = (options["kernel"][k] - 1) * options["dilation"][k] + 1
        touched = (extent - 1) * stride + reach
        if undone := options.get("undoes"):
            need(extent == undone["extent"][k])
            found.append((touched, undone["first"][k], undone["size"][k]))
            continue
        size = {"same": extent * stride, "full": touched}.get(
            options["size"], touched - 2 * (reach - 1)
        )
        need(size > 0, "no pixels")
        found.append((touched, before(options, k, touched - size), size))
    return found


def transposed_shape(options: Options, shapes: list[Shape]) -> list[Shape]:
    found = [shapes[0][0], channels(options, shapes[0])[2]]
    found += [size for _, _, size in unfolded(options, shapes[0])]
    check_work(options, shapes[0], found)
    return [found]


def compute_transposed(t: Any, options: Options, sources: list[Any], at: Any) -> Any:
    x = sources[0]
    groups, read, count = channels(options, list(x.shape))
    kernel = at["weights"].reshape(groups, count // groups, *options["kernel"], read)
    # Turned by half a circle: PyTorch's is the gradient of a convolution.
    kernel = kernel.permute(0, 4, 1, 2, 3).flip(3, 4)
    kernel = kernel.reshape(groups * read, count // groups, *options["kernel"])
    strides, dilation = tuple(options["strides"]), tuple(options["dilation"])
    x = x.contiguous()  # as above
    all_of_it = t.nn.functional.conv_transpose2d(x, kernel, None, strides, 0, 0, groups, dilation)
    margins = []
    for touched, first, size in reversed(unfolded(options, list(x.shape))):
        margins += [-first, size - touched + first]
    found = t.nn.functional.pad(all_of_it, margins)
    return found if "biases" not in at else found + at["biases"].reshape(1, -1, 1, 1)


NODES = {
    "MPSCNNPoolingMaxNode": pooling("MPSCNNPoolingMaxNode", "max"),
    "MPSCNNPoolingAverageNode": pooling("MPSCNNPoolingAverageNode", "average"),
    "MPSCNNPoolingL2NormNode": pooling("MPSCNNPoolingL2NormNode", "l2_norm"),
    "MPSCNNDilatedPoolingMaxNode": pooling("MPSCNNDilatedPoolingMaxNode", "max", dilated=True),
    "MPSCNNConvolutionNode": Layer(
        draw_convolution, convolution_shape, weighted("MPSCNNConvolutionNode"),
        compute_convolution, weights, often=7,
    ),
    "MPSCNNFullyConnectedNode": Layer(
        draw_full,
        full_shape,
        lambda options, shapes, names: node(
            "MPSCNNFullyConnectedNode", names, {}, weights=Text(names["data"])
        ),
        compute_full,
        weights,
        often=3,
    ),
    "MPSCNNConvolutionTransposeNode": Layer(
        draw_transposed, transposed_shape, weighted("MPSCNNConvolutionTransposeNode"),
        compute_transposed, weights, often=3,
    ),
}  # fmt: skip
