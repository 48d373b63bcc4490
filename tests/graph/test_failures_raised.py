"""Who hears that an execution has failed: its handle, and where nobody has that, the next call."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from networks import Network

import traingraph as tg


class Net:
    """One graph, whose steps may be bad."""

    def __init__(self, device: str = "cpu") -> None:
        self.network = Network("float32")
        self.training = self.network.training(tg.MLCAdamOptimizer(learning_rate=0.01))
        self.training.compile(device=device)
        self.nan = {"x": np.full_like(self.network.data["x"], np.nan)}

    def bad(self, **more: Any) -> Any:
        given = {"inputs_data": self.nan, "options": "check_numerics"} | more
        return self.training.execute(loss_labels_data=self.network.labels, **given)

    def good(self, options: str = "synchronous") -> Any:
        return self.training.execute(
            inputs_data=self.network.data, loss_labels_data=self.network.labels, options=options
        )

    @contextmanager
    def in_flight(self) -> Iterator[None]:
        """What is submitted meanwhile fails later: behind a handler that waits."""
        go = threading.Event()
        self.training.execute(
            inputs_data=self.network.data,
            loss_labels_data=self.network.labels,
            completion_handler=lambda *_: go.wait(60),
        )
        yield
        go.set()
        self.finish()

    def finish(self) -> None:
        """Without a call that raises what has failed."""
        self.training.synchronize_updates()

    @property
    def steps(self) -> int:
        """Those that have trained."""
        return int(self.training.optimizer.time_step) - 1


async def awaited(handle: Any) -> Any:
    return await handle


WAITS: dict[str, Callable[[Any], Any]] = {
    "wait": lambda handle: handle.wait(),
    "result": lambda handle: handle.result,
    "await": lambda handle: asyncio.run(awaited(handle)),
}


@pytest.mark.parametrize("wait", WAITS)
def test_the_handle_raises_it_and_no_call_does(wait: str) -> None:
    net = Net()
    handle = net.bad()
    net.finish()
    net.good()  # somebody has the handle
    with pytest.raises(tg.NumericError):
        WAITS[wait](handle)
    del handle
    net.good()
    assert net.steps == 2


CALLS: dict[str, Callable[[Net], Any]] = {
    "synchronous": lambda net: net.good(),
    "asynchronous": lambda net: net.good("none"),
    "fit": lambda net: net.training.fit(net.network.data, labels=net.network.labels),
    "compiled again": lambda net: (net.training.compile(device="cpu"), net.good()),
    "another device": lambda net: (net.training.compile(device="reference"), net.good()),
    "a new output": lambda net: (net.training.add_outputs({"h": net.network.h1}), net.good()),
}


@pytest.mark.parametrize("call", CALLS)
def test_the_next_call_raises_it_once_where_the_handle_is_gone(call: str) -> None:
    net = Net()
    with net.in_flight():
        for _ in range(2):
            net.bad()
    with pytest.raises(tg.NumericError):
        CALLS[call](net)
    assert net.steps == 1
    CALLS[call](net)
    net.finish()
    assert net.steps == 2


def test_a_failure_that_somebody_holds_does_not_hide_another() -> None:
    net = Net()
    with net.in_flight():
        held = [net.bad() for _ in range(2)]
        net.bad()
    with pytest.raises(tg.NumericError):
        net.good()
    net.good()
    for handle in held:
        for _ in range(2):  # a handle says each time how its work ended
            with pytest.raises(tg.NumericError):
                handle.wait()
    del handle
    held.clear()
    net.good()
    assert net.steps == 3


def test_a_handle_that_goes_unseen_leaves_it_to_the_next_call() -> None:
    net = Net()
    handle = net.bad()
    net.finish()
    net.good()
    del handle
    with pytest.raises(tg.NumericError):
        net.good()
    net.good()
    assert net.steps == 2


def test_no_thread_hears_of_the_failure_of_another() -> None:
    """One waits for all its bad steps, synchronous ones among them; the other's steps are good."""
    net, heard = Net(), 0
    over = threading.Event()
    errors: list[BaseException] = []
    good = 0

    def other() -> None:
        nonlocal good
        while not over.is_set():
            try:
                net.good()
                good += 1
            except BaseException as error:
                errors.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    try:
        for k in range(1500):
            options = "synchronous|check_numerics" if k % 2 else "check_numerics"
            with pytest.raises(tg.NumericError):
                net.bad(options=options).wait()
            heard += 1
    finally:
        over.set()
        thread.join(60)
    assert not errors
    assert heard == 1500
    assert net.steps == good


def test_many_failures_that_somebody_holds() -> None:
    """They go at once; the list is not gone through by recursion."""
    net = Net()
    with net.in_flight():
        held = [net.bad() for _ in range(3000)]
    net.good()
    held.clear()
    with pytest.raises(tg.NumericError):
        net.good()
    net.good()
    assert net.steps == 3
