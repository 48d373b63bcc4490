"""Padding policies: where what a kernel reads lies in the source, and what it then computes."""

import numpy as np
import pytest
from gradients import device, execute
from kernels import array, batch, empty

from traingraph import Unsupported, mps

METHOD = mps.MPSNNPaddingMethod
# With SIZE_FULL the padding alone would fill windows that lie to one side.
SIZES = {"valid": METHOD.SIZE_VALID_ONLY, "same": METHOD.SIZE_SAME}


def pooling(kernel, stride, policy):
    made = mps.MPSCNNPoolingMax(
        device=device(), kernel_width=kernel, kernel_height=kernel, stride_in_pixels_x=stride,
        stride_in_pixels_y=stride,
    )  # fmt: skip
    made.edge_mode = mps.MPSImageEdgeMode.CLAMP
    made.padding = policy
    made.makes_temporary_images = False
    return made


def covered(kernel, stride, source, policy):
    """First and last row that is read, rows of the result, and the result."""
    x = np.random.default_rng(3).normal(size=(1, 1, source, source))
    made = pooling(kernel, stride, policy)
    result = array(execute(lambda b: made.encode_batch(b, source_images=batch(device(), x))))
    rows = result.shape[2]
    first = made.offset.y - kernel // 2
    # The same by hand: a destination, and the offset that the policy has set.
    by_hand = pooling(kernel, stride, METHOD.SIZE_SAME)
    by_hand.offset = (made.offset.x, made.offset.y, 0)
    given = empty(device(), result.shape)
    execute(
        lambda b: by_hand.encode_batch(
            b, source_images=batch(device(), x), destination_images=given
        )
    )
    np.testing.assert_array_equal(array(given), result)
    expected = [
        [
            x[0, 0, max(i, 0) : max(i + kernel, 0), max(j, 0) : max(j + kernel, 0)].max()
            for j in range(first, first + rows * stride, stride)
        ]
        for i in range(first, first + rows * stride, stride)
    ]
    np.testing.assert_allclose(result[0, 0], expected, rtol=1e-6)
    return first, first + (rows - 1) * stride + kernel - 1


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("kernel", "stride", "source"), [(2, 2, 7), (3, 2, 8), (3, 1, 5)])
def test_alignments(size, kernel, stride, source):
    """Padding is on the side of the name; pixels that stay unused are on the other one."""
    top, top_end = covered(kernel, stride, source, SIZES[size] | METHOD.ALIGN_TOP_LEFT)
    bottom, bottom_end = covered(kernel, stride, source, SIZES[size] | METHOD.ALIGN_BOTTOM_RIGHT)
    padding = top_end - top + 1 - source
    assert bottom_end - bottom == top_end - top
    if padding >= 0:
        assert (top_end, bottom) == (source - 1, 0)
    else:
        assert (top, bottom_end) == (0, source - 1)
    centered, _ = covered(kernel, stride, source, SIZES[size])
    assert top <= centered <= bottom


def test_the_reserved_alignment():
    made = pooling(2, 2, METHOD.SIZE_SAME | METHOD.ALIGN_TOP_LEFT | METHOD.ALIGN_BOTTOM_RIGHT)
    with pytest.raises(Unsupported, match="the reserved alignment"):
        execute(
            lambda b: made.encode_batch(b, source_images=batch(device(), np.ones((1, 1, 4, 4))))
        )
