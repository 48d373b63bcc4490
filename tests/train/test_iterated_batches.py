"""Fits over batches of an iterable, prepared by a thread of their own."""

import gc
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fit_to_kill import Moments, X, Y, model

import traingraph as tg
from traingraph import augment

Batch = tuple[Any, ...]


class Slices:
    """The rows in their order, as a loader has them."""

    def __init__(self, size: int = 16) -> None:
        self.size, self.begun = size, 0

    def __len__(self) -> int:
        return -(-90 // self.size)

    def __iter__(self) -> Iterator[Batch]:
        self.begun += 1
        for first in range(0, 90, self.size):
            rows = slice(first, first + self.size)
            yield X[rows], Y[rows]


def threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def same(a: tg.MLCTrainingGraph, b: tg.MLCTrainingGraph) -> None:
    for name, values in a.state().items():
        np.testing.assert_array_equal(values, b.state()[name], err_msg=name)


@pytest.fixture(autouse=True)
def leaves_no_thread() -> Iterator[None]:
    model().fit(X, Y)  # begins those that stay
    before = threads()
    yield
    gc.collect()
    assert threads() == before


def test_batches_train_as_arrays() -> None:
    expected, found, slices = model(), model(), Slices()
    of_arrays = expected.fit(X, Y, epochs=3, shuffle=False, validation=(X, Y))
    of_batches = found.fit(batches=slices, epochs=3, validation=(X, Y))
    assert slices.begun == 3
    assert [e.loss for e in of_batches] == [e.loss for e in of_arrays]
    assert [e.validation.loss for e in of_batches] == [e.validation.loss for e in of_arrays]
    assert [e.steps for e in of_batches] == [6, 6, 6]  # with the smaller one at the end
    assert of_batches[0].shuffle_seed is None
    same(expected, found)


def test_batches_may_be_named_and_weighed() -> None:
    weights = np.linspace(0, 2, 90, dtype=np.float32)
    expected, found = model(), model()
    for network in (expected, found):
        network.add_inputs({}, loss_label_weights={"w": tg.MLCTensor(shape=[16])})
    expected.fit(X, Y, label_weights=weights, epochs=2, shuffle=False)
    parts = [slice(first, first + 16) for first in range(0, 90, 16)]
    found.fit(batches=[[{"x": X[p]}, {"y": Y[p]}, weights[p]] for p in parts], epochs=2)
    same(expected, found)


def test_an_array_may_be_used_again_for_the_next_batch() -> None:
    def again() -> Iterator[Batch]:
        x, y = np.empty((18, 5), np.float32), np.empty(18, np.int32)
        for first in range(0, 90, 18):
            x[:], y[:] = X[first : first + 18], Y[first : first + 18]
            yield x, y

    expected, found = model(), model()
    expected.fit(X, Y, batch_size=18, shuffle=False)
    found.fit(batches=again())
    same(expected, found)


def test_a_generator_that_is_exhausted_says_so() -> None:
    text = "expected batches for epoch 2 but got none: what makes them has ended, as a generator"
    with pytest.raises(ValueError, match=text) as error:
        model().fit(batches=(batch for batch in Slices()), epochs=2)
    assert [epoch.number for epoch in error.value.epochs] == [1]


def test_what_an_iterator_raises_arrives_as_it_is() -> None:
    class LostError(Exception):
        pass

    def lost() -> Iterator[Batch]:
        yield X[:16], Y[:16]
        yield X[:16], Y[:16]
        raise LostError("disk")

    network = model()
    with pytest.raises(LostError, match="disk") as error:
        network.fit(batches=lost())
    assert "in lost" in "".join(traceback.format_tb(error.value.__traceback__))
    assert error.value.__notes__ == ["fit ended after step 2 of epoch 1"]
    assert network.state()["state.forward_count"] == 2


def test_a_batch_that_does_not_fit_is_named() -> None:
    def bad() -> Iterator[Batch]:
        yield X[:16], Y[:16]
        yield X[:16, :3], Y[:16]

    text = "expected samples, (N, 5), but got (16, 3) in batch 2 of epoch 1"
    with pytest.raises(ValueError, match=re.escape(text)):
        model().fit(batches=bad())
    with pytest.raises(ValueError, match="as in the arrays before but got 9 in batch 1 of epoch"):
        model().fit(batches=[(X[:16], Y[:9])])
    with pytest.raises(ValueError, match="expected a class from 0 to 2 or -1 but got 5 in row 3"):
        model().fit(batches=[(X[:4], np.array([0, 1, 2, 5], np.int32))])


def test_few_batches_wait() -> None:
    made = []

    def counted() -> Iterator[Batch]:
        for batch in Slices(1):
            made.append(1)
            yield batch

    ahead = []
    network = model()

    def rate(step: int) -> float:
        time.sleep(0.002)
        ahead.append(len(made) - step)
        return 0.01

    network.fit(batches=counted(), schedule=rate)
    assert 3 <= max(ahead) <= 6


@pytest.mark.parametrize("sleeps", [False, True], ids=["in a step", "amid a batch"])
def test_interrupts_end_both(sleeps: bool) -> None:
    closed = threading.Event()

    def endless() -> Iterator[Batch]:
        try:
            while True:
                if sleeps:
                    time.sleep(0.05)
                yield X[:16], Y[:16]
        finally:
            closed.set()

    timer = threading.Timer(0.4, lambda: signal.pthread_kill(threading.main_thread().ident or 0,
                                                             signal.SIGINT))  # fmt: skip
    timer.start()
    with pytest.raises(KeyboardInterrupt, match=r"after step \d+ of epoch 1"):
        model().fit(batches=endless())
    timer.join()
    gc.collect()
    assert closed.is_set()


def test_batches_that_have_trained_are_let_go() -> None:
    """In the middle of an epoch, whatever made them."""
    made: list[weakref.ref[np.ndarray]] = []
    most = 0

    def batches() -> Iterator[Batch]:
        nonlocal most
        for _ in range(200):
            x = X[:16].copy()
            made.append(weakref.ref(x))
            most = max(most, sum(one() is not None for one in made))
            yield x, Y[:16]
            del x

    model().fit(batches=batches())
    assert most <= 4


STUCK = """
import os, signal, sys, threading, time
sys.path.insert(0, os.path.dirname(sys.argv[1]))
from fit_to_kill import X, Y, model

def stuck():
    yield X[:16], Y[:16]
    time.sleep(1000)

def interrupt():
    for _ in range(2):
        time.sleep(0.5)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

threading.Thread(target=interrupt).start()
try:
    model().fit(batches=stuck())
except KeyboardInterrupt as error:
    print(error, flush=True)
    os._exit(0)
"""


def test_a_second_interrupt_waits_for_nobody() -> None:
    program = [sys.executable, "-c", STUCK, __file__]
    run = subprocess.run(program, capture_output=True, text=True, timeout=60)
    assert run.stdout == "after step 1 of epoch 1\n", run.stderr


def test_a_fit_goes_on_amid_the_batches_of_an_epoch(tmp_path: Path) -> None:
    def batches() -> augment.Batches:
        return augment.Batches(X, Y, batch_size=16, seed=4, transforms=[augment.noise(0.1)])

    expected, path = model(), tmp_path / "run.safetensors"
    expected.fit(batches=batches(), epochs=4)
    for at in (3, 9, 15, 20):
        network = model()
        moment = Moments(at, lambda: signal.raise_signal(signal.SIGINT))

        def rate(step: int, moment: Moments = moment) -> float:
            moment()
            return 0.02

        with pytest.raises(KeyboardInterrupt):
            network.fit(batches=batches(), epochs=4, schedule=rate)
        network.save(path)
        network = model()
        with pytest.raises(ValueError, match="expected batches, as the fit to go on with has, but"):
            network.fit(X, Y, epochs=4, resume=path)
        network.fit(batches=batches(), epochs=4, resume=path)
        same(expected, network)


@pytest.mark.parametrize(("given", "text"), [
    ({"batches": Slices(), "inputs": X}, "expected either arrays or batches, which have their own "
                                         "sizes and order, but got batches and inputs"),
    ({"batches": Slices(), "labels": Y}, "but got batches and labels"),
    ({"batches": Slices(), "batch_size": 8}, "but got batches and batch_size=8"),
    ({"batches": Slices(), "shuffle_seed": 8}, "but got batches and shuffle_seed=8"),
    ({}, "expected inputs, or batches, but got neither"),
    ({"batches": 3}, "expected batches: an iterable of (inputs, labels) or (inputs, labels, "
                     "label_weights) but got 'int'"),
    ({"batches": [X]}, "batches: (inputs, labels) or (inputs, labels, label_weights) but got "
                       "'numpy.ndarray'"),
    ({"batches": [(X,)]}, "but got 1 items"),
    ({"batches": [(X.tobytes(), Y)]}, "expected float32 but got raw bytes in batch 1 of epoch 1"),
    ({"batches": [({"z": X}, Y)]}, "'x'; got 'z'"),
    ({"batches": []}, "expected batches but got no batch; what was gone through before, as a"),
], ids=range(11))  # fmt: skip
def test_mistakes_are_told(given: dict[str, Any], text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(text)):
        model().fit(**given)


def test_loaders_of_pytorch_are_iterables() -> None:
    torch = pytest.importorskip("torch")
    data = torch.utils.data.TensorDataset(torch.from_numpy(X), torch.from_numpy(Y).long())
    expected, found = model(), model()
    expected.fit(X, Y, epochs=2, shuffle=False)
    found.fit(batches=torch.utils.data.DataLoader(data, batch_size=16), epochs=2)
    same(expected, found)
