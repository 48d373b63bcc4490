"""Fully connected layers: results, own parameters and wrong shapes."""

import numpy as np
import pytest

import traingraph as tg
from harness import Case, checks, node, tensor


def layer(inputs, outputs):
    descriptor = tg.MLCConvolutionDescriptor(
        kernel_sizes=(inputs, outputs),
        input_feature_channel_count=inputs,
        output_feature_channel_count=outputs,
    )

    def make(weights, biases=None):
        return tg.MLCFullyConnectedLayer(weights=weights, biases=biases, descriptor=descriptor)

    return make


def expected(x, w, b=0):
    b = np.asarray(b).ravel()
    if x.ndim == 4 and x.shape[2:] == (1, 1):
        return expected(x[:, :, 0, 0], w, b)[:, :, None, None]
    return x @ w.reshape(-1, x.shape[-1]).T + b


CASES = [
    Case("with biases", layer(4, 3), expected, [(5, 4)], [(3, 4), (3,)], rows=True),
    Case("without biases", layer(4, 3), expected, [(5, 4)], [(3, 4)], rows=True),
    Case("flat weights", layer(4, 3), expected, [(5, 4)], [(1, 12, 1, 1), (1, 3, 1, 1)], rows=True),
    Case("one number", layer(1, 1), expected, [(1, 1)], [(1, 1), (1,)]),
    Case("a sequence", layer(4, 3), expected, [(2, 5, 4)], [(3, 4), (3,)], rows=True),
    Case("four axes", layer(4, 3), expected, [(2, 3, 2, 4)], [(3, 4), (3,)], rows=True),
    Case("an image of one pixel", layer(4, 3), expected, [(5, 4, 1, 1)], [(3, 4), (3,)], rows=True),
    Case("wide", layer(33, 17), expected, [(3, 33)], [(17, 33), (17,)], rows=True),
]

test_forward, test_gradient, test_backends, test_same_bits, test_batch = checks(CASES)


def test_own_parameters_have_real_fans():
    descriptor = tg.MLCConvolutionDescriptor(
        kernel_sizes=(1, 1), input_feature_channel_count=300, output_feature_channel_count=100
    )
    own = tg.MLCFullyConnectedLayer(descriptor=descriptor)
    limit = np.sqrt(6 / 400)
    weights = own.weights.data
    assert weights.size == 30000
    assert 0.99 * limit < np.abs(weights).max() <= limit
    assert abs(weights.mean()) < 0.02 * limit  # six standard errors
    np.testing.assert_array_equal(np.ravel(own.biases.data), np.zeros(100))


def test_wrong_shapes():
    weights = tensor(np.zeros((3, 4)), "float32")
    with pytest.raises(
        ValueError, match=r"expected a source \(…, 4\) .* but got \(2, 5\) at layer"
    ):
        node(layer(4, 3)(weights), (2, 5))
    with pytest.raises(ValueError, match=r"12 elements, \(3, 4\), but got \(2, 4\)"):
        node(layer(4, 3)(tensor(np.zeros((2, 4)), "float32")), (2, 4))
    with pytest.raises(ValueError, match=r"3 elements, \(3,?\), but got \(4,?\)"):
        node(layer(4, 3)(weights, tensor(np.zeros(4), "float32")), (2, 4))
    with pytest.raises(ValueError, match="expected 1 source but got 2"):
        node(layer(4, 3)(weights), (2, 4), (2, 4))
