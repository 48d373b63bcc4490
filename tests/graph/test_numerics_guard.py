"""CHECK_NUMERICS: stops at the first NaN or infinity, before anything is updated."""

import contextlib
from typing import Any

import numpy as np
import pytest
from networks import Network

import traingraph as tg

DEVICES = [("reference", "float64"), ("cpu", "float32")]
CHECKED = "synchronous|check_numerics"


def compiled(device: str, dtype: str) -> tuple[Network, Any]:
    network = Network(dtype)
    network.fc1.label = "first"
    training = network.training(tg.MLCAdamOptimizer(learning_rate=0.01))
    training.compile(device=device)
    return network, training


def step(network: Network, training: Any, options: str = CHECKED) -> Any:
    return training.execute(
        inputs_data=network.data, loss_labels_data=network.labels, options=options
    )


@pytest.mark.parametrize(("device", "dtype"), DEVICES)
def test_a_clean_run_is_the_same(device: str, dtype: str) -> None:
    results = []
    for options in ("synchronous", CHECKED):
        network, training = compiled(device, dtype)
        for _ in range(5):
            step(network, training, options)
        training.synchronize_updates()
        results.append(network.parameters())
    for mine, theirs in zip(*results, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("device", "dtype"), DEVICES)
def test_bad_input_is_named(device: str, dtype: str, bad: float) -> None:
    network, training = compiled(device, dtype)
    step(network, training)
    training.synchronize_updates()
    before = network.parameters()
    good = network.data["x"].copy()
    network.data["x"][2, 3] = bad
    kind = "NaN" if np.isnan(bad) else "infinity"
    with pytest.raises(
        tg.NumericError,
        match=rf"'x', as it was given, has {kind} at element 13 of \(6, 5\) "
        r"in the forward phase of step 2",
    ):
        step(network, training)
    training.synchronize_updates()
    for mine, theirs in zip(network.parameters(), before, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    network.data["x"] = good
    step(network, training)  # and the graph goes on


def separately(network: Network, training: Any) -> None:
    """The three passes of a step, submitted before the first of them is known to have failed."""
    network.feed(training)
    handles = [training.execute_forward(options="check_numerics")]
    try:
        # One by one: where the second call raises, the first one's handle is there.
        for call in (training.execute_gradient, training.execute_optimizer_update):
            handles.append(call())
    finally:
        # A failure that nobody has seen would be raised by the next call.
        with contextlib.ExitStack() as all_of_them:
            for handle in handles:
                all_of_them.callback(handle.wait)


@pytest.mark.parametrize("run", [step, separately])
@pytest.mark.parametrize(("device", "dtype"), DEVICES)
def test_a_failed_step_leaves_no_trace(device: str, dtype: str, run: Any) -> None:
    """Weights, moments and the optimizer's count are those of a run without it, bit by bit."""
    found = []
    for bad in ({}, {0}, {1, 2}):
        network, training = compiled(device, dtype)
        good = network.data["x"]
        for number in range(4):
            if number in bad:
                network.data["x"] = np.full_like(good, np.nan)
                with pytest.raises((tg.NumericError, ValueError)):
                    run(network, training)
                network.data["x"] = good
            run(network, training)
        training.synchronize_updates()
        weights = [p for layer in (network.fc1, network.fc2) for p in (layer.weights, layer.biases)]
        moments = [np.array(m) for weight in weights for m in weight.optimizer_data]
        found.append([training.optimizer.time_step, *network.parameters(), *moments])
    assert len(found[0]) == 1 + 4 + 8
    for other in found[1:]:
        for mine, theirs in zip(other, found[0], strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize(("device", "dtype"), DEVICES)
def test_overflow_in_a_layer_is_named(device: str, dtype: str) -> None:
    network, training = compiled(device, dtype)
    huge = np.full((4, 5), np.finfo(dtype).max / 2, dtype)
    network.fc1.weights.bind_and_write_data(huge)
    network.data["x"][:] = 3
    with pytest.raises(tg.NumericError, match=r"at layer \d+ 'first' in the forward phase of"):
        step(network, training)
    assert issubclass(tg.NumericError, FloatingPointError)
    assert issubclass(tg.NumericError, tg.Error)


def test_a_gradient_that_overflows() -> None:
    """The forward pass is fine, its gradient is not; weights and moments stay."""
    x = tg.MLCTensor(shape=[1, 1], data_type="float64")
    w = tg.MLCTensor(data=np.full((1, 1), 1e-200))
    layer = tg.MLCFullyConnectedLayer(
        weights=w,
        descriptor=tg.MLCConvolutionDescriptor(
            kernel_sizes=(1, 1), input_feature_channel_count=1, output_feature_channel_count=1
        ),
    )
    layer.label = "tiny"
    graph = tg.MLCGraph()
    result = graph.node(layer, source=x)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph], optimizer=tg.MLCAdamOptimizer(learning_rate=0.1)
    )
    training.add_inputs({"x": x})
    gradient = training.allocate_user_gradient(result)
    training.compile(device="reference")
    training.bind_and_write_data({"x": np.full((1, 1), 1e200)}, for_inputs={"x": x})
    training.execute_forward(options=CHECKED)
    training.bind_and_write_data({"g": np.full((1, 1), 1e200)}, for_inputs={"g": gradient})
    with pytest.raises(tg.NumericError, match=r"gradient of tensor .* in the gradient phase"):
        training.execute_gradient(options=CHECKED)
    with pytest.raises(ValueError, match="expected execute_gradient before it"):
        training.execute_optimizer_update(options="synchronous")
    training.synchronize_updates()
    assert w.data.item() == 1e-200
    assert all(not moment.any() for moment in w.optimizer_data)


