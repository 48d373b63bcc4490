"""Pairs of public calls on one graph, from several threads at once.

    python tests/graph/stress_threads.py --threads 4 --seconds 60 --seed 7

Each pair of the table below runs for a part of the time, in an order that the seed gives; with four
threads two pairs run at a time. What a call may raise are the package's own errors about calls that
do not follow each other. Fails with a crash, a hang, another error, or a state that is not finite.
Under the sanitizers: tests/sanitize.sh.
"""

import argparse
import faulthandler
import itertools
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import traingraph as tg

ROWS, INPUTS, OUTPUTS = 4, 3, 2
HANG_SECONDS = 60.0
Call = Callable[["Subject", random.Random], Any]
CALLS: dict[str, Call] = {}


def call(function: Call) -> Call:
    CALLS[function.__name__] = function
    return function


class Subject:
    """One training graph, and an inference graph over the same layers."""

    def __init__(self, folder: Path) -> None:
        self.x = tg.MLCTensor(shape=[ROWS, INPUTS])
        self.y = tg.MLCTensor(shape=[ROWS, OUTPUTS])
        self.graph = tg.MLCGraph()
        self.layer = tg.MLCFullyConnectedLayer(
            descriptor=tg.MLCConvolutionDescriptor(
                kernel_sizes=(1, 1),
                input_feature_channel_count=INPUTS,
                output_feature_channel_count=OUTPUTS,
            )
        )
        hidden = self.graph.node(self.layer, source=self.x)
        self.dropout = tg.MLCDropoutLayer(rate=0.25, seed=0)
        self.results = [self.graph.node(self.dropout, source=hidden)]
        self.building = threading.Lock()
        self.optimizer = tg.MLCAdamOptimizer(learning_rate=0.01)
        self.training = tg.MLCTrainingGraph(
            graph_objects=[self.graph],
            loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
            optimizer=self.optimizer,
        )
        self.training.add_inputs({"x": self.x}, loss_labels={"y": self.y})
        self.training.compile(device="cpu")
        # Shares parameters and optimizer, and has a lock of its own.
        self.twin = tg.MLCTrainingGraph(
            graph_objects=[self.graph],
            loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
            optimizer=self.optimizer,
        )
        self.twin.add_inputs({"x": self.x}, loss_labels={"y": self.y})
        self.twin.compile(device="cpu")
        self.inference = tg.MLCInferenceGraph(graph_objects=[self.graph])
        self.inference.add_inputs({"x": self.x})
        self.inference.compile(device="cpu")
        self.step("synchronous")
        self.path = folder / "stress.safetensors"
        self.training.save(self.path)

    @staticmethod
    def data(rows: int = ROWS) -> dict[str, np.ndarray]:
        return {"x": np.full((rows, INPUTS), 0.5, np.float32)}

    @staticmethod
    def labels(rows: int = ROWS) -> dict[str, np.ndarray]:
        return {"y": np.zeros((rows, OUTPUTS), np.float32)}

    def step(self, options: str = "none", rows: int = ROWS, **more: Any) -> Any:
        return self.training.execute(
            inputs_data=self.data(rows),
            loss_labels_data=self.labels(rows),
            batch_size=rows,
            options=options,
            **more,
        )


@call
def execute(s: Subject, chance: random.Random) -> Any:
    return s.step("synchronous")


@call
def execute_and_wait(s: Subject, chance: random.Random) -> Any:
    return s.step().wait()


@call
def execute_and_leave(s: Subject, chance: random.Random) -> Any:
    handles = [s.step() for _ in range(3)]
    return handles[-1].result


@call
def execute_other_batches(s: Subject, chance: random.Random) -> Any:
    return s.step("synchronous", rows=chance.randrange(1, 9))


@call
def execute_with_handler(s: Subject, chance: random.Random) -> Any:
    return s.step(completion_handler=lambda result, error, seconds: None).wait()


def step_with(s: Subject, inner: Callable[[], Any]) -> Any:
    """Calls it in a handler, and raises what that raises."""
    errors: list[BaseException] = []

    def handler(result: Any, error: Any, seconds: float) -> None:
        try:
            inner()
        except BaseException as raised:
            errors.append(raised)

    s.step(completion_handler=handler).wait()
    if errors:
        raise errors[0]


