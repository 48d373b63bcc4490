"""Ctrl-C while work is done that takes its time: the wait ends, the work goes on."""

import subprocess
import sys

import pytest

QUEUED = """
import os, signal, sys, threading, time
import numpy as np
import traingraph as tg
import traingraph.mps as mps
from traingraph import nn

model = nn.model([nn.dense(600), "relu", nn.dense(600)], input=600, batch_size=300,
                 device="reference")
given = {"inputs_data": {"x": np.ones((300, 600), np.float32)},
         "loss_labels_data": {"y": np.zeros(300, np.int32)}}
start = time.monotonic()
model.execute(**given, options="synchronous")
step = time.monotonic() - start

queue = mps.MTLDevice(device="reference").make_command_queue()
shape = mps.MPSImageDescriptor.image_descriptor(
    with_channel_format="float32", width=160, height=160, feature_channels=32)
class Weights(mps.MPSCNNConvolutionDataSource):
    def descriptor(self):
        return mps.MPSCNNConvolutionDescriptor.cnn_convolution_descriptor(
            with_kernel_width=3, kernel_height=3, input_feature_channels=32,
            output_feature_channels=32)
    def weights(self):
        return np.ones((32, 3, 3, 32), np.float32)
def buffer():
    kernel = mps.MPSCNNConvolution(device="reference", weights=Weights())
    images = [mps.MPSImage(device="reference", image_descriptor=shape) for _ in range(5)]
    result = queue.make_command_buffer()
    for source, destination in zip(images, images[1:]):
        kernel.encode(result, source_image=source, destination_image=destination)
    result.commit()
    return result

name = sys.argv[1]
if name == "buffer":
    first = buffer()
    start = time.monotonic()
    first.wait_until_completed()
    step = time.monotonic() - start
    waited = buffer()
else:
    handles = [model.execute(**given) for _ in range(1 if name == "one" else 4)]
calls = {
    "one": lambda: handles[0].wait(),
    "wait": lambda: handles[-1].wait(),
    "result": lambda: handles[-1].result,
    "state": lambda: model.state(),
    "update": lambda: model.synchronize_updates(),
    "execute": lambda: model.execute(**given, options="synchronous"),
    "compile": lambda: model.compile(device="reference"),
    "buffer": lambda: waited.wait_until_completed(),
}
sent = []
def interrupt():
    # Of four steps amid the second one: when the first was done, the waiting thread has woken up.
    time.sleep(step / 4 if name in ("one", "buffer") else step * 1.4)
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
late = None
try:
    calls[name]()
except KeyboardInterrupt:
    late = time.monotonic() - sent[0]
if name == "buffer":
    waited.wait_until_completed()
    assert waited.status == mps.MTLCommandBufferStatus.COMPLETED
else:
    for handle in handles:
        handle.wait()
    steps = 1 + len(handles) + (name == "execute")
    assert int(model.state()["state.time_step"]) == 1 + steps
print(step, late)
"""
CALLS = ["one", "wait", "result", "state", "update", "execute", "compile", "buffer"]


@pytest.mark.parametrize("call", CALLS)
def test_a_wait_ends_amid_a_long_kernel(call: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", QUEUED, call], capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr[-2000:]
    step, late = run.stdout.split()
    assert float(step) > 0.3  # or there is nothing to see
    assert late != "None"
    assert float(late) < max(0.3, float(step) / 2), run.stdout


CHECK = """
import os, signal, threading, time
import numpy as np
import traingraph as tg
from traingraph import nn

model = nn.model([nn.conv2d(64, 3), "relu", nn.conv2d(64, 3), nn.flatten(), nn.dense(2)],
                 input=(3, 20, 20), batch_size=32)
x, y = np.ones((32, 3, 20, 20), np.float32), np.zeros(32, np.int32)
sent = []
def interrupt():
    time.sleep(1.0)
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
try:
    tg.check_gradients(model, {"x": x}, {"y": y})
    print("whole")
except KeyboardInterrupt:
    print(time.monotonic() - sent[0])
"""


def test_a_check_of_gradients_ends_between_its_passes() -> None:
    run = subprocess.run([sys.executable, "-c", CHECK], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr[-2000:]
    assert float(run.stdout) < 4
