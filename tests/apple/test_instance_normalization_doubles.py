"""Instance and group normalization of the doubles: numbers, states, and the order of their use."""

from collections.abc import Callable

import numpy as np
import pytest
from kernel_pairs import BACKWARD, FORWARD, differences, run_forward
from mps_session import STATES, Session, broken, session, values
from objective_c import Object, Runtime

CHANNELS, EPSILON = 6, 0.1
GROUPS = {"Instance": [CHANNELS], "Group": [1, 2, 3]}
CASES = [(kind, groups) for kind, counts in GROUPS.items() for groups in counts]


def per_channel(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64)[None, :, None, None]


class Normalization:
    """Arrays of a case, its kernels, and what was encoded."""

    def __init__(self, s: Session, kind: str, groups: int) -> None:
        self.s, self.groups = s, groups
        self.x, self.e = values(3, CHANNELS, 4, 5), values(3, CHANNELS, 4, 5)
        self.gamma, self.beta = values(CHANNELS), values(CHANNELS)
        source = s.make(
            "CheckGroups", "initWithGamma:beta:channels:groups:epsilon:",
            self.gamma, self.beta, CHANNELS, groups, EPSILON,
        )  # fmt: skip
        name = f"MPSCNN{kind}Normalization"
        self.forward = s.kernel(name, "initWithDevice:dataSource:", source)
        self.gradient = s.kernel(f"{name}Gradient")
        self.sources, self.results = s.batch(self.x), s.blank_batch(*self.x.shape)
        self.source_gradients = s.blank_batch(*self.x.shape)
        # Kept until the results were read.
        self.states = self.forward.send(
            "resultStateBatchForSourceImage:sourceStates:destinationImage:",
            self.sources, None, self.results,
        )  # fmt: skip

    def encode_forward(self) -> None:
        self.forward.send(FORWARD, self.s.commands, self.sources, self.states, self.results)

    def encode_gradient(self) -> None:
        self.gradient.send(
            BACKWARD, self.s.commands, self.s.batch(self.e), self.sources, self.states,
            self.source_gradients,
        )  # fmt: skip

    def each_state(self, name: str) -> np.ndarray:
        states = [self.states.send("objectAtIndex:", index) for index in range(len(self.x))]
        return np.stack([self.s.floats(state.send(name)) for state in states])

    def result(self, x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
        rows = x.reshape(len(x), self.groups, -1)
        mean, variance = rows.mean(2, keepdims=True), rows.var(2, keepdims=True)
        hat = ((rows - mean) / np.sqrt(variance + EPSILON)).reshape(x.shape)
        return per_channel(gamma) * hat + per_channel(beta)


@pytest.mark.parametrize(("kind", "groups"), CASES)
def test_normalization(runtime: Runtime, kind: str, groups: int) -> None:
    with session(runtime) as s:
        it = Normalization(s, kind, groups)
        it.encode_forward()
        it.encode_gradient()
        s.run()
        x = it.x.astype(np.float64)
        y = it.result(x, it.gamma, it.beta)
        np.testing.assert_allclose(s.read_batch(it.results), y, rtol=1e-5, atol=1e-6)
        dx = differences(lambda at: it.result(at, it.gamma, it.beta), x, it.e)
        np.testing.assert_allclose(s.read_batch(it.source_gradients), dx, rtol=1e-4, atol=1e-6)
        for index, (one, e) in enumerate(zip(x[:, None], it.e[:, None], strict=True)):
            gamma = differences(lambda at, x=one: it.result(x, at, it.beta), it.gamma, e)
            found = it.each_state("gradientForGamma")[index]
            np.testing.assert_allclose(found, gamma, rtol=1e-5, atol=1e-6)
        found = it.each_state("gradientForBeta")
        np.testing.assert_allclose(found, it.e.sum((2, 3)), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(it.each_state("gamma")[0], it.gamma)
        np.testing.assert_array_equal(it.each_state("beta")[0], it.beta)


@pytest.mark.parametrize("kind", GROUPS)
def test_gamma_and_beta_from_a_state(runtime: Runtime, kind: str) -> None:
    with session(runtime) as s:
        it = Normalization(s, kind, GROUPS[kind][-1])
        gamma, beta = values(CHANNELS), values(CHANNELS)
        new = s.make(
            "MPSCNNNormalizationGammaAndBetaState", "initWithGamma:beta:",
            s.buffer(gamma), s.buffer(beta),
        )  # fmt: skip
        form = "reloadGammaAndBetaWithCommandBuffer:gammaAndBetaState:"
        it.forward.send(form, s.commands, new)
        y = run_forward(s, it.forward, it.x, it.x.shape)
        expected = it.result(it.x.astype(np.float64), gamma, beta)
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", GROUPS)
def test_without_gamma_and_beta(runtime: Runtime, kind: str) -> None:
    with session(runtime) as s:
        it = Normalization(s, kind, GROUPS[kind][-1])
        source = s.make(
            "CheckGroups", "initWithGamma:beta:channels:groups:epsilon:",
            None, None, CHANNELS, it.groups, EPSILON,
        )  # fmt: skip
        kernel = s.kernel(f"MPSCNN{kind}Normalization", "initWithDevice:dataSource:", source)
        assert kernel.send("epsilon") == np.float32(EPSILON)
        y = run_forward(s, kernel, it.x, it.x.shape)
        expected = it.result(it.x.astype(np.float64), np.ones(CHANNELS), np.zeros(CHANNELS))
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


def test_temporary_states_are_read_by_the_gradient(runtime: Runtime) -> None:
    with session(runtime) as s:
        it = Normalization(s, "Instance", CHANNELS)
        it.states = it.forward.send(STATES, s.commands, it.sources, None, it.results)
        first, second = (it.states.send("objectAtIndex:", index) for index in (0, 1))
        assert first != second
        it.encode_forward()
        assert first.send("readCount") == 1
        it.encode_gradient()
        assert first.send("readCount") == 0


def with_one_state(it: Normalization) -> None:
    first = it.states.send("firstObject")
    it.states = it.s.runtime.array([first] * len(it.x))
    it.encode_forward()
    it.encode_gradient()


def without_states(it: Normalization) -> None:
    form = "encodeBatchToCommandBuffer:primaryImages:secondaryImages:destinationImages:"
    it.gradient.send(form, it.s.commands, it.sources, it.sources, it.source_gradients)


def with_states_of_another(it: Normalization) -> None:
    it.states = Normalization(it.s, "Instance", CHANNELS).states
    it.encode_forward()


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        (Normalization.encode_gradient, "before the forward kernel with its state"),
        (with_one_state, "state of one image is used for two"),
        (without_states, "works with a gradient state only"),
        (with_states_of_another, "a state of another normalization kernel"),
    ],
)
def test_broken_rules(
    runtime: Runtime, action: Callable[[Normalization], None], sentence: str
) -> None:
    said = broken(runtime, lambda s: action(Normalization(s, "Instance", CHANNELS)))
    assert sentence in said


def test_groups_divide_the_channels(runtime: Runtime) -> None:
    said = broken(runtime, lambda s: Normalization(s, "Group", 4))
    assert "groups that do not divide its channels" in said


def test_the_source_has_the_channels(runtime: Runtime) -> None:
    def other(s: Session) -> None:
        kernel: Object = Normalization(s, "Instance", CHANNELS).forward
        run_forward(s, kernel, values(1, 5, 2, 2), (1, 5, 2, 2))

    assert "has not its number of channels" in broken(runtime, other)
