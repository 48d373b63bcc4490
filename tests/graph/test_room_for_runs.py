"""The arena has room for the runs that were asked for: full steps need less than phases apart."""

import numpy as np
import pytest

import traingraph as tg
from small_layers import dense, regression

SHAPE = (256, 256)  # more bytes than a device keeps apart for the whole of a run
NOW = "synchronous"


def network(device, micro_batches=1):
    tg.MLCPlatform.set_rng_seed_to(5)
    graph = tg.MLCGraph()
    x = tg.MLCTensor(shape=list(SHAPE))
    h = x
    for _ in range(6):
        h = graph.node(dense(256, 256), source=h)
        h = graph.node(tg.MLCActivationLayer.tanh(), source=h)
    training = regression(graph, x, h)
    training.micro_batches = micro_batches
    training.compile(device=device)
    return training


def step(training):
    rng = np.random.default_rng(1)
    x, y = (rng.normal(size=SHAPE).astype("f4") for _ in range(2))
    data = {"inputs_data": {"x": x}, "loss_labels_data": {"y": y}}
    return training.execute(**data, options=NOW).result


def phases(training):
    """With the data of the step before."""
    result = training.execute_forward(options=NOW).result
    training.execute_gradient(options=NOW)
    training.execute_optimizer_update(options=NOW)
    return result


def room(training):
    assert training.memory_plan().arena_bytes == training.device_memory_size
    return training.device_memory_size


@pytest.mark.parametrize("device", ["cpu", "null"])
def test_phases_apart_ask_for_more_room_than_steps(device):
    training = network(device)
    for_steps = room(training)
    assert for_steps > 0
    step(training)
    assert room(training) == for_steps
    phases(training)
    for_phases = room(training)
    assert for_phases > for_steps
    step(training)
    assert room(training) == for_phases


@pytest.mark.parametrize("device", ["cpu"])
def test_results_are_the_same_where_the_arena_grows_on_the_way(device):
    apart, expected = network(device), network(device)
    losses = [step(apart), phases(apart), step(apart), phases(apart)]
    assert losses == [step(expected) for _ in range(4)]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("device", ["cpu"])
def test_steps_of_micro_batches_have_their_room_from_the_start(device):
    """They run the phases one after another."""
    training = network(device, micro_batches=2)
    before = room(training)
    for _ in range(4):
        step(training)
    assert room(training) == before


@pytest.mark.parametrize("device", ["cpu"])
def test_what_a_forward_pass_has_left_is_there_for_the_gradient_behind_a_queue(device):
    """The queue's first phases find the arena of the steps before them."""
    queued, expected = network(device), network(device)
    for training, options in ((queued, "none"), (expected, NOW)):
        step(training)
        for _ in range(3):
            training.execute_forward(options=options)
            training.execute_gradient(options=options)
            training.execute_optimizer_update(options=options)
    assert step(queued) == step(expected)
