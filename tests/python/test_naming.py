"""The names of the ML Compute surface: a project-own table against the package."""

import enum
import inspect
from typing import Any

import numpy as np
import pytest
from surface import CLASSES, ENUMS, rows, takes

import traingraph
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
    "width", "height", "kernel_width", "kernel_height", "batch_size", "group_count", "seed",
    "sequence_length", "feature_channel_count", "input_feature_channel_count",
    "output_feature_channel_count", "channel_multiplier", "class_count", "dimension",
    "convolution_weights_with_width", "convolution_weights_with_input_feature_channel_count",
    "convolution_biases_with_feature_channel_count", "transpose_with_kernel_width",
    "depthwise_with_kernel_width", "time_step", "a", "b", "c", "alpha", "weight", "epsilon",
    "delta", "learning_rate", "gradient_rescale", "gradient_clip_max", "gradient_clip_min",
    "maximum_clipping_norm", "custom_global_norm", "regularization_scale",
    "variance_epsilon", "fill_with_data", "split_count",
}  # fmt: skip
FRACTIONS = {"rate", "momentum", "momentum_scale", "beta1", "beta2", "label_smoothing"}
SWITCHES = {
    "transposes_x", "transposes_y", "applies_gradient_clipping", "uses_amsgrad",
    "uses_nesterov_momentum", "is_centered", "selects_multiple_compute_devices",
}  # fmt: skip


# Sequences have three axes.
SEQUENCES: dict[str, dict[str, Any]] = {
    "MLCTensorDescriptor": {"shape": [1, 2, 1]},
    "MLCTensor": {"data": None},
}


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
    values: dict[str, Any] = {
        "shape": [1, 1, 1, 1],
        "dimensions": [0, 1],
        "data_type": "float32",
        "data": np.ones((1, 1, 1, 1), np.float32),
        "random_initializer_type": "xavier",
        "kernel_sizes": (1, 1),
        "strides": (1, 1),
        "dilation_rates": (1, 1),
        "padding_policy": MLCPaddingPolicy.sized(y=1, x=1),
        "reduction_type": {"MLCScatterLayer": "sum"}.get(cls, "mean"),
        "sequence_lengths": [2],
        "sorted_sequences": True,
        "split_section_lengths": [1, 2],
        "regularization_type": "l2",
        "gradient_clipping_type": "by_norm",
        "operation": {"MLCSoftmaxLayer": "log_softmax"}.get(cls, "add"),
        "type": {
            "MLCDevice": MLCDeviceType.CPU,
            "MLCActivationDescriptor": "relu",
            "MLCConvolutionDescriptor": "standard",
            "MLCLossDescriptor": "huber",
            "MLCPoolingDescriptor": "average",
        }.get(cls),
        "tensor": channels(),
        "optimizer_data": [],
        "graph_objects": [],
        "loss_layer": None,
        "optimizer": None,
        "weights": channels(),
        "biases": channels(),
        "mean": channels(),
        "variance": channels(),
        "beta": channels(),
        "gamma": channels(),
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
            "MLCMatMulLayer": MLCMatMulDescriptor,
            "MLCPoolingLayer": lambda: MLCPoolingDescriptor(
                type="max", kernel_sizes=(2, 2), strides=(2, 2)
            ),
            "MLCConvolutionLayer": convolution,
            "MLCFullyConnectedLayer": convolution,
        }.get(cls, lambda: MLCOptimizerDescriptor(learning_rate=0.1))()
    return values[keyword]


def each(kind: str) -> list[Any]:
    return [pytest.param(row.owner, list(row.words), id=str(row)) for row in rows(kind)]


@pytest.mark.parametrize("name", ENUMS)
def test_enum_has_apples_cases(name: str) -> None:
    cls = getattr(traingraph, name)
    assert issubclass(cls, enum.IntFlag if ENUMS[name]["flags"] else enum.IntEnum)
    for case, (value, description) in ENUMS[name]["cases"].items():
        assert cls[case] == value
        if description is not None:
            assert cls[case].debug_description == description
    ours = {
        "MLCDataType": {"FLOAT64", "BFLOAT16"},
        "MLCExecutionOptions": {"CHECK_NUMERICS"},
    }.get(name, set())
    assert set(cls.__members__) == set(ENUMS[name]["cases"]) | ours


@pytest.mark.parametrize("name", CLASSES)
def test_class_has_apples_base(name: str) -> None:
    cls = getattr(traingraph, name)
    assert cls.__name__ == name
    base = CLASSES[name].get("base")
    assert base is None or issubclass(cls, getattr(traingraph, base))


@pytest.mark.parametrize(("cls", "row"), each("properties"))
def test_property(cls: str, row: list[str]) -> None:
    (name,) = row
    attribute = inspect.getattr_static(getattr(traingraph, cls), name)
    assert isinstance(attribute, property)
    assert (attribute.fset is not None) == (name in CLASSES[cls].get("writable", []))
    assert attribute.__doc__


@pytest.mark.parametrize(("cls", "row"), each("statics"))
def test_static(cls: str, row: list[str]) -> None:
    name, *arguments = row
    owner = getattr(traingraph, cls)
    attribute = inspect.getattr_static(owner, name)
    assert isinstance(attribute, staticmethod)
    assert takes(owner, name, arguments)


@pytest.mark.parametrize(("cls", "row"), each("methods"))
def test_method(cls: str, row: list[str]) -> None:
    name, *arguments = row
    owner = getattr(traingraph, cls)
    assert not isinstance(inspect.getattr_static(owner, name), staticmethod)
    assert takes(owner, name, arguments)


@pytest.mark.parametrize(("cls", "row"), each("constructors"))
def test_constructor_takes_apples_keywords(cls: str, row: list[str]) -> None:
    owner = getattr(traingraph, cls)
    assert takes(owner, "__init__", row)
    if row == ["gpu_devices"]:
        with pytest.raises(ValueError, match="at least one device"):
            owner(gpu_devices=[])
        return
    values = {keyword: sample(cls, keyword) for keyword in row}
    if "sequence_lengths" in row:
        values.update(SEQUENCES.get(cls, {}))
    made = owner(**{keyword: values[keyword] for keyword in row})
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
