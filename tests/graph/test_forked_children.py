"""A fork while other threads are in the library: no call of the child hangs."""

import gc
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from networks import Network
from test_waits import in_child

import traingraph as tg
from traingraph import nn

HERE = Path(__file__).parent
ALLOWED = ("", "DeviceError")


def trained() -> tuple[Any, Any, Callable[..., Any]]:
    network = Network("float32")
    training = network.training(tg.MLCAdamOptimizer(learning_rate=0.01))
    training.compile(device="cpu")

    def step(options: str = "synchronous") -> Any:
        return training.execute(
            inputs_data=network.data, loss_labels_data=network.labels, options=options
        )

    return network, training, step


@contextmanager
def repeated(*calls: Callable[[], Any]) -> Iterator[None]:
    """Each on a thread of its own."""
    over = threading.Event()

    def repeat(call: Callable[[], Any]) -> None:
        while not over.is_set():
            call()

    threads = [threading.Thread(target=repeat, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    yield
    over.set()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.parametrize("beside", ["train", "compile", "state", "save"])
def test_calls_of_a_child(beside: str, tmp_path: Path) -> None:
    network, training, step = trained()
    _, other, _ = trained()
    if beside == "train":
        step()  # before the first fork
    results = [network.result]

    def node() -> None:
        results.append(network.graph.node(tg.MLCActivationLayer.tanh(), source=results[-1]))

    calls: dict[str, Callable[[], Any]] = {
        "predict": lambda: training.predict(network.data),
        "execute": step,
        "memory_plan": training.memory_plan,
        "save": lambda: training.save(tmp_path / "fork.safetensors"),
        "state": training.state,
        "load_state": lambda: training.load_state(other.state()),
        "summary": training.summary,
        "compile": lambda: training.compile(device="cpu"),
        "node": node,
        "a new graph": trained,
        "a new model": lambda: nn.model([nn.dense(3)], input=2, device="cpu"),
        "a new tensor": lambda: tg.MLCTensor(data=np.ones(3, np.float32)).data.sum(),
        "collection": gc.collect,
    }
    busy = {
        "save": calls["save"],
        "train": step,
        "compile": lambda: other.compile(device="cpu"),
        "state": lambda: (training.state(), other.state(), other.summary()),
    }
    with repeated(busy[beside]):
        ends = {name: {in_child(call) for _ in range(4)} for name, call in calls.items()}
    assert not {name: end for name, end in ends.items() if not end <= set(ALLOWED)}
    if beside == "train":
        assert ends["execute"] == ends["predict"] == {"DeviceError"}
    # The parent goes on.
    assert np.isfinite(step().result)


def test_threads_of_a_child_do_not_pass_for_those_of_the_parent() -> None:
    """pthreads gives their numbers again."""
    network, training, _ = trained()
    held, go = threading.Event(), threading.Event()

    def handler(*_: Any) -> None:
        held.set()
        go.wait(60)

    handle = training.execute(
        inputs_data=network.data, loss_labels_data=network.labels, completion_handler=handler
    )
    assert held.wait(60)

    def reads() -> None:
        errors: list[BaseException] = []

        def read() -> None:
            try:
                network.fc1.weights.synchronize_data()
            except tg.DeviceError as error:
                errors.append(error)

        for _ in range(8):
            thread = threading.Thread(target=read)
            thread.start()
            thread.join()
        if len(errors) == 8:
            raise errors[0]

    try:
        assert in_child(reads) == "DeviceError"
    finally:
        go.set()
    handle.wait()


@pytest.mark.parametrize("used", ["imported", "made a graph", "compiled"])
def test_a_parent_that_has_executed_nothing(used: str) -> None:
    program = f"""
import multiprocessing, sys
sys.path.insert(0, {str(HERE)!r})
import traingraph as tg
if {used!r} != "imported":
    from networks import Network
    network = Network("float32")
    training = network.training(tg.MLCSGDOptimizer(learning_rate=0.1))
    if {used!r} == "compiled":
        training.compile(device="cpu")

def work(answer):
    from networks import Network
    network = Network("float32") if {used!r} == "imported" else globals()["network"]
    training = globals().get("training")
    if training is None:
        training = network.training(tg.MLCSGDOptimizer(learning_rate=0.1))
    if {used!r} != "compiled":
        training.compile(device="cpu")
    called = []
    handle = training.execute(inputs_data=network.data, loss_labels_data=network.labels,
                              completion_handler=lambda *a: called.append(a))
    handle.wait()
    training.state()
    answer.put(len(called))

context = multiprocessing.get_context("fork")
answer = context.Queue()
processes = [context.Process(target=work, args=(answer,)) for _ in range(2)]
for process in processes:
    process.start()
print([answer.get(timeout=60) for _ in processes])
for process in processes:
    process.join(60)
    assert process.exitcode == 0
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120
    )
    assert (run.returncode, run.stdout) == (0, "[1, 1]\n"), run.stdout + run.stderr


@pytest.mark.parametrize("ends", ["os._exit", "sys.exit"])
def test_the_end_of_a_child(ends: str) -> None:
    """Its objects, of which threads of the parent were amid the use, go with the interpreter."""
    program = f"""
import os, signal, sys, threading
sys.path.insert(0, {str(HERE)!r})
from test_forked_children import trained
network, training, step = trained()
_, other, _ = trained()
over = False
def repeat(call):
    while not over:
        call()
calls = [step, lambda: step("none").wait(), lambda: other.compile(device="cpu"), training.state]
threads = [threading.Thread(target=repeat, args=(call,), daemon=True) for call in calls]
for thread in threads:
    thread.start()
for _ in range(12):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        del training, other, step, network, calls
        {ends}(0)
    assert os.waitpid(child, 0)[1] == 0
over = True
for thread in threads:
    thread.join()
print("held")
"""
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300
    )
    assert (run.returncode, run.stdout) == (0, "held\n"), run.stdout + run.stderr[-4000:]


def test_forks_beside_threads() -> None:
    """The short form of the stress test."""
    command = [sys.executable, str(HERE / "stress_forks.py"), "--seconds", "4"]
    command += ["--seed", str(random.randrange(100000))]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr[-4000:]
