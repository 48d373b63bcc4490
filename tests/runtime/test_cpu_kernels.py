"""The CPU backend's own loops against the reference in float64: shapes around vector widths, every
layout, one thread and two, and each instruction level of this machine."""

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest

from op_harness import declare, forward, testing

if "cpu" not in testing.backends():
    pytest.skip("no CPU backend on this machine", allow_module_level=True)

LAYOUTS = {
    "plain": ([], []),
    "channels last": ([0, 2, 3, 1], []),
    "blocks of 16": ([0, 1, 2, 3], [(1, 16)]),
    "blocks of 8": ([0, 1, 2, 3], [(1, 8)]),
}


@pytest.fixture(params=[1, 2])
def threads(request):
    testing.set_thread_count(request.param)
    yield request.param
    testing.set_thread_count(1)


def numbers(shape, low=-1.0, high=1.0, seed=0):
    rng = np.random.default_rng([seed, *shape])
    return rng.uniform(low, high, shape).astype(np.float32)


def on_cpu(op, attributes, arrays, layout="plain"):
    """The op's results with every operand of the first one's shape in this layout, and how its
    first result lay in memory."""
    graph = testing.Graph()
    inputs = declare(graph, arrays)
    operands = []
    for value, array in zip(inputs, arrays, strict=True):
        if layout != "plain" and array.ndim == 4 and array.shape[1] > 1:
            value = graph.add_op("reorder", {}, [value])[0]
            testing.set_layout(graph, value, *LAYOUTS[layout])
        operands.append(value)
    results = graph.add_op(op, attributes, operands)
    plain = [graph.add_op("reorder", {}, [r])[0] for r in results if graph.type(r)[1]]
    graph = testing.with_layouts(graph, "cpu")
    bound = dict(zip(inputs, arrays, strict=True))
    found = [graph.run("cpu", bound, plain or results) for _ in range(2)]
    for a, b in zip(*found, strict=True):
        assert a.tobytes() == b.tobytes()
    return found[0], testing.layout(graph, results[0])


def wide(arrays):
    return [a.astype(np.float64) if a.dtype == np.float32 else a for a in arrays]


def near(got, expected, bound):
    """Within `bound` of the largest element of the array and of 1."""
    assert got.shape == expected.shape
    if got.dtype != np.float32:
        np.testing.assert_array_equal(got, expected)
        return
    finite = np.abs(expected[np.isfinite(expected)])
    scale = max(1.0, finite.max(initial=0))
    np.testing.assert_allclose(got, expected, rtol=0, atol=bound * scale)


def check(op, attributes, arrays, bound=2e-6, layout="plain"):
    expected = forward(op, attributes, wide(arrays))
    got, kept = on_cpu(op, attributes, arrays, layout)
    for g, e in zip(got, expected, strict=True):
        near(g, e, bound)
    return kept


def scalars(inputs, code, results=None):
    full = [(f, x, y, float(p), float(q)) for f, x, y, p, q in code]
    last = [inputs + len(code) - 1] if results is None else results
    return {"inputs": inputs, "code": full, "results": last}


# --- elementwise ---------------------------------------------------------------------------------

BIAS_RELU = scalars(2, [("add", 0, 1, 0, 0), ("relu", 2, -1, 0, 0)])
LISTS = {
    # kinds: v full shape, c one per channel, s a number
    "bias and relu": ("vc", BIAS_RELU),
    "bias first": ("cv", scalars(2, [("add", 1, 0, 0, 0), ("relu", 2, -1, 0, 0)])),
    "sum and relu": ("vv", BIAS_RELU),
    "scale and shift": ("vcc", scalars(3, [("multiply", 0, 1, 0, 0), ("add", 3, 2, 0, 0)])),
    "stretch": ("vc", scalars(2, [("identity", 1, -1, 0, 0)])),
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
def test_stretched_operands(shapes, layout):
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
    "function", ["exp", "log", "tanh", "sigmoid", "gelu", "elu", "selu", "log_sigmoid", "soft_plus"]
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


# --- reduce --------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", [0, 1])
def test_reduce(kind, layout, threads):
    for shape in [(2, 16, 5, 7), (3, 10, 4, 4), (5, 48, 3, 3)]:
        x = numbers(shape, 0, 1)
        for count in (1, 2, 3, 4):
            for axes in itertools.combinations(range(4), count):
                check("reduce", {"kind": kind, "axes": list(axes)}, [x], layout=layout)


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((32, 10), [0]), ((5000, 33), [0]), ((7, 1023), [1]), ((300001,), [0]), ((600, 1100), [0, 1])],
)
def test_long_sums(shape, axes, threads):
    """Sums of many float32 numbers lose next to nothing."""
    check("reduce", {"kind": 0, "axes": axes}, [numbers(shape, 0, 1)], bound=3e-7)


