"""Every row of the scalar table: value, derivative, kinks, NaN, and large arguments."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from op_harness import check_gradients, forward, gradients, scalar_list, testing

TABLE = testing.scalar_table()

GELU_C = 0.7978845608
GELU_K = 0.044715
SELU_SCALE = 1.0507009873554805
SELU_ALPHA = 1.6732632423543772


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(GELU_C * (x + GELU_K * x**3)))


def gelu_derivative(x):
    t = np.tanh(GELU_C * (x + GELU_K * x**3))
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * GELU_C * (1 + 3 * GELU_K * x * x)


def select(condition, x, y):
    return np.where(condition, x, y)


@dataclass
class Row:
    """A function of the table and where to try it."""

    value: Callable  # (x, y, p, q) in NumPy
    parameters: list  # pairs p, q
    kinks: Callable  # (x, y, p, q) to distances from points without a derivative
    positive: bool
    inside: tuple  # where x may lie
    inside_y: tuple


def row(
    value,
    parameters=((0.0, 0.0),),
    kinks=lambda x, y, p, q: [],
    positive=False,
    inside=(-4.5, 4.5),
    inside_y=(-3, 3),
):
    return Row(value, list(parameters), kinks, positive, inside, inside_y)


ROWS = {
    "constant": row(lambda x, y, p, q: np.full((), p), [(2.5, 0)]),
    "identity": row(lambda x, y, p, q: x),
    "add": row(lambda x, y, p, q: x + y),
    "subtract": row(lambda x, y, p, q: x - y),
    "multiply": row(lambda x, y, p, q: x * y),
    "divide": row(lambda x, y, p, q: x / y),
    "minimum": row(lambda x, y, p, q: np.minimum(x, y), kinks=lambda x, y, p, q: [x - y]),
    "maximum": row(lambda x, y, p, q: np.maximum(x, y), kinks=lambda x, y, p, q: [x - y]),
    "difference": row(lambda x, y, p, q: x - y),
    "minimum_gradient": row(lambda x, y, p, q: select(y < 0, x, select(y == 0, x / 2, 0))),
    "negate": row(lambda x, y, p, q: -x),
    "scale": row(lambda x, y, p, q: p * x, [(-1.5, 0)]),
    "affine": row(lambda x, y, p, q: p * x + q, [(1, 0), (-1.5, 0.25)]),
    "multiply_add": row(lambda x, y, p, q: p * x + q * y, [(0.9, -0.1)]),
    "square": row(lambda x, y, p, q: x * x),
    "sqrt": row(lambda x, y, p, q: np.sqrt(x), positive=True),
    "rsqrt": row(lambda x, y, p, q: 1 / np.sqrt(x), positive=True),
    "reciprocal": row(lambda x, y, p, q: 1 / x),
    "sign": row(lambda x, y, p, q: np.sign(x)),
    "clip": row(
        lambda x, y, p, q: np.minimum(np.maximum(x, p), q),
        [(-1, 1), (0.5, 2), (1, 1), (1, -1)],
        lambda x, y, p, q: [x - p, x - q],
    ),
    "exp": row(lambda x, y, p, q: np.exp(x)),
    "log": row(lambda x, y, p, q: np.log(x), positive=True),
    "power": row(lambda x, y, p, q: x**p, [(0.5, 0), (-1.5, 0)], positive=True),
    "floor": row(lambda x, y, p, q: np.floor(x), kinks=lambda x, y, p, q: [x - np.rint(x)]),
    "round": row(lambda x, y, p, q: np.rint(x), kinks=lambda x, y, p, q: [x - np.floor(x) - 0.5]),
    "ceil": row(lambda x, y, p, q: np.ceil(x), kinks=lambda x, y, p, q: [x - np.rint(x)]),
    "sin": row(lambda x, y, p, q: np.sin(x)),
    "cos": row(lambda x, y, p, q: np.cos(x)),
    "tan": row(lambda x, y, p, q: np.tan(x), kinks=lambda x, y, p, q: [0.03 * np.cos(x)]),
    "asin": row(lambda x, y, p, q: np.arcsin(x), inside=(-0.98, 0.98)),
    "acos": row(lambda x, y, p, q: np.arccos(x), inside=(-0.98, 0.98)),
    "atan": row(lambda x, y, p, q: np.arctan(x)),
    "sinh": row(lambda x, y, p, q: np.sinh(x)),
    "cosh": row(lambda x, y, p, q: np.cosh(x)),
    "asinh": row(lambda x, y, p, q: np.arcsinh(x)),
    "asinh_gradient": row(lambda x, y, p, q: x / np.hypot(y, 1)),
    "acosh": row(lambda x, y, p, q: np.arccosh(x), inside=(1.02, 9)),
    "atanh": row(lambda x, y, p, q: np.arctanh(x), inside=(-0.98, 0.98)),
    "exp2": row(lambda x, y, p, q: np.exp2(x)),
    "log2": row(lambda x, y, p, q: np.log2(x), positive=True),
    "pow": row(lambda x, y, p, q: np.power(x, y), positive=True),
    "pow_slope": row(lambda x, y, p, q: y * np.power(x, y - 1), positive=True),
    "times_log": row(lambda x, y, p, q: x * np.log(y), inside_y=(0.05, 3)),
    "times_log_slope": row(lambda x, y, p, q: x / y),
    "multiply_no_nan": row(lambda x, y, p, q: select(y == 0, 0, x * y)),
    "factor_no_nan": row(lambda x, y, p, q: x),
    "divide_no_nan": row(lambda x, y, p, q: select(y == 0, 0, x / y)),
    "where_nonzero": row(lambda x, y, p, q: select(y == 0, p, x), [(2.5, 0)]),
    "mask": row(lambda x, y, p, q: select(y == 0, 0, x * y)),
    "relu": row(lambda x, y, p, q: np.maximum(x, 0), kinks=lambda x, y, p, q: [x]),
    "relu_gradient": row(lambda x, y, p, q: select(y > 0, x, 0)),
    "leaky_relu": row(
        lambda x, y, p, q: select(x >= 0, x, p * x),
        [(0.01, 0), (0.3, 0), (-0.5, 0), (2, 0)],
        lambda x, y, p, q: [x],
    ),
    "leaky_relu_gradient": row(lambda x, y, p, q: select(y > 0, x, p * x), [(0.3, 0)]),
    "parametric_relu": row(
        lambda x, y, p, q: select(x >= 0, x, y * x), kinks=lambda x, y, p, q: [x]
    ),
    "parametric_relu_slope": row(lambda x, y, p, q: select(x > 0, 1, y)),
    "sigmoid": row(lambda x, y, p, q: sigmoid(x)),
    "sigmoid_gradient": row(lambda x, y, p, q: x * y * (1 - y)),
    "hard_sigmoid": row(
        lambda x, y, p, q: np.clip(p * x + q, 0, 1),
        [(0.2, 0.5), (-0.3, 0.1)],
        lambda x, y, p, q: [p * x + q, p * x + q - 1],
    ),
    "hard_sigmoid_gradient": row(
        lambda x, y, p, q: select((y > 0) & (y < 1), p * x, 0), [(0.2, 0)]
    ),
    "tanh": row(lambda x, y, p, q: p * np.tanh(q * x), [(1, 1), (-2, 0.5), (1.5, -0.7), (0, 1)]),
    "tanh_gradient": row(lambda x, y, p, q: x * q * (p - y * y / p), [(1, 1), (-2, 0.5)]),
    "absolute": row(lambda x, y, p, q: np.abs(x), kinks=lambda x, y, p, q: [x]),
    "soft_plus": row(
        lambda x, y, p, q: p * np.logaddexp(0, q * x), [(1, 1), (0.5, 2), (-1, -0.5), (1, 0)]
    ),
    "soft_plus_gradient": row(lambda x, y, p, q: x * p * q * sigmoid(q * y), [(0.5, 2)]),
    "soft_sign": row(lambda x, y, p, q: x / (1 + np.abs(x))),
    "soft_sign_gradient": row(lambda x, y, p, q: x / (1 + np.abs(y)) ** 2),
    "elu": row(
        lambda x, y, p, q: select(x >= 0, x, p * np.expm1(x)),
        [(1, 0), (0.3, 0), (0, 0), (-0.5, 0)],
        lambda x, y, p, q: [x],
    ),
    "elu_gradient": row(
        lambda x, y, p, q: x * select(y > 0, 1, y + p if p >= 0 else p * np.exp(y)),
        [(0.3, 0), (-0.5, 0)],
    ),
    "relun": row(
        lambda x, y, p, q: np.minimum(select(x >= 0, x, p * x), q),
        [(0, 6), (1, 1), (0.1, 0.5), (-1, 1.5), (0.5, -0.5)],
        lambda x, y, p, q: [x, select(x >= 0, x, p * x) - q],
    ),
    "relun_gradient": row(
        lambda x, y, p, q: select(select(y > 0, y, p * y) < q, select(y > 0, x, p * x), 0),
        [(0.1, 1)],
    ),
    "log_sigmoid": row(lambda x, y, p, q: -np.logaddexp(0, -x)),
    "log_sigmoid_gradient": row(lambda x, y, p, q: x * sigmoid(-y)),
    "selu": row(
        lambda x, y, p, q: SELU_SCALE * select(x > 0, x, SELU_ALPHA * np.expm1(x)),
        kinks=lambda x, y, p, q: [x],
    ),
    "selu_gradient": row(
        lambda x, y, p, q: x * select(y > 0, SELU_SCALE, y + SELU_SCALE * SELU_ALPHA)
    ),
    "celu": row(
        lambda x, y, p, q: np.maximum(0, x) + np.minimum(0, p * np.expm1(x / p)),
        [(1, 0), (0.3, 0), (2, 0), (-1.5, 0)],
        lambda x, y, p, q: [x],
    ),
    "celu_gradient": row(lambda x, y, p, q: x * select(y > 0, 1, np.exp(y / p)), [(2, 0)]),
    "hard_shrink": row(
        lambda x, y, p, q: select((x > p) | (x < -p), x, 0),
        [(0.5, 0), (0, 0), (-1, 0)],
        lambda x, y, p, q: [x - p, x + p],
    ),
    "hard_shrink_gradient": row(lambda x, y, p, q: select((y > p) | (y < -p), x, 0), [(0.5, 0)]),
    "soft_shrink": row(
        lambda x, y, p, q: select(x > p, x - p, select(x < -p, x + p, 0)),
        [(0.5, 0), (0, 0)],
        lambda x, y, p, q: [x - p, x + p],
    ),
    "tanh_shrink": row(lambda x, y, p, q: x - np.tanh(x)),
    "tanh_shrink_gradient": row(lambda x, y, p, q: x * np.tanh(y) ** 2),
    "threshold": row(
        lambda x, y, p, q: select(x > p, x, q), [(1, 1), (-0.5, 3)], lambda x, y, p, q: [x - p]
    ),
    "threshold_gradient": row(lambda x, y, p, q: select(y > p, x, 0), [(0.5, 0)]),
    "gelu": row(lambda x, y, p, q: gelu(x)),
    "gelu_gradient": row(lambda x, y, p, q: x * gelu_derivative(y)),
    "hard_swish": row(
        lambda x, y, p, q: x * np.clip(x + 3, 0, 6) / 6, kinks=lambda x, y, p, q: [x - 3, x + 3]
    ),
    "hard_swish_gradient": row(
        lambda x, y, p, q: x * select(y <= -3, 0, select(y >= 3, 1, (2 * y + 3) / 6))
    ),
    "clamp_gradient": row(lambda x, y, p, q: select((y > p) & (y < q), x, 0), [(-1, 1)]),
    "huber": row(
        lambda x, y, p, q: select(
            np.abs(x - y) <= p, 0.5 * (x - y) ** 2, p * (np.abs(x - y) - 0.5 * p)
        ),
        [(1, 0), (0.4, 0)],
    ),
    "label_product": row(lambda x, y, p, q: x * y),
    "sigmoid_cross_entropy": row(
        lambda x, y, p, q: -y * np.log(sigmoid(x)) - (1 - y) * np.log(1 - sigmoid(x))
    ),
}

CASES = [(name, p, q) for name, r in ROWS.items() for p, q in r.parameters]


def operands(name, p, q):
    """Two columns of arguments away from the row's kinks, as many as its arity."""
    r = ROWS[name]
    rng = np.random.default_rng(len(name))
    x = rng.uniform(*r.inside, 60)
    y = rng.uniform(*r.inside_y, 60)
    if name == "sigmoid_cross_entropy":
        y = rng.uniform(0, 1, 60)
    if r.positive:
        x = np.abs(x) + 0.05
    keep = np.abs(x) > 0.02
    if TABLE[name][0] == 2:
        keep &= np.abs(y) > 0.02
    for distance in r.kinks(x, y, p, q):
        keep &= np.abs(distance) > 1e-3
    return [x[keep], y[keep]][: TABLE[name][0]]


