"""Plans, descriptions, drawings, checks and errors name layers, declared inputs and arguments, and
never the number of a tensor."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import traingraph as tg

NUMBERED = re.compile(r"\bdata\d")


def tensor(*shape: int) -> Any:
    return tg.MLCTensor(data=np.ones(shape, np.float32))


class Net:
    """(image * k + c) by mean squared error with weights that the loss holds; trains k."""

    def __init__(self) -> None:
        self.x, self.y = tg.MLCTensor(shape=[4, 2]), tg.MLCTensor(shape=[4, 2])
        self.k, self.c, self.weights = tensor(1, 2), tensor(1, 2), tensor(4, 2)
        self.graph = graph = tg.MLCGraph()
        self.multiply = tg.MLCArithmeticLayer(operation="multiply")
        self.add = tg.MLCArithmeticLayer(operation="add")
        h = graph.node(self.multiply, sources=[self.x, self.k])
        graph.node(self.add, sources=[h, self.c])
        loss = tg.MLCLossLayer.mean_squared_error(weights=self.weights)
        self.training = training = tg.MLCTrainingGraph(
            graph_objects=[graph], loss_layer=loss, optimizer=tg.MLCAdamOptimizer(learning_rate=0.1)
        )
        training.set_training_tensor_parameters([tg.MLCTensorParameter(tensor=self.k)])
        training.add_inputs({"image": self.x}, loss_labels={"wanted": self.y})
        training.compile(device="cpu")


def role(layer: Any, part: str) -> str:
    return f"{layer.layer_id}.{layer.label}.{part}"


def test_roles() -> None:
    net = Net()
    assert net.k.label == role(net.multiply, "source[1]")
    assert net.c.label == role(net.add, "source[1]")
    assert net.weights.label.endswith(".Loss.weights")
    assert (net.x.label, net.y.label) == ("image", "wanted")
    net.k.label = "scale"  # its own
    assert net.k.label == "scale"


def test_texts() -> None:
    net = Net()
    names = [entry.name for entry in net.training.memory_plan().entries]
    for part in ("", ".first_moment", ".second_moment"):
        assert role(net.multiply, "source[1]") + part in names
    assert "image" in names
    row = tg.check_gradients(net.training, {"image": np.ones((4, 2))}, {"wanted": np.zeros((4, 2))})
    assert role(net.multiply, "source[1]") in str(row)
    dot = net.graph.summarized_dot_description
    drawn = dot() if callable(dot) else dot
    assert "image [4, 2]" in drawn or "image (4, 2)" in drawn
    for text in (*names, net.training.compiled_description(), drawn, str(row)):
        assert not NUMBERED.search(text), text


def test_the_first_reader_and_a_layer_that_is_gone() -> None:
    graph, k = tg.MLCGraph(), tensor(4, 2)
    x = tg.MLCTensor(shape=[4, 2])
    wrong = tg.MLCTensor(shape=[4, 3])
    for _ in range(2):
        with pytest.raises(tg.ShapeError):
            graph.node(tg.MLCArithmeticLayer(operation="add"), sources=[wrong, k])
    first, second = (tg.MLCArithmeticLayer(operation=name) for name in ("multiply", "add"))
    h = graph.node(first, sources=[x, k])
    graph.node(second, sources=[h, k])
    assert k.label == role(first, "source[1]")


@pytest.mark.parametrize("shape", [(3,), (4, 1)])
def test_errors(shape: tuple[int, ...]) -> None:
    weights = tensor(*shape)
    loss = tg.MLCLossLayer.mean_squared_error(weights=weights)
    with pytest.raises(tg.ShapeError, match=r"in tensor '\d+\.Loss\.weights'"):
        tg.MLCGraph().node(
            loss, sources=[tg.MLCTensor(shape=[4, 2])], loss_labels=[tg.MLCTensor(shape=[4, 2])]
        )


def test_missing_data() -> None:
    graph, k = tg.MLCGraph(), tg.MLCTensor(shape=[4, 2])
    layer, x = tg.MLCArithmeticLayer(operation="add"), tg.MLCTensor(shape=[4, 2])
    graph.node(layer, sources=[x, k])
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    inference.compile(device="cpu")
    with pytest.raises(
        tg.InvalidArgument, match=r"expected data for '\d+\.Arithmetic\.source\[1\]'"
    ):
        inference.execute(inputs_data={"x": np.ones((4, 2), np.float32)})


def test_keys_of_saved_files_stay(tmp_path: Path) -> None:
    """Those of unlabelled tensors have no role: archives from before are read."""
    net, other = Net(), Net()
    step = {"inputs_data": {"image": np.ones((4, 2), np.float32)},
            "loss_labels_data": {"wanted": np.zeros((4, 2), np.float32)}}  # fmt: skip
    net.training.execute(**step)
    state = net.training.state()
    assert "tensor.data" in state
    net.training.save(str(tmp_path / "a"))
    other.training.load(str(tmp_path / "a"))
    np.testing.assert_array_equal(np.array(other.training.state()["tensor.data"]),
                                  np.array(state["tensor.data"]))  # fmt: skip
