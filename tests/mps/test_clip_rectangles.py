"""Clip rectangles and channel offsets: what is written is a part, and the rest stays as it was."""

import numpy as np
import pytest
from clipped import BOTH, LINEAR, SETTINGS, WINDOWS, convolution, dropout, linear
from gradients import backward, device, differences, execute, near, random
from kernels import array, batch, commands

from traingraph import ShapeError, Unsupported, mps


def encoded(kernel, x, destination, states=None):
    """The destination after the form that has one."""
    on = device()
    out = batch(on, destination)
    given = {} if states is None else {"destination_states": states}
    execute(
        lambda buffer: kernel.encode_batch(
            buffer, source_images=batch(on, x), **given, destination_images=out
        )
    )
    return array(out)


def region(x, y, width, height):
    return mps.MTLRegion(mps.MTLOrigin(x, y), mps.MTLSize(width, height))


@pytest.mark.parametrize("name", BOTH)
def test_only_the_rectangle_is_written(name):
    """The offset is that of the rectangle's first pixel; what is beyond the destination is cut."""
    x, old = random(5, 2, 4, 6, 7), random(6, 2, 12, 9, 8)
    offset = (1, 2)
    kernel = BOTH[name]()
    kernel.offset = offset
    channels = 8 if name in ("convolution", "transpose") else 4
    if name in WINDOWS:
        # The same windows, as an image of their own.
        whole = encoded(kernel, x, np.zeros((2, channels, 3, 2)))
    else:
        kernel.offset = (0, 0)
        whole = encoded(BOTH[name](), x, np.zeros((2, channels, 6, 7)))[:, :, 2:5, 1:3]
        kernel.offset = offset
    kernel.clip_rect = region(3, 4, 2, 3)
    kernel.destination_feature_channel_offset = 4
    found = encoded(kernel, x, old)
    expected = old.copy()
    expected[:, 4 : 4 + channels, 4:7, 3:5] = whole
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert np.abs(whole).max() > 0
    if name == "dropout":
        return  # the next encoding has another mask
    kernel.clip_rect = ((7, 7), (100, 100))
    found = encoded(kernel, x, old)
    expected = old.copy()
    expected[:, 4 : 4 + channels, 7:, 7:] = whole[:, :, :2, :1]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("name", BOTH)
def test_gradients_of_a_rectangle(name):
    """By central differences; the state carries what was read and written."""
    x, old = random(7, 1, 12, 5, 6), random(8, 1, 12, 6, 6)
    kernel, gradient = BOTH[name](), BOTH[name](gradient=True)
    kernel.offset = (1, 2)
    kernel.clip_rect = region(2, 3, 3, 2)
    kernel.destination_feature_channel_offset = 4
    kernel.source_feature_channel_offset = 4
    kernel.source_feature_channel_max_count = 4
    states = kernel.result_state_batch(for_source_image=batch(device(), x))
    y = encoded(kernel, x, old, states)
    channels = 8 if name in ("convolution", "transpose") else 4
    dy = random(9, *y.shape)
    inside = np.zeros_like(y)
    inside[:, 4 : 4 + channels, 3:5, 2:5] = 1
    np.testing.assert_array_equal(y[inside == 0], old[inside == 0])

    def again(moved):
        if name != "dropout":
            return encoded(kernel, moved, old)
        fresh = dropout()  # with the first mask
        for key in SETTINGS:
            setattr(fresh, key, getattr(kernel, key))
        return encoded(fresh, moved, old)

    numeric = differences(again, x, dy * inside)
    part = dy[:, 4 : 4 + channels, 3:5, 2:5]
    dx = backward(gradient, part, x, states)
    assert dx.shape == x.shape
    assert np.abs(dx).max() > 0
    near(dx, numeric)
    assert gradient.secondary_source_feature_channel_offset == 4
    assert gradient.destination_feature_channel_offset == 4
    # The gradient as channels of a larger image, into a part of another one.
    wide = random(10, 1, 4 + channels, 2, 3)
    wide[:, 4:] = part
    gradient.primary_source_feature_channel_offset = 4
    gradient.destination_feature_channel_offset = 8
    gradient.clip_rect = region(4, 5, 2, 3)
    before, on = random(11, 1, 12, 9, 7), device()
    out = batch(on, before)
    execute(
        lambda buffer: gradient.encode_batch(
            buffer,
            source_gradients=batch(on, wide),
            source_images=batch(on, x),
            gradient_states=states,
            destination_gradients=out,
        )
    )
    expected = before.copy()
    begin = (0, 0) if name in WINDOWS else (2, 1)
    rows, columns = slice(begin[0], begin[0] + 3), slice(begin[1], begin[1] + 2)
    expected[:, 8:, 5:8, 4:6] = dx[:, 4:8, rows, columns]
    np.testing.assert_allclose(array(out), expected, rtol=1e-12)


