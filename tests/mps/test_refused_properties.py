"""Properties that a kernel does not honour are refused where they would count."""

import numpy as np
import pytest
from gradients import device, random
from kernels import Weights, array, batch, commands, run

from traingraph import ShapeError, Unsupported, mps

WINDOW = {"kernel_width": 2, "kernel_height": 2, "stride_in_pixels_x": 1, "stride_in_pixels_y": 1}


def kernels(kind):
    on = device("reference")
    if kind == "pooling":
        return mps.MPSCNNPoolingAverage(device=on, **WINDOW), mps.MPSCNNPoolingAverageGradient(
            device=on, **WINDOW
        )
    if kind == "pad":
        return mps.MPSNNPad(device=on), mps.MPSNNPadGradient(device=on)
    weights = Weights(random(1, 2, 2, 2, 2), np.zeros(2))
    return (mps.MPSCNNConvolution(device=on, weights=weights),
            mps.MPSCNNConvolutionGradient(device=on, weights=weights))  # fmt: skip


def encoded(forward, gradient):
    """The gradient of ones."""
    x = batch(forward.device, random(2, 1, 2, 4, 4))
    buffer = commands(forward.device)
    y, states = forward.encode_batch(buffer, source_images=x, destination_state_is_temporary=False)
    shape = (1, y[0].feature_channels, y[0].height, y[0].width)
    ones = batch(forward.device, np.ones(shape))
    dx = batch(forward.device, np.zeros((1, 2, 4, 4)))
    gradient.encode_batch(
        buffer, source_gradients=ones, source_images=x, gradient_states=states,
        destination_gradients=dx,
    )  # fmt: skip
    run(buffer)
    return array(dx)


@pytest.mark.parametrize("kind", ["pooling", "convolution"])
def test_images_that_are_not_there(kind):
    forward, gradient = kernels(kind)
    expected = encoded(forward, gradient)
    assert np.isfinite(expected).all()
    for name in ("primary_offset", "secondary_offset"):
        forward, gradient = kernels(kind)
        setattr(gradient, name, (0, 0, 1))
        with pytest.raises(ShapeError, match="1 images from index 1 on"):
            encoded(forward, gradient)


def test_the_kernel_offset_of_a_padding():
    forward, gradient = kernels("pad")
    gradient.kernel_offset_x = 1
    with pytest.raises(Unsupported, match="a kernel offset"):
        encoded(forward, gradient)
