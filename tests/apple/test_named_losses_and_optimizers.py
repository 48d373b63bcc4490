"""Losses and optimizers that traingraph.mps encodes as Apple's kernels over the Metal backend."""

import time

import metal_package
import numpy as np
import pytest
from test_named_kernels import (
    SHAPE,
    C,
    H,
    N,
    Numbers,
    W,
    arrays,
    compare,
    images,
    kernel_of,
    values,
)

from traingraph import mps

pytestmark = metal_package.needs_doubles


def loss_descriptor(kind, reduction, **properties):
    descriptor = mps.MPSCNNLossDescriptor.cnn_loss_descriptor(
        with_type=kind, reduction_type=reduction
    )
    for key, value in properties.items():
        setattr(descriptor, key, value)
    return descriptor


LOSSES = [
    ("mean_absolute_error", "sum", {}, 1),
    ("mean_squared_error", "mean", {"weight": 0.5}, 1),
    ("mean_squared_error", "mean", {"reduce_across_batch": True}, 1),
    ("soft_max_cross_entropy", "none", {}, 1),
    ("sigmoid_cross_entropy", "mean", {"label_smoothing": 0.25, "number_of_classes": 3}, 1),
    ("log", "sum", {"epsilon": 0.125}, 1),
    # 0 log 0 is NaN on the doubles.
    ("log", "sum", {"epsilon": 0}, 0),
    ("categorical_cross_entropy", "mean", {}, 0),
    ("hinge", "mean", {}, 1),
    ("huber", "mean", {"delta": 0.25}, 1),
    ("kullback_leibler_divergence", "mean", {}, 1),
]


def prediction_and_truth(device, kind):
    truth = values(seed=1)
    truth /= truth.sum(1, keepdims=True)
    prediction = values() / 2.5 if kind in ("log", "kullback_leibler_divergence") else values()
    return images(device, prediction), images(device, truth)


def test_initial_gradient():
    def run(device, buffer):
        kernel = kernel_of("MPSNNInitialGradient", device, {}, {})
        return [kernel.encode_batch(buffer, source_images=images(device, values()))]

    compare("MPSNNInitialGradient", N, run)


def reported(device, kind, reduction):
    if reduction != "none":
        return images(device, np.zeros((N, 1, 1, 1), np.float32))
    channels = 1 if kind == "soft_max_cross_entropy" else C
    return images(device, np.zeros((N, channels, H, W), np.float32))


@pytest.mark.parametrize(("kind", "reduction", "properties", "expected"), LOSSES)
def test_losses(kind, reduction, properties, expected):
    def run(device, buffer):
        descriptor = loss_descriptor(kind, reduction, **properties)
        kernel = kernel_of("MPSCNNLoss", device, {"loss_descriptor": descriptor}, {})
        x, y = prediction_and_truth(device, kind)
        losses = reported(device, kind, reduction)
        labels = [
            mps.MPSCNNLossLabels(loss_image=one, labels_image=truth)
            for one, truth in zip(losses, y, strict=True)
        ]
        gradient = kernel.encode_batch(buffer, source_images=x, labels=labels)
        return [gradient, losses]

    compare("MPSCNNLoss", expected, run)


@pytest.mark.parametrize("by_labels", [False, True])
@pytest.mark.parametrize(("kind", "reduction", "properties", "expected"), LOSSES)
def test_forward_losses(kind, reduction, properties, expected, by_labels):
    def run(device, buffer):
        descriptor = loss_descriptor(kind, reduction, **properties)
        given = {"loss_descriptor": descriptor}
        kernel = kernel_of("MPSNNForwardLoss", device, given, {})
        x, y = prediction_and_truth(device, kind)
        losses = reported(device, kind, reduction)
        kernel.encode_batch(buffer, source_images=x, labels=y, destination_images=losses)
        gradient = kernel_of(
            "MPSNNLossGradient", device, given, {"compute_label_gradients": by_labels}
        )
        result = images(device, np.zeros(SHAPE, np.float32))
        gradient.encode_batch(
            buffer,
            source_gradients=images(device, values(arrays(losses).shape, seed=2)),
            source_images=x,
            labels=y,
            destination_gradients=result,
        )
        return [losses, result]

    compare("MPSNNForwardLoss", expected, run)
    # By labels these have the logarithm of 0, times a gradient of 0.
    has_log_of_zero = kind == "categorical_cross_entropy" or properties.get("epsilon") == 0
    compare("MPSNNLossGradient", 1 if by_labels and not has_log_of_zero else expected, run)


