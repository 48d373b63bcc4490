"""A step writes no constants: gradients of what moves or picks elements read nothing but dy, and
what a kernel does read is written when the graph is compiled."""

import re

import numpy as np
import pytest

import traingraph as tg
from harness import everywhere

ROWS, WIDTH = 4, 6


def add(graph, *sources):
    return graph.node(tg.MLCArithmeticLayer(operation="add"), sources=list(sources))


def whole_split(graph, x):
    parts = graph.split(x, split_count=2, dimension=1)
    return graph.concatenate(parts[::-1], dimension=1)


def split_with_an_unread_part(graph, x):
    read = graph.split(x, split_section_lengths=[1, 3, 2], dimension=1)[1]
    return graph.node(tg.MLCActivationLayer.tanh(), source=read)


def part_read_twice(graph, x):
    first, second = graph.split(x, split_count=2, dimension=1)
    return graph.concatenate([add(graph, first, second), first], dimension=1)


def embedding(graph, x):
    indices = tg.MLCTensor(data=np.array([1, 3, 1, 0]))
    return graph.gather(0, source=x, indices=indices)


def elements(graph, x):
    indices = tg.MLCTensor(data=np.array([[1, 0, 1], [2, 2, 3], [0, 1, 2], [5, 4, 4]]))
    return graph.gather(1, source=x, indices=indices)


def selection(graph, x):
    condition = tg.MLCTensor(data=np.arange(WIDTH) % 2 == 0)
    return graph.select(sources=[x, add(graph, x, x)], condition=condition)


NETWORKS = [whole_split, split_with_an_unread_part, part_read_twice, embedding, elements, selection]


@everywhere
@pytest.mark.parametrize("network", NETWORKS)
def test_a_step_writes_no_constants(network, device):
    x = tg.MLCTensor(data=np.ones((ROWS, WIDTH), np.float32))
    graph = tg.MLCGraph()
    result = network(graph, x)
    label = tg.MLCTensor(shape=list(result.descriptor.shape))
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=0.1),
    )
    training.set_training_tensor_parameters([tg.MLCTensorParameter(tensor=x)])
    training.add_inputs({}, loss_labels={"label": label})
    training.compile(device=device)
    text = training.compiled_description()
    assert "gradient:" in text
    assert re.findall(r"^.* = elementwise\(\).*$", text, re.M) == []


@everywhere
def test_constants_that_kernels_read_are_written_once(device):
    """The gradient of each loss, and gamma and beta of a batch norm that has none."""
    x = tg.MLCTensor(shape=[ROWS, 3, 2, 2])
    tensors = [tg.MLCTensor(data=np.ones((1, 3, 1, 1), np.float32) * k) for k in (0, 1)]
    layer = tg.MLCBatchNormalizationLayer(
        feature_channel_count=3, mean=tensors[0], variance=tensors[1], beta=None, gamma=None,
        variance_epsilon=1e-5, momentum=0.9,
    )  # fmt: skip
    graph = tg.MLCGraph()
    scores = graph.reshape(shape=[ROWS, 12], source=graph.node(layer, source=x))
    scores = graph.node(tg.MLCActivationLayer.tanh(), source=scores)
    label = tg.MLCTensor(shape=[ROWS], data_type="int64")
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.softmax_cross_entropy(reduction_type="mean"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=0.1),
    )
    training.add_inputs({"x": x}, loss_labels={"label": label})
    training.compile(options="compute_all_gradients", device=device)
    text = training.compiled_description()
    assert re.findall(r"^.* = elementwise\(\).*$", text, re.M) == []
    constants = re.findall(r"^constant %\d+ float32 \((?:N=)?(\d+)", text, re.M)
    assert sorted(map(int, constants)) == [3, 3, ROWS]
    held = [entry for entry in training.memory_plan().entries if "constant" in entry.name]
    assert [entry.kind for entry in held] == ["persistent"] * 3
    rng = np.random.default_rng(4)
    for rows in (ROWS, 2, ROWS):  # each batch size has its own
        data = rng.normal(size=(rows, 3, 2, 2)).astype(np.float32)
        training.execute(
            inputs_data={"x": data}, batch_size=rows, options="synchronous",
            loss_labels_data={"label": np.arange(rows)},
        )  # fmt: skip
        found = np.empty((ROWS, 3, 2, 2), np.float32)
        training.gradient_tensor(x).copy_data_from_device_memory(found)
        mean, variance = data.mean((0, 2, 3), keepdims=True), data.var((0, 2, 3), keepdims=True)
        bent = np.tanh((data - mean) / np.sqrt(variance + 1e-5)).reshape(rows, 12)
        share = np.exp(bent) / np.exp(bent).sum(1, keepdims=True)
        dy = (1 - bent**2) * (share - np.eye(12)[np.arange(rows)]) / rows
        dy, y = dy.reshape(data.shape), (data - mean) / np.sqrt(variance + 1e-5)
        centred = dy - dy.mean((0, 2, 3), keepdims=True)
        expected = (centred - y * (dy * y).mean((0, 2, 3), keepdims=True)) / np.sqrt(
            variance + 1e-5
        )
        np.testing.assert_allclose(found[:rows], expected, rtol=1e-3, atol=1e-6)
