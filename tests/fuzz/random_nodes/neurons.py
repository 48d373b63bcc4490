"""Neurons: the functions of ML Compute's activations, and those that MPS alone has."""

from typing import Any

from random_graphs.activations import FORMULAS, NUMBERS
from random_graphs.layer import Layer, Options, Shape, Text, need, same, single

from .writing import Names, call, node

Ranges = tuple[tuple[float, float], ...]
# By node: the type of its descriptor, and that of an activation that computes the same.
SHARED = {
    "ReLU": ("relu", "relu"), "Linear": ("linear", "linear"), "Sigmoid": ("sigmoid", "sigmoid"),
    "HardSigmoid": ("hard_sigmoid", "hard_sigmoid"), "TanH": ("tanh", "tanh"),
    "Absolute": ("absolute", "absolute"), "SoftPlus": ("soft_plus", "soft_plus"),
    "SoftSign": ("soft_sign", "soft_sign"), "ELU": ("elu", "elu"), "ReLUN": ("relun", "relun"),
}  # fmt: skip
# Nodes whose results are above -1: a logarithm of them plus more than that is finite.
BOUNDED = ("Sigmoid", "SoftSign", "Absolute", "HardSigmoid", "NNSoftMax")


def gelu(t: Any, x: Any, a: float, b: float, c: float) -> Any:
    return (t.erf(x * 2**-0.5) / 2 + 0.5) * x


def power(t: Any, x: Any, a: float, b: float, c: float) -> Any:
    return (a * x + b) ** round(c)


def exponential(t: Any, x: Any, a: float, b: float, c: float) -> Any:
    base = t.tensor(2.718281828459045 if c == -1 else c, dtype=x.dtype)
    return t.exp((a * x + b) * (1 if c == -1 else t.log(base)))


def logarithm(t: Any, x: Any, a: float, b: float, c: float) -> Any:
    found = t.log(a * x + b)
    return found if c == -1 else found / t.log(t.tensor(c, dtype=x.dtype))


# Formula, the ranges of a and b, and what c may be.
OWN: dict[str, tuple[Any, Ranges, list[float]]] = {
    "GeLU": (gelu, (), []),
    "Power": (power, ((-0.6, 0.6), (-1, 1)), [1.0, 2.0, 3.0]),
    "Exponential": (exponential, ((-0.6, 0.6), (-1, 1)), [-1.0, 0.5, 3.0]),
    "Logarithm": (logarithm, ((0.1, 0.8), (1.1, 2)), [-1.0, 0.5, 3.0]),
}
TYPES = sorted(SHARED) + sorted(OWN)


def draw_numbers(drawing: Any, kind: str) -> Options:
    if kind in OWN:
        _, ranges, bases = OWN[kind]
        need(kind != "Logarithm" or any(name in drawing.source_layer() for name in BOUNDED))
        found = {"c": drawing.choice(bases)} if bases else {}
    else:
        ranges, found = NUMBERS[SHARED[kind][1]][0], {}
        # A node of its own takes what another one has to be given.
        if kind != "ReLUN" and not drawing.chance(0.6):
            return {}
    for key, (low, high) in zip("ab", ranges, strict=False):
        found[key] = round(drawing.random.uniform(low, high), 2)
    return found


def compute(t: Any, kind: str, numbers: Options, x: Any) -> Any:
    a, b, c = (single(numbers.get(key, 0)) for key in "abc")
    if kind in OWN:
        return OWN[kind][0](t, x, a, b, c)
    usual = NUMBERS[SHARED[kind][1]][1]
    a, b = (single(numbers.get(key, value)) for key, value in zip("ab", usual, strict=True))
    return FORMULAS[SHARED[kind][1]](t, x, a, b)


def named(kind: str) -> Layer:
    name = f"MPSCNNNeuron{kind}Node"
    return Layer(
        lambda drawing, shape: {"options": draw_numbers(drawing, kind)},
        same,
        lambda options, shapes, names: node(name, names, {}, **options),
        lambda t, options, sources, at: compute(t, kind, options, sources[0]),
        often={"Logarithm": 6, "Sigmoid": 3}.get(kind, 1),
    )


def draw_any(drawing: Any, shape: Shape) -> dict[str, Any]:
    kind = drawing.choice(TYPES)
    numbers = draw_numbers(drawing, kind)
    # A descriptor's own numbers are 0 unless given.
    if kind not in OWN:
        usual = NUMBERS[SHARED[kind][1]][1]
        numbers = dict(zip("ab", usual, strict=True)) | numbers
    return {"options": {"kind": kind, "numbers": numbers}}


def any_expression(options: Options, shapes: list[Shape], names: Names) -> str:
    kind = options["kind"]
    numbers = {"a": 0.0, "b": 0.0, "c": 0.0} | options["numbers"]
    given = {"with_type": SHARED[kind][0] if kind in SHARED else kind.lower(), **numbers}
    descriptor = Text(call("MPSNNNeuronDescriptor.cnn_neuron_descriptor", **given))
    return node("MPSCNNNeuronNode", names, {}, descriptor=descriptor)


def draw_slopes(drawing: Any, shape: Shape) -> dict[str, Any]:
    slopes = [drawing.choice([-0.3, 0.1, 0.25, 2.0]) for _ in range(shape[1])]
    return {"options": {"a_data": slopes}}


def slopes_shape(options: Options, shapes: list[Shape]) -> list[Shape]:
    need(len(options["a_data"]) == shapes[0][1])
    return same(options, shapes)


def compute_slopes(t: Any, options: Options, sources: list[Any], at: Any) -> Any:
    x = sources[0]
    slopes = t.tensor([single(a) for a in options["a_data"]], dtype=x.dtype).reshape(1, -1, 1, 1)
    return t.where(x > 0, x, slopes * x)


NODES = {f"MPSCNNNeuron{kind}Node": named(kind) for kind in TYPES} | {
    "MPSCNNNeuronNode": Layer(
        draw_any,
        same,
        any_expression,
        lambda t, options, sources, at: compute(t, options["kind"], options["numbers"], sources[0]),
        often=2,
    ),
    "MPSCNNNeuronPReLUNode": Layer(
        draw_slopes,
        slopes_shape,
        lambda options, shapes, names: node("MPSCNNNeuronPReLUNode", names, {}, **options),
        compute_slopes,
    ),
}