@call
def execute_in_handler(s: Subject, chance: random.Random) -> Any:
    return step_with(s, lambda: s.step("synchronous"))


@call
def compile_in_handler(s: Subject, chance: random.Random) -> Any:
    return step_with(s, lambda: s.inference.compile(device="cpu"))


@call
def phases(s: Subject, chance: random.Random) -> Any:
    s.training.bind_and_write_data({**s.data(), **s.labels()}, for_inputs={"x": s.x, "y": s.y})
    s.training.execute_forward()
    s.training.execute_gradient()
    return s.training.execute_optimizer_update(options="synchronous")


@call
def execute_a_bad_batch(s: Subject, chance: random.Random) -> Any:
    bad = np.full((ROWS, INPUTS), np.inf, np.float32)
    return s.training.execute(
        inputs_data={"x": bad}, loss_labels_data=s.labels(), options="check_numerics"
    ).wait()


@call
def execute_twin(s: Subject, chance: random.Random) -> Any:
    return s.twin.execute(inputs_data=s.data(), loss_labels_data=s.labels(), options="synchronous")


@call
def infer(s: Subject, chance: random.Random) -> Any:
    return s.inference.execute(inputs_data=s.data(), options="synchronous")


@call
def predict(s: Subject, chance: random.Random) -> Any:
    return s.training.predict(s.data(10))


@call
def fit(s: Subject, chance: random.Random) -> Any:
    return s.training.fit(s.data(10), labels=s.labels(10))


@call
def evaluate(s: Subject, chance: random.Random) -> Any:
    return s.training.evaluate(s.data(8), labels=s.labels(8))


@call
def compile_training(s: Subject, chance: random.Random) -> Any:
    return s.training.compile(device="cpu")


@call
def compile_inference(s: Subject, chance: random.Random) -> Any:
    return s.inference.compile(device="cpu")


@call
def move_to_another_device(s: Subject, chance: random.Random) -> Any:
    s.training.compile(device="reference")
    return s.training.compile(device="cpu")


@call
def label(s: Subject, chance: random.Random) -> Any:
    for tensor in (s.x, s.results[0]):
        tensor.label = "a name of any length " * chance.randrange(1, 9)
    return s.training.summary()


@call
def add_node(s: Subject, chance: random.Random) -> Any:
    with s.building:
        if len(s.results) < 20:
            s.results.append(s.graph.node(tg.MLCActivationLayer.tanh(), source=s.results[-1]))
        else:
            s.training.stop_gradient([])  # as if there were one: it compiles again
    return s.training.summary()


@call
def load_another_seed(s: Subject, chance: random.Random) -> Any:
    state = s.training.state()
    state["state.random_seed"] = np.array(chance.randrange(1000))
    return s.training.load_state(state)


@call
def save(s: Subject, chance: random.Random) -> Any:
    return s.training.save(s.path)


@call
def load(s: Subject, chance: random.Random) -> Any:
    return s.training.load(s.path)


@call
def state(s: Subject, chance: random.Random) -> Any:
    return s.training.state()


@call
def write_weights(s: Subject, chance: random.Random) -> Any:
    values = np.full((OUTPUTS, INPUTS), 0.1, np.float32)
    return s.layer.weights.bind_and_write_data(values.reshape(s.layer.weights.descriptor.shape))


@call
def read_weights(s: Subject, chance: random.Random) -> Any:
    s.training.synchronize_updates()
    into = np.empty(s.layer.weights.descriptor.shape, np.float32)
    return s.layer.weights.copy_data_from_device_memory(into)


@call
def read_moments(s: Subject, chance: random.Random) -> Any:
    s.layer.weights.synchronize_optimizer_data()
    return s.layer.weights.optimizer_data


@call
def read_gradient(s: Subject, chance: random.Random) -> Any:
    return s.training.gradient_data(s.layer.weights, layer=s.layer)


@call
def read_result(s: Subject, chance: random.Random) -> Any:
    into = np.empty((ROWS, OUTPUTS), np.float32)
    return s.results[-1].copy_data_from_device_memory(into)


