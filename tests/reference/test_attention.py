"""The ops attention and attention_gradient."""

import itertools

import numpy as np
import pytest

import traingraph as tg
from differences import assert_near
from harness import everywhere
from op_harness import check_gradients, checks, forward, gradients, testing

INF = np.inf
STEP = np.int64(3)


def numbers(*shape, seed=0, dtype="float64"):
    """What float32 holds exactly."""
    drawn = np.random.default_rng([seed, *shape]).uniform(-1.5, 1.5, shape)
    return drawn.astype(np.float32).astype(dtype)


def marks(*shape, seed=0):
    """A third of the keys, never the first one."""
    drawn = np.random.default_rng([seed, *shape]).uniform(size=shape) < 1 / 3
    drawn[..., 0] = False
    return drawn


class Sample:
    """q, k and v, and masks over the first `masked` keys; "c" is causal."""

    def __init__(self, extents, masks="", masked=None, rate=0.0, dtype="float64"):
        n, h, length, keys, d = extents
        self.heads, self.rate = h, rate
        masked = keys if masked is None else masked
        self.arrays = [numbers(n, count, h * d, seed=k, dtype=dtype)
                       for k, count in enumerate((length, keys, keys))]  # fmt: skip
        self.attributes = {"heads": h, "scale": d**-0.5, "rate": rate, "seed": 11 if rate else 0}
        if "c" in masks:
            self.attributes["causal"] = True
        if "k" in masks:
            self.attributes["has_key_mask"] = True
            self.arrays.append(marks(n, masked))
        rows = {"1": 1, "b": n * h, "a": n * h, "s": 1}
        for kind in set(masks) & set(rows):
            self.attributes["has_mask"] = True
            shape = (rows[kind], length, masked)
            self.arrays.append(marks(*shape) if kind in "1b" else numbers(*shape, dtype=dtype))
        if rate:
            self.arrays.append(STEP)
        self.wanted = [i for i, a in enumerate(self.arrays) if np.asarray(a).dtype.kind == "f"]


def split(x, heads):
    """(N, T, H d) -> (N, H, T, d)"""
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def later(length, keys):
    """(L, S): whether a key is behind the query's position."""
    return np.arange(keys) > np.arange(length)[:, None]


def expected(sample, left=1.0):
    """Results in NumPy; `left` are the factors that dropout leaves, (N, H, L, S)."""
    q, k, v = (split(a.astype(np.float64), sample.heads) for a in sample.arrays[:3])
    scores = sample.attributes["scale"] * q @ k.swapaxes(-1, -2)
    for mask in sample.arrays[3 : None if not sample.rate else -1]:
        known = scores[..., : mask.shape[-1]]
        if mask.ndim == 2:
            mask = mask[:, None, None]
        elif mask.shape[0] > 1:
            mask = mask.reshape(q.shape[0], q.shape[1], *mask.shape[1:])
        known[...] = np.where(mask, -INF, known) if mask.dtype == bool else known + mask
    if sample.attributes.get("causal"):
        scores[..., later(*scores.shape[2:])] = -INF
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        p = powers / powers.sum(-1, keepdims=True)
    y = (p * left) @ v
    largest, logarithm = scores.max(-1), np.log(powers.sum(-1))
    return y.transpose(0, 2, 1, 3).reshape(sample.arrays[0].shape), largest, logarithm


EXTENTS = [(2, 2, 3, 4, 2), (1, 1, 1, 1, 1), (2, 3, 5, 7, 3)]
MASKS = ["", "k", "1", "b", "a", "s", "ka", "kb", "ks", "c", "cb", "cka", "cks"]
SAMPLES = [Sample(e, m) for e in EXTENTS for m in MASKS]
SAMPLES += [Sample(EXTENTS[0], m, masked=2) for m in MASKS[1:]]
# Several tiles of queries, keys and features, with parts of tiles and of vectors.
LARGE = [(1, 2, 130, 65, 17), (2, 1, 67, 131, 64), (1, 1, 5, 200, 130), (1, 2, 257, 64, 16)]


@everywhere
@pytest.mark.parametrize("sample", SAMPLES)
def test_values(sample, device):
    arrays = [a.astype(np.float32) if np.asarray(a).dtype.kind == "f" else a
              for a in sample.arrays]  # fmt: skip
    for dtype, given, bound in [("float64", sample.arrays, 1e-13), ("float32", arrays, 2e-6)]:
        if device == "metal" and dtype == "float64":
            continue  # Metal has none
        found = forward("attention", sample.attributes, given, device)
        for got, right in zip(found, expected(sample), strict=True):
            assert got.dtype == dtype
            assert_near(got, right, bound)


