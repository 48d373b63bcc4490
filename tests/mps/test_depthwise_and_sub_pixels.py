"""Convolutions by the descriptors of other classes: channel by channel, and blocks of pixels."""

import numpy as np
import pytest
from gradients import backward, execute, forward, near, random
from gradients import device as made
from graphs import assert_same, evaluate, source
from kernels import Weights, array, batch, differences
from test_mps_convolution import convolved

from traingraph import InvalidArgument, ShapeError, Unsupported, mps

DEPTHWISE = mps.MPSCNNDepthWiseConvolutionDescriptor
SUB_PIXELS = mps.MPSCNNSubPixelConvolutionDescriptor


class Described(Weights):
    """Weights (O, kh, kw, I) with a descriptor of this class."""

    def __init__(self, cls, inputs, weights, biases=None, **properties):
        self.array, self.biases, self.name = weights, biases, "conv"
        o, kh, kw, _ = weights.shape
        self.sizes = cls.cnn_convolution_descriptor(
            with_kernel_width=kw, kernel_height=kh, input_feature_channels=inputs,
            output_feature_channels=o,
        )  # fmt: skip
        for key, value in properties.items():
            setattr(self.sizes, key, value)


def depthwise(channels=3, multiplier=1, dtype="float64", **properties):
    weights = random(1, channels * multiplier, 3, 3, 1).astype(dtype)
    biases = random(2, channels * multiplier).astype(dtype)
    return Described(DEPTHWISE, channels, weights, biases, **properties)


def sub_pixels(r=2, channels=2, inputs=3, dtype="float64", **properties):
    outputs = r * r * channels
    weights = random(3, outputs, 3, 3, inputs).astype(dtype)
    return Described(SUB_PIXELS, inputs, weights, random(4, outputs).astype(dtype),
                     sub_pixel_scale_factor=r, **properties)  # fmt: skip


# --- depthwise -----------------------------------------------------------------------------------


