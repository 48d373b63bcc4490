"""MLCTensor: initialisers, its host copy, what Python sees of it."""

import copy
import gc
import sys

import numpy as np
import pytest

from traingraph import (
    MLCDataType,
    MLCPlatform,
    MLCTensor,
    MLCTensorData,
    MLCTensorDescriptor,
    MLCTensorParameter,
)


def test_descriptor() -> None:
    d = MLCTensorDescriptor(shape=[2, 3, 4, 5])
    assert d.shape == [2, 3, 4, 5]
    assert d.stride == [240, 80, 20, 4]
    assert d.dimension_count == 4
    assert d.tensor_allocation_size_in_bytes == 480
    assert d.data_type is MLCDataType.FLOAT32
    assert MLCTensorDescriptor.max_tensor_dimensions() == 4
    assert d == MLCTensorDescriptor(shape=(2, 3, 4, 5))
    assert hash(d) == hash(d.copy())
    assert d != MLCTensorDescriptor(shape=(2, 3, 4, 5), data_type="int8")


@pytest.mark.parametrize(
    ("keywords", "shape"),
    [
        ({"width": 5, "height": 6, "feature_channel_count": 7, "batch_size": 8}, [8, 7, 6, 5]),
        (
            {
                "convolution_weights_with_width": 2,
                "height": 3,
                "input_feature_channel_count": 4,
                "output_feature_channel_count": 5,
            },
            [1, 20, 3, 2],
        ),
        (
            {
                "convolution_weights_with_input_feature_channel_count": 4,
                "output_feature_channel_count": 5,
            },
            [1, 20, 1, 1],
        ),
        ({"convolution_biases_with_feature_channel_count": 5}, [1, 5, 1, 1]),
    ],
)
def test_descriptor_forms(keywords: dict[str, int], shape: list[int]) -> None:
    assert MLCTensorDescriptor(**keywords).shape == shape
    assert MLCTensorDescriptor(**keywords, data_type="float16").data_type is MLCDataType.FLOAT16


@pytest.mark.parametrize("shape", [[], [0], [1, -1], [1] * 5])
def test_wrong_shapes(shape: list[int]) -> None:
    with pytest.raises(ValueError, match=r"shape|axes|extent|dimension"):
        MLCTensorDescriptor(shape=shape)


def test_labels_and_identity() -> None:
    first, second = MLCTensor(shape=[1]), MLCTensor(shape=[1])
    assert second.tensor_id == first.tensor_id + 1
    assert first.label == f"data{first.tensor_id}"
    first.label = "weights"
    assert first.label == "weights"
    assert first != second
    assert first == first
    assert first != 3
    assert {first: 1, second: 2}[first] == 1
    assert "'weights' (1) float32" in repr(first).replace("(1,)", "(1)")
    assert first.device is None


def test_without_data() -> None:
    tensor = MLCTensor(shape=[2, 3], data_type="int32")
    assert tensor.data is None
    assert tensor.has_valid_numerics
    assert tensor.optimizer_data == []
    assert tensor.optimizer_device_data == []
    with pytest.raises(ValueError, match="has none"):
        np.asarray(tensor)


def test_array_gives_shape_and_type() -> None:
    array = np.arange(6, dtype=np.int64).reshape(2, 3)
    tensor = MLCTensor(data=array)
    assert tensor.descriptor.shape == [2, 3]
    assert tensor.descriptor.data_type is MLCDataType.INT64
    np.testing.assert_array_equal(tensor.data, array)


def test_fitting_memory_is_used_in_place() -> None:
    array = np.zeros((2, 3), np.float32)
    tensor = MLCTensor(shape=[2, 3], data=array, data_type=MLCDataType.FLOAT32)
    array[1, 2] = 7
    assert np.shares_memory(tensor.data, array)
    assert tensor.data[1, 2] == 7


def test_read_only_memory_is_copied() -> None:
    array = np.ones(3, np.float32)
    array.flags.writeable = False
    tensor = MLCTensor(data=array)
    assert not np.shares_memory(tensor.data, array)
    np.testing.assert_array_equal(tensor.data, array)


@pytest.mark.parametrize(
    ("array", "problem"),
    [
        (np.zeros(3, np.float64), "float32 memory .* but got float64"),
        (np.zeros(6, np.float32)[::2], "contiguous"),
        (np.zeros(3, ">f4"), "float32"),
    ],
)
def test_memory_of_a_parameter_is_never_converted(array: np.ndarray, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        MLCTensor(shape=[3], data=array, data_type="float32")


def test_raw_bytes() -> None:
    raw = bytearray(np.arange(3, dtype=np.float32).tobytes() + b"more")
    tensor = MLCTensor(shape=[3], data=raw)
    assert tensor.data.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match=r"16|4"):
        MLCTensor(shape=[5], data=raw)
    with pytest.raises(ValueError, match="expected shape"):
        MLCTensor(data=raw)


def test_host_copy_is_a_read_only_view_that_keeps_the_tensor() -> None:
    tensor = MLCTensor(shape=[3], fill_with_data=2.0)
    view = tensor.data
    assert np.shares_memory(view, tensor.data)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    del tensor
    gc.collect()
    assert view.tolist() == [2, 2, 2]


def test_arrays_live_as_long_as_their_tensor() -> None:
    array = np.ones(3, np.float32)
    before = sys.getrefcount(array)
    tensor = MLCTensor(data=array)
    assert sys.getrefcount(array) == before + 1
    del tensor
    assert sys.getrefcount(array) == before


