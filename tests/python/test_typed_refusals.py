"""What is of a wrong type is refused in our own words, by class and property."""

import numpy as np
import pytest

import traingraph as tg
from traingraph import mps


def labelled() -> list[object]:
    return [
        tg.MLCTensor(shape=[1]),
        tg.MLCDropoutLayer(rate=0.5, seed=0),
        mps.MPSCNNPoolingMax(device="cpu", kernel_width=2, kernel_height=2),
        mps.MPSNNImageNode(),
    ]


@pytest.mark.parametrize("value", [3, 2.5, None, b"x", b"\xff", ["x"]])
def test_a_label_is_a_text(value: object) -> None:
    for one in labelled():
        if not hasattr(one, "label"):
            continue
        before = one.label
        with pytest.raises((TypeError, ValueError)) as raised:
            one.label = value
        assert "expected label: str but got" in str(raised.value)
        assert f"[{type(one).__name__}]" in str(raised.value)
        assert one.label == before


def test_a_label_with_half_of_a_pair_is_shown() -> None:
    for one in labelled():
        if not hasattr(one, "label"):
            continue
        before = one.label
        with pytest.raises(ValueError, match=r"expected label that UTF-8 can say but got .\\ud800"):
            one.label = "\ud800"
        assert one.label == before


@pytest.mark.parametrize(("value", "got"), [("x", "'str'"), (None, "'NoneType'"), (1.5, "1.5")])
def test_a_property_says_what_it_takes(value: object, got: str) -> None:
    kernel = mps.MPSCNNPoolingMax(device="cpu", kernel_width=2, kernel_height=2)
    with pytest.raises(TypeError, match=r"\[MPSCNNPoolingMax\] expected destination_\w+: .*int"):
        kernel.destination_feature_channel_offset = value
    with pytest.raises(TypeError) as raised:
        kernel.destination_feature_channel_offset = value
    assert str(raised.value).endswith(f"but got {got}")
    assert "incompatible function" not in str(raised.value)


@pytest.mark.parametrize("value", [2**70, -(2**70)])
def test_a_property_says_its_range(value: int) -> None:
    """As an argument does: the kind is right."""
    kernel = mps.MPSCNNPoolingMax(device="cpu", kernel_width=2, kernel_height=2)
    text = rf"\] expected destination_\w+ from -?\w+.* to \w+.* but got {value}$"
    with pytest.raises(ValueError, match=text):
        kernel.destination_feature_channel_offset = value


def test_the_number_of_threads() -> None:
    before = tg.get_num_threads()
    for count in (0, -1, 2**31, 2**31 - 2**32, 2**62, -(2**62)):
        with pytest.raises(tg.InvalidArgument, match=r"\[(threads|set_num_threads)\] expected"):
            tg.set_num_threads(count)
    assert tg.get_num_threads() == before


def test_names_that_no_utf8_can_say() -> None:
    name = "\ud800"
    x = tg.MLCTensor(shape=[2])
    graph = tg.MLCGraph()
    graph.node(tg.MLCActivationLayer.relu(), source=x)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    calls = [
        lambda: tg.MLCTensor(shape=[1], data_type=name),
        lambda: tg.MLCTensor(**{name: 1}),
        lambda: inference.execute(**{name: 1}),
        lambda: inference.compile(device=name),
        lambda: inference.add_inputs({name: x}),
        lambda: mps.MPSNNImageNode(handle=name),
        lambda: mps.MPSKeyedUnarchiver(device="cpu").decode(for_key=name),
        lambda: mps.MPSKeyedUnarchiver.unarchive_object(
            device="cpu", with_data=b'{"class": "\\ud800", "values": {}}'
        ),
    ]
    for call in calls:
        with pytest.raises((TypeError, ValueError)) as raised:
            call()
        assert isinstance(raised.value, tg.Error) or str(raised.value).startswith("[")


class Array:
    """Says what it is told of its device."""

    def __init__(self, device: object) -> None:
        self.device = device
        self.values = np.ones((2,), np.float32)

    def __dlpack_device__(self) -> object:
        return self.device

    def __dlpack__(self, **keywords: object) -> object:
        return self.values.__dlpack__()


@pytest.mark.parametrize(
    "device",
    [(2**40, 0), (1, 2**31), (1, -(2**70)), ("a",), ("a", "b"), (1,), (1, 0, 0), (), None, 3, "10",
     [1, 0], (1.5, 0)],
)  # fmt: skip
def test_a_device_of_dlpack_is_two_numbers(device: object) -> None:
    x = tg.MLCTensor(shape=[2])
    graph = tg.MLCGraph()
    graph.node(tg.MLCActivationLayer.relu(), source=x)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    inference.compile(device="cpu")
    calls = [
        lambda given: inference.execute(inputs_data={"x": given}),
        lambda given: tg.MLCTensor(data=given),
        lambda given: tg.MLCTensorData(bytes_no_copy=given),
    ]
    for call in calls:
        with pytest.raises(tg.InvalidArgument, match="expected two small numbers"):
            call(Array(device))
    assert calls[0](Array((1, 0))).result.tolist() == [1, 1]