def expected(name, arrays, p, q):
    return ROWS[name].value(*[*arrays, None, None][:2], p, q)


def evaluate(name, arrays, p=0.0, q=0.0, device="reference"):
    return forward("elementwise", scalar_list(name, len(arrays), p, q), arrays, device)[0]


def derivative(name, arrays, p=0.0, q=0.0, operand=0, dy=1.0, device="reference"):
    attributes = scalar_list(name, len(arrays), p, q)
    cotangent = np.full_like(arrays[0], dy)
    return gradients("elementwise", attributes, arrays, [cotangent], [operand], device)[0]


# The reference implementation in both of its types, other devices in float32.
everywhere = pytest.mark.parametrize(
    ("device", "dtype"),
    [("reference", "float64"), ("reference", "float32"), ("cpu", "float32")],
)


def test_every_row_is_covered():
    assert set(ROWS) == set(TABLE)


@everywhere
@pytest.mark.parametrize(("name", "p", "q"), CASES)
def test_value(name, p, q, device, dtype):
    if name == "constant":
        attributes = scalar_list(name, 0, p)
        attributes["shape"] = [3]
        np.testing.assert_array_equal(forward("elementwise", attributes, [], device)[0], [p] * 3)
        return
    arrays = operands(name, p, q)
    arrays = [a.astype(dtype) for a in arrays]
    wide = [a.astype(np.float64) for a in arrays]
    bounds = {"rtol": 1e-13, "atol": 1e-14} if dtype == "float64" else {"rtol": 2e-6, "atol": 2e-6}
    found = evaluate(name, arrays, p, q, device)
    np.testing.assert_allclose(found, expected(name, wide, p, q), **bounds)


