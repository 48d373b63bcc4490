"""Descriptors, optimizers and layers keep what they are given, and copy it."""

import copy
from typing import Any

import pytest

from traingraph import (
    MLCActivationDescriptor,
    MLCAdamOptimizer,
    MLCAdamWOptimizer,
    MLCArithmeticLayer,
    MLCArithmeticOperation,
    MLCBatchNormalizationLayer,
    MLCConcatenationLayer,
    MLCConvolutionDescriptor,
    MLCConvolutionLayer,
    MLCConvolutionType,
    MLCDropoutLayer,
    MLCFullyConnectedLayer,
    MLCGradientClippingType,
    MLCLossDescriptor,
    MLCLossLayer,
    MLCLossType,
    MLCMatMulDescriptor,
    MLCOptimizer,
    MLCOptimizerDescriptor,
    MLCPaddingPolicy,
    MLCPoolingDescriptor,
    MLCPoolingType,
    MLCReductionType,
    MLCRegularizationType,
    MLCReshapeLayer,
    MLCRMSPropOptimizer,
    MLCSGDOptimizer,
    MLCSoftmaxLayer,
    MLCTensor,
    MLCTensorDescriptor,
    MLCTransposeLayer,
)

# No field has its default, so that a copy that forgets one differs.
FULL_OPTIMIZER = {
    "learning_rate": 0.5,
    "gradient_rescale": 2.0,
    "applies_gradient_clipping": True,
    "gradient_clipping_type": "by_global_norm",
    "gradient_clip_max": 3.0,
    "gradient_clip_min": -2.0,
    "maximum_clipping_norm": 4.0,
    "custom_global_norm": 5.0,
    "regularization_type": "l2",
    "regularization_scale": 0.125,
}
ADAM = {"beta1": 0.5, "beta2": 0.25, "epsilon": 0.125, "uses_amsgrad": True, "time_step": 7}
RMSPROP = {"momentum_scale": 0.5, "alpha": 0.25, "epsilon": 0.125, "is_centered": True}


def values(thing: object) -> dict[str, Any]:
    names = [n for n in dir(type(thing)) if isinstance(getattr(type(thing), n), property)]
    return {name: getattr(thing, name) for name in names}


MADE = [
    MLCActivationDescriptor(type="clamp", a=-1.0, b=2.0),
    MLCConvolutionDescriptor(
        kernel_sizes=(3, 5),
        input_feature_channel_count=4,
        output_feature_channel_count=8,
        group_count=2,
        strides=(2, 1),
        dilation_rates=(1, 2),
        padding_policy=MLCPaddingPolicy.sized(y=1, x=2),
    ),
    MLCLossDescriptor(type="softmax_cross_entropy", reduction_type="sum", label_smoothing=0.25),
    MLCMatMulDescriptor(alpha=2.0, transposes_x=True, transposes_y=True),
    MLCOptimizerDescriptor(learning_rate=0.5, gradient_rescale=2.0, regularization_type="l1"),
    MLCPoolingDescriptor(
        type="average", kernel_sizes=(2, 3), strides=(2, 1), count_includes_padding=True
    ),
    MLCTensorDescriptor(shape=[2, 3], data_type="int32"),
    MLCSGDOptimizer(learning_rate=0.5, momentum_scale=0.25, uses_nesterov_momentum=True),
    MLCAdamOptimizer(learning_rate=0.5, beta1=0.5, uses_amsgrad=True, time_step=7),
    MLCAdamWOptimizer(learning_rate=0.5, beta2=0.25),
    MLCRMSPropOptimizer(learning_rate=0.5, alpha=0.25, is_centered=True),
    MLCOptimizerDescriptor(**FULL_OPTIMIZER),
    MLCSGDOptimizer(**FULL_OPTIMIZER, momentum_scale=0.25, uses_nesterov_momentum=True),
    MLCAdamOptimizer(**FULL_OPTIMIZER, **ADAM),
    MLCAdamWOptimizer(**FULL_OPTIMIZER, **ADAM),
    MLCRMSPropOptimizer(**FULL_OPTIMIZER, **RMSPROP),
    MLCTensorDescriptor(
        shape=[2, 3, 1], sequence_lengths=[3, 1], sorted_sequences=True, data_type="float64"
    ),
]


