"""A step that separate calls have begun is finished, or refuses by name what would destroy it."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from networks import Network

import traingraph as tg

DEVICES = pytest.mark.parametrize(
    ("device", "dtype"), [("cpu", "float32"), ("reference", "float64")]
)
SYNCHRONOUS = {"options": "synchronous"}


def inference(option: str) -> Callable[[Network, Any], Any]:
    return lambda net, t: t.execute(
        inputs_data=net.data,
        loss_labels_data=net.labels,
        options=f"{option}|forward_for_inference",
    )


def rows(net: Network, count: int) -> tuple[np.ndarray, np.ndarray]:
    return net.data["x"][:count], net.labels["y"][:count]


# By the name in the message: what runs in inference mode.
REFUSED: dict[str, tuple[str, Callable[[Network, Any], Any]]] = {
    "predict": ("predict", lambda net, t: t.predict(net.data["x"])),
    "predict of other rows": ("predict", lambda net, t: t.predict(net.data["x"][:5])),
    "evaluate": ("evaluate", lambda net, t: t.evaluate(net.data["x"], net.labels["y"])),
    "evaluate of other rows": ("evaluate", lambda net, t: t.evaluate(*rows(net, 4))),
    "execute": ("execute", inference("synchronous")),
    "execute in flight": ("execute", inference("none")),
    "execute_forward": (
        "execute",
        lambda net, t: t.execute_forward(options="synchronous|forward_for_inference"),
    ),
}


def inference_graph(net: Network, training: Any) -> None:
    graph = tg.MLCInferenceGraph(graph_objects=[net.graph])
    graph.add_inputs({"x": net.x})
    graph.compile(device=net.device)
    graph.predict(net.data["x"])


HARMLESS: dict[str, Callable[[Network, Any], Any]] = {
    "state": lambda net, t: t.state(),
    "memory_plan": lambda net, t: t.memory_plan(),
    "synchronize_updates": lambda net, t: t.synchronize_updates(),
    "inference graph": inference_graph,
    "check_gradients": lambda net, t: tg.check_gradients(t, net.data, net.labels),
}


def made(device: str, dtype: str, micro: int = 1) -> tuple[Network, Any]:
    net = Network(dtype)
    net.device = device
    training = net.training(tg.MLCAdamOptimizer(learning_rate=0.1))
    training.micro_batches = micro
    training.compile(device=device)
    net.feed(training)
    return net, training


def calls_of_a_step(training: Any, micro: int) -> list[Callable[..., Any]]:
    passes = [training.execute_forward, training.execute_gradient]
    return [*passes * micro, training.execute_optimizer_update]


def trained(device: str, dtype: str, micro: int = 1) -> list[bytes]:
    _, training = made(device, dtype, micro)
    for call in calls_of_a_step(training, micro):
        call(**SYNCHRONOUS)
    return bits(training)


def bits(training: Any) -> list[bytes]:
    return [array.tobytes() for array in training.state().values()]


@DEVICES
@pytest.mark.parametrize("micro", [1, 2])
@pytest.mark.parametrize("what", REFUSED)
def test_inference_amid_a_step_is_refused_before_it_destroys_it(
    device: str, dtype: str, what: str, micro: int
) -> None:
    call, infer = REFUSED[what]
    net, training = made(device, dtype, micro)
    calls = calls_of_a_step(training, micro)
    for k, (before, after) in enumerate(pairwise(calls)):
        before(**SYNCHRONOUS)
        if k % 2 == 1 and k < 2 * micro - 1:  # the sum alone is gone on with
            infer(net, training)
            continue
        expected = rf"\[{call}\] expected {after.__name__} before it, .* the begun step's passes"
        with pytest.raises(tg.InvalidArgument, match=expected):
            infer(net, training)
    calls[-1](**SYNCHRONOUS)
    assert bits(training) == trained(device, dtype, micro)
    infer(net, training)  # the step is done


@DEVICES
def test_what_is_in_flight_counts(device: str, dtype: str) -> None:
    net, training = made(device, dtype)
    handle = training.execute_forward()
    with pytest.raises(tg.InvalidArgument, match=r"\[predict\] expected execute_gradient before"):
        training.predict(net.data["x"])
    handle.wait()
    training.execute_gradient()
    with pytest.raises(tg.InvalidArgument, match=r"\[evaluate\] expected execute_optimizer_upd"):
        training.evaluate(net.data["x"], net.labels["y"])
    training.execute_optimizer_update()
    assert bits(training) == trained(device, dtype)


@DEVICES
@pytest.mark.parametrize("what", HARMLESS)
def test_what_is_harmless_stands_anywhere(device: str, dtype: str, what: str) -> None:
    net, training = made(device, dtype)
    for call in calls_of_a_step(training, 1):
        call(**SYNCHRONOUS)
        HARMLESS[what](net, training)
    assert bits(training) == trained(device, dtype)


@DEVICES
def test_a_new_step_or_a_failure_ends_the_begun_one(device: str, dtype: str) -> None:
    net, training = made(device, dtype)
    training.execute_forward(**SYNCHRONOUS)
    training.execute(inputs_data=net.data, loss_labels_data=net.labels, **SYNCHRONOUS)
    training.predict(net.data["x"])
    training.execute_forward(**SYNCHRONOUS)
    training.load_state(training.state())
    training.predict(net.data["x"])
    net.data["x"] = np.full_like(net.data["x"], np.nan)
    net.feed(training)
    with pytest.raises(tg.NumericError):
        training.execute_forward(options="synchronous|check_numerics")
    training.predict(net.data["x"])


@DEVICES
def test_gradients_without_an_optimizer_are_no_begun_step(device: str, dtype: str) -> None:
    net = Network(dtype)
    training = net.training()
    training.compile(device=device)
    net.feed(training)
    training.execute_forward(**SYNCHRONOUS)
    with pytest.raises(tg.InvalidArgument, match="expected execute_gradient before it"):
        training.predict(net.data["x"])
    training.execute_gradient(**SYNCHRONOUS)
    training.predict(net.data["x"])


@DEVICES
def test_a_graph_that_computes_no_gradient_begins_no_step(device: str, dtype: str) -> None:
    net = Network(dtype)
    training = tg.MLCTrainingGraph(graph_objects=[net.graph])
    training.add_inputs({"x": net.x})
    training.compile(device=device)
    training.bind_and_write_data(net.data, for_inputs={"x": net.x})
    training.execute_forward(**SYNCHRONOUS)
    training.predict(net.data["x"])
