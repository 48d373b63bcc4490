"""Building, declaring, compiling and inspecting graphs."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import traingraph
from traingraph import (
    MLCActivationLayer,
    MLCArithmeticLayer,
    MLCConvolutionDescriptor,
    MLCDevice,
    MLCDeviceType,
    MLCFullyConnectedLayer,
    MLCGraph,
    MLCInferenceGraph,
    MLCLossLayer,
    MLCSGDOptimizer,
    MLCTensor,
    MLCTensorParameter,
    MLCTrainingGraph,
    nn,
    sequential,
)

Make = Callable[..., Any]


def dense(inputs: int, outputs: int) -> MLCFullyConnectedLayer:
    return MLCFullyConnectedLayer(
        descriptor=MLCConvolutionDescriptor(
            kernel_sizes=(inputs, outputs),
            input_feature_channel_count=inputs,
            output_feature_channel_count=outputs,
        )
    )


def test_nodes() -> None:
    graph = MLCGraph()
    x, y = MLCTensor(shape=[2, 3]), MLCTensor(shape=[2, 3])
    add = MLCArithmeticLayer(operation="add")
    total = graph.node(add, sources=[x, y])
    relu = MLCActivationLayer.relu()
    result = graph.node(relu, source=total)
    assert graph.layers == [add, relu]
    assert type(graph.layers[1]) is MLCActivationLayer
    assert graph.source_tensors(add) == [x, y]
    assert graph.result_tensors(relu) == [result]
    assert graph.source_tensors(layer=MLCActivationLayer.relu()) == []
    assert graph.device is None
    assert graph == graph
    assert graph != MLCGraph()
    assert hash(graph) == hash(graph)


def test_forms_of_node() -> None:
    graph = MLCGraph()
    x = MLCTensor(shape=[2, 3])
    graph.node(dense(3, 3), sources=[x], disable_update=True)
    graph.node(
        MLCLossLayer.mean_squared_error("mean"), sources=[x], loss_labels=[MLCTensor(shape=[2, 3])]
    )
    with pytest.raises(TypeError, match="keywords after the first argument"):
        graph.node(MLCActivationLayer.relu(), x)
    with pytest.raises(TypeError, match="no form takes"):
        graph.node(MLCActivationLayer.relu(), source=x, sources=[x])
    with pytest.raises(TypeError, match=r"sources: .* but got '[\w.]*MLCTensor'"):
        graph.node(MLCActivationLayer.relu(), sources=x)


def test_mistakes_show_at_the_node() -> None:
    graph = MLCGraph()
    x = MLCTensor(shape=[2, 3])
    layer = dense(4, 1)
    layer.label = "head"
    with pytest.raises(ValueError, match="head"):
        graph.node(layer, source=x)
    with pytest.raises(ValueError, match="source"):
        graph.node(MLCActivationLayer.relu(), sources=[x, x])


def test_a_layer_belongs_to_one_graph() -> None:
    x = MLCTensor(shape=[2, 3])
    relu = MLCActivationLayer.relu()
    owner = MLCGraph()
    owner.node(relu, source=x)
    with pytest.raises(ValueError, match="graph"):
        MLCGraph().node(relu, source=x)


def test_shape_methods() -> None:
    graph = MLCGraph()
    x = MLCTensor(shape=[2, 3])
    assert graph.concatenate([x, x], dimension=1).descriptor.shape == [2, 6]
    assert graph.reshape((3, 2), source=x).descriptor.shape == [3, 2]
    assert graph.transpose(dimensions=[1, 0], source=x).descriptor.shape == [3, 2]
    with pytest.raises(ValueError, match=r"6|7"):
        graph.reshape([7], source=x)


def test_sequential() -> None:
    graph = MLCGraph()
    x = MLCTensor(shape=[2, 3])
    result = sequential(graph, x, [dense(3, 4), MLCActivationLayer.relu(), dense(4, 1)])
    assert result.descriptor.shape == [2, 1]
    assert len(graph.layers) == 3
    assert sequential(graph, x, []) == x


def test_inspection(regression: Make) -> None:
    r = regression()
    r.layer.label = "head"
    assert "head" in r.graph.summary()
    assert "head" in r.training.summary()
    assert r.graph.summarized_dot_description.startswith("digraph")
    assert repr(r.graph).startswith("<MLCGraph of 1 layers on cpu")
    assert repr(r.training).startswith("<MLCTrainingGraph of ")
    assert r.training.device == MLCDevice.cpu()
    assert r.layer.device_type is MLCDeviceType.CPU
    assert r.training.device_memory_size > 0
    plan = r.training.memory_plan()
    assert plan.total_bytes == plan.arena_bytes + plan.persistent_bytes + plan.staging_bytes
    assert plan.entries
    assert {entry.kind for entry in plan.entries} <= {
        "bound", "persistent", "saved", "gradient", "exchange", "transient", "workspace",
    }  # fmt: skip
    assert len(str(plan).splitlines()) > 1
    assert len(r.training.compiled_description().splitlines()) > 3
    assert r.training.optimizer is not None


def test_declarations_answer_true(regression: Make) -> None:
    r = regression()
    assert r.training.add_outputs({}) is True
    assert r.training.stop_gradient([r.x]) is True
    assert r.training.set_training_tensor_parameters([MLCTensorParameter(tensor=r.biases)]) is True
    assert r.training.compile_optimizer(MLCSGDOptimizer(learning_rate=0.1)) is True
    assert r.training.compile(options="disable_layer_fusion", device=MLCDevice.reference()) is True
    with pytest.raises(TypeError, match="MLCTensor values"):
        r.training.add_inputs({"x": 3})
    with pytest.raises(TypeError, match="a dict of names"):
        r.training.add_inputs([r.x])


def test_constants() -> None:
    x, c = MLCTensor(shape=[2]), MLCTensor(shape=[2])
    graph = MLCGraph()
    graph.node(MLCArithmeticLayer(operation="add"), sources=[x, c])
    inference = MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    inference.compile(
        device="cpu",
        input_tensors={"c": c},
        input_tensors_data={"c": np.array([1, 2], np.float32)},
    )
    result = inference.execute(inputs_data={"x": np.ones(2, np.float32)}).result
    assert result.tolist() == [2, 3]


def test_optimizer_data(regression: Make) -> None:
    r = regression(MLCSGDOptimizer(learning_rate=0.01, momentum_scale=0.9))
    r.step(options="synchronous")
    r.weights.synchronize_optimizer_data()
    (velocity,) = r.weights.optimizer_data
    assert velocity.shape == (1, 1)
    assert velocity.item() == pytest.approx(-0.29, rel=1e-5)
    (twin,) = r.weights.optimizer_device_data
    assert type(twin.copy()) is traingraph.MLCTensorOptimizerDeviceData
    assert r.training.bind_optimizer_data(
        [np.zeros((1, 1), np.float32)], device_data=[twin], tensor=r.weights
    )
    assert r.weights.bind_optimizer_data([np.zeros((1, 1), np.float32)])
    r.weights.bind_optimizer_data([np.zeros((1, 1), np.float32)] * 2)
    with pytest.raises(ValueError, match="expected optimizer data for 1 buffer"):
        r.step(options="synchronous")


def test_a_copy_has_the_optimizer_data_of_the_host(regression: Make) -> None:
    r = regression(MLCSGDOptimizer(learning_rate=0.01, momentum_scale=0.9))
    r.step(options="synchronous")
    r.weights.synchronize_optimizer_data()
    other = r.weights.copy()
    assert other.device is None
    assert other.optimizer_device_data == []
    assert other.optimizer_data[0].item() == pytest.approx(-0.29, rel=1e-5)
    r.step(options="synchronous")
    assert other.optimizer_data[0].item() != r.weights.optimizer_data[0].item()


def test_tensors_know_where_they_were_compiled_for(regression: Make) -> None:
    r = regression(device="reference")
    for tensor in (r.x, r.y, r.result, r.weights, r.biases):
        assert tensor.device == MLCDevice.reference()
    data = {"for_inputs": {"x": r.x}, "data": {"x": r.data["x"]}}
    assert r.training.bind_and_write_data(**data, to="reference")
    with pytest.raises(ValueError, match=r"compiled for, .*, but got"):
        r.training.bind_and_write_data(**data, to="cpu")


def test_summary_shows_every_result() -> None:
    graph = MLCGraph()
    graph.split(MLCTensor(shape=[2, 5]), split_count=2, dimension=1)
    assert re.search(r"Split 2 dimension 1 .* \(2, 3\) \(2, 2\) +0\n", graph.summary())
    assert len(graph.result_tensors(graph.layers[0])) == 2


def test_columns_of_a_summary_stay_apart() -> None:
    graph = MLCGraph()
    layer = MLCActivationLayer.relu()
    layer.label = "a name that is longer than the column of layers is wide"
    graph.node(layer, source=MLCTensor(shape=[1, 10000, 10000, 1000]))
    assert re.search(r" 'a name .* is wide'  \(1, 10000, 10000, 1000\)  0\n", graph.summary())


def test_columns_of_tables_count_characters() -> None:
    model = nn.model([nn.dense(4), "relu", nn.dense(3)], input=2)
    model.layers[0].label = "größe → höhe"
    model.compile(device="cpu")
    head, *rows, _ = model.summary().splitlines()
    assert any("→" in row for row in rows)
    assert any("größe" in row for row in rows)
    for row in rows:
        assert row[: head.index("result")].endswith("  ")
        assert row[head.index("result")] == "("
        assert row[head.index("parameters") - 1] == " "
        assert row[head.index("parameters") :].isdigit()
    plan = str(model.memory_plan()).splitlines()
    assert any("größe" in row for row in plan)
    assert len({len(row) for row in plan}) == 1
    run = model.execute(
        inputs_data={"x": np.ones((32, 2), np.float32)},
        loss_labels_data={"y": np.zeros(32, np.int32)},
        options="synchronous|per_layer_profiling",
    )
    table = run.profile.table().splitlines()
    assert any("größe" in row for row in table)
    assert len({len(row) for row in table}) == 1


def test_layers_without_a_loss_are_a_calculator() -> None:
    x = MLCTensor(shape=[1, 2, 2])
    graph = MLCGraph()
    square = graph.node(
        traingraph.MLCMatMulLayer(descriptor=traingraph.MLCMatMulDescriptor()), sources=[x, x]
    )
    one = MLCTensor(shape=[1, 2, 2], fill_with_data=1.0)
    graph.node(MLCArithmeticLayer(operation="add"), sources=[square, one])
    training = MLCTrainingGraph(graph_objects=[graph])
    training.add_inputs({"x": x})
    training.compile(device="cpu")
    training.bind_and_write_data(
        {"x": np.array([[[1, 2], [3, 4]]], np.float32)}, for_inputs={"x": x}
    )
    result = training.execute_forward().result
    assert result.reshape(2, 2).tolist() == [[8, 11], [16, 23]]
