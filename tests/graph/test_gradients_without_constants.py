"""A step writes no constants: gradients of what moves or picks elements read nothing but dy."""

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
