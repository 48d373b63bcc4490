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


# What the corners say about an odd pixel: whether it is to the right, and whether below.
REMAINDERS = {
    METHOD.ADD_REMAINDER_TO_TOP_LEFT: (False, False),
    METHOD.ADD_REMAINDER_TO_TOP_RIGHT: (True, False),
    METHOD.ADD_REMAINDER_TO_BOTTOM_LEFT: (False, True),
    METHOD.ADD_REMAINDER_TO_BOTTOM_RIGHT: (True, True),
}
# size, kernel, stride, source -> the largest row (and column) of each window: by default, and with
# the odd pixel at the end. Unused pixels count as negative padding: where the larger half of what
# is unused would be cut off, it is at the beginning then.
ODD = [
    ("valid", 2, 2, 7, (1, 3, 5), (2, 4, 6)),  # rows 0 to 5; 1 to 6
    ("valid", 3, 4, 10, (3, 7), (4, 8)),  # one unused before and two after; two and one
    ("valid", 1, 3, 6, (1, 4), (1, 4)),  # an even number of unused ones: one on each side
    ("same", 2, 2, 7, (0, 2, 4, 6), (1, 3, 5, 6)),  # rows -1 to 6; 0 to 7
    ("same", 4, 1, 4, (1, 2, 3, 3), (2, 3, 3, 3)),  # two before and one after; one and two
    ("same", 3, 1, 4, (1, 2, 3, 3), (1, 2, 3, 3)),  # an even number: one on each side
]


@pytest.mark.parametrize("remainder", REMAINDERS)
@pytest.mark.parametrize(("size", "kernel", "stride", "source", "plain", "at_the_end"), ODD)
def test_odd_pixels(size, kernel, stride, source, plain, at_the_end, remainder):
    """Each element is ten times its row and its column."""
    x = 10.0 * np.arange(source)[:, None] + np.arange(source)
    made = pooling(kernel, stride, SIZES[size] | remainder)
    result = array(
        execute(lambda b: made.encode_batch(b, source_images=batch(device(), x[None, None])))
    )
    right, below = REMAINDERS[remainder]
    rows, columns = (np.array(at_the_end if end else plain) for end in (below, right))
    np.testing.assert_array_equal(result[0, 0], 10 * rows[:, None] + columns)


def test_the_reserved_alignment():
    made = pooling(2, 2, METHOD.SIZE_SAME | METHOD.ALIGN_TOP_LEFT | METHOD.ALIGN_BOTTOM_RIGHT)
    with pytest.raises(Unsupported, match="the reserved alignment"):
        execute(
            lambda b: made.encode_batch(b, source_images=batch(device(), np.ones((1, 1, 4, 4))))
        )
