"""Losses of the doubles whose gradient is a kernel of its own, and the first gradient of all."""

from collections.abc import Callable

import numpy as np
import pytest
from kernel_pairs import differences, run_forward, set_all
from loss_cases import CASES, FORWARD, GRADIENT, WEIGHT, arrays, loss_kernel, reported
from mps_session import STATES, Session, broken, session, values
from objective_c import Object, Runtime


@pytest.fixture(autouse=True)
def kernels_give_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers say so of neither kernel."""
    monkeypatch.setenv("APPLE_DOUBLE_READINGS", "lenient")


def kernels(s: Session, name: str, reduction: int, across: bool) -> tuple[Object, Object]:
    forward, gradient = (
        loss_kernel(s, kernel, name, reduction, across)
        for kernel in ("MPSNNForwardLoss", "MPSNNLossGradient")
    )
    return forward, gradient


@pytest.mark.parametrize(("name", "reduction", "across"), CASES)
@pytest.mark.parametrize("by_labels", [False, True])
def test_loss(runtime: Runtime, name: str, reduction: int, across: bool, by_labels: bool) -> None:
    y, t, w = arrays(name, reduction, values)
    expected = reported(name, reduction, across, y, t, w)
    e = values(*expected.shape)
    with session(runtime) as s:
        forward, gradient = kernels(s, name, reduction, across)
        set_all(gradient, computeLabelGradients=by_labels)
        sources, labels = s.batch(y), s.batch(t)
        weights = None if w is None else s.batch(w)
        results, gradients = s.blank_batch(*expected.shape), s.blank_batch(*y.shape)
        states = forward.send(STATES, s.commands, sources, None, results)
        forward.send(FORWARD, s.commands, sources, labels, weights, states, results)
        gradient.send(GRADIENT, s.commands, s.batch(e), sources, labels, weights, states, gradients)
        s.run()
        np.testing.assert_allclose(s.read_batch(results), expected, rtol=1e-5, atol=1e-6)
        if by_labels:
            found = differences(lambda at: reported(name, reduction, across, y, at, w), t, e)
        else:
            found = differences(lambda at: reported(name, reduction, across, at, t, w), y, e)
        np.testing.assert_allclose(s.read_batch(gradients), found, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("with_state", [False, True])
def test_the_state_has_the_numbers_of_the_forward_kernel(
    runtime: Runtime, with_state: bool
) -> None:
    y, t, e = values(1, 1, 2, 2), values(1, 1, 2, 2), np.ones((1, 1, 1, 1), np.float32)
    with session(runtime) as s:
        forward, gradient = kernels(s, "mean squared error", 1, False)
        set_all(gradient, weight=4)
        sources, labels, results = s.batch(y), s.batch(t), s.blank_batch(1, 1, 1, 1)
        states = None
        if with_state:
            states = forward.send(STATES, s.commands, sources, None, results)
            forward.send(FORWARD, s.commands, sources, labels, None, states, results)
        gradients = s.blank_batch(*y.shape)
        gradient.send(GRADIENT, s.commands, s.batch(e), sources, labels, None, states, gradients)
        s.run()
        weight = WEIGHT if with_state else 4
        np.testing.assert_allclose(s.read_batch(gradients), 2 * weight * (y - t), rtol=1e-6)


def test_the_first_gradient_is_one(runtime: Runtime) -> None:
    x = values(2, 5, 2, 3)
    with session(runtime) as s:
        ones = run_forward(s, s.kernel("MPSNNInitialGradient"), x, x.shape)
    np.testing.assert_array_equal(ones, np.ones_like(x))


def without_labels(s: Session) -> None:
    forward, _ = kernels(s, "huber", 1, False)
    run_forward(s, forward, values(1, 5, 2, 2), (1, 5, 2, 2))


def with_another_size_of_loss(s: Session) -> None:
    _, gradient = kernels(s, "huber", 0, False)
    y, e = s.batch(values(1, 5, 2, 2)), s.batch(values(1, 1, 1, 1))
    gradient.send(GRADIENT, s.commands, e, y, y, None, None, s.blank_batch(1, 5, 2, 2))


def with_a_state_of_another(s: Session) -> None:
    _, gradient = kernels(s, "huber", 0, False)
    y = s.batch(values(1, 5, 2, 2))
    states = s.kernel("MPSNNReshape").send(STATES, s.commands, y, None, y)
    gradient.send(GRADIENT, s.commands, y, y, y, None, states, s.blank_batch(1, 5, 2, 2))


@pytest.mark.parametrize(
    ("action", "sentence"),
    [
        (without_labels, "MPSNNForwardLoss: is encoded with labels"),
        (with_another_size_of_loss, "a loss has not the size of what is reported"),
        (with_a_state_of_another, "its state was not made by MPSNNForwardLoss"),
    ],
)
def test_broken_rules(runtime: Runtime, action: Callable[[Session], None], sentence: str) -> None:
    assert sentence in broken(runtime, action)
