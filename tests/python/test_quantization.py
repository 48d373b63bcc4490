"""MLCTensor.quantized and dequantized, against NumPy."""

from typing import Any

import numpy as np
import pytest

from traingraph import (
    DataTypeError,
    InvalidArgument,
    MLCConvolutionDescriptor,
    MLCFullyConnectedLayer,
    MLCTensor,
    ShapeError,
)

TARGETS = ["int8", "uint8", "int32"]


def quantized(x: Any, target: str, scale: Any, bias: Any) -> Any:
    limits = np.iinfo(target)
    steps = np.rint(x.astype(np.float64) / np.float64(scale)) + bias
    return np.clip(steps, limits.min, limits.max).astype(target)


def numbers(dtype: Any = np.float32) -> Any:
    return np.random.default_rng(3).normal(0, 20, (2, 3, 4)).astype(dtype)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("bias", [0, 7, -100])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_whole_tensors(target: str, bias: int, dtype: Any) -> None:
    x = numbers(dtype)
    found = MLCTensor(data=x).quantized(to=target, scale=0.25, bias=bias)
    assert found.descriptor.data_type.name == target.upper()
    np.testing.assert_array_equal(found.data, quantized(x, target, 0.25, bias))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_along_an_axis(target: str, axis: int) -> None:
    x = numbers()
    extent = x.shape[axis]
    scale = np.linspace(0.1, 2, extent, dtype=np.float32)
    bias = np.arange(extent, dtype=np.int32)
    shape = [-1 if k == axis else 1 for k in range(3)]
    expected = quantized(x, target, scale.reshape(shape), bias.reshape(shape))
    tensor = MLCTensor(data=x)
    for s, b in ((scale, bias), (MLCTensor(data=scale), MLCTensor(data=bias))):
        found = tensor.quantized(target, scale=s, bias=b, axis=axis)
        np.testing.assert_array_equal(found.data, expected)
        back = found.dequantized("float32", scale=s, bias=b, axis=axis)
        steps = expected.astype(np.float64) - bias.reshape(shape)
        np.testing.assert_array_equal(
            back.data, (steps * scale.reshape(shape).astype(np.float64)).astype(np.float32)
        )


def test_rounding_and_clamping() -> None:
    x = MLCTensor(data=np.array([0.5, 1.5, 2.5, -0.5, -1.5, 1e9, -1e9, np.inf], np.float32))
    assert x.quantized("int8", scale=1.0, bias=0).data.tolist() == [0, 2, 2, 0, -2, 127, -128, 127]
    assert x.quantized("uint8", scale=1.0, bias=3).data.tolist() == [3, 5, 5, 3, 1, 255, 0, 255]
    assert x.quantized("int32", scale=1e-3, bias=0).data[-1] == 2**31 - 1


@pytest.mark.parametrize("dtype", TARGETS)
def test_dequantized(dtype: str) -> None:
    q = np.array([[0, 1, 100], [127, 3, 5]], dtype)
    x = MLCTensor(data=q).dequantized(to="float32", scale=0.5, zero_point=3)
    np.testing.assert_array_equal(x.data, (q.astype(np.float32) - 3) * np.float32(0.5))
    tensors = {"scale": MLCTensor(data=np.array([0.5], np.float32)), "zero_point": np.array([3])}
    np.testing.assert_array_equal(MLCTensor(data=q).dequantized("float32", **tensors).data, x.data)


def test_results_are_tensors_of_their_own() -> None:
    x = MLCTensor(data=np.ones((2, 2), np.float32))
    q = x.quantized("int8", scale=0.5, bias=0)
    assert q.tensor_id > x.tensor_id
    assert q.label == f"data{q.tensor_id}"
    assert q.descriptor.shape == [2, 2]
    x.bind_and_write_data(np.zeros((2, 2), np.float32))
    assert (q.data == 2).all()


