"""Transposed convolutions: the adjoint of a convolution, and their gradients by differences."""

import itertools

import numpy as np
import pytest
from gradients import backward, device, differences, execute, forward, near, random
from kernels import Weights, array, batch, commands

from traingraph import ShapeError, mps

SIZES = list(itertools.product((1, 2, 3, 4), (1, 2, 3), (1, 2)))  # kernel, stride, dilation


def pair(seed, kernel, stride, dilation, groups=1, biases=True):
    """(O, kh, kw, I / groups) = (4, k, k, 2 / groups)."""
    source = Weights(
        random(seed, 4, kernel, kernel, 2 // groups), random(seed + 1, 4) if biases else None,
        groups, "up", stride_in_pixels_x=stride, stride_in_pixels_y=stride,
        dilation_rate_x=dilation, dilation_rate_y=dilation,
    )  # fmt: skip
    made = (mps.MPSCNNConvolutionTranspose(device=device(), weights=source),
            mps.MPSCNNConvolutionTransposeGradient(device=device(), weights=source))  # fmt: skip
    return source, *made


def by_hand(x, source, stride, dilation, offset, size):
    """Windows of the zero-stuffed source, begun at offset - floor(extent / 2)."""
    weights = source.array
    kernel, groups = weights.shape[1], source.sizes.groups
    extent = (kernel - 1) * dilation + 1
    n, channels, h, w = x.shape
    stuffed = np.zeros((n, channels, h * stride, w * stride))
    stuffed[:, :, ::stride, ::stride] = x
    margin = 40
    padded = np.pad(stuffed, [(0, 0), (0, 0), (margin, margin), (margin, margin)])
    y = np.zeros((n, weights.shape[0], *size))
    share, out = channels // groups, weights.shape[0] // groups
    for o in range(weights.shape[0]):
        group = o // out
        part = padded[:, group * share : (group + 1) * share]
        for p, q in itertools.product(range(kernel), repeat=2):
            top = margin + offset - extent // 2 + p * dilation
            left = margin + offset - extent // 2 + q * dilation
            window = part[:, :, top : top + size[0], left : left + size[1]]
            y[:, o] += np.einsum("nchw,c->nhw", window, weights[o, p, q])
        if source.biases is not None:
            y[:, o] += source.biases[o]
    return y


@pytest.mark.parametrize(("size", "stride", "dilation"), SIZES)
def test_forward_and_gradients(size, stride, dilation):
    source, kernel, gradient = pair(1, size, stride, dilation)
    x = random(3, 2, 2, 3, 2)
    y, states = forward(kernel, x)
    assert y.shape == (2, 4, 3 * stride, 2 * stride)
    assert kernel.kernel_offset_x == kernel.kernel_offset_y
    expected = by_hand(x, source, stride, dilation, kernel.kernel_offset_x, y.shape[2:])
    np.testing.assert_allclose(y, expected, rtol=1e-9, atol=1e-12)

    dy = random(4, *y.shape)
    dx = backward(gradient, dy, x, states)
    numeric = differences(lambda moved: forward(kernel, moved)[0], x, dy)
    near(dx, numeric)
    assert gradient.kernel_offset_x == kernel.kernel_offset_x

    def with_weights(moved):
        changed = Weights(moved, source.biases, 1, "up")
        changed.sizes = source.sizes
        return forward(mps.MPSCNNConvolutionTranspose(device=device(), weights=changed), x)[0]

    state = states[0]
    assert all(other is state for other in states)
    found = np.asarray(state.gradient_for_weights).reshape(source.array.shape)
    step = random(5, *source.array.shape)
    along = np.sum(dy * (with_weights(source.array + 1e-5 * step)
                         - with_weights(source.array - 1e-5 * step))) / 2e-5  # fmt: skip
    np.testing.assert_allclose(np.sum(found * step), along, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(np.asarray(state.gradient_for_biases), dy.sum(axis=(0, 2, 3)))
    assert state.convolution_transpose is kernel


def test_each_weight():
    source, kernel, gradient = pair(6, 3, 2, 1)
    x = random(7, 2, 2, 2, 2)
    y, states = forward(kernel, x)
    dy = random(8, *y.shape)
    backward(gradient, dy, x, states)

    def with_weights(moved):
        changed = Weights(moved, source.biases, 1, "up")
        changed.sizes = source.sizes
        return forward(mps.MPSCNNConvolutionTranspose(device=device(), weights=changed), x)[0]

    numeric = differences(with_weights, source.array, dy)
    found = np.asarray(states[0].gradient_for_weights).reshape(source.array.shape)
    near(found, numeric)


def test_groups():
    source, kernel, gradient = pair(9, 3, 2, 1, groups=2)
    x = random(10, 1, 2, 3, 3)
    y, states = forward(kernel, x)
    expected = by_hand(x, source, 2, 1, kernel.kernel_offset_x, y.shape[2:])
    np.testing.assert_allclose(y, expected, rtol=1e-9, atol=1e-12)
    dy = random(11, *y.shape)
    numeric = differences(lambda moved: forward(kernel, moved)[0], x, dy)
    near(backward(gradient, dy, x, states), numeric)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("height", [5, 6, 7])
def test_with_a_convolutions_state_it_is_the_adjoint(size, stride, height):
    weights = random(12, 3, size, size, 2)
    sizes = {"stride_in_pixels_x": stride, "stride_in_pixels_y": stride}
    convolution = mps.MPSCNNConvolution(device=device(), weights=Weights(weights, **sizes))
    z = random(13, 1, 2, height, 6)
    y, states = forward(convolution, z)
    # Input and output exchanged, and turned by half a circle.
    turned = np.ascontiguousarray(weights.transpose(3, 1, 2, 0)[:, ::-1, ::-1])
    kernel = mps.MPSCNNConvolutionTranspose(device=device(), weights=Weights(turned, **sizes))
    kernel.makes_temporary_images = False
    x = random(14, *y.shape)
    result = execute(
        lambda buffer: kernel.encode_batch(
            buffer, source_images=batch(device(), x), convolution_gradient_states=states
        )
    )
    assert array(result).shape == z.shape
    np.testing.assert_allclose(np.sum(array(result) * z), np.sum(x * y), rtol=1e-9)


def test_weights_are_exported_and_replaced():
    source, kernel, _ = pair(17, 2, 2, 1)
    exported = execute(lambda buffer: kernel.export_weights_and_biases(buffer))
    np.testing.assert_array_equal(
        np.asarray(exported.weights).reshape(source.array.shape), source.array
    )
    other, target, _ = pair(20, 2, 2, 1)
    execute(lambda buffer: target.reload_weights_and_biases(buffer, state=exported))
    x = random(18, 1, 2, 2, 2)
    np.testing.assert_array_equal(forward(target, x)[0], forward(kernel, x)[0])
    assert target.data_source is other


def test_gradient_option():
    _, kernel, gradient = pair(19, 2, 2, 1)
    x = random(20, 1, 2, 2, 2)
    y, states = forward(kernel, x)
    dy = random(21, *y.shape)
    everything = backward(gradient, dy, x, states)
    gradient.gradient_option = "gradient_with_data"
    _, fresh = forward(kernel, x)
    np.testing.assert_array_equal(backward(gradient, dy, x, fresh), everything)
    assert not np.asarray(fresh[0].gradient_for_weights).any()
    gradient.gradient_option = "gradient_with_weights_and_bias"
    backward(gradient, dy, x, fresh)
    np.testing.assert_array_equal(
        np.asarray(fresh[0].gradient_for_weights), np.asarray(states[0].gradient_for_weights)
    )


def test_images_stay_where_their_gradient_is_not_asked_for():
    _, kernel, gradient = pair(25, 2, 2, 1)
    gradient.gradient_option = "gradient_with_weights_and_bias"
    x = random(26, 2, 2, 3, 3)
    y, states = forward(kernel, x)
    before = batch(device(), random(27, *x.shape))
    execute(
        lambda buffer: gradient.encode_batch(
            buffer, source_gradients=batch(device(), y), source_images=batch(device(), x),
            gradient_states=states, destination_gradients=before,
        )
    )  # fmt: skip
    np.testing.assert_array_equal(array(before), random(27, *x.shape))


def test_what_is_refused():
    _, kernel, gradient = pair(22, 3, 2, 1)
    x = random(23, 1, 3, 2, 2)
    with pytest.raises(ShapeError, match=r"Transpose 'up'\] expected source images of 2 channels"):
        forward(kernel, x)
    good = x[:, :2]
    y, states = forward(kernel, good)
    with pytest.raises(ShapeError, match=r"Gradient 'up'\] expected source gradients of 4"):
        backward(gradient, y[:, :3], good, states)
    convolution = mps.MPSCNNConvolution(device=device(), weights=Weights(random(1, 2, 2, 2, 2)))
    _, others = forward(convolution, good)
    with pytest.raises(ValueError, match="kernel's size, stride and dilation"):
        kernel.encode(
            commands(device()), source_image=batch(device(), good)[0],
            convolution_gradient_state=others[0],
        )  # fmt: skip
    with pytest.raises(ValueError, match="state of the forward kernel"):
        backward(gradient, y, good, others)
