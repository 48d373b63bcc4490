"""Losses as nodes: expressions of them, several of them, graphs that only predict."""

from typing import Any

import numpy as np
import pytest
from networks import Network, array, dense, read

import traingraph as tg


def gradient_of_weight(build: Any) -> np.ndarray:
    """build(graph, result, labels) adds the losses; the gradient of fc2's weights."""
    network = Network()
    training = tg.MLCTrainingGraph(graph_objects=[network.graph])
    build(training, network.result, network.y)
    training.add_inputs({"x": network.x}, loss_labels={"y": network.y})
    training.compile(device="reference")
    network.feed(training)
    training.execute_forward(options="synchronous")
    training.execute_gradient(options="synchronous")
    return training.gradient_data(for_parameter=network.fc2.weights, layer=network.fc2)


def loss(graph: Any, result: Any, labels: Any, kind: str = "mean_squared_error") -> Any:
    layer = getattr(tg.MLCLossLayer, kind)(reduction_type="mean")
    return graph.node(layer, sources=[result], loss_labels=[labels])


def test_the_gradient_starts_at_the_expression() -> None:
    plain = gradient_of_weight(loss)

    def halved(graph: Any, result: Any, labels: Any) -> Any:
        return graph.node(
            tg.MLCActivationLayer.linear(scale=0.5, bias=3.0), source=loss(graph, result, labels)
        )

    def squared(graph: Any, result: Any, labels: Any) -> Any:
        one = loss(graph, result, labels)
        return graph.node(tg.MLCArithmeticLayer(operation="multiply"), sources=[one, one])

    np.testing.assert_allclose(gradient_of_weight(halved), 0.5 * plain, rtol=1e-12)
    network = Network()
    x, (w1, b1, w2, b2) = network.data["x"], network.parameters()
    result = np.tanh(x @ w1.T + b1) @ w2.T + b2
    value = ((result - network.labels["y"]) ** 2).mean()
    np.testing.assert_allclose(gradient_of_weight(squared), 2 * value * plain, rtol=1e-12)


def test_several_losses_add() -> None:
    def both(graph: Any, result: Any, labels: Any) -> None:
        loss(graph, result, labels)
        loss(graph, result, labels, "mean_absolute_error")

    def joined(graph: Any, result: Any, labels: Any) -> Any:
        one = loss(graph, result, labels)
        other = loss(graph, result, labels, "mean_absolute_error")
        return graph.node(tg.MLCArithmeticLayer(operation="add"), sources=[one, other])

    expected = gradient_of_weight(loss) + gradient_of_weight(
        lambda g, r, y: loss(g, r, y, "mean_absolute_error")
    )
    np.testing.assert_allclose(gradient_of_weight(both), expected, rtol=1e-12)
    np.testing.assert_allclose(gradient_of_weight(joined), expected, rtol=1e-12)


def test_inference_over_a_graph_with_a_loss_needs_no_labels() -> None:
    x = tg.MLCTensor(shape=[2, 5], data_type="float64")
    y = tg.MLCTensor(shape=[2, 3], data_type="float64")
    graph = tg.MLCGraph()
    layer = dense(3, 5, 1, "float64")
    result = graph.node(layer, source=x)
    loss(graph, result, y)
    data = array((2, 5), 4)
    expected = data @ np.array(layer.weights.data).T + np.array(layer.biases.data)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    inference.compile(device="reference")
    got = inference.execute(inputs_data={"x": data}, options="synchronous").result
    np.testing.assert_allclose(got, expected, atol=1e-13)
    np.testing.assert_array_equal(read(result), got)

    scoring = tg.MLCInferenceGraph(graph_objects=[graph])
    scoring.add_inputs({"x": x}, loss_labels={"y": y})
    scoring.compile(device="reference")
    labels = array((2, 3), 5)
    value = scoring.execute(
        inputs_data={"x": data}, loss_labels_data={"y": labels}, options="synchronous"
    ).result
    assert float(value) == pytest.approx(((expected - labels) ** 2).mean(), rel=1e-12)


def test_one_tensor_under_two_names_is_fed_once() -> None:
    network = Network()
    training = network.training()
    training.add_inputs({"again": network.x})
    training.compile(device="reference")
    with pytest.raises(ValueError, match="'again' is the second name of one"):
        training.execute(
            inputs_data={"x": network.data["x"], "again": network.data["x"]},
            loss_labels_data=network.labels,
            options="synchronous",
        )
    training.execute(
        inputs_data={"again": network.data["x"]},
        loss_labels_data=network.labels,
        options="synchronous",
    )
