"""What clients rely on about graphs: declaring, compiling, sharing, releasing."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from client_networks import SYNCHRONOUS, descriptor, inference_of, numbers, sgd
from linear_regression import LABELS, POINTS, LinearRegression, infer

import traingraph as tg


@pytest.mark.parametrize("first", ["training", "inference"])
@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_row_05_training_and_inference_share_one_graph(first: str, device: str) -> None:
    x = tg.MLCTensor(shape=[8, 3, 6, 6])
    label = tg.MLCTensor(shape=[8], data_type="int32")
    graph = tg.MLCGraph()
    logits = tg.sequential(
        graph,
        x,
        [
            tg.MLCConvolutionLayer(descriptor=descriptor(3, 16, (3, 3))),
            tg.MLCActivationLayer.relu(),
            tg.MLCReshapeLayer(shape=[8, 16 * 36]),
            tg.MLCFullyConnectedLayer(descriptor=descriptor(16 * 36, 5)),
        ],
    )
    loss = tg.MLCLossLayer.softmax_cross_entropy(reduction_type="mean")
    training = tg.MLCTrainingGraph(graph_objects=[graph], loss_layer=loss, optimizer=sgd(0.1))
    training.add_inputs({"x": x}, loss_labels={"label": label})
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    # A layer of the inference graph's own over the training graph's result.
    inference.node(tg.MLCSoftmaxLayer(operation="softmax"), source=logits)
    order = [training, inference] if first == "training" else [inference, training]
    for executable in order:
        executable.compile(options="none", device=device)

    images, labels = numbers(8, 3, 6, 6), np.arange(8, dtype=np.int32) % 5
    before = infer(inference, {"x": images})
    np.testing.assert_allclose(before.sum(axis=1), 1, rtol=1e-5)
    for _ in range(30):
        step = training.execute(
            inputs_data={"x": images}, loss_labels_data={"label": labels}, options=SYNCHRONOUS
        )
    after = infer(inference, {"x": images})
    assert after[np.arange(8), labels].min() > 0.6 > before[np.arange(8), labels].min()
    # The loss of the next step is what inference says about the labels now.
    step = training.execute(
        inputs_data={"x": images}, loss_labels_data={"label": labels}, options=SYNCHRONOUS
    )
    expected = -np.log(after[np.arange(8), labels]).mean()
    assert float(step.result) == pytest.approx(expected, rel=1e-4)


def test_row_05_a_loss_of_the_training_graph_asks_no_labels_of_an_inference() -> None:
    network = LinearRegression(None, "cpu", "float32")
    y = tg.MLCTensor(shape=[4, 1])
    training = tg.MLCTrainingGraph(graph_objects=[network.graph], optimizer=sgd(0.05))
    training.node(
        tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
        sources=[network.prediction],
        loss_labels=[y],
    )
    training.add_inputs({"x": network.x}, loss_labels={"y": y})
    training.compile(device="cpu")
    data = network.arguments()
    step = training.execute(
        inputs_data=data["inputs_data"], loss_labels_data=data["loss_labels_data"]
    )
    assert float(step.result) == pytest.approx(69)
    inference = inference_of(network.graph, x=network.x)
    result = infer(inference, data["inputs_data"])
    np.testing.assert_allclose(result, 1.45 * POINTS + 0.8, rtol=1e-6)


def test_row_08_compile_first_and_declare_later() -> None:
    x = tg.MLCTensor(shape=[4, 1])
    y = tg.MLCTensor(shape=[4, 1])
    graph = tg.MLCGraph()
    layer = tg.MLCFullyConnectedLayer(
        weights=tg.MLCTensor(data=np.full((1, 1), 3, np.float32)), descriptor=descriptor(1, 1)
    )
    out = graph.node(layer, source=x)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
        optimizer=sgd(0.0),
    )
    training.compile(options="none", device="cpu")
    training.add_inputs({"x": x}, loss_labels={"y": y})
    data = {"inputs_data": {"x": POINTS}, "loss_labels_data": {"y": LABELS}}
    expected = pytest.approx(float(((3 * POINTS - LABELS) ** 2).mean()))
    assert training.execute(options=SYNCHRONOUS, **data).result == expected
    training.add_outputs({"out": out})
    outputs = {"out": np.zeros((4, 1), np.float32)}
    training.execute(options=SYNCHRONOUS, outputs_data=outputs, **data)
    np.testing.assert_array_equal(outputs["out"], 3 * POINTS)
    training.compile(options="none", device="cpu")
    assert training.execute(options=SYNCHRONOUS, **data).result == expected


def test_row_08_data_bound_before_a_declaration_stays() -> None:
    network = LinearRegression(sgd(0.05), "cpu", "float32")
    data, training = network.arguments(), network.training
    values = data["inputs_data"] | data["loss_labels_data"]
    training.bind_and_write_data(values, for_inputs={"x": network.x, "y": network.y})
    training.add_outputs({"prediction": network.prediction})
    output = np.ones((4, 1), np.float32)
    for again in (False, True):
        if again:
            training.compile(device="cpu")
        result = training.execute_forward(
            outputs_data={"prediction": output}, options=SYNCHRONOUS
        ).result
        assert result == pytest.approx(69)
    np.testing.assert_array_equal(output, 0)
    training.execute_gradient(options=SYNCHRONOUS)
    training.execute_optimizer_update(options=SYNCHRONOUS)
    # And binding what was declared just now works as well.
    shift = tg.MLCTensor(shape=[4, 1])
    shifted = training.node(
        tg.MLCArithmeticLayer(operation="add"), sources=[network.prediction, shift]
    )
    training.add_inputs({"shift": shift})
    training.add_outputs({"shifted": shifted})
    training.bind_and_write_data({"shift": -LABELS}, for_inputs={"shift": shift})
    training.execute_forward(outputs_data={"shifted": output}, options=SYNCHRONOUS)
    np.testing.assert_allclose(output, 1.45 * POINTS + 0.8 - LABELS, rtol=1e-6)


def test_row_08_bound_data_without_a_batch_axis() -> None:
    """An input that was not declared keeps its own shape, whatever the batch is."""
    x, row = tg.MLCTensor(shape=[4, 3]), tg.MLCTensor(shape=[3])
    training = tg.MLCTrainingGraph(graph_objects=[tg.MLCGraph()])
    training.node(tg.MLCArithmeticLayer(operation="add"), sources=[x, row])
    training.add_inputs({"x": x})
    training.compile(device="cpu")
    values, added = numbers(2, 3), numbers(3, seed=1)
    training.bind_and_write_data(
        {"x": values, "row": added}, for_inputs={"x": x, "row": row}, batch_size=2
    )
    result = training.execute_forward(batch_size=2, options=SYNCHRONOUS).result
    np.testing.assert_allclose(result, values + added, rtol=1e-6)


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_row_20_without_a_loss_the_result_is_the_last_one(device: str) -> None:
    """Forward alone, a whole execution and a second one give the same; nothing is updated."""
    memory = numbers(2, 3)
    start = memory.copy()
    x = tg.MLCTensor(shape=[4, 3])
    layer = tg.MLCFullyConnectedLayer(
        weights=tg.MLCTensor(data=memory), descriptor=descriptor(3, 2)
    )
    graph = tg.MLCGraph()
    graph.node(layer, source=x)
    training = tg.MLCTrainingGraph(graph_objects=[graph])
    training.add_inputs({"x": x})
    training.compile(device=device)
    values = numbers(4, 3, seed=1)
    expected = values @ start.T
    for _ in range(2):
        result = training.execute(inputs_data={"x": values}, options=SYNCHRONOUS).result
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
    training.bind_and_write_data({"x": values}, for_inputs={"x": x})
    np.testing.assert_allclose(
        training.execute_forward(options=SYNCHRONOUS).result, expected, rtol=1e-5, atol=1e-6
    )
    training.synchronize_updates()
    np.testing.assert_array_equal(memory, start)
    with pytest.raises(ValueError, match="expected an optimizer"):
        training.execute_optimizer_update(options=SYNCHRONOUS)


def test_program_4_a_graph_as_a_calculator() -> None:
    """Without loss and optimizer: a matrix times itself plus one."""
    x = tg.MLCTensor(shape=[2, 2])
    one = tg.MLCTensor(data=np.ones((2, 2), np.float32))
    training = tg.MLCTrainingGraph(graph_objects=[tg.MLCGraph()])
    product = training.node(tg.MLCMatMulLayer(descriptor=tg.MLCMatMulDescriptor()), sources=[x, x])
    training.node(tg.MLCArithmeticLayer(operation="add"), sources=[product, one])
    training.add_inputs({"x": x})
    training.compile(options="none", device="cpu")
    values = np.array([[1, 2], [3, 4]], np.float32)
    result = training.execute(inputs_data={"x": values}, options=SYNCHRONOUS).result
    np.testing.assert_array_equal(result, [[8, 11], [16, 23]])


def test_row_20_without_an_optimizer_gradients_are_read_and_applied_by_hand() -> None:
    """The caller's own update: weights written into the tensors between the steps."""
    network = LinearRegression(None)
    data = network.arguments()
    network.training.bind_and_write_data(data["inputs_data"], for_inputs={"x": network.x})
    network.training.bind_and_write_data(data["loss_labels_data"], for_inputs={"y": network.y})
    by_optimizer = LinearRegression(sgd(0.05))
    values = {"weights": np.zeros((1, 1)), "biases": np.zeros((1, 1))}
    for _ in range(3):
        loss = network.training.execute_forward(options=SYNCHRONOUS).result
        assert float(loss) == pytest.approx(float(by_optimizer.step()), rel=1e-6)
        network.training.execute_gradient(options=SYNCHRONOUS)
        for name in values:
            tensor = getattr(network.layer, name)
            gradient = network.training.gradient_data(tensor, layer=network.layer)
            values[name] = values[name] - 0.05 * gradient
            tensor.bind_and_write_data(values[name])
    assert (values["weights"].item(), values["biases"].item()) == pytest.approx(
        by_optimizer.parameters(), rel=1e-6
    )


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_row_20_a_gradient_supplied_by_hand(device: str) -> None:
    """The gradient of the mean squared error, computed outside, gives what the loss gives."""
    dtype = "float64" if device == "reference" else "float32"
    by_loss = LinearRegression(sgd(0.05), device, dtype)
    network = LinearRegression(None, device, dtype)
    training = tg.MLCTrainingGraph(graph_objects=[network.graph], optimizer=sgd(0.05))
    training.add_inputs({"x": network.x})
    incoming = training.allocate_user_gradient(network.prediction)
    training.compile(device=device)
    points, labels = POINTS.astype(dtype), LABELS.astype(dtype)
    for _ in range(5):
        training.bind_and_write_data({"x": points}, for_inputs={"x": network.x})
        result = training.execute_forward(options=SYNCHRONOUS).result
        assert ((result - labels) ** 2).mean() == pytest.approx(float(by_loss.step()), rel=1e-5)
        with pytest.raises(ValueError, match="written since the last execute_forward"):
            training.execute_gradient(options=SYNCHRONOUS)
        gradient = 2 * (result - labels) / result.size
        training.bind_and_write_data({"g": gradient}, for_inputs={"g": incoming})
        training.execute_gradient(options=SYNCHRONOUS)
        training.execute_optimizer_update(options=SYNCHRONOUS)
    training.synchronize_updates()
    assert network.parameters() == pytest.approx(by_loss.parameters(), rel=1e-5)


