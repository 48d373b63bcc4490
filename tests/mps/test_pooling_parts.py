"""Zeros that an average counts, and how much of the incoming gradient does in pooling."""

import numpy as np
import pytest
from gradients import backward, device, differences, execute, near, number_type, random
from kernels import array, batch

from traingraph import InvalidArgument, ShapeError, Unsupported, mps

WINDOW = {"kernel_width": 3, "kernel_height": 2, "stride_in_pixels_x": 2, "stride_in_pixels_y": 1}


def pair(kind="Average", on="reference"):
    name = f"MPSCNNPooling{kind}"
    return (getattr(mps, name)(device=device(on), **WINDOW),
            getattr(mps, f"{name}Gradient")(device=device(on), **WINDOW))  # fmt: skip


def pooled(kernel, x, shape, states=None):
    """The result in a destination of this size, by the kernel's properties as they are."""
    out = batch(kernel.device, np.zeros(shape, x.dtype))
    given = {} if states is None else {"destination_states": states}
    execute(
        lambda buffer: kernel.encode_batch(
            buffer, source_images=batch(kernel.device, x), destination_images=out, **given
        ),
        kernel.device,
    )
    return array(out)


def averaged(kernel, x, shape):
    """The definition: what lies in the window over the places that count."""
    h, w = x.shape[2:]
    px, py = kernel.zero_pad_size_x, kernel.zero_pad_size_y
    y = np.zeros(shape)
    for i, j in np.ndindex(*shape[2:]):
        top, left = kernel.offset.y - 1 + i, kernel.offset.x - 1 + 2 * j
        inside = x[:, :, max(top, 0) : max(top + 2, 0), max(left, 0) : max(left + 3, 0)]
        rows = min(top + 2, h + py) - max(top, -py)
        columns = min(left + 3, w + px) - max(left, -px)
        if rows > 0 and columns > 0:
            y[:, :, i, j] = inside.sum(axis=(2, 3)) / (rows * columns)
    return y


@pytest.mark.parametrize(
    ("pad", "offset", "size"),
    [(pad, *window) for pad in ((0, 0), (1, 0), (0, 1), (1, 1), (2, 3))
     for window in (((0, 0), (5, 3)), ((1, 1), (4, 3)), ((2, 2), (3, 2)))]
    + [((2, 3), (-1, -1), (6, 5))],  # windows of zeros alone
)  # fmt: skip
def test_zeros_that_count(pad, offset, size):
    kernel, gradient = pair()
    x, shape = random(1, 2, 3, 4, 5), (2, 3, *size)
    kernel.edge_mode, kernel.offset = "clamp", offset
    kernel.zero_pad_size_x, kernel.zero_pad_size_y = pad
    states = kernel.result_state_batch(for_source_image=batch(kernel.device, x))
    y = pooled(kernel, x, shape, states)
    np.testing.assert_allclose(y, averaged(kernel, x, shape), rtol=1e-12, atol=1e-15)
    dy = random(2, *shape)
    expected = differences(lambda moved: pooled(kernel, moved, shape), x, dy)
    dx = backward(gradient, dy, x, states)
    near(dx, expected, 1e-7)
    # The form without a destination has set it from the state.
    assert (gradient.zero_pad_size_x, gradient.zero_pad_size_y) == pad


def test_zeros_that_count_in_float32():
    kernel, gradient = pair(on="cpu")
    x, shape = random(1, 2, 3, 4, 5).astype(np.float32), (2, 3, 5, 3)
    kernel.edge_mode, kernel.zero_pad_size_x = "clamp", 1
    states = kernel.result_state_batch(for_source_image=batch(kernel.device, x))
    y = pooled(kernel, x, shape, states)
    np.testing.assert_allclose(y, averaged(kernel, x, shape), rtol=1e-5, atol=1e-6)
    dx = backward(gradient, np.ones(shape, np.float32), x, states)
    # Of a linear kernel, the gradient is the sum of what each pixel alone gives.
    alone = np.eye(20, dtype=np.float32).reshape(20, 1, 4, 5)
    sums = averaged(kernel, alone, (20, 1, 5, 3)).sum(axis=(1, 2, 3)).reshape(4, 5)
    np.testing.assert_allclose(dx, np.broadcast_to(sums, dx.shape), rtol=1e-5)


def test_the_zeros_of_the_gradient_kernel_itself():
    kernel, gradient = pair()
    x, shape = random(1, 1, 1, 4, 5), (1, 1, 4, 3)
    kernel.edge_mode = gradient.secondary_edge_mode = "clamp"
    states = kernel.result_state_batch(for_source_image=batch(kernel.device, x))
    pooled(kernel, x, shape, states)
    kernel.zero_pad_size_x = gradient.zero_pad_size_x = 1
    dy = random(2, *shape)
    expected = differences(lambda moved: pooled(kernel, moved, shape), x, dy)
    near(gradient_into(gradient, dy, x, states), expected, 1e-7)


def test_edge_mode_zero_takes_no_notice():
    kernel, _ = pair()
    x, shape = random(1, 1, 1, 4, 5), (1, 1, 4, 3)
    plain = pooled(kernel, x, shape)
    kernel.zero_pad_size_x = kernel.zero_pad_size_y = 2
    np.testing.assert_array_equal(pooled(kernel, x, shape), plain)