@call
def gradient_tensor(s: Subject, chance: random.Random) -> Any:
    return s.training.gradient_tensor(s.results[-1])


@call
def describe(s: Subject, chance: random.Random) -> Any:
    return (
        s.training.memory_plan(),
        s.training.compiled_description(),
        s.training.device_memory_size,
        s.training.summary(),
        s.training.layers,
    )


@call
def set_learning_rate(s: Subject, chance: random.Random) -> Any:
    s.optimizer.learning_rate = chance.choice([0.01, 0.02])
    return s.optimizer.time_step


@call
def set_micro_batches(s: Subject, chance: random.Random) -> Any:
    s.training.micro_batches = chance.choice([1, 2])


@call
def attach_optimizer(s: Subject, chance: random.Random) -> Any:
    return s.training.compile_optimizer(s.optimizer)


class Run:
    """Some calls at once, each on a thread of its own, over and over until the time is up."""

    calls = CALLS

    def __init__(self, subject: Subject, names: tuple[str, ...], seed: str, seconds: float) -> None:
        self.subject = subject
        self.end = time.monotonic() + seconds
        self.failures: list[str] = []
        self.counts = dict.fromkeys(names, 0)
        self.threads = [
            threading.Thread(target=self.repeat, args=(name, f"{seed} {k}"), daemon=True)
            for k, name in enumerate(names)
        ]

    def repeat(self, name: str, seed: str) -> None:
        chance = random.Random(seed)
        while True:
            try:
                self.calls[name](self.subject, chance)
            except (tg.InvalidArgument, tg.NumericError):
                pass
            except BaseException as error:
                self.failures.append(f"{name}: {type(error).__name__}: {error}")
                return
            self.counts[name] += 1
            if time.monotonic() >= self.end:
                return

    def go(self) -> None:
        for thread in self.threads:
            thread.start()
        for thread in self.threads:
            thread.join(HANG_SECONDS)
        if any(thread.is_alive() for thread in self.threads):
            faulthandler.dump_traceback(all_threads=True)
            self.failures.append("hangs")


def drawn_pairs(seed: int) -> list[tuple[str, str]]:
    pairs = list(itertools.combinations_with_replacement(CALLS, 2))
    random.Random(seed).shuffle(pairs)
    return pairs


def stress(threads: int, seconds: float, seed: int, pairs: list[tuple[str, str]]) -> list[str]:
    """Failures, each with its pair; ends at the first."""
    at_once = max(1, threads // 2)
    each = seconds * at_once / len(pairs)
    with tempfile.TemporaryDirectory() as folder:
        for first in range(0, len(pairs), at_once):
            names = sum(pairs[first : first + at_once], ())
            subject = Subject(Path(folder))
            run = Run(subject, names, f"{seed} {first}", each)
            run.go()
            # Phases read the data that was given last, be it the bad batch's.
            if not run.failures and not {"phases", "execute_a_bad_batch"} <= set(names):
                weights = subject.training.state()
                if not all(np.isfinite(v).all() for v in weights.values()):
                    run.failures.append("a value is not finite")
            if run.failures:
                return [f"{' + '.join(names)}: {failure}" for failure in run.failures]
    return []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--threads", type=int, default=2, choices=[2, 4])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 100000)
    parser.add_argument("--step-threads", type=int, help="of a step, as set_num_threads()")
    parser.add_argument("--pairs", type=int, help="only so many of them")
    parser.add_argument("--only", nargs="+", metavar="CALL", help="only pairs of these")
    given = parser.parse_args()
    faulthandler.enable()
    if given.step_threads:
        tg.set_num_threads(given.step_threads)
    pairs = drawn_pairs(given.seed)
    if given.only:
        pairs = [pair for pair in pairs if set(pair) <= set(given.only)]
    pairs = pairs[: given.pairs]
    print(f"seed {given.seed}, {len(pairs)} pairs, {given.threads} threads", flush=True)
    failures = stress(given.threads, given.seconds, given.seed, pairs)
    print("\n".join(failures) or "held", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
