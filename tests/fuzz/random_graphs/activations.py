"""Activations: numbers that are drawn for each type, and what it computes.

At a kink the derivative is that of ir/scalar.def, which `where` says by the side that holds there.
"""

from typing import Any

from .layer import Layer, Shape, Text, same, single, written

# By type: the ranges that a and b are drawn from, and what they are unless given.
NUMBERS: dict[str, tuple[tuple[tuple[float, float], ...], tuple[float, float]]] = {
    "none": ((), (1, 1)),
    "relu": (((-0.3, 0.3),), (0, 1)),
    "linear": (((-1.5, 1.5), (-1, 1)), (1, 0)),
    "sigmoid": ((), (1, 1)),
    "hard_sigmoid": (((0.05, 1.5), (0.1, 1)), (0.2, 0.5)),
    "tanh": (((0.05, 1.5), (0.1, 2)), (1, 1)),
    "absolute": ((), (1, 1)),
    "soft_plus": (((0.05, 1.5), (0.1, 2)), (1, 1)),
    "soft_sign": ((), (1, 1)),
    "elu": (((0.05, 1.5),), (1, 1)),
    "relun": (((0.05, 1.5), (0.1, 2)), (1, 1)),
    "log_sigmoid": ((), (1, 1)),
    "selu": ((), (1, 1)),
    "celu": (((0.05, 1.5),), (1, 1)),
    "hard_shrink": (((0.05, 1.5),), (0.5, 1)),
    "soft_shrink": (((0.05, 1.5),), (0.5, 1)),
    "tanh_shrink": ((), (1, 1)),
    "threshold": (((-0.5, 0.5), (-1, 1)), (1, 1)),
    "gelu": ((), (1, 1)),
    "hard_swish": ((), (1, 1)),
    "clamp": (((-1, -0.2), (0.2, 1)), (1, 1)),
    "silu": ((), (1, 1)),
    "gelu_erf": ((), (1, 1)),
    "mish": ((), (1, 1)),
    "squareplus": (((0, 0), (0.1, 6)), (1, 4)),
}


def draw(drawing: Any, shape: Shape) -> dict[str, Any]:
    kind = drawing.choice(sorted(NUMBERS))
    options: dict[str, Any] = {"type": kind}
    if drawing.chance(0.6) or kind == "clamp":
        for key, (low, high) in zip("ab", NUMBERS[kind][0], strict=False):
            options[key] = round(drawing.random.uniform(low, high), 2)
    return {"options": options}


def expression(options: dict[str, Any], shapes: list[Shape], names: dict[str, str]) -> str:
    descriptor = Text(written("MLCActivationDescriptor", **options))
    return written("MLCActivationLayer", descriptor=descriptor)


def negative(t: Any, x: Any) -> Any:
    """x where it is below 0, and 0 elsewhere: where an exponential is not to overflow."""
    return t.where(x > 0, t.zeros_like(x), x)


def hard_sigmoid(t: Any, x: Any, a: float, b: float) -> Any:
    y, zero = a * x + b, t.zeros_like(x)
    return t.where(y <= 0, zero, t.where(y >= 1, zero + 1, y))


def relun(t: Any, x: Any, a: float, b: float) -> Any:
    y = t.where(x > 0, x, a * x)
    return t.where(y >= b, t.zeros_like(x) + b, y)


def clamp(t: Any, x: Any, a: float, b: float) -> Any:
    zero = t.zeros_like(x)
    return t.where(x <= a, zero + a, t.where(x >= b, zero + b, x))


def soft_shrink(t: Any, x: Any, a: float, b: float) -> Any:
    return t.where(x > a, x - a, t.where(x < -a, x + a, t.zeros_like(x)))


SELU = (1.0507009873554805, 1.6732632423543772)
FORMULAS: dict[str, Any] = {
    "none": lambda t, x, a, b: x * 1,
    "relu": lambda t, x, a, b: t.where(x > 0, x, a * x),
    "linear": lambda t, x, a, b: a * x + b,
    "sigmoid": lambda t, x, a, b: t.sigmoid(x),
    "hard_sigmoid": hard_sigmoid,
    "tanh": lambda t, x, a, b: a * t.tanh(b * x),
    "absolute": lambda t, x, a, b: x.abs(),
    "soft_plus": lambda t, x, a, b: a * t.nn.functional.softplus(b * x, threshold=1e9),
    "soft_sign": lambda t, x, a, b: x / (1 + x.abs()),
    "elu": lambda t, x, a, b: t.where(x > 0, x, a * t.expm1(negative(t, x))),
    "relun": relun,
    "log_sigmoid": lambda t, x, a, b: t.nn.functional.logsigmoid(x),
    "selu": lambda t, x, a, b: SELU[0] * t.where(x > 0, x, SELU[1] * t.expm1(negative(t, x))),
    "celu": lambda t, x, a, b: t.where(x > 0, x, a * t.expm1(negative(t, x) / a)),
    "hard_shrink": lambda t, x, a, b: t.where(x.abs() > a, x, t.zeros_like(x)),
    "soft_shrink": soft_shrink,
    "tanh_shrink": lambda t, x, a, b: x - t.tanh(x),
    "threshold": lambda t, x, a, b: t.where(x > a, x, t.zeros_like(x) + b),
    "gelu": lambda t, x, a, b: x / 2 * (1 + t.tanh(0.7978845608 * (x + 0.044715 * x**3))),
    "hard_swish": lambda t, x, a, b: t.where(
        x <= -3, t.zeros_like(x), t.where(x >= 3, x, x * (x + 3) / 6)
    ),
    "clamp": clamp,
    "silu": lambda t, x, a, b: t.nn.functional.silu(x),
    "gelu_erf": lambda t, x, a, b: t.nn.functional.gelu(x),
    "mish": lambda t, x, a, b: t.nn.functional.mish(x),
    "squareplus": lambda t, x, a, b: (x + t.sqrt(x * x + b)) / 2,
}


def compute(t: Any, options: dict[str, Any], sources: list[Any], at: Any) -> Any:
    a, b = NUMBERS[options["type"]][1]
    a, b = single(options.get("a", a)), single(options.get("b", b))
    return FORMULAS[options["type"]](t, sources[0], a, b)


LAYERS = {"MLCActivationLayer": Layer(draw, same, expression, compute, often=5)}
