"""Padding policies that leave out edges: what an average counts."""

import numpy as np
import pytest
from gradients import backward, check, device, differences, forward, near, random
from graphs import evaluate, source
from kernels import Weights
from test_pooling_parts import averaged

from traingraph import mps

METHOD = mps.MPSNNPaddingMethod
SIZES = {"same": METHOD.SIZE_SAME, "full": METHOD.SIZE_FULL, "valid": METHOD.SIZE_VALID_ONLY}
WINDOW = {"kernel_width": 3, "kernel_height": 2, "stride_in_pixels_x": 2, "stride_in_pixels_y": 1}


def pair(kind="Average", on=None):
    on = on or device()
    names = (f"MPSCNNPooling{kind}", f"MPSCNNPooling{kind}Gradient")
    return [getattr(mps, name)(device=on, **WINDOW) for name in names]


@pytest.mark.parametrize("pad", [(0, 0), (1, 0), (1, 1)])
@pytest.mark.parametrize("size", SIZES)
def test_averages_stay_in_the_padding_area(size, pad):
    """That is the image and its zeros that count; policies know of no other padding."""
    kernel, gradient = pair()
    kernel.padding = SIZES[size] | METHOD.EXCLUDE_EDGES
    kernel.zero_pad_size_x, kernel.zero_pad_size_y = pad
    x = random(1, 2, 3, 4, 5)
    y, states = forward(kernel, x)
    assert kernel.edge_mode == mps.MPSImageEdgeMode.CLAMP
    np.testing.assert_allclose(y, averaged(kernel, x, y.shape), rtol=1e-12, atol=1e-15)
    dy = random(2, *y.shape)
    dx = backward(gradient, dy, x, states)
    expected = differences(lambda moved: forward(kernel, moved)[0], x, dy)
    near(dx, expected, 1e-7)


def test_in_float32():
    kernel, _ = pair(on=device("cpu"))
    kernel.padding = METHOD.SIZE_SAME | METHOD.EXCLUDE_EDGES
    x = random(3, 2, 3, 4, 5).astype(np.float32)
    y, _ = forward(kernel, x)
    np.testing.assert_allclose(y, averaged(kernel, x, y.shape), rtol=1e-5, atol=1e-6)


def test_without_the_policy_the_padding_counts():
    kernel, gradient = pair()
    x = np.ones((1, 1, 4, 5))
    kernel.padding = METHOD.SIZE_SAME
    assert forward(kernel, x)[0].min() < 0.7
    check(kernel, gradient, random(4, 1, 2, 4, 5))
    kernel.padding = METHOD.SIZE_SAME | METHOD.EXCLUDE_EDGES
    np.testing.assert_allclose(forward(kernel, x)[0], 1)


@pytest.mark.parametrize("kind", ["Max", "L2Norm", "Convolution"])
def test_other_kernels_take_no_notice(kind):
    if kind == "Convolution":
        weights = Weights(random(5, 3, 2, 3, 2))
        kernel = mps.MPSCNNConvolution(device=device(), weights=weights)
    else:
        kernel, _ = pair(kind)
    x = random(6, 1, 2, 4, 5)
    kernel.padding = METHOD.SIZE_SAME
    expected, edge = forward(kernel, x)[0], kernel.edge_mode
    kernel.padding = METHOD.SIZE_SAME | METHOD.EXCLUDE_EDGES
    np.testing.assert_array_equal(forward(kernel, x)[0], expected)
    assert kernel.edge_mode == edge


@pytest.mark.parametrize("valid", [False, True])
def test_the_policies_for_average_pooling(valid):
    policies = mps.MPSNNDefaultPadding
    kernel, _ = pair()
    x = random(7, 1, 1, 4, 6)
    if valid:
        kernel.padding = policies.padding_for_tensorflow_average_pooling_valid_only()
        expected, offset = (1, 1, 3, 2), (1, 1)
    else:
        kernel.padding = policies.padding_for_tensorflow_average_pooling()
        # One column and one row more are needed than there are: to the right, and below.
        expected, offset = (1, 1, 4, 3), (1, 1)
    y, _ = forward(kernel, x)
    assert y.shape == expected
    assert (kernel.offset.x, kernel.offset.y) == offset
    np.testing.assert_allclose(y, averaged(kernel, x, y.shape), rtol=1e-12)


def test_nodes_and_archives():
    policy = mps.MPSNNDefaultPadding.padding_for_tensorflow_average_pooling()
    node = mps.MPSCNNPoolingAverageNode(source=source("x"), **WINDOW)
    node.padding_policy = policy
    (y,) = evaluate(device(), {"x": np.ones((2, 3, 4, 6))}, node.result_image)
    np.testing.assert_allclose(y, np.ones((2, 3, 4, 3)))

    kernel, _ = pair()
    kernel.padding = policy
    data = mps.NSKeyedArchiver.archived_data(with_root_object=kernel)
    again = mps.MPSKeyedUnarchiver.unarchived_object_of_class(
        mps.MPSCNNPoolingAverage, from_data=data, device=device()
    )
    assert again.padding == policy.padding_method()
