"""Losses whose operands are made of each other, and predictions at the ends of their range."""

import numpy as np
import pytest
from kernels import array, batch, commands, empty, run

from traingraph import mps

DEVICES = ["reference", "cpu"]
X = np.array([1, 2, -3], np.float32).reshape(1, 3, 1, 1)


def descriptor(name: str, **options: object) -> mps.MPSCNNLossDescriptor:
    made = mps.MPSCNNLossDescriptor.cnn_loss_descriptor(with_type=name, reduction_type="sum")
    for key, value in options.items():
        setattr(made, key, value)
    return made


def loss(device, name, prediction, labels, weights=None, buffer=None, header=False, **options):
    """Value and gradient of MPSCNNLoss; operands are arrays or images."""
    on = mps.MTLDevice(device=device)
    kernel = mps.MPSCNNLoss(device=on, loss_descriptor=descriptor(name, **options))
    kernel.makes_temporary_images = False
    kernel.header_formula = header
    as_images = [batch(on, a) if isinstance(a, np.ndarray) else a for a in (prediction, labels)]
    value = empty(on, (1, 1, 1, 1), "float32")
    truth = mps.MPSCNNLossLabels(
        loss_image=value[0], labels_image=as_images[1][0],
        weights_image=None if weights is None else weights[0],
    )  # fmt: skip
    buffer = buffer or commands(on)
    gradient = kernel.encode_batch(buffer, source_images=as_images[0], labels=[truth])
    run(buffer)
    return array(value).item(), array(gradient).ravel()


def forward_loss(device, name, prediction, labels, by_labels=False, buffer=None, **options):
    """The same of MPSNNForwardLoss and MPSNNLossGradient."""
    on = mps.MTLDevice(device=device)
    kernel = mps.MPSNNForwardLoss(device=on, loss_descriptor=descriptor(name, **options))
    back = mps.MPSNNLossGradient(device=on, loss_descriptor=descriptor(name, **options))
    back.compute_label_gradients = by_labels
    kernel.makes_temporary_images = back.makes_temporary_images = False
    y, t = (batch(on, a) if isinstance(a, np.ndarray) else a for a in (prediction, labels))
    buffer = buffer or commands(on)
    value, states = kernel.encode_batch(
        buffer, source_images=y, labels=t, destination_state_is_temporary=False
    )
    ones = batch(on, np.ones((1, 1, 1, 1), np.float32))
    gradient = back.encode_batch(
        buffer, source_gradients=ones, source_images=y, labels=t, source_states=states
    )
    run(buffer)
    return array(value).item(), array(gradient).ravel()


def halved(device, images):
    """A buffer that has made half of these images, and the result."""
    on = mps.MTLDevice(device=device)
    half = mps.MPSCNNNeuronLinear(device=on, a=0.5, b=0.0)
    half.makes_temporary_images = False
    buffer = commands(on)
    return buffer, half.encode_batch(buffer, source_images=images)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("what", ["labels", "weights", "itself"])
def test_labels_and_weights_made_of_the_prediction_are_held(device, what):
    images = batch(mps.MTLDevice(device=device), X)
    buffer, made = halved(device, images)
    if what == "weights":
        _, gradient = loss(device, "mean_squared_error", images, 0 * X, made, buffer)
        expected = X * X
    else:
        labels = made if what == "labels" else images
        _, gradient = loss(device, "mean_squared_error", images, labels, buffer=buffer)
        expected = X if what == "labels" else 0 * X
    np.testing.assert_allclose(gradient, expected.ravel(), rtol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("by_labels", [False, True])
def test_a_gradient_is_by_one_operand_alone(device, by_labels):
    images = batch(mps.MTLDevice(device=device), X)
    buffer, made = halved(device, images)
    given = [made, images] if by_labels else [images, made]
    _, gradient = forward_loss(device, "mean_squared_error", *given, by_labels, buffer)
    np.testing.assert_allclose(gradient, X.ravel(), rtol=1e-6)
    _, gradient = forward_loss(device, "categorical_cross_entropy", images, images, by_labels)
    expected = -np.log(X) if by_labels else -np.ones_like(X)
    np.testing.assert_allclose(gradient[:2], expected.ravel()[:2], rtol=1e-6)


def test_a_training_graph_counts_the_path_through_the_prediction_once():
    device = mps.MTLDevice(device="cpu")
    labels = mps.MPSCNNNeuronLinearNode(source=mps.MPSNNImageNode(handle="x"), a=1.0, b=0.0)
    prediction = mps.MPSCNNNeuronLinearNode(source=labels.result_image, a=0.5, b=0.0)
    compared = mps.MPSNNForwardLossNode(
        source=prediction.result_image, labels=labels.result_image,
        loss_descriptor=descriptor("mean_squared_error"),
    )  # fmt: skip
    (last,) = mps.MPSNNInitialGradientNode(source=compared.result_image).training_graph()
    graph = mps.MPSNNGraph(device=device, result_image=last.result_image)
    graph.makes_temporary_images = False
    buffer = commands(device)
    result = graph.encode_batch(buffer, source_images=[batch(device, X)])
    run(buffer)
    np.testing.assert_allclose(array(result).ravel(), X.ravel() / 2, rtol=1e-6)


def column(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32).reshape(1, -1, 1, 1)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("compared", [loss, forward_loss])
def test_a_certain_prediction(device, compared):
    y, t = column(1, 0), column(1, 0)
    value, gradient = compared(device, "categorical_cross_entropy", y, t)
    assert value == 0
    np.testing.assert_array_equal(gradient, [-1, 0])
    value, gradient = compared(device, "categorical_cross_entropy", y, column(0, 1))
    assert value == np.inf
    np.testing.assert_array_equal(gradient, [0, -np.inf])
    value, gradient = compared(device, "log", column(0, 1), column(0, 1), epsilon=0.0)
    assert value == 0
    np.testing.assert_array_equal(gradient, [1, -1])


@pytest.mark.parametrize("device", DEVICES)
def test_the_labels_of_a_certain_prediction(device):
    given = column(1, 0.5, 0), column(1, 0, 0)
    _, gradient = forward_loss(device, "categorical_cross_entropy", *given, by_labels=True)
    np.testing.assert_allclose(gradient, [0, np.log(2), np.inf], rtol=1e-6)


def test_the_printed_divergence_where_both_are_zero():
    given = column(0.5, 0), column(1, 0)
    _, gradient = loss("cpu", "kullback_leibler_divergence", *given, header=True)
    np.testing.assert_array_equal(gradient, [-2, 0])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("compared", [loss, forward_loss])
def test_epsilon_counts_where_a_probability_is_one(device, compared):
    value, gradient = compared(device, "log", column(1), column(0))
    assert value == pytest.approx(-np.log(1e-7), rel=1e-5)
    np.testing.assert_allclose(gradient, [1e7], rtol=1e-5)
