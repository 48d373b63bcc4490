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
from test_images_between_ops import Network, training_of, values
from test_named_losses_and_optimizers import check_rates_in_flight

import traingraph as tg

pytestmark = metal_package.needs_doubles

STEPS = 3
# Of the first step a run and the read of its loss; of the others two writes as well, which the host
# does itself while nothing is in flight.
BUFFERS = 2 + 4 * (STEPS - 1)


def batch(step: int) -> dict[str, dict[str, np.ndarray]]:
    """Another one for each step, and other numbers in sources and labels."""
    factor = np.float32(step + 1)
    return {
        "inputs_data": {"x": factor * values(4, 3, 8, 8)},
        "loss_labels_data": {"y": -factor * values(4, 4, 4, 4)},
    }


def waited_for() -> tuple[list[float], list[np.ndarray]]:
    """Losses of the steps, and the weights behind them; one like the first is before them."""
    network = Network()
    losses = [
        float(network.training.execute(**batch(k), options="synchronous").result)
        for k in (0, *range(STEPS))
    ]
    return losses[1:], network.weights()


def submit(
    training: tg.MLCTrainingGraph, batches: Callable[[int], dict] = batch
) -> list[tg.MLCExecution]:
    """The same steps, all in flight. They are submitted while another one still holds the order,
    for the last one that is submitted is waited for.
    """
    begun, go_on = threading.Event(), threading.Event()

    def handler(*_) -> None:
        begun.set()
        go_on.wait()

    training.execute(**batches(0), completion_handler=handler)
    begun.wait()
    doubles().apple_gpu_hold(1)
    handles = [training.execute(**batches(k)) for k in range(STEPS)]
    go_on.set()
    until = time.monotonic() + 30
    while doubles().apple_gpu_waiting() < BUFFERS:
        waiting = doubles().apple_gpu_waiting()
        assert time.monotonic() < until, f"{waiting} of {BUFFERS} command buffers"
        time.sleep(0.01)
    return handles


def buffers_made() -> int:
    return doubles().apple_made_objects_of(b"AppleBuffer")


def check_no_buffers_are_made() -> None:
    """Steps in flight take the staging memory of those before them. Their ops are matrix products
    and hand-written shaders, which need no states of MPS, for these have buffers.
    """

    def batches(step: int) -> dict[str, dict[str, np.ndarray]]:
        factor = np.float32(step + 1)
        return {
            "inputs_data": {"x": factor * values(4, 3)},
            "loss_labels_data": {"y": factor * values(4, 2)},
        }

    x, y = tg.MLCTensor(shape=(4, 3)), tg.MLCTensor(shape=(4, 2))
    graph = tg.MLCGraph()
    descriptor = tg.MLCConvolutionDescriptor(
        kernel_sizes=(1, 1), input_feature_channel_count=3, output_feature_channel_count=2
    )
    graph.node(tg.MLCFullyConnectedLayer(descriptor=descriptor), source=x)
    training = training_of(graph, tg.MLCSGDOptimizer(learning_rate=0.1))
    training.add_inputs({"x": x}, loss_labels={"y": y})
    training.compile(device="metal")
    doubles().apple_gpu_start_thread()
    made = []
    for _ in range(3):
        before = buffers_made()
        handles = submit(training, batches)
        doubles().apple_gpu_hold(0)
        for handle in handles:
            handle.wait()
        made.append(buffers_made() - before)
    assert made[0] > 0
    assert made[1:] == [0, 0]


def check_steps() -> None:
    losses, weights = waited_for()
    doubles().apple_gpu_start_thread()
    network = Network()
    handles = submit(network.training)
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
        handles = submit(network.training)
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
    check_no_buffers_are_made,
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
    "memory serves a write while another still needs it": (
        "staging.cpp",
        "piece.use_count() == 1 && flight_.done(piece->until)",
        "piece.use_count() == 1",
        check_steps,
        "Arrays are not equal|== losses",
    ),
    "memory serves once": (
        "staging.cpp",
        "piece.use_count() == 1 && flight_.done(piece->until)",
        "false && flight_.done(piece->until)",
        check_no_buffers_are_made,
        r"made\[1:\] == \[0, 0\]",
    ),
    "a rate is what the runs before have": (
        "transfers.mm",
        "sent == nullptr ? from : sent",
        "sent == nullptr || bytes != 0 ? from : sent",
        check_rates_in_flight,
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
