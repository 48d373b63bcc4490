"""Arithmetic of the doubles with states: nothing flows back where the result was clamped."""

from collections.abc import Callable

import numpy as np
import pytest
from kernel_pairs import BACKWARD, differences, set_all
from mps_session import Session, broken, session, values
from objective_c import Object, Runtime

FORWARD = (
    "encodeBatchToCommandBuffer:primaryImages:secondaryImages:destinationStates:destinationImages:"
)
STATES = (
    "temporaryResultStateBatchForCommandBuffer:primaryImage:secondaryImage:sourceStates:"
    "destinationImage:"
)
OPERATIONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "Add": np.add,
    "Subtract": np.subtract,
    "Multiply": np.multiply,
}
LEAST, MOST = -0.4, 0.3


class Clamped:
    """Images of a case, and the kernels: the gradient is that of the first image."""

    def __init__(self, s: Session, name: str) -> None:
        self.s, self.a, self.b, self.e = s, *(values(2, 5, 3, 4) for _ in range(3))
        self.kernel = s.kernel(f"MPSCNN{name}")
        set_all(self.kernel, minimumValue=LEAST, maximumValue=MOST)
        for which in ("primary", "secondary"):
            set_all(self.kernel, **{f"{which}StrideInPixelsX": 1, f"{which}StrideInPixelsY": 1})
        form = "initWithDevice:isSecondarySourceFilter:"
        self.gradient = s.kernel(f"MPSCNN{name}Gradient", form, False)
        set_all(self.gradient, secondaryStrideInPixelsX=1, secondaryStrideInPixelsY=1)
        self.first, self.second = s.batch(self.a), s.batch(self.b)
        self.results, self.gradients = (s.blank_batch(*self.a.shape) for _ in range(2))
        self.states: Object = self.kernel.send(
            STATES, s.commands, self.first, self.second, None, self.results
        )

    def encode_forward(self) -> None:
        self.kernel.send(
            FORWARD, self.s.commands, self.first, self.second, self.states, self.results
        )

    def encode_gradient(self) -> None:
        errors = self.s.batch(self.e)
        self.gradient.send(
            BACKWARD, self.s.commands, errors, self.second, self.states, self.gradients
        )


@pytest.mark.parametrize("name", OPERATIONS)
def test_clamped(runtime: Runtime, name: str) -> None:
    with session(runtime) as s:
        it = Clamped(s, name)
        it.encode_forward()
        it.encode_gradient()
        s.run()
        b = it.b.astype(np.float64)

        def result(a: np.ndarray) -> np.ndarray:
            return np.clip(OPERATIONS[name](a, b), np.float32(LEAST), np.float32(MOST))

        np.testing.assert_allclose(s.read_batch(it.results), result(it.a), rtol=1e-6)
        expected = differences(result, it.a, it.e)
        assert (expected == 0).any()
        np.testing.assert_allclose(s.read_batch(it.gradients), expected, rtol=1e-5, atol=1e-6)


def without_the_forward_kernel(s: Session) -> None:
    it = Clamped(s, "Add")
    it.encode_gradient()
    s.run()


def without_a_state(s: Session) -> None:
    it = Clamped(s, "Add")
    set_all(it.gradient, maximumValue=MOST)
    form = "encodeBatchToCommandBuffer:primaryImages:secondaryImages:destinationImages:"
    it.gradient.send(form, s.commands, s.batch(it.e), it.second, it.gradients)


def with_the_state_of_another(s: Session) -> None:
    it = Clamped(s, "Add")
    it.states = Clamped(s, "Multiply").states
    it.encode_gradient()


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        (without_the_forward_kernel, "before the forward kernel with its state"),
        (without_a_state, "wants the state of the forward kernel"),
        (with_the_state_of_another, "was not made by the forward kernel MPSCNNAdd"),
    ],
)
def test_broken_rules(runtime: Runtime, action: Callable[[Session], None], sentence: str) -> None:
    assert sentence in broken(runtime, action)
