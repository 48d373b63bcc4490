"""What clients rely on about layers and their parameters."""

import numpy as np
import pytest
from client_networks import SYNCHRONOUS, descriptor, inference_of, numbers, sgd, training_of
from linear_regression import LABELS, POINTS, infer

import traingraph as tg


def test_row_09_relu_with_a_slope_is_leaky() -> None:
    x = tg.MLCTensor(shape=[5])
    graph = tg.MLCGraph()
    layer = tg.MLCActivationLayer(descriptor=tg.MLCActivationDescriptor(type="relu", a=0.25))
    graph.node(layer, source=x)
    values = np.array([-4, -1, 0, 1, 4], np.float32)
    result = infer(inference_of(graph, x=x), {"x": values})
    np.testing.assert_array_equal(result, [-1, -0.25, 0, 1, 4])


@pytest.mark.parametrize("shape", [(2, 3), (1, 6), (1, 6, 1, 1), (2, 3, 1, 1)], ids=str)
@pytest.mark.parametrize("kernel", [(1, 1), (3, 2)], ids=str)
def test_row_10_forms_of_fully_connected_weights(shape: tuple, kernel: tuple) -> None:
    weights, bias, values = numbers(2, 3), numbers(2, seed=1), numbers(4, 3, seed=2)
    memory = weights.reshape(shape).copy()
    x = tg.MLCTensor(shape=[4, 3])
    y = tg.MLCTensor(shape=[4, 2])
    graph = tg.MLCGraph()
    layer = tg.MLCFullyConnectedLayer(
        weights=tg.MLCTensor(data=memory),
        biases=tg.MLCTensor(data=bias.reshape(1, 2, 1, 1).copy()),
        descriptor=descriptor(3, 2, kernel),
    )
    graph.node(layer, source=x)
    loss = tg.MLCLossLayer.mean_squared_error(reduction_type="sum")
    training = training_of(graph, {"x": x}, {"y": y}, loss, optimizer=sgd(0.5))
    training.execute(
        inputs_data={"x": values}, loss_labels_data={"y": np.zeros((4, 2))}, options=SYNCHRONOUS
    )
    result = values @ weights.T + bias
    training.synchronize_updates()
    assert memory.shape == shape
    np.testing.assert_allclose(memory.reshape(2, 3), weights - result.T @ values, rtol=1e-5)


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_row_11_one_tensor_as_several_parameters(device: str) -> None:
    """y = w x + w: the gradient of w is the sum of both."""
    shared = np.full((1, 1), 0.5, np.float32)
    tensor = tg.MLCTensor(data=shared)
    x = tg.MLCTensor(shape=[4, 1])
    y = tg.MLCTensor(shape=[4, 1])
    graph = tg.MLCGraph()
    graph.node(
        tg.MLCFullyConnectedLayer(weights=tensor, biases=tensor, descriptor=descriptor(1, 1)),
        source=x,
    )
    loss = tg.MLCLossLayer.mean_squared_error(reduction_type="mean")
    training = training_of(graph, {"x": x}, {"y": y}, loss, optimizer=sgd(0.1), device=device)
    training.execute(inputs_data={"x": POINTS}, loss_labels_data={"y": LABELS}, options=SYNCHRONOUS)
    training.synchronize_updates()
    error = 0.5 * POINTS + 0.5 - LABELS
    expected = 0.5 - 0.1 * float((2 * error * (POINTS + 1)).mean())
    assert shared.item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_row_22_optional_parameters_may_be_missing(device: str) -> None:
    x = tg.MLCTensor(shape=[4, 2, 3, 3])
    graph = tg.MLCGraph()
    weights = numbers(3, 2)
    tg.sequential(
        graph,
        x,
        [
            tg.MLCBatchNormalizationLayer(
                feature_channel_count=2,
                mean=tg.MLCTensor(data=np.array([1, 2], np.float32)),
                variance=tg.MLCTensor(data=np.array([4, 9], np.float32)),
                variance_epsilon=1e-5,
            ),
            tg.MLCConvolutionLayer(
                weights=tg.MLCTensor(data=weights.reshape(1, 6, 1, 1).copy()),
                descriptor=descriptor(2, 3),
            ),
        ],
    )
    values = numbers(4, 2, 3, 3)
    normal = (values - np.reshape([1, 2], (2, 1, 1))) / np.sqrt(
        np.reshape([4, 9], (2, 1, 1)) + 1e-5
    )
    expected = np.einsum("oc,nchw->nohw", weights, normal)
    result = infer(inference_of(graph, device, x=x), {"x": values})
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_row_22_layers_without_optional_parameters_train(device: str) -> None:
    """The weights alone are updated, as with a bias that stays 0."""
    values, labels = numbers(5, 3), numbers(5, 2, seed=1)
    start = numbers(2, 3, seed=2)

    def train(biases: tg.MLCTensor | None, frozen: bool) -> tuple[np.ndarray, float]:
        memory = start.copy()
        x, y = tg.MLCTensor(shape=[5, 3]), tg.MLCTensor(shape=[5, 2])
        layer = tg.MLCFullyConnectedLayer(
            weights=tg.MLCTensor(data=memory), biases=biases, descriptor=descriptor(3, 2)
        )
        if frozen:
            layer.biases_parameter.is_updatable = False
        graph = tg.MLCGraph()
        graph.node(layer, source=x)
        loss = tg.MLCLossLayer.mean_squared_error(reduction_type="mean")
        training = training_of(graph, {"x": x}, {"y": y}, loss, optimizer=sgd(0.1), device=device)
        for _ in range(3):
            step = training.execute(
                inputs_data={"x": values}, loss_labels_data={"y": labels}, options=SYNCHRONOUS
            )
        training.synchronize_updates()
        return memory, float(step.result)

    missing, loss = train(None, frozen=False)
    zero, loss_with_zero = train(tg.MLCTensor(shape=[2], fill_with_data=0.0), frozen=True)
    assert (missing != start).all()
    np.testing.assert_allclose(missing, zero, rtol=1e-6)
    assert loss == pytest.approx(loss_with_zero, rel=1e-6)
