"""A fit whose steps would change nothing says so before the first one."""

from typing import Any

import numpy as np
import pytest
from networks import dense

import traingraph as tg
from traingraph import nn

ROWS = 4
X = np.ones((ROWS, 2), np.float32)
SGD = tg.MLCSGDOptimizer(learning_rate=0.1)


def graph_of(*layers: Any, optimizer: Any = SGD) -> tg.MLCTrainingGraph:
    """The mean squared error of the layers' result, in 2 features."""
    graph, x = tg.MLCGraph(), tg.MLCTensor(shape=[ROWS, 2])
    tg.sequential(graph, x, list(layers))
    training = tg.MLCTrainingGraph(
        graph_objects=[graph], loss_layer=tg.MLCLossLayer.mean_squared_error("mean"),
        optimizer=optimizer,
    )  # fmt: skip
    training.add_inputs({"x": x}, loss_labels={"y": tg.MLCTensor(shape=[ROWS, 2])})
    training.compile(device="cpu")
    return training


def frozen() -> Any:
    layer = dense(2, 2, 1, "float32")
    for parameter in (layer.weights_parameter, layer.biases_parameter):
        parameter.is_updatable = False
    return layer


def normalization() -> Any:
    return tg.MLCBatchNormalizationLayer(
        feature_channel_count=2,
        mean=tg.MLCTensor(data=np.zeros((1, 2, 1, 1), np.float32)),
        variance=tg.MLCTensor(data=np.ones((1, 2, 1, 1), np.float32)),
    )


def test_without_an_optimizer() -> None:
    training = graph_of(dense(2, 2, 1, "float32"), optimizer=None)
    before = training.execute(inputs_data={"x": X}, loss_labels_data={"y": X}).result
    loss = training.evaluate(X, X).loss
    assert loss == pytest.approx(float(before), rel=1e-6)
    for more in ({}, {"schedule": tg.RateSchedule.constant(0.1)}, {"epochs": 3}):
        with pytest.raises(tg.InvalidArgument, match="give one to the training graph or to comp"):
            training.fit(X, X, **more)
    assert training.evaluate(X, X).loss == loss
    training.compile_optimizer(SGD)
    assert training.fit(X, X, epochs=3)[-1].loss < loss


def test_without_parameters() -> None:
    training = graph_of(tg.MLCActivationLayer.tanh())
    with pytest.raises(tg.InvalidArgument, match="that steps change but got a graph without param"):
        training.fit(X, X)
    assert training.predict(X) == pytest.approx(np.tanh(X), rel=1e-5)
    with pytest.raises(tg.InvalidArgument, match="got a graph without parameters"):
        training.fit(batches=[(X, X)])


def test_frozen_parameters() -> None:
    layer = frozen()
    training = graph_of(layer)
    with pytest.raises(tg.InvalidArgument, match="all of them are frozen; set is_updatable"):
        training.fit(X, X)
    layer.biases_parameter.is_updatable = True
    first, last = training.fit(X, X, epochs=2)
    assert last.loss < first.loss


def test_behind_a_stop() -> None:
    graph, x = tg.MLCGraph(), tg.MLCTensor(shape=[ROWS, 2])
    result = graph.node(dense(2, 2, 1, "float32"), source=x)
    graph.node(tg.MLCActivationLayer.tanh(), source=result)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph], loss_layer=tg.MLCLossLayer.mean_squared_error("mean"), optimizer=SGD
    )
    training.add_inputs({"x": x}, loss_labels={"y": tg.MLCTensor(shape=[ROWS, 2])})
    training.stop_gradient([result])
    training.compile(device="cpu")
    with pytest.raises(tg.InvalidArgument, match="no gradient of the loss reaches any of them"):
        training.fit(X, X)


def test_running_statistics_are_changed() -> None:
    layer = normalization()
    training = graph_of(layer)
    assert layer.beta_parameter is None
    x = np.arange(2 * ROWS, dtype=np.float32).reshape(ROWS, 2)
    training.fit(x, x)
    training.synchronize_updates()
    mean = training.named_parameters()["1.BatchNormalization.mean"]
    assert np.abs(np.asarray(mean.data)).min() > 0


def test_a_tensor_that_is_trained_without_a_layer() -> None:
    graph, x = tg.MLCGraph(), tg.MLCTensor(shape=[ROWS, 2])
    w = tg.MLCTensor(data=np.full((1, 2), 3, np.float32))
    graph.node(tg.MLCArithmeticLayer(operation="multiply"), sources=[x, w])
    training = tg.MLCTrainingGraph(
        graph_objects=[graph], loss_layer=tg.MLCLossLayer.mean_squared_error("mean"), optimizer=SGD
    )
    training.add_inputs({"x": x}, loss_labels={"y": tg.MLCTensor(shape=[ROWS, 2])})
    training.set_training_tensor_parameters([tg.MLCTensorParameter(tensor=w)])
    training.compile(device="cpu")
    first, last = training.fit(X, X, epochs=2)
    assert last.loss < first.loss


def test_a_network_whose_loss_does_not_read_its_weights() -> None:
    x, y = nn.Input(2), nn.Input(2)
    p = nn.dense(2)(x)
    for loss in (nn.square(nn.stop_gradient(p)), nn.square(x - y), nn.where(p > 0, x, y)):
        with pytest.raises(tg.InvalidArgument, match="whose gradient reaches weights but it reac"):
            nn.model(inputs=x, outputs=p, loss=loss)
    with pytest.raises(tg.InvalidArgument, match="not through stop_gradient or comparisons alone"):
        nn.model(inputs=x, outputs=nn.stop_gradient(p), loss="mse")
    nn.model(inputs=x, outputs=p, loss=nn.square(nn.stop_gradient(p)) + nn.square(p - y))


def test_a_network_to_predict_with() -> None:
    x = nn.Input(2)
    own = nn.model(inputs=x, outputs=x, loss=nn.square(x), batch_size=ROWS)
    still = nn.model(["tanh"], input=2, loss="mse", batch_size=ROWS)
    held = nn.model([frozen()], input=2, loss="mse", batch_size=ROWS)
    for model, labels in ((own, {}), (still, X), (held, X)):
        assert model.predict(X).shape == (ROWS, 2)
        assert model.evaluate(X, labels).loss > 0
        with pytest.raises(tg.InvalidArgument, match=r"\[fit\] expected parameters that steps ch"):
            model.fit(X, labels)
