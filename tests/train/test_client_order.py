"""What clients rely on about asynchronous executions, and about processes that fork."""

import multiprocessing
import resource
import threading
from collections.abc import Callable

import numpy as np
from client_networks import inference_of, sgd
from linear_regression import LinearRegression

import traingraph as tg


def test_row_07_handlers_run_in_submission_order() -> None:
    network = LinearRegression(sgd(0.05), "cpu", "float32")
    expected = LinearRegression(sgd(0.05), "cpu", "float32")
    losses: list[tuple[int, float]] = []
    inference = inference_of(network.graph, x=network.x)
    released = threading.Event()

    def handler(number: int) -> Callable[..., None]:
        def record(result: tg.MLCTensor, error: Exception | None, seconds: float) -> None:
            if number == 0:
                released.wait(10)  # so that the others are really in flight
            losses.append((number, result.data.item()))

        return record

    handles = [
        network.training.execute(completion_handler=handler(k), **network.arguments())
        for k in range(20)
    ]
    # Submitted behind the steps, so it sees all of them.
    after = inference.execute(inputs_data={"x": np.ones((4, 1), np.float32)})
    assert not losses
    released.set()
    predicted = after.result
    assert losses == [(k, float(expected.step())) for k in range(20)]
    weight, bias = expected.parameters()
    np.testing.assert_allclose(predicted, weight + bias, rtol=1e-6)
    assert [float(handle.result) for handle in handles] == [loss for _, loss in losses]


def test_row_07_a_handler_reads_the_weights_of_its_own_step() -> None:
    network = LinearRegression(sgd(0.05), "cpu", "float32")
    expected = LinearRegression(sgd(0.05), "cpu", "float32")
    seen: list[tuple[float, float]] = []
    started = threading.Event()

    def handler(result: tg.MLCTensor, error: Exception | None, seconds: float) -> None:
        if not seen:
            started.wait(10)  # so that the others are really in flight
        values = np.zeros(1, np.float32), np.zeros(1, np.float32)
        for tensor, value in zip(
            (network.layer.weights, network.layer.biases), values, strict=True
        ):
            tensor.copy_data_from_device_memory(value, synchronize_with_device=False)
        seen.append((values[0].item(), values[1].item()))

    handles = [
        network.training.execute(completion_handler=handler, **network.arguments())
        for _ in range(10)
    ]
    started.set()
    handles[-1].wait()
    for weight, bias in seen:
        expected.step()
        assert (weight, bias) == expected.parameters()
    assert len(seen) == 10


def child(network: LinearRegression, answer: "multiprocessing.Queue[str]") -> None:
    try:
        network.step()
        answer.put("trained")
    except RuntimeError as error:
        answer.put(f"{type(error).__name__}: {error}")


def test_a_forked_child_says_so_instead_of_hanging() -> None:
    network = LinearRegression(sgd(), "cpu", "float32")
    network.step()
    context = multiprocessing.get_context("fork")
    answer: multiprocessing.Queue[str] = context.Queue()
    process = context.Process(target=child, args=(network, answer))
    process.start()
    text = answer.get(timeout=30)
    process.join(30)
    assert text.startswith("DeviceError: ")
    assert "spawn" in text
    network.step()  # the parent goes on
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss > 0
