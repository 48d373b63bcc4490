"""What descriptors and tensors know of sequences of several lengths."""

import copy
from typing import Any

import numpy as np
import pytest

from traingraph import MLCTensor, MLCTensorDescriptor, MLCTensorParameter, ShapeError


def descriptor(lengths: list[int], sorted_sequences: bool, **keywords: Any) -> MLCTensorDescriptor:
    shape = keywords.pop("shape", [len(lengths), max(lengths, default=1), 2])
    return MLCTensorDescriptor(
        shape=shape,
        sequence_lengths=lengths,
        sorted_sequences=sorted_sequences,
        data_type=keywords.pop("data_type", "float32"),
    )


@pytest.mark.parametrize(
    ("lengths", "per_step"),
    [
        ([3, 2, 1], [3, 2, 1]),
        ([3, 3], [2, 2, 2]),
        ([1, 4, 2], [3, 2, 1, 1]),
        ([5], [1] * 5),
        ([1, 1], [2]),
    ],
)
def test_sequences_per_step(lengths: list[int], per_step: list[int]) -> None:
    d = descriptor(lengths, False)
    assert d.sequence_lengths == lengths
    assert d.sorted_sequences is False
    assert d.batch_size_per_sequence_step == per_step
    assert len(per_step) == max(lengths)


def test_without_sequences() -> None:
    d = MLCTensorDescriptor(shape=[2, 3, 4])
    assert d.sequence_lengths is None
    assert d.sorted_sequences is False
    assert d.batch_size_per_sequence_step is None


def test_padding_beyond_the_longest() -> None:
    d = descriptor([2, 1], True, shape=[2, 5, 3], data_type="float64")
    assert d.shape == [2, 5, 3]
    assert d.data_type.name == "FLOAT64"
    assert d.batch_size_per_sequence_step == [2, 1]


def test_sorted_sequences_descend() -> None:
    assert descriptor([4, 4, 1], True).sorted_sequences is True
    with pytest.raises(ValueError, match=r"sorted sequences to descend but got \(1, 2\)"):
        descriptor([1, 2], True)
    assert descriptor([1, 2], False).sequence_lengths == [1, 2]


def test_wrong_sequences() -> None:
    with pytest.raises(ShapeError, match=r"3 sequence lengths, one per .* but got \(2, 1\)"):
        descriptor([2, 1], True, shape=[3, 2, 2])
    with pytest.raises(ShapeError, match=r"from 1 to the 2 steps of \(2, 2, 2\) but got \(3, 1\)"):
        descriptor([3, 1], True, shape=[2, 2, 2])
    with pytest.raises(ShapeError, match=r"from 1 .* but got \(2, 0\)"):
        descriptor([2, 0], True)
    with pytest.raises(ShapeError, match=r"\(batch, steps, features\) but got \(2, 3\)"):
        descriptor([2, 1], True, shape=[2, 3])
    with pytest.raises(ShapeError, match="sequence lengths, one per"):
        descriptor([], True, shape=[1, 1, 2])


def test_copies_and_equality() -> None:
    d = descriptor([3, 1], True)
    for other in (d.copy(), copy.copy(d), copy.deepcopy(d)):
        assert other == d
        assert hash(other) == hash(d)
        assert other.sequence_lengths == [3, 1]
        assert other.sorted_sequences is True
    assert d != descriptor([3, 1], False)
    assert d != descriptor([3, 2], True)
    assert d != MLCTensorDescriptor(shape=d.shape)
    assert "sequences of (3, 1)" in repr(d)
    tensor = MLCTensor(descriptor=d)
    assert tensor.copy().descriptor == tensor.descriptor == d


FORM = {"sequence_lengths": [3, 1], "sorted_sequences": True, "feature_channel_count": 2}


def test_random_unless_told_otherwise() -> None:
    tensor = MLCTensor(**FORM, batch_size=2)
    assert tensor.descriptor == descriptor([3, 1], True)
    assert tensor.data.shape == (2, 3, 2)
    assert np.unique(tensor.data).size == 12
    normal = MLCTensor(**FORM, batch_size=2, random_initializer_type="xavier")
    assert normal.descriptor == tensor.descriptor
    assert (np.asarray(normal) < 0).any()


def test_with_and_without_data() -> None:
    assert MLCTensor(**FORM, batch_size=2, data=None).data is None
    array = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    tensor = MLCTensor(**FORM, batch_size=2, data=array)
    np.testing.assert_array_equal(tensor.data, array)
    assert tensor.descriptor.sequence_lengths == [3, 1]
    wide = MLCTensor(**FORM, batch_size=2, data=array.astype(np.float64))
    assert wide.descriptor.data_type.name == "FLOAT64"
    assert MLCTensor(**FORM, batch_size=2, data=array.tobytes()).data[1, 2, 1] == 11
    same = MLCTensor(sequence_length=3, feature_channel_count=2, batch_size=2, data=array)
    np.testing.assert_array_equal(same.data, array)
    assert same.descriptor.sequence_lengths == [3, 3]
    with pytest.raises(ValueError, match=r"shape \(2, 3, 2\) but got \(2, 2, 3\)"):
        MLCTensor(**FORM, batch_size=2, data=array.reshape(2, 2, 3))


def test_several_sequences_in_a_batch_of_one() -> None:
    """Apple's own form: three sequences, batch size 1."""
    form = {**FORM, "sequence_lengths": [3, 2, 1]}
    d = MLCTensor(**form, batch_size=1).descriptor
    assert d.shape == [1, 3, 2]
    assert d.sequence_lengths == d.batch_size_per_sequence_step == [3, 2, 1]
    with pytest.raises(ShapeError, match="2 sequence lengths"):
        MLCTensor(**form, batch_size=2)
    with pytest.raises(ShapeError):
        MLCTensor(**{**form, "sequence_lengths": []}, batch_size=1)


def test_optimizer_data_must_belong_somewhere() -> None:
    tensor = MLCTensor(shape=[2], fill_with_data=1.0)
    one = [np.zeros(2, np.float32)]
    with pytest.raises(TypeError, match="MLCTensorOptimizerDeviceData"):
        tensor.bind_optimizer_data(one, device_data=[3])
    with pytest.raises(ValueError, match="as many device_data as data, 1, but got 0"):
        tensor.bind_optimizer_data(one, device_data=[])
    assert tensor.bind_optimizer_data(one)
    assert MLCTensorParameter(tensor=tensor, optimizer_data=one).is_updatable
