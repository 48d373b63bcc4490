"""Compilation options, compiling again, graphs made of several graph objects, the DOT picture."""

import re
import shutil
import subprocess
from typing import Any

import numpy as np
import pytest
from networks import Network, dense

import traingraph as tg


def fused_network(dtype: str = "float32") -> tuple[Any, Any, dict[str, Any]]:
    x = tg.MLCTensor(shape=[6, 5], data_type=dtype)
    y = tg.MLCTensor(shape=[6, 3], data_type=dtype)
    graph = tg.MLCGraph()
    tg.sequential(
        graph, x, [dense(4, 5, 1, dtype), tg.MLCActivationLayer.relu(), dense(3, 4, 3, dtype)]
    )
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=0.1),
    )
    training.add_inputs({"x": x}, loss_labels={"y": y})
    network = Network(dtype)
    arguments = {"inputs_data": network.data, "loss_labels_data": network.labels}
    return training, graph, arguments


@pytest.mark.parametrize("option", ["disable_layer_fusion", "debug_layers"])
def test_without_fusion_there_are_more_ops_and_the_same_numbers(option: str) -> None:
    lines, losses = {}, {}
    for options in ("none", option):
        training, _, arguments = fused_network()
        training.compile(options=options, device="cpu")
        lines[options] = training.compiled_description().count("\n")
        losses[options] = [
            float(training.execute(options="synchronous", **arguments).result) for _ in range(5)
        ]
    assert lines[option] > lines["none"]
    np.testing.assert_allclose(losses[option], losses["none"], rtol=1e-6)


def test_two_graph_objects_and_nodes_of_its_own() -> None:
    dtype = "float64"
    whole = Network(dtype)
    training = whole.training(tg.MLCSGDOptimizer(learning_rate=0.5))
    training.compile(device="reference")

    x = tg.MLCTensor(shape=[6, 5], data_type=dtype)
    y = tg.MLCTensor(shape=[6, 3], data_type=dtype)
    first, second = tg.MLCGraph(), tg.MLCGraph()
    fc1, fc2 = dense(4, 5, 1, dtype), dense(3, 4, 3, dtype)
    h1 = first.node(fc1, source=x)
    h2 = second.node(tg.MLCActivationLayer.tanh(), source=h1)
    # The order in which they are given does not matter.
    parts = tg.MLCTrainingGraph(
        graph_objects=[second, first], optimizer=tg.MLCSGDOptimizer(learning_rate=0.5)
    )
    result = parts.node(fc2, source=h2)
    loss = tg.MLCLossLayer.mean_squared_error(reduction_type="mean")
    parts.node(loss, sources=[result], loss_labels=[y])
    parts.add_inputs({"x": x}, loss_labels={"y": y})
    parts.compile(device="reference")
    assert parts.layers == [fc1, second.layers[0], fc2, loss]
    for _ in range(5):
        one, other = (
            graph.execute(
                inputs_data=whole.data, loss_labels_data=whole.labels, options="synchronous"
            ).result
            for graph in (training, parts)
        )
        assert float(one) == pytest.approx(float(other), rel=1e-13)


def test_compile_optimizer_after_the_graph() -> None:
    network = Network()
    training = network.training()
    training.compile(device="reference")
    with pytest.raises(ValueError, match="expected an optimizer"):
        training.execute_optimizer_update()
    optimizer = tg.MLCSGDOptimizer(learning_rate=0.1)
    assert training.compile_optimizer(optimizer)
    assert training.optimizer is optimizer
    before = network.parameters()[0]
    expected = before - 0.1 * network.gradients()["w1"]
    training.execute(
        inputs_data=network.data, loss_labels_data=network.labels, options="synchronous"
    )
    training.synchronize_updates()
    np.testing.assert_allclose(network.parameters()[0], expected, atol=1e-13)


def test_nodes_added_after_compile_count_at_the_next_execution() -> None:
    network = Network()
    training = network.training()
    training.compile(device="reference")
    arguments = {"inputs_data": network.data, "loss_labels_data": network.labels}
    before = float(training.execute(options="synchronous", **arguments).result)
    scaled = network.graph.node(
        tg.MLCActivationLayer.linear(scale=0.0, bias=0.0), source=network.result
    )
    after = float(training.execute(options="synchronous", **arguments).result)
    assert after != before
    assert after == pytest.approx((network.labels["y"] ** 2).mean())
    assert training.compile(device="reference")
    assert scaled.descriptor.shape == network.result.descriptor.shape


def test_device_memory_size_is_what_the_plan_says() -> None:
    network = Network()
    training = network.training(tg.MLCAdamOptimizer(learning_rate=0.1))
    assert training.device_memory_size == 0
    training.compile(device="reference")
    plan = training.memory_plan()
    assert training.device_memory_size == plan.arena_bytes > 0


DOT_LINE = re.compile(
    r'\s*(digraph \w+ \{|\}|\w+ \[(?:\w+=(?:\w+|"(?:[^"\\\n]|\\.)*")(?:, )?)+\];'
    r"|\w+ -> \w+(?: \[style=dashed\])?;)"
)


def dot_of(label: str = "") -> str:
    network = Network()
    network.fc1.label = label
    network.x.label = label or "x"
    training = network.training()
    training.stop_gradient([network.h2])
    return training.summarized_dot_description


@pytest.mark.parametrize("label", ["", 'a "b"', "back\\slash", "two\nlines", "ünï"])
def test_the_dot_picture_is_well_formed(label: str) -> None:
    text = dot_of(label)
    for line in text.splitlines():
        assert DOT_LINE.fullmatch(line), line


def test_the_dot_picture_shows_layers_shapes_and_stops() -> None:
    text = dot_of()
    assert text.count("shape=box") == 3
    assert "(6, 5)" in text
    assert text.count("style=dashed") == 1  # tanh's result, where fc2 reads it


@pytest.mark.skipif(shutil.which("dot") is None, reason="Graphviz is not installed")
def test_graphviz_draws_it() -> None:
    drawn = subprocess.run(
        ["dot", "-Tsvg"], input=dot_of('odd "label"\\'), capture_output=True, text=True, check=True
    )
    assert drawn.stderr == ""
    assert drawn.stdout.count("<polygon") >= 3