@pytest.mark.parametrize("thing", MADE, ids=lambda thing: type(thing).__name__)
@pytest.mark.parametrize("duplicate", [lambda t: t.copy(), copy.copy, copy.deepcopy])
def test_copies_are_complete(thing: Any, duplicate: Any) -> None:
    other = duplicate(thing)
    assert other is not thing
    assert type(other) is type(thing)
    assert values(other) == values(thing)


@pytest.mark.parametrize("thing", MADE, ids=lambda thing: type(thing).__name__)
def test_repr_is_one_line(thing: Any) -> None:
    assert repr(thing).startswith("<" + type(thing).__name__)
    assert "\n" not in repr(thing)


def test_convolution_descriptor() -> None:
    d = MADE[1]
    assert isinstance(d, MLCConvolutionDescriptor)
    assert d.kernel_sizes == (3, 5)
    assert (d.kernel_height, d.kernel_width) == (3, 5)
    assert d.strides == (2, 1)
    assert (d.stride_in_y, d.stride_in_x) == (2, 1)
    assert d.dilation_rates == (1, 2)
    assert (d.dilation_rate_in_y, d.dilation_rate_in_x) == (1, 2)
    assert (d.padding_size_in_y, d.padding_size_in_x) == (1, 2)
    assert d.padding_policy == MLCPaddingPolicy.USE_PADDING_SIZE
    assert d.group_count == 2


def test_convolution_defaults_and_other_forms() -> None:
    d = MLCConvolutionDescriptor(
        kernel_sizes=3, input_feature_channel_count=4, output_feature_channel_count=8
    )
    assert d.kernel_sizes == (3, 3)
    assert d.convolution_type is MLCConvolutionType.STANDARD
    assert (d.strides, d.dilation_rates, d.group_count) == ((1, 1), (1, 1), 1)
    assert d.padding_policy is MLCPaddingPolicy.SAME
    t = MLCConvolutionDescriptor(
        transpose_with_kernel_width=2,
        kernel_height=3,
        input_feature_channel_count=4,
        output_feature_channel_count=5,
    )
    assert t.is_convolution_transpose
    assert t.kernel_sizes == (3, 2)
    w = MLCConvolutionDescriptor(
        depthwise_with_kernel_width=2,
        kernel_height=3,
        input_feature_channel_count=4,
        channel_multiplier=3,
    )
    assert w.uses_depthwise_convolution
    assert w.output_feature_channel_count == 12


def test_loss_descriptor_defaults() -> None:
    d = MLCLossDescriptor(type=MLCLossType.HUBER, reduction_type=MLCReductionType.MEAN)
    assert (d.weight, d.label_smoothing, d.class_count) == (1.0, 0.0, None)
    assert d.epsilon == pytest.approx(1e-7)
    assert d.delta == 1.0
    layer = MLCLossLayer.huber_loss("sum", delta=0.5, weight=2.0)
    assert layer.descriptor.loss_type is MLCLossType.HUBER
    assert (layer.descriptor.delta, layer.descriptor.weight) == (0.5, 2.0)
    assert layer.weights is None


def test_optimizer_descriptor_defaults() -> None:
    d = MLCOptimizerDescriptor(learning_rate=0.5)
    assert (d.gradient_rescale, d.regularization_scale) == (1.0, 0.0)
    assert d.regularization_type is MLCRegularizationType.NONE
    assert not d.applies_gradient_clipping
    assert d.gradient_clipping_type is MLCGradientClippingType.BY_VALUE
    assert (d.gradient_clip_max, d.gradient_clip_min) == (1.0, -1.0)
    assert (d.maximum_clipping_norm, d.custom_global_norm) == (1.0, 0.0)