def test_the_newest_value_counts(regression: Any) -> None:
    """Of a parameter that training changed, not of its stale host copy."""
    model = regression()
    model.step(options="synchronous")
    q = model.weights.quantized("int32", scale=1e-4, bias=0)
    assert model.weights.data[0, 0] == 0
    model.training.synchronize_updates()
    assert model.weights.data[0, 0] != 0
    assert q.data[0, 0] == np.rint(np.float64(model.weights.data[0, 0]) / np.float32(1e-4))


def test_wrong_types() -> None:
    x = MLCTensor(data=np.ones(3, np.float32))
    q = MLCTensor(data=np.ones(3, np.int8))
    for target in ("float32", "int64", "bool", "float16"):
        with pytest.raises(DataTypeError, match=rf"int8, uint8 or int32 as .* but got {target}"):
            x.quantized(target, scale=1.0, bias=0)
    with pytest.raises(DataTypeError, match="expected float32 or float64 numbers but got int8"):
        q.quantized("int8", scale=1.0, bias=0)
    for target in ("float64", "int8", "float16"):
        with pytest.raises(DataTypeError, match=f"float32 as target but got {target}"):
            q.dequantized(target, scale=1.0, zero_point=0)
    with pytest.raises(DataTypeError, match="int8, uint8 or int32 numbers but got float32"):
        x.dequantized("float32", scale=1.0, zero_point=0)
    with pytest.raises(TypeError, match="bias"):
        x.quantized("int8", scale=1.0, bias=0.5)
    with pytest.raises(TypeError, match="missing: bias"):
        x.quantized("int8", scale=1.0)


@pytest.mark.parametrize("scale", [0.0, -1.0, np.inf, np.nan])
def test_wrong_scales(scale: float) -> None:
    with pytest.raises(InvalidArgument, match="finite scales above 0"):
        MLCTensor(data=np.ones(3, np.float32)).quantized("int8", scale=scale, bias=0)
    with pytest.raises(InvalidArgument, match="finite scales above 0"):
        MLCTensor(data=np.ones(3, np.int8)).dequantized("float32", scale=scale, zero_point=0)


def test_wrong_shapes_and_values() -> None:
    x = MLCTensor(data=np.ones((2, 3), np.float32))
    two, three = np.ones(2, np.float32), np.zeros(3, np.int32)
    with pytest.raises(ShapeError, match=r"3 scales and biases, .* axis 1 of .* got 2 and 3"):
        x.quantized("int8", scale=two, bias=three, axis=1)
    with pytest.raises(ShapeError, match=r"axis below the rank of \(2, 3\) but got 2"):
        x.quantized("int8", scale=two, bias=three, axis=2)
    with pytest.raises(ShapeError, match="one number for scale without an axis but got 2"):
        x.quantized("int8", scale=two, bias=0)
    with pytest.raises(InvalidArgument, match="NaN at element 1"):
        MLCTensor(data=np.array([1, np.nan], np.float32)).quantized("int8", scale=1.0, bias=0)
    with pytest.raises(InvalidArgument, match=r"\[quantized\] tensor 'data\d+': .* with data"):
        MLCTensor(shape=[2]).quantized("int8", scale=1.0, bias=0)


def test_weights_of_a_layer_by_channel() -> None:
    weights = MLCTensor(shape=[3, 4], random_initializer_type="glorot_uniform")
    layer = MLCFullyConnectedLayer(
        weights=weights,
        descriptor=MLCConvolutionDescriptor(
            kernel_sizes=(1, 1), input_feature_channel_count=4, output_feature_channel_count=3
        ),
    )
    scale = np.abs(weights.data).max(axis=1) / np.float32(127)
    zeros = np.zeros(3, np.int64)
    q = layer.weights.quantized("int8", scale=scale, bias=zeros, axis=0)
    back = q.dequantized("float32", scale=scale, bias=zeros, axis=0)
    assert np.abs(back.data - weights.data).max() <= scale.max() / 2 * 1.0001
    assert np.abs(q.data).max() == 127
