"""Ops of softmax, cross entropy, data movement and dropout: the reference implementation in
float64, and every backend in float32 against it."""

import numpy as np
import pytest

from op_harness import check_gradients, checks, forward, gradients, testing

RNG = np.random.default_rng(7)


def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def cross_entropy(x, t):
    """(N, 1, …) from logits and a distribution."""
    terms = np.where(t == 0, 0, t * (np.log(np.exp(x).sum(axis=1, keepdims=True)) - x))
    return terms.sum(axis=1, keepdims=True)


def one_hot(classes, count):
    """(N, 1, …) integers to (N, count, …); -1 gives zeros."""
    shape = [1, count] + [1] * (classes.ndim - 2)
    return (classes == np.arange(count).reshape(shape)).astype(float)


@pytest.mark.parametrize("logarithm", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis"), [((5,), 0), ((3, 4), 1), ((3, 4), 0), ((2, 3, 2, 2), 1), ((2, 1, 3), 1)]
)
def test_softmax(shape, axis, logarithm):
    x = RNG.normal(size=shape) * 3
    attributes = {"axis": axis, "logarithm": logarithm}
    expected = softmax(x, axis)
    expected = np.log(expected) if logarithm else expected
    np.testing.assert_allclose(forward("softmax", attributes, [x])[0], expected, rtol=1e-12)
    check_gradients("softmax", attributes, [x], [0])


def test_softmax_of_large_and_masked_logits():
    x = np.array([[1e4, 0.0, -np.inf], [-1e4, -1e4, -np.inf]])
    np.testing.assert_array_equal(
        forward("softmax", {"axis": 1}, [x])[0], [[1, 0, 0], [0.5, 0.5, 0]]
    )


SHAPES = [(4, 5), (3, 4, 2), (2, 3, 2, 2), (3, 1)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("smoothing", "classes"), [(0.0, 0), (0.1, 0), (0.3, 8)])
class TestCrossEntropy:
    def test_distribution(self, shape, smoothing, classes):
        x = RNG.normal(size=shape)
        t = RNG.uniform(0, 1, shape) * (RNG.uniform(size=shape) > 0.3)
        attributes = {"smoothing": smoothing, "classes": classes}
        smooth = t * (1 - smoothing) + smoothing / (classes or shape[1])
        loss, total = forward("softmax_cross_entropy", attributes, [x, t])
        np.testing.assert_allclose(loss, cross_entropy(x, smooth), rtol=1e-12, atol=1e-15)
        expected = np.log(np.exp(x - x.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True))
        np.testing.assert_allclose(total, expected, rtol=1e-12, atol=1e-15)
        check_gradients("softmax_cross_entropy", attributes, [x, t], [0, 1])

    @pytest.mark.parametrize("dtype", [np.int32, np.int64])
    def test_classes(self, shape, smoothing, classes, dtype):
        x = RNG.normal(size=shape)
        position = (shape[0], 1, *shape[2:])
        labels = RNG.integers(0, shape[1], position).astype(dtype)
        labels.flat[0] = -1
        attributes = {"smoothing": smoothing, "classes": classes}
        smooth = one_hot(labels, shape[1]) * (1 - smoothing) + smoothing / (classes or shape[1])
        smooth = np.where(labels == -1, 0, smooth)
        loss, _ = forward("softmax_cross_entropy", attributes, [x, labels])
        np.testing.assert_allclose(loss, cross_entropy(x, smooth), rtol=1e-12, atol=1e-15)
        check_gradients("softmax_cross_entropy", attributes, [x, labels], [0])


def test_zero_labels_contribute_exactly_nothing():
    x = np.array([[-np.inf, 1.0, 2.0], [3.0, np.nan, 1.0], [np.nan, 0.0, 0.0]])
    t = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    loss, _ = forward("softmax_cross_entropy", {}, [x, t])
    np.testing.assert_allclose(loss[:, 0], [np.log1p(np.e), 0, 0], rtol=1e-12)
    cotangent = np.ones((3, 1))
    slope = gradients("softmax_cross_entropy", {}, [x, t], [cotangent, None], [0])[0]
    assert slope[0, 0] == 0
    np.testing.assert_array_equal(slope[1:], np.zeros((2, 3)))
    ignored = np.array([[1], [-1], [-1]])
    for smoothing in (0.0, 0.2):
        attributes = {"smoothing": smoothing}
        loss, _ = forward("softmax_cross_entropy", attributes, [x[1:], ignored[1:]])
        np.testing.assert_array_equal(loss, [[0], [0]])
        slope = gradients(
            "softmax_cross_entropy", attributes, [x[1:], ignored[1:]], [cotangent[1:], None], [0]
        )[0]
        np.testing.assert_array_equal(slope, np.zeros((2, 3)))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_concatenate(axis):
    shapes = [[2, 3, 4], [2, 3, 4], [2, 3, 4]]
    for k, shape in enumerate(shapes):
        shape[axis] = k + 1
    arrays = [RNG.normal(size=s) for s in shapes]
    found = forward("concatenate", {"axis": axis}, arrays)[0]
    np.testing.assert_array_equal(found, np.concatenate(arrays, axis))
    check_gradients("concatenate", {"axis": axis}, arrays, [0, 1, 2])


