"""Rows of reductions."""

from typing import Any

from random_graphs.elementwise import compute_reduction, reduced_shape
from random_graphs.layer import Layer, need, written
from random_graphs.table import LAYERS

from .sample import SHAPES, SIZES, TIES, Row, Sample, Values, coarse

Choice = dict[str, Any]
AXES = [[0], [1], [2], [3], [0, 1], [2, 1], [3, 0], [0, 1, 2], [3, 2, 1, 0]]
DIFFERENTIABLE = ("sum", "mean", "max", "min", "l1_norm")
PLACES = {"arg_max": "argmax", "arg_min": "argmin"}


def compute(t: Any, options: Choice, sources: list[Any], at: Any) -> Any:
    x, axes, kind = sources[0], options["dimensions"], options["reduction_type"]
    if kind in PLACES:
        # PyTorch does not say which of equals it gives.
        x = x.numpy(force=True)
        numpy = __import__("numpy")
        return t.tensor(getattr(numpy, PLACES[kind])(x, axis=axes[0], keepdims=True))
    if kind in ("any", "all"):
        for one in axes:
            x = getattr(t, kind)(x, one, keepdim=True)
        return x.to(sources[0].dtype)
    return compute_reduction(t, options, sources, at)


REDUCTION = Layer(
    LAYERS["MLCReductionLayer"].draw,
    reduced_shape,
    lambda options, shapes, names: written("MLCReductionLayer", **options),
    compute,
)


def reduction(kind: str) -> Row:
    def make(choice: Choice) -> Sample:
        shape = SHAPES[choice["size"]]
        axes = choice["dimensions"]
        need(max(axes) < len(shape))
        # One value of so many terms has lost the digits of its differences.
        need(choice["size"] != "large" or len(axes) == 1)
        options = {"reduction_type": kind, "dimensions": axes}
        whole = kind in ("any", "all")
        source = Values(shape, kind=choice["type"]) if whole else Values(shape)
        return Sample(REDUCTION, options, [source], coarse=coarse(choice))

    axes = AXES[:4] if kind in PLACES else AXES
    factors: Choice = {"size": SIZES if kind in ("sum", "mean") else TIES, "dimensions": axes}
    if kind in ("any", "all"):
        factors["type"] = ["float", "boolean"]
    return Row("MLCReductionLayer", kind, factors, make, has_gradient=kind in DIFFERENTIABLE)


ROWS = [reduction(kind) for kind in [*DIFFERENTIABLE, *PLACES, "any", "all"]]
