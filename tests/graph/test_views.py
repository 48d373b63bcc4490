"""`device_data()` keeps what it shows alive, whatever becomes of the graph and of the arrays."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from networks import array, dense

import traingraph as tg

ROWS = 8
SYNCHRONOUS = {"options": "synchronous"}
# Views of host memory, which NumPy reads: whoever frees it early gives it to `churn`.
HOSTS = pytest.mark.parametrize("host", ["portable", "reference"])
DEVICE = {"portable": "cpu", "reference": "reference"}


class Net:
    """x → fc1 → tanh → fc2, and the separate calls of a step that changes nothing."""

    def __init__(self, host: str, bound: bool = False) -> None:
        self.host = host
        self.x, self.y = tg.MLCTensor(shape=[ROWS, 40]), tg.MLCTensor(shape=[ROWS, 30])
        self.fc1, self.fc2 = dense(50, 40, 1, "float32"), dense(30, 50, 3, "float32")
        self.graph = graph = tg.MLCGraph()
        self.flat = graph.reshape([ROWS, 8, 5], source=self.x)
        self.hidden = graph.node(self.fc1, source=self.x)
        self.after = graph.node(tg.MLCActivationLayer.tanh(), source=self.hidden)
        self.result = graph.node(self.fc2, source=self.after)
        self.training = training = tg.MLCTrainingGraph(
            graph_objects=[graph],
            loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
            optimizer=tg.MLCSGDOptimizer(learning_rate=0.0),
        )
        training.add_inputs({"x": self.x}, loss_labels={"y": self.y})
        self.gradients = {
            "of the input": training.gradient_tensor(for_input=self.x),
            "of hidden": training.result_gradient_tensors(self.fc1)[0],
        }
        training.add_outputs({"hidden": self.hidden, "gradient": self.gradients["of hidden"]})
        training.compile(device=DEVICE[host], options="compute_all_gradients")
        self.step(5)

    def arrays(self, seed: int, rows: int = ROWS) -> dict[str, np.ndarray]:
        return {
            "x": array((rows, 40), seed, "float32"),
            "y": array((rows, 30), seed + 1, "float32"),
        }

    def step(self, seed: int, rows: int = ROWS) -> None:
        """The arrays are bound in place or copied; nobody else has them."""
        arrays = self.arrays(seed, rows)
        self.training.bind_and_write_data(arrays, for_inputs={"x": self.x, "y": self.y},
                                          batch_size=rows)  # fmt: skip
        self.training.execute_forward(**SYNCHRONOUS)
        self.training.execute_gradient(**SYNCHRONOUS)
        self.training.execute_optimizer_update(**SYNCHRONOUS)

    def whole_step(self, seed: int) -> None:
        arrays = self.arrays(seed)
        self.training.execute(
            inputs_data={"x": arrays["x"]}, loss_labels_data={"y": arrays["y"]}, **SYNCHRONOUS
        )

    def shown(self) -> dict[str, tg.MLCTensor]:
        return {
            "input": self.x,
            "label": self.y,
            "input of another shape": self.flat,
            "result": self.result,
            "output": self.hidden,
            "gradient of the input": self.gradients["of the input"],
            "gradient of a result": self.gradients["of hidden"],
            "weights": self.fc1.weights,
            "biases": self.fc2.biases,
        }


def churn(host: str) -> None:
    """Takes the memory that was freed, and writes other numbers there."""
    gc.collect()
    other = Net(host)
    other.step(77)
    other.whole_step(78)
    sizes = ((ROWS, 40), (ROWS, 30), (ROWS, 50), (50, 40), (30,), (50,))
    kept = [np.full(shape, np.nan, np.float32) for shape in sizes for _ in range(20)]
    kept += [np.full(bytes // 4, np.nan, np.float32) for bytes in range(2048, 32768, 1024)]
    del kept, other


ACTIONS: dict[str, Callable[[Net], Any]] = {
    "nothing": lambda net: None,
    "another batch": lambda net: net.step(9, 8 * ROWS),
    "compiled again": lambda net: net.training.compile(device=DEVICE[net.host]),
    "within a limit": lambda net: net.training.compile(
        device=DEVICE[net.host], memory_limit=net.training.memory_plan().total_bytes
    ),
    "on another device": lambda net: net.training.compile(
        device={"portable": "reference", "reference": "cpu"}[net.host]
    ),
    "loaded": lambda net: net.training.load_state(net.training.state()),
    "declared": lambda net: (net.training.add_outputs({"result": net.result}), net.step(9)),
}


@HOSTS
@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize("action", ACTIONS)
def test_a_view_outlives(host: str, action: str, dropped: bool) -> None:
    net = Net(host)
    net.step(1)
    views = {
        name: np.from_dlpack(tensor.device_data())
        for name, tensor in net.shown().items()
        if name != "input of another shape"
    }
    expected = {name: view.copy() for name, view in views.items()}
    assert all(np.isfinite(view).all() and view.any() for view in views.values())
    ACTIONS[action](net)
    if dropped:
        del net
    churn(host)
    for name, view in views.items():
        np.testing.assert_array_equal(view, expected[name], err_msg=name)


@HOSTS
def test_a_view_of_an_array_that_a_call_brought(host: str) -> None:
    """Of the input and of what shows it in another shape: the array itself."""
    net = Net(host)
    net.training.add_outputs({"flat": net.flat})
    arrays = net.arrays(3)
    where = arrays["x"].ctypes.data
    net.training.execute(
        inputs_data={"x": arrays["x"]}, loss_labels_data={"y": arrays["y"]}, **SYNCHRONOUS
    )
    expected = arrays["x"].copy()
    del arrays
    views = [np.from_dlpack(tensor.device_data()) for tensor in (net.x, net.flat)]
    assert views[0].ctypes.data == where
    net.whole_step(4)
    del net
    churn(host)
    for view in views:
        np.testing.assert_array_equal(view.reshape(expected.shape), expected)


def view_of_a_gradient_from_outside(host: str) -> np.ndarray:
    """Of what has no other gradient than the caller's; later steps have other numbers."""
    net = Net(host)
    training = tg.MLCTrainingGraph(
        graph_objects=[net.graph], optimizer=tg.MLCSGDOptimizer(learning_rate=0.0)
    )
    training.add_inputs({"x": net.x})
    outside = training.allocate_user_gradient(net.result)
    shown = training.result_gradient_tensors(net.fc2)[0]
    training.add_outputs({"shown": shown})
    training.compile(device=DEVICE[host])
    views = []
    for seed, rows in ((1, ROWS), (5, 4 * ROWS), (7, ROWS)):
        given = {"x": array((rows, 40), seed, "float32")}
        training.bind_and_write_data(given, for_inputs={"x": net.x}, batch_size=rows)
        training.execute_forward(**SYNCHRONOUS)
        gradient = {"g": array((rows, 30), seed + 1, "float32")}
        training.bind_and_write_data(gradient, for_inputs={"g": outside}, batch_size=rows)
        training.execute_gradient(**SYNCHRONOUS)
        views.append(np.from_dlpack(shown.device_data()))
    return views[0]


@HOSTS
def test_a_view_of_a_gradient_that_a_call_brought(host: str) -> None:
    view = view_of_a_gradient_from_outside(host)
    churn(host)
    np.testing.assert_array_equal(view, array((ROWS, 30), 2, "float32"))


@HOSTS
def test_views_of_an_inference_graph(host: str) -> None:
    net = Net(host)
    inference = tg.MLCInferenceGraph(graph_objects=[net.graph])
    inference.add_inputs({"x": net.x})
    inference.compile(device=DEVICE[host])
    inference.execute(inputs_data={"x": net.arrays(6)["x"]}, **SYNCHRONOUS)
    views = [np.from_dlpack(tensor.device_data()) for tensor in (net.result, net.x)]
    expected = [view.copy() for view in views]
    del net, inference
    churn(host)
    for view, values in zip(views, expected, strict=True):
        np.testing.assert_array_equal(view, values)


@HOSTS
def test_a_view_holds_no_more_than_its_memory(host: str) -> None:
    """Not the graph: that goes, and with it what else it holds."""
    net = Net(host)
    net.step(1)
    view = np.from_dlpack(net.result.device_data())
    gone = weakref.ref(net.training)
    del net
    gc.collect()
    assert gone() is None
    assert np.isfinite(view).all()
