"""MLCLayer.supports_data_type says what the device's kernels can run."""

import re
from typing import Any

import numpy as np
import pytest
from traingraph._core import stand_ins, why_unsupported

import traingraph
from traingraph import (
    DeviceError,
    MLCActivationLayer,
    MLCDataType,
    MLCDevice,
    MLCGraph,
    MLCInferenceGraph,
    MLCLayer,
    MLCTensor,
)

LAYERS = [
    cls
    for cls in map(traingraph.__dict__.get, traingraph.__all__)
    if isinstance(cls, type) and issubclass(cls, MLCLayer)
]


# What moves, compares or chooses elements takes all types; the others floating-point numbers.
MOVING = {
    "Comparison", "Concatenation", "Gather", "Padding", "Reshape", "Scatter", "Selection", "Slice",
    "Split", "Transpose",
}  # fmt: skip
FLOATING = {"FLOAT16", "FLOAT32", "FLOAT64", "BFLOAT16"}


@pytest.mark.parametrize("cls", LAYERS)
def test_each_class_answers_for_itself(cls: Any) -> None:
    """A new class of layers has a sample in its description."""
    assert isinstance(vars(cls).get("supports_data_type"), staticmethod)


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("cls", LAYERS)
def test_the_answer_is_known_for_each_type(cls: Any, device: str) -> None:
    """tests/layers/test_moved_types.py runs those of all types."""
    moves = cls.__name__[3:-5] in MOVING
    for data_type in MLCDataType:
        expected = moves or data_type.name in FLOATING
        assert cls.supports_data_type(data_type, on=device) is expected, data_type


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_the_answer_is_what_compile_says(device: str) -> None:
    for data_type in MLCDataType:
        x = MLCTensor(shape=[2, 2], data_type=data_type)
        graph = MLCGraph()
        try:
            graph.node(MLCActivationLayer.relu(), source=x)
            inference = MLCInferenceGraph(graph_objects=[graph])
            inference.add_inputs({"x": x})
            compiles = inference.compile(device=device)
        except (TypeError, NotImplementedError):
            compiles = False
        assert MLCActivationLayer.supports_data_type(data_type, on=device) is compiles


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_a_no_has_a_reason(device: str) -> None:
    """What docs/support.md says."""
    for cls in (cls for cls in LAYERS if cls is not MLCLayer):
        for data_type in MLCDataType:
            why = why_unsupported(cls.__name__, data_type, on=device)
            assert (why is None) is cls.supports_data_type(data_type, on=device)
            assert why is None or re.search("floating-point|data type (bool|u?int)", why)
    text = r"\[Softmax .*\] expected a source of floating-point numbers but got int8 at layer"
    assert re.match(text, str(why_unsupported("MLCSoftmaxLayer", "int8", on=device)))
    pooling = why_unsupported("MLCPoolingLayer", np.int32, MLCDevice.cpu())
    assert pooling is not None
    assert re.match(r"\[Pooling .*\] expected a source of floating-point .* got int32", pooling)
    with pytest.raises(ValueError, match="the name of a class of layers but got 'MLCLayers'"):
        why_unsupported("MLCLayers", "float32", on=device)


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_a_whole_device_needs_no_stand_ins(device: str) -> None:
    """tests/apple/test_stand_ins.py has devices that need some."""
    for cls in (cls for cls in LAYERS if cls is not MLCLayer):
        found = stand_ins(cls.__name__, "float32", on=device)
        assert (found["composed"], found["looped"]) == ([], []), cls
    assert stand_ins("MLCSoftmaxLayer", "float32", on=device)["own"] == [
        "softmax", "softmax_gradient",
    ]  # fmt: skip
    with pytest.raises(ValueError, match=r"\[stand_ins\] expected the name of a class of layers"):
        stand_ins("MLCLayers", "float32", on=device)


def test_known_answers() -> None:
    assert MLCLayer.supports_data_type("float32", on="cpu")
    assert MLCLayer.supports_data_type(np.float64, on=MLCDevice.reference())
    assert MLCLayer.supports_data_type(data_type=MLCDataType.FLOAT32, on="reference")
    for data_type in ("float16", "bfloat16"):  # widened where they come in
        assert MLCLayer.supports_data_type(data_type, on="reference")
    for data_type in ("int8", "int64", "bool"):
        assert not MLCLayer.supports_data_type(data_type, on="reference")
    assert MLCActivationLayer.relu().supports_data_type("float32", on="cpu")


def test_wrong_questions() -> None:
    with pytest.raises(ValueError, match="float32"):
        MLCLayer.supports_data_type("float31", on="cpu")
    with pytest.raises(ValueError, match="reference"):
        MLCLayer.supports_data_type("float32", on="tpu")
    with pytest.raises(TypeError, match="missing: on"):
        MLCLayer.supports_data_type("float32")
    with pytest.raises(DeviceError):
        MLCLayer.supports_data_type("float32", on="ane")


def test_asking_draws_no_random_numbers() -> None:
    def drawn(ask: bool) -> Any:
        traingraph.MLCPlatform.set_rng_seed_to(3)
        for cls in LAYERS if ask else []:
            cls.supports_data_type("float32", on="cpu")
        return MLCTensor(shape=[4], random_initializer_type="uniform").data.tolist()

    assert drawn(True) == drawn(False)
