"""Normalizations, with data sources and without, and softmax."""

from typing import Any

from random_graphs.layer import Layer, Options, Shape, Text, need, same, single
from random_graphs.normalizing import normalized

from .writing import Names, node, plain

Parameters = dict[str, tuple[Shape, str, float]]
LOCAL = {"alpha": [0.3, 1.0], "beta": [0.5, 0.75], "delta": [1.0, 1.5]}
CONTRAST = {"p0": [1.0, 0.5], "pm": [0.0, 0.25], "ps": [1.0, 2.0]}


# --- gamma and beta


def draw_affine(drawing: Any, shape: Shape) -> dict[str, Any]:
    options = {"epsilon": drawing.choice([1e-5, 1e-3, 0.1]), "channels": shape[1]}
    divisors = [d for d in range(1, shape[1] + 1) if shape[1] % d == 0]
    return {"options": options | {"groups": drawing.choice(divisors)}}


def affine_shape(options: Options, shapes: list[Shape]) -> list[Shape]:
    need(shapes[0][1] == options["channels"] and shapes[0][1] % options["groups"] == 0)
    return same(options, shapes)


def affine_parameters(options: Options, shapes: list[Shape]) -> Parameters:
    shape = [options["channels"]]
    return {"gamma": (shape, "near 1", 0.5), "beta": (shape, "normal", 0.5)}


def scaled(x: Any, at: Any) -> Any:
    return x * at["gamma"].reshape(1, -1, 1, 1) + at["beta"].reshape(1, -1, 1, 1)


def compute_batch(t: Any, options: Options, sources: list[Any], at: Any) -> Any:
    """Statistics of the batch; by a node alone those of its data source, which are 0 and 1."""
    x, epsilon = sources[0], single(options["epsilon"])
    if at.inference:
        return scaled(x / t.sqrt(t.ones_like(x) + epsilon), at)
    unit, mean, variance = normalized(t, x, (0, 2, 3), epsilon, at)
    at["statistics"] = t.cat([mean.reshape(-1), variance.reshape(-1)]).detach()
    return scaled(unit, at)


def compute_groups(t: Any, options: Options, sources: list[Any], at: Any) -> Any:
    rows = sources[0].reshape(sources[0].shape[0], options["groups"], -1)
    unit, _, _ = normalized(t, rows, (2,), single(options["epsilon"]), at)
    return scaled(unit.reshape(sources[0].shape), at)


def compute_instance(t: Any, options: Options, sources: list[Any], at: Any) -> Any:
    return compute_groups(t, {**options, "groups": options["channels"]}, sources, at)


def affine(name: str, compute: Any) -> Layer:
    def expression(options: Options, shapes: list[Shape], names: Names) -> str:
        return node(name, names, {}, data_source=Text(names["data"]))

    return Layer(draw_affine, affine_shape, expression, compute, affine_parameters, often=3)


# --- of a window


def window_mean(t: Any, x: Any, rows: int, columns: int) -> Any:
    """Over windows that reach floor(k / 2) before and floor((k - 1) / 2) behind, zeros beyond."""
    margins = (columns // 2, (columns - 1) // 2, rows // 2, (rows - 1) // 2)
    wide = t.nn.functional.pad(x, margins)
    return t.nn.functional.avg_pool2d(wide, (rows, columns), 1)


def channel_mean(t: Any, x: Any, size: int) -> Any:
    flat = x.reshape(x.shape[0], 1, x.shape[1], -1)
    return window_mean(t, flat, size, 1).reshape(x.shape)


def draw_local(drawing: Any, shape: Shape) -> dict[str, Any]:
    numbers = {key: drawing.choice(of) for key, of in (LOCAL | CONTRAST).items()}
    sizes = [drawing.choice([1, 2, 3, 4, 5]), drawing.choice([1, 2, 3, 4, 5])]
    return {"options": {"sizes": sizes, "numbers": numbers}}


def local(name: str, compute: Any, contrast: bool = False) -> Layer:
    def expression(options: Options, shapes: list[Shape], names: Names) -> str:
        keys = LOCAL | (CONTRAST if contrast else {})
        given = {key: options["numbers"][key] for key in keys}
        rows, columns = options["sizes"]
        if "CrossChannel" not in name:
            given |= {"kernel_height": rows, "kernel_width": columns}
        return node(name, names, given, kernel_size=rows)

    def computed(t: Any, options: Options, sources: list[Any], at: Any) -> Any:
        numbers = {key: single(value) for key, value in options["numbers"].items()}
        return compute(t, sources[0], options["sizes"], numbers)

    return Layer(draw_local, same, expression, computed)


def divisor(mean: Any, n: Options) -> Any:
    return (n["delta"] + n["alpha"] * mean) ** n["beta"]


def compute_cross(t: Any, x: Any, sizes: Shape, n: Options) -> Any:
    return x / divisor(channel_mean(t, x * x, sizes[0]), n)


def compute_spatial(t: Any, x: Any, sizes: Shape, n: Options) -> Any:
    return x / divisor(window_mean(t, x * x, *sizes), n)


def compute_contrast(t: Any, x: Any, sizes: Shape, n: Options) -> Any:
    mean = window_mean(t, x, *sizes)
    variance = window_mean(t, x * x, *sizes) - mean * mean
    return n["pm"] + n["ps"] * (x - n["p0"] * mean) / divisor(variance, n)


NODES = {
    "MPSCNNBatchNormalizationNode": affine("MPSCNNBatchNormalizationNode", compute_batch),
    "MPSCNNInstanceNormalizationNode": affine("MPSCNNInstanceNormalizationNode", compute_instance),
    "MPSCNNGroupNormalizationNode": affine("MPSCNNGroupNormalizationNode", compute_groups),
    "MPSCNNCrossChannelNormalizationNode": local(
        "MPSCNNCrossChannelNormalizationNode", compute_cross
    ),
    "MPSCNNSpatialNormalizationNode": local("MPSCNNSpatialNormalizationNode", compute_spatial),
    "MPSCNNLocalContrastNormalizationNode": local(
        "MPSCNNLocalContrastNormalizationNode", compute_contrast, contrast=True
    ),
    "MPSCNNSoftMaxNode": plain(
        "MPSCNNSoftMaxNode", lambda t, options, sources, at: t.softmax(sources[0], 1)
    ),
    "MPSCNNLogSoftMaxNode": plain(
        "MPSCNNLogSoftMaxNode", lambda t, options, sources, at: t.log_softmax(sources[0], 1)
    ),
}
