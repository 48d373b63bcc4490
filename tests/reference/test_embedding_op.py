"""Rows of a table by index, their gradient, the limit of their norms, and the check of indices."""

import numpy as np
import pytest

from harness import everywhere
from op_harness import check_gradients, checks, forward, gradients

RNG = np.random.default_rng(3)
# Rows, their numbers, shape of the indices.
SHAPES = [
    (5, 3, (4,)), (1, 1, (1,)), (7, 4, (2, 3)), (40, 17, (3, 2, 5)), (90, 64, (40, 3)),
    (300, 5, (7,)), (9, 257, (33,)),
]  # fmt: skip


def table(count, dimension):
    return RNG.normal(0, 1, (count, dimension)).astype(np.float32).astype(np.float64)


def indices(count, shape, kind="int64"):
    return RNG.integers(0, count, shape).astype(kind)


def gradient(dy, picks, count, padding=-1, by_frequency=False):
    found = np.zeros((count, dy.shape[-1]))
    for row, part in zip(picks.ravel(), dy.reshape(-1, dy.shape[-1]), strict=True):
        if row != padding and 0 <= row < count:
            found[row] += part
    if by_frequency:
        times = np.bincount(picks.ravel(), minlength=count)[:, None]
        found /= np.maximum(times, 1)
    return found


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize(("count", "dimension", "shape"), SHAPES)
def test_values(count, dimension, shape, kind):
    x, picks = table(count, dimension), indices(count, shape, kind)
    (found,) = forward("embedding", {}, [x, picks])
    np.testing.assert_array_equal(found, x[picks])
    if x.size < 1000:
        check_gradients("embedding", {"count": count}, [x, picks], [0])


