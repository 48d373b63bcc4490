"""Records that the package returns go through pickle and copy, and come back as they were."""

import copy
import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest

import traingraph as tg
from traingraph import mps


def trained() -> tuple[tg.MLCTrainingGraph, np.ndarray]:
    x, y, graph = tg.MLCTensor(shape=[2, 1]), tg.MLCTensor(shape=[2, 2]), tg.MLCGraph()
    layer = tg.MLCFullyConnectedLayer(
        descriptor=tg.MLCConvolutionDescriptor(
            kernel_sizes=(1, 1), input_feature_channel_count=1, output_feature_channel_count=2
        )
    )
    graph.node(layer, source=x)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.softmax_cross_entropy("mean"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=0.1),
    )
    training.add_inputs({"x": x}, loss_labels={"y": y})
    training.compile(device="cpu")
    return training, np.ones((2, 1), np.float32)


def records() -> list[Any]:
    training, ones = trained()
    labels = np.eye(2, dtype=np.float32)
    (epoch,) = training.fit(ones, labels=labels)
    run = training.execute(
        inputs_data={"x": ones},
        loss_labels_data={"y": labels},
        options="synchronous|per_layer_profiling",
    )
    plan, profile = training.memory_plan(), run.profile
    region = mps.MTLRegion(mps.MTLOrigin(1, 2, 3), mps.MTLSize(4, 5, 6))
    return [
        epoch,
        training.evaluate(ones, labels=labels),
        plan,
        plan.entries[0],
        profile,
        profile.entries[0],
        profile.layers[0],
        region,
        mps.MPSCNNNeuronReLU(device="cpu", a=0.0).offset,
    ]


def members(record: Any) -> Any:
    """All that can be read of it."""
    if isinstance(record, list | tuple):
        return [members(one) for one in record]
    if not type(record).__module__.startswith("traingraph"):
        return record
    names = [name for name in dir(record) if not name.startswith("_")]
    return {name: members(value) for name in names if not callable(value := getattr(record, name))}


@pytest.mark.parametrize("record", records(), ids=lambda record: type(record).__qualname__)
def test_records_come_back(record: Any) -> None:
    expected = members(record)
    assert expected
    for again in (
        *(pickle.loads(pickle.dumps(record, protocol)) for protocol in range(6)),
        copy.copy(record),
        copy.deepcopy(record),
    ):
        assert type(again) is type(record)
        assert members(again) == expected
        assert str(again) == str(record)
        assert again == record
        assert hash(again) == hash(record)
    assert record != 3


def test_records_of_other_numbers_are_others() -> None:
    training, ones = trained()
    labels = np.eye(2, dtype=np.float32)
    first, second = training.fit(ones, labels=labels, epochs=2)
    assert first != second
    assert training.evaluate(ones, labels=labels) == training.evaluate(ones, labels=labels)
    assert training.evaluate(ones, labels=labels) != training.evaluate(2 * ones, labels=labels)
    plan = training.memory_plan()
    assert plan.entries == training.memory_plan().entries
    assert plan.entries[0] != plan.entries[1]


def test_nan_of_a_record_is_the_same_in_its_copy() -> None:
    training, ones = trained()
    alike = np.eye(2, dtype=np.float32)[[0, 0]]  # without the other class there is no area
    found = training.evaluate(ones, labels=alike, metrics=["auc", "confusion_matrix"])
    assert np.isnan(found.metrics["auc"])
    assert copy.copy(found) == found == pickle.loads(pickle.dumps(found))


def test_what_is_no_record_is_not_pickled() -> None:
    training = trained()[0]
    data = {"inputs_data": {"x": np.ones((2, 1), np.float32)}}
    labels = {"y": np.eye(2, dtype=np.float32)}
    others = [
        training, tg.MLCTensor(shape=[1]), tg.MLCActivationLayer.relu(), tg.MLCDevice.cpu(),
        tg.EarlyStopping(patience=1), training.execute(**data, loss_labels_data=labels),
        mps.MPSNNImageNode(), mps.MTLDevice(device="cpu"),
    ]  # fmt: skip
    for other in others:
        text = rf"^cannot pickle 'traingraph.*{type(other).__name__}' object$"
        calls = [partial(pickle.dumps, other, protocol) for protocol in range(6)]
        for call in (*calls, other.__reduce__, partial(other.__reduce_ex__, 4)):
            with pytest.raises(TypeError, match=text):
                call()
        assert not hasattr(other, "_pybind11_conduit_v1_")


def test_a_damaged_record_is_refused() -> None:
    epoch = trained()[0].evaluate(np.ones((2, 1), np.float32), labels=np.eye(2, dtype=np.float32))
    made, arguments = type(epoch).__new__, (type(epoch),)
    with pytest.raises(TypeError, match=r"\[Evaluation\] expected loss: float but got .str."):
        made(*arguments).__setstate__(("low", None, {}))
    with pytest.raises(TypeError, match=r"expected state: tuple\[object, ...\] but got .int."):
        made(*arguments).__setstate__(3)
    with pytest.raises(tg.InvalidArgument, match="expected 3 values of a record but got 1"):
        made(*arguments).__setstate__((1.0,))
