"""Arrays that are given again: taken as they were where nothing of them has changed, else anew."""

import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import traingraph as tg

SIDE = 3


def difference(shape: tuple[int, ...] = (SIDE, SIDE)) -> tg.MLCInferenceGraph:
    """a - b, on a device of the host's memory."""
    a, b = (tg.MLCTensor(shape=list(shape)) for _ in range(2))
    graph = tg.MLCGraph()
    y = graph.node(tg.MLCArithmeticLayer(operation="subtract"), sources=[a, b])
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"a": a, "b": b})
    inference.add_outputs({"y": y})
    inference.compile(device="cpu")
    return inference


def run(inference: tg.MLCInferenceGraph, given: dict[str, Any], **more: Any) -> Any:
    return inference.execute(inputs_data=given, options="synchronous", **more).result


def numbers(offset: float = 0) -> np.ndarray:
    return np.arange(SIDE * SIDE, dtype=np.float32).reshape(SIDE, SIDE) + np.float32(offset)


def test_values_that_were_written_in_place() -> None:
    inference, a, b = difference(), numbers(), np.zeros((SIDE, SIDE), np.float32)
    for k in range(3):
        a[:] = k
        np.testing.assert_array_equal(run(inference, {"a": a, "b": b}), a)


def test_one_address_with_other_strides() -> None:
    inference, a, b = difference(), numbers(), numbers(1)
    for other in (a, a.T, a[::-1], a, np.lib.stride_tricks.as_strided(a, strides=(0, 4)), a):
        np.testing.assert_array_equal(run(inference, {"a": other, "b": b}), other - b)


def test_one_address_with_another_type() -> None:
    inference, a, b = difference(), numbers(), np.zeros((SIDE, SIDE), np.float32)
    for other in (a, a.view(np.int32), a, a.view(">f4")):
        expected = other.astype(np.float32)
        np.testing.assert_array_equal(run(inference, {"a": other, "b": b}), expected)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("attribute", ["shape", "strides", "dtype"])
def test_an_array_that_was_changed_in_place(attribute: str) -> None:
    inference, a, b = difference(), numbers(), np.zeros((SIDE, SIDE), np.float32)
    given = {"a": a, "b": b}
    run(inference, given)
    before = getattr(a, attribute)
    after = {"shape": (SIDE * SIDE,), "strides": (4, 4 * SIDE), "dtype": np.dtype(np.int32)}
    setattr(a, attribute, after[attribute])
    if attribute == "shape":
        with pytest.raises(ValueError, match=r"expected shape \(3, 3\) but got \(9,\)"):
            run(inference, given)
    else:
        np.testing.assert_array_equal(run(inference, given), a.astype(np.float32))
    setattr(a, attribute, before)
    np.testing.assert_array_equal(run(inference, given), numbers())


def test_other_arrays_under_the_same_names() -> None:
    inference, a, b = difference(), numbers(), numbers(5)
    for first, second in ((a, b), (b, a), (a, a), (a, b)):
        expected = first - second
        np.testing.assert_array_equal(run(inference, {"a": first, "b": second}), expected)
        np.testing.assert_array_equal(run(inference, {"b": second, "a": first}), expected)


def test_new_arrays_where_others_were() -> None:
    """An address, and an object's, is used again once what was there is gone."""
    inference, b = difference(), np.zeros((SIDE, SIDE), np.float32)
    for k in range(50):
        result = run(inference, {"a": np.full((SIDE, SIDE), k, np.float32), "b": b})
        np.testing.assert_array_equal(result, np.full((SIDE, SIDE), k, np.float32))


def test_another_graph_has_arrays_of_its_own() -> None:
    graphs, a, b = [difference(), difference()], numbers(), numbers(2)
    for k in range(4):
        run(graphs[k % 2], {"a": a, "b": b})
        np.testing.assert_array_equal(run(graphs[1 - k % 2], {"a": b, "b": a}), b - a)


def classifier() -> Callable[[np.ndarray], Any]:
    x, y = tg.MLCTensor(shape=[2, 3]), tg.MLCTensor(shape=[2], data_type="int32")
    graph = tg.MLCGraph()
    graph.node(tg.MLCActivationLayer.linear(scale=1.0, bias=0.0), source=x)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.softmax_cross_entropy(reduction_type="mean"),
    )
    training.add_inputs({"x": x}, loss_labels={"y": y})
    training.compile(device="cpu")
    data = np.zeros((2, 3), np.float32)
    return lambda labels: (
        training.execute(
            inputs_data={"x": data}, loss_labels_data={"y": labels}, options="synchronous"
        ).result
    )


def test_values_are_checked_at_every_call() -> None:
    step, labels = classifier(), np.array([0, 2], np.int32)
    before = step(labels)
    labels[1] = 3
    with pytest.raises(ValueError, match="from 0 to 2 or -1 but got 3"):
        step(labels)
    labels[1] = 2
    assert step(labels) == before


def test_what_belongs_to_one_call_is_let_go() -> None:
    inference, given = difference(), {"a": numbers(), "b": numbers(1)}

    class Handler:
        calls = 0

        def __call__(self, *_: Any) -> None:
            self.calls += 1

    handler, written = Handler(), np.zeros((SIDE, SIDE), np.float32)
    run(inference, given, outputs_data={"y": written}, completion_handler=handler)
    np.testing.assert_array_equal(written, given["a"] - given["b"])
    assert handler.calls == 1
    gone = [weakref.ref(handler), weakref.ref(written)]
    del handler, written
    gc.collect()
    assert [reference() for reference in gone] == [None, None]
    # Neither is asked for by the next call.
    np.testing.assert_array_equal(run(inference, given), given["a"] - given["b"])


def test_arrays_are_let_go_with_their_graph() -> None:
    inference, a = difference(), numbers()
    run(inference, {"a": a, "b": numbers(1)})
    gone = weakref.ref(a)
    del inference, a
    gc.collect()
    assert gone() is None


def test_a_conversion_that_calls_the_graph() -> None:
    inference, a, b = difference(), numbers(), numbers(4)

    class Calling:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            np.testing.assert_array_equal(run(inference, {"a": b, "b": a}), b - a)
            return a

    for _ in range(3):
        np.testing.assert_array_equal(run(inference, {"a": Calling(), "b": b}), a - b)


def test_threads_with_arrays_of_their_own() -> None:
    inference, wrong = difference((256,)), []

    def work(number: int) -> None:
        a, b = (np.full(256, number * scale, np.float32) for scale in (3, 1))
        wrong.extend(
            k for k in range(300) if not np.array_equal(run(inference, {"a": a, "b": b}), a - b)
        )

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
