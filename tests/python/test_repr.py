"""Every object says in one line what it is."""

from collections.abc import Callable
from typing import Any

import pytest

import traingraph
from traingraph import (
    MLCAdamOptimizer,
    MLCDevice,
    MLCInferenceGraph,
    MLCTensor,
    MLCTensorData,
    MLCTensorParameter,
)


@pytest.fixture
def objects(regression: Callable[..., Any]) -> list[Any]:
    """One of each class that is no layer and no descriptor, which test_descriptors.py has."""
    r = regression(MLCAdamOptimizer(learning_rate=0.5))
    step = r.step(options="synchronous")
    return [
        r.graph,
        r.training,
        MLCInferenceGraph(graph_objects=[r.graph]),
        step,
        r.training.optimizer,
        r.layer,
        r.weights,
        MLCTensor(shape=[2], data_type="bool"),
        MLCTensorParameter(tensor=r.weights),
        r.weights.optimizer_device_data[1],
        MLCTensorData(bytes_no_copy=bytearray(8)),
        MLCDevice.cpu(),
        MLCDevice(type="any"),
        traingraph.MLCGraph(),
    ]


def test_one_line_that_names_the_class(objects: list[Any]) -> None:
    for thing in objects:
        text = repr(thing)
        assert text.startswith(f"<{type(thing).__name__} ")
        assert text.endswith(">")
        assert "\n" not in text
        assert len(text) > len(type(thing).__name__) + 3


def test_it_says_what_matters(objects: list[Any]) -> None:
    texts = [repr(thing) for thing in objects]
    assert "on " in texts[1]
    assert "0.5" in texts[4]
    assert "(2) bool" in texts[7] or "(2,) bool" in texts[7]
    assert "8 bytes" in texts[10]
