"""What counts as data for a tensor, and what is copied, converted or refused."""

import array
import gc
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import traingraph as tg
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


def test_lists_of_numbers_are_taken(through: Callable[..., np.ndarray]) -> None:
    np.testing.assert_array_equal(through(VALUES.tolist()), VALUES)
    np.testing.assert_array_equal(through(((1, 2, 3), (4, 5, True))), [[1, 2, 3], [4, 5, 1]])
    with pytest.raises(ValueError, match=r"expected shape \(2, 3\) but got \(6,\)"):
        through([0.0] * 6)
    for wrong in ([[1, 2, 3], [4, 5]], [["a", "b", "c"]] * 2, [[1j, 2, 3]] * 2):
        with pytest.raises(TypeError, match="for input 'x'"):
            through(wrong)


def test_tensors_of_lists() -> None:
    assert tg.MLCTensor(data=[[1.5, 2.0]]).descriptor.data_type == tg.MLCDataType.FLOAT32
    assert tg.MLCTensor(data=[1, 2]).descriptor.data_type == tg.MLCDataType.INT32
    assert tg.MLCTensor(data=[1, 2**40]).descriptor.data_type == tg.MLCDataType.INT64
    assert tg.MLCTensor(data=[True, False]).descriptor.data_type == tg.MLCDataType.BOOLEAN
    np.testing.assert_array_equal(tg.MLCTensor(data=[1, 2], data_type="float64").data, [1.0, 2.0])
    with pytest.raises(TypeError, match="int32"):
        tg.MLCTensor(data=[1.5], data_type="int32")


@pytest.mark.parametrize("data", [None, "text"], ids=["none", "text"])
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


def cross_entropy() -> tuple[MLCTrainingGraph, dict[str, MLCTensor]]:
    """The softmax cross entropy of two rows with integer labels, and the tensors of both."""
    x, y = MLCTensor(shape=[2, 3]), MLCTensor(shape=[2], data_type=MLCDataType.INT32)
    graph = MLCGraph()
    graph.node(MLCActivationLayer.relu(), source=x)
    training = MLCTrainingGraph(
        graph_objects=[graph], loss_layer=MLCLossLayer.softmax_cross_entropy("mean")
    )
    training.add_inputs({"x": x}, loss_labels={"y": y})
    training.compile(device="cpu")
    return training, {"x": x, "y": y}


@pytest.fixture
def classes() -> Callable[[Any], Any]:
    """That loss where all scores are equal."""

    def run(labels: Any) -> Any:
        training, _ = cross_entropy()
        zeros = np.zeros((2, 3), np.float32)
        return training.execute(inputs_data={"x": zeros}, loss_labels_data={"y": labels}).result

    return run


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8, bool])
def test_integer_labels(classes: Callable[[Any], Any], dtype: Any) -> None:
    assert classes(np.array([0, 1], dtype)) == pytest.approx(np.log(3))


@pytest.mark.parametrize("value", [2**31, 2**40, 2**63, -(2**31) - 1, 1 - 2**40, -(2**63)])
def test_integers_that_do_not_fit(classes: Callable[[Any], Any], value: int) -> None:
    kind = "uint64" if value == 2**63 else "int64"
    with pytest.raises(TypeError, match=f"expected int32 for loss label 'y' but got {kind} with"):
        classes(np.array([0, value], kind))


@pytest.mark.parametrize("name", ["int8", "uint8", "int32", "int64"])
def test_the_range_of_each_integer_type(name: str) -> None:
    """Numbers at its ends pass, and the call then asks for a compiled graph; the next do not."""
    limits, x = np.iinfo(name), MLCTensor(shape=[2], data_type=name)
    fits, refused = (ValueError, "a compiled graph"), (TypeError, f"{name} .* out of its range")
    for kind in (np.iinfo("int64"), np.iinfo("uint64")):
        for number in (limits.min, limits.max, limits.min - 1, limits.max + 1, 1 - 2**40, 2**40):
            if not kind.min <= number <= kind.max:
                continue
            error, text = fits if limits.min <= number <= limits.max else refused
            for numbers in ([0, number], [number, 0]):
                data = {"x": np.array(numbers, kind.dtype)}
                with pytest.raises(error, match=f"expected {text}"):
                    MLCGraph().bind_and_write_data(data, for_inputs={"x": x})


def test_floats_are_not_integers(classes: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="expected int32 for loss label 'y' but got float32"):
        classes(np.zeros(2, np.float32))


def test_classes_out_of_range_name_row_and_value(classes: Callable[[Any], Any]) -> None:
    with pytest.raises(ValueError, match=r"1.*3|3.*1"):
        classes(np.array([0, 3], np.int32))


def test_classes_written_before_the_passes_are_checked_too() -> None:
    training, tensors = cross_entropy()
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
    with pytest.raises(ValueError, match="none is declared; declare them by add_inputs; got 'y'"):
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


def test_arrays_let_go_of_what_they_show() -> None:
    """What lies behind a tensor lives as long as an array over it, and no longer."""
    values = np.ones(4, np.float32)
    alive, calls = weakref.ref(values), []
    tensors = [
        MLCTensor(data=values),
        MLCTensor(
            shape=[4],
            data=MLCTensorData(
                bytes_no_copy=bytearray(16), length=16, deallocator=lambda _, n: calls.append(n)
            ),
        ),
    ]
    arrays = [tensor.data for tensor in tensors for _ in range(3)]
    del values, tensors
    gc.collect()
    assert alive() is not None
    assert not calls
    del arrays
    gc.collect()
    assert alive() is None
    assert calls == [16]


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_results_do_not_pile_up_in_memory(device: str) -> None:
    """150 results of 1 MiB each; of those that are let go, a few may be kept for the next run."""
    pages = Path("/proc/self/statm")
    if not pages.exists():
        pytest.skip("no /proc/self/statm")
    x = MLCTensor(shape=[256, 1024])
    graph = MLCGraph()
    graph.node(MLCActivationLayer.relu(), source=x)
    inference = MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    inference.compile(device=device)
    data = {"x": np.ones((256, 1024), np.float32)}

    def used_after(count: int) -> int:
        for _ in range(count):
            assert inference.execute(inputs_data=data, options="synchronous").result[-1, -1] == 1
        return int(pages.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = used_after(10)
    assert used_after(150) - before < 50 * 2**20


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
