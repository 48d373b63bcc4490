"""What a wait waits for: not for itself, not for the threads of a parent, not against Ctrl-C."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from networks import Network

import traingraph as tg
import traingraph.mps as mps


def compiled() -> tuple[Network, Callable[..., Any]]:
    network = Network("float32")
    training = network.training(tg.MLCSGDOptimizer(learning_rate=0.1))
    training.compile(device="cpu")

    def step(**more: Any) -> Any:
        return training.execute(inputs_data=network.data, loss_labels_data=network.labels, **more)

    return network, step


@pytest.mark.parametrize("somebody_waits", [True, False])
def test_a_handler_that_waits_for_itself(somebody_waits: bool) -> None:
    _, step = compiled()
    submitted, done = threading.Event(), threading.Event()
    box: list[Any] = []
    errors: list[BaseException] = []

    def handler(*_: Any) -> None:
        submitted.wait(60)
        for wait in (box[0].wait, lambda: box[0].result):
            try:
                wait()
            except tg.InvalidArgument as error:
                errors.append(error)
        done.set()

    box.append(step(completion_handler=handler))
    submitted.set()
    if somebody_waits:
        box[0].wait()
    assert done.wait(60)
    assert len(errors) == 2
    assert "would wait for itself" in str(errors[0])
    box[0].wait()


@contextmanager
def hold(step: Callable[..., Any]) -> Iterator[None]:
    """Keeps what is submitted meanwhile in flight."""
    held, go = threading.Event(), threading.Event()

    def handler(*_: Any) -> None:
        held.set()
        go.wait(60)

    thread = threading.Thread(
        target=lambda: step(options="synchronous", completion_handler=handler)
    )
    thread.start()
    assert held.wait(60)
    yield
    go.set()
    thread.join()


def test_handlers_that_wait_for_each_other() -> None:
    """The later of the two cannot: the other one goes on."""
    (_, one), (_, other) = compiled(), compiled()
    both = threading.Barrier(2)
    handles: dict[str, Any] = {}
    errors: list[BaseException] = []

    def waits_for(name: str) -> Callable[..., None]:
        def handler(*_: Any) -> None:
            both.wait(60)  # on two threads
            try:
                handles[name].wait()
            except tg.InvalidArgument as error:
                errors.append(error)

        return handler

    with hold(one), hold(other):
        handles["one"] = one(completion_handler=waits_for("other"))
        handles["other"] = other(completion_handler=waits_for("one"))
    threads = [threading.Thread(target=handles[name].wait, daemon=True) for name in handles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert len(errors) == 1


@pytest.mark.parametrize("waits_first", ["for the work", "for the graph"])
def test_a_wait_for_a_handler_that_wants_the_graph(waits_first: str) -> None:
    """One handler waits for the other's execution, whose handler executes the first one's graph."""
    (_, one), (_, other) = compiled(), compiled()
    both = threading.Barrier(2)
    late = waits_first == "for the graph"
    errors: list[BaseException] = []
    losses: list[Any] = []

    def waits(*_: Any) -> None:
        both.wait(60)
        time.sleep(0.1 * late)
        try:
            losses.append(handle.result)
        except BaseException as error:
            errors.append(error)

    def executes(*_: Any) -> None:
        both.wait(60)
        time.sleep(0.1 * (not late))
        losses.append(one(options="synchronous").result)

    with hold(one), hold(other):
        handle = other(completion_handler=executes)
        first = one(completion_handler=waits)
    threads = [threading.Thread(target=each.wait, daemon=True) for each in (handle, first)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not errors
    assert len(losses) == 2


def test_a_command_buffer_whose_handler_waits_for_it() -> None:
    buffer = mps.MTLDevice(device="cpu").make_command_queue().make_command_buffer()
    errors: list[BaseException] = []

    def handler(same: Any) -> None:
        try:
            same.wait_until_completed()
        except tg.InvalidArgument as error:
            errors.append(error)

    buffer.add_completed_handler(handler)
    buffer.commit()
    buffer.wait_until_completed()
    assert len(errors) == 1


def in_child(call: Callable[[], Any]) -> str:
    """What a forked child's call raises, by name; "" when it returns, "hangs" when it does not."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            call()
            os._exit(0)
        except BaseException as error:
            os.write(write, type(error).__name__.encode())
            os._exit(1)
    os.close(write)
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if os.waitpid(child, os.WNOHANG)[0] != 0:
            with os.fdopen(read) as text:
                return text.read()
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(read)
    return "hangs"


