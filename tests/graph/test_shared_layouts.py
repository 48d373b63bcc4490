"""Graphs over the same parameters follow each update, whichever of them has moved these."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import traingraph as tg

DEVICES = pytest.mark.parametrize("device", ["cpu", "reference"])
CHANNELS = pytest.mark.parametrize("channels", [32, 16, 64, 3])
SYNCHRONOUS = {"options": "synchronous"}
SIZE, ROWS = 6, 2


def values(*shape: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32) / 4


def descriptor(biases: tg.MLCTensor, size: int) -> tg.MLCConvolutionDescriptor:
    channels = biases.descriptor.shape[0]
    return tg.MLCConvolutionDescriptor(
        kernel_sizes=(size, size),
        input_feature_channel_count=channels,
        output_feature_channel_count=channels,
    )


def convolution(weights: tg.MLCTensor, biases: tg.MLCTensor) -> Any:
    return tg.MLCConvolutionLayer(weights=weights, biases=biases, descriptor=descriptor(biases, 3))


def product(weights: tg.MLCTensor, biases: tg.MLCTensor) -> Any:
    return tg.MLCFullyConnectedLayer(
        weights=weights, biases=biases, descriptor=descriptor(biases, 1)
    )


Make = Callable[[tg.MLCTensor, tg.MLCTensor], Any]
MAKES = pytest.mark.parametrize("make", [convolution, product])


class Shared:
    """Weights and biases in a layer of each graph."""

    def __init__(self, make: Make, channels: int, device: str) -> None:
        self.make, self.device = make, device
        size = (3, 3) if make is convolution else ()
        self.weights = tg.MLCTensor(data=values(channels, channels, *size, seed=1))
        self.biases = tg.MLCTensor(data=values(channels, seed=2))
        self.shape = [channels, SIZE, SIZE] if make is convolution else [channels]
        self.data = values(ROWS, *self.shape, seed=3)

    def graph(self, *parameters: tg.MLCTensor) -> tuple[tg.MLCGraph, tg.MLCTensor]:
        graph, x = tg.MLCGraph(), tg.MLCTensor(shape=[ROWS, *self.shape])
        graph.node(self.make(*parameters or (self.weights, self.biases)), source=x)
        return graph, x

    def inference(self, *parameters: tg.MLCTensor) -> tg.MLCInferenceGraph:
        graph, x = self.graph(*parameters)
        inference = tg.MLCInferenceGraph(graph_objects=[graph])
        inference.add_inputs({"x": x})
        inference.compile(device=self.device)
        return inference

    def training(self, device: str | None = None, optimizer: Any = None) -> tg.MLCTrainingGraph:
        graph, x = self.graph()
        training = tg.MLCTrainingGraph(
            graph_objects=[graph],
            loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
            optimizer=optimizer or tg.MLCAdamOptimizer(learning_rate=0.05),
        )
        labels = tg.MLCTensor(shape=[ROWS, *self.shape])
        training.add_inputs({"x": x}, loss_labels={"y": labels})
        training.compile(device=device or self.device)
        return training

    def step(self, training: tg.MLCTrainingGraph, **keywords: Any) -> None:
        zeros = np.zeros_like(self.data)
        training.execute(
            inputs_data={"x": self.data}, loss_labels_data={"y": zeros}, **keywords or SYNCHRONOUS
        )

    def expected(self) -> np.ndarray:
        """By parameters that nobody shares, of the numbers that these have now."""
        copies = [tg.MLCTensor(data=self.read(t)) for t in (self.weights, self.biases)]
        return result(self.inference(*copies), self.data)

    @staticmethod
    def read(tensor: tg.MLCTensor) -> np.ndarray:
        tensor.synchronize_data()
        return np.array(tensor.data)


def result(inference: tg.MLCInferenceGraph, x: np.ndarray) -> np.ndarray:
    return np.asarray(inference.execute(inputs_data={"x": x}, **SYNCHRONOUS).result)


def check(shared: Shared, *graphs: tg.MLCInferenceGraph, rounds: int = 3) -> None:
    """Each of them gives what the newest numbers do, and another result after each update."""
    training, before = graphs[0], None
    for _ in range(rounds):
        expected = shared.expected()
        if before is not None:
            assert np.abs(expected - before).max() > 1e-3
        before = expected
        for one in graphs[1:]:
            np.testing.assert_allclose(result(one, shared.data), expected, rtol=0, atol=2e-5)
        shared.step(training)


@DEVICES
@CHANNELS
@MAKES
def test_inference_before_training(device: str, channels: int, make: Make) -> None:
    """The training program chooses the layout, and the inference program is made anew."""
    shared = Shared(make, channels, device)
    inference, idle = shared.inference(), shared.inference()
    for one in (inference, idle):
        result(one, shared.data)
    training = shared.training()
    check(shared, training, inference)
    # One that has not run since is not left behind either.
    np.testing.assert_allclose(result(idle, shared.data), shared.expected(), rtol=0, atol=2e-5)


@DEVICES
@CHANNELS
@MAKES
def test_inference_in_flight_while_training_compiles(
    device: str, channels: int, make: Make
) -> None:
    shared = Shared(make, channels, device)
    inference = shared.inference()
    expected = shared.expected()
    handles = [inference.execute(inputs_data={"x": shared.data}) for _ in range(4)]
    training = shared.training()
    handles += [inference.execute(inputs_data={"x": shared.data}) for _ in range(4)]
    for handle in handles:
        np.testing.assert_allclose(np.asarray(handle.result), expected, rtol=0, atol=2e-5)
    check(shared, training, inference)


@DEVICES
@CHANNELS
def test_programs_of_other_batch_sizes(device: str, channels: int) -> None:
    """Each program of the graph, though one of them has been made anew."""
    shared = Shared(convolution, channels, device)
    inference = shared.inference()
    more = np.concatenate([shared.data, -shared.data])
    for x in (shared.data, more):
        result(inference, x)
    training = shared.training()
    for _ in range(2):
        shared.step(training)
        expected = shared.expected()
        np.testing.assert_allclose(result(inference, more)[:ROWS], expected, rtol=0, atol=2e-5)
        np.testing.assert_allclose(result(inference, shared.data), expected, rtol=0, atol=2e-5)


@DEVICES
@CHANNELS
def test_inference_of_the_training_graph(device: str, channels: int) -> None:
    """predict compiles for the parameters as they lie then, before and after the first step."""
    shared = Shared(convolution, channels, device)
    first = shared.inference()
    result(first, shared.data)
    training = shared.training()
    for _ in range(3):
        predicted = np.asarray(training.predict(shared.data))
        np.testing.assert_allclose(predicted, shared.expected(), rtol=0, atol=2e-5)
        shared.step(training)


@DEVICES
@CHANNELS
@pytest.mark.parametrize("other", ["same", "reference", "portable"])
def test_moments_move_with_the_parameter(device: str, channels: int, other: str) -> None:
    """Two training graphs give what one of them gives, also by turns on two devices."""
    one, two = Shared(convolution, channels, device), Shared(convolution, channels, device)
    alone = one.training()
    for _ in range(6):
        one.step(alone)
    result(two.inference(), two.data)
    optimizer = tg.MLCAdamOptimizer(learning_rate=0.05)
    elsewhere = {"same": device, "portable": "cpu"}.get(other, other)
    graphs = [two.training(device, optimizer), two.training(elsewhere, optimizer)]
    for training in (graphs * 3)[:6]:
        two.step(training)
    for tensor, same in ((one.weights, two.weights), (one.biases, two.biases)):
        np.testing.assert_allclose(one.read(tensor), two.read(same), rtol=0, atol=2e-5)


@CHANNELS
@pytest.mark.parametrize("order", [("cpu", "reference"), ("reference", "cpu")])
def test_training_on_another_device(channels: int, order: tuple[str, str]) -> None:
    """The parameters move there, and back for each graph that runs where they were."""
    shared = Shared(convolution, channels, order[0])
    inference = shared.inference()
    result(inference, shared.data)
    training = shared.training(order[1])
    for _ in range(3):
        shared.step(training)
        expected = shared.expected()
        got = result(inference, shared.data)
        np.testing.assert_allclose(got, expected, rtol=0, atol=2e-5)


@DEVICES
@CHANNELS
def test_a_load_reaches_every_graph(device: str, channels: int) -> None:
    shared = Shared(convolution, channels, device)
    inference = shared.inference()
    result(inference, shared.data)
    training = shared.training()
    before = training.state()
    start = shared.expected()
    shared.step(training)
    assert np.abs(result(inference, shared.data) - start).max() > 1e-3
    training.load_state(before)
    np.testing.assert_allclose(result(inference, shared.data), start, rtol=0, atol=2e-5)
