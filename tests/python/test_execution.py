"""Executions: handles, handlers, await, threads, errors."""

import asyncio
import gc
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from traingraph import (
    MLCAdamOptimizer,
    MLCConvolutionDescriptor,
    MLCDataType,
    MLCDevice,
    MLCExecution,
    MLCExecutionOptions,
    MLCFullyConnectedLayer,
    MLCGraph,
    MLCGraphCompilationOptions,
    MLCInferenceGraph,
    MLCLossDescriptor,
    MLCLossLayer,
    MLCLossType,
    MLCMatMulDescriptor,
    MLCMatMulLayer,
    MLCOptimizerDescriptor,
    MLCReductionType,
    MLCRegularizationType,
    MLCSGDOptimizer,
    MLCTensor,
    MLCTrainingGraph,
)

Make = Callable[..., Any]


def test_worked_example() -> None:
    x = MLCTensor(shape=[4, 1], data_type=MLCDataType.FLOAT32)
    y = MLCTensor(shape=[4, 1], data_type=MLCDataType.FLOAT32)
    w = MLCTensor(shape=[1, 1], data=np.zeros((1, 1), np.float32), data_type=MLCDataType.FLOAT32)
    b = MLCTensor(shape=[1, 1], data=np.zeros((1, 1), np.float32), data_type=MLCDataType.FLOAT32)
    fc = MLCFullyConnectedLayer(
        weights=w,
        biases=b,
        descriptor=MLCConvolutionDescriptor(
            kernel_sizes=(1, 1), input_feature_channel_count=1, output_feature_channel_count=1
        ),
    )
    graph = MLCGraph()
    graph.node(fc, source=x)
    training = MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=MLCLossLayer(
            descriptor=MLCLossDescriptor(
                type=MLCLossType.MEAN_SQUARED_ERROR, reduction_type=MLCReductionType.MEAN
            )
        ),
        optimizer=MLCAdamOptimizer(
            descriptor=MLCOptimizerDescriptor(
                learning_rate=0.3,
                gradient_rescale=1.0,
                regularization_type=MLCRegularizationType.NONE,
                regularization_scale=0.0,
            )
        ),
    )
    training.add_inputs({"x": x}, loss_labels={"y": y})
    training.compile(options=MLCGraphCompilationOptions.NONE, device=MLCDevice.cpu())
    data = {"x": np.arange(4, dtype=np.float32).reshape(4, 1)}
    labels = {"y": 2 * data["x"] + 5}
    for _ in range(500):
        training.execute(
            inputs_data=data,
            loss_labels_data=labels,
            batch_size=4,
            options=MLCExecutionOptions.SYNCHRONOUS,
        )
    training.synchronize_updates()
    assert w.data == pytest.approx(2, abs=1e-6)
    assert b.data == pytest.approx(5, abs=1e-6)


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_adam_trajectory(regression: Make, device: str) -> None:
    r = regression(MLCAdamOptimizer(learning_rate=0.3), device=device)
    losses = [float(r.step(options="synchronous").result) for _ in range(3)]
    assert losses == pytest.approx([69, 56.17500, 44.74454], rel=1e-5)
    r.training.synchronize_updates()


@pytest.mark.parametrize(
    ("device", "data_type", "bound"),
    [("cpu", "float32", 1e-5), ("reference", "float32", 1e-5), ("reference", "float64", 1e-7)],
)
def test_sgd_trajectory(regression: Make, device: str, data_type: str, bound: float) -> None:
    r = regression(MLCSGDOptimizer(learning_rate=0.05), device=device, data_type=data_type)
    losses = [float(r.step().result) for _ in range(3)]
    assert losses == pytest.approx([69, 25.62875, 10.9086969], rel=bound)
    r.training.synchronize_updates()
    for _ in range(7):
        r.step()
    r.training.synchronize_updates()
    assert r.weights.data.item() == pytest.approx(3.13869737, rel=bound)
    assert r.biases.data.item() == pytest.approx(2.52907391, rel=bound)


