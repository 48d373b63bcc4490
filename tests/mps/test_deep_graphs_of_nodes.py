"""Graphs of thousands of nodes with gradients: their first commit takes a time that grows like
their number, and Ctrl-C ends it and leaves the buffer."""

import gc
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernels import batch, commands

from interruption import interrupted
from traingraph import mps


class One(mps.MPSCNNConvolutionDataSource):
    """A convolution of one weight."""

    def descriptor(self) -> mps.MPSCNNConvolutionDescriptor:
        return mps.MPSCNNConvolutionDescriptor.cnn_convolution_descriptor(
            with_kernel_width=1, kernel_height=1, input_feature_channels=1,
            output_feature_channels=1,
        )  # fmt: skip

    def weights(self) -> np.ndarray:
        return np.ones((1, 1, 1, 1), np.float32)


def convolution(source: Any) -> Any:
    return mps.MPSCNNConvolutionNode(source=source, weights=One())


def relu(source: Any) -> Any:
    return mps.MPSCNNNeuronReLUNode(source=source, a=0.0)


Make = Callable[[Any], Any]


def encoded(on: Any, make: Make, nodes: int) -> tuple[Any, Any]:
    """A buffer with a training step of so many nodes, and its graph."""
    image = mps.MPSNNImageNode(handle="x")
    for _ in range(nodes):
        image = make(image).result_image
    loss = mps.MPSCNNLossDescriptor.cnn_loss_descriptor(
        with_type="mean_squared_error", reduction_type="mean"
    )
    (last,) = mps.MPSCNNLossNode(source=image, loss_descriptor=loss).training_graph()
    graph = mps.MPSNNGraph(device=on, result_image=last.result_image, result_image_is_needed=False)
    buffer, one = commands(on), np.ones((1, 1, 1, 1), np.float32)
    labels = mps.MPSCNNLossLabels(loss_image=batch(on, one)[0], labels_image=batch(on, one)[0])
    graph.encode_batch(buffer, source_images=[batch(on, one)], source_states=[[labels]])
    return buffer, graph


def seconds_to_commit(on: Any, make: Make, nodes: int) -> float:
    """Of this process: others on the machine have no part in it."""
    buffer, _ = encoded(on, make, nodes)
    gc.collect()
    start = time.process_time()
    buffer.commit()
    spent = time.process_time() - start
    buffer.wait_until_completed()
    return spent


@pytest.mark.parametrize("make", [convolution, relu])
def test_the_first_commit_grows_like_the_nodes(make: Make) -> None:
    on = mps.MTLDevice(device="cpu")
    short, long = (seconds_to_commit(on, make, nodes) for nodes in (2000, 4000))
    assert short < 2
    assert long < 2.5 * short + 0.1


def test_control_c_ends_a_commit_that_may_be_repeated() -> None:
    buffer, _ = encoded(mps.MTLDevice(device="cpu"), convolution, 30000)
    short = interrupted(buffer.commit)
    start = time.monotonic()
    buffer.commit()
    assert short < 0.7 * (time.monotonic() - start)
    buffer.wait_until_completed()
    assert buffer.error is None


def test_a_graph_deeper_than_the_stack() -> None:
    image = mps.MPSNNImageNode(handle="x")
    for _ in range(100_000):
        image = relu(image).result_image
    graph = mps.MPSNNGraph(
        device=mps.MTLDevice(device="cpu"), result_image=image, result_image_is_needed=True
    )
    assert graph.source_image_handles == ["x"]
