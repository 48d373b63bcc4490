"""Dictionaries and lists that change while they are read: by their values' own code, by threads.

A call takes what a dictionary held when it was called.
"""

import contextlib
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from odd_values import Changing, ChangingByDlpack, emptied

import traingraph as tg
from traingraph import mps

ROWS = np.arange(8, dtype=np.float64).reshape(4, 2)


def made(name: str) -> str:
    """A name that the dictionary alone has: of a length that memory is used again for."""
    return "".join([name, "_" * 48])


def training(**tensors: tg.MLCTensor) -> tg.MLCTrainingGraph:
    """The squared error of a product of the sum of two inputs."""
    tensors = {name: tg.MLCTensor(shape=[4, 2]) for name in ("one", "two", "label")} | tensors
    one, two, label = tensors.values()
    channels = {"input_feature_channel_count": 2, "output_feature_channel_count": 2}
    product = tg.MLCFullyConnectedLayer(
        weights=tg.MLCTensor(data=np.eye(2, dtype=np.float32)),
        biases=None,
        descriptor=tg.MLCConvolutionDescriptor(kernel_sizes=(1, 1), **channels),
    )
    graph = tg.MLCGraph()
    total = graph.node(tg.MLCArithmeticLayer(operation="add"), sources=[one, two])
    result = graph.node(product, source=total)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=0.125),
    )
    training.add_inputs({made("one"): one, made("two"): two}, loss_labels={made("label"): label})
    training.add_outputs({made("sum"): total, made("result"): result})
    training.compile(device="cpu")
    return training


Make = Callable[..., Any]


def given(make: Make, *names: str, values: Any = ROWS) -> dict[str, Any]:
    """Arrays by name, each of which empties the dictionary when it is read."""
    data: dict[str, Any] = {}
    change = emptied(data)
    for name in names:
        data[made(name)] = make(values, change)
    return data


def inputs(make: Make) -> dict[str, Any]:
    return given(make, "one", "two")


def labels(make: Make) -> dict[str, Any]:
    return given(make, "label", "label")


def plain(values: Any, _: object) -> Any:
    return values


def executed(**data: Any) -> Any:
    data = {"inputs_data": inputs(plain), "loss_labels_data": labels(plain)} | data
    return training().execute(options="synchronous", **data).result


def written(make: Make) -> Any:
    """Both outputs, in memory that is given by objects that empty the dictionary."""
    arrays = np.zeros((4, 2), np.float32), np.zeros((4, 2), np.float32)
    data = given(make, "sum", "result")
    for value, array in zip(data.values(), arrays, strict=True):
        value.values = array
    executed(outputs_data=data)
    return arrays


def bound(make: Make) -> Any:
    tensors = {name: tg.MLCTensor(shape=[4, 2]) for name in ("one", "two", "label")}
    graph = training(**tensors)
    for_inputs = {made(name): tensor for name, tensor in tensors.items()}
    graph.bind_and_write_data(given(make, *tensors), for_inputs=for_inputs)
    return graph.execute_forward(options="synchronous").result


def loaded(make: Make) -> Any:
    graph = training()
    state = graph.state()
    data: dict[str, Any] = {}
    for key, values in state.items():
        changed = make(values + 1, emptied(data)) if "weights" in key else values
        data["".join([key[:3], key[3:]])] = changed
    graph.load_state(data)
    return graph.state()


def constants(make: Make) -> Any:
    one, two = tg.MLCTensor(shape=[4, 2]), tg.MLCTensor(shape=[4, 2])
    graph = training(one=one, two=two)
    graph.compile(device="cpu", input_tensors={made("one"): one, made("two"): two},
                  input_tensors_data=inputs(make))  # fmt: skip
    return graph.execute(inputs_data={}, loss_labels_data=labels(plain)).result


CALLS: dict[str, Callable[[Make], Any]] = {
    "execute": lambda make: executed(inputs_data=inputs(make)),
    "execute labels": lambda make: executed(loss_labels_data=labels(make)),
    "bind_and_write_data": bound,
    "predict": lambda make: training().predict(inputs(make)),
    "fit": lambda make: training().fit(inputs(make), labels=labels(make), batch_size=2)[0].loss,
    "evaluate": lambda make: training().evaluate(inputs(make), labels=labels(make)).loss,
    "check_gradients": lambda make: str(
        tg.check_gradients(training(), inputs(make), labels(make))),
    "load_state": loaded,
    "constants": constants,
}  # fmt: skip