def test_handle(regression: Make) -> None:
    handle = regression().step()
    assert isinstance(handle, MLCExecution)
    assert bool(handle) is True
    assert handle.wait() is None
    assert isinstance(handle.result, np.float32)
    assert handle.result == 69
    assert repr(handle) == "<MLCExecution done>"


def test_result_without_reduction_is_an_array(regression: Make) -> None:
    result = regression(reduction="none").step().result
    assert result.size == 4
    assert result.sum() == pytest.approx(4 * 69)
    del result
    gc.collect()


def test_separate_passes(regression: Make) -> None:
    r = regression(MLCSGDOptimizer(learning_rate=0.05))
    t = r.training
    assert t.bind_and_write_data(
        r.data | r.labels, for_inputs={"x": r.x, "y": r.y}, to="cpu", batch_size=4
    )
    assert t.execute_forward(batch_size=4).result == pytest.approx(69)
    gradient = t.execute_gradient(batch_size=4)
    assert gradient.result is None
    slope = t.gradient_data(r.weights, layer=r.layer)
    assert slope.shape == (1, 1)
    assert slope.item() == pytest.approx(-29)
    assert t.gradient_data(for_parameter=r.biases, layer=r.layer).item() == pytest.approx(-16)
    assert t.execute_optimizer_update(options="synchronous").result is None
    t.synchronize_updates()
    assert r.weights.data.item() == pytest.approx(1.45)


def test_keywords_only(regression: Make) -> None:
    r = regression()
    with pytest.raises(TypeError, match=r"\[MLCTrainingGraph.execute\] expected keywords only"):
        r.training.execute(r.data)
    with pytest.raises(TypeError, match=r"keywords of inputs_data, .* but got input_data"):
        r.training.execute(input_data=r.data)
    with pytest.raises(TypeError, match="missing: inputs_data"):
        r.training.execute(loss_labels_data=r.labels)
    with pytest.raises(TypeError, match="but got inputs_data"):
        r.training.execute_forward(inputs_data=r.data)
    with pytest.raises(TypeError, match="but got batch_size"):
        r.training.execute_optimizer_update(batch_size=4)
    with pytest.raises(TypeError, match="expected batch_size: int"):
        r.step(batch_size="4")
    with pytest.raises(ValueError, match='"synchronous"'):
        r.step(options="sync")
    with pytest.raises(TypeError, match="completion_handler: a callable"):
        r.step(completion_handler=3)
    with pytest.raises(TypeError, match="keywords only"):
        r.training.compile(MLCDevice.cpu())
    unusual = {"".join(["batch", "_", "size"]): 4}  # not interned
    assert r.step(**unusual)


def test_handlers_run_in_order(regression: Make) -> None:
    r = regression(MLCSGDOptimizer(learning_rate=0.05))
    seen: list[tuple[float, Any, float]] = []

    def handler(result: MLCTensor, error: Any, seconds: float) -> None:
        seen.append((float(np.asarray(result).ravel()[0]), error, seconds))

    for _ in range(3):
        handle = r.step(completion_handler=handler)
    handle.wait()
    deadline = time.monotonic() + 10
    while len(seen) < 3 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert [loss for loss, _, _ in seen] == pytest.approx([69, 25.62875, 10.9086969])
    assert all(error is None and seconds == 0.0 for _, error, seconds in seen)


def test_profiling_gives_seconds(regression: Make) -> None:
    seconds: list[float] = []
    regression().step(
        options="synchronous|profiling", completion_handler=lambda *a: seconds.append(a[2])
    )
    assert len(seconds) == 1
    assert 0 < seconds[0] < 10


def test_exceptions_of_handlers_are_unraisable(
    regression: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    caught: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda u: caught.append(u.exc_value))

    def handler(*arguments: Any) -> None:
        raise KeyError("mine")

    assert regression().step(options="synchronous", completion_handler=handler).result == 69
    assert isinstance(caught[0], KeyError)


