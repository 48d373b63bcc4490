"""Neurons, pooling and softmax with their gradient kernels, against central differences."""

import numpy as np
import pytest
from gradients import device, near
from kernels import array, batch, commands, differences, empty, run

from traingraph import mps

NEURONS = {
    "none": {}, "relu": {"a": 0.2}, "linear": {"a": 2.0, "b": -1.0}, "sigmoid": {},
    "hard_sigmoid": {"a": 0.3, "b": 0.4}, "tanh": {"a": 1.5, "b": 0.7}, "absolute": {},
    "soft_plus": {"a": 0.5, "b": 1.5}, "soft_sign": {}, "elu": {"a": 0.7},
    "relun": {"a": 0.1, "b": 1.2}, "power": {"a": 0.5, "b": 3.0, "c": 3.0},
    "exponential": {"a": 0.5, "b": 0.1, "c": 2.0}, "logarithm": {"a": 0.5, "b": 4.0, "c": -1.0},
    "gelu": {},
}  # fmt: skip


def forward_and_gradient(forward, gradient, x, seed, on, result_secondary=False):
    """y and dx for a scalar loss sum(y * seed)."""
    buffer = commands(on)
    source = batch(on, x)
    states = forward.result_state_batch(for_source_image=source)
    y = empty(on, seed.shape, x.dtype.name)
    forward.encode_batch(buffer, source_images=source, destination_states=states,
                         destination_images=y)  # fmt: skip
    gradient.makes_temporary_images = False
    dx = gradient.encode_batch(
        buffer, source_gradients=batch(on, seed), source_images=y if result_secondary else source,
        gradient_states=states,
    )  # fmt: skip
    run(buffer)
    return array(y), array(dx)


def only_forward(forward, x, shape, on):
    buffer = commands(on)
    y = empty(on, shape, x.dtype.name)
    forward.encode_batch(buffer, source_images=batch(on, x), destination_images=y)
    run(buffer)
    return array(y)


@pytest.mark.parametrize("name", sorted([*NEURONS, "prelu"]))
def test_neuron_gradients(name):
    on = device()
    random = np.random.default_rng(1)
    x = random.normal(size=(2, 3, 2, 3))
    x[np.abs(x) < 0.05] = 0.5
    seed = random.normal(size=x.shape)
    if name == "prelu":
        d = mps.MPSNNNeuronDescriptor.cnn_neuron_prelu_descriptor(with_data=[0.1, -0.2, 0.3])
    else:
        d = mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(with_type=name, **NEURONS[name])
    forward = mps.MPSCNNNeuron(device=on, neuron_descriptor=d)
    gradient = mps.MPSCNNNeuronGradient(device=on, neuron_descriptor=d)
    _, dx = forward_and_gradient(forward, gradient, x, seed, on)
    expected = differences(lambda v: (only_forward(forward, v, x.shape, on) * seed).sum(), x)
    near(dx, expected)


def test_every_neuron_type_is_tested():
    names = {name.lower() for name in mps.MPSCNNNeuronType.__members__}
    assert names == {*NEURONS, "prelu"}


def test_neuron_values():
    on = device()
    x = np.linspace(-2, 2, 24).reshape(1, 1, 4, 6)

    def value(name, **parameters):
        d = mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(with_type=name, **parameters)
        return only_forward(mps.MPSCNNNeuron(device=on, neuron_descriptor=d), x, x.shape, on)

    from math import erf

    gelu = np.vectorize(lambda v: 0.5 * v * (1 + erf(v / np.sqrt(2))))
    np.testing.assert_allclose(value("gelu"), gelu(x), atol=3e-7)
    np.testing.assert_allclose(value("power", a=2.0, b=1.0, c=2.0), (2 * x + 1) ** 2, rtol=1e-9)
    np.testing.assert_allclose(value("exponential", a=1.0, b=0.5, c=3.0), 3 ** (x + 0.5), rtol=1e-6)
    np.testing.assert_allclose(value("logarithm", a=1.0, b=3.0, c=10.0), np.log10(x + 3), rtol=1e-6)
    np.testing.assert_allclose(value("relu", a=0.5), np.where(x < 0, 0.5 * x, x), rtol=1e-9)


# kernel, its options, padded size policy
POOLS = [
    (kind, kernel, stride, edge, offset)
    for kind in ("Max", "Average", "L2Norm")
    for kernel, stride in ((2, 2), (3, 2), (3, 1))
    for edge in ("zero", "clamp")
    for offset in ((0, 0), (1, 0))
]


