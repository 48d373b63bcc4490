"""PROFILING and PER_LAYER_PROFILING."""

import json

import numpy as np
import pytest
from networks import Network

import traingraph as tg


def test_no_option_no_times() -> None:
    network = Network()
    training = network.training()
    training.compile(device="reference")
    network.feed(training)
    handle = training.execute_forward(options="synchronous")
    assert handle.profile is None
    seconds = []
    for options in ("synchronous", "synchronous|profiling"):
        training.execute_forward(
            options=options, completion_handler=lambda t, e, time: seconds.append(time)
        )
    assert seconds[0] == 0
    assert seconds[1] > 0


def test_a_profile_by_layer_and_phase() -> None:
    network = Network()
    network.fc1.label = "first"
    training = network.training(tg.MLCAdamOptimizer(learning_rate=0.01))
    training.compile(device="reference")
    handle = training.execute(
        inputs_data=network.data,
        loss_labels_data=network.labels,
        options="synchronous|per_layer_profiling",
    )
    profile = handle.profile
    assert {entry.phase for entry in profile.entries} == {"forward", "gradient", "update"}
    first = next(layer for layer in profile.layers if layer.layer.endswith("'first'"))
    assert min(first.forward, first.gradient, first.update) > 0
    assert first.seconds == pytest.approx(first.forward + first.gradient + first.update)
    assert "'first'" in profile.table()
    assert str(profile) == profile.table()
    starts = [entry.start for entry in profile.entries]
    assert starts == sorted(starts)
    trace = json.loads(profile.chrome_trace())["traceEvents"]
    assert len(trace) == len(profile.entries)
    assert trace[0]["args"]["layer"] == profile.entries[0].layer
    assert trace[-1]["ts"] == pytest.approx(profile.entries[-1].start * 1e6, abs=2e-3)


def test_odd_labels_are_valid_json() -> None:
    network = Network()
    network.fc1.label = 'a "quoted"\\ name\n'
    training = network.training()
    training.compile(device="reference")
    network.feed(training)
    profile = training.execute_forward(options="synchronous|per_layer_profiling").profile
    events = json.loads(profile.chrome_trace())["traceEvents"]
    assert any('a "quoted"\\ name\n' in event["args"]["layer"] for event in events)


def test_layers_sum_to_the_step() -> None:
    """For steps above 0.2 ms: the layers account for nine tenths of the time."""
    x = tg.MLCTensor(shape=[64, 256])
    y = tg.MLCTensor(shape=[64, 256])
    graph = tg.MLCGraph()
    layers = []
    for _ in range(4):
        layers += [
            tg.MLCFullyConnectedLayer(
                descriptor=tg.MLCConvolutionDescriptor(
                    kernel_sizes=(1, 1),
                    input_feature_channel_count=256,
                    output_feature_channel_count=256,
                )
            ),
            tg.MLCActivationLayer.relu(),
        ]
    tg.sequential(graph, x, layers)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
        optimizer=tg.MLCAdamOptimizer(learning_rate=1e-3),
    )
    training.add_inputs({"x": x}, loss_labels={"y": y})
    training.compile(device="cpu")
    zeros = np.zeros((64, 256), np.float32)
    shares = []
    for _ in range(20):
        profile = training.execute(
            inputs_data={"x": zeros},
            loss_labels_data={"y": zeros},
            options="synchronous|per_layer_profiling",
        ).profile
        assert profile.seconds > 0.0002
        shares.append(sum(layer.seconds for layer in profile.layers) / profile.seconds)
    assert 0.9 < np.median(shares) <= 1
