"""The interpreter goes while other threads are inside the library: the process ends as it would."""

import subprocess
import sys
import time
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


SPINNING = """
import sys, threading
import numpy as np
from traingraph import mps, nn

model = nn.model([nn.dense(2)], input=3, batch_size=4)
given = np.ones((4, 3), np.float32), np.zeros(4, np.int32)
begun = threading.Event()

def spin(*_, **__):
    begun.set()
    while True:
        pass

class Spinning:
    __array__ = __index__ = spin

class Source:
    def __getattr__(self, name):
        return spin()

def execute(x=given[0], **more):
    model.execute(inputs_data={"x": x}, loss_labels_data={"y": given[1]}, **more)

calls = {
    "array": lambda: execute(Spinning()),
    "batch_size": lambda: execute(batch_size=Spinning()),
    "fit": lambda: model.fit(*given, on_epoch=spin),
    "predict": lambda: model.predict({"x": Spinning()}),
    "source": lambda: mps.MPSCNNConvolution(device="cpu", weights=Source()),
    "first step": lambda: (begun.set(), execute(), spin()),
}
threading.Thread(target=calls[sys.argv[1]], daemon=True).start()
begun.wait(60)
print("leaving")
"""


@pytest.mark.parametrize(
    "call", ["array", "batch_size", "fit", "predict", "source", *["first step"] * 5]
)
def test_leaving_while_python_code_of_a_call_does_not_end(call: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", SPINNING, call], capture_output=True, text=True, timeout=60
    )
    assert (run.returncode, run.stdout) == (0, "leaving\n"), run.stderr[-2000:]


HANDLERS = """
import sys, threading, time
import numpy as np
from traingraph import mps, nn

model = nn.model([nn.dense(2)], input=3, batch_size=4)
given = {"inputs_data": {"x": np.ones((4, 3), np.float32)},
         "loss_labels_data": {"y": np.zeros(4, np.int32)}}
called = []
held = threading.Event()

def begins(then):
    def handler(*_):
        held.set()
        then()
    return handler

def spin():
    while True:
        pass

def submit(then, **more):
    model.execute(**given, completion_handler=begins(then), **more)

def in_thread(then):
    threading.Thread(target=lambda: submit(then, options="synchronous"), daemon=True).start()

def waiting(then):
    handle = []
    def run():
        submit(then)
        model.synchronize_updates()
    threading.Thread(target=run, daemon=True).start()

def commit(then):
    buffer = mps.MTLDevice(device="cpu").make_command_queue().make_command_buffer()
    buffer.add_completed_handler(begins(then))
    buffer.commit()

never = threading.Event()
lock = threading.Lock()
lock.acquire()
how, what, begun = sys.argv[1:]
ways = {"queued": submit, "synchronous": in_thread, "waited for": waiting, "commit": commit}
ways[how]({"event": never.wait, "lock": lock.acquire, "sleep": lambda: time.sleep(60),
           "spin": spin}[what])
if begun == "begun":
    held.wait(60)
print("leaving", time.monotonic(), flush=True)
"""


@pytest.mark.parametrize("how", ["queued", "synchronous", "waited for", "commit"])
def test_leaving_while_a_handler_does_not_end(how: str) -> None:
    """It has a second, not for ever. Programs that wait do so at one time."""
    ways = [(what, "begun") for what in ("event", "lock", "sleep", "spin")]
    if how == "queued":
        ways.append(("event", "just submitted"))
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", HANDLERS, how, *way],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for way in ways
    ]
    try:
        for way, run in zip(ways, runs, strict=True):
            out, err = run.communicate(timeout=60)
            assert (run.returncode, err) == (0, ""), (way, run.returncode, err[-2000:])
            took = time.monotonic() - float(out.split()[1])
            assert took < 8, (way, took)
    finally:
        for run in runs:
            run.kill()


def test_handlers_of_submitted_steps_are_called_before_the_process_ends() -> None:
    """Each of them within its second, all of them together in more."""
    program = HANDLERS.split("never = ")[0] + "\n".join(
        [
            "for k in range(5):",
            "    submit(lambda k=k: (time.sleep(0.5), print(k, flush=True)))",
        ]
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    assert (run.returncode, run.stdout.split()) == (0, ["0", "1", "2", "3", "4"]), run.stderr
