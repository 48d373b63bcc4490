"""Padding policies of transposed convolutions: each undoes a convolution of the opposite size."""

import itertools

import numpy as np
import pytest
from gradients import backward, device, differences, forward, near, random
from graphs import evaluate, source
from kernels import Weights
from test_convolution_transpose import by_hand, pair

from traingraph import ShapeError, Unsupported, mps

METHOD = mps.MPSNNPaddingMethod
ALIGNMENTS = {
    "centered": METHOD.ALIGN_CENTERED,
    "top left": METHOD.ALIGN_TOP_LEFT,
    "bottom right": METHOD.ALIGN_BOTTOM_RIGHT,
    "remainder right": METHOD.ADD_REMAINDER_TO_TOP_RIGHT,
    "remainder below": METHOD.ADD_REMAINDER_TO_BOTTOM_LEFT,
}
# Size -> that of the convolution that is undone.
OPPOSITE = {
    "SIZE_FULL": METHOD.SIZE_VALID_ONLY,
    "SIZE_SAME": METHOD.SIZE_SAME,
    "SIZE_VALID_ONLY": METHOD.SIZE_FULL,
}


def rows(size, source, stride, extent):
    """Apple's formula with the full, no or the negative extent; the same size times the stride."""
    if size == "SIZE_SAME":
        return source * stride
    style = {"SIZE_FULL": 1, "SIZE_VALID_ONLY": -1}[size]
    return (source - 1) * stride + 1 + style * (extent - 1)


@pytest.mark.parametrize("alignment", ALIGNMENTS)
@pytest.mark.parametrize("size", OPPOSITE)
def test_it_is_the_adjoint_of_a_convolution(size, alignment):
    for kernel, stride, dilation in itertools.product((1, 2, 3, 4), (1, 2, 3), (1, 2)):
        weights = random(1, 3, kernel, kernel, 2)
        # Input and output exchanged, and turned by half a circle.
        turned = np.ascontiguousarray(weights.transpose(3, 1, 2, 0)[:, ::-1, ::-1])
        steps = {"stride_in_pixels_x": stride, "stride_in_pixels_y": stride,
                 "dilation_rate_x": dilation, "dilation_rate_y": dilation}  # fmt: skip
        transposed = mps.MPSCNNConvolutionTranspose(
            device=device(), weights=Weights(turned, **steps)
        )
        transposed.padding = METHOD[size] | ALIGNMENTS[alignment]
        x = random(2, 1, 3, 7, 8)
        y, _ = forward(transposed, x)
        extent = (kernel - 1) * dilation + 1
        assert y.shape == (1, 2, rows(size, 7, stride, extent), rows(size, 8, stride, extent))

        convolution = mps.MPSCNNConvolution(device=device(), weights=Weights(weights, **steps))
        convolution.padding = OPPOSITE[size] | ALIGNMENTS[alignment]
        z = random(3, *y.shape)
        result, _ = forward(convolution, z)
        assert result.shape == x.shape
        np.testing.assert_allclose(np.sum(y * z), np.sum(x * result), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("alignment", ["centered", "top left", "bottom right"])
@pytest.mark.parametrize("size", OPPOSITE)
@pytest.mark.parametrize(("kernel", "stride"), [(2, 1), (4, 2), (3, 2)])
def test_gradients(size, alignment, kernel, stride):
    given, transposed, gradient = pair(4, kernel, stride, 1)
    transposed.padding = METHOD[size] | ALIGNMENTS[alignment]
    x = random(5, 2, 2, 5, 4)
    y, states = forward(transposed, x)
    assert transposed.kernel_offset_x == transposed.kernel_offset_y  # squares, centered or not
    expected = by_hand(x, given, stride, 1, transposed.kernel_offset_x, y.shape[2:])
    np.testing.assert_allclose(y, expected, rtol=1e-9, atol=1e-12)
    dy = random(6, *y.shape)
    dx = backward(gradient, dy, x, states)
    numeric = differences(lambda moved: forward(transposed, moved)[0], x, dy)
    near(dx, numeric)

    # The gradient of a weight, by what each weight alone gives: the kernel is linear in them.
    found = np.asarray(states[0].gradient_for_weights).reshape(given.array.shape)
    for place in ((0, 0, 0, 0), (3, kernel - 1, 0, 1), (2, 0, kernel - 1, 0)):
        alone = Weights(np.zeros_like(given.array))
        alone.array[place] = 1
        y = by_hand(x, alone, stride, 1, transposed.kernel_offset_x, y.shape[2:])
        np.testing.assert_allclose(found[place], np.sum(y * dy), rtol=1e-6, atol=1e-9)


def test_in_float32_and_in_a_graph():
    policy = METHOD.SIZE_SAME | METHOD.ALIGN_BOTTOM_RIGHT
    results = []
    for name, dtype in (("reference", np.float64), ("cpu", np.float32)):
        weights = Weights(
            random(7, 3, 4, 4, 2).astype(np.float32), stride_in_pixels_x=2, stride_in_pixels_y=2
        )
        kernel = mps.MPSCNNConvolutionTranspose(device=device(name), weights=weights)
        kernel.padding = policy
        results.append(forward(kernel, random(8, 1, 2, 3, 4).astype(dtype))[0])
    np.testing.assert_allclose(results[1], results[0], rtol=1e-4, atol=1e-4)

    node = mps.MPSCNNConvolutionTransposeNode(source=source("x"), weights=weights)
    node.padding_policy = policy
    (y,) = evaluate(device("reference"), {"x": random(8, 1, 2, 3, 4)}, node.result_image)
    np.testing.assert_array_equal(y, results[0])


def test_what_is_refused():
    _, kernel, _ = pair(9, 3, 1, 1)
    x = random(10, 1, 2, 2, 2)
    kernel.padding = METHOD.SIZE_VALID_ONLY
    with pytest.raises(ShapeError, match="expected a source whose result has pixels"):
        forward(kernel, x)
    kernel.padding = METHOD.ALIGN_TOP_LEFT | METHOD.ALIGN_BOTTOM_RIGHT
    with pytest.raises(Unsupported, match="the reserved alignment"):
        forward(kernel, x)