@pytest.mark.parametrize(("axis", "start", "extent"), [(0, 1, 1), (1, 0, 2), (2, 2, 3)])
def test_slice(axis, start, extent):
    x = RNG.normal(size=(2, 3, 5))
    attributes = {"axis": axis, "start": start, "extent": extent}
    expected = np.take(x, range(start, start + extent), axis)
    np.testing.assert_array_equal(forward("slice", attributes, [x])[0], expected)
    check_gradients("slice", attributes, [x], [0])


@pytest.mark.parametrize(
    ("axis", "starts", "extent"), [(0, [1], 4), (1, [0, 4], 7), (1, [1, 4], 9), (2, [2], 7)]
)
def test_pad(axis, starts, extent):
    parts = [RNG.normal(size=(2, 3, 5)) for _ in starts]
    expected = np.zeros([extent if k == axis else e for k, e in enumerate((2, 3, 5))])
    for start, part in zip(starts, parts, strict=True):
        np.moveaxis(expected, axis, 0)[start : start + part.shape[axis]] = np.moveaxis(
            part, axis, 0
        )
    attributes = {"axis": axis, "starts": starts, "extent": extent}
    np.testing.assert_array_equal(forward("pad", attributes, parts)[0], expected)
    check_gradients("pad", attributes, parts, list(range(len(parts))))


@pytest.mark.parametrize("where_not", [False, True])
def test_select_of_one_source(where_not):
    """Zero elsewhere, whatever stands there."""
    condition, x = np.array([[True], [False]]), np.array([[1.0, np.nan], [np.inf, 2.0]])
    found = forward("select", {"where_not": where_not}, [condition, x])[0]
    np.testing.assert_array_equal(found, np.where(condition != where_not, x, 0))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
class TestIndices:
    """Slices by indices of one axis, elements by indices like the tensor."""

    PLACES = (
        ((2, 5), 1, [4, 0, 4]),
        ((3, 2), 0, [1, 1, 2, 0]),
        ((4,), 0, [3, 3, 1]),
        ((2, 3), 1, [[2, 0, 2, 2], [1, 1, 0, 1]]),
        ((3, 4, 2), 0, [[[2, 0]], [[2, 1]]]),
    )

    @pytest.mark.parametrize(("shape", "axis", "indices"), PLACES)
    def test_gather(self, shape, axis, indices, dtype):
        x, indices = RNG.normal(size=shape), np.array(indices, dtype)
        slices = indices.ndim == 1
        cut = tuple(slice(None if k == axis else e) for k, e in enumerate(indices.shape))
        expected = np.take(x, indices, axis)
        if not slices:
            expected = np.take_along_axis(x[cut], indices, axis)
        found = forward("gather", {"axis": axis}, [x, indices])[0]
        np.testing.assert_array_equal(found, expected)
        check_gradients("gather", {"axis": axis}, [x, indices], [0])

    @pytest.mark.parametrize("adds", [False, True])
    @pytest.mark.parametrize(("shape", "axis", "indices"), PLACES)
    def test_scatter(self, shape, axis, indices, adds, dtype):
        x, indices = RNG.normal(size=shape), np.array(indices, dtype)
        slices = indices.ndim == 1
        places = np.delete(shape, axis).tolist()
        places.insert(axis, len(indices))
        values = RNG.normal(size=places if slices else indices.shape)
        expected = x.copy()
        for at in np.ndindex(values.shape):
            to = list(at)
            to[axis] = indices[at[axis]] if slices else indices[at]
            expected[tuple(to)] = values[at] + (expected[tuple(to)] if adds else 0)
        attributes = {"axis": axis, "adds": adds}
        found = forward("scatter", attributes, [values, indices, x])[0]
        np.testing.assert_array_equal(found, expected)
        check_gradients("scatter", attributes, [values, indices, x], [0, 2])
        onto_zeros = forward("scatter", attributes | {"onto": shape}, [values, indices])[0]
        same = forward("scatter", attributes, [values, indices, np.zeros(shape)])[0]
        np.testing.assert_array_equal(onto_zeros, same)
        check_gradients("scatter", attributes | {"onto": shape}, [values, indices], [0])


