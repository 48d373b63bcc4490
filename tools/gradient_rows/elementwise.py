"""Rows of layers over elements that stay in their places, and of dropout."""

from typing import Any

from random_graphs.elementwise import ARITHMETIC
from random_graphs.layer import Layer, joined, need, written
from random_graphs.table import LAYERS

from .sample import SHAPES, SIZES, TIES, Row, Sample, Values, coarse

Choice = dict[str, Any]


# --- arithmetic

# Of one source: where each may be, away from its poles.
DOMAINS: dict[str, tuple[float, float]] = {
    "sqrt": (0.25, 4), "rsqrt": (0.25, 4), "sin": (-4, 4), "cos": (-4, 4), "tan": (-1.25, 1.25),
    "asin": (-0.875, 0.875), "acos": (-0.875, 0.875), "atan": (-4, 4), "sinh": (-2, 2),
    "cosh": (-2, 2), "tanh": (-2, 2), "asinh": (-4, 4), "acosh": (1.25, 5),
    "atanh": (-0.875, 0.875), "exp": (-2, 2), "exp2": (-2, 2), "log": (0.25, 4), "log2": (0.25, 4),
    "floor": (-4, 4), "round": (-4, 4), "ceil": (-4, 4),
}  # fmt: skip
OF_TWO = [*ARITHMETIC, "divide_no_nan", "pow"]
STEPS = ("floor", "round", "ceil")


def compute(t: Any, options: Choice, sources: list[Any], at: Any) -> Any:
    operation = options["operation"]
    if operation == "divide_no_nan":
        return sources[0] / sources[1]
    if operation in ARITHMETIC:
        return ARITHMETIC[operation](*sources)
    return getattr(t, operation)(*sources)


ARITHMETIC_LAYER = Layer(
    LAYERS["MLCArithmeticLayer"].draw,
    lambda options, shapes: [joined(*shapes)],
    LAYERS["MLCArithmeticLayer"].expression,
    compute,
)
OTHER = {
    "same": lambda shape: shape,
    "column": lambda shape: [*shape[:-1], 1],
    "row": lambda shape: shape[-1:],
    "leading": lambda shape: [1, *shape[1:]],
}


def arithmetic(operation: str) -> Row:
    if operation in DOMAINS:
        low, high = DOMAINS[operation]

        def of_one(choice: Choice) -> Sample:
            source = Values(SHAPES[choice["size"]], low, high)
            at_ends = coarse(choice) if operation in STEPS else 0.0
            return Sample(ARITHMETIC_LAYER, {"operation": operation}, [source], coarse=at_ends)

        sizes = TIES if operation in STEPS else SIZES
        return Row("MLCArithmeticLayer", operation, {"size": sizes}, of_one)

    def of_two(choice: Choice) -> Sample:
        shape = SHAPES[choice["size"]]
        sources = [Values(shape), Values(OTHER[choice["other"]](shape))]
        if operation in ("divide", "divide_no_nan"):
            sources[1] = Values(sources[1].shape, 0.5, 2, "signed")
        if operation == "pow":
            sources[0] = Values(shape, 0.5, 2.5)
        if choice["turned"]:
            need(operation not in ("divide", "divide_no_nan", "pow"))
            sources.reverse()
        return Sample(ARITHMETIC_LAYER, {"operation": operation}, sources, coarse=coarse(choice))

    turned = [False] if operation in ("divide", "divide_no_nan", "pow") else [False, True]
    sizes = TIES if operation in ("min", "max") else SIZES
    factors = {"size": sizes, "other": list(OTHER), "turned": turned}
    return Row("MLCArithmeticLayer", operation, factors, of_two)


# --- comparison and selection

RELATIONS = {
    "equal": "eq", "not_equal": "ne", "less": "lt", "greater": "gt", "less_or_equal": "le",
    "greater_or_equal": "ge",
}  # fmt: skip
LOGICAL = {
    "logical_and": lambda t, x, y: x & y, "logical_or": lambda t, x, y: x | y,
    "logical_not": lambda t, x: ~x, "logical_nand": lambda t, x, y: ~(x & y),
    "logical_nor": lambda t, x, y: ~(x | y), "logical_xor": lambda t, x, y: x ^ y,
}  # fmt: skip


def compared(t: Any, options: Choice, sources: list[Any], at: Any) -> Any:
    operation = options["operation"]
    if operation in LOGICAL:
        return LOGICAL[operation](t, *sources)
    return getattr(t, RELATIONS[operation])(*sources)


COMPARISON = Layer(
    lambda drawing, shape: {},
    lambda options, shapes: [joined(*shapes)],
    lambda options, shapes, names: written("MLCComparisonLayer", **options),
    compared,
)


def comparison(operation: str) -> Row:
    logical = operation in LOGICAL

    def make(choice: Choice) -> Sample:
        shape = SHAPES[choice["size"]]
        kind = "boolean" if logical else "float"
        sources = [Values(shape, kind=kind)]
        if operation != "logical_not":
            sources.append(Values(OTHER[choice["other"]](shape), kind=kind))
        return Sample(COMPARISON, {"operation": operation}, sources, coarse=coarse(choice))

    factors = {"size": SIZES if logical else TIES, "other": list(OTHER)}
    if operation == "logical_not":
        del factors["other"]
    return Row("MLCComparisonLayer", operation, factors, make, moves=not logical,
               has_gradient=False)  # fmt: skip


def selection(choice: Choice) -> Sample:
    shape = SHAPES[choice["size"]]
    shapes = [OTHER[choice[name]](shape) for name in ("condition", "first", "second")]
    need(joined(*shapes) == shape)
    sources = [Values(shapes[0], kind="boolean"), Values(shapes[1]), Values(shapes[2])]
    return Sample(LAYERS["MLCSelectionLayer"], {}, sources)


# --- dropout


def dropout(choice: Choice) -> Sample:
    options = {"rate": choice["rate"], "seed": choice["seed"]}
    layer = LAYERS["MLCDropoutLayer"]
    source = Values(SHAPES[choice["size"]])
    return Sample(layer, options, [source], is_random=choice["rate"] > 0)


ROWS = [
    *(arithmetic(operation) for operation in [*OF_TWO, *DOMAINS]),
    *(comparison(operation) for operation in [*RELATIONS, *LOGICAL]),
    Row(
        "MLCSelectionLayer",
        "",
        {"size": SIZES, "condition": list(OTHER), "first": list(OTHER), "second": list(OTHER)},
        selection,
        moves=True,
    ),
    Row("MLCDropoutLayer", "", {"size": SIZES, "rate": [0.0, 0.25, 0.5], "seed": [0, 5]}, dropout),
]