def test_weights_gradients_of_a_rectangle():
    """E has the size of the rectangle; the sums are those of an image of that size."""
    x, on = random(1, 2, 4, 6, 7), device()
    sums = []
    for clipped in (False, True):
        kernel, gradient = convolution(), convolution(gradient=True)
        kernel.offset = (1, 1)
        images = batch(on, x)
        states = kernel.result_state_batch(for_source_image=images)
        size = (2, 8, 3, 2)
        if clipped:
            kernel.clip_rect = region(5, 1, 2, 3)
            size = (2, 8, 9, 9)
        encoded(kernel, x, np.zeros(size), states)
        backward(gradient, random(2, 2, 8, 3, 2), x, states)
        sums.append(np.array(states[0].gradient_for_weights))
    assert np.abs(sums[0]).max() > 0
    np.testing.assert_array_equal(sums[0], sums[1])


def test_a_kernel_writes_beside_another_into_one_temporary_image():
    """Channels side by side; what nobody writes is zero."""
    on, x = device(), random(1, 2, 4, 2, 3)
    buffer = commands(on)
    joined = mps.MPSTemporaryImage.temporary_image(
        buffer,
        image_descriptor=mps.MPSImageDescriptor.image_descriptor(
            with_channel_format="float64",
            width=3,
            height=2,
            feature_channels=12,
            number_of_images=2,
        ),
    )
    first, second = linear(), linear()
    second.destination_feature_channel_offset = 8
    images = joined.batch_representation()
    for kernel in (first, second):
        kernel.clip_rect = region(1, 0, 2, 2)
        kernel.offset = (1, 0)
        kernel.encode_batch(buffer, source_images=batch(on, x), destination_images=images)
    last = linear()
    last.makes_temporary_images = False
    out = last.encode_batch(buffer, source_images=images)
    buffer.commit()
    buffer.wait_until_completed()
    expected = np.zeros((2, 12, 2, 3))
    expected[:, :4, :, 1:] = expected[:, 8:, :, 1:] = (2 * x + 0.5)[:, :, :, 1:]
    np.testing.assert_allclose(array(out), 2 * expected + 0.5)


def test_the_forms_that_return_images_write_everything():
    x = random(1, 1, 8, 4, 5)
    kernel = convolution()
    kernel.clip_rect = region(1, 1, 1, 1)
    kernel.destination_feature_channel_offset = 4
    kernel.source_feature_channel_offset = 4
    kernel.makes_temporary_images = False
    on = device()
    out = execute(lambda buffer: kernel.encode_batch(buffer, source_images=batch(on, x)))
    assert array(out).shape == (1, 8, 4, 3)
    plain = convolution()
    plain.makes_temporary_images = False
    alone = execute(lambda buffer: plain.encode_batch(buffer, source_images=batch(on, x[:, 4:])))
    np.testing.assert_array_equal(array(out), array(alone))
    assert kernel.clip_rect == linear().clip_rect
    assert kernel.destination_feature_channel_offset == 0
    assert kernel.source_feature_channel_offset == 4


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_the_rest_keeps_its_bits(dtype):
    """Also of 16 bits, and on the CPU's kernels."""
    on = device("cpu")
    old, x = random(1, 3, 8, 5, 5).astype(dtype), random(2, 3, 4, 5, 5).astype(dtype)
    kernel = mps.MPSCNNNeuron(
        device=on, neuron_descriptor=mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(**LINEAR)
    )
    kernel.clip_rect = region(0, 1, 5, 2)
    kernel.offset = (0, 1)
    kernel.destination_feature_channel_offset = 4
    out = batch(on, old)
    execute(
        lambda b: kernel.encode_batch(b, source_images=batch(on, x), destination_images=out), on
    )
    expected = old.copy()
    expected[:, 4:, 1:3] = (2 * x.astype("float32") + 0.5)[:, :, 1:3]
    found = array(out)
    written = np.zeros(old.shape, bool)
    written[:, 4:, 1:3] = True
    np.testing.assert_array_equal(found[~written], old[~written])
    np.testing.assert_allclose(found.astype("f4"), expected.astype("f4"), rtol=2e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["MPSCNNAdd", "MPSCNNMultiply"])