@pytest.mark.parametrize("sample", SAMPLES)
def test_gradient(sample):
    check_gradients("attention", sample.attributes, sample.arrays, sample.wanted)


@pytest.mark.parametrize("masks", ["", "k", "s", "c", "cks"])
def test_gradient_with_dropout(masks):
    sample = Sample((2, 2, 5, 6, 3), masks, rate=0.3)
    check_gradients("attention", sample.attributes, sample.arrays, sample.wanted)


FLOAT32 = [Sample(e, m, dtype="float32") for e in [*EXTENTS, *LARGE]
           for m in ("", "k", "a", "kb", "c", "cka")]  # fmt: skip
FLOAT32 += [Sample(e, m, rate=0.4, dtype="float32") for e in LARGE for m in ("", "ks")]
FLOAT32 += [Sample((1, 2, 9, 131, 4), m, masked=129, dtype="float32")
            for m in ("ka", "b", "s", "cks")]  # fmt: skip
# A query of one key alone has the gradient 0, of which float32 leaves the rounding of two sums over
# features: so there are more queries than the first few, and few features. The last ones have a
# block whose first tiles are whole.
FLOAT32 += [Sample((n, h, max(length, 70), keys, min(d, 17)), "cs", rate=0.4, dtype="float32")
            for n, h, length, keys, d in LARGE]  # fmt: skip
FLOAT32 += [Sample((1, 1, 300, 290, 5), m, dtype="float32") for m in ("c", "cks")]
test_float32 = checks([("attention", s.attributes, s.arrays, s.wanted) for s in FLOAT32])


@everywhere
@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("masks", ["", "k", "s", "a", "cks"])
@pytest.mark.parametrize("extents", [(2, 2, 5, 5, 3), (1, 3, 130, 130, 17), (1, 2, 257, 257, 64)])
def test_one_operand_for_three(extents, masks, rate, device):
    """With queries, keys and values in its rows: the same bits."""
    sample = Sample(extents, masks, rate=rate, dtype="float32")
    joined = sample.attributes | {"joined": True}
    arrays = [np.concatenate(sample.arrays[:3], axis=2), *sample.arrays[3:]]
    found = forward("attention", joined, arrays, device)
    right = forward("attention", sample.attributes, sample.arrays, device)
    for one, other in zip(found, right, strict=True):
        np.testing.assert_array_equal(one, other)
    dy = [numbers(*right[0].shape, seed=7, dtype="float32"), None, None]
    right = gradients("attention", sample.attributes, sample.arrays, dy, sample.wanted, device)
    wanted = [i for i, a in enumerate(arrays) if np.asarray(a).dtype.kind == "f"]
    found = gradients("attention", joined, arrays, dy, wanted, device)
    expected_ones = [np.concatenate(right[:3], axis=2), *right[3:]]
    for one, other in zip(found, expected_ones, strict=True):
        np.testing.assert_array_equal(one, other)


