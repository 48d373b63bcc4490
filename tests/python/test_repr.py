"""Every object says in one line what it is."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import traingraph
import traingraph.augment
from traingraph import (
    MLCAdamOptimizer,
    MLCDevice,
    MLCInferenceGraph,
    MLCTensor,
    MLCTensorData,
    MLCTensorParameter,
    nn,
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


@pytest.mark.parametrize(("made", "text"), [
    ("EarlyStopping(patience=3, monitor='accuracy')",
     "<EarlyStopping patience=3 min_delta=0 monitor='accuracy' restores_best=True>"),
    ("CSVLog(path='é.csv', appends=True)", "<CSVLog path='é.csv' appends=True>"),
    ("Checkpoint(path='a')", "<Checkpoint path='a' every_steps=0>"),
    ("Checkpoint(path='a', every_steps=3, metadata={'x': 'y', 'z': ''})",
     "<Checkpoint path='a' every_steps=3 metadata of 'x' 'z'>"),
    ("RateSchedule.cosine(0.1, steps=10)", "<RateSchedule cosine(0.1, 10, 0)>"),
    ("augment.scale()", "<augment.scale(0.00392157, 0)>"),
    ("augment.flip(0.2, axis=1)", "<augment.flip(0.2, 1)>"),
    ("augment.shift(2)", "<augment.shift(2)>"),
    ("augment.noise(0.5)", "<augment.noise(0.5)>"),
    ("augment.Batches([[1]] * x, x, batch_size=2, transforms=[augment.shift(1)])",
     "<Batches of 3 samples batch_size=2 seed=0 shuffle=True transforms=[<augment.shift(1)>]>"),
])  # fmt: skip
def test_what_a_fit_is_given_says_its_settings(made: str, text: str) -> None:
    given = {**vars(traingraph), "augment": traingraph.augment, "x": np.ones((3, 1))}
    assert repr(eval(made, given)) == text


def test_a_path_that_is_no_text_can_be_shown() -> None:
    assert repr(traingraph.CSVLog(path=b"\xff.csv")) == r"<CSVLog path='\xff.csv' appends=False>"


def test_an_evaluation_shows_its_metrics() -> None:
    model = nn.model([nn.dense(2)], input=3)
    x, y = np.ones((4, 3), np.float32), np.array([0, 1, 0, 1])
    shown = repr(model.evaluate(x, y, metrics=["auc", "accuracy", "confusion_matrix"]))
    assert shown.startswith("<Evaluation loss ")
    assert shown.endswith(", accuracy 0.5, auc 0.5, confusion_matrix of 2 classes>")
