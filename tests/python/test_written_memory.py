"""Memory that is written is the caller's own, in the stub too; lists in load_state are numbers."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

from traingraph import (
    DataTypeError,
    InvalidArgument,
    MLCGraph,
    MLCInferenceGraph,
    MLCPoolingDescriptor,
    MLCTensor,
    _core,
    mps,
    nn,
)

MAKE = Path(__file__).parents[2] / "python/bindings/make_stub.py"


def test_a_result_is_written_to_memory() -> None:
    x, graph = MLCTensor(shape=[2, 3]), MLCGraph()
    y = nn.dense(2)(graph, x)
    inference = MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    inference.add_outputs({"y": y})
    inference.compile(device="cpu")

    def execute(y: object) -> None:
        inference.execute(inputs_data={"x": np.ones((2, 3))}, outputs_data={"y": y})

    with pytest.raises(DataTypeError, match=r"which is written, but got 'list'; pass an array and"):
        execute([[0.0, 0.0]])
    with pytest.raises(InvalidArgument, match=r"but got float64; pass an array .* keep it"):
        execute(np.zeros((2, 2)))
    with pytest.raises(InvalidArgument, match=r"strided .*; pass an array .* keep it"):
        execute(np.zeros((2, 4), np.float32)[:, ::2])


def test_pixels_are_read_into_memory() -> None:
    image = mps.MPSImage(
        device="cpu",
        image_descriptor=mps.MPSImageDescriptor.image_descriptor(
            with_channel_format="unorm8", width=2, height=1, feature_channels=1
        ),
    )
    with pytest.raises(DataTypeError, match="got 'list'; pass an array and keep it"):
        image.read_bytes([[[0, 0]]])
    with pytest.raises(InvalidArgument, match=r"expected uint8 .* got float32; pass an array"):
        image.read_bytes(np.zeros((1, 1, 2), np.float32))


def test_lists_take_the_types_of_a_state() -> None:
    model = nn.model([nn.dense(3)], input=3, device="cpu")
    state = model.state()
    model.load_state({name: (value * 2).tolist() for name, value in state.items()})
    for name, value in model.state().items():
        assert value.dtype == state[name].dtype
        np.testing.assert_array_equal(value, state[name] * 2)
    with pytest.raises(DataTypeError, match="expected numbers"):
        model.load_state({name: ["a"] for name in state})


def test_the_stub_says_so() -> None:
    stub = runpy.run_path(str(MAKE))["make"](Path(_core.__file__))["_core.pyi"]
    written = re.findall(r"outputs_data: .*?\]", stub) + re.findall(r"self, data_bytes: .*", stub)
    assert len([one for one in written if "SupportsDLPack" in one]) == 4 + 3
    assert not [one for one in written if "outputs_data" in one and "ArrayLike" in one]
    assert "kernel_sizes: int | tuple[int, int]" in stub
    assert MLCPoolingDescriptor(type="max", kernel_sizes=2).kernel_sizes == (2, 2)