def vector(device, numbers):
    descriptor = mps.MPSVectorDescriptor.vector_descriptor(with_length=len(numbers))
    data = mps.MTLBuffer(device=device, bytes=np.asarray(numbers, np.float32).tobytes())
    return mps.MPSVector(buffer=data, descriptor=descriptor)


MOMENTUM = ["input_momentum_vector"]
SGD = "MPSNNOptimizerStochasticGradientDescent"
PLAIN = {"learning_rate": 0.25, "gradient_rescale": 0.5}
CLIPPED = PLAIN | {"apply_gradient_clipping": True, "gradient_clip_max": 0.5,
                   "gradient_clip_min": -0.25, "regularization_type": "l2",
                   "regularization_scale": 0.125}  # fmt: skip
OPTIMIZERS = [
    (SGD, {"momentum_scale": 0, "use_nesterov_momentum": False}, []),
    (SGD, {"momentum_scale": 0.5, "use_nesterov_momentum": False}, MOMENTUM),
    (SGD, {"momentum_scale": 0.5, "use_nesterov_momentum": True}, MOMENTUM),
    ("MPSNNOptimizerRMSProp", {"decay": 0.75, "epsilon": 0.125}, ["input_sum_of_squares_vector"]),
    (
        "MPSNNOptimizerAdam",
        {"beta1": 0.5, "beta2": 0.75, "epsilon": 0.125, "time_step": 2},
        [*MOMENTUM, "input_velocity_vector"],
    ),
]


@pytest.mark.parametrize("described", [PLAIN, CLIPPED], ids=["plain", "clipped"])
@pytest.mark.parametrize(("name", "arguments", "own"), OPTIMIZERS)
def test_optimizers(name, arguments, own, described):
    def run(device, buffer):
        descriptor = mps.MPSNNOptimizerDescriptor.optimizer_descriptor(
            with_learning_rate=described["learning_rate"],
            **{key: value for key, value in described.items() if key != "learning_rate"},
        )
        optimizer = kernel_of(name, device, arguments | {"optimizer_descriptor": descriptor}, {})
        start = values((6,), seed=3)
        given = {key: vector(device, start) for key in own}
        result = vector(device, start)
        for step in range(3):
            optimizer.encode(
                buffer,
                input_gradient_vector=vector(device, values((6,), seed=step) - 1),
                input_values_vector=result,
                result_values_vector=result,
                **given,
            )
        return [Numbers(one.data) for one in (result, *given.values())]

    compare(name, 3, run)


def check_rates_in_flight() -> None:
    """Each buffer brings another rate while those before it run."""
    doubles = metal_package.doubles()
    doubles.apple_gpu_start_thread()
    device = mps.MTLDevice(device="metal")
    optimizer = mps.MPSNNOptimizerStochasticGradientDescent(device=device, learning_rate=0)
    queue, gradient, parameters = (
        device.make_command_queue(), vector(device, [1.0] * 6), vector(device, [1.0] * 6)
    )  # fmt: skip
    rates = [0.5, 0.25, 0.125, 0.0625]
    doubles.apple_gpu_hold(1)
    for rate in rates:
        optimizer.set_learning_rate(rate)
        buffer = queue.make_command_buffer()
        optimizer.encode(
            buffer, input_gradient_vector=gradient, input_values_vector=parameters,
            result_values_vector=parameters,
        )  # fmt: skip
        buffer.commit()
    # Of each a run and the read of a byte behind it, of all but the first the numbers as well.
    until = time.monotonic() + 30
    while doubles.apple_gpu_waiting() < 3 * len(rates) - 1:
        assert time.monotonic() < until, f"{doubles.apple_gpu_waiting()} command buffers in flight"
        time.sleep(0.01)
    doubles.apple_gpu_hold(0)
    buffer.wait_until_completed()
    np.testing.assert_array_equal(np.array(parameters.data), np.float32(1 - sum(rates)))


def test_rates_in_flight():
    done = metal_package.run_script(
        "import test_named_losses_and_optimizers as t; t.check_rates_in_flight()"
    )
    assert done.returncode == 0, done.stderr
