"""Neurons, softmax and batch normalization of the doubles against numpy, and their rules."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from mps_session import FLOAT16, Session, broken, session, values
from objective_c import Object, Runtime

A, B, C = 0.7, 0.4, 1.5
erf = np.vectorize(math.erf)
# By type: a, b, c and the function. Exponential and logarithm with c = -1 are natural.
NEURONS: list[tuple[float, float, float, Callable[[np.ndarray], np.ndarray]]] = [
    (0, 0, 0, lambda x: x),
    (A, 0, 0, lambda x: np.where(x >= 0, x, A * x)),
    (A, B, 0, lambda x: A * x + B),
    (0, 0, 0, lambda x: 1 / (1 + np.exp(-x))),
    (A, B, 0, lambda x: np.clip(A * x + B, 0, 1)),
    (A, B, 0, lambda x: A * np.tanh(B * x)),
    (0, 0, 0, np.abs),
    (A, B, 0, lambda x: A * np.log(1 + np.exp(B * x))),
    (0, 0, 0, lambda x: x / (1 + np.abs(x))),
    (A, 0, 0, lambda x: np.where(x >= 0, x, A * (np.exp(x) - 1))),
    (0, 0, 0, lambda x: np.where(x >= 0, x, np.array([0.1, 0.2, 0.3])[:, None, None] * x)),
    (A, B, 0, lambda x: np.minimum(np.where(x >= 0, x, A * x), B)),
    (A, 2, C, lambda x: (A * x + 2) ** C),
    (A, B, C, lambda x: C ** (A * x + B)),
    (A, 2, C, lambda x: np.log(A * x + 2) / np.log(C)),
    (0, 0, 0, lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2)))),
]
PRELU = 10


def slope(function: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    """By central differences in float64."""
    h = 1e-6
    return (function(x + h) - function(x - h)) / (2 * h)


def neuron_descriptor(s: Session, kind: int, a: float, b: float, c: float) -> Object:
    if kind == PRELU:
        data = np.array([0.1, 0.2, 0.3], np.float32)
        bytes_of = s.runtime.NSData.send("dataWithBytes:length:", data, data.nbytes)
        form = "cnnNeuronPReLUDescriptorWithData:noCopy:"
        return s.runtime.MPSNNNeuronDescriptor.send(form, bytes_of, False)
    form = "cnnNeuronDescriptorWithType:a:b:c:"
    return s.runtime.MPSNNNeuronDescriptor.send(form, kind, a, b, c)


def unary(s: Session, kernel: Object, x: np.ndarray) -> np.ndarray:
    results = s.blank_batch(*x.shape)
    form = "encodeBatchToCommandBuffer:sourceImages:destinationImages:"
    kernel.send(form, s.commands, s.batch(x), results)
    s.run()
    s.next_commands()
    return s.read_batch(results)


def gradient(s: Session, kernel: Object, e: np.ndarray, x: np.ndarray) -> np.ndarray:
    results = s.blank_batch(*x.shape)
    kernel.send(
        "encodeBatchToCommandBuffer:primaryImages:secondaryImages:destinationImages:",
        s.commands, s.batch(e), s.batch(x), results,
    )  # fmt: skip
    s.run()
    s.next_commands()
    return s.read_batch(results)


@pytest.mark.parametrize("kind", range(16))
def test_neuron(runtime: Runtime, kind: int) -> None:
    a, b, c, function = NEURONS[kind]
    x, e = 2 * values(2, 3, 4, 5), values(2, 3, 4, 5)
    with session(runtime) as s:
        descriptor = neuron_descriptor(s, kind, a, b, c)
        form = "initWithDevice:neuronDescriptor:"
        y = unary(s, s.kernel("MPSCNNNeuron", form, descriptor), x)
        np.testing.assert_allclose(y, function(x.astype(np.float64)), rtol=2e-6, atol=1e-6)
        dx = gradient(s, s.kernel("MPSCNNNeuronGradient", form, descriptor), e, x)
        np.testing.assert_allclose(
            dx, e * slope(function, x.astype(np.float64)), rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize(("kind", "a", "expected"), [(1, 0.5, 1), (9, 0.5, 1), (6, 0, 0)])
def test_slope_at_zero(runtime: Runtime, kind: int, a: float, expected: float) -> None:
    zero = np.zeros((1, 1, 1, 1), np.float32)
    with session(runtime) as s:
        descriptor = neuron_descriptor(s, kind, a, 0, 0)
        kernel = s.kernel("MPSCNNNeuronGradient", "initWithDevice:neuronDescriptor:", descriptor)
        assert gradient(s, kernel, zero + 1, zero).item() == expected


@pytest.mark.parametrize("logarithm", [False, True])
def test_softmax_of_channels(runtime: Runtime, logarithm: bool) -> None:
    x, e = 3 * values(2, 5, 2, 3), values(2, 5, 2, 3)
    p = np.exp(x - x.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    y = np.log(p) if logarithm else p
    name = "MPSCNNLogSoftMax" if logarithm else "MPSCNNSoftMax"
    total = (e if logarithm else e * p).sum(1, keepdims=True)
    expected = e - p * total if logarithm else p * (e - total)
    with session(runtime) as s:
        np.testing.assert_allclose(unary(s, s.kernel(name), x), y, rtol=1e-5)
        # Its gradient takes the forward result.
        found = gradient(s, s.kernel(f"{name}Gradient"), e, y.astype(np.float32))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_half_images_are_rounded(runtime: Runtime) -> None:
    x = values(3, 2, 2)
    with session(runtime) as s:
        descriptor = neuron_descriptor(s, 2, 3, 0, 0)
        kernel = s.kernel("MPSCNNNeuron", "initWithDevice:neuronDescriptor:", descriptor)
        result = s.blank(x.shape, FLOAT16)
        kernel.send(
            "encodeToCommandBuffer:sourceImage:destinationImage:",
            s.commands, s.image(x, FLOAT16), result,
        )  # fmt: skip
        s.run()
        half = x.astype(np.float16).astype(np.float32)
        np.testing.assert_array_equal(s.read(result), (half * 3).astype(np.float16))


# --- batch normalization -------------------------------------------------------------------------


class Normalization:
    """Arrays of a case, its kernels, and the numbers that must come."""

    def __init__(self, s: Session, relu: bool = False) -> None:
        self.s, self.epsilon, count = s, 0.1, 3
        self.x, self.e = values(4, count, 3, 2), values(4, count, 3, 2)
        self.gamma, self.beta, self.mean = values(count), values(count), values(count)
        self.variance = np.abs(values(count)) + 0.5
        self.relu = relu
        neuron = neuron_descriptor(s, 1, 0.25, 0, 0) if relu else None
        source = s.make(
            "CheckNormalization", "initWithGamma:beta:mean:variance:count:epsilon:",
            self.gamma, self.beta, self.mean, self.variance, count, self.epsilon,
        )  # fmt: skip
        form = "initWithDevice:dataSource:fusedNeuronDescriptor:"
        self.forward = s.kernel("MPSCNNBatchNormalization", form, source, neuron)
        self.statistics = s.kernel("MPSCNNBatchNormalizationStatistics")
        form = "initWithDevice:fusedNeuronDescriptor:"
        name = "MPSCNNBatchNormalizationStatisticsGradient"
        self.gradient_statistics = s.kernel(name, form, neuron)
        self.gradient = s.kernel("MPSCNNBatchNormalizationGradient", form, neuron)
        self.sources, self.gradients = s.batch(self.x), s.batch(self.e)
        self.results = s.blank_batch(*self.x.shape)
        self.source_gradients = s.blank_batch(*self.x.shape)

    def state(self) -> Object:
        first = [batch.send("firstObject") for batch in (self.sources, self.results)]
        form = "resultStateForSourceImage:sourceStates:destinationImage:"
        return self.forward.send(form, first[0], None, first[1])

    def part(self, batch: Object, rows: slice) -> Object:
        all_of_it = [batch.send("objectAtIndex:", index) for index in range(4)]
        return self.s.runtime.array(all_of_it[rows])

    def encode_statistics(self, state: Object, rows: slice = slice(None)) -> None:
        form = "encodeBatchToCommandBuffer:sourceImages:batchNormalizationState:"
        self.statistics.send(form, self.s.commands, self.part(self.sources, rows), state)

    def encode_forward(self, state: Object) -> None:
        self.forward.send(
            "encodeBatchToCommandBuffer:sourceImages:batchNormalizationState:destinationImages:",
            self.s.commands, self.sources, state, self.results,
        )  # fmt: skip

    def encode_gradient_statistics(self, state: Object, rows: slice = slice(None)) -> None:
        self.gradient_statistics.send(
            "encodeBatchToCommandBuffer:sourceGradients:sourceImages:batchNormalizationState:",
            self.s.commands, self.part(self.gradients, rows), self.part(self.sources, rows), state,
        )  # fmt: skip

    def encode_gradient(self, state: Object) -> None:
        self.gradient.send(
            "encodeBatchToCommandBuffer:sourceGradients:sourceImages:batchNormalizationState:"
            "destinationGradients:",
            self.s.commands, self.gradients, self.sources, state, self.source_gradients,
        )  # fmt: skip

    def normalized(self, x: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
        return (x - per_channel(mean)) / np.sqrt(per_channel(variance) + self.epsilon)

    def loss(self, x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> float:
        """Σ e y in float64, of which the kernels give the derivatives."""
        hat = self.normalized(x, x.mean((0, 2, 3)), x.var((0, 2, 3)))
        y = per_channel(gamma) * hat + per_channel(beta)
        if self.relu:
            y = np.where(y >= 0, y, 0.25 * y)
        return float((self.e * y).sum())


def per_channel(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64)[None, :, None, None]


def differences(function: Callable[[np.ndarray], float], at: np.ndarray) -> np.ndarray:
    """The gradient by central differences in float64."""
    at, result = at.astype(np.float64), np.empty(at.shape)
    for index in np.ndindex(at.shape):
        step = np.zeros(at.shape)
        step[index] = 1e-5
        result[index] = (function(at + step) - function(at - step)) / 2e-5
    return result


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("parts", [1, 2])
def test_batch_normalization(runtime: Runtime, relu: bool, parts: int) -> None:
    with session(runtime) as s:
        it = Normalization(s, relu)
        state = it.state()
        assert state.send("gradientForGamma") is None
        strips = [slice(None)] if parts == 1 else [slice(0, 3), slice(3, 4)]
        for rows in strips:
            it.encode_statistics(state, rows)
        it.encode_forward(state)
        for rows in strips:
            it.encode_gradient_statistics(state, rows)
        it.encode_gradient(state)
        s.run()
        x = it.x.astype(np.float64)
        mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
        np.testing.assert_allclose(s.floats(state.send("mean")), mean, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(s.floats(state.send("variance")), variance, rtol=1e-5)
        y = per_channel(it.gamma) * it.normalized(x, mean, variance) + per_channel(it.beta)
        y = np.where(y >= 0, y, 0.25 * y) if relu else y
        np.testing.assert_allclose(s.read_batch(it.results), y, rtol=1e-4, atol=1e-5)
        for name, found, expected in (
            ("gamma", s.floats(state.send("gradientForGamma")),
             differences(lambda gamma: it.loss(x, gamma, it.beta), it.gamma)),
            ("beta", s.floats(state.send("gradientForBeta")),
             differences(lambda beta: it.loss(x, it.gamma, beta), it.beta)),
            ("x", s.read_batch(it.source_gradients),
             differences(lambda x: it.loss(x, it.gamma, it.beta), x)),
        ):  # fmt: skip
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=2e-5, err_msg=name)


def test_batch_normalization_by_kept_statistics(runtime: Runtime) -> None:
    with session(runtime) as s:
        it = Normalization(s)
        gamma, beta = 2 * it.gamma, it.beta + 1
        new = s.make(
            "MPSCNNNormalizationGammaAndBetaState", "initWithGamma:beta:",
            s.buffer(gamma), s.buffer(beta),
        )  # fmt: skip
        form = "reloadGammaAndBetaWithCommandBuffer:gammaAndBetaState:"
        it.forward.send(form, s.commands, new)
        form = "encodeBatchToCommandBuffer:sourceImages:destinationImages:"
        it.forward.send(form, s.commands, it.sources, it.results)
        s.run()
        hat = it.normalized(it.x, it.mean, it.variance)
        expected = per_channel(gamma) * hat + per_channel(beta)
        np.testing.assert_allclose(s.read_batch(it.results), expected, rtol=1e-5, atol=1e-5)


def test_a_temporary_state_is_read_by_each_of_the_four_kernels(runtime: Runtime) -> None:
    with session(runtime) as s:
        it = Normalization(s)
        state = it.forward.send(
            "temporaryResultStateForCommandBuffer:sourceImage:sourceStates:destinationImage:",
            s.commands, it.sources.send("firstObject"), None, it.results.send("firstObject"),
        )  # fmt: skip
        state.send("setReadCount:", 3)
        it.encode_statistics(state)  # whose header names no read
        it.encode_forward(state)
        it.encode_gradient_statistics(state)
        assert state.send("readCount") == 1
        it.encode_gradient(state)
        assert state.send("readCount") == 0


def order(*steps: str) -> Callable[[Session], None]:
    def encode(s: Session) -> None:
        it = Normalization(s)
        state = it.state()
        for step in steps:
            name, _, rows = step.partition(" ")
            arguments = [slice(0, int(rows))] if rows else []
            getattr(it, f"encode_{name}")(state, *arguments)

    return encode


@pytest.mark.parametrize(
    ("steps", "sentence"),
    [
        (["forward"], "normalization before the statistics"),
        (["gradient_statistics"], "before those of the batch"),
        (["statistics", "gradient"], "before its statistics have seen all images"),
        (
            ["statistics", "forward", "gradient_statistics 2", "gradient"],
            "before its statistics have seen all images",
        ),
        (["statistics", "forward", "statistics"], "used in another order"),
        (["statistics", "gradient_statistics", "forward"], "used in another order"),
        (["statistics 2", "forward"], "more images than the statistics"),
        (
            ["statistics", "forward", "gradient_statistics", "gradient_statistics"],
            "more images than the statistics",
        ),
    ],
)
def test_the_order_of_batch_normalization(
    runtime: Runtime, steps: list[str], sentence: str
) -> None:
    assert sentence in broken(runtime, order(*steps))


def test_gradients_of_batch_normalization_have_the_forward_neuron(runtime: Runtime) -> None:
    def differ(s: Session) -> None:
        it = Normalization(s)
        state = it.state()
        it.encode_statistics(state)
        it.gradient_statistics = Normalization(s, relu=True).gradient_statistics
        it.encode_gradient_statistics(state)

    assert "its fused neuron differs" in broken(runtime, differ)


def test_a_state_of_batch_normalization_is_of_one_batch(runtime: Runtime) -> None:
    def again(s: Session) -> None:
        it = Normalization(s)
        state = it.state()
        it.encode_statistics(state)
        s.run()
        s.next_commands()
        it.encode_forward(state)

    assert "a state of one command buffer is used with another one" in broken(runtime, again)


def test_results_are_put_behind_other_channels(runtime: Runtime) -> None:
    a, b = values(4, 2, 3), values(3, 2, 3)
    with session(runtime) as s:
        whole = s.blank((7, 2, 3))
        for data, offset in ((a, 0), (b, 4)):
            kernel = s.kernel(
                "MPSCNNNeuron", "initWithDevice:neuronDescriptor:", neuron_descriptor(s, 0, 0, 0, 0)
            )
            kernel.send("setDestinationFeatureChannelOffset:", offset)
            source, form = s.image(data), "encodeToCommandBuffer:sourceImage:destinationImage:"
            kernel.send(form, s.commands, source, whole)
        s.run()
        np.testing.assert_array_equal(s.read(whole), np.concatenate([a, b]))


def test_an_offset_of_channels_is_a_multiple_of_four(runtime: Runtime) -> None:
    def odd(s: Session) -> None:
        kernel = s.kernel("MPSCNNSoftMax")
        kernel.send("setDestinationFeatureChannelOffset:", 3)
        source, result = s.blank((4, 2, 3)), s.blank((7, 2, 3))
        form = "encodeToCommandBuffer:sourceImage:destinationImage:"
        kernel.send(form, s.commands, source, result)

    assert "no multiple of four" in broken(runtime, odd)
