"""What programs written for ML Compute rely on, one test for each numbered behaviour.

The numbers that are missing concern the MPS interface.
"""

import copy
import math
import multiprocessing
import re
import resource
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from linear_regression import LABELS, POINTS, LinearRegression, infer

import traingraph as tg

SYNCHRONOUS = tg.MLCExecutionOptions.SYNCHRONOUS


def descriptor(inputs: int, outputs: int, kernel: tuple = (1, 1)) -> tg.MLCConvolutionDescriptor:
    return tg.MLCConvolutionDescriptor(
        kernel_sizes=kernel,
        input_feature_channel_count=inputs,
        output_feature_channel_count=outputs,
    )


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def inference_of(graph: tg.MLCGraph, device: str = "cpu", **inputs: tg.MLCTensor):
    result = tg.MLCInferenceGraph(graph_objects=[graph])
    result.add_inputs(inputs)
    result.compile(options="none", device=device)
    return result


def training_of(
    graph: tg.MLCGraph,
    inputs: dict[str, tg.MLCTensor],
    labels: dict[str, tg.MLCTensor],
    loss: tg.MLCLossLayer,
    weights: dict[str, tg.MLCTensor] | None = None,
    optimizer: tg.MLCOptimizer | None = None,
    device: str = "cpu",
) -> tg.MLCTrainingGraph:
    result = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=loss,
        optimizer=optimizer or tg.MLCSGDOptimizer(learning_rate=0.01),
    )
    result.add_inputs(inputs, loss_labels=labels, loss_label_weights=weights)
    result.compile(options="none", device=device)
    return result


def sgd(rate: float = 0.01, **keywords: object) -> tg.MLCSGDOptimizer:
    return tg.MLCSGDOptimizer(learning_rate=rate, **keywords)


def mean_squared_error(weight: float, bias: float, rows: slice = slice(None)) -> float:
    return float(((weight * POINTS[rows] + bias - LABELS[rows]) ** 2).mean())


def test_row_01_raw_data_may_be_longer_and_not_shorter() -> None:
    network = LinearRegression(sgd(), "cpu", "float32")
    arguments = network.arguments()
    page = bytearray(4096)
    page[:16] = POINTS.astype(np.float32).tobytes()
    page[16:] = np.full(1020, np.nan, np.float32).tobytes()
    expected = network.step()
    for raw in (page, bytes(page), memoryview(page), tg.MLCTensorData(bytes_no_copy=page)):
        network = LinearRegression(sgd(), "cpu", "float32")
        arguments["inputs_data"] = {"x": raw}
        assert network.training.execute(options=SYNCHRONOUS, **arguments).result == expected
    for short in (page[:15], b"", tg.MLCTensorData(bytes_no_copy=page, length=12)):
        arguments["inputs_data"] = {"x": short}
        with pytest.raises(ValueError, match="'x'"):
            network.training.execute(options=SYNCHRONOUS, **arguments)
    tensor = tg.MLCTensor(shape=[2, 2], data=page, data_type="float32")
    np.testing.assert_array_equal(tensor.data, POINTS.reshape(2, 2))
    with pytest.raises(ValueError, match="16"):
        tg.MLCTensor(shape=[2, 2], data=page[:12], data_type="float32")


def test_row_02_batch_size_zero_and_smaller_batches() -> None:
    network = LinearRegression(sgd(0.0))
    arguments = network.arguments()
    arguments["batch_size"] = 0
    assert network.training.execute(options=SYNCHRONOUS, **arguments).result == pytest.approx(69)
    assert network.step([0, 1, 2]) == pytest.approx(mean_squared_error(0, 0, slice(3)))
    assert network.step([3]) == pytest.approx(121)
    # A batch that is not what the data says is no guess.
    arguments["batch_size"] = 3
    with pytest.raises(ValueError, match="'x'"):
        network.training.execute(options=SYNCHRONOUS, **arguments)


@pytest.mark.parametrize(("device", "dtype"), [("reference", "float64"), ("cpu", "float32")])
def test_row_03_weights_reach_the_callers_memory(device: str, dtype: str) -> None:
    network = LinearRegression(sgd(0.05), device, dtype)
    address = network.weight.ctypes.data
    network.step()
    assert network.weight.item() == 0  # until asked
    network.training.synchronize_updates()
    assert network.weight.item() == pytest.approx(1.45)
    assert network.weight.ctypes.data == address
    assert network.layer.weights.data.ctypes.data == address
    # A buffer that belongs to the caller, without an array.
    memory = bytearray(4)
    tensor = tg.MLCTensor(shape=[1, 1], data=tg.MLCTensorData(bytes_no_copy=memory))
    x = tg.MLCTensor(shape=[4, 1])
    y = tg.MLCTensor(shape=[4, 1])
    graph = tg.MLCGraph()
    graph.node(tg.MLCFullyConnectedLayer(weights=tensor, descriptor=descriptor(1, 1)), source=x)
    loss = tg.MLCLossLayer.mean_squared_error(reduction_type="mean")
    training = training_of(graph, {"x": x}, {"y": y}, loss, optimizer=sgd(0.05), device="cpu")
    training.execute(inputs_data={"x": POINTS}, loss_labels_data={"y": LABELS}, options=SYNCHRONOUS)
    training.synchronize_updates()
    assert np.frombuffer(memory, np.float32).item() == pytest.approx(1.45)


