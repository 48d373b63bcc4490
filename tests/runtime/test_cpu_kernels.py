"""The CPU backend's hand-written loops against the reference in float64: shapes around vector
widths, every layout, one thread and two."""

import itertools

import numpy as np
import pytest
from cpu_ops import LAYOUTS, check, near, numbers, on_cpu, scalars, wide

from op_harness import forward

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
def test_products_with_an_epilogue(bias, relu):
    for m, tb, alpha in itertools.product([1, 3, 20], [False, True], [1, -0.5]):
        a, b = numbers((m, 50)), numbers((33, 50) if tb else (50, 33), seed=1)
        code = [("add", 0, 1, 0, 0)] if bias else []
        expected = alpha * (a.astype(np.float64) @ (b.T if tb else b).astype(np.float64))
        arrays = [a, b]
        if bias:
            arrays.append(numbers(bias, seed=2))
            expected = expected + arrays[2]
        if relu:
            code.append(("relu", 2 if bias else 0, -1, 0, 0))
            expected = np.maximum(expected, 0)
        attributes = {"alpha": alpha, "transpose_b": tb}
        attributes["epilogue"] = scalars(2 if bias else 1, code)
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
    near(got[1], expected[1], 3e-7, of=arrays[0])  # a mean that is near 0
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
def test_batch_norm_with_an_epilogue(adds, relu, layout):
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
