"""The names of the ML Compute surface: a project-own table against the package."""

import enum
import inspect
import re
from typing import Any

import numpy as np
import pytest
from surface import CLASSES, ENUMS, rows, takes

import traingraph
from inventory import Row
from traingraph import (
    MLCConvolutionDescriptor,
    MLCDevice,
    MLCDeviceType,
    MLCLayer,
    MLCLossDescriptor,
    MLCMatMulDescriptor,
    MLCOptimizerDescriptor,
    MLCPaddingPolicy,
    MLCPoolingDescriptor,
    MLCTensor,
    MLCTensorDescriptor,
)

# Argument names whose first value depends on the class; the others follow from the name alone.
NUMBERS = {
    "embedding_count", "embedding_dimension", "maximum_norm", "p_norm",
    "width", "height", "kernel_width", "kernel_height", "batch_size", "group_count", "seed",
    "sequence_length", "feature_channel_count", "input_feature_channel_count",
    "output_feature_channel_count", "channel_multiplier", "class_count", "dimension",
    "convolution_weights_with_width", "convolution_weights_with_input_feature_channel_count",
    "convolution_biases_with_feature_channel_count", "transpose_with_kernel_width",
    "depthwise_with_kernel_width", "time_step", "a", "b", "c", "alpha", "weight", "epsilon",
    "delta", "learning_rate", "gradient_rescale", "gradient_clip_max", "gradient_clip_min",
    "maximum_clipping_norm", "custom_global_norm", "regularization_scale",
    "variance_epsilon", "fill_with_data", "split_count", "scale", "constant_value", "input_size",
    "hidden_size", "layer_count",
    "model_dimension", "key_dimension", "value_dimension", "head_count",
}  # fmt: skip
FRACTIONS = {"rate", "dropout", "momentum", "momentum_scale", "beta1", "beta2", "label_smoothing"}
SWITCHES = {
    "scales_gradient_by_frequency",
    "transposes_x", "transposes_y", "applies_gradient_clipping", "uses_amsgrad",
    "uses_nesterov_momentum", "is_centered", "selects_multiple_compute_devices", "aligns_corners",
    "uses_biases", "batch_first", "is_bidirectional", "returns_sequences",
    "has_biases", "has_attention_biases", "adds_zero_attention",
}  # fmt: skip


# Sequences have three axes.
SEQUENCES: dict[str, dict[str, Any]] = {
    "MLCTensorDescriptor": {"shape": [1, 2, 1]},
    "MLCTensor": {"data": None},
}


ATTENTION = "MLCMultiheadAttentionLayer"


def channels() -> MLCTensor:
    return MLCTensor(shape=[1, 1, 1, 1], fill_with_data=1.0)


def convolution() -> MLCConvolutionDescriptor:
    return MLCConvolutionDescriptor(
        kernel_sizes=(1, 1), input_feature_channel_count=1, output_feature_channel_count=1
    )


