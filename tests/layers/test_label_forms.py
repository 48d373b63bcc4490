"""Labels, weights and predictions that differ by extents of 1: every loss, execute to evaluate."""

from typing import Any

import numpy as np
import pytest

import traingraph as tg

ROWS = 6
TYPES = [
    "mean_absolute_error", "mean_squared_error", "softmax_cross_entropy", "sigmoid_cross_entropy",
    "categorical_cross_entropy", "hinge", "huber", "cosine_distance", "log",
]  # fmt: skip
# Of the prediction behind the batch, of the labels.
FORMS = {
    "vectors for images": ((5, 1, 1), (5,)),
    "images for vectors": ((5,), (5, 1, 1)),
    "one for an image": ((1, 1, 1), (1,)),
    "an image for one": ((1,), (1, 1, 1)),
}


def compared(kind: str, prediction: tuple, label: tuple, weighted: str, device: str) -> list[Any]:
    """What execute, fit and evaluate say of it."""
    x = tg.MLCTensor(shape=[ROWS, *prediction])
    y = tg.MLCTensor(shape=[ROWS, *label])
    graph = tg.MLCGraph()
    identity = tg.nn.dense(prediction[0], weights_init=lambda shape: np.eye(*shape))
    graph.node(tg.MLCActivationLayer.sigmoid(), source=identity(graph, x))
    descriptor = tg.MLCLossDescriptor(type=kind, reduction_type="mean")
    rng = np.random.default_rng(3)
    size = prediction[0]
    weights = rng.uniform(0.5, 2, (ROWS, *label)).astype(np.float32)
    held = tg.MLCTensor(shape=[ROWS, *label], data=weights)
    layer = tg.MLCLossLayer(descriptor=descriptor)
    declared: dict[str, tg.MLCTensor] = {}
    if weighted != "no":
        layer = tg.MLCLossLayer(descriptor=descriptor, weights=held)
    if weighted == "twice":
        declared = {"w": held}
    training = tg.MLCTrainingGraph(
        graph_objects=[graph], loss_layer=layer, optimizer=tg.MLCSGDOptimizer(learning_rate=0.0)
    )
    training.add_inputs({"x": x}, loss_labels={"y": y}, loss_label_weights=declared)
    training.compile(device=device)
    data = rng.normal(size=(ROWS, *prediction)).astype(np.float32)
    labels = rng.uniform(0.1, 0.9, (ROWS, size)).astype(np.float32)
    labels = (labels / labels.sum(axis=1, keepdims=True)).reshape(ROWS, *label)
    given = {"w": weights} if declared else None
    step = training.execute(
        inputs_data={"x": data}, loss_labels_data={"y": labels},
        loss_label_weights_data=given, options="synchronous",
    )  # fmt: skip
    (epoch,) = training.fit({"x": data}, {"y": labels}, label_weights=given, shuffle=False)
    evaluation = training.evaluate({"x": data}, {"y": labels}, label_weights=given)
    return [float(step.result), epoch.loss, evaluation.loss, evaluation.accuracy]


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("weighted", ["no", "by the layer", "twice"])
@pytest.mark.parametrize("kind", TYPES)
def test_forms_of_labels(kind: str, weighted: str, form: str, device: str) -> None:
    prediction, label = FORMS[form]
    if weighted != "no" and kind == "cosine_distance":
        pytest.skip("its values have no axis 1, and weights are those of values")
    got = compared(kind, prediction, label, weighted, device)
    # Rows in another order have the same mean, up to rounding, of losses and of accuracies.
    plain = compared(kind, prediction, prediction, weighted, device)
    assert got[:3] == pytest.approx(plain[:3], rel=1e-5)
    assert got[0] == pytest.approx(got[2], rel=1e-5)
    assert got[3] == plain[3]
