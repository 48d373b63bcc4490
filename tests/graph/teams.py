"""Steps that take several threads, where none can be started: run by test_thread_starts.py.

python tests/graph/teams.py processes|stacks CALL
"""

import contextlib
import os
import resource
import sys
import threading
from typing import Any

import numpy as np
from starts import no_threads

import traingraph as tg
from traingraph import mps, nn

WIDTH, ROWS = 512, 256
X = np.ones((ROWS, WIDTH), np.float32)
Y = np.zeros(ROWS, np.int32)
STEP: dict[str, Any] = {"inputs_data": {"x": X}, "loss_labels_data": {"y": Y}}


def model() -> Any:
    return nn.model([nn.dense(WIDTH), "relu", nn.dense(WIDTH)], input=WIDTH, batch_size=ROWS)


class Buffer:
    """A convolution that is worth several threads."""

    def __init__(self) -> None:
        self.queue = mps.MTLDevice(device="cpu").make_command_queue()
        shape = mps.MPSImageDescriptor.image_descriptor(
            with_channel_format="float32", width=256, height=256, feature_channels=16
        )
        self.images = [mps.MPSImage(device="cpu", image_descriptor=shape) for _ in "ab"]
        self.images[0].write_bytes(np.ones((16, 256, 256), np.float32))
        self.kernel = mps.MPSCNNNeuronTanH(device="cpu", a=1.0, b=1.0)

    def run(self) -> None:
        buffer = self.queue.make_command_buffer()
        self.kernel.encode(buffer, source_image=self.images[0], destination_image=self.images[1])
        buffer.commit()
        buffer.wait_until_completed()


def main() -> None:
    kind, name = sys.argv[1:]
    tg.set_num_threads(2)
    # Raised by the threads that the runtime would start.
    expected = tg.DeviceError if kind == "processes" else tg.OutOfMemory
    said = "start a thread" if kind == "processes" else "memory for 2 threads"
    trained, buffer = model(), Buffer()
    small = nn.model([nn.dense(2)], input=3, batch_size=4)
    tiny = {"inputs_data": {"x": X[:4, :3]}, "loss_labels_data": {"y": Y[:4]}}
    small.execute(**tiny).wait()  # starts the worker
    calls = {
        "execute": lambda: trained.execute(**STEP, options="synchronous"),
        "queued": lambda: trained.execute(**STEP).wait(),
        "fit": lambda: trained.fit(X, Y, batch_size=ROWS),
        "evaluate": lambda: trained.evaluate(X, Y, batch_size=ROWS),
        "predict": lambda: trained.predict(X),
        "buffer": buffer.run,
    }
    before = {key: np.array(value) for key, value in trained.state().items()}
    go, outcome = threading.Event(), []

    def in_thread() -> None:
        go.wait(60)
        for _ in range(2):
            try:
                calls[name]()
                outcome.append("nothing raised")
            except expected as error:
                outcome.append(str(error))

    thread = threading.Thread(target=in_thread)
    thread.start()
    refused = no_threads("processes") if kind == "processes" else contextlib.nullcontext()
    with refused:
        for _ in range(2):
            try:
                calls[name]()
                text = "nothing raised"
            except expected as error:
                text = str(error)
            assert said in text, text
        go.set()
        thread.join(60)
        assert len(outcome) == 2
        assert all(said in text for text in outcome), outcome
        after = {key: np.array(value) for key, value in trained.state().items()}
        for key, value in before.items():
            assert np.array_equal(after[key], value), key
        small.execute(**tiny, options="synchronous")  # takes no threads
    if kind == "processes":
        calls[name]()
        if name not in ("queued", "buffer"):  # which another thread may run
            with no_threads("processes"):
                calls[name]()  # its threads are there
    print("held")


if __name__ == "__main__":
    if sys.argv[1] == "stacks" and "OMP_STACKSIZE" not in os.environ:
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, resource.RLIM_INFINITY))
        os.environ["OMP_STACKSIZE"] = " 16 G "
        os.execv(sys.executable, [sys.executable, *sys.argv])
    main()
