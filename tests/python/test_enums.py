"""Enumerations, option sets and the text that stands for them."""

import numpy as np
import pytest

from traingraph import (
    Error,
    MLCActivationDescriptor,
    MLCActivationType,
    MLCConvolutionDescriptor,
    MLCDataType,
    MLCExecutionOptions,
    MLCLossDescriptor,
    MLCLossLayer,
    MLCPaddingPolicy,
    MLCPoolingDescriptor,
    MLCReductionType,
    MLCTensor,
)


def test_additions() -> None:
    assert MLCDataType.FLOAT64 == 101
    assert MLCDataType.BFLOAT16 == 102


def test_options_join() -> None:
    both = MLCExecutionOptions.SYNCHRONOUS | MLCExecutionOptions.PROFILING
    assert both == 6
    assert MLCExecutionOptions.SYNCHRONOUS in both
    assert MLCExecutionOptions.NONE == 0


@pytest.mark.parametrize("value", ["mean", "MEAN", 2, MLCReductionType.MEAN])
def test_enum_from_text_and_raw_value(value: object) -> None:
    descriptor = MLCLossDescriptor(type="huber", reduction_type=value)
    assert descriptor.reduction_type is MLCReductionType.MEAN


def test_wrong_text_lists_the_right_ones() -> None:
    with pytest.raises(ValueError, match=r'"none", "sum", "mean".*got "average"') as caught:
        MLCLossLayer.softmax_cross_entropy(reduction_type="average")
    assert isinstance(caught.value, Error)


def test_unknown_raw_value() -> None:
    with pytest.raises(ValueError, match="got the raw value 77"):
        MLCActivationDescriptor(type=77)


@pytest.mark.parametrize("value", [MLCActivationType.RELU, True, 1.0, None])
def test_other_types_are_refused(value: object) -> None:
    with pytest.raises(TypeError, match=r"\[MLCReductionType\] expected one of"):
        MLCLossDescriptor(type="huber", reduction_type=value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("float32", MLCDataType.FLOAT32),
        (np.float32, MLCDataType.FLOAT32),
        (np.dtype("float64"), MLCDataType.FLOAT64),
        (np.float16, MLCDataType.FLOAT16),
        ("bool", MLCDataType.BOOLEAN),
        (bool, MLCDataType.BOOLEAN),
        (np.int64, MLCDataType.INT64),
        (np.uint8, MLCDataType.UINT8),
        (1, MLCDataType.FLOAT32),
    ],
)
def test_data_types(value: object, expected: MLCDataType) -> None:
    assert MLCTensor(shape=[1], data_type=value).descriptor.data_type is expected


@pytest.mark.parametrize("value", [np.complex64, object(), "float128"])
def test_wrong_data_types(value: object) -> None:
    with pytest.raises((TypeError, ValueError), match='"float32", "float16"'):
        MLCTensor(shape=[1], data_type=value)


def test_sized_padding() -> None:
    policy = MLCPaddingPolicy.sized(y=2, x=1)
    assert isinstance(policy, MLCPaddingPolicy)
    assert policy == MLCPaddingPolicy.USE_PADDING_SIZE
    assert (policy.y, policy.x) == (2, 1)
    assert policy.name == "USE_PADDING_SIZE"
    assert policy.debug_description == "Use Padding Size"
    assert (MLCPaddingPolicy.SAME.y, MLCPaddingPolicy.SAME.x) == (0, 0)

    descriptor = MLCPoolingDescriptor(
        type="max", kernel_sizes=(5, 3), strides=(2, 1), padding_policy=policy
    )
    assert (descriptor.padding_size_in_y, descriptor.padding_size_in_x) == (2, 1)
    again = MLCConvolutionDescriptor(
        kernel_sizes=(5, 3),
        input_feature_channel_count=1,
        output_feature_channel_count=1,
        padding_policy=descriptor.padding_policy,
    )
    assert (again.padding_policy.y, again.padding_policy.x) == (2, 1)


def test_padding_without_sizes() -> None:
    with pytest.raises(ValueError, match=r"MLCPaddingPolicy\.sized\(y=1, x=1\)"):
        MLCPoolingDescriptor(
            type="max",
            kernel_sizes=(2, 2),
            strides=(1, 1),
            padding_policy=MLCPaddingPolicy.USE_PADDING_SIZE,
        )
    with pytest.raises(ValueError, match="at least 0"):
        MLCPaddingPolicy.sized(y=-1, x=0)
    with pytest.raises(TypeError):
        MLCPaddingPolicy.sized(1, 1)
