"""Optimizers of the doubles over states of layers and over matrices, against numpy in float64."""

import ctypes
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from mps_session import Session, broken, session, values
from objective_c import Object, Runtime

RATE, EPSILON, STEPS = 0.1, 1e-3, 2
Slots = list[np.ndarray]


def descend(w: np.ndarray, g: np.ndarray, slots: Slots, t: int) -> np.ndarray:
    slots[0] = 0.9 * slots[0] + RATE * g
    return w - slots[0]


def by_squares(w: np.ndarray, g: np.ndarray, slots: Slots, t: int) -> np.ndarray:
    slots[0] = 0.7 * slots[0] + 0.3 * g * g
    return w - RATE * g / (np.sqrt(slots[0]) + EPSILON)


def adam(w: np.ndarray, g: np.ndarray, slots: Slots, t: int) -> np.ndarray:
    slots[0] = 0.8 * slots[0] + 0.2 * g
    slots[1] = 0.9 * slots[1] + 0.1 * g * g
    if len(slots) == 3:
        slots[2] = np.maximum(slots[2], slots[1])
    rate = RATE * np.sqrt(1 - 0.9**t) / (1 - 0.8**t)
    return w - rate * slots[0] / (np.sqrt(slots[-1]) + EPSILON)


class Rule(NamedTuple):
    kernel: str
    form: str
    numbers: tuple
    slots: list[str]
    update: Callable[[np.ndarray, np.ndarray, Slots, int], np.ndarray]

    def make(self, s: Session) -> Object:
        plain = s.runtime.MPSNNOptimizerDescriptor.send(
            "optimizerDescriptorWithLearningRate:gradientRescale:regularizationType:"
            "regularizationScale:",
            RATE, 1.0, 0, 0.0,
        )  # fmt: skip
        return s.kernel(f"MPSNNOptimizer{self.kernel}", self.form, *self.numbers, plain)

    def expected(self, w: np.ndarray, g: np.ndarray, first: np.ndarray, steps: int) -> np.ndarray:
        w, slots = w.astype(np.float64), [first.astype(np.float64) for _ in self.slots]
        for t in range(1, steps + 1):
            w = self.update(w, g.astype(np.float64), slots, t)
        return w


ADAM = ("Adam", "initWithDevice:beta1:beta2:epsilon:timeStep:optimizerDescriptor:")
BETAS = (0.8, 0.9, EPSILON, 0)
RULES = {
    "descent": Rule(
        "StochasticGradientDescent",
        "initWithDevice:momentumScale:useNesterovMomentum:optimizerDescriptor:",
        (0.9, False), ["inputMomentum"], descend,
    ),
    "descent in Apple's older spelling": Rule(
        "StochasticGradientDescent",
        "initWithDevice:momentumScale:useNestrovMomentum:optimizerDescriptor:",
        (0.9, False), ["inputMomentum"], descend,
    ),
    "rms prop": Rule(
        "RMSProp", "initWithDevice:decay:epsilon:optimizerDescriptor:",
        (0.7, EPSILON), ["inputSumOfSquares"], by_squares,
    ),
    "adam": Rule(*ADAM, BETAS, ["inputMomentum", "inputVelocity"], adam),
    "amsgrad": Rule(
        *ADAM, BETAS, ["inputMomentum", "inputVelocity", "maximumVelocity"], adam
    ),
}  # fmt: skip


def slot_arrays(s: Session, rule: Rule, sizes: list[int]) -> list[Object]:
    """An array for each slot, with a vector of 0.25 for each thing that is updated."""
    full = [np.full(size, 0.25, np.float32) for size in sizes]
    return [s.runtime.array([s.vector(one) for one in full]) for _ in rule.slots]


def check_step(rule: Rule, kernel: Object, steps: int) -> None:
    """A step is one, of however many vectors."""
    if rule.kernel == "Adam":
        assert kernel.send("timeStep") == steps


def fill(buffer: Object, data: np.ndarray) -> None:
    assert buffer.send("length") == data.nbytes
    ctypes.memmove(buffer.send("contents"), data.ctypes.data, data.nbytes)


