"""A large result stays where a forward pass left it until its handle is read or would lose it."""

import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import traingraph as tg

ROWS, WIDTH = 64, 1024
NOW = {"options": "synchronous"}


class Net:
    """y = relu(x), large, as an inference and as a training graph whose gradient is given."""

    def __init__(self, rows: int = ROWS) -> None:
        self.x = tg.MLCTensor(shape=[rows, WIDTH])
        self.graph = tg.MLCGraph()
        self.y = self.graph.node(tg.MLCActivationLayer.relu(), source=self.x)

    def inference(self) -> tg.MLCInferenceGraph:
        made = tg.MLCInferenceGraph(graph_objects=[self.graph])
        made.add_inputs({"x": self.x})
        made.compile(device="cpu")
        return made

    def training(self) -> tuple[tg.MLCTrainingGraph, tg.MLCTensor]:
        made = tg.MLCTrainingGraph(graph_objects=[self.graph])
        made.add_inputs({"x": self.x})
        given = made.allocate_user_gradient(self.y)
        made.compile(device="cpu", options="compute_all_gradients")
        return made, given


def numbers(seed: int, rows: int = ROWS) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, WIDTH)).astype("f")


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def test_each_handle_has_its_own_result() -> None:
    inference = Net().inference()
    for options in ("synchronous", "none"):
        handles = [
            inference.execute(inputs_data={"x": numbers(k)}, options=options) for k in range(4)
        ]
        for k in (2, 0, 3, 1, 2):
            np.testing.assert_array_equal(handles[k].result, relu(numbers(k)))


def test_fewer_rows() -> None:
    inference = Net().inference()
    handles = [inference.execute(inputs_data={"x": numbers(k, 64 - k)}, **NOW) for k in range(3)]
    for k, handle in enumerate(handles):
        np.testing.assert_array_equal(handle.result, relu(numbers(k, 64 - k)))


def test_behind_the_gradient_pass() -> None:
    net = Net()
    training, given = net.training()
    handles = []
    for k in range(3):
        training.bind_and_write_data({"x": numbers(k)}, for_inputs={"x": net.x})
        handles.append(training.execute_forward(**NOW))
        training.bind_and_write_data({"g": numbers(9)}, for_inputs={"g": given})
        training.execute_gradient(**NOW)
    for k, handle in enumerate(handles):
        np.testing.assert_array_equal(handle.result, relu(numbers(k)))


@pytest.mark.parametrize("what", ["compiled again", "a larger batch", "gone"])
def test_whatever_becomes_of_the_graph(what: str) -> None:
    net = Net()
    inference = net.inference()
    handle = inference.execute(inputs_data={"x": numbers(1)}, **NOW)
    if what == "compiled again":
        inference.compile(device="cpu")
        inference.execute(inputs_data={"x": numbers(2)}, **NOW)
    elif what == "a larger batch":
        inference.execute(inputs_data={"x": numbers(2, 4 * ROWS)}, **NOW)
    else:
        del net, inference
        gc.collect()
    np.testing.assert_array_equal(handle.result, relu(numbers(1)))


def test_a_result_is_the_callers_own() -> None:
    inference = Net().inference()
    handle = inference.execute(inputs_data={"x": numbers(1)}, **NOW)
    first = handle.result
    inference.execute(inputs_data={"x": numbers(2)}, **NOW)
    np.testing.assert_array_equal(first, relu(numbers(1)))
    np.testing.assert_array_equal(handle.result, relu(numbers(1)))


def test_reads_beside_later_executions() -> None:
    inference = Net().inference()
    expected = [relu(numbers(k)) for k in range(4)]
    wrong: list[int] = []

    def read(handle: Any, k: int) -> None:
        if not np.array_equal(handle.result, expected[k]):
            wrong.append(k)

    threads = []
    for turn in range(200):
        handle = inference.execute(inputs_data={"x": numbers(turn % 4)}, **NOW)
        threads.append(threading.Thread(target=read, args=(handle, turn % 4)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    assert not wrong


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_a_result_that_nobody_reads_takes_no_memory() -> None:
    rows = 16 * 1024  # 64 MiB
    inference, data = Net(rows).inference(), numbers(1, rows)

    def run() -> Any:
        return inference.execute(inputs_data={"x": data}, **NOW)

    run()
    before = resident()
    handle = run()
    assert resident() - before < data.nbytes / 2
    np.testing.assert_array_equal(handle.result, relu(data))
    assert resident() - before > data.nbytes / 2


def bound(net: Net, call: Callable[[Any, np.ndarray], None], given: np.ndarray) -> np.ndarray:
    """The gradient of the source, after a step with that gradient of the result."""
    training, gradient = net.training()
    training.bind_and_write_data({"x": numbers(1)}, for_inputs={"x": net.x})
    training.execute_forward(**NOW)
    training.bind_and_write_data({"g": given}, for_inputs={"g": gradient}, synchronous=False)
    call(training, given)
    training.execute_gradient(**NOW)
    of_source = training.gradient_tensor(for_input=net.x)
    of_source.synchronize_data()
    return np.array(of_source.data)


def test_a_given_gradient_is_read_in_place_where_the_caller_lets_it() -> None:
    mask = numbers(1) > 0

    def change(training: Any, given: np.ndarray) -> None:
        copies = [e for e in training.memory_plan().entries if e.kind == "staging"]
        assert not [entry for entry in copies if "user gradient" in entry.name]
        given *= 2  # what shows that it is not a copy; callers are not to

    np.testing.assert_array_equal(bound(Net(), change, numbers(2)), 2 * numbers(2) * mask)


def test_a_given_gradient_is_copied_where_kernels_cannot_read_it() -> None:
    raw = np.zeros(ROWS * WIDTH * 4 + 1, np.uint8)
    odd = raw[1:].view("f").reshape(ROWS, WIDTH)
    odd[:] = numbers(2)
    found = bound(Net(), lambda _, given: given.fill(0), odd)
    np.testing.assert_array_equal(found, numbers(2) * (numbers(1) > 0))


@pytest.mark.parametrize("rows", [8, 5])
def test_of_a_layout_that_is_not_plain(rows: int) -> None:
    x = tg.MLCTensor(shape=[8, 16, 24, 24])
    weights = tg.MLCTensor(
        data=np.random.default_rng(3).standard_normal((16, 16, 3, 3)).astype("f")
    )
    descriptor = tg.MLCConvolutionDescriptor(
        kernel_sizes=(3, 3),
        input_feature_channel_count=16,
        output_feature_channel_count=16,
    )
    graph = tg.MLCGraph()
    graph.node(tg.MLCConvolutionLayer(weights=weights, descriptor=descriptor), source=x)

    def kept_result(device: str) -> np.ndarray:
        inference = tg.MLCInferenceGraph(graph_objects=[graph])
        inference.add_inputs({"x": x})
        inference.compile(device=device)
        given = np.random.default_rng(4).standard_normal((8, 16, 24, 24)).astype("f")[:rows]
        handle = inference.execute(inputs_data={"x": given}, **NOW)
        inference.execute(inputs_data={"x": np.zeros_like(given)}, **NOW)
        return np.asarray(handle.result)

    np.testing.assert_allclose(kept_result("cpu"), kept_result("reference"), atol=1e-4)
