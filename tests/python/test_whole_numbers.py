"""Whole numbers that functions take are refused in our own words, by function and argument."""

from collections.abc import Callable

import numpy as np
import pytest

import traingraph as tg
from traingraph import mps

CALLS: dict[str, tuple[str, Callable[[object], object]]] = {
    "MLCDevice.gpu": ("index", tg.MLCDevice.gpu),
    "set_num_threads": ("count", tg.set_num_threads),
    "MLCPaddingPolicy.sized": ("y", lambda given: tg.MLCPaddingPolicy.sized(y=given, x=1)),
    "image_batch_increment_read_count": (
        "amount", lambda given: mps.image_batch_increment_read_count([], given)),
    "state_batch_increment_read_count": (
        "amount", lambda given: mps.state_batch_increment_read_count([], given)),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_a_number_of_more_than_64_bits(name: str) -> None:
    argument, call = CALLS[name]
    ends = f"{-(2**31)} to {2**31 - 1}" if name == "MLCDevice.gpu" else "-2^63 to 2^63 - 1"
    for number in (2**63, -(2**63) - 1):
        with pytest.raises(tg.InvalidArgument) as raised:
            call(number)
        text = f"[{name}] expected {argument} from {ends} but got {number}"
        assert str(raised.value) == text


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(("given", "got"), [(1.5, "float"), (None, "NoneType"), ([1], "list")])
def test_what_is_no_number(name: str, given: object, got: str) -> None:
    argument, call = CALLS[name]
    with pytest.raises(TypeError, match=rf"^\[{name}\] expected {argument}: int.* '{got}'$"):
        call(given)


@pytest.mark.parametrize("index", [2**31, 2**32, 2**62, -(2**31) - 1])
def test_the_index_of_a_gpu(index: int) -> None:
    with pytest.raises(tg.InvalidArgument, match=rf"\[MLCDevice.gpu\] expected index .* {index}$"):
        tg.MLCDevice.gpu(index)


@pytest.mark.parametrize("count", [2**31, 2**32 + 1])
def test_more_epochs_than_an_int_counts(count: int) -> None:
    x = tg.MLCTensor(shape=[2, 1])
    graph = tg.MLCGraph()
    graph.node(tg.MLCActivationLayer.relu(), source=x)
    training = tg.MLCTrainingGraph(graph_objects=[graph])
    training.add_inputs({"x": x})
    with pytest.raises(
        tg.InvalidArgument, match=rf"expected epochs from .* to {2**31 - 1} but got {count}$"
    ):
        training.fit({"x": np.ones((2, 1), np.float32)}, epochs=count)


@pytest.mark.parametrize("item", ["image", "state"])
def test_what_is_no_batch(item: str) -> None:
    name = f"{item}_batch_increment_read_count"
    with pytest.raises(TypeError, match=rf"\[{name}\] expected batch: .* but got 'int'"):
        getattr(mps, name)(3, 1)


@pytest.mark.parametrize(("given", "error"), [("fast", TypeError), (None, TypeError),
                                              (float("nan"), tg.InvalidArgument),
                                              (1e308, tg.InvalidArgument)])  # fmt: skip
def test_a_rate_that_is_set(given: object, error: type[Exception]) -> None:
    kernel = mps.MPSNNOptimizerStochasticGradientDescent(device="cpu", learning_rate=0.5)
    with pytest.raises(error) as raised:
        kernel.set_learning_rate(given)
    assert "incompatible function" not in str(raised.value)
    assert kernel.learning_rate == 0.5
