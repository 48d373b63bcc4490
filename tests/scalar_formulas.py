"""The functions of the scalar table and their slopes, as formulas for tests/limits.py."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from limits import WIDE


def step(x: Any) -> Any:
    return np.where(x > 0, WIDE(1), WIDE(0))


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def soft_plus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def gelu_step(x: Any) -> Any:
    """(1 + tanh u) / 2"""
    return (1 + np.tanh(WIDE(0.7978845608) * (x + WIDE(0.044715) * x**3))) / 2


def gelu_slope(x: Any) -> Any:
    s = gelu_step(x)
    bend = 2 * x * s * (1 - s) * WIDE(0.7978845608) * (1 + 3 * WIDE(0.044715) * x * x)
    return np.where(np.abs(x) > 30, step(x), s + bend)


def erf(x: Any) -> Any:
    return np.vectorize(math.erf, otypes=[WIDE])(x)


def times_log(x: Any, y: Any) -> Any:
    return np.where(x == 0, 0, x * np.log(y))


@dataclass
class Function:
    """Formulas over x, y and the parameters, after which its slopes are over them as well."""

    value: Callable[..., Any]
    slopes: list[Callable[..., Any]]
    parameters: tuple[tuple[float, ...], ...]
    # Of infinity it is what the formula makes of it: where functions choose, or grow slowly.
    chooses: bool
    held: tuple[int, ...]


SCALE, ALPHA = WIDE(1.0507009873554805), WIDE(1.6732632423543772)


def of(value: Any, *slopes: Any, at: Any = ((0, 0),), chooses: bool = False, held: Any = ()) -> Any:
    return Function(value, list(slopes), tuple(at), chooses, held)


def leaky(x: Any, p: float, above: Any = None) -> Any:
    return np.where(x > 0, x if above is None else above, x * p if above is None else p)


def huber(x: Any, y: Any, p: float) -> Any:
    d = np.abs(x - y)
    return np.where(d <= p, d * d / 2, p * (d - WIDE(p) / 2))


ONE = lambda *a: np.ones_like(a[0])  # noqa: E731
INF = math.inf

# By the names of the scalar table. Formulas take x, y, p, q.
FUNCTIONS = {
    "identity": of(lambda x, y, p, q: x, ONE),
    "add": of(lambda x, y, p, q: x + y, ONE, ONE),
    "subtract": of(lambda x, y, p, q: x - y, ONE, lambda x, y, p, q: -np.ones_like(x)),
    "multiply": of(lambda x, y, p, q: x * y, lambda x, y, p, q: y, lambda x, y, p, q: x),
    "divide": of(
        lambda x, y, p, q: x / y, lambda x, y, p, q: 1 / y, lambda x, y, p, q: -(x / y) / y
    ),
    "difference": of(lambda x, y, p, q: np.where(x == y, 0, x - y), chooses=True),
    "minimum": of(
        lambda x, y, p, q: np.minimum(x, y),
        lambda x, y, p, q: np.where(x < y, 1, np.where(x == y, 0.5, 0)),
        lambda x, y, p, q: np.where(y < x, 1, np.where(x == y, 0.5, 0)),
        chooses=True,
    ),
    "maximum": of(
        lambda x, y, p, q: np.maximum(x, y),
        lambda x, y, p, q: np.where(x > y, 1, np.where(x == y, 0.5, 0)),
        lambda x, y, p, q: np.where(y > x, 1, np.where(x == y, 0.5, 0)),
        chooses=True,
    ),
    "negate": of(lambda x, y, p, q: -x, lambda x, y, p, q: -np.ones_like(x)),
    "scale": of(lambda x, y, p, q: p * x, lambda x, y, p, q: p + 0 * x, at=[(-1.5, 0)]),
    "affine": of(
        lambda x, y, p, q: p * x + q, lambda x, y, p, q: p + 0 * x, at=[(-1.5, 0.25), (1, 0)]
    ),
    "multiply_add": of(
        lambda x, y, p, q: p * x + q * y,
        lambda x, y, p, q: p + 0 * x,
        lambda x, y, p, q: q + 0 * x,
        at=[(0.75, -0.125)],
    ),
    "square": of(lambda x, y, p, q: x * x, lambda x, y, p, q: 2 * x),
    "sqrt": of(lambda x, y, p, q: np.sqrt(x), lambda x, y, p, q: 0.5 / np.sqrt(x), chooses=True),
    "rsqrt": of(
        lambda x, y, p, q: 1 / np.sqrt(x), lambda x, y, p, q: -0.5 / np.sqrt(x) ** 3, chooses=True
    ),
    "reciprocal": of(lambda x, y, p, q: 1 / x, lambda x, y, p, q: -1 / x / x),
    "sign": of(lambda x, y, p, q: np.sign(x)),
    "clip": of(
        lambda x, y, p, q: np.minimum(np.maximum(x, p), q),
        lambda x, y, p, q: np.where((x > p) & (x < q), 1, 0),
        at=[(-1, 1), (0.5, 2), (1, -1), (-INF, INF), (-INF, 0.5), (0.5, INF)],
    ),
    "exp": of(lambda x, y, p, q: np.exp(x), lambda x, y, p, q: np.exp(x)),
    "log": of(lambda x, y, p, q: np.log(x), lambda x, y, p, q: 1 / x, chooses=True),
    "power": of(
        lambda x, y, p, q: x ** WIDE(p),
        lambda x, y, p, q: p * x ** (WIDE(p) - 1),
        at=[(0.5, 0), (1.5, 0), (-0.5, 0), (2.5, 0)],
    ),
    "mask": of(
        lambda x, y, p, q: np.where(y == 0, 0, x * y),
        lambda x, y, p, q: y,
        lambda x, y, p, q: x,
        chooses=True,
    ),
    "floor": of(lambda x, y, p, q: np.floor(x), chooses=True),
    "round": of(lambda x, y, p, q: np.rint(x), chooses=True),
    "ceil": of(lambda x, y, p, q: np.ceil(x), chooses=True),
    "sin": of(lambda x, y, p, q: np.sin(x), lambda x, y, p, q: np.cos(x), chooses=True),
    "cos": of(lambda x, y, p, q: np.cos(x), lambda x, y, p, q: -np.sin(x), chooses=True),
    "tan": of(lambda x, y, p, q: np.tan(x), lambda x, y, p, q: 1 + np.tan(x) ** 2, chooses=True),
    "asin": of(
        lambda x, y, p, q: np.arcsin(x),
        lambda x, y, p, q: 1 / np.sqrt((1 - x) * (1 + x)),
        chooses=True,
    ),
    "acos": of(
        lambda x, y, p, q: np.arccos(x),
        lambda x, y, p, q: -1 / np.sqrt((1 - x) * (1 + x)),
        chooses=True,
    ),
    "atan": of(lambda x, y, p, q: np.arctan(x), lambda x, y, p, q: 1 / (1 + x * x)),
    "sinh": of(lambda x, y, p, q: np.sinh(x), lambda x, y, p, q: np.cosh(x)),
    "cosh": of(lambda x, y, p, q: np.cosh(x), lambda x, y, p, q: np.sinh(x)),
    "asinh": of(
        lambda x, y, p, q: np.arcsinh(x), lambda x, y, p, q: 1 / np.hypot(x, 1), chooses=True
    ),
    "acosh": of(
        lambda x, y, p, q: np.arccosh(x),
        lambda x, y, p, q: 1 / (np.sqrt(x - 1) * np.sqrt(x + 1)),
        chooses=True,
    ),
    "atanh": of(
        lambda x, y, p, q: np.arctanh(x), lambda x, y, p, q: 1 / ((1 - x) * (1 + x)), chooses=True
    ),
    "exp2": of(lambda x, y, p, q: np.exp2(x), lambda x, y, p, q: np.log(WIDE(2)) * np.exp2(x)),
    "log2": of(
        lambda x, y, p, q: np.log2(x), lambda x, y, p, q: 1 / (np.log(WIDE(2)) * x), chooses=True
    ),
    "pow": of(
        lambda x, y, p, q: np.power(x, y),
        lambda x, y, p, q: np.where(y == 0, 0, y * np.power(x, y - 1)),
        lambda x, y, p, q: times_log(np.power(x, y), x),
        chooses=True,
    ),
    "pow_slope": of(lambda x, y, p, q: np.where(y == 0, 0, y * np.power(x, y - 1)), chooses=True),
    "times_log": of(
        lambda x, y, p, q: times_log(x, y),
        lambda x, y, p, q: np.log(y),
        lambda x, y, p, q: np.where(x == 0, 0, x / y),
        chooses=True,
    ),
    "times_log_slope": of(lambda x, y, p, q: np.where(x == 0, 0, x / y), chooses=True),
    "multiply_no_nan": of(
        lambda x, y, p, q: np.where(y == 0, 0, x * y),
        lambda x, y, p, q: y,
        lambda x, y, p, q: np.where((y == 0) & np.isinf(x), 0, x),
        chooses=True,
    ),
    "factor_no_nan": of(lambda x, y, p, q: np.where((y == 0) & np.isinf(x), 0, x), chooses=True),
    "divide_no_nan": of(
        lambda x, y, p, q: np.where(y == 0, 0, x / y),
        lambda x, y, p, q: np.where(y == 0, 0, 1 / y),
        lambda x, y, p, q: np.where(y == 0, 0, -(x / y) / y),
        chooses=True,
    ),
    "where_nonzero": of(
        lambda x, y, p, q: np.where(y == 0, p, x),
        lambda x, y, p, q: np.where(y == 0, 0, 1),
        at=[(2.5, 0)],
        chooses=True,
    ),
    "relu": of(lambda x, y, p, q: np.maximum(x, 0), lambda x, y, p, q: step(x)),
    "leaky_relu": of(
        lambda x, y, p, q: leaky(x, p),
        lambda x, y, p, q: leaky(x, p, 1),
        at=[(0.25, 0), (0, 0), (-0.5, 0), (2, 0)],
    ),
    "parametric_relu": of(
        lambda x, y, p, q: leaky(x, y),
        lambda x, y, p, q: leaky(x, y, 1),
        lambda x, y, p, q: np.minimum(x, 0),
        held=(0, 1),
    ),
    "parametric_relu_slope": of(lambda x, y, p, q: leaky(x, y, 1), held=(0, 1)),
    "sigmoid": of(lambda x, y, p, q: sigmoid(x), lambda x, y, p, q: sigmoid(x) * sigmoid(-x)),
    "hard_sigmoid": of(
        lambda x, y, p, q: np.clip(p * x + q, 0, 1),
        lambda x, y, p, q: np.where((p * x + q > 0) & (p * x + q < 1), p, 0),
        at=[(0.25, 0.5), (-0.25, 0.125)],
    ),
    "tanh": of(
        lambda x, y, p, q: p * np.tanh(q * x),
        lambda x, y, p, q: p * q * (1 - np.tanh(q * x) ** 2),
        at=[(1, 1), (-2, 0.5), (1.5, -0.7), (0.3, 1), (0, 1), (1e-30, 1), (1e30, 1)],
    ),
    "absolute": of(lambda x, y, p, q: np.abs(x), lambda x, y, p, q: np.sign(x)),
    "soft_plus": of(
        lambda x, y, p, q: p * soft_plus(q * x),
        lambda x, y, p, q: p * q * sigmoid(q * x),
        at=[(1, 1), (2, 0.5), (-1, -0.5)],
    ),
    "soft_sign": of(
        lambda x, y, p, q: x / (1 + np.abs(x)), lambda x, y, p, q: 1 / (1 + np.abs(x)) ** 2
    ),
    "elu": of(
        lambda x, y, p, q: np.where(x > 0, x, p * np.expm1(x)),
        lambda x, y, p, q: np.where(x > 0, 1, p * np.exp(x)),
        at=[(1, 0), (0.3, 0), (0, 0), (-0.5, 0)],
    ),
    "relun": of(
        lambda x, y, p, q: np.minimum(leaky(x, p), q),
        lambda x, y, p, q: np.where(leaky(x, p) >= q, 0, leaky(x, p, 1)),
        at=[(0, 6), (1, 1), (0.125, 0.5), (-1, 1.5), (0.5, -0.5), (0, -0.5), (0.5, INF)],
    ),
    "log_sigmoid": of(lambda x, y, p, q: -soft_plus(-x), lambda x, y, p, q: sigmoid(-x)),
    "selu": of(
        lambda x, y, p, q: SCALE * np.where(x > 0, x, ALPHA * np.expm1(x)),
        lambda x, y, p, q: SCALE * np.where(x > 0, 1, ALPHA * np.exp(x)),
    ),
    "celu": of(
        lambda x, y, p, q: np.where(x > 0, x, p * np.expm1(x / WIDE(p))),
        lambda x, y, p, q: np.where(x > 0, 1, np.exp(x / WIDE(p))),
        at=[(1, 0), (0.25, 0), (2, 0), (-1.5, 0)],
    ),
    "hard_shrink": of(
        lambda x, y, p, q: np.where((x > p) | (x < -p), x, 0),
        lambda x, y, p, q: np.where((x > p) | (x < -p), 1, 0),
        at=[(0.5, 0), (0, 0), (-1, 0)],
    ),
    "soft_shrink": of(
        lambda x, y, p, q: np.where(x > p, x - p, np.where(x < -p, x + p, 0)),
        lambda x, y, p, q: np.where((x > p) | (x < -p), 1, 0),
        at=[(0.5, 0), (0, 0)],
    ),
    "tanh_shrink": of(
        lambda x, y, p, q: np.where(np.abs(x) < 1e-9, x**3 / 3, x - np.tanh(x)),
        lambda x, y, p, q: np.tanh(x) ** 2,
    ),
    "threshold": of(
        lambda x, y, p, q: np.where(x > p, x, q),
        lambda x, y, p, q: np.where(x > p, 1, 0),
        at=[(1, 1), (-0.5, 3)],
    ),
    "gelu": of(lambda x, y, p, q: x * gelu_step(x), lambda x, y, p, q: gelu_slope(x)),
    "hard_swish": of(
        lambda x, y, p, q: x * np.clip(x + 3, 0, 6) / 6,
        lambda x, y, p, q: np.where(x <= -3, 0, np.where(x >= 3, 1, (2 * x + 3) / 6)),
    ),
    "erf": of(
        lambda x, y, p, q: erf(x), lambda x, y, p, q: 2 * np.exp(-x * x) / np.sqrt(WIDE(math.pi))
    ),
    "huber": of(
        lambda x, y, p, q: huber(x, y, p),
        lambda x, y, p, q: np.clip(x - y, -p, p),
        lambda x, y, p, q: np.clip(y - x, -p, p),
        at=[(1, 0), (0.375, 0)],
    ),
    "label_product": of(
        lambda x, y, p, q: np.where(y == 0, 0, x * y),
        lambda x, y, p, q: y,
        lambda x, y, p, q: x,
        chooses=True,
    ),
    "sigmoid_cross_entropy": of(
        lambda x, y, p, q: x * (step(x) - y) + np.log1p(np.exp(-np.abs(x))),
        lambda x, y, p, q: sigmoid(x) - y,
        lambda x, y, p, q: -x,
        held=(1,),
    ),
}

# Activations made of several rows, by their names. p and q are a and b.
ROOT = np.sqrt(WIDE(0.5))
COMPOSED = {
    "silu": of(
        lambda x, y, p, q: x * sigmoid(x),
        lambda x, y, p, q: sigmoid(x) * (1 + x * sigmoid(-x)),
    ),
    "gelu_erf": of(
        lambda x, y, p, q: x * (1 + erf(x * ROOT)) / 2,
        lambda x, y, p, q: (
            (1 + erf(x * ROOT)) / 2 + x * np.exp(-x * x / 2) / np.sqrt(2 * WIDE(math.pi))
        ),
    ),
    "mish": of(
        lambda x, y, p, q: x * np.tanh(soft_plus(x)),
        lambda x, y, p, q: (
            np.tanh(soft_plus(x)) + x * sigmoid(x) / np.cosh(np.minimum(soft_plus(x), 5000)) ** 2
        ),
    ),
    "squareplus": of(
        lambda x, y, p, q: (x + np.hypot(x, np.sqrt(WIDE(q)))) / 2,
        lambda x, y, p, q: (1 + x / np.hypot(x, np.sqrt(WIDE(q)))) / 2,
        at=[(1, 4), (1, 0.25)],
    ),
}
