"""Every row of the scalar table: value, derivative, kinks, NaN, and large arguments."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from op_harness import check_gradients, forward, gradients, scalar_list, testing
from scalar_formulas import FUNCTIONS

TABLE = testing.scalar_table()

SELU_SCALE = 1.0507009873554805
SELU_ALPHA = 1.6732632423543772


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


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


# Where other numbers than the usual ones are tried.
WHERE = {
    "minimum": {"kinks": lambda x, y, p, q: [x - y]},
    "maximum": {"kinks": lambda x, y, p, q: [x - y]},
    "scale": {"parameters": [(-1.5, 0)]},
    "affine": {"parameters": [(1, 0), (-1.5, 0.25)]},
    "multiply_add": {"parameters": [(0.9, -0.1)]},
    "sqrt": {"positive": True},
    "rsqrt": {"positive": True},
    "clip": {
        "parameters": [(-1, 1), (0.5, 2), (1, 1), (1, -1)],
        "kinks": lambda x, y, p, q: [x - p, x - q],
    },
    "log": {"positive": True},
    "power": {"parameters": [(0.5, 0), (-1.5, 0)], "positive": True},
    "floor": {"kinks": lambda x, y, p, q: [x - np.rint(x)]},
    "round": {"kinks": lambda x, y, p, q: [x - np.floor(x) - 0.5]},
    "ceil": {"kinks": lambda x, y, p, q: [x - np.rint(x)]},
    "tan": {"kinks": lambda x, y, p, q: [0.03 * np.cos(x)]},
    "asin": {"inside": (-0.98, 0.98)},
    "acos": {"inside": (-0.98, 0.98)},
    "acosh": {"inside": (1.02, 9)},
    "atanh": {"inside": (-0.98, 0.98)},
    "log2": {"positive": True},
    "pow": {"positive": True},
    "pow_slope": {"positive": True},
    "times_log": {"inside_y": (0.05, 3)},
    "where_nonzero": {"parameters": [(2.5, 0)]},
    "relu": {"kinks": lambda x, y, p, q: [x]},
    "leaky_relu": {
        "parameters": [(0.01, 0), (0.3, 0), (-0.5, 0), (2, 0)],
        "kinks": lambda x, y, p, q: [x],
    },
    "parametric_relu": {"kinks": lambda x, y, p, q: [x]},
    "hard_sigmoid": {
        "parameters": [(0.2, 0.5), (-0.3, 0.1)],
        "kinks": lambda x, y, p, q: [p * x + q, p * x + q - 1],
    },
    "tanh": {"parameters": [(1, 1), (-2, 0.5), (1.5, -0.7), (0, 1)]},
    "absolute": {"kinks": lambda x, y, p, q: [x]},
    "soft_plus": {"parameters": [(1, 1), (0.5, 2), (-1, -0.5), (1, 0)]},
    "elu": {"parameters": [(1, 0), (0.3, 0), (0, 0), (-0.5, 0)], "kinks": lambda x, y, p, q: [x]},
    "relun": {
        "parameters": [(0, 6), (1, 1), (0.1, 0.5), (-1, 1.5), (0.5, -0.5)],
        "kinks": lambda x, y, p, q: [x, select(x >= 0, x, p * x) - q],
    },
    "selu": {"kinks": lambda x, y, p, q: [x]},
    "celu": {"parameters": [(1, 0), (0.3, 0), (2, 0), (-1.5, 0)], "kinks": lambda x, y, p, q: [x]},
    "hard_shrink": {
        "parameters": [(0.5, 0), (0, 0), (-1, 0)],
        "kinks": lambda x, y, p, q: [x - p, x + p],
    },
    "soft_shrink": {"parameters": [(0.5, 0), (0, 0)], "kinks": lambda x, y, p, q: [x - p, x + p]},
    "threshold": {"parameters": [(1, 1), (-0.5, 3)], "kinks": lambda x, y, p, q: [x - p]},
    "hard_swish": {"kinks": lambda x, y, p, q: [x - 3, x + 3]},
    "huber": {"parameters": [(1, 0), (0.4, 0)]},
}
ROWS = {name: row(f.value, **WHERE.get(name, {})) for name, f in FUNCTIONS.items()}
# Gradients of x, which y is.
OF_SOURCE = {"soft_plus": (0.5, 2), "soft_sign": (0, 0), "log_sigmoid": (0, 0), "celu": (2, 0)}
OF_SOURCE |= {"hard_shrink": (0.5, 0), "tanh_shrink": (0, 0), "threshold": (0.5, 0)}
OF_SOURCE |= {"gelu": (0, 0), "hard_swish": (0, 0)}
ROWS |= {
    f"{name}_gradient": row(
        lambda x, y, p, q, slope=FUNCTIONS[name].slopes[0]: x * slope(y, y, p, q), [pq]
    )
    for name, pq in OF_SOURCE.items()
}
# What other gradients are made of, and the constant.
ROWS |= {
    "constant": row(lambda x, y, p, q: np.full((), p), [(2.5, 0)]),
    "minimum_gradient": row(lambda x, y, p, q: select(y < 0, x, select(y == 0, x / 2, 0))),
    "asinh_gradient": row(lambda x, y, p, q: x / np.hypot(y, 1)),
    "relu_gradient": row(lambda x, y, p, q: select(y > 0, x, 0)),
    "leaky_relu_gradient": row(lambda x, y, p, q: select(y > 0, x, p * x), [(0.3, 0)]),
    "sigmoid_gradient": row(lambda x, y, p, q: x * y * (1 - y)),
    "hard_sigmoid_gradient": row(
        lambda x, y, p, q: select((y > 0) & (y < 1), p * x, 0), [(0.2, 0)]
    ),
    "tanh_gradient": row(lambda x, y, p, q: x * q * (p - y * y / p), [(1, 1), (-2, 0.5)]),
    "elu_gradient": row(
        lambda x, y, p, q: x * select(y > 0, 1, y + p if p >= 0 else p * np.exp(y)),
        [(0.3, 0), (-0.5, 0)],
    ),
    "relun_gradient": row(
        lambda x, y, p, q: select(select(y > 0, y, p * y) < q, select(y > 0, x, p * x), 0),
        [(0.1, 1)],
    ),
    "selu_gradient": row(
        lambda x, y, p, q: x * select(y > 0, SELU_SCALE, y + SELU_SCALE * SELU_ALPHA)
    ),
    "clamp_gradient": row(lambda x, y, p, q: select((y > p) & (y < q), x, 0), [(-1, 1)]),
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
    [
        "sin",
        "tan",
        "asin",
        "atan",
        "sinh",
        "tanh",
        "asinh",
        "atanh",
        "erf",
        "floor",
        "round",
        "ceil",
    ],
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
