"""What all scores of a query have in common changes no probability, in the gradient neither.

The offset comes by the mask or by a feature. Scores stand on float32's grid around it, so that
every device has them exactly.
"""

import numpy as np
import pytest

from differences import assert_near
from harness import everywhere
from op_harness import forward, gradients

OFFSETS = [0.0, -1e4, 2.0**20, -(2.0**20), -1e6, 2.0**24, -1e9, 2.0**60, -3e38]
# (N, H, L, S, d): single elements, and parts of tiles of every kernel.
EXTENTS = [(1, 1, 1, 5, 2), (2, 2, 3, 7, 3), (1, 2, 70, 131, 17), (1, 1, 3, 66, 140)]
BY = ["mask", "feature"]


def on_grid(rng, shape, offset):
    """Multiples of the distance of float32's numbers around the offset, a few of them near 1."""
    grid = max(float(np.spacing(np.float32(abs(offset)))), 0.25)
    return grid * rng.integers(-2, 3, shape) if grid < 1e4 else np.zeros(shape)


class Offset:
    """Two features make the scores: q (1, 1), k (small, offset or 0); the others are 0."""

    def __init__(self, extents, offset, by):
        n, h, length, keys, d = extents
        rng = np.random.default_rng([1, *extents])
        q, k = np.zeros((n, length, h, d)), np.zeros((n, keys, h, d))
        small = on_grid(rng, (n, keys, h), offset)
        q[..., :2] = 1
        k[..., 0], k[..., 1] = small, offset if by == "feature" else 0
        v, dy = rng.normal(size=(2, n, max(keys, length), h, d)).astype(np.float32)
        self.v, self.dy = v[:, :keys], dy[:, :length]
        self.attributes = {"heads": h, "scale": 1.0}
        rows = [q, k, self.v]
        if by == "mask":
            self.attributes["has_mask"] = True
            rows.append(np.full((1, length, keys), offset))
        self.arrays = [a.reshape(*a.shape[:2], -1) if a.ndim == 4 else a for a in rows]
        self.arrays = [a.astype(np.float32) for a in self.arrays]
        self.p = np.exp(small - small.max(1, keepdims=True))
        self.p /= self.p.sum(1, keepdims=True)  # (N, S, H), the same for each query

    def slopes(self):
        """dscores (N, H, L, S) and dv, of the result's gradient dy."""
        p = self.p.transpose(0, 2, 1)[:, :, None]
        dp = np.einsum("nlhd,nshd->nhls", self.dy, self.v, dtype=np.float64)
        dv = np.einsum("nsh,nlhd->nshd", self.p, self.dy)
        return p * (dp - (p * dp).sum(-1, keepdims=True)), dv


@everywhere
@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("extents", EXTENTS)
def test_offsets(extents, offset, by, device):
    sample = Offset(extents, offset, by)
    n, h, length, keys, d = extents
    y = forward("attention", sample.attributes, sample.arrays, device)[0]
    right = np.einsum("nsh,nshd->nhd", sample.p, sample.v)
    assert_near(y, np.tile(right.reshape(n, 1, h * d), (1, length, 1)), 3e-6)

    dy = sample.dy.reshape(n, length, h * d)
    wanted = list(range(len(sample.arrays)))
    dq, dk, dv, *dmask = gradients("attention", sample.attributes, sample.arrays, [dy, None, None],
                                   wanted, device)  # fmt: skip
    scores, values = sample.slopes()
    assert_near(dv, values.reshape(dv.shape), 3e-6)
    # The other features of the offset are differences of numbers as large as it is.
    first = sample.arrays[1].reshape(n, keys, h, d)[..., 0]
    found, small = dq.reshape(n, length, h, d)[..., 0], np.abs(first).max()
    right = np.einsum("nhls,nsh->nlh", scores, first)
    np.testing.assert_allclose(found, right, atol=1e-5 * max(small, 1e-9) * np.abs(dy).max() * d)
    right = scores.sum(2).transpose(0, 2, 1)[..., None] * (np.arange(d) < 2)
    assert_near(dk, right.reshape(dk.shape), 1e-5)
    for got in dmask:
        assert_near(got, scores.sum((0, 1))[None], 1e-5)


@everywhere
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize("offset", [-1e3, 1e5, -1e6, 3e7])
def test_probabilities_of_the_gradient_are_those_of_the_result(offset, by, dtype, device):
    """Numbers anywhere: scores are rounded, alike in the result and in the gradient.

    Where dy is 1, dv is the sum of a key's probabilities: over all keys, the number of queries. And
    where values tell the keys apart, the result is the probabilities.
    """
    if device == "metal" and dtype == "float64":
        pytest.skip("Metal has no float64")
    n, h, length, keys = 2, 2, 37, 83
    rng = np.random.default_rng(7)
    q, k = (rng.normal(size=(n, rows, h, keys)) for rows in (length, keys))
    attributes, more = {"heads": h, "scale": keys**-0.5}, []
    if by == "feature":
        q[..., 5], k[..., 5] = keys**0.5, offset
    else:
        attributes["has_mask"] = True
        more = [np.full((1, length, keys), offset, dtype)]
    v = np.broadcast_to(np.eye(keys), (n, h, keys, keys)).transpose(0, 2, 1, 3)
    arrays = [a.reshape(*a.shape[:2], -1).astype(dtype) for a in (q, k, v)] + more
    p = forward("attention", attributes, arrays, device)[0].reshape(n, length, h, keys)
    np.testing.assert_allclose(p.sum(-1), 1, rtol=1e-5)
    dy = np.ones((n, length, h * keys), dtype)
    dv = gradients("attention", attributes, arrays, [dy, None, None], [2], device)[0]
    sums = dv.reshape(n, keys, h, keys)[..., 0]
    np.testing.assert_allclose(sums.sum(1), length, rtol=1e-5)
    assert_near(sums, p.sum(1).transpose(0, 2, 1), 2e-5)


@everywhere
@pytest.mark.parametrize("number", [-1e9, np.float32(-3.4028235e38), -np.inf])
def test_numbers_that_mask(number, device):
    """A program's own lowest number masks keys among others; all of a row alike mask nothing."""
    n, length, keys, d = 1, 4, 70, 3
    rng = np.random.default_rng(2)
    q, k, v = (rng.normal(size=(n, rows, d)).astype(np.float32) for rows in (length, keys, keys))
    mask = np.zeros((1, length, keys), np.float32)
    mask[:, :, 5:68] = number
    few = [0, 1, 2, 3, 4, 68, 69]
    dy = rng.normal(size=(n, length, d)).astype(np.float32)
    attributes = {"heads": 1, "scale": 1.0}
    seeds = [dy, None, None]
    found = gradients("attention", attributes | {"has_mask": True}, [q, k, v, mask], seeds,
                      [0, 1, 2, 3], device)  # fmt: skip
    wide = [a.astype(np.float64) for a in (q, k[:, few], v[:, few])]
    right = gradients("attention", attributes, wide, [dy.astype(np.float64), None, None], [0, 1, 2])
    assert_near(found[0], right[0], 1e-5)
    for got, expected in zip(found[1:3], right[1:], strict=True):
        assert_near(got[:, few], expected, 1e-5)
        assert not np.delete(got, few, axis=1).any()
    assert np.isfinite(found[3]).all()
    assert not found[3][:, :, 5:68].any()
