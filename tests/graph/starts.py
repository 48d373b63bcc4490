"""A process in which no thread can be started, until it can: run by test_thread_starts.py.

python tests/graph/starts.py processes|memory CALL
"""

import asyncio
import os
import resource
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import traingraph as tg
from traingraph import mps


class Regression:
    """One weight, which is halved by a step at the rate 0.25."""

    def __init__(self, optimizer: Any = None) -> None:
        x, y = tg.MLCTensor(shape=[4, 1]), tg.MLCTensor(shape=[4, 1])
        graph = tg.MLCGraph()
        layer = tg.MLCFullyConnectedLayer(
            weights=tg.MLCTensor(shape=[1, 1], fill_with_data=1.0),
            descriptor=tg.MLCConvolutionDescriptor(
                kernel_sizes=(1, 1), input_feature_channel_count=1, output_feature_channel_count=1
            ),
        )
        graph.node(layer, source=x)
        self.optimizer = optimizer or tg.MLCSGDOptimizer(learning_rate=0.25)
        self.training = tg.MLCTrainingGraph(
            graph_objects=[graph],
            loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
            optimizer=self.optimizer,
        )
        self.training.add_inputs({"x": x}, loss_labels={"y": y})
        self.training.compile(device="cpu")
        self.tensors = {"x": x, "y": y}
        self.data = {"x": np.ones((4, 1), np.float32)}
        self.labels = {"y": np.zeros((4, 1), np.float32)}
        self.called: list[Any] = []
        self.has_called = threading.Event()

    def is_called(self, *arguments: Any) -> None:
        self.called.append(arguments)
        self.has_called.set()

    def step(self, **more: Any) -> Any:
        return self.training.execute(inputs_data=self.data, loss_labels_data=self.labels, **more)

    def begin(self) -> None:
        """What an update follows; needs no worker."""
        self.training.bind_and_write_data({**self.data, **self.labels}, for_inputs=self.tensors)
        self.training.execute_forward(options="synchronous")
        self.training.execute_gradient(options="synchronous")

    def update(self, **more: Any) -> Any:
        return self.training.execute_optimizer_update(**more)

    async def awaited(self) -> Any:
        return await self.step()

    def state(self) -> tuple[float, int]:
        values = self.training.state()
        return float(values["1.FullyConnected.weights"].item()), int(values["state.time_step"])


class Buffer:
    """A command buffer, which a commit that raises leaves as it was."""

    def __init__(self, handler: Any) -> None:
        shape = mps.MPSImageDescriptor.image_descriptor(
            with_channel_format="float32", width=2, height=2, feature_channels=1
        )
        source, self.result = (mps.MPSImage(device="cpu", image_descriptor=shape) for _ in "ab")
        source.write_bytes(np.ones((1, 2, 2), np.float32))
        self.buffer = mps.MTLDevice(device="cpu").make_command_queue().make_command_buffer()
        self.buffer.add_completed_handler(handler)
        tanh = mps.MPSCNNNeuronTanH(device="cpu", a=1.0, b=1.0)
        tanh.encode(self.buffer, source_image=source, destination_image=self.result)

    def commit(self) -> None:
        self.buffer.commit()
        self.buffer.wait_until_completed()
        read = np.empty((1, 2, 2), np.float32)
        self.result.read_bytes(read)
        assert np.allclose(read, np.tanh(1), rtol=1e-6)


@contextmanager
def no_threads(what: str) -> Iterator[None]:
    """By what the system refuses them."""
    kind = {"processes": resource.RLIMIT_NPROC, "memory": resource.RLIMIT_AS}[what]
    if what == "processes" and os.getuid() == 0:  # whom it does not limit
        os.setresuid(65534, 65534, 65534)
    before, now = resource.getrlimit(kind), 1
    if what == "memory":
        with open("/proc/self/statm") as numbers:
            now = int(numbers.read().split()[0]) * resource.getpagesize() + (1 << 20)
    resource.setrlimit(kind, (now, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(kind, before)


def main() -> None:
    limit, name = sys.argv[1:]
    one = Regression()
    buffer = Buffer(one.is_called)
    calls = {
        "execute": lambda: one.step().wait(),
        "handler": lambda: one.step(completion_handler=one.is_called).wait(),
        "await": lambda: asyncio.run(asyncio.wait_for(one.awaited(), 10)),
        "update": lambda: one.update().wait(),
        "commit": buffer.commit,
    }
    if name == "await":
        asyncio.run(asyncio.sleep(0))  # imports what it needs
    if name == "update":
        one.begin()
    before = one.state()
    with no_threads(limit):
        for _ in range(2):
            said = ""
            try:
                calls[name]()
            except tg.DeviceError as error:
                said = str(error)
            assert "start a thread" in said, said
        assert not one.called
        assert one.state() == before, one.state()
        # What runs where it is called needs no worker, and finds no queued work.
        one.step(options="synchronous")
        assert one.state() == (0.5, before[1] + 1), one.state()
    if name == "update":
        one.begin()
    calls[name]()
    if name != "commit":
        assert one.state() == (0.25, before[1] + 2), one.state()
    if name in ("handler", "commit"):
        assert one.has_called.wait(10)
        assert len(one.called) == 1
    print("held")


if __name__ == "__main__":
    main()
