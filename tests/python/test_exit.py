"""The interpreter goes while other threads are inside the library: the process ends as it would."""

import subprocess
import sys
from pathlib import Path

import pytest

BINDINGS = Path(__file__).parents[2] / "python/bindings"

PROGRAM = """
import sys, threading, time, warnings
import numpy as np
import traingraph as tg
import traingraph.mps as mps

x, y = tg.MLCTensor(shape=[4, 3]), tg.MLCTensor(shape=[4, 2])
graph = tg.MLCGraph()
layer = tg.MLCFullyConnectedLayer(descriptor=tg.MLCConvolutionDescriptor(
    kernel_sizes=(1, 1), input_feature_channel_count=3, output_feature_channel_count=2))
graph.node(layer, source=x)
training = tg.MLCTrainingGraph(graph_objects=[graph],
    loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
    optimizer=tg.MLCAdamOptimizer(learning_rate=0.1))
training.add_inputs({"x": x}, loss_labels={"y": y})
training.compile(device="cpu")
data = {"x": np.ones((4, 3), np.float32)}
labels = {"y": np.zeros((4, 2), np.float32)}
many = {"x": np.ones((4000, 3), np.float32)}, {"y": np.zeros((4000, 2), np.float32)}
into = np.zeros(layer.weights.descriptor.shape, np.float32)
queue = mps.MTLDevice(device="cpu").make_command_queue()
image = mps.MPSImage(device="cpu", image_descriptor=mps.MPSImageDescriptor.image_descriptor(
    with_channel_format="float32", width=1, height=1, feature_channels=4))

def step(**more):
    return training.execute(inputs_data=data, loss_labels_data=labels, **more)

def slow(*_):
    return Length().__index__()

def commit(handler=lambda _: None):
    buffer = queue.make_command_buffer()
    buffer.add_completed_handler(handler)
    buffer.commit()
    buffer.wait_until_completed()

class Length:
    def __index__(self):
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            pass
        return 24

calls = {
    "fit": lambda: training.fit(many[0], labels=many[1], epochs=10**6),
    "evaluate": lambda: training.evaluate(many[0], labels=many[1]),
    "predict": lambda: training.predict(many[0]),
    "execute": lambda: step(options="synchronous"),
    "wait": lambda: step().wait(),
    "result": lambda: step().result,
    "handler": lambda: step(completion_handler=lambda *_: None).wait(),
    "write": lambda: training.bind_and_write_data(data, for_inputs={"x": x}),
    "save": lambda: training.save(sys.argv[2]),
    "load": lambda: training.load(sys.argv[2]),
    "state": lambda: training.state(),
    "compile": lambda: training.compile(device="cpu"),
    "gradient": lambda: training.gradient_tensor(x),
    "read": lambda: layer.weights.copy_data_from_device_memory(into),
    "slow argument": lambda: layer.weights.copy_data_from_device_memory(into, length=Length()),
    "slow handler": lambda: step(completion_handler=slow).wait(),
    "slow epoch": lambda: training.fit(many[0], labels=many[1], epochs=2, on_epoch=slow),
    "slow commit": lambda: commit(slow),
    "moments": lambda: layer.weights.optimizer_data,
    "commit": commit,
    "image": lambda: image.read_bytes(np.zeros((4, 1, 1), np.float32)),
}
training.save(sys.argv[2])
step(options="synchronous")

def repeat():
    while True:
        calls[sys.argv[1]]()

calls[sys.argv[1]]() if sys.argv[1] != "fit" else None
for _ in range(2):
    threading.Thread(target=repeat, daemon=True).start()
time.sleep(0.2)
print("leaving")
"""
CALLS = [
    line.split('"')[1]
    for line in PROGRAM.split("calls = {")[1].split("\n}")[0].splitlines()
    if line.startswith('    "')
]


@pytest.mark.parametrize("half", [0, 1])
def test_leaving_while_threads_are_in_a_call(half: int, tmp_path: object) -> None:
    for first in range(half * 2, len(CALLS), 4):
        names = CALLS[first : first + 2]
        runs = [
            subprocess.Popen(
                [sys.executable, "-c", PROGRAM, name, f"{tmp_path}/{name}.safetensors"],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for name in names
        ]
        for name, run in zip(names, runs, strict=True):
            out, err = run.communicate(timeout=120)
            assert (run.returncode, out) == (0, "leaving\n"), (name, run.returncode, err[-2000:])


def test_every_binding_lets_the_lock_go_by_classes_that_may_stay() -> None:
    """gil.h says what pybind11's own do when the interpreter goes."""
    files = sorted(BINDINGS.rglob("*.cpp")) + sorted(BINDINGS.rglob("*.h"))
    assert len(files) > 50
    text = {str(file.relative_to(BINDINGS)): file.read_text() for file in files}
    assert [name for name in text if "gil_scoped_" in text[name]] == []
    users = [name for name in text if "ReleasedGil" in text[name] or "HeldGil" in text[name]]
    assert len(users) > 15