@pytest.mark.parametrize(("name", "p", "q"), [c for c in CASES if any(TABLE[c[0]][1:])])
def test_derivative(name, p, q):
    arity, *has_gradient = TABLE[name]
    wanted = [k for k in range(arity) if has_gradient[k]]
    empty = name == "clip" and p >= q  # constant everywhere, so nothing is a kink
    arrays = [np.array([-2.0, 0.3, 2.0])] if empty else operands(name, p, q)
    check_gradients("elementwise", scalar_list(name, arity, p, q), arrays, wanted)


KINKS = [
    # function, p, q, x, derivative there
    ("relu", 0, 0, 0, 0),
    ("leaky_relu", 0.3, 0, 0, 0.3),
    ("leaky_relu", -0.5, 0, 0, -0.5),
    ("elu", 0.4, 0, 0, 0.4),
    ("elu", -0.4, 0, 0, -0.4),
    ("relun", 0.2, 6, 0, 0.2),
    ("relun", 0.2, 6, 6, 0),
    ("celu", 2, 0, 0, 1),
    ("selu", 0, 0, 0, SELU_SCALE * SELU_ALPHA),
    ("absolute", 0, 0, 0, 0),
    ("clip", -1, 2, -1, 0),
    ("clip", -1, 2, 2, 0),
    ("hard_sigmoid", 0.25, 0.5, -2, 0),
    ("hard_sigmoid", 0.25, 0.5, 2, 0),
    ("hard_shrink", 0.5, 0, 0.5, 0),
    ("hard_shrink", 0.5, 0, -0.5, 0),
    ("soft_shrink", 0.5, 0, 0.5, 0),
    ("soft_shrink", 0.5, 0, -0.5, 0),
    ("threshold", 0.5, 9, 0.5, 0),
    ("hard_swish", 0, 0, -3, 0),
    ("hard_swish", 0, 0, 3, 1),
    ("floor", 0, 0, 2, 0),
    ("round", 0, 0, 0.5, 0),
    ("ceil", 0, 0, -3, 0),
]


