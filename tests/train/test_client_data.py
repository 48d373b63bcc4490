"""What clients rely on about data: raw bytes, batches, memory of their own, labels of tensors."""

import copy
import mmap

import numpy as np
import pytest
from client_networks import SYNCHRONOUS, descriptor, inference_of, sgd, training_of
from linear_regression import LABELS, POINTS, LinearRegression, infer

import traingraph as tg


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


def test_row_01_page_aligned_memory_serves_inputs_labels_and_outputs() -> None:
    network = LinearRegression(sgd(0.0), "cpu", "float32")
    network.training.add_outputs({"prediction": network.prediction})
    expected = network.step()
    pages = [mmap.mmap(-1, mmap.PAGESIZE) for _ in range(3)]
    pages[0][:16] = POINTS.astype(np.float32).tobytes()
    pages[1][:16] = LABELS.astype(np.float32).tobytes()
    pages[2][:] = b"\x7f" * mmap.PAGESIZE
    raw = [tg.MLCTensorData(bytes_no_copy=page) for page in pages]
    result = network.training.execute(
        inputs_data={"x": raw[0]},
        loss_labels_data={"y": raw[1]},
        outputs_data={"prediction": raw[2]},
        options=SYNCHRONOUS,
    ).result
    assert result == expected
    # What is longer than the tensor stays untouched.
    assert pages[2][:] == bytes(16) + b"\x7f" * (mmap.PAGESIZE - 16)
    for name in ("loss_labels_data", "outputs_data"):
        arguments = {"inputs_data": {"x": raw[0]}, "loss_labels_data": {"y": raw[1]}}
        key = "y" if name == "loss_labels_data" else "prediction"
        arguments[name] = {key: bytearray(15)}
        with pytest.raises(ValueError, match=rf"'{key}'.*16.*15"):
            network.training.execute(options=SYNCHRONOUS, **arguments)


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


def test_row_02_a_smaller_batch_of_an_inference() -> None:
    network = LinearRegression(sgd(0.05), "cpu", "float32")
    network.step()
    weight, bias = network.parameters()
    inference = inference_of(network.graph, x=network.x)
    points = POINTS.astype(np.float32)
    for rows in (slice(0, 4), slice(1, 4), slice(3, 4)):
        result = infer(inference, {"x": points[rows]}, batch_size=len(points[rows]))
        np.testing.assert_allclose(result, weight * points[rows] + bias, rtol=1e-6)


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
