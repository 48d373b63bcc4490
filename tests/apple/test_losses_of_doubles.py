"""Losses of the doubles against numpy: the reported loss, and its derivative by differences."""

from collections.abc import Callable

import numpy as np
import pytest
from kernel_pairs import differences
from loss_cases import CASES, MEAN, NON_ZERO, NONE, arrays, loss_kernel, reported
from mps_session import Session, broken, session, values
from objective_c import Object, Runtime

ENCODE = "encodeBatchToCommandBuffer:sourceImages:labels:destinationImages:"


def data_descriptor(s: Session, data: np.ndarray) -> Object:
    stored = s.runtime.NSData.send("dataWithBytes:length:", data, data.nbytes)
    channels, height, width = data.shape
    form = "cnnLossDataDescriptorWithData:layout:size:"
    return s.runtime.MPSCNNLossDataDescriptor.send(form, stored, 1, (width, height, channels))


def labels_of(
    s: Session, labels: np.ndarray, weights: np.ndarray | None, report: tuple[int, ...]
) -> Object:
    """With a loss image of these channels, rows and columns."""
    return s.make(
        "MPSCNNLossLabels", "initWithDevice:lossImageSize:labelsDescriptor:weightsDescriptor:",
        s.device, tuple(reversed(report)), data_descriptor(s, labels),
        None if weights is None else data_descriptor(s, weights),
    )  # fmt: skip


@pytest.mark.parametrize(("name", "reduction", "across"), CASES)
def test_loss(runtime: Runtime, name: str, reduction: int, across: bool) -> None:
    y, t, w = arrays(name, reduction, values)

    def of(y: np.ndarray) -> np.ndarray:
        return reported(name, reduction, across, y, t, w)

    expected = of(y)
    with session(runtime) as s:
        kernel = loss_kernel(s, "MPSCNNLoss", name, reduction, across)
        results = s.blank_batch(*y.shape)
        labels = [
            labels_of(s, t[index], None if w is None else w[index], expected.shape[1:])
            for index in range(len(y))
        ]
        kernel.send(ENCODE, s.commands, s.batch(y), s.runtime.array(labels), results)
        s.run()
        losses = np.stack([s.read(one.send("lossImage")) for one in labels])
        np.testing.assert_allclose(losses, expected, rtol=1e-5, atol=1e-6)
        dy = differences(of, y, np.ones(expected.shape))
        np.testing.assert_allclose(s.read_batch(results), dy, rtol=1e-4, atol=1e-5)


def encode(s: Session, name: str, reduction: int, y: np.ndarray, labels: Object) -> None:
    kernel = loss_kernel(s, "MPSCNNLoss", name, reduction, False)
    results = s.blank_batch(*y.shape)
    kernel.send(ENCODE, s.commands, s.batch(y), s.runtime.array([labels]), results)


def with_other_labels(s: Session) -> None:
    labels = labels_of(s, values(5, 3, 4), None, (1, 1, 1))
    encode(s, "mean squared error", MEAN, values(1, 5, 3, 5), labels)


def with_other_weights(s: Session) -> None:
    labels = labels_of(s, values(5, 3, 4), values(4, 3, 4), (1, 1, 1))
    encode(s, "softmax cross entropy", MEAN, values(1, 5, 3, 4), labels)


def without_weights(s: Session) -> None:
    labels = labels_of(s, values(5, 3, 4), None, (1, 1, 1))
    encode(s, "huber", NON_ZERO, values(1, 5, 3, 4), labels)


def with_a_small_loss_image(s: Session) -> None:
    labels = labels_of(s, values(5, 3, 4), None, (1, 1, 1))
    encode(s, "huber", NONE, values(1, 5, 3, 4), labels)


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        (with_other_labels, "labels and source differ in size"),
        (with_other_weights, "weights have not the size of the values"),
        (without_weights, "a sum by non-zero weights has no weights"),
        (with_a_small_loss_image, "the loss image has not the size of what is reported"),
        (
            lambda s: loss_kernel(s, "MPSCNNLoss", "cosine distance", MEAN, False),
            "a cosine distance is reduced by its sum",
        ),
    ],
)
def test_broken_rules(runtime: Runtime, action: Callable[[Session], None], sentence: str) -> None:
    assert sentence in broken(runtime, action)
