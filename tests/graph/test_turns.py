"""Whoever waits for a graph gets a turn while another thread submits to it without end."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import traingraph as tg
from traingraph import nn

ROWS, WIDTH = 64, 256
GIVES_UP = 40.0  # seconds, where it is not stopped: what is starved waits as long
PATIENCE = 15.0


def body_and_model() -> tuple[Any, tg.MLCTrainingGraph]:
    body = nn.shared([nn.dense(WIDTH), "relu"])
    return body, nn.model([body, nn.dense(4)], input=WIDTH, batch_size=ROWS, device="cpu")


def data(rows: int = ROWS) -> dict[str, Any]:
    x = np.ones((rows, WIDTH), np.float32)
    return {"inputs_data": {"x": x}, "loss_labels_data": {"y": np.zeros(rows, np.int32)}}


def submit_asynchronously(model: tg.MLCTrainingGraph, go_on: Callable[[], bool]) -> None:
    """Many are in flight at each moment."""
    flying: deque[Any] = deque()
    given = data()
    while go_on():
        flying.append(model.execute(**given))
        if len(flying) > 100:
            flying.popleft().wait()


def submit_with_handlers(model: tg.MLCTrainingGraph, go_on: Callable[[], bool]) -> None:
    flying = threading.Semaphore(100)
    given = data()
    while go_on():
        flying.acquire()
        model.execute(**given, completion_handler=lambda *_: flying.release())


def step_synchronously(model: tg.MLCTrainingGraph, go_on: Callable[[], bool]) -> None:
    given = data()
    while go_on():
        model.execute(**given, options="synchronous")


KINDS = [submit_asynchronously, submit_with_handlers, step_synchronously]


@contextmanager
def without_end(kind: Any, model: tg.MLCTrainingGraph) -> Iterator[Callable[[], int]]:
    """Gives how many times the thread has gone on."""
    stopped, count = threading.Event(), 0
    begin = time.monotonic()

    def go_on() -> bool:
        nonlocal count
        count += 1
        return not stopped.is_set() and time.monotonic() - begin < GIVES_UP

    thread = threading.Thread(target=kind, args=(model, go_on))
    thread.start()
    try:
        while count < 120:
            time.sleep(0.01)
        yield lambda: count
    finally:
        stopped.set()
        thread.join()


def model_over(body: Any, model: tg.MLCTrainingGraph) -> None:
    nn.model([body, nn.dense(3)], input=WIDTH, batch_size=8, device="cpu")


def compile_again(body: Any, model: tg.MLCTrainingGraph) -> None:
    model.compile(device="cpu")


def another_batch_size(body: Any, model: tg.MLCTrainingGraph) -> None:
    model.execute(**data(ROWS + 1), options="synchronous")


def load_state(body: Any, model: tg.MLCTrainingGraph) -> None:
    model.load_state(model.state())
    model.execute(**data(), options="synchronous")


def predict(body: Any, model: tg.MLCTrainingGraph) -> None:
    model.predict(data()["inputs_data"]["x"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "what", [model_over, compile_again, another_batch_size, load_state, predict]
)
def test_others_get_a_turn(what: Any, kind: Any) -> None:
    body, model = body_and_model()
    with without_end(kind, model) as count:
        begin = time.monotonic()
        what(body, model)
        assert time.monotonic() - begin < PATIENCE
        before = count()
        while count() == before:  # and so does the thread
            time.sleep(0.01)


def test_turns_of_several_threads() -> None:
    """Each over a block of its own, and all over one that the endless thread trains."""
    body, model = body_and_model()
    done: list[int] = []

    def make(k: int) -> None:
        for _ in range(3):
            nn.model([body, nn.dense(k + 2)], input=WIDTH, batch_size=8, device="cpu")
            model.state()
        done.append(k)

    with without_end(submit_asynchronously, model):
        begin = time.monotonic()
        threads = [threading.Thread(target=make, args=(k,)) for k in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert time.monotonic() - begin < 2 * PATIENCE
    assert sorted(done) == [0, 1, 2]
