"""Which data a call reads: its arguments, what was bound, the tensor's own, or the last ones."""

import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from networks import identity

import traingraph as tg

ROWS = 4
DEVICES = ["cpu", "reference"]
COPYING = ["cuda", "metal"]  # devices that copy arrays to memory of their own
STILL = tg.MLCSGDOptimizer(learning_rate=0.0)
SKIP = tg.MLCExecutionOptions.SKIP_WRITING_INPUT_DATA_TO_DEVICE


def filled(value: float, rows: int = ROWS) -> np.ndarray:
    return np.full((rows, 1), value, np.float32)


class Difference:
    """The mean of (x - y) squared."""

    def __init__(self, device: str, trains: bool = False) -> None:
        self.x, self.y = (tg.MLCTensor(shape=[ROWS, 1]) for _ in range(2))
        graph = tg.MLCGraph()
        linear = tg.MLCActivationLayer.linear(scale=1.0, bias=0.0)
        graph.node(identity(1) if trains else linear, source=self.x)
        loss = tg.MLCLossLayer.mean_squared_error(reduction_type="mean")
        self.training = tg.MLCTrainingGraph(
            graph_objects=[graph], loss_layer=loss, optimizer=STILL if trains else None
        )
        self.training.add_inputs({"x": self.x}, loss_labels={"y": self.y})
        self.training.compile(device=device)

    def bind(self, x: float, y: float) -> None:
        given = {"x": filled(x), "y": filled(y)}
        self.training.bind_and_write_data(given, for_inputs={"x": self.x, "y": self.y})

    def execute(self, x: float, y: float, **more: Any) -> float:
        given = {"inputs_data": {"x": filled(x)}, "loss_labels_data": {"y": filled(y)}}
        return float(self.training.execute(**given, **more).result)

    def without_data(self, **more: Any) -> float:
        return float(self.training.execute(inputs_data={}, **more).result)

    def forward(self) -> float:
        return float(self.training.execute_forward().result)


BETWEEN: dict[str, Callable[[Difference], object]] = {
    "predict": lambda one: one.training.predict(filled(100)),
    "predict of other rows": lambda one: one.training.predict(filled(100, 3)),
    "evaluate": lambda one: one.training.evaluate(filled(100), filled(7)),
    "fit": lambda one: one.training.fit(filled(100), filled(7)),
    "compile": lambda one: one.training.compile(device=one.training.device),
}


@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("device", DEVICES)
def test_what_was_bound_stays(device: str, between: str) -> None:
    one = Difference(device, trains=between == "fit")
    one.bind(3, 1)
    assert one.forward() == 4
    BETWEEN[between](one)
    assert one.forward() == 4
    assert one.without_data() == 4


@pytest.mark.parametrize("device", DEVICES)
def test_an_argument_replaces_what_was_bound_for_its_tensor(device: str) -> None:
    one = Difference(device)
    one.bind(3, 1)
    assert float(one.training.execute(inputs_data={"x": filled(6)}).result) == 25
    assert one.forward() == 25
    with pytest.raises(tg.InvalidArgument, match="expected data for 'x' but none"):
        one.without_data()


@pytest.mark.parametrize("device", DEVICES)
def test_a_link_is_read_again_behind_an_argument_that_replaced_a_binding(device: str) -> None:
    def doubled(source: tg.MLCTensor) -> tuple[tg.MLCInferenceGraph, tg.MLCTensor]:
        graph = tg.MLCGraph()
        result = graph.node(tg.MLCActivationLayer.linear(scale=2.0, bias=0.0), source=source)
        inference = tg.MLCInferenceGraph(graph_objects=[graph])
        inference.add_inputs({"x": source})
        return inference, result

    front, between = doubled(tg.MLCTensor(shape=[ROWS, 1]))
    back, _ = doubled(between)
    front.link([back])
    for one in (front, back):
        one.compile(device=device, options="link_graphs")

    def last(**given: np.ndarray) -> float:
        return float(back.execute(inputs_data=given, options="synchronous").result[0, 0])

    front.execute(inputs_data={"x": filled(1)}, options="synchronous")
    assert last() == 4
    back.bind_and_write_data({"x": filled(5)}, for_inputs={"x": between})
    assert last() == 10
    assert last(x=filled(7)) == 14
    assert last() == 4


@pytest.mark.parametrize("device", DEVICES)
def test_a_call_that_skips_writing_reads_the_newest(device: str) -> None:
    one = Difference(device)
    one.bind(3, 1)
    assert one.without_data(options=SKIP) == 4
    one.training.predict(filled(6))
    assert one.without_data(options=SKIP) == 25
    assert one.without_data() == 4
    one.bind(5, 1)
    assert one.without_data(options=SKIP) == 16
    assert one.execute(6, 1) == 25
    assert one.without_data(options=SKIP) == 25