def test_row_04_the_learning_rate_may_change() -> None:
    optimizer = sgd(0.05)
    network = LinearRegression(optimizer)
    network.step()
    before = network.training.compiled_description()
    optimizer.learning_rate = 0.0
    assert network.step() == pytest.approx(25.62875)
    assert network.parameters() == pytest.approx((1.45, 0.8))
    optimizer.learning_rate = 0.05
    network.step()
    assert network.parameters() == pytest.approx((2.2725, 1.3025))
    assert network.training.compiled_description() == before
    # What is already submitted keeps its rate.
    network.training.execute(**network.arguments())
    optimizer.learning_rate = 1e9
    with_old_rate = LinearRegression(sgd(0.05))
    for _ in range(3):
        with_old_rate.step()
    assert network.parameters() == pytest.approx(with_old_rate.parameters(), rel=1e-6)


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


def test_row_07_asynchronous_steps_run_in_order() -> None:
    network = LinearRegression(sgd(0.05), "cpu", "float32")
    expected = LinearRegression(sgd(0.05), "cpu", "float32")
    losses: list[tuple[int, float]] = []
    inference = inference_of(network.graph, x=network.x)
    released = threading.Event()

    def handler(number: int) -> Callable[..., None]:
        def record(result: tg.MLCTensor, error: Exception | None, seconds: float) -> None:
            if number == 0:
                released.wait(10)  # so that the others are really in flight
            losses.append((number, result.data.item()))

        return record

    handles = [
        network.training.execute(completion_handler=handler(k), **network.arguments())
        for k in range(20)
    ]
    # Submitted behind the steps, so it sees all of them.
    after = inference.execute(inputs_data={"x": np.ones((4, 1), np.float32)})
    assert not losses
    released.set()
    predicted = after.result
    assert losses == [(k, float(expected.step())) for k in range(20)]
    weight, bias = expected.parameters()
    np.testing.assert_allclose(predicted, weight + bias, rtol=1e-6)
    assert [float(handle.result) for handle in handles] == [loss for _, loss in losses]


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


def test_row_09_relu_with_a_slope_is_leaky() -> None:
    x = tg.MLCTensor(shape=[5])
    graph = tg.MLCGraph()
    layer = tg.MLCActivationLayer(descriptor=tg.MLCActivationDescriptor(type="relu", a=0.25))
    graph.node(layer, source=x)
    values = np.array([-4, -1, 0, 1, 4], np.float32)
    result = infer(inference_of(graph, x=x), {"x": values})
    np.testing.assert_array_equal(result, [-1, -0.25, 0, 1, 4])


@pytest.mark.parametrize("shape", [(2, 3), (1, 6), (1, 6, 1, 1), (2, 3, 1, 1)], ids=str)
@pytest.mark.parametrize("kernel", [(1, 1), (3, 2)], ids=str)
def test_row_10_forms_of_fully_connected_weights(shape: tuple, kernel: tuple) -> None:
    weights, bias, values = numbers(2, 3), numbers(2, seed=1), numbers(4, 3, seed=2)
    memory = weights.reshape(shape).copy()
    x = tg.MLCTensor(shape=[4, 3])
    y = tg.MLCTensor(shape=[4, 2])
    graph = tg.MLCGraph()
    layer = tg.MLCFullyConnectedLayer(
        weights=tg.MLCTensor(data=memory),
        biases=tg.MLCTensor(data=bias.reshape(1, 2, 1, 1).copy()),
        descriptor=descriptor(3, 2, kernel),
    )
    graph.node(layer, source=x)
    loss = tg.MLCLossLayer.mean_squared_error(reduction_type="sum")
    training = training_of(graph, {"x": x}, {"y": y}, loss, optimizer=sgd(0.5))
    training.execute(
        inputs_data={"x": values}, loss_labels_data={"y": np.zeros((4, 2))}, options=SYNCHRONOUS
    )
    result = values @ weights.T + bias
    training.synchronize_updates()
    assert memory.shape == shape
    np.testing.assert_allclose(memory.reshape(2, 3), weights - result.T @ values, rtol=1e-5)


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_row_11_one_tensor_as_several_parameters(device: str) -> None:
    """y = w x + w: the gradient of w is the sum of both."""
    shared = np.full((1, 1), 0.5, np.float32)
    tensor = tg.MLCTensor(data=shared)
    x = tg.MLCTensor(shape=[4, 1])
    y = tg.MLCTensor(shape=[4, 1])
    graph = tg.MLCGraph()
    graph.node(
        tg.MLCFullyConnectedLayer(weights=tensor, biases=tensor, descriptor=descriptor(1, 1)),
        source=x,
    )
    loss = tg.MLCLossLayer.mean_squared_error(reduction_type="mean")
    training = training_of(graph, {"x": x}, {"y": y}, loss, optimizer=sgd(0.1), device=device)
    training.execute(inputs_data={"x": POINTS}, loss_labels_data={"y": LABELS}, options=SYNCHRONOUS)
    training.synchronize_updates()
    error = 0.5 * POINTS + 0.5 - LABELS
    expected = 0.5 - 0.1 * float((2 * error * (POINTS + 1)).mean())
    assert shared.item() == pytest.approx(expected, rel=1e-6)


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