@everywhere
@pytest.mark.parametrize("keys", [3, 4, 70])
def test_dropout_is_that_of_the_op(keys, device):
    """Values that tell the keys apart: the result is what each key's probability became."""
    n, h, length, rate = 2, 2, 3, 0.4
    attributes = {"heads": h, "scale": 1.0, "rate": rate, "seed": 5}
    q = np.zeros((n, length, h * keys), np.float32)
    k = np.zeros((n, keys, h * keys), np.float32)
    v = np.tile(np.eye(keys, dtype=np.float32), (n, 1, h))
    counted = -(-keys // 4) * 4
    ones = np.ones((n + 1, h, length, counted), np.float32)
    left = forward("dropout", {"rate": rate, "seed": 5}, [ones, STEP])[0][..., :keys]
    for first in (0, 1):
        given = [q, k, v, STEP, np.int64(first)]
        found = forward("attention", attributes, given, device)[0]
        right = left[first : first + n].transpose(0, 2, 1, 3).reshape(found.shape) / keys
        np.testing.assert_allclose(found, right, rtol=1e-6)


@everywhere
@pytest.mark.parametrize("kind", ["key mask", "mask", "infinite numbers"])
def test_masked_rows(kind, device):
    """Keys that come first may all be masked; a row without any key gives zeros."""
    n, h, length, keys, d = 2, 2, 3, 150, 4
    q, k, v = (numbers(n, count, h * d, seed=s, dtype="float32")
               for s, count in enumerate((length, keys, keys)))  # fmt: skip
    ignored = np.zeros((n, length, keys), bool)
    ignored[0, :, :140] = True
    ignored[1] = True
    attributes = {"heads": h, "scale": 1.0, "has_mask": True}
    mask = np.repeat(ignored, h, axis=0)
    if kind == "key mask":
        attributes = {"heads": h, "scale": 1.0, "has_key_mask": True}
        mask = ignored[:, 0]
    elif kind == "infinite numbers":
        mask = np.where(mask, np.float32(-INF), np.float32(0))
    y, largest, logarithm = forward("attention", attributes, [q, k, v, mask], device)
    assert not y[1].any()
    assert (largest[1] == INF).all()
    assert not logarithm[1].any()
    few = forward("attention", {"heads": h, "scale": 1.0}, [q[:1], k[:1, 140:], v[:1, 140:]])
    assert_near(y[:1], few[0], 2e-6)
    dy = np.ones_like(y)
    dq, dk, dv = gradients("attention", attributes, [q, k, v, mask], [dy, None, None], [0, 1, 2],
                           device)  # fmt: skip
    for gradient in (dq, dk, dv):
        assert np.isfinite(gradient[0]).all()
        assert not gradient[1].any()
    assert not dk[0, :140].any()
    assert not dv[0, :140].any()


@everywhere
@pytest.mark.parametrize("masks", ["c", "cka"])
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_later_keys_change_no_bit(rate, masks, device):
    """Results of the first queries, and what flows from them, know nothing of what follows."""
    n, h, length, keys, d = 2, 2, 140, 150, 6
    sample = Sample((n, h, length, keys, d), masks, rate=rate, dtype="float32")
    dy = numbers(n, length, h * d, seed=4, dtype="float32")
    whole = forward("attention", sample.attributes, sample.arrays, device)
    for seen in (1, 37, 64, 65, 130):
        arrays = [a.copy() for a in sample.arrays]
        for operand in (1, 2):
            arrays[operand][:, seen:] = numbers(n, keys - seen, h * d, seed=5)
        found = forward("attention", sample.attributes, arrays, device)
        for axis, one, right in zip((1, 2, 2), found, whole, strict=True):
            rows = (slice(None),) * axis + (slice(seen),)
            np.testing.assert_array_equal(one[rows], right[rows])
        assert not np.array_equal(found[0][:, seen:], whole[0][:, seen:])
        first = np.where(np.arange(length)[:, None] < seen, dy, np.float32(0))
        dq, dk, dv, *dmask = gradients("attention", sample.attributes, arrays, [first, None, None],
                                       sample.wanted, device)  # fmt: skip
        assert not dq[:, seen:].any()
        assert not dk[:, seen:].any()
        assert not dv[:, seen:].any()
        assert masks != "c" or dv[:, :seen].any(-1).all()
        for one in dmask:
            assert not one[:, later(length, keys)].any()


@everywhere
def test_causal_rows_without_keys(device):
    """Queries before the first key that a mask leaves get zeros."""
    n, h, length, keys, d = 2, 2, 5, 70, 4
    q, k, v = (numbers(n, count, h * d, seed=s, dtype="float32")
               for s, count in enumerate((length, keys, keys)))  # fmt: skip
    ignored = np.zeros((n, keys), bool)
    ignored[0, :3] = True
    attributes = {"heads": h, "scale": 1.0, "causal": True, "has_key_mask": True}
    arrays = [q, k, v, ignored]
    y, largest, logarithm = forward("attention", attributes, arrays, device)
    assert not y[0, :3].any()
    assert (largest[0, :, :3] == INF).all()
    assert not logarithm[0, :, :3].any()
    assert_near(y[0, 3], v[0, 3], 2e-6)
    assert_near(y[1, 0], v[1, 0], 2e-6)
    dy = np.ones_like(y)
    dq, dk, dv = gradients("attention", attributes, arrays, [dy, None, None], [0, 1, 2], device)
    assert not dq[0, :3].any()
    for gradient in (dk, dv):
        assert np.isfinite(gradient).all()
        assert not gradient[0, :3].any()
        assert not gradient[:, length:].any()


@everywhere
@pytest.mark.parametrize(("operand", "number"), itertools.product(range(3), [np.nan, INF]))
def test_bad_numbers_show(operand, number, device):
    arrays = [numbers(1, 70, 4, seed=k, dtype="float32") for k in range(3)]
    arrays[operand][0, 66, 1] = number
    attributes = {"heads": 2, "scale": 1.0}
    wide = [a.astype(np.float64) for a in arrays]
    found = forward("attention", attributes, arrays, device)[0]
    right = forward("attention", attributes, wide)[0]
    assert not np.isfinite(right).all()
    if device == "cuda" and number == INF:
        # Its two parts, infinite and not a number, meet all other operands.
        assert np.isnan(found[~np.isfinite(right)]).all()
    else:
        np.testing.assert_array_equal(np.isnan(found), np.isnan(right))
    assert np.isfinite(found[..., 2:]).all()


@pytest.mark.parametrize("masks", ["", "ka", "s", "c", "cks"])
def test_threads_change_no_bit(masks):
    sample = Sample((3, 2, 150, 140, 20), masks, rate=0.3, dtype="float32")
    dy = numbers(*sample.arrays[0].shape, seed=7, dtype="float32")

    def bits(threads):
        before = tg.get_num_threads()
        tg.set_num_threads(threads)
        try:
            found = forward("attention", sample.attributes, sample.arrays, "cpu")
            slopes = gradients("attention", sample.attributes, sample.arrays, [dy, None, None],
                               sample.wanted, "cpu")  # fmt: skip
        finally:
            tg.set_num_threads(before)
        return [a.tobytes() for a in [*found, *slopes]]

    assert bits(1) == bits(2) == bits(3)


@everywhere
def test_large_scores(device):
    """The largest score is subtracted before e is raised to it."""
    q = np.array([[[100.0]], [[-100.0]]], np.float32)
    k = np.tile(np.array([[[9.0], [10.0], [-10.0]]], np.float32), (2, 1, 1))
    v = np.tile(np.array([[[1.0], [2.0], [3.0]]], np.float32), (2, 1, 1))
    y, largest, logarithm = forward("attention", {"heads": 1, "scale": 1.0}, [q, k, v], device)
    np.testing.assert_array_equal(y.ravel(), [2.0, 3.0])
    np.testing.assert_array_equal(largest.ravel(), [1000.0, 1000.0])
    np.testing.assert_array_equal(logarithm.ravel(), [0.0, 0.0])


Q, K = ("float32", (2, 3, 4)), ("float32", (2, 5, 4))
REFUSED = [
    ({"heads": 3}, [Q, K, K], "3 heads divide but got 4"),
    ({"heads": 0}, [Q, K, K], "0 heads divide but got 4"),
    ({}, [Q, K, Q], r"expected values \(2, 5, 4\) but got \(2, 3, 4\)"),
    ({}, [Q, ("float32", (1, 5, 4)), K], r"expected keys \(2, 5, 4\) but got \(1, 5, 4\)"),
    ({}, [Q, K], "expected 3 inputs but got 2"),
    ({}, [Q, K, ("float64", (2, 5, 4))], "values of type float32 but got float64"),
    ({}, [("float32", (3, 4)), K, K], "of rank 3 but got shape"),
    ({"has_key_mask": True}, [Q, K, K, ("float32", (2, 5))], "key mask of bool but got float32"),
    ({"has_key_mask": True}, [Q, K, K, ("bool", (2, 6))], "at most 5 keys but got 6"),
    ({"has_key_mask": True}, [Q, K, K, ("bool", (1, 5))], r"key mask \(2, 5\) but got \(1, 5\)"),
    ({"has_mask": True}, [Q, K, K, ("int32", (1, 3, 5))], "bool or float32 but got int32"),
    ({"heads": 2, "has_mask": True}, [Q, K, K, ("bool", (2, 3, 5))], r"\(4, 3, 5\) but got \(2"),
    ({"rate": 1.0}, [Q, K, K, ("int64", ())], "below 1 but got 1"),
    ({"rate": 0.5}, [Q, K, K], "expected 4 to 5 inputs but got 3"),
    ({"rate": 0.5}, [Q, K, K, ("int32", ())], "one int64 number but got int32"),
]


@pytest.mark.parametrize(("attributes", "inputs", "text"), REFUSED)
def test_wrong_operands(attributes, inputs, text):
    graph = testing.Graph()
    values = [graph.add_input(dtype, shape) for dtype, shape in inputs]
    with pytest.raises(ValueError, match=text):
        graph.add_op("attention", attributes, values)
