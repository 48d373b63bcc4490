"""Rows of layers that put elements elsewhere, and of reductions."""

import itertools
import math
from typing import Any

from random_graphs.elementwise import compute_reduction, reduced_shape
from random_graphs.layer import Layer, Shape, need, written
from random_graphs.movement import PADDING
from random_graphs.table import LAYERS

from .sample import SHAPES, SIZES, TIES, Row, Sample, Values, coarse

Choice = dict[str, Any]
IMAGES: dict[str, Shape] = {
    "odd": [2, 3, 5, 7], "ones": [1, 6, 1, 1], "vector": [2, 2, 3, 33], "ties": [2, 2, 5, 6],
    "large": [4, 4, 64, 64],
}  # fmt: skip


def axis(choice: Choice, shape: Shape) -> int:
    need(choice["dimension"] < len(shape))
    return int(choice["dimension"])


def sample(name: str, options: Choice, sources: list[Values], **more: Any) -> Sample:
    made = Sample(LAYERS[name], options, sources, **more)
    made.layer.results(options, made.shapes)  # raises where they do not fit
    return made


def concatenation(choice: Choice) -> Sample:
    shape = SHAPES[choice["size"]]
    at = axis(choice, shape)
    extents = [shape[at], *choice["others"]]
    shapes = [[*shape[:at], extent, *shape[at + 1 :]] for extent in extents]
    return sample("MLCConcatenationLayer", {"dimension": at}, [Values(s) for s in shapes])