class Convolution:
    """A gradient state and a state of weights with biases."""

    def __init__(self, s: Session, biased: bool = True) -> None:
        self.w, self.b = values(4 * 3), values(4)
        self.dw, self.db = values(4 * 3), values(4)
        descriptor = s.runtime.MPSCNNConvolutionDescriptor.send(
            "cnnConvolutionDescriptorWithKernelWidth:kernelHeight:inputFeatureChannels:"
            "outputFeatureChannels:",
            1, 1, 3, 4,
        )  # fmt: skip
        source = s.make(
            "CheckWeights", "initWithDescriptor:weights:count:biases:",
            descriptor, self.w, self.w.size, self.b,
        )  # fmt: skip
        kernel = s.kernel("MPSCNNConvolution", "initWithDevice:weights:", source)
        self.gradient = kernel.send(
            "resultStateForSourceImage:sourceStates:destinationImage:",
            s.blank((3, 1, 1)), None, s.blank((4, 1, 1)),
        )  # fmt: skip
        fill(self.gradient.send("gradientForWeights"), self.dw)
        fill(self.gradient.send("gradientForBiases"), self.db)
        biases = s.buffer(self.b) if biased else None
        form = "initWithWeights:biases:"
        self.state = s.make(
            "MPSCNNConvolutionWeightsAndBiasesState", form, s.buffer(self.w), biases
        )


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("biased", [False, True])
def test_weights_and_biases(runtime: Runtime, name: str, biased: bool) -> None:
    rule = RULES[name]
    with session(runtime) as s:
        it, kernel = Convolution(s, biased), rule.make(s)
        middle = "".join(f"{slot}Vectors:" for slot in rule.slots)
        form = (
            "encodeToCommandBuffer:convolutionGradientState:convolutionSourceState:"
            f"{middle}resultState:"
        )
        slots = slot_arrays(s, rule, [it.w.size, it.b.size])
        for _ in range(STEPS):
            kernel.send(form, s.commands, it.gradient, it.state, *slots, it.state)
        s.run()
        first = np.float32(0.25)
        w = rule.expected(it.w, it.dw, first, STEPS)
        np.testing.assert_allclose(s.floats(it.state.send("weights")), w, rtol=1e-5, atol=1e-6)
        if biased:
            b = rule.expected(it.b, it.db, first, STEPS)
            np.testing.assert_allclose(s.floats(it.state.send("biases")), b, rtol=1e-5, atol=1e-6)
        check_step(rule, kernel, STEPS)


class BatchNormalization:
    """A state into which the statistics of a batch and of its gradient are encoded."""

    def __init__(self, s: Session) -> None:
        self.s, self.gamma, self.beta = s, values(3), values(3)
        ones, zeros = np.ones(3, np.float32), np.zeros(3, np.float32)
        source = s.make(
            "CheckNormalization", "initWithGamma:beta:mean:variance:count:epsilon:",
            self.gamma, self.beta, zeros, ones, 3, 0.1,
        )  # fmt: skip
        self.kernel = s.kernel("MPSCNNBatchNormalization", "initWithDevice:dataSource:", source)
        self.images, self.errors = s.batch(values(2, 3, 2, 2)), s.batch(values(2, 3, 2, 2))
        self.state = self.kernel.send(
            "resultStateForSourceImage:sourceStates:destinationImage:",
            self.images.send("firstObject"), None, s.blank((3, 2, 2)),
        )  # fmt: skip
        self.result = s.make(
            "MPSCNNNormalizationGammaAndBetaState", "initWithGamma:beta:",
            s.buffer(zeros), s.buffer(zeros),
        )  # fmt: skip

    def encode_statistics(self) -> None:
        form = "encodeBatchToCommandBuffer:sourceImages:batchNormalizationState:"
        kernel = self.s.kernel("MPSCNNBatchNormalizationStatistics")
        kernel.send(form, self.s.commands, self.images, self.state)
        form = "encodeBatchToCommandBuffer:sourceGradients:sourceImages:batchNormalizationState:"
        name = "MPSCNNBatchNormalizationStatisticsGradient"
        kernel = self.s.kernel(name, "initWithDevice:fusedNeuronDescriptor:", None)
        kernel.send(form, self.s.commands, self.errors, self.images, self.state)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("two_states", [False, True])