def test_the_value_that_stays_alone_has_the_gradient():
    """Of duplicates the last in row-major order; the tensor has none where one was written."""
    values, indices, x = np.ones(4), np.array([2, 0, 2, 2]), np.ones(3)
    arrays, cotangent = [values, indices, x], [np.array([5.0, 6.0, 7.0])]
    found = gradients("scatter", {"axis": 0, "adds": False}, arrays, cotangent, [0, 2])
    np.testing.assert_array_equal(found[0], [0, 5, 0, 7])
    np.testing.assert_array_equal(found[1], [0, 6, 0])


@pytest.mark.parametrize(
    "shapes",
    [[(3, 4)] * 3, [(4,), (3, 4), (1,)], [(3, 1), (1, 4), (3, 4)], [(2, 3, 4), (4,), (3, 1)]],
)
def test_select(shapes):
    condition = RNG.uniform(size=shapes[0]) > 0.5
    x, y = RNG.normal(size=shapes[1]), RNG.normal(size=shapes[2])
    found = forward("select", {}, [condition, x, y])[0]
    np.testing.assert_array_equal(found, np.where(condition, x, y))
    check_gradients("select", {}, [condition, x, y], [1, 2])


def test_what_is_not_taken_does_not_matter():
    condition, nan = np.array([True, False]), np.full(2, np.nan)
    np.testing.assert_array_equal(
        forward("select", {}, [condition, np.ones(2), nan])[0], [1, np.nan]
    )
    found = gradients("select", {}, [condition, nan, nan], [np.ones(2)], [1, 2])
    np.testing.assert_array_equal(found, [[1, 0], [0, 1]])


@pytest.mark.parametrize("axes", [(0,), (1, 0), (2, 0, 1), (0, 3, 1, 2)])
def test_transpose(axes):
    x = RNG.normal(size=(2, 3, 4, 5)[: len(axes)])
    found = forward("transpose", {"axes": axes}, [x])[0]
    np.testing.assert_array_equal(found, x.transpose(axes))
    check_gradients("transpose", {"axes": axes}, [x], [0])