@everywhere
@pytest.mark.parametrize(("name", "p", "q", "x", "slope"), KINKS)
def test_kink(name, p, q, x, slope, device, dtype):
    found = derivative(name, [np.full(19, x, dtype)], p, q, device=device)
    np.testing.assert_allclose(found, np.full(19, slope), rtol=2e-7, atol=0)


@pytest.mark.parametrize("name", ["minimum", "maximum"])
def test_tie_shares_the_gradient(name):
    tie = [np.array([1.5]), np.array([1.5])]
    assert derivative(name, tie, operand=0) == [0.5]
    assert derivative(name, tie, operand=1) == [0.5]


# These take nothing of y along where they do not choose it.
CHOOSES = {"where_nonzero", "parametric_relu", "parametric_relu_slope", "factor_no_nan"}
VALUES = [c for c in CASES if TABLE[c[0]][0] > 0 and not c[0].endswith("_gradient")]
# Immediates that make the function constant, and with it the gradient 0.
CONSTANT = [("clip", 1, 1), ("clip", 1, -1), ("tanh", 0, 1)]


def with_nan(name, dtype, operand):
    """Numbers with a NaN in places of one operand: alone in a vector, and in its last part."""
    ordinary = 1.75 if name == "acosh" else 0.75
    arrays = [np.full(37, ordinary, dtype) for _ in range(TABLE[name][0])]
    places = np.zeros(37, bool)
    places[[2, 17, 36]] = True
    arrays[operand][places] = np.nan
    return arrays, places


