"""Which result the loss compares, and which one a call gives: the last layer's first."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from networks import array, dense

import traingraph as tg
from traingraph import nn

ROWS, STEPS, INPUTS, HIDDEN = 4, 3, 2, 2
SHAPE = (ROWS, STEPS, INPUTS)


def lstm(dtype: str = "float32") -> tg.MLCLSTMLayer:
    """Its last states (1, 1, 4, 2) are not of the shape of its output (4, 3, 2)."""
    gates = [
        [tg.MLCTensor(data=array(shape, seed + k, dtype)) for k in range(4)]
        for seed, shape in ((1, (HIDDEN, INPUTS)), (5, (HIDDEN, HIDDEN)), (9, (HIDDEN,)))
    ]
    descriptor = tg.MLCLSTMDescriptor(
        input_size=INPUTS, hidden_size=HIDDEN, result_mode="output_and_states"
    )
    return tg.MLCLSTMLayer(
        descriptor=descriptor, input_weights=gates[0], hidden_weights=gates[1], biases=gates[2]
    )


def scaled(graph: tg.MLCGraph, x: tg.MLCTensor, factor: float) -> tg.MLCTensor:
    return graph.node(tg.MLCActivationLayer.linear(scale=factor, bias=0.0), source=x)


def end_in_states(graph: tg.MLCGraph, x: tg.MLCTensor, dtype: str) -> list[tg.MLCTensor]:
    layer = lstm(dtype)
    graph.node(layer, source=x)
    return graph.result_tensors(layer)


def end_in_parts(graph: tg.MLCGraph, x: tg.MLCTensor, dtype: str) -> list[tg.MLCTensor]:
    """Of one shape: which one is compared is seen in the numbers alone."""
    y = graph.node(dense(6, STEPS * INPUTS, 1, dtype), source=x)
    return graph.split(y, split_count=2, dimension=1)


ENDS: dict[str, Callable[..., list[tg.MLCTensor]]] = {
    "states of an LSTM": end_in_states,
    "parts": end_in_parts,
}
ends = pytest.mark.parametrize("end", ENDS)


class Ending:
    """A network that ends in several results, with its loss by the constructor or as a layer that
    reads one of them."""

    def __init__(
        self, end: str, device: str = "cpu", of: int | None = None, before: Any = None
    ) -> None:
        dtype = "float64" if device == "reference" else "float32"
        shape = SHAPE if end == "states of an LSTM" else (ROWS, STEPS * INPUTS)
        self.x = tg.MLCTensor(shape=shape, data_type=dtype)
        self.graph = tg.MLCGraph()
        if before is not None:
            before(self.graph, self.x)
        self.results = ENDS[end](self.graph, self.x, dtype)
        labels = self.results[of or 0].descriptor.shape
        self.y = tg.MLCTensor(shape=labels, data_type=dtype)
        loss = tg.MLCLossLayer.mean_squared_error(reduction_type="mean")
        if of is not None:
            self.graph.node(loss, sources=[self.results[of]], loss_labels=[self.y])
        self.training = tg.MLCTrainingGraph(
            graph_objects=[self.graph], loss_layer=None if of is not None else loss,
            optimizer=tg.MLCSGDOptimizer(learning_rate=0.1),
        )  # fmt: skip
        self.training.add_inputs({"x": self.x}, loss_labels={"y": self.y})
        self.device = device
        self.data, self.labels = array(shape, 20, dtype), array(tuple(labels), 21, dtype)

    def compiled(self) -> tg.MLCTrainingGraph:
        self.training.compile(device=self.device)
        return self.training

    def run(self, steps: int = 3) -> tuple[list[float], dict[str, np.ndarray]]:
        training = self.compiled()
        losses = [
            training.execute(
                inputs_data={"x": self.data}, loss_labels_data={"y": self.labels},
                options="synchronous",
            ).result
            for _ in range(steps)
        ]  # fmt: skip
        return losses, training.state()


@ends
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_the_loss_is_that_of_the_first_result(end: str, device: str) -> None:
    """As where a layer of the graph compares it, number by number."""
    found, state = Ending(end, device).run()
    expected, other = Ending(end, device, of=0).run()
    assert found == expected
    assert found[-1] < found[0]
    for name, value in other.items():
        np.testing.assert_array_equal(state[name], value)


@ends
def test_evaluate_predict_and_readable_results(end: str) -> None:
    one, other = Ending(end), Ending(end, of=0)
    for ending in (one, other):
        ending.compiled()
    given = {"inputs": one.data, "labels": one.labels}
    assert one.training.evaluate(**given).loss == other.training.evaluate(**given).loss
    inference = tg.MLCInferenceGraph(graph_objects=[one.graph])
    inference.add_inputs({"x": one.x})
    inference.compile(device="cpu")
    result = inference.execute(inputs_data={"x": one.data}, options="synchronous").result
    for predicted in (one.training.predict(one.data), inference.predict(one.data)):
        np.testing.assert_array_equal(predicted, result)
    assert one.training.evaluate(**given).loss == pytest.approx(
        ((result - one.labels) ** 2).mean(), rel=1e-5
    )
    # Every result of the last layer stays readable.
    one.run(1)
    first = np.empty(one.results[0].descriptor.shape, np.float32)
    for tensor in one.results[::-1]:
        found = np.full(tensor.descriptor.shape, np.nan, np.float32)
        tensor.copy_data_from_device_memory(found)
        assert np.isfinite(found).all()
        first = found
    np.testing.assert_allclose(first, result, rtol=1e-6)


@ends
def test_fit_and_checked_gradients(end: str) -> None:
    one, other = Ending(end, "reference"), Ending(end, "reference", of=0)
    losses = []
    for ending in (one, other):
        training = ending.compiled()
        losses.append([e.loss for e in training.fit(one.data, one.labels, epochs=3, shuffle=False)])
        check = tg.check_gradients(training, {"x": one.data}, {"y": one.labels})
        assert check.ok, str(check)
    assert losses[0] == losses[1]


@ends
@pytest.mark.parametrize("loss_as_well", [False, True], ids=["alone", "beside another"])
def test_losses_in_the_graph_are_not_the_last_layer(end: str, loss_as_well: bool) -> None:
    """Nor is what reads them."""
    one = Ending(end)
    other = tg.MLCTensor(data=np.zeros(one.results[1].descriptor.shape, np.float32))
    squared = tg.MLCLossLayer.mean_squared_error(reduction_type="sum")
    beside = one.graph.node(squared, sources=[one.results[1]], loss_labels=[other])
    if loss_as_well:
        scaled(one.graph, beside, 0.5)
    training = one.compiled()
    predicted = training.predict(one.data)
    total = training.execute(
        inputs_data={"x": one.data}, loss_labels_data={"y": one.labels}, options="synchronous"
    ).result
    values = []
    for tensor in one.results[:2]:
        value = np.empty(tensor.descriptor.shape, np.float32)
        tensor.copy_data_from_device_memory(value)
        values.append(value)
    factor = 0.5 if loss_as_well else 1
    expected = ((values[0] - one.labels) ** 2).mean() + factor * (values[1] ** 2).sum()
    assert float(total) == pytest.approx(float(expected), rel=1e-5)
    np.testing.assert_allclose(predicted, values[0], rtol=1e-6)


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_a_training_reports_its_loss_wherever_it_stands(device: str) -> None:
    """A layer may come behind the loss, or none of its inputs need it."""
    x, y = tg.MLCTensor(shape=[4, 2]), tg.MLCTensor(shape=[4, 2])
    graph = tg.MLCGraph()
    squared = tg.MLCLossLayer.mean_squared_error(reduction_type="mean")
    graph.node(squared, sources=[scaled(graph, x, 2)], loss_labels=[y])
    head = scaled(graph, x, 5)
    training = tg.MLCTrainingGraph(graph_objects=[graph])
    training.add_inputs({"x": x}, loss_labels={"y": y})
    training.compile(device=device)
    data = np.arange(8, dtype=np.float32).reshape(4, 2)
    labels = np.ones_like(data)
    expected = float(((2 * data - labels) ** 2).mean())
    seen = []
    result = training.execute(
        inputs_data={"x": data}, loss_labels_data={"y": labels}, options="synchronous",
        completion_handler=lambda result, error, seconds: seen.append(np.array(result.data)),
    ).result  # fmt: skip
    assert float(result) == expected
    assert seen[0].ravel().tolist() == [expected]
    assert training.evaluate(data, labels, batch_size=2).loss == pytest.approx(expected)
    np.testing.assert_array_equal(training.predict(data), 5 * data)
    value = np.empty_like(data)
    head.copy_data_from_device_memory(value)
    np.testing.assert_array_equal(value, 5 * data)
    # Of an inference it is the last layer's.
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x}, loss_labels={"y": y})
    inference.compile(device=device)
    found = inference.execute(
        inputs_data={"x": data}, loss_labels_data={"y": labels}, options="synchronous"
    ).result
    np.testing.assert_array_equal(found, 5 * data)


def test_nn_model_of_a_block_with_several_results() -> None:
    tg.MLCPlatform.set_rng_seed_to(3)
    layer = lstm()
    network = nn.model(
        [layer], input=SHAPE[1:], batch_size=ROWS, optimizer=nn.sgd(0.1),
        loss="mean_squared_error", device="cpu",
    )  # fmt: skip
    data, labels = array(SHAPE, 20, "float32"), array((ROWS, STEPS, HIDDEN), 21, "float32")
    ending = Ending("states of an LSTM")
    ending.compiled()
    np.testing.assert_array_equal(network.predict(data), ending.training.predict(data))
    losses = [
        [epoch.loss for epoch in training.fit(data, labels, epochs=3, shuffle=False)]
        for training in (network, ending.training)
    ]
    assert losses[0] == losses[1]
    assert losses[0][2] < losses[0][0]