def test_queued_updates_do_not_follow_a_failure() -> None:
    network, training = compiled("reference", "float64")
    training.synchronize_updates()
    before = network.parameters()
    network.data["x"][0, 0] = np.nan
    network.feed(training)
    first = training.execute_forward(options="check_numerics")
    with pytest.raises(tg.NumericError):
        first.wait()
    network.data["x"][0, 0] = 0
    network.feed(training)
    seen: list[Any] = []
    network.data["x"][0, 0] = np.nan
    network.feed(training)
    handles = [training.execute_forward(options="check_numerics")]
    try:
        handles.append(training.execute_gradient())
        handles.append(
            training.execute_optimizer_update(
                completion_handler=lambda tensor, error, seconds: seen.append(error)
            )
        )
    except (ValueError, tg.NumericError):
        pass  # the failure was already known when they were submitted
    for handle in handles:
        with pytest.raises((tg.NumericError, ValueError)):
            handle.wait()
    assert all(seen)
    training.synchronize_updates()
    for mine, theirs in zip(network.parameters(), before, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_running_statistics_stay() -> None:
    x = tg.MLCTensor(shape=[4, 2, 3, 3])
    graph = tg.MLCGraph()
    norm = tg.MLCBatchNormalizationLayer(feature_channel_count=2)
    h = graph.node(norm, source=x)
    graph.node(tg.MLCArithmeticLayer(operation="divide"), sources=[h, h])
    y = tg.MLCTensor(shape=[4, 2, 3, 3])
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=0.1),
    )
    training.add_inputs({"x": x}, loss_labels={"y": y})
    training.compile(device="reference")
    training.synchronize_updates()
    before = np.array(norm.mean.data)
    with pytest.raises(tg.NumericError):  # 0 / 0 behind the normalization
        training.execute(
            inputs_data={"x": np.full((4, 2, 3, 3), 7, np.float32)},
            loss_labels_data={"y": np.zeros((4, 2, 3, 3), np.float32)},
            options=CHECKED,
        )
    training.synchronize_updates()
    np.testing.assert_array_equal(norm.mean.data, before)