def sample(cls: str, keyword: str) -> Any:
    """A value that the argument takes."""
    if keyword in NUMBERS:
        return 1
    if keyword in FRACTIONS:
        return 0.5
    if keyword in SWITCHES:
        return False
    of_row = cls == "MLCLayerNormalizationLayer"
    per_channel = MLCTensor(shape=[1], fill_with_data=1.0) if of_row else channels()
    values: dict[str, Any] = {
        "shape": {"MLCUpsampleLayer": [2, 2]}.get(cls, [1, 1, 1, 1]),
        "dimensions": [0, 1],
        "padding_index": 0,
        "normalized_shape": [1],
        "data_type": "float32",
        "data": np.ones((1, 1, 1, 1), np.float32),
        "random_initializer_type": "xavier",
        "kernel_sizes": (1, 1),
        "strides": (1, 1),
        "dilation_rates": (1, 1),
        "padding_policy": MLCPaddingPolicy.sized(y=1, x=1),
        "reduction_type": {"MLCScatterLayer": "sum"}.get(cls, "mean"),
        "start": [0, 0],
        "end": [1, 1],
        "stride": [1, 1],
        "reflection_padding": [1],
        "symmetric_padding": [1, 2],
        "zero_padding": [1, 2, 3, 4],
        "constant_padding": [1],
        "sample_mode": "linear",
        "sequence_lengths": [2],
        "sorted_sequences": True,
        "split_section_lengths": [1, 2],
        "regularization_type": "l2",
        "gradient_clipping_type": "by_norm",
        "operation": {"MLCSoftmaxLayer": "log_softmax", "MLCComparisonLayer": "less"}.get(
            cls, "add"
        ),
        "type": {
            "MLCDevice": MLCDeviceType.CPU,
            "MLCActivationDescriptor": "relu",
            "MLCConvolutionDescriptor": "standard",
            "MLCLossDescriptor": "huber",
            "MLCPoolingDescriptor": "average",
        }.get(cls),
        "anchor_boxes": [1.0, 1.0],
        "anchor_box_count": 1,
        "tensor": channels(),
        "optimizer_data": [],
        "graph_objects": [],
        "loss_layer": None,
        "optimizer": None,
        "weights": {ATTENTION: [channels() for _ in range(4)]}.get(cls, channels()),
        "biases": {"MLCLSTMLayer": [channels()] * 4, ATTENTION: [channels()] * 4}.get(
            cls, channels()
        ),
        "input_weights": [channels()] * 4,
        "hidden_weights": [channels()] * 4,
        "peephole_weights": [channels()] * 3,
        "gate_activations": [traingraph.MLCActivationDescriptor(type="sigmoid")] * 4,
        "output_result_activation": traingraph.MLCActivationDescriptor(type="relu"),
        "result_mode": "output",
        "attention_biases": None,
        "mean": channels(),
        "variance": channels(),
        "beta": per_channel,
        "gamma": per_channel,
        "bytes_no_copy": bytearray(8),
        "immutable_bytes_no_copy": bytes(8),
        "length": 8,
        "deallocator": lambda memory, length: None,
    }
    if keyword == "descriptor":
        return {
            "MLCTensor": lambda: MLCTensorDescriptor(shape=[1, 1, 1, 1]),
            "MLCActivationLayer": lambda: traingraph.MLCActivationDescriptor(type="relu"),
            "MLCLossLayer": lambda: MLCLossDescriptor(type="huber", reduction_type="sum"),
            "MLCYOLOLossLayer": lambda: traingraph.MLCYOLOLossDescriptor(
                anchor_boxes=[1.0, 1.0], anchor_box_count=1
            ),
            "MLCMatMulLayer": MLCMatMulDescriptor,
            "MLCLSTMLayer": lambda: traingraph.MLCLSTMDescriptor(
                input_size=1, hidden_size=1, layer_count=1
            ),
            "MLCEmbeddingLayer": lambda: traingraph.MLCEmbeddingDescriptor(
                embedding_count=1, embedding_dimension=1
            ),
            "MLCPoolingLayer": lambda: MLCPoolingDescriptor(
                type="max", kernel_sizes=(2, 2), strides=(2, 2)
            ),
            "MLCConvolutionLayer": convolution,
            "MLCFullyConnectedLayer": convolution,
            ATTENTION: lambda: traingraph.MLCMultiheadAttentionDescriptor(
                model_dimension=1, head_count=1
            ),
        }.get(cls, lambda: MLCOptimizerDescriptor(learning_rate=0.1))()
    return values[keyword]


def each(kind: str) -> list[Any]:
    return [pytest.param(row, id=str(row)) for row in rows(kind)]


# Texts that are not the words of the case's name.
DESCRIPTIONS = {
    "MLCActivationTypeReLU": "ReLU",
    "MLCActivationTypeReLUN": "ReLUN",
    "MLCActivationTypeHardSwish": "HardSwish",
    "MLCArithmeticOperationMultiplyNoNaN": "MultiplyNoNaN",
    "MLCArithmeticOperationDivideNoNaN": "DivideNoNaN",
    "MLCArithmeticOperationMin": "ElementwiseMin",
    "MLCArithmeticOperationMax": "ElementwiseMax",
    "MLCComparisonOperationLessOrEqual": "Less or Equal",
    "MLCComparisonOperationGreaterOrEqual": "Greater or Equal",
    "MLCLSTMResultModeOutputAndStates": "Output and States",
    "MLCLossTypeMeanAbsoluteError": "Absolute Error",
    "MLCReductionTypeL1Norm": "L1Norm",
}


