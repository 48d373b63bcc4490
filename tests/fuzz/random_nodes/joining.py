"""Arithmetic of two images, and concatenation."""

from typing import Any

from random_graphs.elementwise import ARITHMETIC
from random_graphs.layer import Layer, Options, Shape, Text, need, single

from .writing import Names, call, dressed

AXES = ("feature_channels", "pixels_y", "pixels_x")
NUMBERS = ("primary_scale", "secondary_scale", "bias", "minimum_value", "maximum_value")
COMPARISONS: dict[str, Any] = {
    "equal": lambda x, y: x == y, "not_equal": lambda x, y: x != y, "less": lambda x, y: x < y,
    "less_or_equal": lambda x, y: x <= y, "greater": lambda x, y: x > y,
    "greater_or_equal": lambda x, y: x >= y,
}  # fmt: skip


def strides(drawing: Any, shape: Shape, other: Shape) -> list[list[int]] | None:
    """0 along an axis where one element stands for all; None where the images do not fit."""
    found = [[1, 1, 1], [1, 1, 1]]
    for axis, (a, b) in enumerate(zip(shape[1:], other[1:], strict=True)):
        if a != b and 1 not in (a, b):
            return None
        if a != b or drawing.chance(0.05):
            found[int(b == 1 or a == b)][axis] = 0
    return found


def draw_arithmetic(drawing: Any, shape: Shape) -> dict[str, Any]:
    if drawing.chance(0.5):
        other = drawing.flow(lambda s: s == shape)
    else:
        other = drawing.flow(lambda s: strides(drawing, shape, s) is not None)
    return with_numbers(drawing, shape, other)


def with_numbers(drawing: Any, shape: Shape, other: str) -> dict[str, Any]:
    options: Options = {"strides": strides(drawing, shape, drawing.shapes[other])}
    choices = {"primary_scale": [0.5, -1.5], "secondary_scale": [2.0, -0.7], "bias": [0.25],
               "minimum_value": [-0.6], "maximum_value": [0.8]}  # fmt: skip
    for key, of in choices.items():
        if drawing.chance(0.25):
            options[key] = drawing.choice(of)
    return {"options": options, "more": [other]}


def draw_division(drawing: Any, shape: Shape) -> dict[str, Any]:
    """By what is not near 0, and off the way of gradients: a division has none."""
    fit = [n for n in drawing.flows if strides(drawing, shape, drawing.shapes[n]) is not None]
    others = [name for name in fit if "NeuronSigmoid" in drawing.layer_of(name)]
    need(bool(others))
    return with_numbers(drawing, shape, drawing.choice(others)) | {"stop": True}


def draw_comparison(drawing: Any, shape: Shape) -> dict[str, Any]:
    fields = draw_arithmetic(drawing, shape)
    fields["options"]["comparison_type"] = drawing.choice(sorted(COMPARISONS))
    return fields | {"stop": True}


def arithmetic_shape(options: Options, shapes: list[Shape]) -> list[Shape]:
    found = [shapes[0][0]]
    for axis, (a, b) in enumerate(zip(shapes[0][1:], shapes[1][1:], strict=True)):
        over = [pair[axis] for pair in options["strides"]]
        need(a == b or (1 in (a, b) and over == [int(a != 1), int(b != 1)]), "sizes")
        found.append(max(a, b))
    return [found]


def seen(x: Any, over: list[int]) -> Any:
    """Along a stride of 0 the first element stands for all."""
    for axis, stride in enumerate(over):
        x = x if stride else x.narrow(1 + axis, 0, 1)
    return x


def compute(t: Any, operation: Any, options: Options, sources: list[Any]) -> Any:
    numbers = {key: single(options[key]) for key in NUMBERS if key in options}
    x, y = (seen(one, over) for one, over in zip(sources, options["strides"], strict=True))
    x, y = x * numbers.get("primary_scale", 1), y * numbers.get("secondary_scale", 1)
    found = operation(x, y).to(sources[0].dtype) + numbers.get("bias", 0)
    low, high = numbers.get("minimum_value"), numbers.get("maximum_value")
    shape = [max(pair) for pair in zip(*(one.shape for one in sources), strict=True)]
    found = found if low is None and high is None else found.clamp(low, high)
    return found.expand(shape)


def arithmetic(name: str, operation: str, draw: Any = draw_arithmetic, often: int = 2) -> Layer:
    def expression(options: Options, shapes: list[Shape], names: Names) -> str:
        left, right = (Text(one) for one in names["sources"])
        given = {key: options[key] for key in NUMBERS if key in options}
        for image, over in zip(("primary", "secondary"), options["strides"], strict=True):
            for axis, stride in zip(AXES, over, strict=True):
                if stride == 0:
                    given[f"{image}_stride_in_{axis}"] = 0
        if "comparison_type" in options:
            kind = options["comparison_type"].upper()
            given["comparison_type"] = Text(f"mps.MPSNNComparisonType.{kind}")
        return dressed(call(name, left_source=left, right_source=right), given)

    def computed(t: Any, options: Options, sources: list[Any], at: Any) -> Any:
        of = COMPARISONS[options["comparison_type"]] if not operation else ARITHMETIC[operation]
        return compute(t, of, options, sources)

    return Layer(draw, arithmetic_shape, expression, computed, often=often)


def draw_concatenation(drawing: Any, shape: Shape) -> dict[str, Any]:
    more = [drawing.flow(lambda s: s[2:] == shape[2:]) for _ in range(drawing.choice([1, 1, 2, 3]))]
    return {"options": {"packs_channels": True} if drawing.chance(0.4) else {}, "more": more}


def concatenation_shape(options: Options, shapes: list[Shape]) -> list[Shape]:
    need(all(shape[2:] == shapes[0][2:] for shape in shapes))
    channels = sum(shape[1] + gap(options, shape[1]) for shape in shapes)
    return [[shapes[0][0], channels, *shapes[0][2:]]]


def gap(options: Options, channels: int) -> int:
    """Channels of zeros behind a source's own."""
    return 0 if options.get("packs_channels") else -channels % 4


def concatenated(t: Any, options: Options, sources: list[Any], at: Any) -> Any:
    parts = []
    for source in sources:
        zeros = gap(options, source.shape[1])
        parts += [source, source.new_zeros(source.shape[0], zeros, *source.shape[2:])]
    return t.cat(parts, 1)


NODES = {
    "MPSNNAdditionNode": arithmetic("MPSNNAdditionNode", "add"),
    "MPSNNSubtractionNode": arithmetic("MPSNNSubtractionNode", "subtract"),
    "MPSNNMultiplicationNode": arithmetic("MPSNNMultiplicationNode", "multiply"),
    "MPSNNDivisionNode": arithmetic("MPSNNDivisionNode", "divide", draw_division, often=5),
    "MPSNNComparisonNode": arithmetic("MPSNNComparisonNode", "", draw_comparison, often=1),
    "MPSNNConcatenationNode": Layer(
        draw_concatenation,
        concatenation_shape,
        lambda options, shapes, names: dressed(
            call("MPSNNConcatenationNode", sources=[Text(one) for one in names["sources"]]), options
        ),
        concatenated,
        often=3,
    ),
}