# --- matmul --------------------------------------------------------------------------------------

MATRICES = [
    *itertools.product([1, 2, 3, 4, 5, 17], [1, 4, 10, 33], [1, 7, 100]),
    *[(32, 128, 64), (32, 64, 128), (10, 64, 32), (1, 300, 40), (4, 67, 129), (100, 100, 100)],
]


@pytest.mark.parametrize("transposed", list(itertools.product([False, True], repeat=2)))
def test_small_products(transposed, threads):
    ta, tb = transposed
    for m, n, k in MATRICES:
        a = numbers((k, m) if ta else (m, k))
        b = numbers((n, k) if tb else (k, n), seed=1)
        attributes = {"alpha": 0.5, "transpose_a": ta, "transpose_b": tb}
        check("matmul", attributes, [a, b], bound=1e-7 * k + 1e-6)


def test_stacks_of_products(threads):
    arrays = [numbers((2, 3, 9, 20)), numbers((2, 3, 20, 5), seed=1)]
    check("matmul", {}, arrays)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("bias", [None, (33,), (1, 33)])
def test_products_with_an_ending(bias, relu):
    for m, tb in itertools.product([1, 3, 20], [False, True]):
        a, b = numbers((m, 50)), numbers((33, 50) if tb else (50, 33), seed=1)
        code = [("add", 0, 1, 0, 0)] if bias else []
        expected = a.astype(np.float64) @ (b.T if tb else b).astype(np.float64)
        arrays = [a, b]
        if bias:
            arrays.append(numbers(bias, seed=2))
            expected = expected + arrays[2]
        if relu:
            code.append(("relu", 2 if bias else 0, -1, 0, 0))
            expected = np.maximum(expected, 0)
        attributes = {"transpose_b": tb, "epilogue": scalars(2 if bias else 1, code)}
        if code:
            near(on_cpu("matmul", attributes, arrays)[0][0], expected, 5e-6)


# --- batch norm ----------------------------------------------------------------------------------

NORMS = [(4, 16, 5, 7), (2, 48, 9, 9), (3, 10, 4, 4), (50, 100), (7, 16, 60, 60)]


def norm_layouts():
    for shape, layout in itertools.product(NORMS, LAYOUTS):
        if layout == "plain" or len(shape) == 4:
            yield shape, layout


@pytest.mark.parametrize("centre", [0, 1000])
@pytest.mark.parametrize(("shape", "layout"), list(norm_layouts()))
def test_batch_norm(shape, layout, centre, threads):
    """A mean a thousand deviations away costs the digits that float32 sources lack, no more."""
    c = shape[1]
    arrays = [numbers(shape) + np.float32(centre), numbers((c,), seed=1), numbers((c,), seed=2)]
    bound = 5e-6 if centre == 0 else 2e-4
    expected = forward("batch_norm", {}, wide(arrays))
    got = on_cpu("batch_norm", {}, arrays, layout)[0]
    near(got[0], expected[0], bound)
    near(got[1], expected[1], 3e-7)
    for k in (2, 3):
        np.testing.assert_allclose(got[k], expected[k], rtol=3e-6)


@pytest.mark.parametrize(("shape", "layout"), list(norm_layouts()))
def test_batch_norm_gradient(shape, layout, threads):
    c = shape[1]
    arrays = [numbers(shape, seed=3), numbers(shape), numbers((c,), -0.1, 0.1, seed=1)]
    arrays += [numbers((c,), 1, 2, seed=2), numbers((c,), seed=4)]
    check("batch_norm_gradient", {}, arrays, bound=5e-6, layout=layout)
    # with the gradient of relu in front, its operands in either order
    y = numbers(shape, seed=5)
    masked = [np.where(y <= 0, np.float32(0), arrays[0]), *arrays[1:]]
    expected = forward("batch_norm_gradient", {}, wide(masked))
    for code, given in [
        (("relu_gradient", 0, 1, 0, 0), [arrays[0], *arrays[1:], y]),
        (("relu_gradient", 1, 0, 0, 0), [y, *arrays[1:], arrays[0]]),
    ]:
        attributes = {"epilogue": scalars(2, [code])}
        for g, e in zip(
            on_cpu("batch_norm_gradient", attributes, given, layout)[0], expected, strict=True
        ):
            near(g, e, 5e-6)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("adds", [False, True])
def test_batch_norm_with_an_ending(adds, relu, layout):
    shape = (4, 16, 5, 7)
    arrays = [numbers(shape), numbers((16,), seed=1), numbers((16,), seed=2)]
    expected = forward("batch_norm", {}, wide(arrays))[0]
    code = []
    if adds:
        arrays.append(numbers(shape, seed=3))
        code.append(("add", 1, 0, 0, 0))
        expected = expected + arrays[3]
    if relu:
        code.append(("relu", 2 if adds else 0, -1, 0, 0))
        expected = np.maximum(expected, 0)
    attributes = {"epilogue": scalars(2 if adds else 1, code)} if code else {}
    near(on_cpu("batch_norm", attributes, arrays, layout)[0][0], expected, 5e-6)


