"""Steps in flight, handlers that call back, released graphs, threads over shared tensors.

Thread sanitizer runs over these tests too: docs/testing.md says how.
"""

import gc
import threading
from typing import Any

import numpy as np
import pytest
from networks import Network

import traingraph as tg


def compiled(dtype: str = "float64", device: str = "reference") -> tuple[Network, Any]:
    network = Network(dtype)
    training = network.training(tg.MLCSGDOptimizer(learning_rate=0.1))
    training.compile(device=device)
    return network, training


def step(network: Network, training: Any, **keywords: Any) -> Any:
    return training.execute(inputs_data=network.data, loss_labels_data=network.labels, **keywords)


def weights_after(count: int) -> np.ndarray:
    network, training = compiled()
    for _ in range(count):
        step(network, training, options="synchronous")
    training.synchronize_updates()
    return network.parameters()[0]


def test_steps_in_flight_run_in_order() -> None:
    network, training = compiled()
    order: list[int] = []
    losses: list[float] = []

    def handler(number: int) -> Any:
        def call(tensor: Any, error: Any, seconds: float) -> None:
            order.append(number)
            losses.append(float(tensor.data.item()))

        return call

    handles = [step(network, training, completion_handler=handler(k)) for k in range(50)]
    handles[-1].wait()
    assert order == list(range(50))
    assert losses == sorted(losses, reverse=True)
    training.synchronize_updates()
    np.testing.assert_array_equal(network.parameters()[0], weights_after(50))


def test_a_handler_may_execute_the_graph() -> None:
    network, training = compiled()
    seen: list[int] = []

    def again(tensor: Any, error: Any, seconds: float) -> None:
        assert error is None
        seen.append(len(seen))
        if len(seen) < 5:
            step(network, training, options="synchronous", completion_handler=again)

    step(network, training, completion_handler=again).wait()
    assert seen == [0, 1, 2, 3, 4]
    training.synchronize_updates()
    np.testing.assert_array_equal(network.parameters()[0], weights_after(5))


def test_a_handler_may_submit_and_compile() -> None:
    """An inference graph over the same weights, compiled and run inside a handler."""
    network, training = compiled()
    results: list[np.ndarray] = []

    def infer(tensor: Any, error: Any, seconds: float) -> None:
        inference = tg.MLCInferenceGraph(graph_objects=[network.graph])
        inference.add_inputs({"x": network.x})
        inference.compile(device="reference")
        results.append(inference.execute(inputs_data=network.data, options="synchronous").result)

    handle = step(network, training, completion_handler=infer)
    step(network, training).wait()
    handle.wait()
    w1, b1, w2, b2 = (np.asarray(p) for p in weights_and_biases(1))
    expected = np.tanh(network.data["x"] @ w1.T + b1) @ w2.T + b2
    np.testing.assert_allclose(results[0], expected, atol=1e-13)


def weights_and_biases(count: int) -> list[np.ndarray]:
    network, training = compiled()
    for _ in range(count):
        step(network, training, options="synchronous")
    training.synchronize_updates()
    return network.parameters()


@pytest.mark.parametrize("waits", [False, True])
def test_releasing_a_graph_with_work_in_flight(waits: bool) -> None:
    done = threading.Event()
    network, training = compiled()
    handle = None
    for k in range(100):
        last = k == 99
        handle = step(
            network,
            training,
            completion_handler=(lambda t, e, s: done.set()) if last else None,
        )
    weights = network.fc1.weights
    del training, network
    gc.collect()
    if waits:
        handle.wait()
    assert done.wait(60)
    weights.synchronize_data()
    np.testing.assert_array_equal(weights.data, weights_after(100))


def test_two_graphs_over_shared_tensors_from_two_threads() -> None:
    """Every step of either graph is whole: their updates add up, in some order."""
    network = Network()
    graphs = []
    for _ in range(2):
        training = network.training(tg.MLCSGDOptimizer(learning_rate=0.0))
        training.compile(device="reference")
        graphs.append(training)
    losses: list[float] = []
    errors: list[BaseException] = []

    def drive(training: Any) -> None:
        try:
            for k in range(100):
                handle = step(network, training, options="synchronous" if k % 2 else "none")
                losses.append(float(handle.result))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=drive, args=(graph,)) for graph in graphs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(losses) == 200
    assert len(set(losses)) == 1  # at a learning rate of 0 each step sees the same weights


def test_training_and_inference_from_two_threads() -> None:
    network, training = compiled()
    inference = tg.MLCInferenceGraph(graph_objects=[network.graph])
    inference.add_inputs({"x": network.x})
    inference.compile(device="reference")
    trajectory = {float(np.round(v, 12)) for v in first_results(60)}
    seen: list[float] = []

    def read() -> None:
        for _ in range(60):
            result = inference.execute(inputs_data=network.data, options="synchronous").result
            seen.append(float(np.round(result[0, 0], 12)))

    thread = threading.Thread(target=read)
    thread.start()
    for _ in range(60):
        step(network, training)
    thread.join()
    assert set(seen) <= trajectory  # never between two updates


def first_results(count: int) -> list[float]:
    """The first element of the result with the weights after 0, 1, … steps."""
    network, training = compiled()
    inference = tg.MLCInferenceGraph(graph_objects=[network.graph])
    inference.add_inputs({"x": network.x})
    inference.compile(device="reference")
    values = []
    for _ in range(count + 1):
        result = inference.execute(inputs_data=network.data, options="synchronous").result
        values.append(float(result[0, 0]))
        step(network, training, options="synchronous")
    return values


def test_reading_while_steps_are_in_flight() -> None:
    network, training = compiled()
    for _ in range(20):
        step(network, training)
    gradient = training.gradient_tensor(network.h1)
    with pytest.raises(ValueError, match="is not computed"):
        gradient.copy_data_from_device_memory(np.zeros((6, 4)))
    out = np.zeros((6, 3))
    network.result.copy_data_from_device_memory(out)  # waits for all of them
    assert np.isfinite(out).all()
    training.synchronize_updates()
    np.testing.assert_array_equal(network.parameters()[0], weights_after(20))


@pytest.mark.parametrize(("count", "steps"), [(2, 300), (4, 1500)])
def test_graphs_that_share_an_optimizer_count_every_update(count: int, steps: int) -> None:
    """Without waiting for each other: every thread has a graph and an order of work of its own."""
    optimizer = tg.MLCAdamOptimizer(learning_rate=0.001)
    networks = [Network("float64") for _ in range(count)]
    trainings = [network.training(optimizer) for network in networks]
    for training in trainings:
        training.compile(device="reference")

    def train(network: Network, training: Any) -> None:
        for _ in range(steps):
            step(network, training, options="synchronous")

    threads = [
        threading.Thread(target=train, args=pair) for pair in zip(networks, trainings, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert optimizer.time_step == 1 + steps * count
