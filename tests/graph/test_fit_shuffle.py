"""A fit shuffles nothing beside rows that stay in their places, whatever holds them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from networks import array, dense

import traingraph as tg

ROWS = 4
NUMBERS = np.arange(ROWS, dtype=np.float32)[:, None]
SGD: Callable[[], Any] = lambda: tg.MLCSGDOptimizer(learning_rate=0.0)  # noqa: E731
DEVICES = pytest.mark.parametrize("device", ["cpu", "reference"])


def held(*shape: int, dtype: str = "float32") -> tg.MLCTensor:
    size = int(np.prod(shape))
    tensor = tg.MLCTensor(data=(np.arange(size) % 3).astype(dtype).reshape(shape))
    tensor.label = "held"
    return tensor


def squared(**keywords: Any) -> Any:
    return tg.MLCLossLayer.mean_squared_error(reduction_type="sum", **keywords)


class Losses:
    """Of x (4, 1): as many as there are weights and labels, None for one without or declared."""

    def __init__(self, device: str, weights: list[Any], labels: list[Any] | None = None) -> None:
        self.x, graph = tg.MLCTensor(shape=[ROWS, 1]), tg.MLCGraph()
        result = graph.node(dense(1, 1, 1, "float32"), source=self.x)
        declared = {}
        for k, weight in enumerate(weights):
            label = labels[k] if labels is not None else None
            if label is None:
                label = declared[f"y{k}"] = tg.MLCTensor(shape=[ROWS, 1])
            layer = squared(weights=weight) if weight is not None else squared()
            graph.node(layer, sources=[result], loss_labels=[label])
        self.labels = {name: np.zeros_like(NUMBERS) for name in declared}
        self.training = tg.MLCTrainingGraph(graph_objects=[graph], optimizer=SGD())
        self.training.add_inputs({"x": self.x}, loss_labels=declared)
        self.training.compile(device=device)

    def fit(self, **keywords: Any) -> list[float]:
        epochs = self.training.fit({"x": NUMBERS}, self.labels, epochs=3, **keywords)
        return [epoch.loss for epoch in epochs]


@DEVICES
@pytest.mark.parametrize("shape", [(ROWS, 1), (ROWS,), (1, ROWS)])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_weights_of_any_loss(device: str, which: int, shape: tuple[int, ...]) -> None:
    net = Losses(device, [held(*shape) if k == which else None for k in range(3)])
    with pytest.raises(tg.InvalidArgument, match=r"\[fit\] expected samples of 'held' too"):
        net.fit()
    with pytest.raises(tg.InvalidArgument, match="or shuffle=False"):
        net.fit(shuffle_seed=1)
    assert len(set(net.fit(shuffle=False))) == 1


@DEVICES
@pytest.mark.parametrize("which", [0, 1])
def test_labels_that_a_tensor_holds(device: str, which: int) -> None:
    labels = [held(ROWS, 1) if k == which else None for k in range(2)]
    net = Losses(device, [None, None], labels)
    with pytest.raises(tg.InvalidArgument, match=r"\[fit\] expected samples of 'held' too"):
        net.fit()
    net.fit(shuffle=False)


@DEVICES
def test_weights_that_are_no_samples(device: str) -> None:
    """One for all rows, in each loss."""

    def trained(weights: list[Any]) -> tg.MLCTrainingGraph:
        x, y = tg.MLCTensor(shape=[1, 3]), tg.MLCTensor(shape=[1, 3])
        graph = tg.MLCGraph()
        result = graph.node(dense(3, 3, 1, "float32"), source=x)
        for weight in weights:
            graph.node(squared(weights=weight), sources=[result], loss_labels=[y])
        training = tg.MLCTrainingGraph(graph_objects=[graph], optimizer=SGD())
        training.add_inputs({"x": x}, loss_labels={"y": y})
        training.compile(device=device)
        return training

    training = trained([held(1, 3), held(1, 3)])
    samples = array((8, 3), 2, "float32")
    training.fit({"x": samples}, {"y": samples}, batch_size=1, epochs=2)


Build = Callable[[tg.MLCGraph, tg.MLCTensor], tg.MLCTensor]


def arithmetic(g: tg.MLCGraph, x: tg.MLCTensor, y: tg.MLCTensor) -> tg.MLCTensor:
    return g.node(tg.MLCArithmeticLayer(operation="add"), sources=[x, y])


def product(g: tg.MLCGraph, x: tg.MLCTensor, y: tg.MLCTensor) -> tg.MLCTensor:
    return g.node(tg.MLCMatMulLayer(descriptor=tg.MLCMatMulDescriptor()), sources=[x, y])


def in_matrices(g: tg.MLCGraph, x: tg.MLCTensor) -> tg.MLCTensor:
    return g.reshape([ROWS, 1, 4], source=x)


def mask() -> tg.MLCTensor:
    tensor = tg.MLCTensor(data=np.arange(ROWS * 4).reshape(ROWS, 4) % 2 == 0)
    tensor.label = "held"
    return tensor


# Over x (4, 4): operands whose rows are the samples'.
ROW_BY_ROW: dict[str, Build] = {
    "add": lambda g, x: arithmetic(g, x, held(ROWS, 4)),
    "add one column": lambda g, x: arithmetic(g, x, held(ROWS, 1)),
    "computed from it": lambda g, x: arithmetic(
        g, x, g.node(tg.MLCActivationLayer.tanh(), source=held(ROWS, 4))
    ),
    "concatenate": lambda g, x: g.concatenate([x, held(ROWS, 2)], dimension=1),
    "gather": lambda g, x: g.gather(1, source=x, indices=held(ROWS, 2, dtype="int32")),
    "select": lambda g, x: g.select([x, arithmetic(g, x, x)], condition=mask()),
    "matrices": lambda g, x: product(g, in_matrices(g, x), held(ROWS, 4, 2)),
}
# The same extents, but they are features or classes, or of one row.
NO_ROWS: dict[str, Build] = {
    "matrix": lambda g, x: product(g, x, held(4, 3)),
    "weights": lambda g, x: g.node(dense(4, 4, 1, "float32"), source=x),
    "row": lambda g, x: arithmetic(g, x, held(1, 4)),
    "features": lambda g, x: arithmetic(g, x, held(4)),
    "one of all": lambda g, x: arithmetic(g, x, held(1, 1)),
    "indices": lambda g, x: g.gather(1, source=x, indices=held(4, dtype="int32")),
    "one matrix": lambda g, x: product(g, in_matrices(g, x), held(1, 4, 2)),
    "moved and back": lambda g, x: g.transpose([1, 0], source=g.transpose([1, 0], source=x)),
}


def training_over(build: Build, device: str) -> tuple[tg.MLCTrainingGraph, list[int]]:
    x, graph = tg.MLCTensor(shape=[ROWS, 4]), tg.MLCGraph()
    result = build(graph, graph.node(dense(4, 4, 1, "float32"), source=x))
    training = tg.MLCTrainingGraph(graph_objects=[graph], loss_layer=squared(), optimizer=SGD())
    training.add_inputs({"x": x}, loss_labels={"y": tg.MLCTensor(shape=result.descriptor.shape)})
    training.compile(device=device)
    return training, list(result.descriptor.shape[1:])


@DEVICES
@pytest.mark.parametrize("name", ROW_BY_ROW)
def test_operands_with_a_row_for_each_sample(device: str, name: str) -> None:
    training, shape = training_over(ROW_BY_ROW[name], device)
    samples, labels = array((8, 4), 1, "float32"), array((8, *shape), 2, "float32")
    with pytest.raises(tg.InvalidArgument, match=r"\[fit\] expected samples of 'held' too"):
        training.fit({"x": samples}, {"y": labels})
    training.fit({"x": samples}, {"y": labels}, shuffle=False)


@DEVICES
@pytest.mark.parametrize("name", NO_ROWS)
def test_operands_that_are_the_same_for_all_samples(device: str, name: str) -> None:
    training, shape = training_over(NO_ROWS[name], device)
    samples, labels = array((8, 4), 1, "float32"), array((8, *shape), 2, "float32")
    training.fit({"x": samples}, {"y": labels}, shuffle_seed=1)


@DEVICES
def test_values_of_a_linked_graph(device: str) -> None:
    first, second = tg.MLCGraph(), tg.MLCGraph()
    x, y = tg.MLCTensor(shape=[ROWS, 5]), tg.MLCTensor(shape=[ROWS, 3])
    hidden = first.node(dense(4, 5, 1, "float32"), source=x)
    hidden.label = "hidden"
    second.node(dense(3, 4, 3, "float32"), source=hidden)
    front = tg.MLCTrainingGraph(graph_objects=[first])
    back = tg.MLCTrainingGraph(graph_objects=[second], loss_layer=squared(), optimizer=SGD())
    front.add_inputs({"x": x})
    back.add_inputs({}, loss_labels={"y": y})
    front.link([back])
    for each in (front, back):
        each.compile(options="link_graphs", device=device)
    front.execute(inputs_data={"x": array((ROWS, 5), 1, "float32")},
                  options="synchronous|forward_for_inference")  # fmt: skip
    labels = array((ROWS, 3), 2, "float32")
    with pytest.raises(tg.InvalidArgument, match=r"\[fit\] expected samples of 'hidden' too"):
        back.fit({}, {"y": labels})
    back.fit({}, {"y": labels}, shuffle=False)