def reshape(choice: Choice) -> Sample:
    shape = SHAPES[choice["size"]]
    count = math.prod(shape)
    first = next(d for d in (7, 6, 11, 4, 3, 2) if count % d == 0)
    forms = {
        "one axis": [count], "row": [1, count], "two axes": [first, count // first],
        "four axes": [1, first, count // first, 1],
    }  # fmt: skip
    options = {"shape": forms[choice["form"]], "batch": False}
    return sample("MLCReshapeLayer", options, [Values(shape)])


def transpose(choice: Choice) -> Sample:
    shape = IMAGES[choice["size"]][-choice["rank"] :]
    axes = list(itertools.permutations(range(choice["rank"])))
    return sample("MLCTransposeLayer", {"dimensions": list(axes[choice["order"] % len(axes)])},
                  [Values(shape)])  # fmt: skip


def split(choice: Choice) -> Sample:
    shape = SHAPES[choice["size"]]
    at = axis(choice, shape)
    options: Choice = {"dimension": at}
    if choice["parts"] == "sections":
        need(shape[at] > 1)
        options |= {"split_section_lengths": [1, shape[at] - 1]}
    else:
        options |= {"split_count": choice["parts"]}
        need(choice["parts"] <= shape[at])
    return sample("MLCSplitLayer", options, [Values(shape)])


def indices(choice: Choice, shape: Shape, at: int, below: int) -> Values:
    """One per slice, or one per element."""
    form = [shape[at]] if choice["indices"] == "slices" else shape
    return Values(form, kind="index", below=below, dtype=choice["type"])


def gather(choice: Choice) -> Sample:
    shape = SHAPES[choice["size"]]
    at = axis(choice, shape)
    wanted = [*shape[:at], choice["count"], *shape[at + 1 :]]
    picked = indices(choice, wanted, at, shape[at])
    return sample("MLCGatherLayer", {"dimension": at}, [Values(shape), picked])


def embedding(choice: Choice) -> Sample:
    count, dimension, picks = {
        "odd": (7, 3, [2, 5]), "ones": (1, 1, [1]), "vector": (5, 33, [17]),
        "large": (1024, 64, [3, 2, 50]),
    }[choice["size"]]  # fmt: skip
    options = {"count": count, "dimension": dimension, "by_frequency": choice["by_frequency"]}
    why = ""
    if choice["table"] in ("padded", "both"):
        options["padding"] = count // 2
        why = "the row is looked up, and has no gradient"
    if choice["by_frequency"]:
        why = "a mean over picks is no derivative"
    if choice["table"] in ("limited", "both"):
        options |= {"maximum": choice["maximum"], "order": choice["order"]}
        why = "rows that the layer scales stand for themselves"
    else:
        need(choice["maximum"] == 1.0 and choice["order"] == 2.0)
    ids = Values(picks, kind="index", below=count, dtype=choice["type"])
    return sample("MLCEmbeddingLayer", options, [ids], no_differences=why)


def scatter(choice: Choice) -> Sample:
    shape = SHAPES[choice["size"]]
    at = axis(choice, shape)
    given = [*shape[:at], choice["count"], *shape[at + 1 :]]
    places = indices(choice, given, at, shape[at])
    options = {"dimension": at, "reduction_type": choice["reduction"]}
    return sample("MLCScatterLayer", options, [Values(given), places, Values(shape)])


def slices(choice: Choice) -> Sample:
    shape = SHAPES[choice["size"]]
    start = [min(choice["start"], extent - 1) for extent in shape]
    end = [max(extent - choice["left"], begin + 1)
           for extent, begin in zip(shape, start, strict=True)]  # fmt: skip
    strides = [choice["stride"] if k % 2 else 1 for k in range(len(shape))]
    options = {"start": start, "end": end, "stride": strides, "batch": False}
    return sample("MLCSliceLayer", options, [Values(shape)])


def padding(choice: Choice) -> Sample:
    shape = IMAGES[choice["size"]][-choice["rank"] :]
    options = {"sizes": choice["sizes"], "kind": choice["kind"]}
    if choice["kind"] == "constant":
        options |= {"constant_value": choice["value"]}
    return sample("MLCPaddingLayer", options, [Values(shape)])


def upsample(choice: Choice) -> Sample:
    shape = IMAGES[choice["size"]]
    aligned = choice["mode"] == "aligned"
    options = {
        "shape": [shape[2] * choice["rows"], shape[3] + choice["columns"]],
        "sample_mode": "linear" if aligned else choice["mode"], "aligns_corners": aligned,
    }  # fmt: skip
    return sample("MLCUpsampleLayer", options, [Values(shape)])


def gram_matrix(choice: Choice) -> Sample:
    # Of few pixels: one value of many terms has lost the digits of its differences.
    shape = SHAPES["large"] if choice["size"] == "large" else IMAGES[choice["size"]]
    return sample("MLCGramMatrixLayer", {"scale": choice["scale"]}, [Values(shape)])


# --- reductions

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


DIMENSIONS = [0, 1, 2, 3]
TYPES = ["int32", "int64"]
ROWS = [
    Row("MLCConcatenationLayer", "", {"size": SIZES, "dimension": DIMENSIONS,
        "others": [[2], [1, 5], [17]]}, concatenation, moves=True),
    Row("MLCReshapeLayer", "", {"size": SIZES,
        "form": ["one axis", "row", "two axes", "four axes"]}, reshape, moves=True),
    Row("MLCTransposeLayer", "", {"size": SIZES, "rank": [2, 3, 4], "order": list(range(24))},
        transpose, moves=True),
    Row("MLCSplitLayer", "", {"size": SIZES, "dimension": DIMENSIONS,
        "parts": [1, 2, 3, "sections"]}, split, moves=True),
    Row("MLCGatherLayer", "", {"size": SIZES, "dimension": DIMENSIONS, "count": [1, 3, 18],
        "indices": ["slices", "elements"], "type": TYPES}, gather, moves=True),
    Row("MLCScatterLayer", "", {"size": SIZES, "dimension": DIMENSIONS, "count": [1, 3, 18],
        "indices": ["slices", "elements"], "type": TYPES, "reduction": ["none", "sum"]}, scatter,
        moves=True),
    Row("MLCEmbeddingLayer", "", {"size": SIZES, "type": TYPES,
        "table": ["plain", "padded", "limited", "both"], "maximum": [0.5, 1.0],
        "order": [1.0, 2.0, 3.0, math.inf],
        "by_frequency": [False, True]}, embedding),
    Row("MLCSliceLayer", "", {"size": SIZES, "start": [0, 1, 2], "left": [0, 1],
        "stride": [1, 2, 3]}, slices, moves=True),
    Row("MLCPaddingLayer", "", {"size": SIZES, "kind": list(PADDING), "rank": [3, 4],
        "sizes": [[0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 2, 1], [2, 0, 0, 1]], "value": [0.0, 1.0]},
        padding, moves=True),
    Row("MLCUpsampleLayer", "", {"size": SIZES, "rows": [1, 2, 3], "columns": [0, 1, 5],
        "mode": ["nearest", "linear", "aligned"]}, upsample),
    Row("MLCGramMatrixLayer", "", {"size": SIZES, "scale": [1.0, 0.25]}, gram_matrix),
    *(reduction(kind) for kind in [*DIFFERENTIABLE, *PLACES, "any", "all"]),
]  # fmt: skip
