"""What clients rely on about losses: what they return, how they are weighted and joined."""

import numpy as np
import pytest
from client_networks import SYNCHRONOUS, descriptor, inference_of, numbers, sgd, training_of
from linear_regression import LABELS, POINTS, LinearRegression

import traingraph as tg


@pytest.mark.parametrize(
    ("reduction", "shape"), [("sum", ()), ("mean", ()), ("none", (4, 1))], ids=str
)
def test_row_06_results_and_what_a_handler_may_read(reduction: str, shape: tuple) -> None:
    network = LinearRegression(sgd(0.0), "cpu", "float32", reduction)
    errors = LABELS**2
    expected = {"sum": errors.sum(), "mean": errors.mean(), "none": errors}[reduction]
    seen = {}

    def handler(result: tg.MLCTensor, error: Exception | None, seconds: float) -> None:
        seen["loss"] = result.data.copy()
        prediction = np.full((4, 1), np.nan, np.float32)
        network.prediction.copy_data_from_device_memory(prediction, synchronize_with_device=False)
        seen["prediction"] = prediction
        seen["error"] = error

    handle = network.training.execute(completion_handler=handler, **network.arguments())
    assert np.shape(handle.result) == shape
    np.testing.assert_allclose(handle.result, expected)
    np.testing.assert_allclose(np.squeeze(seen["loss"]), np.squeeze(expected))
    np.testing.assert_array_equal(seen["prediction"], 0)
    assert seen["error"] is None


@pytest.mark.parametrize("axes", [(6, 5), (6, 5, 2, 3)], ids=["samples", "positions"])
def test_row_06_cross_entropy_without_reduction_has_a_value_per_sample(axes: tuple) -> None:
    x = tg.MLCTensor(shape=axes)
    label = tg.MLCTensor(shape=axes)
    graph = tg.MLCGraph()
    graph.node(tg.MLCActivationLayer.linear(scale=2.0, bias=0.0), source=x)
    loss = tg.MLCLossLayer.softmax_cross_entropy(reduction_type="none")
    training = training_of(graph, {"x": x}, {"label": label}, loss)
    values = numbers(*axes)
    labels = np.moveaxis(np.eye(5, dtype=np.float32)[numbers(*axes).argmax(axis=1)], -1, 1)
    result = training.execute(
        inputs_data={"x": values}, loss_labels_data={"label": labels}, options=SYNCHRONOUS
    ).result
    scores = 2.0 * values
    expected = np.log(np.exp(scores).sum(axis=1)) - (scores * labels).sum(axis=1)
    assert np.size(result) == expected.size
    np.testing.assert_allclose(np.ravel(result), expected.ravel(), rtol=1e-5, atol=1e-6)


ELEMENT_LOSSES = {
    "mean_squared_error": lambda y, t: (y - t) ** 2,
    "mean_absolute_error": lambda y, t: np.abs(y - t),
    "huber_loss": lambda y, t: np.where(np.abs(y - t) <= 1, (y - t) ** 2 / 2, np.abs(y - t) - 0.5),
    "sigmoid_cross_entropy": lambda y, t: np.maximum(y, 0) - y * t + np.log1p(np.exp(-np.abs(y))),
}


@pytest.mark.parametrize("name", ELEMENT_LOSSES)
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_row_06_other_losses_have_a_value_per_element(name: str, reduction: str) -> None:
    x, y = tg.MLCTensor(shape=[4, 3]), tg.MLCTensor(shape=[4, 3])
    graph = tg.MLCGraph()
    out = graph.node(tg.MLCActivationLayer.linear(scale=3.0, bias=0.0), source=x)
    loss = getattr(tg.MLCLossLayer, name)(reduction_type=reduction)
    training = training_of(graph, {"x": x}, {"y": y}, loss)
    values, labels = numbers(4, 3), numbers(4, 3, seed=1)
    losses = ELEMENT_LOSSES[name](3 * values, labels)
    expected = {"none": losses, "sum": losses.sum(), "mean": losses.mean()}[reduction]
    seen: list[np.ndarray] = []

    def handler(result: tg.MLCTensor, error: Exception | None, seconds: float) -> None:
        seen.append(result.data.copy())

    handle = training.execute(
        inputs_data={"x": values}, loss_labels_data={"y": labels}, completion_handler=handler
    )
    assert np.shape(handle.result) == np.shape(expected)
    np.testing.assert_allclose(handle.result, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.ravel(seen[0]), np.ravel(expected), rtol=1e-5, atol=1e-6)
    # The loss's source and the graph's last result, after the step too.
    source = np.zeros((4, 3), np.float32)
    out.copy_data_from_device_memory(source)
    np.testing.assert_allclose(source, 3 * values, rtol=1e-6)


ROWS, CHANNELS = 2, 14  # two anchors of 5 + 2 numbers
LOSSES = [*(member.name.lower() for member in tg.MLCLossType), "yolo"]