def test_await(regression: Make) -> None:
    r = regression(MLCSGDOptimizer(learning_rate=0.05))
    r.training.bind_and_write_data(r.data | r.labels, for_inputs={"x": r.x, "y": r.y}, batch_size=4)

    async def main() -> None:
        result, seconds = await r.training.execute_forward(batch_size=4)
        assert (float(result), seconds) == (69, 0.0)
        assert await r.training.execute_gradient(batch_size=4) == 0.0
        assert isinstance(await r.training.execute_optimizer_update(options="profiling"), float)
        handles = [r.step() for _ in range(3)]
        outcomes = await asyncio.gather(*handles)
        assert float(outcomes[0][0]) == pytest.approx(25.62875)
        again = await handles[0]
        assert float(again[0]) == pytest.approx(25.62875)

    asyncio.run(main())


def test_await_needs_a_loop(regression: Make) -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        regression().step().__await__()


def test_inference_shares_weights(regression: Make) -> None:
    r = regression(MLCSGDOptimizer(learning_rate=0.05))
    inference = MLCInferenceGraph(graph_objects=[r.graph])
    inference.add_inputs({"x": r.x})
    inference.compile(device="cpu")
    for _ in range(100):
        r.step()
    result = inference.execute(inputs_data=r.data).result
    np.testing.assert_allclose(result.ravel(), 2.07620341 * np.arange(4) + 4.83730254, rtol=1e-4)

    async def main() -> Any:
        return await inference.execute(inputs_data=r.data)

    awaited, _ = asyncio.run(main())
    np.testing.assert_array_equal(awaited, result)


def test_results_outlive_their_graph(regression: Make) -> None:
    r = regression(reduction="none")
    result = r.step().result
    expected = result.copy()
    del r
    gc.collect()
    np.testing.assert_array_equal(result, expected)


def test_arrays_in_flight_are_kept(regression: Make) -> None:
    r = regression()
    handles = [
        r.training.execute(
            inputs_data={"x": np.full((4, 1), 0.5, np.float32)},
            loss_labels_data={"y": np.full((4, 1), 0.5, np.float32)},
        )
        for _ in range(50)
    ]
    assert float(handles[0].result) == pytest.approx(0.25)
    handles[-1].wait()


def test_arrays_are_released(regression: Make) -> None:
    r = regression()
    array = r.data["x"]
    before = sys.getrefcount(array)
    for _ in range(20):
        r.step().wait()
    # The graph keeps the newest arrays, for SKIP_WRITING_INPUT_DATA_TO_DEVICE.
    assert sys.getrefcount(array) <= before + 1
    del r.training
    gc.collect()
    assert sys.getrefcount(array) == before


def test_the_gil_is_released() -> None:
    side = 1500
    x = MLCTensor(shape=[side, side])
    graph = MLCGraph()
    graph.node(MLCMatMulLayer(descriptor=MLCMatMulDescriptor()), sources=[x, x])
    inference = MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    inference.compile(device="cpu")
    data = {"x": np.ones((side, side), np.float32)}
    inference.execute(inputs_data=data, options="synchronous")
    running, counted = True, 0

    def count() -> None:
        nonlocal counted
        while running:
            counted += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    before = counted
    inference.execute(inputs_data=data, options="synchronous")
    during = counted - before
    running = False
    thread.join()
    assert during > 10


def test_many_threads_use_their_own_graphs(regression: Make) -> None:
    made = [regression(MLCSGDOptimizer(learning_rate=0.05)) for _ in range(4)]
    losses: list[list[float]] = [[] for _ in made]

    def train(index: int) -> None:
        for _ in range(50):
            losses[index].append(float(made[index].step().result))

    threads = [threading.Thread(target=train, args=(i,)) for i in range(len(made))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(one == losses[0] for one in losses)


def test_null_device_plans_and_computes_nothing(regression: Make) -> None:
    r = regression(device="null")
    assert r.step(options="synchronous").result == 0
    output = np.ones((4, 1), np.float32)
    r.step(outputs_data={"result": output}).wait()
    r.training.synchronize_updates()
    assert output.all()
    assert not r.weights.data.any()


def test_execution_before_compile() -> None:
    x = MLCTensor(shape=[1])
    graph = MLCInferenceGraph(graph_objects=[MLCGraph()])
    graph.add_inputs({"x": x})
    with pytest.raises(ValueError, match=r"compile|layer|empty"):
        graph.execute(inputs_data={"x": np.ones(1, np.float32)}, options="synchronous")