@pytest.mark.parametrize("kind", [Changing, ChangingByDlpack])
@pytest.mark.parametrize("call", CALLS)
def test_a_dictionary_that_its_values_empty(call: str, kind: Make) -> None:
    for _ in range(3):
        assert_equal(CALLS[call](kind), CALLS[call](plain))


def assert_equal(found: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key, values in expected.items():
            np.testing.assert_array_equal(found[key], values)
    else:
        np.testing.assert_array_equal(found, expected)


def test_outputs_that_their_values_empty() -> None:
    for _ in range(3):
        total, result = written(ChangingByDlpack)
        np.testing.assert_array_equal(total, 2 * ROWS)
        np.testing.assert_array_equal(result, 2 * ROWS)


class Number:
    """A whole number that empties a list, or makes it longer, when it is read."""

    def __init__(self, number: int, change: Callable[[], object]) -> None:
        self.number, self.change = number, change

    def __index__(self) -> int:
        self.change()
        return self.number


@pytest.mark.parametrize(
    "call",
    [
        lambda numbers: tg.MLCTensor(shape=numbers).descriptor.shape,
        lambda numbers: tg.MLCReshapeLayer(shape=numbers).shape,
        lambda numbers: mps.MPSCNNPoolingMax(
            device="cpu", kernel_width=2, kernel_height=2).__setattr__("offset", numbers),
    ],
    ids=["shape", "reshape", "offset"],
)  # fmt: skip
def test_lists_that_their_items_change(call: Callable[[Any], Any]) -> None:
    expected = call([2, 3, 4])
    numbers: list[Any] = []
    numbers += [Number(2, lambda: None), Number(3, lambda: None), Number(4, numbers.clear)]
    assert call(numbers) == expected
    # A list that is walked may lose what has not been reached.
    numbers += [Number(2, numbers.clear), 3, 4]
    with contextlib.suppress(ValueError, TypeError):
        call(numbers)


class Key:
    """A key of a coder's dictionary that empties it when it is read."""

    def __init__(self, text: str, change: Callable[[], object]) -> None:
        self.text, self.change = text, change

    def __str__(self) -> str:
        self.change()
        return self.text


def test_a_coders_dictionary_that_its_keys_empty() -> None:
    data: dict[Any, Any] = {}
    for name in ("one", "two"):
        data[Key(name, data.clear)] = "".join([name, "_" * 48])

    class Coded:
        def encode_with_coder(self, coder: mps.NSKeyedArchiver) -> None:
            coder.encode(data, for_key="data")

    archive = mps.NSKeyedArchiver.archived_data(with_root_object=Coded())
    read = mps.MPSKeyedUnarchiver(for_reading_from=archive, device="cpu").decode(for_key="data")
    assert read == {"one": "one" + "_" * 48, "two": "two" + "_" * 48}


def test_a_dictionary_that_another_thread_fills_anew() -> None:
    """float64 arrays, whose conversion lets other threads run."""
    one, two = tg.MLCTensor(shape=[4000, 64]), tg.MLCTensor(shape=[4000, 64])
    graph = tg.MLCGraph()
    graph.node(tg.MLCArithmeticLayer(operation="add"), sources=[one, two])
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({made("one"): one, made("two"): two})
    inference.compile(device="cpu")
    data: dict[str, Any] = {}
    done = threading.Event()

    def fill() -> None:
        while not done.is_set():
            data.clear()
            for name in ("one", "two"):
                data[made(name)] = np.ones((4000, 64))
            _ = [f"{k}" + "_" * 50 for k in range(200)]
            time.sleep(0.0002)

    thread = threading.Thread(target=fill)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread.start()
    came, end = Counter[str](), time.monotonic() + 2
    try:
        while time.monotonic() < end:
            try:
                result = inference.execute(inputs_data=data, options="synchronous").result
                came["right" if (result == 2).all() else "wrong"] += 1
            except tg.InvalidArgument as error:
                came["but none was given" if "but none was given" in str(error) else "wrong"] += 1
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(interval)
    assert came["right"] > 0, came
    assert not came["wrong"], came
