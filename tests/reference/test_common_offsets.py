"""What all logits of a row have in common changes no softmax, its logarithm or cross entropy."""

import numpy as np
import pytest

from op_harness import forward, gradients

OFFSETS = [0.0, 9900.0, -3e5, 1e30]
SHAPES = [(6, 10), (5, 40), (2, 7, 3, 5)]
everywhere = pytest.mark.parametrize("device", ["reference", "cpu"])


def logits(shape: tuple[int, ...], offset: float) -> tuple[np.ndarray, np.ndarray]:
    """As float32 has them, and their exact logarithms of softmax."""
    x = (np.random.default_rng(3).normal(size=shape) + offset).astype(np.float32)
    wide = x.astype(np.float64)
    shifted = wide - wide.max(axis=1, keepdims=True)
    return x, shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


@everywhere
@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("labels", ["distribution", "classes"])
def test_cross_entropy(shape, labels, offset, device):
    x, logarithms = logits(shape, offset)
    classes = shape[1]
    chosen = np.random.default_rng(4).integers(0, classes, (shape[0], 1, *shape[2:]))
    t = np.zeros(shape, np.float32)
    np.put_along_axis(t, chosen, 1, axis=1)
    given = t if labels == "distribution" else chosen.astype(np.int32)
    smoothed = t * 0.9 + 0.1 / classes
    attributes = {"smoothing": 0.1, "classes": classes}
    loss = forward("softmax_cross_entropy", attributes, [x, given], device)[0]
    expected = -(smoothed * logarithms).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(loss, expected, rtol=5e-7, atol=5e-7)
    ones = np.ones_like(loss)
    wanted = [0, 1] if labels == "distribution" else [0]
    found = gradients("softmax_cross_entropy", attributes, [x, given], [ones, None], wanted, device)
    np.testing.assert_allclose(found[0], np.exp(logarithms) - smoothed, atol=3e-7)
    if labels == "distribution":
        np.testing.assert_allclose(found[1], -0.9 * logarithms, rtol=1e-6, atol=1e-6)


@everywhere
@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("logarithm", [False, True])
def test_softmax(shape, logarithm, offset, device):
    x, logarithms = logits(shape, offset)
    attributes = {"axis": 1, "logarithm": logarithm}
    found = forward("softmax", attributes, [x], device)[0]
    expected = logarithms if logarithm else np.exp(logarithms)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=3e-7)
    dy = np.random.default_rng(5).normal(size=shape).astype(np.float32)
    (dx,) = gradients("softmax", attributes, [x], [dy], [0], device)
    y = np.exp(logarithms)
    sums = (dy if logarithm else dy * y).sum(axis=1, keepdims=True)
    exact = dy - y * sums if logarithm else y * (dy - sums)
    np.testing.assert_allclose(dx, exact, rtol=3e-6, atol=3e-6)
