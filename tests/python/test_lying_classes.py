"""Classes that answer otherwise than what they derive from, and objects that change their class."""

import itertools
from typing import Any

import numpy as np
import pytest
from odd_values import Lying, Renamed, lying

import traingraph as tg
from traingraph import _core, mps

CLASSES = [
    cls
    for name, cls in sorted(vars(_core).items())
    if _core.MPSKernel is not None and type(cls).__name__ == "pybind11_type"
]
VALUES = np.arange(8).reshape(2, 4)


def moved(dtype: str = "float32") -> tg.MLCInferenceGraph:
    x = tg.MLCTensor(shape=[2, 4], data_type=dtype)
    graph = tg.MLCGraph()
    result = graph.node(tg.MLCReshapeLayer(shape=[2, 4]), source=x)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    inference.add_outputs({"result": result})
    inference.compile(device="cpu")
    return inference


def test_the_class_lies() -> None:
    array = lying(VALUES)
    assert isinstance(array, np.ndarray)
    assert array.astype("float32").dtype == np.float16
    assert array.shape == (9, 9)


# --- arrays --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "uint8", ">f4", "?"])
@pytest.mark.parametrize("taken", ["float32", "float16", "float64", "int32", "bool"])
def test_a_lying_array_is_read_as_it_is(dtype: str, taken: str) -> None:
    values = (VALUES % 2).astype(dtype)
    inference = moved(taken)
    try:
        expected = inference.execute(inputs_data={"x": values}, options="synchronous").result
    except TypeError:
        with pytest.raises(TypeError, match="for input 'x'"):
            inference.execute(inputs_data={"x": lying(values)}, options="synchronous")
        return
    for given in (lying(values), lying(np.asfortranarray(values)), lying(values[::-1])[::-1]):
        result = inference.execute(inputs_data={"x": given}, options="synchronous").result
        np.testing.assert_array_equal(result, expected)


def test_results_are_written_to_a_lying_array() -> None:
    output = np.zeros((2, 4), np.float32)
    inference = moved()
    inference.execute(inputs_data={"x": VALUES}, outputs_data={"result": lying(output)},
                      options="synchronous")  # fmt: skip
    np.testing.assert_array_equal(output, VALUES)
    with pytest.raises(ValueError, match="expected float32 memory"):
        inference.execute(inputs_data={"x": VALUES}, outputs_data={"result": lying(VALUES)})


def test_a_parameter_over_a_lying_array() -> None:
    values = VALUES.astype(np.float32)
    tensor = tg.MLCTensor(data=lying(values))
    assert tensor.descriptor.shape == [2, 4]
    assert tensor.data.ctypes.data == values.ctypes.data
    np.testing.assert_array_equal(tg.MLCTensor(data=[lying(row) for row in VALUES]).data, VALUES)


def test_a_lying_array_as_state_and_as_an_image() -> None:
    weights = tg.MLCTensor(data=np.zeros((1, 8), np.float32))
    product = tg.MLCFullyConnectedLayer(
        weights=weights, biases=None,
        descriptor=tg.MLCConvolutionDescriptor(
            kernel_sizes=(1, 1), input_feature_channel_count=8, output_feature_channel_count=1),
    )  # fmt: skip
    graph = tg.MLCGraph()
    x = tg.MLCTensor(shape=[2, 8])
    graph.node(product, source=x)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    inference.compile(device="cpu")
    (name,) = inference.state()
    numbers = np.arange(8.0, dtype=">f4").reshape(1, 8)
    inference.load_state({name: lying(numbers)})
    np.testing.assert_array_equal(inference.state()[name], numbers)
    for channel_format in ("float32", "unorm8", "unorm16"):
        descriptor = mps.MPSImageDescriptor.image_descriptor(
            with_channel_format=channel_format, width=2, height=2, feature_channels=1)  # fmt: skip
        image = mps.MPSImage(device="cpu", image_descriptor=descriptor)
        pixels = np.arange(4).astype(channel_format.replace("unorm", "uint")).reshape(2, 2)
        image.write_bytes(lying(pixels), data_layout="height_x_width_x_feature_channels")
        found = np.zeros((2, 2), pixels.dtype)
        image.read_bytes(lying(found), data_layout="height_x_width_x_feature_channels")
        np.testing.assert_array_equal(found, pixels)