@pytest.mark.parametrize("kind", ["wait", "result", "read", "buffer", "commit"])
def test_a_wait_after_a_fork(kind: str) -> None:
    network, step = compiled()
    queue = mps.MTLDevice(device="cpu").make_command_queue()
    buffer, later = queue.make_command_buffer(), queue.make_command_buffer()
    hold, held = threading.Event(), threading.Event()

    def handler(*_: Any) -> None:
        held.set()
        hold.wait(60)

    buffer.add_completed_handler(handler)
    handle = step(completion_handler=handler)
    assert held.wait(60)
    if kind in ("buffer", "commit"):
        hold.set()
        handle.wait()
        hold.clear()
        held.clear()
        buffer.commit()
        assert held.wait(60)

    def commit() -> None:
        later.commit()
        later.wait_until_completed()

    calls: dict[str, Callable[[], Any]] = {
        "wait": handle.wait,
        "result": lambda: handle.result,
        "read": network.fc1.weights.synchronize_data,
        "buffer": buffer.wait_until_completed,
        "commit": commit,
    }
    try:
        assert in_child(calls[kind]) == "DeviceError"
    finally:
        hold.set()
    handle.wait()


INTERRUPTED = """
import os, signal, sys, threading, time
import numpy as np
import traingraph as tg
import traingraph.mps as mps

x, y = tg.MLCTensor(shape=[4, 3]), tg.MLCTensor(shape=[4, 3])
graph = tg.MLCGraph()
layer = tg.MLCFullyConnectedLayer(descriptor=tg.MLCConvolutionDescriptor(
    kernel_sizes=(1, 1), input_feature_channel_count=3, output_feature_channel_count=3))
graph.node(layer, source=x)
training = tg.MLCTrainingGraph(graph_objects=[graph],
    loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
    optimizer=tg.MLCSGDOptimizer(learning_rate=0.1))
training.add_inputs({"x": x}, loss_labels={"y": y})
training.compile(device="cpu")
data = {"x": np.ones((4, 3), np.float32)}
labels = {"y": np.ones((4, 3), np.float32)}

def step(**more):
    return training.execute(inputs_data=data, loss_labels_data=labels, **more)

held = threading.Event()
def handler(*_):
    held.set()
    time.sleep(2)

queue = mps.MTLDevice(device="cpu").make_command_queue()
buffer = queue.make_command_buffer()
if sys.argv[1] == "buffer":
    buffer.add_completed_handler(handler)
    buffer.commit()
else:
    handle = step(completion_handler=handler)
held.wait()
calls = {
    "wait": lambda: handle.wait(),
    "result": lambda: handle.result,
    "execute": lambda: step(options="synchronous"),
    "compile": lambda: training.compile(device="cpu"),
    "state": lambda: training.state(),
    "read": lambda: layer.weights.synchronize_data(),
    "gradient": lambda: training.gradient_tensor(x),
    "evaluate": lambda: training.evaluate(data, labels=labels),
    "predict": lambda: training.predict(data),
    "buffer": lambda: buffer.wait_until_completed(),
}
sent = [0.0]
def interrupt():
    time.sleep(0.3)
    sent[0] = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
try:
    calls[sys.argv[1]]()
except KeyboardInterrupt:
    print(time.monotonic() - sent[0], flush=True)
    if sys.argv[1] != "buffer":
        handle.wait()
        step(options="synchronous")
"""
WAITS = ["wait", "result", "execute", "compile", "state", "read", "gradient", "evaluate"]
WAITS += ["predict", "buffer"]


def test_an_interrupt_ends_every_wait() -> None:
    runs = {
        name: subprocess.Popen(
            [sys.executable, "-c", INTERRUPTED, name],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in WAITS
    }
    for name, run in runs.items():
        out, err = run.communicate(timeout=120)
        assert run.returncode == 0, (name, err[-2000:])
        assert out, name
        # The bound is 0.2 s; twenty processes at once may be late by themselves.
        assert float(out) < 1.0, (name, out)


def test_an_interrupted_step_still_counts() -> None:
    """What the wait was for goes on, and what comes next stands behind it."""
    out = subprocess.run(
        [
            sys.executable,
            "-c",
            INTERRUPTED.replace("        handle.wait()\n", "")
            + "\nprint(training.state()['state.forward_count'])",
            "execute",
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert out.returncode == 0, out.stderr[-2000:]
    # The handler's step, the interrupted one, and the one after it.
    assert int(out.stdout.split()[1]) == 3
    assert np.isfinite(float(out.stdout.split()[0]))


def test_synchronize_updates_waits_where_nothing_is_trained():
    x, y, graph = tg.MLCTensor(shape=[17]), tg.MLCTensor(shape=[17]), tg.MLCGraph()
    result = graph.node(tg.MLCActivationLayer.relu(), source=x)
    loss = tg.MLCLossLayer.mean_squared_error(reduction_type="sum")
    training = tg.MLCTrainingGraph(graph_objects=[graph], loss_layer=loss)
    training.add_inputs({"x": x}, loss_labels={"y": y})
    training.add_outputs({"gradient": training.gradient_tensor(result)})
    training.compile(device="cpu")
    for _ in range(300):
        data = {"x": np.ones(17, np.float32), "y": np.zeros(17, np.float32)}
        training.bind_and_write_data(data, for_inputs={"x": x, "y": y})
        training.execute_forward()
        gradient = np.zeros(17, np.float32)
        training.execute_gradient(outputs_data={"gradient": gradient})
        training.synchronize_updates()
        assert (gradient == 2).all()