@pytest.mark.parametrize("multiplier", [1, 2, 3])
def test_depthwise_against_the_definition_and_differences(multiplier):
    on, x = made(), random(5, 2, 3, 4, 5)
    data = depthwise(multiplier=multiplier)
    kernel = mps.MPSCNNConvolution(device=on, weights=data)
    gradient = mps.MPSCNNConvolutionGradient(device=on, weights=data)
    for one in (kernel, gradient):
        assert one.channel_multiplier == multiplier
        assert one.groups == 1
    y, states = forward(kernel, x)
    assert y.shape == (2, 3 * multiplier, 4, 5)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    expected = np.zeros_like(y)
    for channel in range(3 * multiplier):
        for i, j in np.ndindex(3, 3):
            part = padded[:, channel // multiplier, i : i + 4, j : j + 5]
            expected[:, channel] += data.array[channel, i, j, 0] * part
        expected[:, channel] += data.biases[channel]
    np.testing.assert_allclose(y, expected, rtol=1e-12)

    dy = random(6, *y.shape)
    dx = backward(gradient, dy, x, states)

    def loss(moved=x, weights=data.array, biases=data.biases):
        given = Described(DEPTHWISE, 3, weights, biases)
        return (forward(mps.MPSCNNConvolution(device=on, weights=given), moved)[0] * dy).sum()

    near(dx, differences(loss, x.copy()))
    dw = np.array(states[0].gradient_for_weights).reshape(data.array.shape)
    by_weights = differences(lambda weights: loss(weights=weights), data.array.copy())
    near(dw, by_weights)
    by_biases = differences(lambda biases: loss(biases=biases), data.biases.copy())
    near(np.array(states[0].gradient_for_biases), by_biases)


@pytest.mark.parametrize("device", ["cpu"])
def test_depthwise_with_strides_dilations_and_a_neuron(device):
    x = random(7, 2, 3, 9, 10).astype(np.float32)
    relu = mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(with_type="relu", a=0.0)
    data = depthwise(
        dtype="float32", stride_in_pixels_x=2, stride_in_pixels_y=2, dilation_rate_x=2,
        dilation_rate_y=2, fused_neuron_descriptor=relu,
    )  # fmt: skip
    kernel = mps.MPSCNNConvolution(device=device, weights=data)
    y, _ = forward(kernel, x)
    everywhere = convolved(x, data.array, data.biases, 1, 2, 0, 9, 10, groups=3)
    expected = everywhere[:, :, kernel.offset.y :: 2, kernel.offset.x :: 2]
    np.testing.assert_allclose(y, np.maximum(expected, 0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("device", ["cpu"])
def test_depthwise_nodes_train(device):
    """A graph with depthwise weights: the gradients of the kernels by hand, bit for bit."""
    on, x, dy = made(device), random(8, 2, 4, 5, 5), random(9, 2, 8, 5, 5)
    x, dy = x.astype(np.float32), dy.astype(np.float32)
    data = depthwise(4, 2, "float32")
    node = mps.MPSCNNConvolutionNode(source=source("x"), weights=data)
    node.training_style = "update_device_none"
    back = node.gradient_filter(with_source=source("dy"))
    y, dx = evaluate(on, {"x": x, "dy": dy}, node.result_image, back.result_image)
    by_hand, states = forward(mps.MPSCNNConvolution(device=on, weights=data), x)
    gradient = mps.MPSCNNConvolutionGradient(device=on, weights=data)
    assert_same(y, by_hand, device)
    assert_same(dx, backward(gradient, dy, x, states), device)


def test_bad_depthwise_convolutions_are_refused():
    on = made()
    with pytest.raises(InvalidArgument, match="1 group of a depthwise convolution but got 3"):
        mps.MPSCNNConvolution(device=on, weights=depthwise(groups=3))
    data = Described(DEPTHWISE, 3, random(1, 4, 3, 3, 1))
    with pytest.raises(InvalidArgument, match="channels divisible by 3 groups but got 3 → 4"):
        mps.MPSCNNConvolution(device=on, weights=data)
    data = Described(DEPTHWISE, 0, random(1, 4, 3, 3, 1))
    assert data.descriptor().channel_multiplier == 0
    with pytest.raises(InvalidArgument, match="of 1 or more"):
        mps.MPSCNNConvolution(device=on, weights=data)
    kernel = mps.MPSCNNConvolution(device=on, weights=depthwise())
    with pytest.raises(ShapeError, match="source images of 3 channels but got"):
        forward(kernel, random(1, 1, 6, 4, 4))
    plain = Weights(random(1, 3, 3, 3, 3))
    assert mps.MPSCNNConvolution(device=on, weights=plain).channel_multiplier == 0
    _, states = forward(kernel, random(1, 1, 3, 4, 4))
    with pytest.raises(InvalidArgument, match="expected a state"):
        backward(mps.MPSCNNConvolutionGradient(device=on, weights=plain), random(1, 1, 3, 4, 4),
                 random(1, 1, 3, 4, 4), states)  # fmt: skip


# --- sub-pixels ----------------------------------------------------------------------------------


def shuffled(y, r):
    """Channel (r i + j) C + c of a pixel is its pixel (i, j) of channel c."""
    n, channels, rows, columns = y.shape
    blocks = y.reshape(n, r, r, channels // r**2, rows, columns)
    return blocks.transpose(0, 3, 4, 1, 5, 2).reshape(n, channels // r**2, r * rows, r * columns)


def without_blocks(data, on):
    plain = Weights(data.array, data.biases)
    return mps.MPSCNNConvolution(device=on, weights=plain)


@pytest.mark.parametrize("device", ["reference", "cpu"])
@pytest.mark.parametrize("r", [1, 2, 3])
def test_sub_pixels(r, device):
    dtype = "float64" if device == "reference" else "float32"
    x, data = random(10, 2, 3, 4, 5).astype(dtype), sub_pixels(r, dtype=dtype)
    kernel = mps.MPSCNNConvolution(device=device, weights=data)
    assert kernel.sub_pixel_scale_factor == r
    assert kernel.output_feature_channels == 2 * r * r
    y, _ = forward(kernel, x)
    plain, _ = forward(without_blocks(data, made(device)), x)
    near = 1e-12 if device == "reference" else 1e-4
    np.testing.assert_allclose(y, shuffled(plain, r), rtol=near, atol=near)
    one = plain[1, 2 * (r * r - 1) + 1, 2, 3]  # the last of a block
    np.testing.assert_allclose(y[1, 1, 3 * r - 1, 4 * r - 1], one, rtol=near, atol=near)


def test_sub_pixels_of_a_clip_rectangle():
    """Blocks are cut where the rectangle ends."""
    on, x, old = made(), random(11, 1, 3, 4, 5), random(12, 1, 8, 9, 12)
    data = sub_pixels(2)
    kernel = mps.MPSCNNConvolution(device=on, weights=data)
    kernel.clip_rect = ((1, 2), (5, 3))
    kernel.offset = (1, 0)
    kernel.destination_feature_channel_offset = 4
    out = batch(on, old)
    execute(lambda b: kernel.encode_batch(b, source_images=batch(on, x), destination_images=out))
    plain, _ = forward(without_blocks(data, on), x)
    expected = old.copy()
    expected[:, 4:6, 2:5, 1:6] = shuffled(plain, 2)[:, :, :3, 2:7]
    np.testing.assert_allclose(array(out), expected, rtol=1e-12)


def test_sub_pixels_of_nodes():
    x, data = random(13, 2, 3, 4, 5), sub_pixels(2)
    node = mps.MPSCNNConvolutionNode(source=source("x"), weights=data)
    (found,) = evaluate(made(), {"x": x}, node.result_image)
    plain, _ = forward(without_blocks(data, made()), x)
    np.testing.assert_allclose(found, shuffled(plain, 2), rtol=1e-12)
    back = node.gradient_filter(with_source=source("dy"))
    with pytest.raises(Unsupported, match=r"MPSCNNConvolutionGradient\] a sub-pixel scale"):
        mps.MPSNNGraph(device="reference", result_image=back.result_image)


def test_bad_sub_pixels_are_refused():
    on = made()
    with pytest.raises(Unsupported, match=r"MPSCNNConvolutionGradient\] a sub-pixel scale"):
        mps.MPSCNNConvolutionGradient(device=on, weights=sub_pixels())
    with pytest.raises(Unsupported, match=r"MPSCNNConvolutionTranspose\] a sub-pixel scale"):
        mps.MPSCNNConvolutionTranspose(device=on, weights=sub_pixels())
    with pytest.raises(InvalidArgument, match="square of a sub-pixel scale of 2 but got 6"):
        mps.MPSCNNConvolution(
            device=on,
            weights=Described(SUB_PIXELS, 3, random(1, 6, 3, 3, 3), sub_pixel_scale_factor=2),
        )
    for wrong in (0, -1):
        with pytest.raises(InvalidArgument, match="a sub-pixel scale of 1 or more"):
            mps.MPSCNNConvolution(
                device=on,
                weights=Described(SUB_PIXELS, 3, random(1, 4, 3, 3, 3),
                                  sub_pixel_scale_factor=wrong),
            )  # fmt: skip


# --- descriptors ---------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [depthwise(4, 2, "float32"), sub_pixels(2, dtype="float32")])
def test_bytes_and_copies(data):
    x = random(14, 1, data.sizes.input_feature_channels, 4, 5).astype(np.float32)
    kernel = mps.MPSCNNConvolution(device="cpu", weights=data)
    expected, _ = forward(kernel, x)
    archive = mps.NSKeyedArchiver.archived_data(with_root_object=kernel)
    for other in (
        kernel.copy(),
        mps.MPSKeyedUnarchiver.unarchived_object_of_class(
            mps.MPSCNNConvolution, from_data=archive, device="cpu"
        ),
    ):
        assert type(other.data_source.descriptor()) is type(data.sizes)
        assert other.channel_multiplier == kernel.channel_multiplier
        assert other.sub_pixel_scale_factor == kernel.sub_pixel_scale_factor
        np.testing.assert_array_equal(forward(other, x)[0], expected)
    again = mps.MPSKeyedUnarchiver.unarchived_object_of_class(
        type(data.sizes),
        from_data=mps.NSKeyedArchiver.archived_data(with_root_object=data.sizes), device="cpu",
    )  # fmt: skip
    copied = data.sizes.copy()
    for one in (again, copied):
        assert type(one) is type(data.sizes)
        for key in ("kernel_width", "input_feature_channels", "output_feature_channels"):
            assert getattr(one, key) == getattr(data.sizes, key)
    if isinstance(data.sizes, SUB_PIXELS):
        assert again.sub_pixel_scale_factor == copied.sub_pixel_scale_factor == 2
        copied.sub_pixel_scale_factor = 3
        assert data.sizes.sub_pixel_scale_factor == 2
    else:
        assert again.channel_multiplier == copied.channel_multiplier == 2
