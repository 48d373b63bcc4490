"""The CPU backend's loops over lists of scalar functions against the reference in float64: shapes
around vector widths, every layout, one thread and two."""

import numpy as np
import pytest
from cpu_ops import LAYOUTS, check, numbers, on_cpu, scalars

from op_harness import forward, testing

BIAS_RELU = scalars(2, [("add", 0, 1, 0, 0), ("relu", 2, -1, 0, 0)])
LISTS = {
    # kinds: v full shape, c one per channel, s a number
    "bias and relu": ("vc", BIAS_RELU),
    "bias first": ("cv", scalars(2, [("add", 1, 0, 0, 0), ("relu", 2, -1, 0, 0)])),
    "sum and relu": ("vv", BIAS_RELU),
    "scale and shift": ("vcc", scalars(3, [("multiply", 0, 1, 0, 0), ("add", 3, 2, 0, 0)])),
    "channel broadcast": ("vc", scalars(2, [("identity", 1, -1, 0, 0)])),
    "sgd": ("vvs", scalars(3, [("multiply", 2, 1, 0, 0), ("subtract", 0, 3, 0, 0)])),
    "sgd with decay": (
        "vvs",
        scalars(
            3, [("multiply_add", 1, 0, 1, 0.1), ("multiply", 2, 3, 0, 0), ("subtract", 0, 4, 0, 0)]
        ),
    ),
    "momentum": (
        "vvvs",
        scalars(
            4,
            [("multiply", 3, 1, 0, 0), ("multiply_add", 2, 4, 0.9, 1), ("subtract", 0, 5, 0, 0)],
            [6, 5],
        ),
    ),
    "nesterov": (
        "vvvs",
        scalars(
            4,
            [
                ("multiply_add", 2, 1, 0.9, 1),
                ("multiply_add", 1, 4, 1, 0.9),
                ("multiply", 3, 5, 0, 0),
                ("subtract", 0, 6, 0, 0),
            ],
            [7, 4],
        ),
    ),
    "adam": (
        "vvvvs",
        scalars(
            5,
            [
                ("multiply_add", 2, 1, 0.9, 0.1),
                ("square", 1, -1, 0, 0),
                ("multiply_add", 3, 6, 0.99, 0.01),
                ("sqrt", 7, -1, 0, 0),
                ("affine", 8, -1, 1, 1e-3),
                ("multiply", 4, 5, 0, 0),
                ("divide", 10, 9, 0, 0),
                ("subtract", 0, 11, 0, 0),
            ],
            [12, 5, 7],
        ),
    ),
    "no loop of its own": (
        "vcs",
        scalars(
            3,
            [
                ("tanh", 0, -1, 1, 1),
                ("multiply", 3, 1, 0, 0),
                ("constant", -1, -1, 0.5, 0),
                ("subtract", 2, 5, 0, 0),
                ("maximum", 4, 6, 0, 0),
                ("sigmoid", 7, -1, 0, 0),
            ],
            [8, 4, 0, 8],
        ),
    ),
}
SHAPES = [(2, 16, 5, 7), (3, 48, 1, 3), (1, 10, 4, 4), (2, 1, 9, 9), (33, 10), (7, 130), (1, 1)]


def operands(kinds, shape):
    per_channel = tuple(e if axis == 1 else 1 for axis, e in enumerate(shape))
    kind_shapes = {"v": shape, "c": per_channel, "s": ()}
    return [numbers(kind_shapes[k], 0.05, 1, seed=i) for i, k in enumerate(kinds)]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", LISTS)
def test_lists(name, layout):
    kinds, code = LISTS[name]
    for shape in SHAPES:
        if layout == "plain" or len(shape) == 4:
            check("elementwise", {"list": code}, operands(kinds, shape), layout=layout)


@pytest.mark.parametrize("name", LISTS)
def test_large_lists_on_two_threads(name, threads):
    kinds, code = LISTS[name]
    check("elementwise", {"list": code}, operands(kinds, (3, 16, 70, 71)))


@pytest.mark.parametrize("elements", [*range(1, 35), 1000, 8191])
def test_no_element_is_left_out(elements):
    code = scalars(2, [("subtract", 0, 1, 0, 0), ("absolute", 2, -1, 0, 0)], [3, 2])
    check("elementwise", {"list": code}, [numbers((elements,), seed=k) for k in range(2)])


@pytest.mark.parametrize(
    "shapes",
    [
        [(2, 3, 4), (3, 1)],
        [(2, 3, 4), (2, 1, 4)],
        [(5, 1, 7), (1, 6, 1)],
        [(4, 1), (1, 9), ()],
        [(2, 16, 3, 5), (16, 3, 5), (5,)],
        [(2, 16, 3, 5), (1, 1, 3, 1), (2, 16, 1, 1)],
    ],
)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_broadcast_operands(shapes, layout):
    arrays = [numbers(s, seed=k) for k, s in enumerate(shapes)]
    code = [("add", 0, 1, 0, 0)]
    if len(shapes) == 3:
        code.append(("multiply", 3, 2, 0, 0))
    check("elementwise", {"list": scalars(len(shapes), code)}, arrays, layout=layout)


