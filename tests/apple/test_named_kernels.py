"""traingraph.mps over the Metal backend encodes Apple's kernels of the same names.

What they compute is compared elsewhere (tests/mps, with --device metal).
"""

import metal_package
import numpy as np
import pytest

from traingraph import _core, mps

pytestmark = metal_package.needs_doubles

N, C, H, W = SHAPE = 2, 4, 6, 5
WINDOW = {"kernel_width": 2, "kernel_height": 2}
BOTH = {"integer_scale_factor_x": 2, "integer_scale_factor_y": 3}


class Groups(mps.MPSCNNGroupNormalizationDataSource):
    number_of_feature_channels, number_of_groups = C, 2

    def gamma(self):
        return np.arange(1, C + 1, dtype=np.float32)


def neuron(name):
    return mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(with_type=name, a=0.5, b=0.25, c=1)


# The class, and what its forward kernel is made with.
FORWARD = {
    "MPSCNNPoolingMax": WINDOW,
    "MPSCNNPoolingAverage": WINDOW,
    "MPSCNNPoolingL2Norm": WINDOW,
    "MPSCNNDilatedPoolingMax": WINDOW | {"dilation_rate_x": 2},
    "MPSCNNNeuron": {"neuron_descriptor": neuron("elu")},
    "MPSCNNSoftMax": {},
    "MPSCNNLogSoftMax": {},
    "MPSCNNUpsamplingNearest": BOTH,
    "MPSCNNUpsamplingBilinear": BOTH,
    "MPSCNNCrossChannelNormalization": {"kernel_size": 3},
    "MPSCNNSpatialNormalization": WINDOW,
    "MPSCNNLocalContrastNormalization": WINDOW,
    "MPSCNNInstanceNormalization": {"data_source": Groups()},
    "MPSCNNGroupNormalization": {"data_source": Groups()},
    "MPSNNGramMatrixCalculation": {"alpha": 0.5},
    "MPSNNPad": {"padding_size_before": (1, 0, 0), "padding_size_after": (2, 1, 0)},
    "MPSNNResizeBilinear": {"resize_width": 3, "resize_height": 4, "align_corners": True},
    **{f"MPSNNReduce{axis}{what}": {} for axis in ("Row", "Column", "FeatureChannels")
       for what in ("Sum", "Mean", "Min", "Max")},
    "MPSNNReduceFeatureChannelsArgumentMax": {},
    "MPSNNReduceFeatureChannelsArgumentMin": {},
}  # fmt: skip
# With a gradient kernel; one that is made without arguments has None.
GRADIENTS = {
    name: None if "InstanceN" in name or "GroupN" in name else FORWARD[name]
    for name in FORWARD
    if not name.startswith(("MPSNNReduce", "MPSNNPad", "MPSNNResize"))
}
# Composed of other ops, with the reason beside the table that lacks them.
COMPOSED = ["MPSCNNCrossChannelNormalizationGradient", "MPSCNNSpatialNormalizationGradient"]


@pytest.fixture
def device():
    return mps.MTLDevice(device="metal")


def images(device, shape=SHAPE, seed=0):
    n, c, h, w = shape
    descriptor = mps.MPSImageDescriptor.image_descriptor(
        with_channel_format="float32", width=w, height=h, feature_channels=c, number_of_images=n
    )
    made = mps.MPSImage(device=device, image_descriptor=descriptor)
    values = np.random.default_rng(seed).uniform(1, 2, shape).astype(np.float32)
    for k in range(n):
        made.write_bytes(values[k], image_index=k)
    return made.batch_representation()


def works(encode, device, name):
    """How often Apple's class of this name computes what `encode` records."""
    before = metal_package.doubles().apple_work_of(name.encode())
    buffer = device.make_command_queue().make_command_buffer()
    kept = encode(buffer)
    buffer.commit()
    buffer.wait_until_completed()
    del kept
    return metal_package.doubles().apple_work_of(name.encode()) - before


def forward_of(name, device):
    kernel = getattr(_core, name)(device=device, **FORWARD[name])
    kernel.makes_temporary_images = False
    return kernel


