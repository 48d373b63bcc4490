"""Several losses of one graph, and losses with weights that each step brings."""

from typing import Any

import numpy as np
import pytest

import traingraph as tg

ROWS = 2


def scaled(graph: tg.MLCGraph, x: tg.MLCTensor, factor: float) -> tg.MLCTensor:
    return graph.node(tg.MLCActivationLayer.linear(factor, bias=0.0), source=x)


def squared(reduction: str = "sum", **options: Any) -> tg.MLCLossLayer:
    return tg.MLCLossLayer.mean_squared_error(reduction, **options)


def tensor(columns: int = 2) -> tg.MLCTensor:
    return tg.MLCTensor(shape=[ROWS, columns])


@pytest.mark.parametrize("device", ["reference", "cpu"])
@pytest.mark.parametrize("reduction", ["sum", "none"])
@pytest.mark.parametrize("of_the_graph", [False, True])
def test_the_sum_is_reported_and_each_can_be_read(
    device: str, reduction: str, of_the_graph: bool
) -> None:
    x, first, second = tensor(), tensor(), tensor()
    graph = tg.MLCGraph()
    small, large = scaled(graph, x, 1), scaled(graph, x, 10)
    one = graph.node(squared(reduction), sources=[large], loss_labels=[first])
    other = graph.node(squared(), sources=[small], loss_labels=[second])
    loss = squared() if of_the_graph else None
    training = tg.MLCTrainingGraph(graph_objects=[graph], loss_layer=loss)
    training.add_inputs({"x": x}, loss_labels={"second": second, "first": first})
    training.add_outputs({"one": one, "other": other})
    training.compile(device=device)
    data = np.array([[1, 2], [3, 4]], np.float32)
    zero = np.zeros_like(data)
    parts = {
        "one": np.zeros((ROWS, 2) if reduction == "none" else 1, np.float32),
        "other": np.zeros(1, np.float32),
    }
    total = training.execute(
        inputs_data={"x": data}, loss_labels_data={"first": zero, "second": zero},
        outputs_data=parts, options="synchronous",
    ).result  # fmt: skip
    squares = float((data**2).sum())
    # The loss of the graph compares the last result that is no loss.
    assert float(total) == (201 if of_the_graph else 101) * squares
    np.testing.assert_array_equal(parts["one"].sum(), 100 * squares)
    np.testing.assert_array_equal(parts["other"], [squares])


def test_weights_of_a_loss_in_the_graph_are_brought_by_each_step() -> None:
    x, y, weights = tensor(), tensor(), tensor()
    graph = tg.MLCGraph()
    graph.node(squared(weights=weights), sources=[scaled(graph, x, 1)], loss_labels=[y])
    training = tg.MLCTrainingGraph(graph_objects=[graph])
    training.add_inputs({"x": x}, loss_labels={"y": y}, loss_label_weights={"weights": weights})
    training.compile(device="cpu")
    data = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    for given in (np.ones_like(data), np.arange(6, dtype=np.float32).reshape(3, 2)):
        found = training.execute(
            inputs_data={"x": data}, loss_labels_data={"y": 0 * data},
            loss_label_weights_data={"weights": given}, batch_size=3, options="synchronous",
        ).result  # fmt: skip
        assert float(found) == float((given * data**2).sum())


def value(
    kind: str, prediction: np.ndarray, labels: np.ndarray, weights: Any = None, both: bool = False
) -> float:
    x, y = tg.MLCTensor(shape=prediction.shape), tg.MLCTensor(shape=labels.shape)
    w = None if weights is None else tg.MLCTensor(shape=weights.shape)
    graph = tg.MLCGraph()
    scaled(graph, x, 1)
    options = {"weights": w} if both else {}
    training = tg.MLCTrainingGraph(
        graph_objects=[graph], loss_layer=getattr(tg.MLCLossLayer, kind)("mean", **options)
    )
    training.add_inputs(
        {"x": x}, loss_labels={"y": y}, loss_label_weights=None if w is None else {"w": w}
    )
    training.compile(device="cpu")
    extra = {} if w is None else {"loss_label_weights_data": {"w": weights}}
    return float(
        training.execute(
            inputs_data={"x": prediction}, loss_labels_data={"y": labels},
            options="synchronous", **extra,
        ).result
    )  # fmt: skip


RANDOM = np.random.default_rng(5)
LOGITS = RANDOM.normal(size=(4, 3)).astype(np.float32)
CLASSES = np.eye(3, dtype=np.float32)[[0, 2, 1, 2]]
PER_ROW = np.array([1, 0.5, 2, 0], np.float32)


def test_one_tensor_given_both_ways_is_one() -> None:
    weights = np.broadcast_to(PER_ROW[:, None], (4, 3)).copy()
    found = value("mean_squared_error", LOGITS, CLASSES, weights, both=True)
    assert found == value("mean_squared_error", LOGITS, CLASSES, weights)


def test_weights_of_the_size_of_the_labels() -> None:
    repeated = np.broadcast_to(PER_ROW[:, None], (4, 3)).copy()
    found = value("softmax_cross_entropy", LOGITS, CLASSES, repeated)
    assert found == value("softmax_cross_entropy", LOGITS, CLASSES, PER_ROW)
    assert value("softmax_cross_entropy", LOGITS, CLASSES, repeated, both=True) == found


@pytest.mark.parametrize(
    "kind",
    ["mean_squared_error", "softmax_cross_entropy", "sigmoid_cross_entropy", "huber_loss"],
)
def test_labels_may_leave_out_extents_of_one(kind: str) -> None:
    images = LOGITS.reshape(4, 3, 1, 1)
    assert value(kind, images, CLASSES) == value(kind, images, CLASSES.reshape(4, 3, 1, 1))
    assert value(kind, LOGITS, CLASSES.reshape(4, 3, 1, 1)) == value(kind, LOGITS, CLASSES)
    with pytest.raises(tg.ShapeError, match=r"shape \(4, 3, 1, 1\) but got \(4, 2\)"):
        value(kind, images, CLASSES[:, :2])


def test_a_condition_of_one_row_serves_every_batch() -> None:
    for declared in (1, 2):
        x, graph = tg.MLCTensor(shape=[declared, 4]), tg.MLCGraph()
        chosen = tg.MLCTensor(data=np.array([[True, False, True, False]]))
        graph.select([scaled(graph, x, 2), x], condition=chosen)
        inference = tg.MLCInferenceGraph(graph_objects=[graph])
        inference.add_inputs({"x": x})
        inference.compile(device="cpu")
        found = inference.execute(
            inputs_data={"x": np.ones((3, 4), np.float32)}, batch_size=3, options="synchronous"
        ).result
        np.testing.assert_array_equal(found, np.tile([2, 1, 2, 1], (3, 1)))