def test_gamma_and_beta(runtime: Runtime, name: str, two_states: bool) -> None:
    rule = RULES[name]
    with session(runtime) as s:
        it, kernel = BatchNormalization(s), rule.make(s)
        it.encode_statistics()
        middle = "".join(f"{slot}Vectors:" for slot in rule.slots)
        states = "batchNormalizationState:"
        given = [it.state]
        if two_states:
            states = "batchNormalizationGradientState:batchNormalizationSourceState:"
            given = [it.state, it.state]
        form = f"encodeToCommandBuffer:{states}{middle}resultState:"
        kernel.send(form, s.commands, *given, *slot_arrays(s, rule, [3, 3]), it.result)
        s.run()
        for what, old in (("gamma", it.gamma), ("beta", it.beta)):
            g = s.floats(it.state.send(f"gradientFor{what.title()}"))
            expected = rule.expected(old, g, np.float32(0.25), 1)
            np.testing.assert_allclose(
                s.floats(it.result.send(what)), expected, rtol=1e-5, atol=1e-6
            )
        check_step(rule, kernel, 1)


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4)])
def test_matrices(runtime: Runtime, name: str, shape: tuple[int, ...]) -> None:
    rule, w, g = RULES[name], values(*shape), values(*shape)
    with session(runtime) as s:
        kernel, matrix = rule.make(s), s.matrix(w)
        slots = [s.matrix(np.full(shape, 0.25, np.float32)) for _ in rule.slots]
        middle = "".join(f"{slot}Matrix:" for slot in rule.slots)
        form = (
            "encodeToCommandBuffer:inputGradientMatrix:inputValuesMatrix:"
            f"{middle}resultValuesMatrix:"
        )
        for _ in range(STEPS):
            kernel.send(form, s.commands, s.matrix(g), matrix, *slots, matrix)
        s.run()
        expected = rule.expected(w, g, np.full(shape, 0.25), STEPS)
        np.testing.assert_allclose(s.read_matrix(matrix), expected, rtol=1e-5, atol=1e-6)
        check_step(rule, kernel, STEPS)


def test_amsgrad_over_vectors(runtime: Runtime) -> None:
    rule, w, g = RULES["amsgrad"], values(5), values(5)
    with session(runtime) as s:
        kernel, vector = rule.make(s), s.vector(w)
        slots = [s.vector(np.full(5, first, np.float32)) for first in (0.25, 0.25, 4.0)]
        form = (
            "encodeToCommandBuffer:inputGradientVector:inputValuesVector:inputMomentumVector:"
            "inputVelocityVector:maximumVelocityVector:resultValuesVector:"
        )
        kernel.send(form, s.commands, s.vector(g), vector, *slots, vector)
        s.run()
        # The velocity is below the largest so far.
        rate = RATE * np.sqrt(1 - 0.9) / (1 - 0.8)
        expected = w - rate * (0.8 * 0.25 + 0.2 * g) / (2 + EPSILON)
        np.testing.assert_allclose(s.floats(vector.send("data")), expected, rtol=1e-5)
        np.testing.assert_array_equal(s.floats(slots[2].send("data")), np.full(5, 4.0))


def before_its_gradient(s: Session) -> None:
    it, rule = BatchNormalization(s), RULES["rms prop"]
    form = "encodeToCommandBuffer:batchNormalizationState:inputSumOfSquaresVectors:resultState:"
    rule.make(s).send(form, s.commands, it.state, *slot_arrays(s, rule, [3, 3]), it.result)


def with_too_few_slots(s: Session) -> None:
    it, rule = Convolution(s), RULES["rms prop"]
    form = (
        "encodeToCommandBuffer:convolutionGradientState:convolutionSourceState:"
        "inputSumOfSquaresVectors:resultState:"
    )
    slots = slot_arrays(s, rule, [it.w.size])
    rule.make(s).send(form, s.commands, it.gradient, it.state, *slots, it.state)


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        (before_its_gradient, "the statistics of the gradient were not encoded into its state"),
        (with_too_few_slots, "there are fewer slots than vectors"),
    ],
)
def test_broken_rules(runtime: Runtime, action: Callable[[Session], None], sentence: str) -> None:
    assert sentence in broken(runtime, action)
