"""Arrays of other libraries whose extents and strides cannot be."""

import ctypes
from typing import Any

import numpy as np
import pytest

import traingraph as tg


class Element(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class Array(ctypes.Structure):
    """DLManagedTensor of DLPack, version 0, without what frees it."""

    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("index", ctypes.c_int32),
        ("dimensions", ctypes.c_int32), ("element", Element),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]  # fmt: skip


class Foreign:
    """Offers numbers of float32 (code 2) or bfloat16 (code 4) by DLPack."""

    def __init__(self, numbers: np.ndarray, shape: list[int], strides: list[int], code: int = 2):
        self.numbers = numbers
        self.shape = (ctypes.c_int64 * len(shape))(*shape)
        self.strides = (ctypes.c_int64 * len(strides))(*strides)
        self.array = Array(
            numbers.ctypes.data, 1, 0, len(shape), Element(code, 8 * numbers.itemsize, 1),
            self.shape, self.strides, 0, None, None,
        )  # fmt: skip

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **keywords: Any) -> Any:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.array), b"dltensor", None)


NUMBERS = np.arange(6, dtype=np.float32)
HALF = (NUMBERS.view(np.uint32) >> 16).astype(np.uint16)  # the same as bfloat16


def loaded(foreign: Foreign) -> np.ndarray:
    """What a parameter is after a load of this state."""
    layer = tg.MLCFullyConnectedLayer(
        weights=tg.MLCTensor(shape=[2, 3], fill_with_data=0.0),
        biases=None,
        descriptor=tg.MLCConvolutionDescriptor(
            kernel_sizes=(1, 1), input_feature_channel_count=3, output_feature_channel_count=2
        ),
    )
    graph, x = tg.MLCGraph(), tg.MLCTensor(shape=[1, 3])
    graph.node(layer, source=x)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    inference.compile(device="cpu")
    (name,) = (key for key in inference.state() if not key.startswith("state."))
    inference.load_state({**inference.state(), name: foreign})
    return np.array(layer.weights.data)


def test_strides_that_lead_somewhere() -> None:
    turned = Foreign(NUMBERS, [2, 3], [1, 2])
    np.testing.assert_array_equal(loaded(turned), NUMBERS.reshape(3, 2).T)
    backwards = Foreign(NUMBERS, [2, 3], [3, 1])
    np.testing.assert_array_equal(loaded(backwards), NUMBERS.reshape(2, 3))


@pytest.mark.parametrize("stride", [2**61 + 3, 2**62, 2**63 - 1, -(2**63), 2**48])
@pytest.mark.parametrize("code", [2, 4])
def test_strides_beyond_any_memory(stride: int, code: int) -> None:
    """In bytes they would be those of another array, some of them."""
    foreign = Foreign(NUMBERS if code == 2 else HALF, [2, 3], [stride, 1], code)
    with pytest.raises(tg.ShapeError, match=rf"strides of at most {2**48} bytes.*{stride}"):
        loaded(foreign)


def test_the_stride_of_one_element_is_any() -> None:
    x, graph = tg.MLCTensor(shape=[2, 3]), tg.MLCGraph()
    graph.node(tg.MLCActivationLayer.relu(), source=x)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    inference.compile(device="cpu")
    one = Foreign(HALF, [1, 2, 3], [2**62, 1, 2], 4)
    found = inference.execute(inputs_data={"x": one}, options="synchronous").result
    np.testing.assert_array_equal(found, NUMBERS.reshape(3, 2).T)


def without(foreign: Foreign, **fields: Any) -> Foreign:
    for name, value in fields.items():
        setattr(foreign.array, name, value)
    return foreign


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"dimensions": -1}, "an array of at most 64 axes but got -1"),
        ({"dimensions": 65}, "an array of at most 64 axes but got 65"),
        ({"dimensions": 10**8}, "an array of at most 64 axes but got 100000000"),
        ({"shape": None}, "extents of 2 axes but got a null pointer"),
        ({"data": None}, r"memory of an array \(2, 3\) but got a null pointer"),
    ],
)
def test_structures_that_lead_nowhere(fields: dict[str, Any], text: str) -> None:
    for call in (loaded, lambda foreign: tg.MLCTensor(data=foreign)):
        with pytest.raises((tg.ShapeError, tg.InvalidArgument), match=text):
            call(without(Foreign(NUMBERS, [2, 3], [3, 1]), **fields))


@pytest.mark.parametrize("shape", [[2**46, 2], [2**62, 4], [2**63 - 1, 3], [-2, -3], [2, -3]])
def test_extents_beyond_any_memory(shape: list[int]) -> None:
    foreign = Foreign(NUMBERS, shape, [shape[1], 1])
    expected = rf"an array of at most {2**48} bytes but got \({shape[0]}, {shape[1]}\) of float32"
    with pytest.raises(tg.ShapeError, match=expected):
        tg.MLCTensor(shape=[2, 3], data=foreign)