def resident_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"VmRSS:\s+(\d+)", status).group(1))


@pytest.mark.linux
def test_row_23_memory_stays_flat() -> None:
    network = LinearRegression(tg.MLCAdamOptimizer(learning_rate=0.01), "cpu", "float32")
    seen = []

    def handler(result: tg.MLCTensor, error: Exception | None, seconds: float) -> None:
        seen.append(None)

    def steps(count: int) -> None:
        for k in range(count):
            rows = range(1 + k % 4)
            # Fresh arrays, a handler and a result each time, in flight and not.
            options = SYNCHRONOUS if k % 8 else tg.MLCExecutionOptions.NONE
            arguments = network.arguments(rows)
            handle = network.training.execute(
                completion_handler=handler, options=options, **arguments
            )
            assert math.isfinite(float(handle.result))
        seen.clear()

    steps(200)
    before = resident_bytes()
    steps(2000)
    assert resident_bytes() - before < 2 << 20
    assert network.training.memory_plan().total_bytes < 1 << 16


def test_row_23_graphs_go_while_others_over_their_tensors_live() -> None:
    network = LinearRegression(sgd(0.05), "cpu", "float32")
    inference = inference_of(network.graph, x=network.x)
    network.step()
    for _ in range(3):  # work in flight
        network.training.execute(**network.arguments())
    del network.training
    expected = LinearRegression(sgd(0.05), "cpu", "float32")
    for _ in range(4):
        expected.step()
    weight, bias = expected.parameters()
    result = infer(inference, {"x": POINTS.astype(np.float32)})
    np.testing.assert_allclose(result, weight * POINTS + bias, rtol=1e-6)


@pytest.mark.linux
def test_row_23_compiled_graphs_are_released() -> None:
    def build() -> None:
        x = tg.MLCTensor(shape=[64, 1024])
        graph = tg.MLCGraph()
        tg.sequential(
            graph,
            x,
            [tg.MLCFullyConnectedLayer(descriptor=descriptor(1024, 1024)) for _ in range(2)],
        )
        infer(inference_of(graph, x=x), {"x": np.zeros((64, 1024), np.float32)})

    for _ in range(3):
        build()
    before = resident_bytes()
    for _ in range(10):  # 8 MiB of weights each
        build()
    assert resident_bytes() - before < 24 << 20
