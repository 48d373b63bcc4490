"""What counts as data for a tensor, and what is copied, converted or refused."""

import array
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from traingraph import (
    Error,
    MLCActivationLayer,
    MLCDataType,
    MLCGraph,
    MLCInferenceGraph,
    MLCLossLayer,
    MLCTensor,
    MLCTensorData,
    MLCTrainingGraph,
)


class Buffered:
    """An array that offers itself by DLPack alone."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.values.__dlpack__(**keywords)

    def __dlpack_device__(self) -> Any:
        return self.values.__dlpack_device__()


@pytest.fixture
def through() -> Callable[..., np.ndarray]:
    """Sends data through a ReLU of a (2, 3) tensor and returns what comes out."""

    def run(data: Any, data_type: str = "float32", device: str = "cpu", **keywords: Any) -> Any:
        x = MLCTensor(shape=[2, 3], data_type=data_type)
        graph = MLCGraph()
        result = graph.node(MLCActivationLayer.relu(), source=x)
        inference = MLCInferenceGraph(graph_objects=[graph])
        inference.add_inputs({"x": x})
        inference.add_outputs({"result": result})
        inference.compile(device=device)
        return inference.execute(inputs_data={"x": data}, **keywords).result

    return run


VALUES = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    "data",
    [
        VALUES,
        VALUES.astype(np.float64),
        VALUES.astype(np.float16),
        VALUES.astype(np.int64),
        VALUES.astype(np.uint8),
        VALUES.astype(">f4"),
        np.asfortranarray(VALUES),
        np.repeat(VALUES, 2, axis=1)[:, ::2],
        VALUES.reshape(2, 1, 3),
        memoryview(VALUES),
        Buffered(VALUES),
        VALUES.tobytes(),
        bytearray(VALUES.tobytes()),
        memoryview(VALUES.tobytes()),
        VALUES.tobytes() + b"rest",
        MLCTensorData(bytes_no_copy=bytearray(VALUES.tobytes())),
        MLCTensorData(immutable_bytes_no_copy=VALUES.tobytes()),
        MLCTensor(data=VALUES.copy()),
    ],
    ids=[
        "float32", "float64", "float16", "int64", "uint8", "big_endian", "fortran", "strided",
        "extents_of_1", "memoryview", "dlpack", "bytes", "bytearray", "bytes_view", "longer",
        "tensor_data", "immutable_tensor_data", "tensor",
    ],
)  # fmt: skip
def test_accepted(through: Callable[..., np.ndarray], data: Any) -> None:
    np.testing.assert_array_equal(through(data), VALUES)


def test_misaligned_arrays_are_copied(through: Callable[..., np.ndarray]) -> None:
    raw = np.zeros(25, np.uint8)
    values = raw[1:].view(np.float32).reshape(2, 3)
    values[:] = VALUES
    assert not values.flags.aligned
    np.testing.assert_array_equal(through(values), VALUES)


def test_booleans_become_floats(through: Callable[..., np.ndarray]) -> None:
    np.testing.assert_array_equal(through(VALUES > 2), (VALUES > 2).astype(np.float32))


def test_array_module_is_typed(through: Callable[..., np.ndarray]) -> None:
    with pytest.raises(ValueError, match="x"):
        through(array.array("f", range(6)))  # shape (6,) is not (2, 3)


@pytest.mark.parametrize("data", [[0.0] * 6, None, 1.0, "text"], ids=["list", "none", "n", "text"])
def test_other_objects_are_refused(through: Callable[..., np.ndarray], data: Any) -> None:
    with pytest.raises(TypeError, match=r"expected an array or bytes for input 'x' but got"):
        through(data)


@pytest.mark.parametrize("dtype", [np.complex64, object, "U4"])
def test_other_types_are_refused(through: Callable[..., np.ndarray], dtype: Any) -> None:
    with pytest.raises(TypeError, match=r"expected float32 for input 'x' but got") as caught:
        through(VALUES.astype(dtype))
    assert isinstance(caught.value, Error)


def test_shapes_are_checked(through: Callable[..., np.ndarray]) -> None:
    with pytest.raises(ValueError, match=r"\(3, 2\)"):
        through(VALUES.reshape(3, 2))


def test_short_bytes_are_refused(through: Callable[..., np.ndarray]) -> None:
    with pytest.raises(ValueError, match="x"):
        through(VALUES.tobytes()[:-1])


def test_smaller_batch(through: Callable[..., np.ndarray]) -> None:
    np.testing.assert_array_equal(through(VALUES[:1], batch_size=1), VALUES[:1])


@pytest.fixture
def classes() -> Callable[[Any], Any]:
    """The softmax cross entropy of two rows of equal scores with integer labels."""

    def run(labels: Any) -> Any:
        x = MLCTensor(shape=[2, 3])
        y = MLCTensor(shape=[2], data_type=MLCDataType.INT32)
        graph = MLCGraph()
        graph.node(MLCActivationLayer.relu(), source=x)
        training = MLCTrainingGraph(
            graph_objects=[graph], loss_layer=MLCLossLayer.softmax_cross_entropy("mean")
        )
        training.add_inputs({"x": x}, loss_labels={"y": y})
        training.compile(device="cpu")
        zeros = np.zeros((2, 3), np.float32)
        return training.execute(inputs_data={"x": zeros}, loss_labels_data={"y": labels}).result

    return run


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8, bool])
def test_integer_labels(classes: Callable[[Any], Any], dtype: Any) -> None:
    assert classes(np.array([0, 1], dtype)) == pytest.approx(np.log(3))


def test_integers_that_do_not_fit(classes: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="expected int32 for loss label 'y' but got int64 with"):
        classes(np.array([0, 2**40]))


def test_floats_are_not_integers(classes: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="expected int32 for loss label 'y' but got float32"):
        classes(np.zeros(2, np.float32))


def test_classes_out_of_range_name_row_and_value(classes: Callable[[Any], Any]) -> None:
    with pytest.raises(ValueError, match=r"1.*3|3.*1"):
        classes(np.array([0, 3], np.int32))


def test_classes_written_before_the_passes_are_checked_too() -> None:
    x, y = MLCTensor(shape=[2, 3]), MLCTensor(shape=[2], data_type="int32")
    graph = MLCGraph()
    graph.node(MLCActivationLayer.relu(), source=x)
    training = MLCTrainingGraph(
        graph_objects=[graph], loss_layer=MLCLossLayer.softmax_cross_entropy("mean")
    )
    training.add_inputs({"x": x}, loss_labels={"y": y})
    training.compile(device="cpu")
    tensors = {"x": x, "y": y}
    data = {"x": np.zeros((2, 3), np.float32), "y": np.array([0, 3], np.int32)}
    with pytest.raises(ValueError, match=r"\[labels 'y'\] .* 0 to 2 or -1 but got 3 in row 1"):
        training.bind_and_write_data(data, for_inputs=tensors)
    data["y"][1] = -1
    training.bind_and_write_data(data, for_inputs=tensors)
    assert training.execute_forward().result == pytest.approx(np.log(3) / 2)


def test_integers_are_not_booleans() -> None:
    flags = MLCTensor(shape=[2], data_type="bool")
    with pytest.raises(TypeError, match="expected bool"):
        MLCGraph().bind_and_write_data({"f": np.ones(2, np.int8)}, for_inputs={"f": flags})


def test_outputs_are_written_in_place(through: Callable[..., np.ndarray]) -> None:
    array_output = np.zeros((2, 3), np.float32)
    through(VALUES, outputs_data={"result": array_output})
    np.testing.assert_array_equal(array_output, VALUES)
    byte_output = bytearray(24)
    through(VALUES, outputs_data={"result": byte_output})
    assert bytes(byte_output) == VALUES.tobytes()


READ_ONLY = np.zeros((2, 3), np.float32)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        (np.zeros((2, 3), np.float64), "float32"),
        (np.zeros((2, 6), np.float32)[:, ::2], "contiguous"),
        (READ_ONLY, "writable"),
        (bytes(24), "writable"),
        (np.zeros((3, 2), np.float32), "result"),
        (bytearray(23), "result"),
    ],
    ids=["dtype", "strided", "read_only", "bytes", "shape", "short"],
)
def test_wrong_outputs(through: Callable[..., np.ndarray], output: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        through(VALUES, outputs_data={"result": output})


def test_undeclared_names_list_the_declared_ones(through: Callable[..., np.ndarray]) -> None:
    with pytest.raises(ValueError, match="outputs_data: 'result'; got 'other'"):
        through(VALUES, outputs_data={"other": np.zeros((2, 3), np.float32)})
    with pytest.raises(ValueError, match="none is declared; got 'y'"):
        through(VALUES, loss_labels_data={"y": VALUES})


def test_keys_are_text(through: Callable[..., np.ndarray]) -> None:
    with pytest.raises(TypeError, match="names as keys of outputs_data"):
        through(VALUES, outputs_data={1: VALUES})
    with pytest.raises(TypeError, match="a dict of names"):
        through(VALUES, outputs_data=[VALUES])


def test_tensor_data_shows_its_bytes() -> None:
    memory = bytearray(range(8))
    data = MLCTensorData(bytes_no_copy=memory, length=4)
    assert data.length == len(data) == 4
    data.bytes[0] = 99
    assert memory[0] == 99
    frozen = MLCTensorData(immutable_bytes_no_copy=bytes(4))
    assert frozen.bytes.readonly
    with pytest.raises(ValueError, match="immutable_bytes_no_copy"):
        MLCTensorData(bytes_no_copy=bytes(4))
    with pytest.raises(ValueError, match="at most 8"):
        MLCTensorData(bytes_no_copy=memory, length=9)
    with pytest.raises(TypeError, match="buffer protocol"):
        MLCTensorData(bytes_no_copy=3)


def test_tensor_data_deallocator() -> None:
    calls = []
    data = MLCTensorData(
        bytes_no_copy=bytearray(8),
        length=4,
        deallocator=lambda memory, length: calls.append(length),
    )
    tensor = MLCTensor(shape=[1], data=data)
    del data
    assert calls == []
    del tensor
    assert calls == [4]
