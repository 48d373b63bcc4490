"""One graph and several threads: stale graphs, compiles beside executions, shared optimizers."""

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from networks import Network

import traingraph as tg

HERE = Path(__file__).parent
SECONDS = 0.6


def at_once(*calls: Callable[[], Any], seconds: float = SECONDS) -> None:
    """Each over and over on a thread of its own; raises what one of them raised."""
    end = time.monotonic() + seconds
    errors: list[BaseException] = []

    def repeat(call: Callable[[], Any]) -> None:
        try:
            while time.monotonic() < end and not errors:
                call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=repeat, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def trained(device: str = "cpu", dropout: float = 0.5) -> tuple[Any, Any, Callable[..., Any]]:
    network = Network("float32", dropout)
    training = network.training(tg.MLCAdamOptimizer(learning_rate=0.01))
    training.compile(device=device)

    def step(options: str = "synchronous", **more: Any) -> Any:
        return training.execute(
            inputs_data=network.data, loss_labels_data=network.labels, options=options, **more
        )

    return network, training, step


@pytest.mark.parametrize("makes_stale", ["load", "node", "declaration"])
def test_threads_that_execute_a_stale_graph(makes_stale: str) -> None:
    """Nobody compiles: the first execution does, on whichever thread that is."""
    network, training, step = trained()
    step()
    state = training.state()
    results = [network.result]
    count = 3
    meet = threading.Barrier(count + 1)
    rounds = 25
    errors: list[BaseException] = []

    def run() -> None:
        try:
            for _ in range(rounds):
                meet.wait(60)
                for _ in range(5):
                    step()
                meet.wait(60)
        except BaseException as error:
            errors.append(error)
            meet.abort()

    threads = [threading.Thread(target=run, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for k in range(rounds):
        before = int(training.state()["state.time_step"])
        if makes_stale == "load":
            training.load_state({**state, "state.random_seed": np.array(k)})
            before = int(state["state.time_step"])
        elif makes_stale == "node":
            results.append(network.graph.node(tg.MLCActivationLayer.tanh(), source=results[-1]))
        else:
            training.stop_gradient([])
        meet.wait(60)
        meet.wait(60)
        now = training.state()
        assert int(now["state.time_step"]) == before + 5 * count
        assert all(np.isfinite(values).all() for values in now.values())
    for thread in threads:
        thread.join(60)
    assert not errors


@pytest.mark.parametrize("kind", ["training", "inference"])
def test_a_compile_beside_executions(kind: str) -> None:
    network, graph, step = trained()
    if kind == "inference":
        graph = tg.MLCInferenceGraph(graph_objects=[network.graph])
        graph.add_inputs({"x": network.x})
        graph.compile(device="cpu")

        def step(options: str = "synchronous") -> Any:
            return graph.execute(inputs_data=network.data, options=options)

    at_once(step, lambda: graph.compile(device="cpu"))
    at_once(lambda: step("none").wait(), lambda: graph.compile(device="cpu"))


def test_a_move_to_another_device_beside_executions() -> None:
    _, training, step = trained()

    def move() -> None:
        training.compile(device="reference")
        training.compile(device="cpu")

    at_once(step, move)
    assert np.isfinite(step().result)


def test_labels_that_are_set_beside_compiles() -> None:
    network, training, _ = trained()
    names = ["weights of the first layer", "a label that is longer than the others, " * 20]

    def rename() -> None:
        for name in names:
            network.fc1.weights.label = network.fc1.label = name

    def compile() -> None:
        training.compile(device="cpu")
        found = [entry.name.split(".")[0] for entry in training.memory_plan().entries]
        assert set(found) & set(names)
        assert not [name for name in found if name.startswith(("w", "a lab")) and name not in names]

    rename()
    at_once(rename, compile, seconds=2)


def test_a_compile_in_a_handler_beside_a_compile() -> None:
    """Both want the compilation lock and the one stream: neither waits for ever."""
    network, training, step = trained()
    inference = tg.MLCInferenceGraph(graph_objects=[network.graph])
    inference.add_inputs({"x": network.x})

    def compile_inference(*_: Any) -> None:
        inference.compile(device="cpu")

    compile_inference()
    at_once(
        lambda: step("none", completion_handler=compile_inference).wait(),
        lambda: training.compile(device="cpu"),
        compile_inference,
    )


def test_handlers_that_execute_each_others_graphs() -> None:
    """Each holds its own order of work and waits for the other's. Threads change often, so that
    each lock on the way is contended."""
    (_, _, one), (_, _, other) = trained(), trained()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        at_once(
            *[lambda: one("none", completion_handler=lambda *_: other()).wait()] * 3,
            *[lambda: other("none", completion_handler=lambda *_: one()).wait()] * 3,
            seconds=3 * SECONDS,
        )
    finally:
        sys.setswitchinterval(before)


def test_a_handler_waits_for_what_the_worker_has_yet_to_do() -> None:
    (_, _, one), (_, _, other) = trained(), trained()
    done = threading.Event()

    def handler(*_: Any) -> None:
        other()
        done.set()

    for _ in range(50):
        done.clear()
        for _ in range(3):
            other("none")
        one("none", completion_handler=handler)
        for _ in range(3):
            other("none")
        assert done.wait(60)


def bad_step(network: Any, training: Any) -> Any:
    bad = {"x": np.full(network.data["x"].shape, np.inf, network.dtype)}
    return training.execute(
        inputs_data=bad, loss_labels_data=network.labels, options="check_numerics"
    )


@pytest.mark.parametrize("in_flight", [1, 3])
def test_a_failure_gives_its_time_step_to_those_behind_it(in_flight: int) -> None:
    """Bias correction is that of the updates there have been, whatever was in flight."""

    def run(failing: int) -> np.ndarray:
        network, training, step = trained("reference", 0.0)
        step()
        hold, seen = threading.Event(), []
        # What stands in a handler keeps all behind it in flight.
        blocker = step("none", completion_handler=lambda *_: hold.wait(60))
        handles = [bad_step(network, training) for _ in range(failing)]
        handles += [step("none") for _ in range(2)]
        hold.set()
        blocker.wait()
        for handle in handles:
            try:
                handle.wait()
            except tg.NumericError as error:
                seen.append(error)
        assert len(seen) == failing
        assert training.optimizer.time_step == 5
        training.synchronize_updates()
        return network.parameters()[0]

    np.testing.assert_array_equal(run(in_flight), run(0))


def test_updates_in_flight_are_no_part_of_a_state_after_a_compile() -> None:
    """The compile gives the graph a new executor, and updates of the one before are to come."""
    _, training, step = trained("cpu", 0.0)
    submitted = threading.Event()
    seen = []

    def handler(*_: Any) -> None:
        assert submitted.wait(60)
        training.compile(device="cpu")
        seen.append(int(training.state()["state.time_step"]))

    handles = [step("none", completion_handler=handler)] + [step("none") for _ in range(3)]
    submitted.set()
    for handle in handles:
        handle.wait()
    assert seen == [2]
    assert training.optimizer.time_step == 5


def test_pairs_of_calls() -> None:
    """The short form of the stress test; tests/sanitize.sh has the long ones."""
    seed = random.randrange(100000)
    for threads in ("2", "4"):
        command = [sys.executable, str(HERE / "stress_threads.py"), "--threads", threads]
        run = subprocess.run(
            [*command, "--seconds", "2", "--pairs", "60", "--seed", str(seed)],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert run.returncode == 0, run.stdout + run.stderr[-4000:]