def description(case: Row) -> str:
    """Apple's text for the case: "Hard Sigmoid" of MLCActivationTypeHardSigmoid."""
    (name,) = case.members
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name.removeprefix(case.owner))
    return DESCRIPTIONS.get(name, words)


@pytest.mark.parametrize("name", ENUMS)
def test_enum_has_apples_cases(name: str) -> None:
    cls = getattr(traingraph, name)
    assert issubclass(cls, enum.IntFlag if name.endswith("Options") else enum.IntEnum)
    cases = [row for row in ENUMS[name] if row.kind == "case"]
    is_described = any(row.name == "debug_description" for row in ENUMS[name])
    for case in cases:
        assert cls[case.name] == case.value
        if is_described:
            assert cls[case.name].debug_description == description(case)
    ours = {
        "MLCActivationType": {"SILU", "GELU_ERF", "MISH", "SQUAREPLUS"},
        "MLCDataType": {"FLOAT64", "BFLOAT16"},
        "MLCExecutionOptions": {"CHECK_NUMERICS"},
        "MLCGraphCompilationOptions": {"ANY_BATCH_SIZE"},
    }.get(name, set())
    assert set(cls.__members__) == {case.name for case in cases} | ours


@pytest.mark.parametrize("name", CLASSES)
def test_class_has_apples_base(name: str) -> None:
    """The class that its name ends in."""
    cls = getattr(traingraph, name)
    assert cls.__name__ == name
    bases = [base for base in ("MLCLayer", "MLCOptimizer", "MLCGraph") if name.endswith(base[3:])]
    assert all(issubclass(cls, getattr(traingraph, base)) for base in bases)


@pytest.mark.parametrize("row", each("property"))
def test_property(row: Row) -> None:
    attribute = inspect.getattr_static(getattr(traingraph, row.owner), row.name)
    assert isinstance(attribute, property)
    assert (attribute.fset is not None) == row.is_writable
    assert attribute.__doc__


@pytest.mark.parametrize("row", each("static"))
def test_static(row: Row) -> None:
    owner = getattr(traingraph, row.owner)
    assert isinstance(inspect.getattr_static(owner, row.name), staticmethod)
    assert takes(owner, row.name, row.arguments)


@pytest.mark.parametrize("row", each("method"))
def test_method(row: Row) -> None:
    owner = getattr(traingraph, row.owner)
    assert not isinstance(inspect.getattr_static(owner, row.name), staticmethod)
    assert takes(owner, row.name, row.arguments)


@pytest.mark.parametrize("row", each("constructor"))
def test_constructor_takes_apples_keywords(row: Row) -> None:
    owner = getattr(traingraph, row.owner)
    assert takes(owner, "__init__", row.arguments)
    if row.arguments == ["gpu_devices"]:
        with pytest.raises(ValueError, match="at least one device"):
            owner(gpu_devices=[])
        return
    values = {keyword: sample(row.owner, keyword) for keyword in row.arguments}
    if "sequence_lengths" in row.arguments:
        values.update(SEQUENCES.get(row.owner, {}))
    made = owner(**{keyword: values[keyword] for keyword in row.arguments})
    assert type(made) is owner


def test_class_list_is_explicit() -> None:
    assert set(ENUMS) | set(CLASSES) <= set(traingraph.__all__)
    assert all(hasattr(traingraph, name) for name in traingraph.__all__)


@pytest.mark.parametrize("name", traingraph.__all__)
def test_everything_public_has_a_docstring(name: str) -> None:
    exported = getattr(traingraph, name)
    assert exported.__doc__
    if inspect.isclass(exported) and not issubclass(exported, (enum.Enum, Exception)):
        for member, value in vars(exported).items():
            if not member.startswith("_"):
                assert getattr(value, "__func__", value).__doc__, f"{name}.{member}"


def test_factories_give_a_new_object_at_each_call() -> None:
    assert MLCDevice.cpu() is not MLCDevice.cpu()
    first, second = traingraph.MLCActivationLayer.relu(), traingraph.MLCActivationLayer.relu()
    assert isinstance(first, MLCLayer)
    assert first != second