def test_row_13_regularization_scale_without_a_type_is_ignored() -> None:
    plain = LinearRegression(sgd(0.05))
    ignored = LinearRegression(
        sgd(0.05, regularization_type=tg.MLCRegularizationType.NONE, regularization_scale=7.0)
    )
    applied = LinearRegression(sgd(0.05, regularization_type="L2", regularization_scale=7.0))
    for network in (plain, ignored, applied):
        network.step()
        network.step()
    assert ignored.parameters() == plain.parameters() != applied.parameters()


def test_row_14_labels_are_writable_and_tensors_hash_by_identity() -> None:
    tensor, equal = tg.MLCTensor(data=POINTS), tg.MLCTensor(data=POINTS)
    assert tensor.label == f"data{tensor.tensor_id}"
    tensor.label = "points"
    by_label, by_tensor = {tensor.label: 1}, {tensor: 1, equal: 2}
    assert by_label["points"] == 1
    assert by_tensor[tensor] == 1
    assert tensor == tensor
    assert tensor != equal
    assert copy.copy(tensor) not in by_tensor


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
def test_row_17_negative_rates_and_scales(device: str) -> None:
    """p -= lr (g + s p) with lr and s below zero."""
    dtype = "float64" if device == "reference" else "float32"
    network = LinearRegression(
        sgd(-0.01, regularization_type="L2", regularization_scale=-0.5), device, dtype
    )
    weight, bias = 0.0, 0.0
    for _ in range(3):
        network.step()
        error = weight * POINTS + bias - LABELS
        weight, bias = (
            weight + 0.01 * (float((2 * error * POINTS).mean()) - 0.5 * weight),
            bias + 0.01 * (float((2 * error).mean()) - 0.5 * bias),
        )
    assert network.parameters() == pytest.approx((weight, bias), rel=1e-6)


def test_row_20_a_training_graph_is_a_calculator() -> None:
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


def test_row_21_one_optimizer_for_several_graphs() -> None:
    """time_step is the optimizer's: it counts the updates of all graphs that share it."""
    optimizer = tg.MLCAdamOptimizer(learning_rate=0.3)
    first, second = LinearRegression(optimizer), LinearRegression(optimizer)
    assert optimizer.time_step == 1
    for k in range(1, 4):
        first.step()
        second.step()
        assert optimizer.time_step == 2 * k + 1
    # The moments are each parameter's own: with the steps it counted, a lone graph does the same.
    alone = LinearRegression(tg.MLCAdamOptimizer(learning_rate=0.3))
    for step in (1, 3, 5):
        weight, bias = alone.parameters()
        fresh = tg.MLCAdamOptimizer(learning_rate=0.3, time_step=step)
        alone.training.compile_optimizer(fresh)
        alone.step()
    assert first.parameters() == pytest.approx(alone.parameters(), rel=1e-9)
    assert (weight, bias) != alone.parameters()


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_row_22_optional_parameters_may_be_missing(device: str) -> None:
    x = tg.MLCTensor(shape=[4, 2, 3, 3])
    graph = tg.MLCGraph()
    weights = numbers(3, 2)
    tg.sequential(
        graph,
        x,
        [
            tg.MLCBatchNormalizationLayer(
                feature_channel_count=2,
                mean=tg.MLCTensor(data=np.array([1, 2], np.float32)),
                variance=tg.MLCTensor(data=np.array([4, 9], np.float32)),
                variance_epsilon=1e-5,
            ),
            tg.MLCConvolutionLayer(
                weights=tg.MLCTensor(data=weights.reshape(1, 6, 1, 1).copy()),
                descriptor=descriptor(2, 3),
            ),
        ],
    )
    values = numbers(4, 2, 3, 3)
    normal = (values - np.reshape([1, 2], (2, 1, 1))) / np.sqrt(
        np.reshape([4, 9], (2, 1, 1)) + 1e-5
    )
    expected = np.einsum("oc,nchw->nohw", weights, normal)
    result = infer(inference_of(graph, device, x=x), {"x": values})
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def resident_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.search(r"VmRSS:\s+(\d+)", status).group(1))


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


