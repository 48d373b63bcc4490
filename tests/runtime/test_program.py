"""What happens inside a step: no allocation, no hand-over to another thread."""

import os
import threading

import numpy as np
import pytest

import traingraph as tg

_testing = pytest.importorskip("traingraph._testing", reason="built with TRAINGRAPH_TESTING")


counts_allocations = pytest.mark.skipif(
    not _testing.counts_allocations, reason="a sanitizer has operator new"
)


@counts_allocations
@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_the_core_allocates_nothing_inside_a_run(device, mixed):
    counts = _testing.allocations_per_run(device, mixed)
    assert set(counts) == {"forward", "gradient", "update", "step", "checked step"}
    assert not any(counts.values()), counts


@counts_allocations
def test_the_counter_counts():
    before = _testing.allocations()[0]
    _testing.Graph()
    assert _testing.allocations()[0] > before


def linear():
    x = tg.MLCTensor(shape=[4, 1])
    y = tg.MLCTensor(shape=[4, 1])
    graph = tg.MLCGraph()
    descriptor = tg.MLCConvolutionDescriptor(
        kernel_sizes=(1, 1), input_feature_channel_count=1, output_feature_channel_count=1
    )
    graph.node(tg.MLCFullyConnectedLayer(descriptor=descriptor), source=x)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=0.01),
    )
    training.add_inputs({"x": x}, loss_labels={"y": y})
    training.compile(device="cpu")
    data = np.arange(4, dtype=np.float32).reshape(4, 1)
    return training, {"inputs_data": {"x": data}, "loss_labels_data": {"y": 2 * data}}


@pytest.mark.linux
def test_a_synchronous_step_runs_on_the_calling_thread():
    training, data = linear()
    threads = []
    before = set(os.listdir("/proc/self/task"))
    training.execute(
        **data,
        options="synchronous",
        completion_handler=lambda *_: threads.append(threading.get_ident()),
    )
    assert threads == [threading.get_ident()]
    assert set(os.listdir("/proc/self/task")) == before


def test_skipping_the_write_reuses_the_data_of_the_last_call():
    training, data = linear()
    frozen = dict(data)
    for _ in range(3):
        training.execute(**frozen, options="synchronous")
    other, _ = linear()
    skip = tg.MLCExecutionOptions.SYNCHRONOUS | (
        tg.MLCExecutionOptions.SKIP_WRITING_INPUT_DATA_TO_DEVICE
    )
    with pytest.raises(ValueError, match="expected data for 'x', 'y'"):
        other.execute(inputs_data={}, options=skip)
    before = training.execute(**frozen, options="synchronous").result
    after = training.execute(inputs_data={}, options=skip).result
    assert after < before


@pytest.mark.parametrize("micro_batches", [1, 2])
@pytest.mark.parametrize("options", ["synchronous", "synchronous|check_numerics"])
def test_what_an_earlier_call_was_given_is_not_taken_unasked(options, micro_batches):
    training, data = linear()
    training.micro_batches = micro_batches
    training.execute(**data, options=options)
    with pytest.raises(ValueError, match="expected data for 'x', 'y'"):
        training.execute(inputs_data={}, options=options)


def test_a_gradient_does_not_follow_a_forward_of_another_compilation():
    training, data = linear()
    training.execute(**data, options="synchronous")
    skip = tg.MLCExecutionOptions.SYNCHRONOUS | (
        tg.MLCExecutionOptions.SKIP_WRITING_INPUT_DATA_TO_DEVICE
    )
    threads = tg.get_num_threads()
    training.execute_forward(batch_size=0, options=skip)
    tg.set_num_threads(3 - min(threads, 2))
    try:
        with pytest.raises(ValueError, match="compiled again"):
            training.execute_gradient(batch_size=0, options="synchronous")
        training.execute_forward(batch_size=0, options=skip)
        training.execute_gradient(batch_size=0, options="synchronous")
    finally:
        tg.set_num_threads(threads)