@pytest.mark.parametrize("name", FORWARD)
def test_forward(name, device):
    kernel, x = forward_of(name, device), images(device)
    assert works(lambda buffer: kernel.encode_batch(buffer, source_images=x), device, name) == N


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradient(name, device):
    kernel, x = forward_of(name, device), images(device)
    arguments = GRADIENTS[name] or {}
    gradient = getattr(_core, f"{name}Gradient")(device=device, **arguments)
    gradient.makes_temporary_images = False

    def encode(buffer):
        y, states = kernel.encode_batch(
            buffer, source_images=x, destination_state_is_temporary=False
        )
        second = y if "SoftMax" in name else x
        first = y[0]
        shape = (N, first.feature_channels, first.height, first.width)
        dy = images(device, shape, seed=1)
        return gradient.encode_batch(
            buffer, source_gradients=dy, source_images=second, gradient_states=states
        )

    expected = 0 if f"{name}Gradient" in COMPOSED else N
    assert works(encode, device, f"{name}Gradient") == expected


@pytest.mark.parametrize("name", ["Add", "Subtract", "Multiply", "Divide"])
def test_arithmetic(name, device):
    kernel = getattr(_core, f"MPSCNN{name}")(device=device)
    kernel.makes_temporary_images = False
    a, b = images(device), images(device, seed=1)

    def encode(buffer):
        return kernel.encode_batch(buffer, primary_images=a, secondary_images=b)

    assert works(encode, device, f"MPSCNN{name}") == N


@pytest.mark.parametrize(
    ("loss", "expected"), [("mean_squared_error", 1), ("soft_max_cross_entropy", 1), ("huber", 0)]
)
def test_losses(loss, expected, device):
    descriptor = mps.MPSCNNLossDescriptor.cnn_loss_descriptor(with_type=loss, reduction_type="mean")
    kernel = mps.MPSCNNLoss(device=device, loss_descriptor=descriptor)
    kernel.makes_temporary_images = False
    x, y, losses = images(device), images(device, seed=1), images(device, (N, 1, 1, 1))
    labels = [
        mps.MPSCNNLossLabels(loss_image=one, labels_image=truth)
        for one, truth in zip(losses, y, strict=True)
    ]

    def encode(buffer):
        return kernel.encode_batch(buffer, source_images=x, labels=labels)

    assert works(encode, device, "MPSCNNLoss") == expected


def vector(device, count=6):
    descriptor = mps.MPSVectorDescriptor.vector_descriptor(with_length=count)
    data = mps.MTLBuffer(device=device, bytes=np.ones(count, np.float32).tobytes())
    return mps.MPSVector(buffer=data, descriptor=descriptor)


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("MPSNNOptimizerStochasticGradientDescent", []),
        ("MPSNNOptimizerRMSProp", ["input_sum_of_squares_vector"]),
        ("MPSNNOptimizerAdam", ["input_momentum_vector", "input_velocity_vector"]),
    ],
)
def test_optimizers(name, own, device):
    optimizer = getattr(_core, name)(device=device, learning_rate=0.1)
    given = {key: vector(device) for key in own}
    result = vector(device)

    def encode(buffer):
        optimizer.encode(
            buffer, input_gradient_vector=vector(device), input_values_vector=vector(device),
            result_values_vector=result, **given,
        )  # fmt: skip

    assert works(encode, device, name) == 1


def check_rates_in_flight() -> None:
    """Each buffer brings another rate while those before it run."""
    metal_package.doubles().apple_gpu_start_thread()
    device = mps.MTLDevice(device="metal")
    optimizer = mps.MPSNNOptimizerStochasticGradientDescent(device=device, learning_rate=0)
    queue, gradient, values = device.make_command_queue(), vector(device), vector(device)
    rates = [0.5, 0.25, 0.125, 0.0625]
    for rate in rates:
        optimizer.set_learning_rate(rate)
        buffer = queue.make_command_buffer()
        optimizer.encode(
            buffer, input_gradient_vector=gradient, input_values_vector=values,
            result_values_vector=values,
        )  # fmt: skip
        buffer.commit()
    buffer.wait_until_completed()
    np.testing.assert_array_equal(np.array(values.data), np.float32(1 - sum(rates)))


def test_rates_in_flight():
    done = metal_package.run_script("import test_named_kernels as t; t.check_rates_in_flight()")
    assert done.returncode == 0, done.stderr