def test_row_24_label_data_too_short() -> None:
    network = LinearRegression(sgd())
    arguments = network.arguments()
    arguments["loss_labels_data"] = {"y": LABELS[:3]}
    with pytest.raises(ValueError, match=r"'y'.*4, 1.*3, 1"):
        network.training.execute(options=SYNCHRONOUS, **arguments)
    assert network.parameters() == (0, 0)
    assert network.step() == pytest.approx(69)  # usable after the mistake


def test_row_24_a_layer_that_is_no_loss() -> None:
    x, y = tg.MLCTensor(shape=[4, 1]), tg.MLCTensor(shape=[4, 1])
    graph = tg.MLCGraph()
    graph.node(tg.MLCActivationLayer.relu(), source=x)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph], loss_layer=tg.MLCActivationLayer.sigmoid(), optimizer=sgd()
    )
    training.add_inputs({"x": x}, loss_labels={"y": y})
    with pytest.raises(ValueError, match="expected a loss layer"):
        training.compile(options="none", device="cpu")


def test_row_24_an_empty_graph() -> None:
    for executable in (
        tg.MLCTrainingGraph(graph_objects=[tg.MLCGraph()]),
        tg.MLCInferenceGraph(graph_objects=[]),
    ):
        with pytest.raises(ValueError, match="at least one layer"):
            executable.compile(options="none", device="cpu")


def test_row_24_unknown_enum_values() -> None:
    with pytest.raises((ValueError, TypeError), match=r"(?i)mean"):
        tg.MLCLossLayer.mean_squared_error(reduction_type="average")
    with pytest.raises(ValueError, match="99"):
        tg.MLCActivationType(99)
    with pytest.raises((ValueError, TypeError), match=r"(?i)float32"):
        tg.MLCTensor(shape=[1], data_type="float31")
    network = LinearRegression(sgd())
    with pytest.raises(ValueError, match="reference"):
        network.training.compile(options="none", device="abacus")
    with pytest.raises((ValueError, TypeError), match=r"(?i)synchronous"):
        network.training.execute(options="asynchronously", **network.arguments())


def test_row_24_execution_before_any_data() -> None:
    network = LinearRegression(sgd())
    with pytest.raises(ValueError, match="'x', 'y'"):
        network.training.execute_forward(options=SYNCHRONOUS)
    with pytest.raises(ValueError, match="execute_forward"):
        network.training.execute_gradient(options=SYNCHRONOUS)
    with pytest.raises(ValueError, match="execute_gradient"):
        network.training.execute_optimizer_update(options=SYNCHRONOUS)


def test_row_24_unknown_names_and_layers_that_do_not_fit() -> None:
    network = LinearRegression(sgd())
    arguments = network.arguments()
    arguments["inputs_data"] = {"z": POINTS}
    with pytest.raises(ValueError, match=r"'x'.*'z'"):
        network.training.execute(options=SYNCHRONOUS, **arguments)
    graph = tg.MLCGraph()
    layer = tg.MLCConvolutionLayer(descriptor=descriptor(3, 8, (3, 3)))
    layer.label = "stem"
    with pytest.raises(ValueError, match=r"3.*4.*'stem'"):
        graph.node(layer, source=tg.MLCTensor(shape=[1, 4, 8, 8]))


# --- processes -----------------------------------------------------------------------------------


def child(network: LinearRegression, answer: "multiprocessing.Queue[str]") -> None:
    try:
        network.step()
        answer.put("trained")
    except RuntimeError as error:
        answer.put(f"{type(error).__name__}: {error}")


def test_a_forked_child_says_so_instead_of_hanging() -> None:
    network = LinearRegression(sgd(), "cpu", "float32")
    network.step()
    context = multiprocessing.get_context("fork")
    answer: multiprocessing.Queue[str] = context.Queue()
    process = context.Process(target=child, args=(network, answer))
    process.start()
    text = answer.get(timeout=30)
    process.join(30)
    assert text.startswith("DeviceError: ")
    assert "spawn" in text
    network.step()  # the parent goes on
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss > 0