# --- pooling -------------------------------------------------------------------------------------

WINDOWS = {
    "2": {"kernel": (2, 2), "stride": (2, 2)},
    "3 padded": {
        "kernel": (3, 3),
        "stride": (2, 2),
        "padding_before": (1, 1),
        "padding_after": (1, 1),
    },
    "uneven": {"kernel": (3, 2), "stride": (1, 3), "padding_before": (0, 1)},
    "dilated": {"kernel": (2, 2), "stride": (1, 1), "dilation": (2, 3)},
    "wide index": {"kernel": (17, 17), "stride": (1, 1)},
    "whole": {"kernel": (17, 20), "stride": (1, 1)},
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", [0, 1, 2])
@pytest.mark.parametrize("window", WINDOWS)
def test_pooling(window, kind, layout, threads):
    for channels, with_padding in [(16, False), (10, True)]:
        shape = (3, channels, 17, 20)
        # Many equal elements: the first largest one wins.
        x = np.round(numbers(shape) * 4) if kind == 0 else numbers(shape)
        attributes = {
            **WINDOWS[window],
            "kind": kind,
            "with_index": kind == 0,
            "count_includes_padding": with_padding,
        }
        check("pooling", attributes, [x], layout=layout)
        results = forward("pooling", attributes, [x])
        dy = numbers(results[0].shape, seed=1)
        given = [[dy, results[-1]], [dy], [dy, x, results[0]]][kind]
        check("pooling_gradient", {**attributes, "source_shape": shape}, given, 4e-6, layout=layout)


def test_pooling_keeps_nan():
    x = numbers((2, 16, 6, 6))
    x[0, :, 1, 1] = np.nan
    attributes = {**WINDOWS["2"], "kind": 0, "with_index": True}
    for layout in LAYOUTS:
        check("pooling", attributes, [x], layout=layout)


# --- softmax and cross entropy -------------------------------------------------------------------


@pytest.mark.parametrize("logarithm", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((33, 10), 1), ((3, 1111), 1), ((1, 4), 1), ((17, 35), 0), ((2, 21, 5, 7), 1), ((4, 3, 9), 2)],
)
def test_softmax(shape, axis, logarithm, threads):
    attributes = {"axis": axis, "logarithm": logarithm}
    x = numbers(shape, -30, 30)
    x[tuple(0 for _ in shape)] = -np.inf
    check("softmax", attributes, [x], bound=3e-6)
    y = numbers(shape, -9, 0) if logarithm else numbers(shape, 0, 1)
    check("softmax_gradient", attributes, [numbers(shape, seed=1), y], bound=5e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("labels", ["distribution", "int32", "int64"])
@pytest.mark.parametrize("shape", [(33, 10), (70, 1111), (1, 4), (2, 21, 5, 7), (300, 3)])
def test_cross_entropy(shape, labels, smoothing, threads):
    k = shape[1]
    per_position = (shape[0], 1, *shape[2:])
    if labels == "distribution":
        t = numbers(shape, 0, 2 / k, seed=1)
    else:
        # -1: a position that does not count
        t = np.random.default_rng(1).integers(-1, k, per_position).astype(labels)
    attributes = {"smoothing": smoothing, "classes": k}
    x = numbers(shape, -10, 10)
    check("softmax_cross_entropy", attributes, [x, t], bound=5e-6)
    logsumexp = forward("softmax_cross_entropy", attributes, [x, t])[1]
    given = [numbers(per_position, seed=2), x, t, logsumexp]
    check("softmax_cross_entropy_gradient", attributes, given, bound=5e-6)


# --- instruction levels --------------------------------------------------------------------------

LEVELS = ["v2", "v3"]


@pytest.mark.skipif("TRAINGRAPH_ISA" in os.environ, reason="runs the levels itself")
@pytest.mark.parametrize("level", LEVELS)
def test_lower_levels(level):
    """This file again, in a process whose loops are of a lower level."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", __file__]
    environment = {**os.environ, "TRAINGRAPH_ISA": level}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if "expected a processor" in done.stdout:
        pytest.skip("the machine lacks this level")
    assert done.returncode == 0, done.stdout[-3000:]


def test_an_unknown_level_is_refused():
    code = "from traingraph import _testing as t; t.Graph().run('cpu', {}, [])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TRAINGRAPH_ISA": "v9"},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "expected TRAINGRAPH_ISA to be one of v2, v3, v4 but got 'v9'" in done.stderr
