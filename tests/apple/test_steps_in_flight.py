"""Command buffers of the Metal backend that are in flight when a call has returned.

The doubles then have a thread for the GPU, which can be held. Each check is a process of its own.
"""

import re
import threading
import time
from collections.abc import Callable

import metal_package
import numpy as np
import pytest
from metal_package import doubles
from test_images_between_ops import Network, X, Y, values

import traingraph as tg

pytestmark = metal_package.needs_doubles

STEPS = 3
# Of the first step a run and the read of its loss; of the others two writes as well, which the host
# does itself while nothing is in flight.
BUFFERS = 2 + 4 * (STEPS - 1)


def batch(step: int) -> dict[str, dict[str, np.ndarray]]:
    """Another one for each step."""
    factor = np.float32(step + 1)
    return {
        "inputs_data": {"x": factor * values(4, 3, 8, 8)},
        "loss_labels_data": {"y": factor * values(4, 4, 4, 4)},
    }


def waited_for() -> tuple[list[float], list[np.ndarray]]:
    """Losses of the steps, and the weights behind them."""
    network = Network()
    network.step()
    losses = [
        float(network.training.execute(**batch(k), options="synchronous").result)
        for k in range(STEPS)
    ]
    return losses, network.weights()


def submit(network: Network) -> list[tg.MLCExecution]:
    """The same steps, all in flight. They are submitted while another one still holds the order,
    for the last one that is submitted is waited for.
    """
    begun, go_on = threading.Event(), threading.Event()

    def handler(*_) -> None:
        begun.set()
        go_on.wait()

    network.training.execute(
        inputs_data={"x": X}, loss_labels_data={"y": Y}, completion_handler=handler
    )
    begun.wait()
    doubles().apple_gpu_hold(1)
    handles = [network.training.execute(**batch(k)) for k in range(STEPS)]
    go_on.set()
    until = time.monotonic() + 30
    while doubles().apple_gpu_waiting() < BUFFERS:
        waiting = doubles().apple_gpu_waiting()
        assert time.monotonic() < until, f"{waiting} of {BUFFERS} command buffers"
        time.sleep(0.01)
    return handles


def check_steps() -> None:
    losses, weights = waited_for()
    doubles().apple_gpu_start_thread()
    network = Network()
    handles = submit(network)
    doubles().apple_gpu_hold(0)
    assert [float(handle.result) for handle in handles] == losses
    for got, want in zip(network.weights(), weights, strict=True):
        np.testing.assert_array_equal(got, want)


def check_while_phases_run(read: Callable[[Network], np.ndarray]) -> None:
    """Gradient and update have no result, so nobody has waited for them when their calls return."""
    expected = Network()
    expected.phases()
    doubles().apple_gpu_start_thread()
    network = Network()
    network.forward()
    doubles().apple_gpu_hold(1)
    network.gradient_and_update()
    # The update's rate is written between them.
    assert doubles().apple_gpu_waiting() >= 3
    threading.Timer(0.5, doubles().apple_gpu_hold, [0]).start()
    np.testing.assert_array_equal(read(network), expected.weights()[0])


def check_reads() -> None:
    check_while_phases_run(lambda network: network.weights()[0])


def check_views() -> None:
    """Of the memory that host and GPU share."""

    def view(network: Network) -> np.ndarray:
        return np.from_dlpack(network.layers[0].weights.device_data()).reshape(5, 3, 3, 3)

    check_while_phases_run(view)


def error_of(handle: tg.MLCExecution) -> str:
    try:
        handle.wait()
    except RuntimeError as error:
        return str(error)
    return ""


def check_failures() -> None:
    """Whichever command buffer fails, the handle of its step says so, and no other one."""
    doubles().apple_gpu_start_thread()
    failed = []
    for buffers in range(BUFFERS):
        network = Network()
        handles = submit(network)
        doubles().apple_gpu_fail_after(buffers)
        doubles().apple_gpu_hold(0)
        said = [error_of(handle) for handle in handles]
        assert sorted(said) == ["", "", "[metal] a run failed: of a test"]
        failed.append(int(np.argmax([len(text) for text in said])))
        network.training.execute(**batch(0), options="synchronous")
    assert failed == [0, 0, 1, 1, 1, 1, 2, 2, 2, 2]


def check_seconds() -> None:
    """Of the GPU's clock: not of the host's, which waits meanwhile."""
    doubles().apple_gpu_start_thread()
    network = Network()
    network.step()
    doubles().apple_gpu_hold(1)
    seconds = []
    handle = network.training.execute(
        **batch(0),
        options="profiling",
        completion_handler=lambda result, error, time: seconds.append(time),
    )
    time.sleep(1)
    doubles().apple_gpu_hold(0)
    handle.wait()
    assert 0 < seconds[0] < 0.9


CHECKS = (
    check_steps,
    check_reads,
    check_views,
    check_failures,
    check_seconds,
)


@pytest.mark.parametrize("check", CHECKS)
def test_in_a_process_with_a_gpu_of_its_own(check):
    done = metal_package.run_script(f"import test_steps_in_flight as t; t.{check.__name__}()")
    assert done.returncode == 0, done.stderr[-3000:]


# The source, what is changed in it, the check that then fails, and at what.
BROKEN = {
    "a write does not wait for its turn": (
        "transfers.mm",
        "if (objects_->flight.idle()) {",
        "if (bytes != 0) {",
        check_steps,
        f"6 of {BUFFERS} command buffers",
    ),
    "a read does not wait for what is before it": (
        "transfers.mm",
        "void Device::read(void* to, const std::byte* from, std::size_t bytes) {\n  finish();",
        "void Device::read(void* to, const std::byte* from, std::size_t bytes) {",
        check_reads,
        "Arrays are not equal",
    ),
    "a late read does not wait": (
        "transfers.mm",
        "flight_.wait_for_run(after_, number_);",
        "flight_.wait_for_run(after_, number_ * 0);",
        check_steps,
        "== losses",
    ),
    "failures are not looked at": (
        "encoding.mm",
        "const bool succeeded = [done status] == MTLCommandBufferStatusCompleted;",
        "const bool succeeded = true;",
        check_failures,
        r"sorted\(said\)",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_order_is_found_out(metal_build, tmp_path, name):
    *change, check, said = BROKEN[name]
    script = f"import test_steps_in_flight as t; t.{check.__name__}()"
    ended = metal_package.run_changed(metal_build, tmp_path, change, script)
    assert ended.returncode == 1, ended.stderr[-2000:]
    assert re.search(said, ended.stderr), ended.stderr[-2000:]
