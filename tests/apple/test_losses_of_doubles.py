"""Losses of the doubles against numpy: the reported loss, and its derivative by differences."""

from collections.abc import Callable

import numpy as np
import pytest
from mps_session import Session, broken, session, values
from objective_c import Object, Runtime

NONE, SUM, MEAN = 0, 1, 2
SMOOTHING = 0.1


def softmax_cross_entropy(y: np.ndarray, t: np.ndarray) -> np.ndarray:
    t = t * (1 - SMOOTHING) + SMOOTHING / y.shape[0]
    return -(t * (y - np.log(np.exp(y).sum(0)))).sum(0, keepdims=True)


def sigmoid_cross_entropy(y: np.ndarray, t: np.ndarray) -> np.ndarray:
    t = t * (1 - SMOOTHING) + SMOOTHING / 2
    return np.log(1 + np.exp(y)) - y * t


def huber(y: np.ndarray, t: np.ndarray) -> np.ndarray:
    d = np.abs(y - t)
    return np.where(d <= 0.5, d * d / 2, 0.5 * (d - 0.25))


def log_loss(y: np.ndarray, t: np.ndarray) -> np.ndarray:
    return -t * np.log(y + 1e-3) - (1 - t) * np.log(1 - y + 1e-3)


# Apple's number of the type, the loss, and whether it wants probabilities.
LOSSES: dict[str, tuple[int, Callable[[np.ndarray, np.ndarray], np.ndarray], bool]] = {
    "mean absolute error": (0, lambda y, t: np.abs(y - t), False),
    "mean squared error": (1, lambda y, t: (y - t) ** 2, False),
    "softmax cross entropy": (2, softmax_cross_entropy, False),
    "sigmoid cross entropy": (3, sigmoid_cross_entropy, False),
    "categorical cross entropy": (4, lambda y, t: -t * np.log(y), True),
    "huber": (6, huber, False),
    "log": (8, log_loss, True),
}


def loss_kernel(s: Session, kind: int, reduction: int) -> Object:
    form = "cnnLossDescriptorWithType:reductionType:"
    descriptor = s.runtime.MPSCNNLossDescriptor.send(form, kind, reduction)
    descriptor.send("setWeight:", 1.5)
    descriptor.send("setLabelSmoothing:", SMOOTHING)
    descriptor.send("setDelta:", 0.5)
    descriptor.send("setEpsilon:", 1e-3)
    return s.kernel("MPSCNNLoss", "initWithDevice:lossDescriptor:", descriptor)


def labels_of(s: Session, labels: np.ndarray, report: tuple[int, int, int]) -> Object:
    data = s.runtime.NSData.send("dataWithBytes:length:", labels, labels.nbytes)
    channels, height, width = labels.shape
    descriptor = s.runtime.MPSCNNLossDataDescriptor.send(
        "cnnLossDataDescriptorWithData:layout:size:", data, 1, (width, height, channels)
    )
    return s.make(
        "MPSCNNLossLabels", "initWithDevice:lossImageSize:labelsDescriptor:weightsDescriptor:",
        s.device, report, descriptor, None,
    )  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("reduction", [NONE, SUM, MEAN])
def test_loss(runtime: Runtime, name: str, reduction: int) -> None:
    kind, function, probability = LOSSES[name]
    y, t = values(2, 5, 3, 4), np.abs(values(2, 5, 3, 4))
    y = np.abs(y) * 0.8 + 0.1 if probability else y
    shape = function(y[0], t[0]).shape
    report = tuple(reversed(shape)) if reduction == NONE else (1, 1, 1)

    def reported(y: np.ndarray, t: np.ndarray) -> np.ndarray:
        all_of_it = 1.5 * function(y.astype(np.float64), t.astype(np.float64))
        if reduction == NONE:
            return all_of_it
        return (all_of_it.sum() if reduction == SUM else all_of_it.mean()).reshape(1, 1, 1)

    with session(runtime) as s:
        kernel, results = loss_kernel(s, kind, reduction), s.blank_batch(*y.shape)
        labels = [labels_of(s, one, report) for one in t]
        kernel.send(
            "encodeBatchToCommandBuffer:sourceImages:labels:destinationImages:",
            s.commands, s.batch(y), s.runtime.array(labels), results,
        )  # fmt: skip
        s.run()
        gradients = s.read_batch(results)
        for index in range(2):
            loss = s.read(labels[index].send("lossImage"))
            np.testing.assert_allclose(loss, reported(y[index], t[index]), rtol=1e-5)
            expected = np.empty(y.shape[1:])
            for place in np.ndindex(expected.shape):
                step = np.zeros(expected.shape)
                step[place] = 1e-6
                more, less = (reported(y[index] + sign * step, t[index]) for sign in (1, -1))
                expected[place] = (more - less).sum() / 2e-6
            np.testing.assert_allclose(gradients[index], expected, rtol=1e-4, atol=1e-5)


def test_labels_have_the_size_of_the_source(runtime: Runtime) -> None:
    def differ(s: Session) -> None:
        labels = s.runtime.array([labels_of(s, values(5, 3, 4), (1, 1, 1))])
        loss_kernel(s, 1, MEAN).send(
            "encodeBatchToCommandBuffer:sourceImages:labels:destinationImages:",
            s.commands, s.batch(values(1, 5, 3, 5)), labels, s.blank_batch(1, 5, 3, 5),
        )  # fmt: skip

    assert "labels and source differ in size" in broken(runtime, differ)