@pytest.mark.parametrize("device", DEVICES)
def test_a_forward_without_data_reads_that_of_the_call_before(device: str) -> None:
    one = Difference(device)
    assert one.execute(6, 1) == 25
    assert one.forward() == 25
    with pytest.raises(tg.InvalidArgument, match="expected data for 'x', 'y' but none"):
        one.without_data()


@pytest.mark.parametrize("kind", [tg.MLCInferenceGraph, tg.MLCTrainingGraph])
@pytest.mark.parametrize("device", DEVICES)
def test_own_data_of_a_declared_tensor(device: str, kind: Callable[..., Any]) -> None:
    own, x = tg.MLCTensor(data=filled(3)), tg.MLCTensor(shape=[ROWS, 1])
    graph = tg.MLCGraph()
    graph.node(tg.MLCArithmeticLayer(operation="add"), sources=[own, x])
    whole = kind(graph_objects=[graph])
    whole.add_inputs({"own": own, "x": x})
    whole.compile(device=device)

    def first(**more: np.ndarray) -> float:
        return float(whole.execute(inputs_data={"x": filled(0), **more}).result[0, 0])

    memory = filled(7)
    assert first() == 3
    for value in (7, 8):  # the same memory with other numbers
        memory[:] = value
        own.bind_and_write_data(memory)
        assert first() == value
    assert first(own=filled(9)) == 9
    assert first() == 8


@pytest.mark.parametrize("device", DEVICES)
def test_what_was_only_read_is_no_data_of_its_own(device: str) -> None:
    one = Difference(device)
    one.execute(6, 1)
    one.x.synchronize_data()
    with pytest.raises(tg.InvalidArgument, match="expected data for 'x', 'y' but none"):
        one.without_data()


@pytest.mark.parametrize("device", DEVICES)
def test_classes_of_the_call_before_are_checked_again(device: str) -> None:
    x, y = tg.MLCTensor(shape=[2, 3]), tg.MLCTensor(shape=[2], data_type="int32")
    graph = tg.MLCGraph()
    graph.node(tg.MLCActivationLayer.linear(scale=1.0, bias=0.0), source=x)
    loss = tg.MLCLossLayer.softmax_cross_entropy(reduction_type="mean")
    training = tg.MLCTrainingGraph(graph_objects=[graph], loss_layer=loss)
    training.add_inputs({"x": x}, loss_labels={"y": y})
    training.compile(device=device)
    labels = np.array([0, 2], np.int32)
    data = {"x": np.zeros((2, 3), np.float32)}
    loss = training.execute(inputs_data=data, loss_labels_data={"y": labels}).result
    labels[1] = 3
    for run in (
        lambda: training.execute(inputs_data={}, options=SKIP),
        lambda: training.execute_forward(),
    ):
        if device in COPYING:
            assert run().result == loss
            continue
        with pytest.raises(tg.InvalidArgument, match="from 0 to 2 or -1 but got 3 in row 1"):
            run().wait()


def repeated(work: Callable[[], object], until: threading.Event) -> threading.Thread:
    def go_on() -> None:
        while not until.is_set():
            work()

    thread = threading.Thread(target=go_on)
    thread.start()
    return thread


@pytest.fixture
def ended() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.parametrize("renewal", ["compile", "is_updatable"])
def test_a_graph_that_is_renewed_loses_no_data(renewal: str, ended: threading.Event) -> None:
    x = tg.MLCTensor(shape=[1, 8])
    layer = tg.MLCFullyConnectedLayer(
        weights=tg.MLCTensor(data=np.ones((1, 8), np.float32)),
        descriptor=tg.MLCConvolutionDescriptor(
            kernel_sizes=[8, 1], input_feature_channel_count=8, output_feature_channel_count=1
        ),
    )
    graph = tg.MLCGraph()
    graph.node(layer, source=x)
    training = tg.MLCTrainingGraph(graph_objects=[graph])
    training.add_inputs({"x": x})
    training.compile(device="cpu")
    training.bind_and_write_data({"x": np.full((1, 8), 4, np.float32)}, for_inputs={"x": x})
    toggled = itertools.cycle([False, True])

    def renew() -> None:
        if renewal == "compile":
            training.compile(device="cpu")
        else:
            layer.weights_parameter.is_updatable = next(toggled)

    others = [repeated(renew, ended)]
    for k in range(400):
        assert float(training.execute_forward().result.item()) == 32
        assert float(training.predict(np.full((1, 8), k, np.float32)).item()) == 8 * k
    raw = {"x": np.full((1, 8), 5, np.float32).tobytes()}
    training.execute(inputs_data=raw).wait()
    for _ in range(400):
        assert float(training.execute(inputs_data={}, options=SKIP).result.item()) == 40
        assert float(training.execute(inputs_data=raw).result.item()) == 40
    ended.set()
    for other in others:
        other.join()


