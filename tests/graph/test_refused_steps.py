"""What a step that was refused has left cannot be read as if it had run."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from networks import Network, read

import traingraph as tg

DEVICES = pytest.mark.parametrize(
    ("device", "dtype"), [("cpu", "float32"), ("reference", "float64")]
)
CHECKED = "check_numerics"


class Net(Network):
    """With gradients that can be read, and labels that make a gradient infinite."""

    def __init__(self, device: str, dtype: str) -> None:
        super().__init__(dtype)
        self.graph_trained = training = self.training(tg.MLCAdamOptimizer(learning_rate=0.1))
        self.gradients_read = {
            "x": training.gradient_tensor(for_input=self.x),
            "h1": training.result_gradient_tensors(self.fc1)[0],
        }
        training.add_outputs({"h1": self.h1, "gradient": self.gradients_read["h1"]})
        training.compile(device=device, options="compute_all_gradients")
        self.step()

    def step(self, **keywords: Any) -> Any:
        call = {"inputs_data": self.data, "loss_labels_data": self.labels}
        return self.graph_trained.execute(**call | {"options": "synchronous"} | keywords)

    def passes(self) -> None:
        self.feed(self.graph_trained)
        self.graph_trained.execute_forward(options="synchronous")
        self.graph_trained.execute_gradient(options="synchronous")

    def spoil(self) -> None:
        self.data = {"x": np.full_like(self.data["x"], np.nan)}

    def spoil_the_loss(self) -> None:
        most = np.finfo(self.dtype).max
        self.labels = {"y": np.full_like(self.labels["y"], most)}

    def readers(self) -> dict[str, Callable[[], Any]]:
        training = self.graph_trained
        return {
            "result": lambda: read(self.result),
            "output": lambda: read(self.h1),
            "view": lambda: self.h1.device_data(),
            "view of the result": lambda: self.result.device_data(),
            "gradient": lambda: read(self.gradients_read["x"]),
            "gradient output": lambda: read(self.gradients_read["h1"]),
            "view of a gradient": lambda: self.gradients_read["h1"].device_data(),
            "gradient of weights": lambda: training.gradient_data(
                for_parameter=self.fc1.weights, layer=self.fc1
            ),
        }

    def expect_nothing_readable(self) -> None:
        for name, reader in self.readers().items():
            with pytest.raises(
                tg.InvalidArgument,
                match=r"no forward pass has computed it|expected a gradient pass",
            ):
                pytest.fail(f"{name}: {reader()}")

    def expect_readable(self) -> None:
        for reader in self.readers().values():
            reader()


def forward(net: Net) -> None:
    net.feed(net.graph_trained)
    net.graph_trained.execute_forward(options=f"synchronous|{CHECKED}")


def gradient(net: Net) -> None:
    net.feed(net.graph_trained)
    net.graph_trained.execute_forward(options="synchronous")
    net.graph_trained.execute_gradient(options=f"synchronous|{CHECKED}")


def in_flight(net: Net) -> None:
    net.step(options=CHECKED).wait()


def with_handler(net: Net) -> None:
    net.step(options=CHECKED, completion_handler=lambda *_: time.sleep(0.01)).wait()


def in_inference(net: Net) -> None:
    net.step(options=f"synchronous|forward_for_inference|{CHECKED}")


def in_fit(net: Net) -> None:
    net.graph_trained.fit(net.data, net.labels, options=CHECKED)


REFUSED: dict[str, tuple[Callable[[Net], None], Callable[[Net], Any]]] = {
    "step": (Net.spoil, lambda net: net.step(options=f"synchronous|{CHECKED}")),
    "gradient of a step": (
        Net.spoil_the_loss,
        lambda net: net.step(options=f"synchronous|{CHECKED}"),
    ),
    "forward": (Net.spoil, forward),
    "gradient": (Net.spoil, gradient),
    "in flight": (Net.spoil, in_flight),
    "with a handler": (Net.spoil, with_handler),
    "in inference": (Net.spoil, in_inference),
    "fit": (Net.spoil, in_fit),
}


@DEVICES
@pytest.mark.parametrize("what", REFUSED)
def test_nothing_of_a_refused_run_is_readable(device: str, dtype: str, what: str) -> None:
    spoil, run = REFUSED[what]
    net = Net(device, dtype)
    net.passes()
    net.expect_readable()
    net.graph_trained.execute_optimizer_update(options="synchronous")
    data, labels = net.data, net.labels
    spoil(net)
    with pytest.raises(tg.NumericError):
        run(net)
    net.expect_nothing_readable()
    with pytest.raises(tg.InvalidArgument, match="expected execute_forward before it"):
        net.graph_trained.execute_gradient(options="synchronous")
    with pytest.raises(tg.InvalidArgument, match="expected execute_gradient before it"):
        net.graph_trained.execute_optimizer_update(options="synchronous")
    net.expect_nothing_readable()
    net.data, net.labels = data, labels
    net.passes()
    net.expect_readable()


@DEVICES
@pytest.mark.parametrize("calls", ["execute", "separate"])
def test_a_micro_batch_that_was_refused(device: str, dtype: str, calls: str) -> None:
    net = Net(device, dtype)
    net.graph_trained.micro_batches = 2
    net.passes()
    net.expect_readable()
    net.spoil()
    run = REFUSED["step" if calls == "execute" else "forward"][1]
    with pytest.raises(tg.NumericError):
        run(net)
    net.expect_nothing_readable()
    assert "state.summed_micro_batches" not in net.graph_trained.state()


@DEVICES
def test_what_is_refused_before_it_runs_leaves_what_was_there(device: str, dtype: str) -> None:
    """Unusable data, batch sizes and names are found first."""
    net = Net(device, dtype)
    net.passes()
    before = [np.asarray(read(t)) for t in (net.result, net.h1, net.gradients_read["x"])]
    wrong = [
        {"inputs_data": {"x": net.data["x"][:, :2]}},
        {"inputs_data": {"z": net.data["x"]}},
        {"batch_size": -1},
        {"outputs_data": {"h1": np.empty((1, 1), dtype)}},
    ]
    for keywords in wrong:
        with pytest.raises(ValueError, match=r"expected"):
            net.step(**keywords)
    after = [np.asarray(read(t)) for t in (net.result, net.h1, net.gradients_read["x"])]
    for mine, theirs in zip(before, after, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    net.graph_trained.execute_optimizer_update(options="synchronous")


@DEVICES
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_handler_that_raises_comes_after_the_step(device: str, dtype: str) -> None:
    """The step has run: it has trained, and what it computed is there."""
    net, other = Net(device, dtype), Net(device, dtype)

    def handler(*_: Any) -> None:
        raise RuntimeError("of the handler")

    other.step()
    net.step(completion_handler=handler)
    np.testing.assert_array_equal(read(net.h1), read(other.h1))
    net.graph_trained.synchronize_updates()
    other.graph_trained.synchronize_updates()
    for mine, theirs in zip(net.parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@DEVICES
@pytest.mark.parametrize("how", ["execute_forward", "predict"])
def test_a_later_forward_pass_ends_the_gradients(device: str, dtype: str, how: str) -> None:
    net = Net(device, dtype)
    net.passes()
    net.graph_trained.execute_optimizer_update(options="synchronous")
    net.expect_readable()
    if how == "predict":
        net.graph_trained.predict(net.data["x"])
    else:
        net.graph_trained.execute_forward(options="synchronous")
    for name, reader in net.readers().items():
        if "gradient" not in name:
            reader()
            continue
        with pytest.raises(tg.InvalidArgument, match="expected a gradient pass before reading it"):
            pytest.fail(f"{name}: {reader()}")


OUT_OF_MEMORY = """
import resource, sys
import numpy as np
resource.setrlimit(resource.RLIMIT_AS, (3 * 2**30,) * 2)
import traingraph as tg
from networks import dense, read