def loss_layer(name: str) -> tg.MLCLayer:
    if name == "yolo":
        boxes = [(0.75, 1.0), (2.0, 1.5)]
        descriptor = tg.MLCYOLOLossDescriptor(anchor_boxes=boxes, anchor_box_count=len(boxes))
        return tg.MLCYOLOLossLayer(descriptor=descriptor)
    descriptor = tg.MLCLossDescriptor(type=name, reduction_type="mean")
    return tg.MLCLossLayer(descriptor=descriptor)


@pytest.mark.parametrize("beside", ["alone", "an inference graph compiled later", "that has run"])
@pytest.mark.parametrize("place", ["constructor", "node"])
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_row_06_a_handler_reads_its_own_step_whatever_the_loss(
    name: str, place: str, beside: str, device: str
) -> None:
    """Source and labels of the loss, the last layer's result and the loss, in each kind of call."""
    shape = (ROWS, CHANNELS, 2, 2)
    x, y = tg.MLCTensor(shape=shape), tg.MLCTensor(shape=shape)
    graph = tg.MLCGraph()
    scaled = tg.MLCActivationLayer.linear(scale=0.5, bias=0.25)
    source = graph.node(scaled, source=x)
    last = graph.node(tg.MLCActivationLayer.sigmoid(), source=x)
    if place == "node":
        graph.node(loss_layer(name), sources=[source], loss_labels=[y])
        given = None
    else:
        given, source = loss_layer(name), last
    training = training_of(graph, {"x": x}, {"y": y}, given, device=device)
    inference = inference_of(graph, device, x=x) if beside != "alone" else None
    values, labels, other = (np.abs(numbers(*shape, seed=k)).clip(0, 0.99) for k in range(3))

    def expected(data: np.ndarray) -> dict[int, np.ndarray]:
        of_last = 1 / (1 + np.exp(-data))
        return {
            id(x): data, id(y): labels, id(last): of_last,
            id(source): of_last if place == "constructor" else 0.5 * data + 0.25,
        }  # fmt: skip

    read: list[tuple[str, dict[int, np.ndarray], np.ndarray | None]] = []

    def reading(call: str):
        def handler(result: tg.MLCTensor, error: Exception | None, seconds: float) -> None:
            assert error is None
            found = {}
            for tensor in (x, y, source, last):
                found[id(tensor)] = np.full(shape, np.nan, np.float32)
                tensor.copy_data_from_device_memory(found[id(tensor)])
            loss = None
            if result is not None:
                loss = np.full(result.descriptor.shape, np.nan, np.float32)
                result.copy_data_from_device_memory(loss)
                np.testing.assert_array_equal(loss, result.data)
            read.append((call, found, loss))

        return handler

    if beside == "that has run":
        inference.execute(inputs_data={"x": other}, options=SYNCHRONOUS)
    data = {"inputs_data": {"x": values}, "loss_labels_data": {"y": labels}}
    handles = [training.execute(**data, completion_handler=reading("execute"))]
    if beside == "that has run":  # behind the step, but before it is waited for
        handles.append(inference.execute(inputs_data={"x": other}))
    training.bind_and_write_data({"x": values, "y": labels}, for_inputs={"x": x, "y": y})
    handles.append(training.execute_forward(completion_handler=reading("forward")))
    handles.append(training.execute_gradient(completion_handler=reading("gradient")))
    for handle in handles:
        handle.wait()
    assert [call for call, _, _ in read] == ["execute", "forward", "gradient"]
    for call, found, loss in read:
        for key, value in expected(values).items():
            np.testing.assert_allclose(found[key], value, rtol=1e-5, atol=1e-6)
        assert (loss is None) == (call == "gradient")
        assert loss is None or np.isfinite(loss).all()
    np.testing.assert_allclose(read[0][2], handles[0].result.reshape(read[0][2].shape))
    if inference is not None:  # what has run last is read, outside of handlers too
        inference.execute(inputs_data={"x": other}, options="none")
        found = np.full(shape, np.nan, np.float32)
        last.copy_data_from_device_memory(found)
        np.testing.assert_allclose(found, expected(other)[id(last)], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_row_12_softmax_before_softmax_cross_entropy_counts_twice(device: str) -> None:
    x = tg.MLCTensor(shape=[6, 4])
    label = tg.MLCTensor(shape=[6], data_type="int32")
    graph = tg.MLCGraph()
    graph.node(tg.MLCSoftmaxLayer(operation="softmax"), source=x)
    loss = tg.MLCLossLayer.softmax_cross_entropy(reduction_type="none")
    training = training_of(graph, {"x": x}, {"label": label}, loss, device=device)
    values, labels = 3 * numbers(6, 4), np.array([0, 1, 2, 3, 0, 1], np.int32)
    result = training.execute(
        inputs_data={"x": values}, loss_labels_data={"label": labels}, options=SYNCHRONOUS
    ).result
    once = np.exp(values) / np.exp(values).sum(axis=1, keepdims=True)
    twice = np.exp(once) / np.exp(once).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(np.ravel(result), -np.log(twice[np.arange(6), labels]), rtol=1e-5)


@pytest.mark.parametrize("device", ["reference", "cpu"])
@pytest.mark.parametrize("kind", ["classes", "distribution", "regression"])
def test_row_15_rows_of_weight_zero_contribute_nothing(device: str, kind: str) -> None:
    weights = np.array([1, 0, 2, 0], np.float32)
    start = numbers(3, 2)

    def train(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = tg.MLCTensor(shape=[4, 2])
        weight = tg.MLCTensor(shape=[4, 3] if kind == "regression" else [4])
        parameter = start.copy()
        graph = tg.MLCGraph()
        graph.node(
            tg.MLCFullyConnectedLayer(
                weights=tg.MLCTensor(data=parameter), descriptor=descriptor(2, 3)
            ),
            source=x,
        )
        if kind == "regression":
            loss = tg.MLCLossLayer.mean_squared_error(reduction_type="none")
        else:
            loss = tg.MLCLossLayer.softmax_cross_entropy(reduction_type="none")
        classes = np.array([2, 1, 0, 1], np.int32)
        integer = kind == "classes"
        y = tg.MLCTensor(
            shape=[4] if integer else [4, 3], data_type="int32" if integer else "float32"
        )
        labels = classes if integer else np.eye(3, dtype=np.float32)[classes]
        training = training_of(graph, {"x": x}, {"y": y}, loss, {"w": weight}, sgd(0.1), device)
        full = np.repeat(weights[:, None], 3, axis=1) if kind == "regression" else weights
        step = training.execute(
            inputs_data={"x": values},
            loss_labels_data={"y": labels},
            loss_label_weights_data={"w": full},
            options=SYNCHRONOUS,
        )
        training.synchronize_updates()
        return step.result.reshape(4, -1), parameter

    values = numbers(4, 2, seed=3)
    other = values.copy()
    other[weights == 0] *= 50
    losses, trained = train(values)
    assert (losses[weights == 0] == 0).all()
    assert (losses[weights != 0] != 0).all()
    assert (trained != start).any()
    np.testing.assert_array_equal(train(other)[1], trained)


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_row_18_several_losses_add(device: str) -> None:
    """Two losses of one network, the second one half as heavy: their gradients are summed."""
    values, first, second = numbers(6, 3), numbers(6, 2, seed=1), numbers(6, 2, seed=2)
    start = numbers(2, 3, seed=3)
    memory = start.copy()
    x, y, z = (tg.MLCTensor(shape=[6, k]) for k in (3, 2, 2))
    graph = tg.MLCGraph()
    out = graph.node(
        tg.MLCFullyConnectedLayer(weights=tg.MLCTensor(data=memory), descriptor=descriptor(3, 2)),
        source=x,
    )
    losses = [
        graph.node(
            tg.MLCLossLayer.mean_squared_error(reduction_type="mean", weight=weight),
            sources=[out],
            loss_labels=[label],
        )
        for weight, label in ((1.0, y), (0.5, z))
    ]
    training = tg.MLCTrainingGraph(graph_objects=[graph], optimizer=sgd(0.1))
    training.add_inputs({"x": x}, loss_labels={"y": y, "z": z})
    training.add_outputs({"first": losses[0], "second": losses[1]})
    training.compile(device=device)
    results = {name: np.zeros(1, np.float32) for name in ("first", "second")}
    training.execute(
        inputs_data={"x": values},
        loss_labels_data={"y": first, "z": second},
        outputs_data=results,
        options=SYNCHRONOUS,
    )
    training.synchronize_updates()
    predicted = values @ start.T
    assert results["first"].item() == pytest.approx(((predicted - first) ** 2).mean(), rel=1e-5)
    assert results["second"].item() == pytest.approx(
        ((predicted - second) ** 2).mean() / 2, rel=1e-5
    )
    error = (2 * (predicted - first) + (predicted - second)) / predicted.size
    np.testing.assert_allclose(memory, start - 0.1 * error.T @ values, rtol=1e-4, atol=1e-6)


def test_row_18_a_loss_of_the_graph_and_one_of_the_constructor_add() -> None:
    network = LinearRegression(None)
    data = network.arguments()
    other = tg.MLCTensor(shape=[4, 1], data_type="float64")
    penalty = tg.MLCLossLayer.mean_squared_error(reduction_type="sum")
    network.graph.node(penalty, sources=[network.prediction], loss_labels=[other])
    network.training.add_inputs({}, loss_labels={"other": other})
    values = data["inputs_data"] | data["loss_labels_data"] | {"other": np.full((4, 1), 3.0)}
    tensors = {"x": network.x, "y": network.y, "other": other}
    network.training.bind_and_write_data(values, for_inputs=tensors)
    network.training.execute_forward(options=SYNCHRONOUS)
    network.training.execute_gradient(options=SYNCHRONOUS)
    slope = network.training.gradient_data(network.layer.weights, layer=network.layer)
    expected = (2 * (0 - LABELS) * POINTS).mean() + (2 * (0 - 3) * POINTS).sum()
    assert slope.item() == pytest.approx(expected, rel=1e-9)
