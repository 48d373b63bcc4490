"""Rows minus their mean, over their deviation."""

import numpy as np
import pytest

from harness import everywhere
from op_harness import check_gradients, checks, forward, gradients, in_half, testing

SHAPES = [
    ((3, 5), 1), ((2, 3, 4), 1), ((2, 3, 4), 2), ((4, 1, 1, 3), 1), ((7, 2), 1),
    ((2, 64), 1), ((2, 3, 257), 2), ((5, 4100), 1), ((3, 4), 0), ((40, 3), 1),
]  # fmt: skip


def numbers(*shape, seed=1):
    return np.random.default_rng(seed).normal(1, 2, shape)


def expected(x, axis, epsilon):
    axes = tuple(range(axis, x.ndim))
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    inverse = 1 / np.sqrt(variance + epsilon)
    return (x - mean) * inverse, mean, inverse, variance


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_values(shape, axis):
    x = numbers(*shape)
    attributes = {"axis": axis, "epsilon": 0.25}
    found = forward("row_norm", attributes, [x])
    for got, right in zip(found, expected(x, axis, 0.25), strict=True):
        assert got.shape == right.shape
        np.testing.assert_allclose(got, right, rtol=1e-12, atol=1e-14)
    if x.size < 1000:
        check_gradients("row_norm", attributes, [x], [0])


def samples():
    for shape, axis in SHAPES:
        x = numbers(*shape).astype(np.float32)
        yield "row_norm", {"axis": axis, "epsilon": 1e-3}, [x], [0]


test_float32 = checks(samples())


@everywhere
def test_what_two_numbers_leave_of_a_gradient(device):
    """Nearly nothing: what epsilon is of the variance."""
    x = np.float32([[3.0, 5.0], [1e4, 1e4 + 2]])
    dy = np.float32([[1.0, -2.0], [0.5, 0.25]])
    attributes = {"axis": 1, "epsilon": 1e-5}
    (found,) = gradients("row_norm", attributes, [x], [dy, None, None, None], [0], device)
    half = (dy[:, :1].astype(float) - dy[:, 1:]) / 2
    right = half * 1e-5 / (1 + 1e-5) ** 1.5 * [[1, -1]]
    np.testing.assert_allclose(found, right, rtol=1e-5)


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_statistics_of_16_bits_are_float32(half):
    x = numbers(3, 8).astype(np.float32)
    found, types = in_half("row_norm", {"axis": 1}, [x], half)
    assert types == [half, "float32", "float32", "float32"]
    np.testing.assert_allclose(found[0], expected(x, 1, 1e-5)[0], atol=0.03)


def test_wrong_operands():
    for op, arrays in [("row_norm", [numbers(2, 3)]), ("row_norm_gradient", [numbers(2, 3)] * 2)]:
        with pytest.raises(ValueError, match=r"an axis below 2 for shape \(2, 3\) but got 2"):
            forward(op, {"axis": 2}, arrays)
    with pytest.raises(ValueError, match=r"a gradient \(2, 3\) but got \(2, 4\)"):
        forward("row_norm_gradient", {}, [numbers(2, 4), numbers(2, 3)])
    graph = testing.Graph()
    x = graph.add_input("float64", (2, 3))
    results = graph.add_op("row_norm", {}, [x])
    seed = graph.add_input("float64", (2, 1))
    with pytest.raises(Exception, match="the statistics have no gradient"):
        graph.autodiff({results[1]: seed}, [x])