def test_an_evaluation_scores_what_it_ran(ended: threading.Event) -> None:
    x, y = tg.MLCTensor(shape=[4, 2]), tg.MLCTensor(shape=[4], data_type="int32")
    graph = tg.MLCGraph()
    graph.node(tg.MLCActivationLayer.linear(scale=1.0, bias=0.0), source=x)
    loss = tg.MLCLossLayer.softmax_cross_entropy(reduction_type="mean")
    training = tg.MLCTrainingGraph(graph_objects=[graph], loss_layer=loss)
    training.add_inputs({"x": x}, loss_labels={"y": y})
    training.compile(device="cpu")
    points = np.tile(np.array([1, 0], np.float32), (4, 1))
    right, wrong = np.zeros(4, np.int32), np.ones(4, np.int32)
    others = [
        repeated(lambda: training.evaluate(points, wrong), ended),
        repeated(lambda: training.predict(points), ended),
    ]
    for _ in range(1000):
        assert training.evaluate(points, right).accuracy == 1
    ended.set()
    for other in others:
        other.join()


class TwoInputs:
    """The mean of (a + b - y) squared, with weights, which is 0 as long as rows stay together."""

    def __init__(self, own: str) -> None:
        self.arrays = {name: np.arange(ROWS, dtype=np.float32)[:, None] for name in "abyw"}
        self.arrays["y"] = self.arrays["a"] + self.arrays["b"]
        self.tensors = {
            name: tg.MLCTensor(data=array) if name == own else tg.MLCTensor(shape=[ROWS, 1])
            for name, array in self.arrays.items()
        }
        a, b, y, w = self.tensors.values()
        graph = tg.MLCGraph()
        total = graph.node(tg.MLCArithmeticLayer(operation="add"), sources=[a, b])
        graph.node(identity(1), source=total)
        loss = tg.MLCLossLayer.mean_squared_error()
        self.training = tg.MLCTrainingGraph(graph_objects=[graph], loss_layer=loss, optimizer=STILL)
        self.training.add_inputs(
            {"a": a, "b": b}, loss_labels={"y": y}, loss_label_weights={"w": w}
        )
        self.training.compile(device="cpu")

    def bind(self, name: str) -> None:
        tensor = {name: self.tensors[name]}
        self.training.bind_and_write_data({name: self.arrays[name]}, for_inputs=tensor)

    def fit(self, *, without: str, **more: Any) -> list[float]:
        given = [{k: self.arrays[k] for k in names if k != without} for names in ("ab", "y", "w")]
        x, y, w = given
        epochs = self.training.fit(x, y, label_weights=w, epochs=4, **more)
        return [epoch.loss for epoch in epochs]


@pytest.mark.parametrize("how", ["bound", "own"])
@pytest.mark.parametrize("name", ["a", "b", "w"])
def test_what_a_fit_does_not_shuffle_is_named(name: str, how: str) -> None:
    one = TwoInputs(own=name if how == "own" else "")
    if how == "bound":
        one.bind(name)
    with pytest.raises(ValueError, match=rf"samples of '{name}' too.*shuffle=False"):
        one.fit(without=name)
    assert one.fit(without=name, shuffle=False) == [0, 0, 0, 0]
    assert one.fit(without="") == [0, 0, 0, 0]


def test_weights_that_a_loss_holds_are_not_shuffled() -> None:
    x, y = tg.MLCTensor(shape=[ROWS, 1]), tg.MLCTensor(shape=[ROWS, 1])
    graph = tg.MLCGraph()
    graph.node(identity(1), source=x)
    weights = tg.MLCTensor(data=np.arange(ROWS, dtype=np.float32)[:, None])
    loss = tg.MLCLossLayer.mean_squared_error(weights=weights)
    training = tg.MLCTrainingGraph(graph_objects=[graph], loss_layer=loss, optimizer=STILL)
    training.add_inputs({"x": x}, loss_labels={"y": y})
    training.compile(device="cpu")
    with pytest.raises(ValueError, match=r"samples of .* too.*shuffle=False"):
        training.fit(filled(1), filled(2))
    assert training.fit(filled(1), filled(2), shuffle=False)[0].loss == pytest.approx(1.5)


def test_arrays_of_other_rows_are_told_apart() -> None:
    one = Difference("cpu")
    with pytest.raises(ValueError, match=r"'y'\] expected 3 rows as in the arrays .* got \(2, 1\)"):
        one.training.execute(inputs_data={"x": filled(1, 3)}, loss_labels_data={"y": filled(1, 2)})
    with pytest.raises(ValueError, match=r"'y'\] expected 3 rows as in the arrays .* got \(2, 1\)"):
        one.training.bind_and_write_data(
            {"x": filled(1, 3), "y": filled(1, 2)}, for_inputs={"x": one.x, "y": one.y}
        )