x, y, graph = tg.MLCTensor(shape=[4, 1]), tg.MLCTensor(shape=[4, 1]), tg.MLCGraph()
wide = graph.node(dense(4096, 1, 1, "float32"), source=x)
result = graph.node(dense(1, 4096, 2, "float32"), source=wide)
training = tg.MLCTrainingGraph(
    graph_objects=[graph],
    loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
    optimizer=tg.MLCSGDOptimizer(learning_rate=0.0),
)
training.add_inputs({"x": x}, loss_labels={"y": y})
training.compile(device=sys.argv[1])

def step(rows):
    data = np.ones((rows, 1), np.float32)
    return training.execute(
        inputs_data={"x": data}, loss_labels_data={"y": data}, options="synchronous"
    ).result

loss = step(4)
before = read(result).copy()
try:
    step(2**20)
except MemoryError as error:
    assert "largest entries" in str(error)
else:
    raise AssertionError("2^20 rows of 4096 numbers fit")
try:
    print("stale", read(result))
except tg.InvalidArgument as error:
    assert "no forward pass has computed it, or its memory was reused" in str(error)
assert step(4) == loss
np.testing.assert_array_equal(read(result), before)
print("fine")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits address space")
@pytest.mark.parametrize("host", ["portable", "reference"])
def test_a_step_without_memory_for_it(host: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OUT_OF_MEMORY, {"portable": "cpu"}.get(host, host)],
        cwd=Path(__file__).parent,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path), "OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "fine\n", done.stdout + done.stderr[-2000:]