@everywhere
@pytest.mark.parametrize(("name", "p", "q"), VALUES)
def test_nan_propagates(name, p, q, device, dtype):
    for operand in range(TABLE[name][0] if name not in CHOOSES else 1):
        arrays, places = with_nan(name, dtype, operand)
        found = evaluate(name, arrays, p, q, device)
        np.testing.assert_array_equal(np.isnan(found), places)


@everywhere
@pytest.mark.parametrize(("name", "p", "q"), [c for c in VALUES if TABLE[c[0]][1]])
def test_nan_gradient_reaches_the_source(name, p, q, device, dtype):
    """A NaN makes the gradients of later layers NaN; no function may stop them at its own NaN."""
    if (name, p, q) in CONSTANT:
        return
    arrays, places = with_nan(name, dtype, 0)
    found = derivative(name, arrays, p, q, dy=np.nan, device=device)
    assert np.isnan(found[places]).all()


BOUNDED = ["sigmoid", "hard_sigmoid", "tanh", "soft_sign", "log_sigmoid", "selu", "gelu"]
BOUNDED += ["soft_plus", "elu", "relun", "celu", "tanh_shrink", "hard_swish", "relu", "clip"]


@everywhere
@pytest.mark.parametrize("name", BOUNDED)
def test_large_arguments_stay_finite(name, device, dtype):
    x = np.array([-1e6, -1e3, -100, -40, 40, 100, 1e3, 1e6], dtype)
    p, q = (0.5, 1.0) if name != "soft_plus" else (1.0, 1.0)
    with np.errstate(over="ignore"):
        wide = expected(name, [x.astype(np.float64)], p, q)
    found = evaluate(name, [x], p, q, device)
    # float32 may flush what is below its smallest normal number
    np.testing.assert_allclose(found, wide, rtol=1e-6, atol=1e-30 if dtype == "float64" else 2e-38)
    assert np.isfinite(derivative(name, [x], p, q, device=device)).all()


def test_sigmoid_cross_entropy_at_large_logits():
    x = np.array([-1000.0, -1000.0, 1000.0, 1000.0, -np.inf])
    t = np.array([0.0, 1.0, 0.0, 1.0, 0.0])
    np.testing.assert_array_equal(evaluate("sigmoid_cross_entropy", [x, t]), [0, 1000, 1000, 0, 0])
    np.testing.assert_array_equal(derivative("sigmoid_cross_entropy", [x, t]), [0, -1, 1, 0, 0])


@everywhere
@pytest.mark.parametrize(
    "name",
    ["sin", "tan", "asin", "atan", "sinh", "tanh", "asinh", "atanh", "floor", "round", "ceil"],
)
def test_zero_keeps_its_sign(name, device, dtype):
    x = np.array([0.0, -0.0] * 20, dtype)
    found = evaluate(name, [x], 1.0, 1.0, device)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(x))


@everywhere
def test_powers_have_the_exceptions_of_ieee_754(device, dtype):
    ends = [0.0, 1.0, 2.5, 3.0, 0.5, 89.0, np.inf, np.finfo(dtype).max, np.nan, 1e-40]
    numbers = np.array([sign * end for end in ends for sign in (1, -1)], dtype)
    x, y = (a.ravel() for a in np.meshgrid(numbers, numbers))
    with np.errstate(all="ignore"):
        right = np.power(x.astype(np.float64), y.astype(np.float64)).astype(dtype)
    found = evaluate("pow", [x, y], device=device)
    near = {"rtol": 2e-6, "atol": 2e-38} if dtype == "float32" else {"rtol": 1e-13}
    np.testing.assert_allclose(found, right, **near)
    known = ~np.isnan(right)
    np.testing.assert_array_equal(np.signbit(found)[known], np.signbit(right)[known])


def test_mask_removes_what_is_not_finite():
    x = np.array([np.nan, np.inf, 2.0])
    y = np.array([0.0, 0.0, 3.0])
    np.testing.assert_array_equal(evaluate("mask", [x, y]), [0, 0, 6])
    attributes = scalar_list("mask", 2)
    cotangent = np.array([np.nan, 1.0, 1.0])
    found = gradients("elementwise", attributes, [x, y], [cotangent], [0])[0]
    np.testing.assert_array_equal(found, [0, 0, 3])