def samples():
    for count, dimension, shape in SHAPES:
        for kind in ("int32", "int64"):
            arrays = [table(count, dimension).astype(np.float32), indices(count, shape, kind)]
            for attributes in ({}, {"padding": count // 2}, {"by_frequency": True}):
                yield "embedding", {"count": count, **attributes}, arrays, [0]


test_float32 = checks(samples())


@everywhere
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("options", [{}, {"padding": 2}, {"by_frequency": True}])
def test_the_gradient(options, dtype, device):
    if device == "metal" and dtype == "float64":
        pytest.skip("no float64")
    picks = np.array([[2, 0, 2], [2, 4, 0]])
    # What float32 adds without rounding, however much cancels.
    dy = RNG.integers(-4096, 4096, (2, 3, 8)).astype(dtype) / 1024
    x = np.zeros((5, 8), dtype)
    (found,) = gradients("embedding", {"count": 5, **options}, [x, picks], [dy], [0], device)
    np.testing.assert_allclose(found, gradient(dy, picks, 5, **options), rtol=1e-6, atol=1e-12)


@everywhere
def test_picks_of_a_row_are_added_in_their_order(device):
    """Many of one row: the bits of a loop over them."""
    picks = np.zeros(2000, np.int32)
    dy = RNG.normal(size=(2000, 3)).astype(np.float32)
    x = np.zeros((2, 3), np.float32)
    (found,) = gradients("embedding", {"count": 2}, [x, picks], [dy], [0], device)
    right = np.zeros(3, np.float32)
    for part in dy:
        right += part
    np.testing.assert_array_equal(found, [right, [0, 0, 0]])


@everywhere
@pytest.mark.parametrize("wrong", [-1, 5, 2**40, -(2**40)])
def test_an_index_outside_reads_and_writes_nothing(device, wrong):
    x = table(5, 4).astype(np.float32)
    picks = np.array([0, wrong, 3])
    dy = np.ones((3, 4), np.float32)
    (found,) = forward("embedding", {}, [x, picks], device)
    np.testing.assert_array_equal(found, [x[0], np.zeros(4), x[3]])
    (slope,) = gradients("embedding", {"count": 5}, [x, picks], [dy], [0], device)
    np.testing.assert_array_equal(slope, gradient(dy, picks, 5))
    (limited,) = forward("limit_rows", {"maximum": 0.5, "order": 2}, [x, picks], device)
    np.testing.assert_array_equal(limited[[1, 2, 4]], x[[1, 2, 4]])
    for op, arrays, right in [
        ("gather", [x, picks], [x[0], np.zeros(4), x[3]]),
        ("gather", [x.T.copy(), picks], None),
    ]:
        axis = 0 if right is not None else 1
        (found,) = forward(op, {"axis": axis}, arrays, device)
        np.testing.assert_array_equal(found if axis == 0 else found.T, [x[0], np.zeros(4), x[3]])
    elements = np.array([[0, wrong, 3, 1]])
    (found,) = forward("gather", {"axis": 0}, [x, elements], device)
    np.testing.assert_array_equal(found, [[x[0, 0], 0, x[3, 2], x[1, 3]]])
    for adds in (False, True):
        (found,) = forward("scatter", {"axis": 0, "adds": adds}, [dy, picks, x], device)
        right = x.copy()
        right[[0, 3]] = dy[[0, 2]] + (right[[0, 3]] if adds else 0)
        np.testing.assert_array_equal(found, right)
        (found,) = forward("scatter", {"axis": 0, "adds": adds}, [dy[:1], elements, x], device)
        right = x.copy()
        for column, row in enumerate(elements[0]):
            if row != wrong:
                right[row, column] = 1 + (right[row, column] if adds else 0)
        np.testing.assert_array_equal(found, right)
    for places in (picks, np.broadcast_to(picks[:, None], (3, 4)).copy()):
        values, tensor, _ = forward("scatter_gradient", {"axis": 0}, [x, places], device)
        np.testing.assert_array_equal(values, [x[0], np.zeros(4), x[3]])
        np.testing.assert_array_equal(tensor[[1, 2, 4]], x[[1, 2, 4]])


def norm_of(rows, order):
    return np.linalg.norm(rows, order, axis=-1, keepdims=True)


@everywhere
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("order", [0.5, 1, 2, 3, np.inf])
def test_limited_rows(order, dtype, device):
    if device == "metal" and dtype == "float64":
        pytest.skip("no float64")
    x = table(40, 17).astype(dtype)
    picks = np.array([3, 5, 3, 3, 39])
    maximum = 0.99 * float(np.median(norm_of(x[[3, 5, 39]], order)))
    (found,) = forward("limit_rows", {"maximum": maximum, "order": order}, [x, picks], device)
    right = x.astype(np.float64)
    norms = norm_of(right[[3, 5, 39]], order)
    right[[3, 5, 39]] *= np.where(norms > maximum, maximum / (norms + 1e-7), 1)
    np.testing.assert_allclose(found, right, rtol=1e-6 if dtype == "float32" else 1e-12)
    others = np.setdiff1d(np.arange(40), picks)
    np.testing.assert_array_equal(found[others], x[others])
    again = forward("limit_rows", {"maximum": maximum, "order": order}, [found, picks], device)
    assert (norm_of(again[0][picks].astype(float), order) <= maximum * (1 + 1e-6)).all()


@everywhere
def test_edges_of_a_limit(device):
    inf, nan = np.inf, np.nan
    x = np.float32([[3, 4], [0, 0], [nan, 5], [inf, 1], [3e38, 3e38], [1e-45, 0], [0.6, 0.8]])
    (found,) = forward("limit_rows", {"maximum": 1.0}, [x, np.arange(7)], device)
    right = [[0.6, 0.8], [0, 0], [nan, 5], [nan, 0], [0.5**0.5, 0.5**0.5], [1e-45, 0], [0.6, 0.8]]
    np.testing.assert_allclose(found, np.float32(right), rtol=1e-6)
    (found,) = forward("limit_rows", {"maximum": 0.0}, [x[:2], np.arange(2)], device)
    np.testing.assert_array_equal(found, np.zeros((2, 2)))


def test_a_limit_passes_gradients_on():
    x, picks, dy = table(4, 3), np.array([1, 1]), RNG.normal(size=(4, 3))
    (found,) = gradients("limit_rows", {"maximum": 0.1}, [x, picks], [dy], [0])
    np.testing.assert_array_equal(found, dy)


@everywhere
@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_check_of_indices(kind, device):
    attributes = {"number": 3, "lowest": 0, "end": 5}

    def check(values, *before):
        arrays = [np.array(values, kind), *map(np.int64, before)]
        return forward("check_indices", attributes, arrays, device)[0].tolist()

    assert check([0, 4, 2]) == [-1, -1, -1]
    assert check([[0, 4], [7, -1]]) == [3, 2, 7]
    assert check([0] * 999 + [-1] + [9] * 999) == [3, 999, -1]
    assert check([9], [-1, -1, -1]) == [3, 0, 9]
    assert check([9], [1, 17, 4]) == [1, 17, 4]


def test_wrong_operands():
    x, picks = table(4, 3), np.array([1])
    for op in ("embedding", "limit_rows"):
        with pytest.raises(ValueError, match=r"a table of two axes but got \(2, 2, 3\)"):
            forward(op, {}, [x.reshape(2, 2, 3), picks])
        with pytest.raises(ValueError, match="int32 or int64 indices but got float64"):
            forward(op, {}, [x, x])
    with pytest.raises(ValueError, match=r"gradients \(1,?\) and one axis more but got \(4, 3\)"):
        forward("embedding_gradient", {"count": 4}, [x, picks])
    with pytest.raises(ValueError, match="a count of 1 or more but got 0"):
        forward("embedding_gradient", {}, [x[:1], picks])
    with pytest.raises(ValueError, match="int32 or int64 indices but got float64"):
        forward("check_indices", {}, [x])
    with pytest.raises(ValueError, match=r"found before as int64 \(3\) but got int64 \(1,?\)"):
        forward("check_indices", {}, [picks, picks])
