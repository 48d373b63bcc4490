"""Parts of images in the training of softmax and arithmetic, by central differences."""

import numpy as np
import pytest
from gradients import device, differences, execute, near, number_type, random
from kernels import array, batch, commands, empty, run

from traingraph import ShapeError, Unsupported, mps

everywhere = pytest.mark.parametrize("device", ["reference", "cpu"])


def region(x, y, width, height):
    return mps.MTLRegion(mps.MTLOrigin(x, y), mps.MTLSize(width, height))


def into(kernel, destination, on, **given):
    """What lies in the destination after the form that has one."""
    out = batch(on, destination)
    execute(lambda buffer: kernel.encode_batch(buffer, **given, destination_images=out), on)
    return array(out)


def gradient_of(kernel, dy, x, states, on, destination=None):
    """With a destination by the properties as they are, without one by the state."""
    kernel.makes_temporary_images = False
    given = {
        "source_gradients": batch(on, dy), "source_images": batch(on, x), "gradient_states": states,
    }  # fmt: skip
    if destination is None:
        return array(execute(lambda buffer: kernel.encode_batch(buffer, **given), on))
    out = batch(on, destination)
    execute(lambda buffer: kernel.encode_batch(buffer, **given, destination_gradients=out), on)
    return array(out)


# --- softmax -------------------------------------------------------------------------------------


def softmaxes(name, on, form=""):
    kernel = getattr(mps, name)(device=on)
    if form in ("all", "clip_rect"):
        kernel.clip_rect, kernel.offset = region(4, 3, 3, 2), (1, 2)
    if form in ("all", "channels"):
        kernel.source_feature_channel_offset, kernel.source_feature_channel_max_count = 4, 4
        kernel.destination_feature_channel_offset = 8
    if form == "offset":
        kernel.offset = (2, 1)
    return kernel, getattr(mps, f"{name}Gradient")(device=on)


@everywhere
@pytest.mark.parametrize("name", ["MPSCNNSoftMax", "MPSCNNLogSoftMax"])
@pytest.mark.parametrize("form", ["all", "clip_rect", "channels", "offset"])
def test_softmax(name, form, device):
    on, reference = mps.MTLDevice(device=device), mps.MTLDevice(device="reference")
    (kernel, gradient), (exact, _) = softmaxes(name, on, form), softmaxes(name, reference, form)
    dtype = number_type(device)
    x, old = random(1, 2, 12, 5, 6).astype(dtype), random(2, 2, 12, 7, 8).astype(dtype)
    inside = np.zeros(old.shape, bool)
    if form == "channels":
        old, inside = old[:, :, :5, :6], inside[:, :, :5, :6]
        part = (slice(None), slice(8, 12), slice(None), slice(None))
    elif form == "offset":
        old, inside = old[:, :, :3, :4], inside[:, :, :3, :4]
        part = (slice(None), slice(None), slice(None), slice(None))
    else:
        part = (slice(None), slice(8, 12) if form == "all" else slice(None),
                slice(3, 5), slice(4, 7))  # fmt: skip
    inside[part] = True
    states = kernel.result_state_batch(for_source_image=batch(on, x))
    y = into(kernel, old, on, source_images=batch(on, x), destination_states=states)
    np.testing.assert_array_equal(y[~inside], old[~inside])
    sums = (y[part] if name == "MPSCNNSoftMax" else np.exp(y[part])).sum(axis=1)
    near(sums, np.ones_like(sums), 1e-12)

    def again(moved):
        return into(exact, old.astype(np.float64), reference, source_images=batch(reference, moved))

    dy = random(3, *y.shape).astype(dtype)
    expected = differences(again, x.astype(np.float64), dy * inside)
    dx = gradient_of(gradient, dy[part], y, states, on)
    assert dx.shape == x.shape
    assert np.abs(dx).max() > 1e-3
    near(dx, expected)
    # The properties are as the state says: the same with a destination, and a part of it.
    zeros = np.zeros_like(x)
    np.testing.assert_array_equal(gradient_of(gradient, dy[part], y, states, on, zeros), dx)
    if form != "all":
        return
    assert gradient.secondary_offset == (4, 3, 0)
    assert gradient.secondary_source_feature_channel_offset == 8
    gradient.clip_rect = region(5, 1, 2, 2)
    gradient.destination_feature_channel_offset = 0
    before = random(4, 2, 8, 6, 9).astype(dtype)
    after = before.copy()
    after[:, :4, 1:3, 5:7] = dx[:, 4:8, 2:4, 1:3]
    near(gradient_of(gradient, dy[part], y, states, on, before), after, 1e-13)