def test_masks_of_a_class_that_lies_about_them() -> None:
    class Masked(np.ma.MaskedArray):
        size = property(lambda _: "nothing")  # type: ignore[assignment]

        def sum(self, *_: Any, **__: Any) -> Any:
            return 0

    masked = np.ma.masked_array(VALUES, VALUES > 5).view(Masked)
    with pytest.raises(ValueError, match="no masked elements for input 'x' but got 2 of 8"):
        moved().execute(inputs_data={"x": masked})


def test_a_capsule_that_is_given_twice_is_read_once() -> None:
    class Same:
        capsule = VALUES.astype(np.float32).__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

        def __dlpack__(self, **_: Any) -> Any:
            return self.capsule

    inference = moved()
    same = Same()
    result = inference.execute(inputs_data={"x": same}, options="synchronous").result
    np.testing.assert_array_equal(result, VALUES)
    with pytest.raises(ValueError, match="expected a DLPack capsule"):
        inference.execute(inputs_data={"x": same})
    with pytest.raises((ValueError, BufferError)):
        np.from_dlpack(same)


# --- classes -------------------------------------------------------------------------------------


def in_cpp(cls: type) -> type:
    """The class of C++: some are told apart by Python alone, and their objects are the same."""
    while "__slots__" in vars(cls):
        cls = cls.__base__
    return cls


def test_no_object_becomes_one_of_another_class() -> None:
    assert len(CLASSES) > 200
    # Each with its bases, and with what stands near to it.
    near = [(cls, other) for cls in CLASSES for other in cls.__mro__[1:] if other in CLASSES]
    near += [
        pair for k in range(len(CLASSES)) for pair in itertools.permutations(CLASSES[k : k + 12], 2)
    ]
    for cls, other in near:
        if in_cpp(cls) is in_cpp(other):
            continue
        with pytest.raises(TypeError, match="differs"):
            cls.__new__(cls).__class__ = other


def test_no_object_of_a_class_of_the_programs_becomes_another_one() -> None:
    class Tensor(tg.MLCTensor):
        __slots__ = ()

    class Graph(tg.MLCGraph):
        __slots__ = ()

    tensor = Tensor(shape=[2])
    for other in (Graph, tg.MLCGraph, mps.MPSImage):
        with pytest.raises(TypeError, match="differs"):
            tensor.__class__ = other
    with pytest.raises(TypeError, match="differs"):
        Tensor.__bases__ = (tg.MLCGraph,)
    with pytest.raises(TypeError, match="lay-out conflict"):
        type("Both", (tg.MLCTensor, tg.MLCGraph), {})
    tensor.__class__ = tg.MLCTensor  # what it derives from
    assert tensor.descriptor.shape == [2]


def test_members_of_enumerations_that_are_none() -> None:
    forged = int.__new__(tg.MLCActivationType, 77)
    with pytest.raises(ValueError, match="raw value 77"):
        tg.MLCActivationDescriptor(type=forged)
    forged = int.__new__(tg.MLCExecutionOptions, 2**20)
    with pytest.raises(ValueError, match="unknown bits"):
        moved().execute(inputs_data={"x": VALUES}, options=forged)


def test_an_object_is_made_once() -> None:
    tensor = tg.MLCTensor.__new__(tg.MLCTensor)

    class Number:
        def __index__(self) -> int:
            tensor.__init__(shape=[2])  # type: ignore[misc]
            return 3

    with pytest.raises(TypeError, match="one call of __init__ at a time"):
        tensor.__init__(shape=[Number()])  # type: ignore[misc]
    assert tensor.descriptor.shape == [2]


def test_names_of_classes_that_are_no_text() -> None:
    nameless = Renamed("Nameless", (), {})
    with pytest.raises(TypeError, match="expected rate: float but got 'Nameless'"):
        tg.MLCDropoutLayer(rate=nameless())
    with pytest.raises(TypeError, match="but got the class Nameless"):
        tg.MLCDropoutLayer(rate=nameless)
    with pytest.raises(TypeError, match="but got 'Lying'"):
        tg.MLCTensor(shape=[2]).label = np.zeros(2).view(Lying)