@pytest.mark.parametrize("name", ["MPSCNNPoolingAverage", "MPSCNNPoolingAverageGradient"])
def test_bad_zeros(name):
    kernel = getattr(mps, name)(device="reference", **WINDOW)
    for key in ("zero_pad_size_x", "zero_pad_size_y"):
        with pytest.raises(InvalidArgument, match=rf"{name}\].*0 zeros or more.*but got -1"):
            setattr(kernel, key, -1)
    assert not hasattr(mps.MPSCNNPoolingMax, "zero_pad_size_x")


# --- how much of the incoming gradient counts ----------------------------------------------------


def gradient_into(kernel, dy, x, states):
    """With a destination: by the properties as they are."""
    on = kernel.device
    out = batch(on, np.full_like(x, 7))
    execute(
        lambda buffer: kernel.encode_batch(
            buffer, source_gradients=batch(on, dy), source_images=batch(on, x),
            gradient_states=states, destination_gradients=out,
        ),
        on,
    )  # fmt: skip
    return array(out)


@pytest.mark.parametrize("kind", ["Max", "Average", "L2Norm"])
@pytest.mark.parametrize("returned", [False, True])
@pytest.mark.parametrize(
    ("first", "size", "counted"),
    [((0, 0), None, (3, 5)), ((1, 2), None, (2, 3)), ((0, 0), (2, 1), (2, 1)),
     ((1, 2), (1, 2), (1, 2)), ((1, 1), (9, 9), (2, 4))],
)  # fmt: skip
def test_source_size(kind, returned, first, size, counted):
    kernel, gradient = pair(kind)
    x, dy = random(1, 2, 3, 5, 6), random(2, 2, 3, 5, 3)
    kernel.offset, shape = (1, 0), (2, 3, counted[1], counted[0])
    states = kernel.result_state_batch(for_source_image=batch(kernel.device, x))
    pooled(kernel, x, shape, states)
    gradient.primary_offset, gradient.secondary_offset = first, (1, 0)
    if size is not None:
        gradient.source_size = size
        assert gradient.source_size[:2] == size
    dx = (backward if returned else gradient_into)(gradient, dy, x, states)
    part = dy[:, :, first[1] : first[1] + counted[1], first[0] : first[0] + counted[0]]
    assert part.shape == shape
    expected = differences(lambda moved: pooled(kernel, moved, shape), x, part)
    assert np.abs(dx).max() > 1e-3
    near(dx, expected)


@pytest.mark.parametrize("size", [(3, 2), (2, 1), (2, 2)])
@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_the_gradient_of_a_clip_rectangle(device, size):
    """Where the forward kernel wrote, the gradient is read; the size may leave out some of it."""
    dtype = number_type(device)
    (kernel, gradient), (exact, _) = pair(on=device), pair()
    x, old = random(1, 2, 3, 5, 6).astype(dtype), np.zeros((2, 3, 6, 7))
    for one in (kernel, exact):
        one.clip_rect, one.offset = ((2, 1), (3, 2)), (1, 1)
    states = kernel.result_state_batch(for_source_image=batch(kernel.device, x))
    pooled(kernel, x, old.shape, states)
    gradient.primary_offset, gradient.source_size = (2, 1), size
    dy = random(2, *old.shape).astype(dtype)
    counted = np.zeros_like(dy)
    counted[:, :, 1 : 1 + size[1], 2 : 2 + size[0]] = 1
    dx = backward(gradient, dy, x, states)
    wide = x.astype(np.float64)
    expected = differences(lambda moved: pooled(exact, moved, old.shape), wide, dy * counted)
    assert np.abs(dx).max() > 1e-3
    near(dx, expected)


def test_what_is_no_part_of_the_incoming_gradient():
    kernel, gradient = pair()
    x, dy = random(1, 1, 1, 4, 6), random(2, 1, 1, 4, 3)
    kernel.clip_rect = ((0, 0), (2, 2))
    states = kernel.result_state_batch(for_source_image=batch(kernel.device, x))
    pooled(kernel, x, dy.shape, states)
    with pytest.raises(ShapeError, match=r"PoolingAverageGradient.*source gradients 2x2"):
        gradient_into(gradient, dy, x, states)
    for size in ((0, 1), (1, -1)):
        with pytest.raises(InvalidArgument, match=r"PoolingAverageGradient.*source size of 1 pix"):
            gradient.source_size = size
    gradient.source_size = (2, 2)
    for offset, error, text in (
        ((3, 0), ShapeError, "begins within source images"),
        ((-1, 0), InvalidArgument, "begins at 0 or more"),
        ((0, 0, 1), ShapeError, "source gradients with 1 images from index 1 on"),
    ):
        gradient.primary_offset = offset
        with pytest.raises(error, match=rf"PoolingAverageGradient.*{text}"):
            gradient_into(gradient, dy, x, states)
    gradient.primary_offset, gradient.kernel_offset_x = (0, 0), 1
    with pytest.raises(Unsupported, match=r"PoolingAverageGradient.*a kernel offset"):
        gradient_into(gradient, dy, x, states)
    gradient.kernel_offset_x = 0
    assert np.abs(gradient_into(gradient, dy, x, states)).max() > 0
