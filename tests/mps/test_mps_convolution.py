"""Convolution kernels with their gradients: 180 windows, groups, fused neurons, reloading."""

import numpy as np
import pytest
from gradients import near
from kernels import Weights, array, batch, commands, differences, empty, run

from traingraph import mps

RANDOM = np.random.default_rng(5)


def convolved(x, weights, biases, stride, dilation, offset, rows, columns, groups=1):
    """The definition: windows begin at offset - floor(extent / 2) + stride i; zeros outside."""
    o, k, _, per_group = weights.shape
    extent = (k - 1) * dilation + 1
    y = np.zeros((x.shape[0], o, rows, columns)) + biases[:, None, None]
    padded = np.pad(x, ((0, 0), (0, 0), (20, 20), (20, 20)))
    for i, j in np.ndindex(rows, columns):
        top, left = (20 + offset - extent // 2 + stride * at for at in (i, j))
        taps = padded[:, :, top : top + extent : dilation, left : left + extent : dilation]
        for c in range(o):
            group = c // (o // groups)
            part = taps[:, group * per_group : (group + 1) * per_group]
            y[:, c, i, j] += np.einsum("nchw,hwc->n", part, weights[c])
    return y


def setup(kernel, stride, dilation, offset, groups=1, neuron=None, size=9):
    extent = (kernel - 1) * dilation + 1
    rows = max((size - abs(offset) + extent // 2 - extent) // stride + 1, 1)
    weights = RANDOM.normal(size=(4, kernel, kernel, 2 // groups)) / kernel
    extra = {"fused_neuron_descriptor": neuron} if neuron else {}
    source = Weights(
        weights, RANDOM.normal(size=4), groups, stride_in_pixels_x=stride,
        stride_in_pixels_y=stride, dilation_rate_x=dilation, dilation_rate_y=dilation, **extra,
    )  # fmt: skip
    return source, RANDOM.normal(size=(2, 2, size, size)), (2, 4, rows, rows)


def both_passes(on, source, x, seed, offset):
    forward = mps.MPSCNNConvolution(device=on, weights=source)
    forward.offset = (offset, offset)
    gradient = mps.MPSCNNConvolutionGradient(device=on, weights=source)
    gradient.makes_temporary_images = False
    images = batch(on, x)
    y = empty(on, seed.shape, x.dtype.name)
    buffer = commands(on)
    states = forward.result_state_batch(for_source_image=images)
    forward.encode_batch(buffer, source_images=images, destination_states=states,
                         destination_images=y)  # fmt: skip
    dx = gradient.encode_batch(buffer, source_gradients=batch(on, seed), source_images=images,
                               gradient_states=states)  # fmt: skip
    run(buffer)
    weights = np.asarray(states[0].gradient_for_weights).reshape(source.array.shape)
    return array(y), array(dx), weights, np.asarray(states[0].gradient_for_biases), gradient


WINDOWS = [
    (kernel, stride, dilation, offset)
    for kernel in (1, 2, 3, 4, 5)
    for stride in (1, 2, 3)
    for dilation in (1, 2, 3)
    for offset in (-1, 0, 1, 2)
]


@pytest.mark.parametrize(("kernel", "stride", "dilation", "offset"), WINDOWS)
def test_windows(kernel, stride, dilation, offset):
    """y against the definition, both gradients against its central differences by a direction."""
    on = mps.MTLDevice(device="reference")
    source, x, shape = setup(kernel, stride, dilation, offset)
    seed = RANDOM.normal(size=shape)
    y, dx, dw, db, _ = both_passes(on, source, x, seed, offset)

    def loss(v, w, b):
        return (convolved(v, w, b, stride, dilation, offset, *shape[2:]) * seed).sum()

    w, b = source.array, source.biases
    np.testing.assert_allclose(
        y, convolved(x, w, b, stride, dilation, offset, *shape[2:]), rtol=1e-9, atol=1e-12
    )
    # The loss is linear in each operand: along any direction the difference is exact.
    for _ in range(3):
        v, u, t = (RANDOM.normal(size=a.shape) for a in (x, w, b))
        np.testing.assert_allclose((dx * v).sum(), loss(x + v, w, b) - loss(x, w, b), rtol=1e-8)
        np.testing.assert_allclose((dw * u).sum(), loss(x, w + u, b) - loss(x, w, b), rtol=1e-8)
        np.testing.assert_allclose((db * t).sum(), loss(x, w, b + t) - loss(x, w, b), rtol=1e-8)


def test_there_are_180_windows():
    assert len(WINDOWS) == 180


def test_groups():
    on = mps.MTLDevice(device="reference")
    source, x, shape = setup(3, 1, 1, 0, groups=2)
    seed = RANDOM.normal(size=shape)
    y, dx, dw, _, _ = both_passes(on, source, x, seed, 0)
    w, b = source.array, source.biases

    def loss(v, u):
        return (convolved(v, u, b, 1, 1, 0, *shape[2:], groups=2) * seed).sum()

    np.testing.assert_allclose(y, convolved(x, w, b, 1, 1, 0, *shape[2:], groups=2), rtol=1e-9)
    v, u = RANDOM.normal(size=x.shape), RANDOM.normal(size=w.shape)
    np.testing.assert_allclose((dx * v).sum(), loss(x + v, w) - loss(x, w), rtol=1e-8)
    np.testing.assert_allclose((dw * u).sum(), loss(x, w + u) - loss(x, w), rtol=1e-8)


def test_a_fused_neuron_is_differentiated():
    on = mps.MTLDevice(device="reference")
    neuron = mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(with_type="tanh")
    source, x, shape = setup(3, 2, 1, 0, neuron=neuron)
    seed = RANDOM.normal(size=shape)
    _, dx, dw, _, _ = both_passes(on, source, x, seed, 0)

    def loss(v, w):
        return (np.tanh(convolved(v, w, source.biases, 2, 1, 0, *shape[2:])) * seed).sum()

    near(dx, differences(lambda v: loss(v, source.array), x))
    near(dw, differences(lambda w: loss(x, w), source.array.copy()))


def test_only_the_returning_forms_configure():
    """With a destination the properties stay as they were, and the offsets are the caller's."""
    on = mps.MTLDevice(device="reference")
    source, x, shape = setup(3, 1, 1, 1)
    seed = RANDOM.normal(size=shape)
    _, dx, _, _, configured = both_passes(on, source, x, seed, 1)
    assert (configured.kernel_offset_x, configured.secondary_offset) == (-1, (0, 0, 0))
    plain = mps.MPSCNNConvolutionGradient(device=on, weights=source)
    forward = mps.MPSCNNConvolution(device=on, weights=source)
    forward.offset = (1, 1)
    results = []
    for configure in (False, True):
        buffer, images = commands(on), batch(on, x)
        states = forward.result_state_batch(for_source_image=images)
        forward.encode_batch(buffer, source_images=images, destination_states=states,
                             destination_images=empty(on, shape))  # fmt: skip
        gradients = batch(on, seed)
        if configure:
            plain.destination_image_descriptor(
                for_source_images=[gradients[0], images[0]], source_states=states[:1]
            )
        out = empty(on, x.shape)
        plain.encode_batch(buffer, source_gradients=gradients, source_images=images,
                           gradient_states=states, destination_gradients=out)  # fmt: skip
        run(buffer)
        results.append(array(out))
    assert np.abs(results[0] - dx).max() > 0.1
    np.testing.assert_array_equal(results[1], dx)


@pytest.mark.parametrize("option", ["gradient_with_data", "gradient_with_weights_and_bias"])
def test_gradient_options(option):
    on = mps.MTLDevice(device="reference")
    source, x, shape = setup(3, 1, 1, 0)
    seed = RANDOM.normal(size=shape)
    _, dx, dw, _, gradient = both_passes(on, source, x, seed, 0)
    gradient.gradient_option = option
    forward = mps.MPSCNNConvolution(device=on, weights=source)
    buffer, images, out = commands(on), batch(on, x), empty(on, x.shape)
    states = forward.result_state_batch(for_source_image=images)
    gradient.encode_batch(buffer, source_gradients=batch(on, seed), source_images=images,
                          gradient_states=states, destination_gradients=out)  # fmt: skip
    run(buffer)
    weights = np.asarray(states[0].gradient_for_weights).reshape(dw.shape)
    data = option == "gradient_with_data"
    np.testing.assert_array_equal(array(out), dx if data else 0 * dx)
    np.testing.assert_array_equal(weights, 0 * dw if data else dw)


def test_fully_connected_equals_a_convolution():
    on = mps.MTLDevice(device="reference")
    weights = RANDOM.normal(size=(5, 4, 3, 2))
    source = Weights(weights, RANDOM.normal(size=5))
    x = RANDOM.normal(size=(3, 2, 4, 3))
    seed = RANDOM.normal(size=(3, 5, 1, 1))
    forward = mps.MPSCNNFullyConnected(device=on, weights=source)
    gradient = mps.MPSCNNFullyConnectedGradient(device=on, weights=source)
    gradient.makes_temporary_images = False
    buffer, images = commands(on), batch(on, x)
    y, states = forward.encode_batch(
        buffer, source_images=images, destination_state_is_temporary=False
    )
    assert isinstance(y[0], mps.MPSTemporaryImage)
    assert y[0].read_count == 1
    out = empty(on, seed.shape)
    forward.encode_batch(buffer, source_images=images, destination_images=out)
    dx = gradient.encode_batch(buffer, source_gradients=batch(on, seed), source_images=images,
                               gradient_states=states)  # fmt: skip
    run(buffer)
    expected = np.einsum("nchw,ohwc->no", x, weights) + source.biases
    np.testing.assert_allclose(array(out)[:, :, 0, 0], expected, rtol=1e-9)
    e = seed[:, :, 0, 0]
    np.testing.assert_allclose(array(dx), np.einsum("no,ohwc->nchw", e, weights), rtol=1e-9)
    dw = np.asarray(states[0].gradient_for_weights).reshape(weights.shape)
    np.testing.assert_allclose(dw, np.einsum("no,nchw->ohwc", e, x), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(np.asarray(states[0].gradient_for_biases), e.sum(axis=0), rtol=1e-9)


def test_reloading():
    """From the changed data source, and from a state inside of a command buffer."""
    on = mps.MTLDevice(device="cpu")
    source = Weights(np.ones((1, 1, 1, 1), np.float32))
    kernel = mps.MPSCNNConvolution(device=on, weights=source)
    x, out = batch(on, np.ones((1, 1, 2, 2), np.float32)), empty(on, (1, 1, 2, 2), "float32")

    def value():
        buffer = commands(on)
        kernel.encode_batch(buffer, source_images=x, destination_images=out)
        run(buffer)
        return float(array(out)[0, 0, 0, 0])

    assert value() == 1
    source.array = np.full((1, 1, 1, 1), 3, np.float32)
    assert value() == 1
    kernel.reload_weights_and_biases_from_data_source()
    assert value() == 3
    weights = mps.MTLBuffer(device=on, bytes=np.float32([5]).tobytes())
    biases = mps.MTLBuffer(device=on, bytes=np.float32([0.5]).tobytes())
    state = mps.MPSCNNConvolutionWeightsAndBiasesState(weights=weights, biases=biases)
    buffer = commands(on)
    kernel.reload_weights_and_biases(buffer, state=state)
    kernel.encode_batch(buffer, source_images=x, destination_images=out)
    exported = kernel.export_weights_and_biases(buffer)
    run(buffer)
    assert float(array(out)[0, 0, 0, 0]) == 5.5
    assert np.asarray(exported.weights).tolist() == [5]
    assert value() == 5.5


def test_bad_weights():
    on = mps.MTLDevice(device="cpu")
    source = Weights(np.ones((1, 1, 1, 2), np.float32))
    source.sizes.input_feature_channels = 3
    with pytest.raises(ValueError, match=r"of weights \(1, 1, 1, 3\) but got 2"):
        mps.MPSCNNConvolution(device=on, weights=source)
    source.sizes.input_feature_channels = 2
    kernel = mps.MPSCNNConvolution(device=on, weights=source)
    x = batch(on, np.ones((1, 3, 2, 2), np.float32))
    with pytest.raises(ValueError, match=r"MPSCNNConvolution.*of 2 channels but got 3x2x2"):
        kernel.encode_batch(commands(on), source_images=x)
