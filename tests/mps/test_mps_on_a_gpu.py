"""What a committed buffer costs on a GPU: launches, copies, allocations.

Runs with --device only.
"""

import itertools
import time

import numpy as np
import pytest
from kernels import array, batch, commands
from test_nodes import Network

from traingraph import mps

_testing = pytest.importorskip("traingraph._testing", reason="built with TRAINGRAPH_TESTING")


class Steps:
    """A network of nodes over images that stay where they are."""

    def __init__(self, kind, device):
        self.network = Network(kind, device)
        on, start = self.network.on, self.network.start
        self.device = device
        self.x = batch(on, start.x[0])
        truth = batch(on, start.y[0].reshape(-1, 3, 1, 1))
        self.labels = [
            mps.MPSCNNLossLabels(loss_image=a, labels_image=b)
            for a, b in zip(self.network.losses, truth, strict=True)
        ]

    def commit(self):
        buffer = commands(self.network.on)
        self.network.graph.encode_batch(buffer, source_images=[self.x], source_states=[self.labels])
        buffer.commit()
        return buffer

    def loss(self):
        return float(array(self.network.losses)[0, 0, 0, 0])


def counts(device, work):
    before = _testing.device_counters(device)
    work()
    return {name: count - before[name] for name, count in _testing.device_counters(device).items()}


@pytest.mark.parametrize(("kind", "numbers"), [("sgd", 0), ("adam", 1)])
def test_a_buffer_is_one_launch(gpu, kind, numbers):
    """What is copied in are the numbers that have changed, and out a byte that says it is done."""
    steps = Steps(kind, gpu)
    for _ in range(3):  # compiled, then captured
        steps.commit().wait_until_completed()

    def work():
        for _ in range(5):
            steps.commit().wait_until_completed()

    assert counts(gpu, work) == {
        "launches": 5,
        "captured": 0,
        "warpgroups": 0,
        "allocations": 0,
        "allocated_bytes": 0,
        "copies_in": 5 * numbers,
        "copies_out": 5,
        "copies_within": 0,
    }


def test_buffers_follow_each_other_without_waiting(gpu):
    """Twenty in flight give what twenty that were waited for give; handlers keep order."""
    waited = Steps("sgd", gpu)
    losses = []
    for _ in range(20):
        waited.commit().wait_until_completed()
        losses.append(waited.loss())
    steps, order = Steps("sgd", gpu), []
    buffers = []
    for k in range(19):
        buffer = commands(steps.network.on)
        steps.network.graph.encode_batch(
            buffer, source_images=[steps.x], source_states=[steps.labels]
        )
        if k % 5 == 0:
            buffer.add_completed_handler(lambda done, k=k: order.append((k, done.status)))
        buffer.commit()
        buffers.append(buffer)
    buffers[-1].wait_until_completed()
    completed = mps.MTLCommandBufferStatus.COMPLETED
    assert order == [(k, completed) for k in (0, 5, 10, 15)]
    assert [buffer.status for buffer in buffers] == [completed] * 19
    np.testing.assert_allclose(steps.loss(), losses[18], rtol=1e-6)
    steps.commit()
    # Behind what was committed, waited for or not.
    np.testing.assert_allclose(steps.loss(), losses[19], rtol=1e-6)
    assert losses[19] < losses[0]


def test_a_loss_that_is_read_comes_with_its_step(gpu):
    """Once it was read, no step waits for the device twice."""
    steps = Steps("sgd", gpu)
    losses = []

    def work():
        for _ in range(5):
            steps.commit().wait_until_completed()
            losses.append(steps.loss())

    for _ in range(3):
        work()
    assert counts(gpu, work)["copies_out"] == 5
    assert all(b < a for a, b in itertools.pairwise(losses))


def test_what_came_with_a_step_is_not_older_than_the_device(gpu):
    """Written by the host, or by a step that was not waited for, and read beside it."""
    steps, other = Steps("sgd", gpu), Steps("sgd", gpu)
    losses = []
    for _ in range(6):
        other.commit()
        losses.append(other.loss())  # not waited for: it has come with no run

    def step():
        buffer = steps.commit()
        buffer.wait_until_completed()
        return buffer

    step()
    assert steps.loss() == losses[0]
    step()
    steps.network.losses[0].write_bytes(np.full((1, 1, 1), 7, np.float32))
    assert steps.loss() == 7
    step()
    steps.commit()  # begins before the loss is read
    assert steps.loss() == losses[3]
    first, second = steps.commit(), steps.commit()
    first.wait_until_completed()
    assert steps.loss() == losses[5]
    second.wait_until_completed()
    assert steps.loss() == losses[5]


def test_buffers_that_nobody_waits_for_are_done_soon(gpu):
    steps = Steps("sgd", gpu)
    buffers = [steps.commit() for _ in range(3)]
    end = time.monotonic() + 10
    while buffers[-1].status != mps.MTLCommandBufferStatus.COMPLETED:
        assert time.monotonic() < end
        time.sleep(0.001)
    assert {buffer.status for buffer in buffers} == {mps.MTLCommandBufferStatus.COMPLETED}


def test_an_array_of_a_buffer_says_that_it_is_a_copy(gpu):
    """What is written to it would be lost."""
    buffer = mps.MTLBuffer(device=gpu, length=16)
    shown = np.asarray(buffer)
    assert shown.tolist() == [0, 0, 0, 0]
    with pytest.raises(ValueError, match="read-only"):
        shown[1] = 2
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(buffer, dtype=np.float64)[1] = 2
    copied = np.array(buffer)
    copied[1] = 2
    assert np.asarray(buffer).tolist() == [0, 0, 0, 0]
    with pytest.raises(ValueError, match="no copy but they are on a device"):
        np.asarray(buffer, copy=False)