@pytest.mark.parametrize(("kind", "kernel", "stride", "edge", "offset"), POOLS)
def test_pooling_gradients(kind, kernel, stride, edge, offset):
    on = device()
    random = np.random.default_rng(kernel + stride)
    x = random.permutation(2 * 2 * 5 * 6).reshape(2, 2, 5, 6) / 50.0 - 1.1
    arguments = {
        "device": on, "kernel_width": kernel, "kernel_height": kernel,
        "stride_in_pixels_x": stride, "stride_in_pixels_y": stride,
    }  # fmt: skip
    forward = getattr(mps, f"MPSCNNPooling{kind}")(**arguments)
    gradient = getattr(mps, f"MPSCNNPooling{kind}Gradient")(**arguments)
    forward.edge_mode = edge
    size = forward.destination_image_descriptor(for_source_images=batch(on, x))
    forward.offset = (forward.offset.x + offset[0], forward.offset.y + offset[1])
    shape = (2, 2, size.height - offset[1], size.width - offset[0])
    seed = random.normal(size=shape)
    y, dx = forward_and_gradient(forward, gradient, x, seed, on)
    np.testing.assert_allclose(y, pooled(kind, x, forward, shape), rtol=1e-9, atol=1e-12)
    expected = differences(lambda v: (only_forward(forward, v, shape, on) * seed).sum(), x)
    near(dx, expected)


def pooled(kind, x, kernel, shape):
    """The definition, window by window."""
    y = np.zeros(shape)
    k, s = kernel.kernel_width, kernel.stride_in_pixels_x
    zero = int(kernel.edge_mode) == 0
    for i, j in np.ndindex(*shape[2:]):
        top, left = kernel.offset.y - k // 2 + s * i, kernel.offset.x - k // 2 + s * j
        inside = x[:, :, max(top, 0) : top + k, max(left, 0) : left + k]
        count = k * k if zero else inside.shape[2] * inside.shape[3]
        if kind == "Max":
            y[:, :, i, j] = inside.max(axis=(2, 3))
            if zero and inside.shape[2] * inside.shape[3] < k * k:
                y[:, :, i, j] = np.maximum(y[:, :, i, j], 0)
        elif kind == "Average":
            y[:, :, i, j] = inside.sum(axis=(2, 3)) / count
        else:
            y[:, :, i, j] = np.sqrt((inside**2).sum(axis=(2, 3)))
    return y


def test_dilated_pooling_gradient():
    on = device()
    random = np.random.default_rng(3)
    x = random.permutation(98).reshape(1, 2, 7, 7) / 20.0
    arguments = {"device": on, "kernel_width": 2, "kernel_height": 2,
                 "dilation_rate_x": 3, "dilation_rate_y": 2}  # fmt: skip
    forward = mps.MPSCNNDilatedPoolingMax(**arguments)
    gradient = mps.MPSCNNDilatedPoolingMaxGradient(**arguments)
    forward.offset = (2, 1)
    shape = (1, 2, 5, 4)
    seed = random.normal(size=shape)
    y, dx = forward_and_gradient(forward, gradient, x, seed, on)
    # Window of extent 4 x 3 beginning at the top left corner.
    taps = [x[:, :, a : a + 5, b : b + 4] for a in (0, 2) for b in (0, 3)]
    np.testing.assert_allclose(y, np.max(taps, axis=0))
    expected = differences(lambda v: (only_forward(forward, v, shape, on) * seed).sum(), x)
    near(dx, expected)


@pytest.mark.parametrize("name", ["SoftMax", "LogSoftMax"])
def test_softmax_gradients(name):
    on = device()
    random = np.random.default_rng(2)
    x = random.normal(size=(2, 4, 2, 2))
    seed = random.normal(size=x.shape)
    forward = getattr(mps, f"MPSCNN{name}")(device=on)
    gradient = getattr(mps, f"MPSCNN{name}Gradient")(device=on)
    y, dx = forward_and_gradient(forward, gradient, x, seed, on, result_secondary=True)
    e = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(y, e if name == "SoftMax" else np.log(e), rtol=1e-9)
    expected = differences(lambda v: (only_forward(forward, v, x.shape, on) * seed).sum(), x)
    near(dx, expected)


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_formats(device, dtype):
    on = mps.MTLDevice(device=device)
    x = np.linspace(-1, 1, 16).reshape(2, 2, 2, 2).astype(dtype)
    d = mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(with_type="sigmoid")
    y = only_forward(mps.MPSCNNNeuron(device=on, neuron_descriptor=d), x, x.shape, on)
    expected = 1 / (1 + np.exp(-x.astype(np.float64)))
    np.testing.assert_allclose(y, expected, atol=1e-3 if dtype == "float16" else 1e-6)