def test_optimizers_from_descriptor_and_from_numbers() -> None:
    descriptor = MLCOptimizerDescriptor(learning_rate=0.5, gradient_rescale=2.0)
    first = MLCAdamOptimizer(descriptor=descriptor, beta1=0.5)
    second = MLCAdamOptimizer(learning_rate=0.5, gradient_rescale=2.0, beta1=0.5)
    assert isinstance(first, MLCOptimizer)
    assert values(first) == values(second)
    assert first.beta2 == pytest.approx(0.999)
    assert first.epsilon == pytest.approx(1e-8)
    assert first.time_step == 1
    with pytest.raises(TypeError, match="missing"):
        MLCAdamOptimizer()
    with pytest.raises(TypeError, match="no form takes"):
        MLCAdamOptimizer(descriptor=descriptor, learning_rate=0.5)


def test_optimizer_writable_numbers() -> None:
    optimizer = MLCSGDOptimizer(learning_rate=0.5)
    optimizer.learning_rate = 0.25
    optimizer.applies_gradient_clipping = True
    assert optimizer.learning_rate == 0.25
    assert optimizer.applies_gradient_clipping
    with pytest.raises(AttributeError):
        optimizer.momentum_scale = 1.0  # type: ignore[misc]


def test_layers_show_their_attributes() -> None:
    assert MLCArithmeticLayer(operation="add").operation is MLCArithmeticOperation.ADD
    assert MLCConcatenationLayer().dimension == 1
    assert MLCReshapeLayer(shape=(2, 3)).shape == [2, 3]
    assert MLCTransposeLayer(dimensions=[1, 0]).dimensions == [1, 0]
    assert MLCSoftmaxLayer(operation="softmax").dimension == 1
    dropout = MLCDropoutLayer(rate=0.25, seed=3)
    assert (dropout.rate, dropout.seed) == (0.25, 3)
    assert MADE[5].pooling_type is MLCPoolingType.AVERAGE  # type: ignore[attr-defined]
    layer = MLCDropoutLayer(rate=0.0)
    layer.label = "d"
    layer.is_debugging_enabled = True
    assert (layer.label, layer.is_debugging_enabled) == ("d", True)
    assert layer.device_type is None
    assert "'d'" in repr(layer)
    assert layer.layer_id != dropout.layer_id


def test_layers_make_their_own_parameters() -> None:
    descriptor = MLCConvolutionDescriptor(
        kernel_sizes=(3, 3), input_feature_channel_count=2, output_feature_channel_count=4
    )
    convolution = MLCConvolutionLayer(descriptor=descriptor)
    assert convolution.weights.data.size == 2 * 4 * 9
    assert convolution.biases is not None
    assert not convolution.biases.data.any()
    assert MLCConvolutionLayer(descriptor=descriptor, with_biases=False).biases is None
    fully = MLCFullyConnectedLayer(descriptor=descriptor)
    assert fully.weights.data.size == 2 * 4
    norm = MLCBatchNormalizationLayer(feature_channel_count=64)
    assert norm.feature_channel_count == 64
    assert norm.momentum == pytest.approx(0.99)
    assert norm.variance_epsilon == pytest.approx(1e-5)
    assert (norm.gamma.data == 1).all()
    assert (norm.mean.data == 0).all()


def test_parameters_belong_to_their_layer() -> None:
    weights = MLCTensor(shape=[1, 1], fill_with_data=1.0)
    layer = MLCFullyConnectedLayer(
        weights=weights,
        descriptor=MLCConvolutionDescriptor(
            kernel_sizes=(1, 1), input_feature_channel_count=1, output_feature_channel_count=1
        ),
    )
    assert layer.weights == weights
    assert layer.biases is None
    assert layer.biases_parameter is None
    parameter = layer.weights_parameter
    assert parameter.tensor == weights
    assert parameter.is_updatable
    parameter.is_updatable = False
    del parameter
    assert not layer.weights_parameter.is_updatable
