"""Rows of layers whose options and sources are drawn as the fuzz draws them."""

from collections.abc import Callable
from random import Random
from typing import Any

from random_graphs.activations import NUMBERS
from random_graphs.drawing import Drawing
from random_graphs.layer import Invalid, Options, Shape, need
from random_graphs.table import LAYERS

from .sample import COARSE, Row, Sample, Values

# Odd, with extents of 1, across the width of vectors. Statistics are of more than two elements, or
# of one: those of two have no gradient but that of epsilon.
SHAPES: list[Shape] = [
    [3, 5, 7], [1, 6, 1, 1], [13, 33], [5, 9], [3, 6, 5, 7], [4, 2, 3, 33], [4, 17, 1, 33]
]  # fmt: skip
LARGE: list[Shape] = [[64, 4, 16, 16], [1024, 64], [64, 16, 64]]
EVERY = 8  # so many cases have a large one
STATISTICS = {"mean": (-0.5, 0.5), "variance": (0.5, 2.0)}
LEFT_OUT = [[], ["beta"], ["gamma"], ["beta", "gamma"]]


def beside(shape: Shape) -> list[Shape]:
    """What else a layer may read: with another extent along one axis, and to be multiplied."""
    others = [[*shape[:k], extent, *shape[k + 1 :]] for k in range(len(shape)) for extent in (2, 5)]
    return [shape, *others, [*shape[:-2], shape[-1], 3]]


def values_of(drawing: Drawing, name: str, kind: str, span: tuple[float, float]) -> Values:
    value, shape = drawing.values.get(name, {"kind": "normal"}), drawing.shapes[name]
    if value["kind"] in ("boolean", "index"):
        return Values(shape, kind=value["kind"], below=value.get("below", 1),
                      dtype=value.get("type", ""))  # fmt: skip
    return Values(shape, *span, kind=kind)


def nothing(random: Random, drawn: Options) -> Options:
    return {}


def row(
    kind: str, cases: int, name: str = "", *, moves: bool = False,
    only: Options | None = None,  # options of this kind of the layer
    more: Callable[[Random, Options], Options] = nothing,  # beside what is drawn
    why: Callable[[Options], str] = lambda options: "",  # no differences
    source: str = "float", span: tuple[float, float] = (-2, 2), ties: bool = False,
) -> Row:  # fmt: skip
    layer = LAYERS[kind]

    def made(random: Random, number: int) -> Sample:
        drawing = Drawing(random, judged_by_reference=False)
        shape = drawing.choice(LARGE if number % EVERY == EVERY - 1 else SHAPES)
        drawing.rows = shape[0]
        for k, other in enumerate(beside(shape)):
            drawing.shapes[f"f{k}"] = other
            drawing.flows.append(f"f{k}")
        fields = drawing.fields(kind, "f0")
        options = fields["options"] | more(random, fields["options"])
        need(only is None or only.items() <= options.items())
        sample = Sample(
            layer, options, [values_of(drawing, one, source, span) for one in fields["sources"]],
            frozen=bool(layer.running) and drawing.chance(0.2), no_differences=why(options),
            coarse=COARSE if ties and number % 4 == 1 else 0.0,
        )  # fmt: skip
        layer.results(options, sample.shapes)  # raises where they do not fit
        sample.own = {
            role: Values(form[0], *STATISTICS[role])
            for role, form in sample.parameters().items()
            if role in layer.running
        }
        return sample

    def make(choice: dict[str, Any]) -> Sample:
        for attempt in range(2000):
            try:
                return made(Random(f"{kind} {name} {choice['case']} {attempt}"), choice["case"])
            except Invalid:
                continue
        raise Invalid(f"nothing was drawn of {kind}")

    return Row(kind, name, {"case": range(cases)}, make, moves=moves)


def of_table(options: Options) -> str:
    if options["by_frequency"]:
        return "a mean over picks is no derivative"
    if "maximum" in options:
        return "rows that the layer scales stand for themselves"
    return "the row is looked up, and has no gradient" if "padding" in options else ""


def left_out(random: Random, drawn: Options) -> Options:
    return {"left_out": random.choice(LEFT_OUT)}


MOVED = ("Concatenation", "Reshape", "Transpose", "Split", "Gather", "Scatter", "Slice")


def constant(random: Random, drawn: Options) -> Options:
    """That whole numbers hold."""
    return {"constant_value": random.choice([0.0, 1.0])} if drawn["kind"] == "constant" else {}


def slope(random: Random, drawn: Options) -> Options:
    """Of a hard sigmoid: not so flat that a rounding of the result is many of the source."""
    return {"a": random.choice([0.25, 1.5]), "b": random.choice([0.1, 0.5, 1.0])}


ROWS = [
    # Wide enough for the ends of hard swish at 3.
    *(row("MLCActivationLayer", 16 if NUMBERS[kind][0] else 8, kind, only={"type": kind},
          more=slope if kind == "hard_sigmoid" else nothing, span=(-4, 4), ties=True)
      for kind in NUMBERS),
    *(row(f"MLC{name}Layer", 24, moves=True) for name in MOVED),
    row("MLCPaddingLayer", 24, moves=True, more=constant),
    row("MLCEmbeddingLayer", 24, why=of_table),
    row("MLCGramMatrixLayer", 8),
    row("MLCConvolutionLayer", 40),
    row("MLCPoolingLayer", 24, "max", only={"type": "max"}, ties=True),
    row("MLCPoolingLayer", 24, "average", only={"type": "average"}),
    # Away from its kink at 0, but for ties.
    row("MLCPoolingLayer", 24, "l2_norm", only={"type": "l2_norm"}, source="signed",
        span=(0.25, 2), ties=True),
    *(
        row(f"MLC{name}NormalizationLayer", 24, more=left_out)
        for name in ("Batch", "Group", "Instance", "Layer")
    ),
]  # fmt: skip
