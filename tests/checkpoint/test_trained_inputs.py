"""Tensors that set_training_tensor_parameters trains, in files for inference graphs."""

from pathlib import Path

import numpy as np
import pytest

import traingraph as tg


class Network:
    """y = (x + first) · table + second, where updates change `trained` of the three."""

    def __init__(self, trained: str = "first second", labels: bool = False) -> None:
        self.x, self.y = tg.MLCTensor(shape=[1, 3]), tg.MLCTensor(shape=[1, 3])
        self.tensors = {
            name: tg.MLCTensor(data=np.full((1, 3), value, np.float32))
            for name, value in (("first", 0.5), ("table", 2.0), ("second", 0.25))
        }
        for name, tensor in self.tensors.items():
            if labels:
                tensor.label = name
        self.graph = tg.MLCGraph()
        result = self.x
        for operation, tensor in zip(
            ("add", "multiply", "add"), self.tensors.values(), strict=True
        ):
            result = self.graph.node(
                tg.MLCArithmeticLayer(operation=operation), sources=[result, tensor]
            )
        # Declared in another order than they are read in.
        self.trained = [self.tensors[name] for name in reversed(trained.split())]

    def training(self) -> tg.MLCTrainingGraph:
        training = tg.MLCTrainingGraph(
            graph_objects=[self.graph],
            loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="sum"),
            optimizer=tg.MLCSGDOptimizer(learning_rate=0.01, momentum_scale=0.9),
        )
        training.add_inputs({"x": self.x}, loss_labels={"y": self.y})
        training.set_training_tensor_parameters(
            [tg.MLCTensorParameter(tensor=tensor) for tensor in self.trained]
        )
        training.compile(device="cpu")
        for _ in range(3):
            training.execute(
                inputs_data={"x": np.ones((1, 3), np.float32)},
                loss_labels_data={"y": np.zeros((1, 3), np.float32)},
                options="synchronous",
            )
        return training

    def inference(self, device: str = "cpu") -> tg.MLCInferenceGraph:
        inference = tg.MLCInferenceGraph(graph_objects=[self.graph])
        inference.add_inputs({"x": self.x})
        inference.compile(device=device)
        return inference


def result(inference: tg.MLCInferenceGraph) -> np.ndarray:
    return inference.execute(
        inputs_data={"x": np.arange(3, dtype=np.float32).reshape(1, 3)}, options="synchronous"
    ).result


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("trained", ["first", "second", "first second", "first table second"])
def test_an_inference_graph_takes_them(
    tmp_path: Path, device: str, trained: str, labels: bool
) -> None:
    one = Network(trained, labels)
    training = one.training()
    training.save(tmp_path / "training")
    expected = result(one.inference(device))
    two = Network(trained, labels)
    inference = two.inference(device)
    assert not np.array_equal(result(inference), expected)
    inference.load(tmp_path / "training")
    np.testing.assert_array_equal(result(inference), expected)
    # And gives them on, in the names of the training graph.
    parameters = list(training.named_parameters())
    assert list(inference.named_parameters()) == parameters
    inference.save(tmp_path / "inference")
    three = Network(trained, labels)
    again = three.training()
    again.load(tmp_path / "inference")
    for name in parameters:
        np.testing.assert_array_equal(again.state()[name], training.state()[name])
    # Over the same tensors an inference graph knows them without a load.
    assert list(one.inference(device).state()) == parameters


def test_names_count_what_is_not_trained() -> None:
    network = Network("second")
    assert list(network.training().named_parameters()) == ["tensor.data.3"]


def test_what_the_graph_does_not_hold_is_refused() -> None:
    state = Network("first", labels=True).training().state()
    network = Network(labels=True)
    network.tensors["first"].label = "other"
    before = result(network.inference())
    with pytest.raises(ValueError, match=r"unexpected: 'tensor.first'"):
        network.inference().load_state(state)
    np.testing.assert_array_equal(result(network.inference()), before)
    # A training graph says what it trains: no constant of its own becomes trained by a file.
    with pytest.raises(ValueError, match=r"unexpected: 'tensor.first'"):
        Network("second", labels=True).training().load_state(state)