def test_two_sources(name):
    a, b, old = random(1, 2, 8, 3, 4), random(2, 2, 12, 3, 4), random(3, 2, 8, 6, 6)
    on = device()
    kernel = getattr(mps, name)(device=on)
    kernel.primary_source_feature_channel_offset = 4
    kernel.secondary_source_feature_channel_offset = 4
    kernel.secondary_source_feature_channel_max_count = 4
    kernel.destination_feature_channel_offset = 4
    kernel.clip_rect = region(2, 1, 3, 3)
    out = batch(on, old)
    given = {"primary_images": batch(on, a), "secondary_images": batch(on, b)}
    execute(lambda buffer: kernel.encode_batch(buffer, **given, destination_images=out))
    result = {"MPSCNNAdd": np.add, "MPSCNNMultiply": np.multiply}[name](a[:, 4:], b[:, 4:8])
    expected = old.copy()
    expected[:, 4:, 1:4, 2:5] = result[:, :, :, :3]
    np.testing.assert_allclose(array(out), expected, rtol=1e-12)
    kernel.makes_temporary_images = False
    returned = execute(lambda buffer: kernel.encode_batch(buffer, **given))
    np.testing.assert_allclose(array(returned), result, rtol=1e-12)


def test_what_cannot_be_is_refused():
    on, x = device(), random(1, 1, 4, 3, 3)
    kernel, images = linear(name="part"), batch(device(), x)
    for wrong in (2, -4):
        for key in ("destination_feature_channel_offset", "source_feature_channel_offset"):
            with pytest.raises(ValueError, match=rf"'part'.*multiple of 4 but got {wrong}"):
                setattr(kernel, key, wrong)
    with pytest.raises(ValueError, match="1 channel or more but got 0"):
        kernel.source_feature_channel_max_count = 0
    for wrong in (((-1, 0), (1, 1)), ((0, 0), (0, 1)), ((0, 0), (1, -2))):
        with pytest.raises(ValueError, match="clip rectangle of 1 pixel or more"):
            kernel.clip_rect = wrong
    for wrong in (5, (1, 2), ((1, 2), (3,)), ((0, 0), (1.5, 1))):
        with pytest.raises(TypeError):
            kernel.clip_rect = wrong
    assert kernel.clip_rect == linear().clip_rect

    def encode(*size, **properties):
        for key, value in properties.items():
            setattr(kernel, key, value)
        kernel.encode_batch(
            commands(on), source_images=images, destination_images=batch(on, np.zeros((1, *size)))
        )

    with pytest.raises(ShapeError, match="begins within destination images 4x3x3 but got one at"):
        encode(4, 3, 3, clip_rect=((3, 0), (1, 1)))
    with pytest.raises(ShapeError, match="2x2 pixels to write from row 2, column 0"):
        encode(4, 3, 3, clip_rect=((0, 0), (2, 2)), offset=(0, 2))
    with pytest.raises(ShapeError, match="from row 0, column -1"):
        encode(4, 3, 3, clip_rect=((0, 0), (2, 2)), offset=(-1, 0))
    with pytest.raises(ShapeError, match="8 channels or more, the offset included"):
        encode(4, 3, 3, offset=(0, 0), destination_feature_channel_offset=4)
    with pytest.raises(ShapeError, match="more than 4 channels, the offset"):
        encode(8, 3, 3, source_feature_channel_offset=4)
    kernel.source_feature_channel_offset = kernel.destination_feature_channel_offset = 0
    encode(4, 3, 3, clip_rect=((0, 0), (2, 2)))  # the kernel is as good as before