def test_random_lists():
    rng = np.random.default_rng(7)
    unary = ["relu", "negate", "square", "tanh", "sigmoid", "affine", "absolute", "exp"]
    binary = ["add", "subtract", "multiply", "maximum", "relu_gradient", "multiply_add"]
    for _ in range(60):
        shape = tuple(int(e) for e in rng.integers(1, 40, rng.integers(1, 4)))
        kinds = [shape, (), tuple(e if rng.integers(2) else 1 for e in shape)]
        inputs = int(rng.integers(1, 5))
        chosen = [shape] + [kinds[rng.integers(3)] for _ in range(inputs - 1)]
        code = []
        for k in range(int(rng.integers(1, 10))):
            x, y = (int(v) for v in rng.integers(0, inputs + k, 2))
            if rng.integers(2):
                code.append((unary[rng.integers(len(unary))], x, -1, 0.9, 0.2))
            else:
                code.append((binary[rng.integers(len(binary))], x, y, 0.5, 0.4))
        results = [int(v) for v in rng.integers(0, inputs + len(code), 3)]
        arrays = [numbers(s, -0.6, 0.6, seed=k) for k, s in enumerate(chosen)]
        attributes = {"list": scalars(inputs, code, results), "shape": shape}
        check("elementwise", attributes, arrays, bound=1e-5)


@pytest.mark.parametrize(
    "function",
    ["exp", "log", "tanh", "erf", "sigmoid", "gelu", "elu", "selu", "log_sigmoid", "soft_plus"],
)
def test_functions_stay_close_over_wide_ranges(function):
    """A few units in the last place, from denormals to infinities; NaN comes through."""
    powers = np.float32(2) ** np.arange(-149, 128, dtype=np.float32)
    x = np.concatenate([powers * 1.37, np.linspace(-110, 110, 4001, dtype=np.float32)])
    x = np.concatenate([x, -x, [0, -0.0, np.inf, -np.inf, np.nan]]).astype(np.float32)
    if function == "gelu":
        x = x[(np.abs(x) < 1e6) | np.isnan(x)]
    attributes = {"list": scalars(1, [(function, 0, -1, 1, 1)])}
    expected = forward("elementwise", attributes, [x.astype(np.float64)])[0]
    got = on_cpu("elementwise", attributes, [x])[0][0]
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    with np.errstate(over="ignore", under="ignore"):
        rounded = expected.astype(np.float32)
    # Where the result is a difference of close numbers, an ulp of 1 is what counts.
    absolute = {"gelu": 2e-6}.get(function, 1e-37)
    np.testing.assert_allclose(got, rounded, rtol=1e-6, atol=absolute)


@pytest.mark.parametrize("name", ["silu", "gelu_erf", "mish", "squareplus"])
def test_activations_are_one_loop_each(name):
    """Their lists are made when compiling the library and again by a graph: in one order."""
    assert testing.activation_loops()[name] == (True, True)


def test_padding_stays_zero():
    """A padded layout is kept by lists that keep 0, and left by those that do not."""
    x = numbers((2, 10, 3, 3))
    relu = {"list": scalars(1, [("relu", 0, -1, 0, 0)])}
    sigmoid = {"list": scalars(1, [("sigmoid", 0, -1, 0, 0)])}
    assert check("elementwise", relu, [x], layout="blocks of 16") == "0123b1x16"
    assert check("elementwise", sigmoid, [x], layout="blocks of 16") == "plain"
    kinds, adam = LISTS["adam"]
    arrays = operands(kinds, x.shape)
    assert check("elementwise", {"list": adam}, arrays, layout="blocks of 16") == "0123b1x16"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("counts", [0.0, 1.0])
def test_an_update_that_may_not_count(counts, layout):
    """As under loss scaling: where the step does not count, the old numbers with all their bits."""
    lowest = -np.inf
    rule = [("multiply_add", 2, 1, 0.9, 1), ("multiply", 3, 5, 0, 0), ("subtract", 0, 6, 0, 0)]
    code = [*rule, ("constant", -1, -1, 1, 0), ("subtract", 8, 4, 0, 0)]
    for now, before in [(7, 0), (5, 2)]:
        kept = ("where_nonzero", before, 9, lowest, 0)
        code += [kept, ("where_nonzero", now, 4, lowest, 0)]
        end = 5 + len(code)
        code.append(("maximum", end - 1, end - 2, 0, 0))
    attributes = {"list": scalars(5, code, [12, 15])}
    for shape in [(2, 16, 5, 7), (33, 100)]:
        if layout != "plain" and len(shape) != 4:
            continue
        p, g, m = (numbers(shape, -1, 1, seed=k) for k in range(3))
        p.flat[:3], m.flat[:3] = [-0.0, np.inf, 1e-40], [0.0, -np.inf, -0.0]
        arrays = [p, g, m, *(np.array(number, np.float32) for number in (0.1, counts))]
        right = forward("elementwise", attributes, arrays)
        got = on_cpu("elementwise", attributes, arrays, layout)[0]
        for found, expected, old in zip(got, right, (p, m), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
            assert counts or found.tobytes() == old.tobytes()
