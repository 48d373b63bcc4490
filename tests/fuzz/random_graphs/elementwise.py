"""Layers over elements that stay in their places."""

from typing import Any

from .layer import Layer, Options, Shape, joined, need, same, single, written


def draw_arithmetic(drawing: Any, shape: Shape) -> dict[str, Any]:
    if drawing.chance(0.4):
        return {"options": {"operation": drawing.choice(list(FUNCTIONS))}}
    operation = drawing.choice(list(ARITHMETIC))
    if operation != "divide" and drawing.chance(0.5):
        other = drawing.flow(lambda s: s == shape)
    elif operation != "divide" and drawing.chance(0.4):
        other = drawing.flow(lambda s: drawing.broadcasts(shape, s))
    else:
        small = [extent if drawing.chance(0.6) else 1 for extent in shape]
        if drawing.batch:
            small[0] = 1
        if drawing.chance(0.3):
            small = small[drawing.random.randrange(len(small)) :]
        kind = "positive" if operation == "divide" else "normal"
        other = drawing.value(drawing.choice(["constant", "trained"]), small, kind)
    fields: dict[str, Any] = {"options": {"operation": operation}, "more": [other]}
    return fields | {"turned": operation != "divide" and drawing.chance(0.3)}


ARITHMETIC: dict[str, Any] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "multiply_no_nan": lambda x, y: x * y,
    "min": lambda x, y: (x + y - (x - y).abs()) / 2,
    "max": lambda x, y: (x + y + (x - y).abs()) / 2,
}
# Of one source, wherever it lies, and not steeper than it may be in a program of many layers.
FUNCTIONS = ["sin", "cos", "atan", "tanh", "asinh"]


def compute_arithmetic(t: Any, options: Options, sources: list[Any], at: Any) -> Any:
    operation = options["operation"]
    if operation in FUNCTIONS:
        return getattr(t, operation)(sources[0])
    return ARITHMETIC[operation](*sources)


def draw_reduction(drawing: Any, shape: Shape) -> dict[str, Any]:
    axes = [k for k in range(int(drawing.batch), len(shape)) if drawing.chance(0.5)]
    kind = drawing.choice(["sum", "mean", "max", "min", "l1_norm"])
    drawing.random.shuffle(axes)
    return {"options": {"reduction_type": kind, "dimensions": axes}}


def reduced_shape(options: Options, shapes: list[Shape]) -> list[Shape]:
    axes = options["dimensions"]
    need(bool(axes) and max(axes) < len(shapes[0]))
    return [[1 if k in axes else extent for k, extent in enumerate(shapes[0])]]


def compute_reduction(t: Any, options: Options, sources: list[Any], at: Any) -> Any:
    x, axes, kind = sources[0], options["dimensions"], options["reduction_type"]
    if kind in ("sum", "mean"):
        return getattr(x, kind)(axes, keepdim=True)
    if kind == "l1_norm":
        return x.abs().sum(axes, keepdim=True)
    for axis in sorted(axes, reverse=True):  # the first of equals
        x = getattr(x, kind)(axis, keepdim=True).values
    return x


def draw_selection(drawing: Any, shape: Shape) -> dict[str, Any]:
    if drawing.chance(0.5):
        condition = drawing.value("input", shape, "boolean")
    else:
        small = [extent if drawing.chance(0.7) else 1 for extent in shape]
        if drawing.batch:
            small[0] = 1
        condition = drawing.value("constant", small, "boolean")
    other = drawing.flow(lambda s: s == shape)
    return {"options": {}, "before": [condition], "more": [other]}


def draw_dropout(drawing: Any, shape: Shape) -> dict[str, Any]:
    """Masks are the same on all devices, but the reference's alone can be known beside."""
    rate = drawing.choice([0.0, 0.25, 0.5]) if drawing.judged_by_reference else 0.0
    return {"options": {"rate": rate, "seed": drawing.random.randrange(1, 1000)}}


def compute_dropout(t: Any, options: Options, sources: list[Any], at: Any) -> Any:
    assert single(options["rate"]) == 0
    return sources[0] * 1


def draw_gram_matrix(drawing: Any, shape: Shape) -> dict[str, Any]:
    return {"options": {"scale": drawing.choice([1.0, 0.25])}}


def gram_matrix_shape(options: Options, shapes: list[Shape]) -> list[Shape]:
    need(len(shapes[0]) == 4)
    return [[shapes[0][0], shapes[0][1], 1, shapes[0][1]]]


def compute_gram_matrix(t: Any, options: Options, sources: list[Any], at: Any) -> Any:
    rows = sources[0].flatten(2)
    return single(options["scale"]) * (rows @ rows.transpose(1, 2)).unsqueeze(2)


LAYERS = {
    "MLCGramMatrixLayer": Layer(
        draw_gram_matrix,
        gram_matrix_shape,
        lambda options, shapes, names: written("MLCGramMatrixLayer", **options),
        compute_gram_matrix,
    ),
    "MLCArithmeticLayer": Layer(
        draw_arithmetic,
        lambda options, shapes: [joined(*shapes)],
        lambda options, shapes, names: written("MLCArithmeticLayer", **options),
        compute_arithmetic,
        often=3,
    ),
    "MLCReductionLayer": Layer(
        draw_reduction,
        reduced_shape,
        lambda options, shapes, names: written("MLCReductionLayer", **options),
        compute_reduction,
    ),
    "MLCSelectionLayer": Layer(
        draw_selection,
        lambda options, shapes: [joined(*shapes)],
        lambda options, shapes, names: written("MLCSelectionLayer"),
        lambda t, options, sources, at: t.where(*sources),
    ),
    "MLCDropoutLayer": Layer(
        draw_dropout,
        same,
        lambda options, shapes, names: written("MLCDropoutLayer", **options),
        compute_dropout,
    ),
}