def test_what_has_no_parts_says_so():
    on, x = device(), random(1, 2, 4, 3, 3)
    images, out = batch(on, x), batch(on, np.zeros((2, 8, 9, 9)))
    twice = mps.MPSCNNUpsamplingNearest(
        device=on, integer_scale_factor_x=2, integer_scale_factor_y=2
    )
    twice.clip_rect = region(0, 0, 4, 4)
    twice.encode_batch(commands(on), source_images=images, destination_images=out)
    with pytest.raises(Unsupported, match="with a state: the result is not of its source's size"):
        twice.encode_batch(
            commands(on),
            source_images=images,
            destination_images=out,
            destination_states=twice.result_state_batch(for_source_image=images),
        )
    twice.offset = (1, 0)
    with pytest.raises(Unsupported, match="an offset: the result is not of its source's size"):
        twice.encode_batch(commands(on), source_images=images, destination_images=out)
    reshape = mps.MPSNNReshape(device=on)
    reshape.source_feature_channel_offset = 0
    reshape.clip_rect = region(0, 0, 1, 1)
    with pytest.raises(Unsupported, match=r"MPSNNReshape.*only whole images"):
        reshape.encode_batch(commands(on), source_images=images, destination_images=images)


def test_an_offset_without_a_rectangle():
    """It is the source's pixel of the destination's first one, and returned images begin at 0."""
    x, kernel = random(1, 2, 4, 5, 6), linear()
    kernel.offset = (2, 1)
    states = kernel.result_state_batch(for_source_image=batch(device(), x))
    y = encoded(kernel, x, np.zeros((2, 4, 3, 2)), states)
    np.testing.assert_allclose(y, 2 * x[:, :, 1:4, 2:4] + 0.5)
    dy = random(2, *y.shape)
    expected = np.zeros_like(x)
    expected[:, :, 1:4, 2:4] = 2 * dy
    np.testing.assert_allclose(backward(linear(gradient=True), dy, x, states), expected)
    with pytest.raises(ShapeError, match="5x6 pixels to write from row 1, column 2 of a result"):
        encoded(kernel, x, np.zeros((2, 4, 5, 6)))
    kernel.makes_temporary_images = False
    out = execute(lambda buffer: kernel.encode_batch(buffer, source_images=batch(device(), x)))
    np.testing.assert_allclose(array(out), 2 * x + 0.5)
    assert kernel.offset == (0, 0, 0)


def test_an_offset_of_the_gradient_is_refused():
    kernel, x = linear(gradient=True), random(1, 1, 4, 3, 3)
    states = linear().result_state_batch(for_source_image=batch(device(), x))
    kernel.primary_offset = (1, 0)
    with pytest.raises(Unsupported, match="the whole incoming gradient is read"):
        backward(kernel, x, x, states)
    kernel.primary_offset, kernel.secondary_offset = (0, 0), (1, 0)
    images = batch(device(), x)
    with pytest.raises(Unsupported, match="a secondary offset: the forward kernel has written wh"):
        kernel.encode_batch(
            commands(device()),
            source_gradients=images,
            source_images=images,
            gradient_states=states,
            destination_gradients=batch(device(), x),
        )


def test_a_gradient_of_another_size_than_the_rectangle_is_refused():
    on, x = device(), random(1, 1, 4, 5, 5)
    kernel, images = linear(), batch(device(), x)
    kernel.clip_rect = region(0, 0, 2, 3)
    states = kernel.result_state_batch(for_source_image=images)
    encoded(kernel, x, np.zeros((1, 4, 5, 5)), states)
    with pytest.raises(ShapeError, match="3x2, the size of the forward kernel's clip rectangle"):
        linear(gradient=True).encode_batch(
            commands(on), source_gradients=images, source_images=images, gradient_states=states
        )
