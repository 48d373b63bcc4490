"""Layers over elements that stay in their places."""

from typing import Any

from .layer import Layer, Options, Shape, joined, same, single, written


def draw_arithmetic(drawing: Any, shape: Shape) -> dict[str, Any]:
    operation = drawing.choice(["add", "subtract", "multiply", "divide"])
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
}


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


LAYERS = {
    "MLCArithmeticLayer": Layer(
        draw_arithmetic,
        lambda options, shapes: [joined(*shapes)],
        lambda options, shapes, names: written("MLCArithmeticLayer", **options),
        lambda t, options, sources, at: ARITHMETIC[options["operation"]](*sources),
        often=3,
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