def test_softmax_without_parts_again():
    """What a state says of parts is of its last encoding."""
    on = device()
    kernel, gradient = softmaxes("MPSCNNSoftMax", on)
    x = random(1, 1, 4, 3, 3)
    states = kernel.result_state_batch(for_source_image=batch(on, x))
    y = batch(on, x)
    given = {"source_images": batch(on, x), "destination_states": states}
    buffer = commands(on)
    for clip, out in ((region(1, 1, 2, 2), empty(on, (1, 4, 9, 9))),
                      (mps.MPSCNNSoftMax(device=on).clip_rect, y)):  # fmt: skip
        kernel.clip_rect = clip
        kernel.encode_batch(buffer, **given, destination_images=out)
    run(buffer)
    y = array(y)
    dy = random(2, *x.shape)
    expected = y * (dy - (dy * y).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(gradient_of(gradient, dy, y, states, on), expected, atol=1e-12)
    assert gradient.secondary_offset == (0, 0, 0)


def test_softmax_refuses():
    on = device()
    kernel, gradient = softmaxes("MPSCNNSoftMax", on)
    x = random(1, 1, 4, 5, 5)
    kernel.clip_rect, kernel.offset = region(3, 2, 2, 3), (1, 1)
    states = kernel.result_state_batch(for_source_image=batch(on, x))
    y = into(kernel, np.zeros((1, 4, 6, 6)), on, source_images=batch(on, x),
             destination_states=states)  # fmt: skip
    with pytest.raises(ShapeError, match="3x2, the size of the forward kernel's clip rectangle"):
        gradient_of(gradient, x, y, states, on)
    dy = random(2, 1, 4, 3, 2)
    with pytest.raises(ValueError, match="the batch it was made for"):  # the result, not the source
        gradient_of(gradient, dy, x, states, on)
    gradient.secondary_offset = (5, 0)
    with pytest.raises(ShapeError, match="3x2 pixels at column 5, row 0, the offset, but got 4x6"):
        gradient_of(gradient, dy, y, states, on, np.zeros_like(x))
    gradient.secondary_offset = (3, 2)
    for name, value in (("primary_offset", (1, 0)), ("kernel_offset_x", 1)):
        before = getattr(gradient, name)
        setattr(gradient, name, value)
        with pytest.raises(Unsupported, match=r"MPSCNNSoftMaxGradient.*a primary offset or a kern"):
            gradient_of(gradient, dy, y, states, on)
        setattr(gradient, name, before)
    assert gradient_of(gradient, dy, y, states, on).shape == x.shape
    kernel.offset = (1, 1, 1)
    with pytest.raises(ShapeError, match="source images with 1 images from index 1 on"):
        into(kernel, np.zeros((1, 4, 6, 6)), on, source_images=batch(on, x))


# --- arithmetic ----------------------------------------------------------------------------------

OPERATIONS = {
    "Add": np.add, "Subtract": np.subtract, "Multiply": np.multiply, "Divide": np.divide,
}  # fmt: skip
AXES = ("feature_channels", "pixels_y", "pixels_x")
STRIDES = [
    ((1, 1, 1), (1, 1, 1)), ((1, 1, 1), (1, 0, 0)), ((0, 1, 1), (1, 1, 0)), ((1, 0, 1), (0, 1, 1)),
    ((0, 0, 0), (0, 1, 1)),
]  # fmt: skip
A, B, OLD = (2, 12, 5, 6), (2, 8, 6, 5), (2, 16, 7, 8)


def arithmetic(name, strides, on, **properties):
    kernel = getattr(mps, f"MPSCNN{name}")(device=on)
    for source, given in zip(("primary", "secondary"), strides, strict=True):
        for axis, stride in zip(AXES, given, strict=True):
            setattr(kernel, f"{source}_stride_in_{axis}", stride)
    kernel.primary_scale, kernel.secondary_scale, kernel.bias = 0.5, -1.5, 0.25
    kernel.clip_rect = region(2, 1, 3, 4)
    kernel.primary_offset, kernel.secondary_offset = (3, 1), (1, 2)
    kernel.primary_source_feature_channel_offset = 8
    kernel.secondary_source_feature_channel_offset = 4
    kernel.destination_feature_channel_offset = 8
    for key, value in properties.items():
        setattr(kernel, key, value)
    return kernel


def seen(x, channel, offset, strides):
    """4 channels of 4 x 3 pixels, or the first along an axis of stride 0."""
    first = (channel, offset[1], offset[0])
    counts = [n if s else 1 for n, s in zip((4, 4, 3), strides, strict=True)]
    return x[(slice(None), *(slice(f, f + n) for f, n in zip(first, counts, strict=True)))]


@everywhere
@pytest.mark.parametrize("strides", STRIDES, ids=str)
@pytest.mark.parametrize("name", OPERATIONS)
def test_arithmetic(name, strides, device):
    on, dtype = mps.MTLDevice(device=device), number_type(device)
    reference = mps.MTLDevice(device="reference")
    kernel, exact = arithmetic(name, strides, on), arithmetic(name, strides, reference)
    a, b, old = (random(k, *shape).astype(dtype) for k, shape in ((1, A), (2, B), (3, OLD)))
    states = kernel.result_state_batch(
        for_primary_image=batch(on, a), secondary_image=batch(on, b)
    )  # fmt: skip

    def forward(a, b, kernel=exact, dtype=np.float64, **given):
        on, images = kernel.device, {"primary_images": a, "secondary_images": b}
        images = {key: batch(on, image.astype(dtype)) for key, image in images.items()}
        return into(kernel, old.astype(dtype), on, **images, **given)

    y = forward(a, b, kernel, dtype, destination_states=states)
    ours, theirs = seen(a, 8, (3, 1), strides[0]), seen(b, 4, (1, 2), strides[1])
    wide = (one.astype(np.float64) for one in (ours, theirs))
    result = OPERATIONS[name](0.5 * next(wide), -1.5 * next(wide)) + 0.25
    part = (slice(None), slice(8, 12), slice(1, 5), slice(2, 5))
    expected = old.astype(np.float64)
    expected[part] = result
    # Terms of a few units may cancel, and float32 rounds them.
    close = {"rtol": 1e-12} if dtype is np.float64 else {"rtol": 2e-6, "atol": 5e-7}
    np.testing.assert_allclose(y, expected, **close)
    if name == "Divide":
        assert not hasattr(mps, "MPSCNNDivideGradient")
        return
    inside = np.zeros(old.shape)
    inside[part] = 1
    dy = random(4, *y.shape).astype(dtype)
    for secondary, own, other in ((False, a, b), (True, b, a)):
        gradient = getattr(mps, f"MPSCNN{name}Gradient")(
            device=on, is_secondary_source_filter=secondary
        )
        found = gradient_of(gradient, dy[part], other, states, on)
        numeric = differences(
            lambda moved, s=secondary: forward(a, moved) if s else forward(moved, b),
            own.astype(np.float64), dy * inside,
        )  # fmt: skip
        assert found.shape == own.shape
        near(found, numeric)
        assert gradient.secondary_offset == ((3, 1, 0) if secondary else (1, 2, 0))
        assert gradient.destination_feature_channel_offset == (4 if secondary else 8)
        # Into a part of another image: the rectangle begins with what was read first.
        gradient.clip_rect = region(1, 0, 2, 2)
        gradient.destination_feature_channel_offset = 0
        before = random(5, *own.shape).astype(dtype)
        after = before.copy()
        x, row, channel = (1, 2, 4) if secondary else (3, 1, 8)
        rest = own.shape[1] - channel
        after[:, :rest, 0:2, 1:3] = found[:, channel:, row : row + 2, x : x + 2]
        written = gradient_of(gradient, dy[part], other, states, on, before)
        near(written, after, 1e-13)


@everywhere
def test_arithmetic_that_clamps(device):
    on, dtype = mps.MTLDevice(device=device), number_type(device)
    reference = mps.MTLDevice(device="reference")
    kernel, exact = (
        arithmetic("Multiply", STRIDES[1], one, minimum_value=-0.5, maximum_value=0.75)
        for one in (on, reference)
    )
    a, b, old = (random(k, *shape).astype(dtype) for k, shape in ((1, A), (2, B), (3, OLD)))
    images = {"primary_images": batch(on, a), "secondary_images": batch(on, b)}
    states = kernel.result_state_batch(
        for_primary_image=images["primary_images"], secondary_image=images["secondary_images"]
    )
    y = into(kernel, old, on, **images, destination_states=states)
    part = (slice(None), slice(8, 12), slice(1, 5), slice(2, 5))
    assert 0 < np.sum((y[part] == -0.5) | (y[part] == 0.75)) < y[part].size
    inside = np.zeros(old.shape)
    inside[part] = 1
    dy = random(4, *y.shape).astype(dtype)
    wide = {"secondary_images": batch(reference, b.astype(np.float64))}

    def by_a(moved):
        return into(
            exact, old.astype(np.float64), reference, primary_images=batch(reference, moved), **wide
        )

    gradient = mps.MPSCNNMultiplyGradient(device=on, is_secondary_source_filter=False)
    found = gradient_of(gradient, dy[part], b, states, on)
    near(found, differences(by_a, a.astype(np.float64), dy * inside))


def test_returned_sums_begin_at_the_first_pixel():
    on = device()
    kernel = arithmetic("Add", STRIDES[0], on)
    kernel.makes_temporary_images = False
    a, b = random(1, *A), random(2, 2, 8, 5, 6)
    given = {"primary_images": batch(on, a), "secondary_images": batch(on, b)}
    result = array(execute(lambda buffer: kernel.encode_batch(buffer, **given), on))
    np.testing.assert_allclose(result, 0.5 * a[:, 8:] - 1.5 * b[:, 4:] + 0.25, rtol=1e-12)
    assert kernel.primary_offset == kernel.secondary_offset == (0, 0, 0)
    assert kernel.clip_rect == mps.MPSCNNAdd(device=on).clip_rect


def test_arithmetic_refuses():
    on = device()
    a, b, old = random(1, *A), random(2, *B), random(3, *OLD)
    kernel = arithmetic("Multiply", STRIDES[0], on)
    given = {"primary_images": batch(on, a), "secondary_images": batch(on, b)}
    for offsets, error, match in [
        (
            ((4, 1), (1, 2)),
            ShapeError,
            "primary images with 4x3 pixels at column 4, row 1, the off",
        ),
        (((3, 1), (-1, 0)), ShapeError, "secondary images with 4x3 pixels at column -1, row 0"),
        (((3, 1), (1, 2, 1)), ShapeError, "secondary images with 1 images from index 1 on"),
    ]:
        kernel.primary_offset, kernel.secondary_offset = offsets
        with pytest.raises(error, match=match):
            into(kernel, old, on, **given)
    kernel.secondary_offset = (1, 2)
    states = kernel.result_state_batch(
        for_primary_image=given["primary_images"], secondary_image=given["secondary_images"]
    )
    gradient = mps.MPSCNNMultiplyGradient(device=on, is_secondary_source_filter=False)
    dy = random(4, 2, 4, 4, 3)
    with pytest.raises(ValueError, match="state that the forward kernel was encoded with"):
        gradient_of(gradient, dy, b, states, on)
    into(kernel, old, on, **given, destination_states=states)
    with pytest.raises(ShapeError, match="4x4x3, what the forward kernel has written, but got 8x7"):
        gradient_of(gradient, old[:, 8:], b, states, on)
    gradient.secondary_offset = (3, 0)
    with pytest.raises(ShapeError, match="source images with 4x3 pixels at column 3, row 0"):
        gradient_of(gradient, dy, b, states, on, a)
    assert np.abs(gradient_of(gradient, dy, b, states, on)).max() > 0