def test_fill_converts_to_the_type() -> None:
    assert MLCTensor(shape=[2], fill_with_data=7, data_type="int32").data.tolist() == [7, 7]
    assert MLCTensor(shape=[2], fill_with_data=7, data_type="bool").data.tolist() == [True, True]
    image = MLCTensor(width=2, height=1, feature_channel_count=1, batch_size=1, fill_with_data=0.5)
    assert image.data.shape == (1, 1, 1, 2)


def test_random_values_follow_the_seed() -> None:
    def draw() -> np.ndarray:
        return np.array(MLCTensor(shape=[64, 64], random_initializer_type="xavier").data)

    MLCPlatform.set_rng_seed_to(7)
    assert MLCPlatform.get_rng_seed() == 7
    first, second = draw(), draw()
    MLCPlatform.set_rng_seed_to(7)
    np.testing.assert_array_equal(draw(), first)
    assert not np.array_equal(first, second)
    with pytest.raises(ValueError, match=r"seed from 0 to 2\^63 - 1 but got -1$"):
        MLCPlatform.set_rng_seed_to(-1)
    with pytest.raises(ValueError, match=r"seed from 0 to 2\^63 - 1 but got 9223372036854775"):
        MLCPlatform.set_rng_seed_to(2**63)
    assert MLCPlatform.get_rng_seed() == 7


def test_sequences() -> None:
    shape = {"sequence_length": 3, "feature_channel_count": 2, "batch_size": 4}
    assert MLCTensor(**shape).data.shape == (4, 3, 2)
    d = MLCTensor(**shape).descriptor
    assert d.sequence_lengths == [3, 3, 3, 3]
    assert d.batch_size_per_sequence_step == [4, 4, 4]
    assert MLCTensor(**shape, data=None).data is None
    array = np.zeros((4, 3, 2), np.float32)
    assert np.shares_memory(MLCTensor(**shape, data=array).data, array)


def test_protocols() -> None:
    array = np.arange(4, dtype=np.float32)
    tensor = MLCTensor(data=array)
    assert np.shares_memory(np.asarray(tensor), array)
    assert np.asarray(tensor, dtype=np.float64).dtype == np.float64
    assert not np.shares_memory(np.array(tensor, copy=True), array)
    assert tensor.__dlpack_device__() == (1, 0)
    np.testing.assert_array_equal(np.from_dlpack(tensor), array)


@pytest.mark.parametrize("duplicate", [lambda t: t.copy(), copy.copy, copy.deepcopy])
def test_copies(duplicate: object) -> None:
    tensor = MLCTensor(data=np.arange(4, dtype=np.float32))
    other = duplicate(tensor)  # type: ignore[operator]
    assert other != tensor
    assert other.tensor_id != tensor.tensor_id
    assert not np.shares_memory(other.data, tensor.data)
    np.testing.assert_array_equal(other.data, tensor.data)


def test_copies_keep_optimizer_data() -> None:
    kept = np.arange(4, dtype=np.float32)
    tensor = MLCTensor(shape=[4], fill_with_data=0.0)
    tensor.bind_optimizer_data([kept, MLCTensorData(bytes_no_copy=bytearray(20))])
    kept[:] = 9
    other = tensor.copy()
    tensor.bind_optimizer_data([])
    assert tensor.optimizer_data == []
    assert [data.tolist() for data in other.optimizer_data] == [[0, 1, 2, 3], [0] * 4]


def test_numerics() -> None:
    assert not MLCTensor(data=np.array([1, np.nan], np.float32)).has_valid_numerics
    assert not MLCTensor(data=np.array([1, np.inf], np.float32)).has_valid_numerics
    assert MLCTensor(data=np.array([1, 2], np.float32)).has_valid_numerics
    assert not MLCTensor(data=np.array([1, np.nan], np.float16)).has_valid_numerics
    assert MLCTensor(data=np.array([1, 65504], np.float16)).has_valid_numerics
    bfloat16 = {"shape": [2], "data_type": "bfloat16"}
    for bits, valid in ((0x7F80, False), (0xFFC0, False), (0x7F7F, True)):
        raw = np.array([0x3F80, bits], np.uint16).tobytes()
        assert MLCTensor(data=raw, **bfloat16).has_valid_numerics is valid


def test_16_bits_are_filled() -> None:
    half = MLCTensor(shape=[3], fill_with_data=-1.5, data_type="float16")
    assert half.data.tolist() == [-1.5] * 3
    tensor = MLCTensor(shape=[3], fill_with_data=-1.5, data_type="bfloat16")
    bits = np.zeros(3, np.uint16)
    tensor.copy_data_from_device_memory(bits, synchronize_with_device=False)
    assert bits.tolist() == [0xBFC0] * 3


def test_copy_from_device_memory() -> None:
    tensor = MLCTensor(data=np.arange(4, dtype=np.float32))
    assert tensor.synchronize_data()
    target = np.zeros(4, np.float32)
    assert tensor.copy_data_from_device_memory(target, length=16, synchronize_with_device=False)
    assert target.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="16 writable bytes but got 8"):
        tensor.copy_data_from_device_memory(bytearray(8), length=16)
    with pytest.raises(ValueError, match="read-only"):
        tensor.copy_data_from_device_memory(bytes(16))


def test_bind_and_write_data() -> None:
    tensor = MLCTensor(shape=[4])
    array = np.arange(4, dtype=np.float32)
    assert tensor.bind_and_write_data(array, to="cpu")
    assert tensor.data.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="float32"):
        tensor.bind_and_write_data(array.astype(np.float64))


def test_parameter() -> None:
    tensor = MLCTensor(shape=[4], fill_with_data=0.0)
    parameter = MLCTensorParameter(tensor=tensor)
    assert parameter.tensor == tensor
    assert parameter.is_updatable
    parameter.is_updatable = False
    assert not parameter.is_updatable
    assert "frozen" in repr(parameter)