def words(seed, step, count):
    """One word of Philox per element: the key is the seed, the counter (element / 4, step)."""
    low, high = seed & 0xFFFFFFFF, seed >> 32
    blocks = [testing.philox([k, 0, step, 0], [low, high]) for k in range(-(-count // 4))]
    return np.array(blocks, np.uint32).ravel()[:count]


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_philox_known_answers(counter, key, expected):
    assert testing.philox(counter, key) == expected


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.9])
def test_dropout(rate):
    x = RNG.normal(size=(3, 5))
    step = np.array(4)
    attributes = {"rate": rate, "seed": 0x123456789ABCDEF0}
    keep = words(attributes["seed"], 4, x.size).reshape(x.shape) >= int(rate * 2**32)
    expected = np.where(keep, x / (1 - rate), 0)
    np.testing.assert_allclose(forward("dropout", attributes, [x, step])[0], expected, rtol=1e-15)
    slope = gradients("dropout", attributes, [x, step], [np.ones_like(x)], [0])[0]
    np.testing.assert_allclose(slope, keep / (1 - rate), rtol=1e-15)


def test_dropout_mask_depends_on_seed_and_step_alone():
    x = np.ones(4096)

    def mask(array, seed, step):
        return forward("dropout", {"rate": 0.25, "seed": seed}, [array, np.array(step)])[0] != 0

    base = mask(x, 1, 1)
    np.testing.assert_array_equal(mask(x.astype(np.float32), 1, 1), base)
    np.testing.assert_array_equal(mask(x[:100].reshape(10, 10), 1, 1).ravel(), base[:100])
    for other in (mask(x, 1, 2), mask(x, 2, 1)):
        # Independent ones: four standard errors of 4096 elements.
        assert abs((other != base).mean() - 2 * 0.25 * 0.75) < 0.03
    assert abs(base.mean() - 0.75) < 0.03


def samples():
    """(op, attributes, float32 and integer arrays, inputs with a gradient)"""

    def array(*shape):
        return RNG.normal(size=shape).astype(np.float32)

    for shape, axis in [((3, 5), 1), ((4, 3), 0), ((2, 3, 2, 2), 1), ((2, 70), 1)]:
        for logarithm in (False, True):
            yield "softmax", {"axis": axis, "logarithm": logarithm}, [array(*shape)], [0]
    for shape in [*SHAPES, (3, 70), (9, 10)]:
        position = (shape[0], 1, *shape[2:])
        for smoothing in (0.0, 0.1):
            attributes = {"smoothing": smoothing}
            distribution = softmax(array(*shape), 1)
            yield "softmax_cross_entropy", attributes, [array(*shape), distribution], [0]
            for dtype in (np.int32, np.int64):
                labels = RNG.integers(-1, shape[1], position).astype(dtype)
                yield "softmax_cross_entropy", attributes, [array(*shape), labels], [0]
    for axis in (0, 1, 2):
        yield "concatenate", {"axis": axis}, [array(2, 3, 4), array(2, 3, 4)], [0, 1]
    yield "transpose", {"axes": (0, 3, 1, 2)}, [array(2, 3, 4, 5)], [0]
    yield "slice", {"axis": 1, "start": 1, "extent": 2}, [array(2, 4, 3)], [0]
    for starts, extent in (((1,), 5), ((0, 4), 7), ((4, 8), 16)):
        attributes = {"axis": 1, "starts": starts, "extent": extent}
        parts = [array(2, 3, 4) for _ in starts]
        yield "pad", attributes, parts, list(range(len(parts)))
    few, many = np.array([2, 0, 2]), RNG.integers(0, 3, (2, 5), np.int32)
    for indices, places in ((few, (2, 3)), (many, (2, 5))):
        yield "gather", {"axis": 1}, [array(2, 3), indices], [0]
        for adds in (False, True):
            attributes = {"axis": 1, "adds": adds}
            yield "scatter", attributes, [array(*places), indices, array(2, 3)], [0, 2]
            yield "scatter", attributes | {"onto": (2, 3)}, [array(*places), indices], [0]
    yield "select", {}, [RNG.uniform(size=(2, 3)) > 0.5, array(2, 3), array(3)], [1, 2]
    for where_not in (False, True):
        condition = RNG.uniform(size=(2, 3)) > 0.5
        yield "select", {"where_not": where_not}, [condition, array(2, 3)], [1]
    yield "dropout", {"rate": 0.3, "seed": 5}, [array(3, 50), np.array(2)], [0]


test_float32 = checks(samples())


@pytest.mark.parametrize(
    ("op", "attributes", "shapes"),
    [
        ("softmax", {"axis": 2}, [(2, 3)]),
        ("softmax_cross_entropy", {}, [(2, 3), (2, 4)]),
        ("softmax_cross_entropy", {}, [(3,), (3,)]),
        ("concatenate", {"axis": 2}, [(2, 3), (2, 3)]),
        ("concatenate", {"axis": 0}, [(2, 3), (2, 4)]),
        ("concatenate", {"axis": 0}, [(2, 3), (2, 3, 1)]),
        ("slice", {"axis": 0, "start": 1, "extent": 2}, [(2, 3)]),
        ("pad", {"axis": 0, "starts": [0, 1], "extent": 9}, [(2, 3), (2, 3)]),
        ("pad", {"axis": 1, "starts": [1], "extent": 3}, [(2, 3)]),
        ("pad", {"axis": 0, "starts": [0, 2], "extent": 9}, [(2, 3), (2, 4)]),
        ("transpose", {"axes": [0, 0]}, [(2, 3)]),
        ("transpose", {"axes": [0]}, [(2, 3)]),
        ("dropout", {"rate": 1.0}, [(2, 3), ()]),
    ],
)
def test_wrong_shapes(op, attributes, shapes):
    with pytest.raises(ValueError, match=rf"\[{op}\] expected .* but got"):
        forward(op, attributes, [np.zeros(s) for s in shapes])


@pytest.mark.parametrize(
    ("op", "attributes", "arrays"),
    [
        ("gather", {"axis": 2}, [np.zeros((2, 3)), np.zeros(2, int)]),
        ("gather", {"axis": 1}, [np.zeros((2, 3)), np.zeros(2)]),
        ("gather", {"axis": 1}, [np.zeros((2, 3)), np.zeros((3, 1), int)]),
        ("gather", {"axis": 0}, [np.zeros((2, 3)), np.zeros((2, 3, 1), int)]),
        ("scatter", {"axis": 1}, [np.zeros((2, 2)), np.zeros((2, 4), int), np.zeros((2, 3))]),
        ("scatter", {"axis": 1}, [np.zeros((2, 4)), np.zeros(3, int), np.zeros((2, 3))]),
        ("scatter", {"axis": 0}, [np.zeros(2, np.float32), np.zeros(2, int), np.zeros(3)]),
        ("select", {}, [np.zeros(2), np.zeros(2), np.zeros(2)]),
        ("select", {}, [np.zeros(2, bool), np.zeros(2, np.float32), np.zeros(2)]),
        ("select", {}, [np.zeros(2, bool), np.zeros(2), np.zeros(3)]),
    ],
)
def test_wrong_operands(op, attributes, arrays):
    with pytest.raises(ValueError, match=rf"\[{op}\] expected .* but got"):
        forward(op, attributes, arrays)
