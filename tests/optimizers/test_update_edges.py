"""What clipping and the rules of optimizers do at the ends of their numbers, in every order."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from given_gradients import Given

import traingraph as tg
from harness import everywhere

INF = float("inf")
LARGEST, LEAST = float(np.finfo(np.float32).max), float(np.finfo(np.float32).tiny)
G = np.float32([3, -4, 0.5])


def clipped(device: str, gradients: list[np.ndarray], **clipping: Any) -> list[np.ndarray]:
    """What a step of plain SGD at rate 1 takes off."""
    optimizer = tg.MLCSGDOptimizer(learning_rate=1.0, applies_gradient_clipping=True, **clipping)
    net = Given(optimizer, [len(g) for g in gradients], device)
    net.step(*gradients)
    return [-value for value in net.values()]


# Custom norm, limit, and the factor of all gradients. A custom norm of 0 is none.
CUSTOM = [
    (0.5, 1.0, 1.0),
    (1.0, 1.0, 1.0),
    (np.nextafter(np.float32(1), np.float32(2)), 1.0, 1.0),
    (2.0, 1.0, 0.5),
    (1e6, 1.0, 1e-6),
    (0.5, 0.0, 0.0),
    (2.0, 0.0, 0.0),
    (LEAST, 0.0, 0.0),
    (LARGEST, 0.0, 0.0),
    (LEAST, LEAST, 1.0),
    (LEAST, LARGEST, 1.0),
    (LARGEST, LARGEST, 1.0),
    (LARGEST, LARGEST / 4, 0.25),
    (LARGEST, INF, 1.0),
    (LEAST, INF, 1.0),
]


@everywhere
@pytest.mark.parametrize(("norm", "limit", "factor"), CUSTOM)
def test_a_custom_global_norm(norm: float, limit: float, factor: float, device: str) -> None:
    """Above the limit all gradients shrink by it; at or below it they are left alone."""
    gradients = [G, G[:1], np.zeros(2, np.float32)]
    found = clipped(
        device, gradients, gradient_clipping_type="by_global_norm",
        maximum_clipping_norm=limit, custom_global_norm=norm,
    )  # fmt: skip
    for got, gradient in zip(found, gradients, strict=True):
        if factor in (0.0, 0.25, 0.5, 1.0) and norm != CUSTOM[2][0]:
            np.testing.assert_array_equal(got, factor * gradient)
        else:
            np.testing.assert_allclose(got, factor * gradient, rtol=1e-6)


@everywhere
def test_a_custom_global_norm_is_not_that_of_the_gradients(device: str) -> None:
    """Which may be anything."""
    for scale in (1e-30, 1.0, 1e30):
        (found,) = clipped(
            device, [G * np.float32(scale)], gradient_clipping_type="by_global_norm",
            maximum_clipping_norm=1.0, custom_global_norm=4.0,
        )  # fmt: skip
        np.testing.assert_array_equal(found, G * np.float32(scale) / 4)


# Two gradients of these lengths, the limit, and the factor of both.
JOINT = [
    ((0.0, 0.0), 1.0, 1.0),
    ((0.0, 0.0), 0.0, 0.0),
    ((3.0, 4.0), 5.0, 1.0),
    ((3.0, 4.0), 5.5, 1.0),
    ((3.0, 4.0), 1.0, 0.2),
    ((3.0, 4.0), 0.0, 0.0),
    ((3.0, 4.0), INF, 1.0),
    ((0.0, 4.0), 1.0, 0.25),
    ((4.0, 0.0), 1.0, 0.25),
    ((3e25, 4e25), 1e25, 0.2),
    ((3e25, 1e-25), 1e25, 1 / 3),
    ((3e-25, 4e-25), 1e-25, 0.2),
    ((2e38, 1e38), INF, 1.0),
    ((2e38, 1e38), 1e38, 1 / 5**0.5),
]


@everywhere
@pytest.mark.parametrize(("lengths", "limit", "factor"), JOINT)
def test_the_global_norm_of_two(
    lengths: tuple[float, float], limit: float, factor: float, device: str
) -> None:
    gradients = [np.float32(lengths[0] * np.array([1.0])), np.float32(lengths[1] * np.eye(3)[1])]
    found = clipped(
        device, gradients, gradient_clipping_type="by_global_norm", maximum_clipping_norm=limit
    )
    for got, gradient in zip(found, gradients, strict=True):
        np.testing.assert_allclose(got, factor * gradient.astype(np.float64), rtol=2e-6)


@everywhere
def test_norms_of_their_own(device: str) -> None:
    """By norm, each tensor has its own."""
    gradients = [G, np.zeros(2, np.float32), np.float32([1e30, 0]), np.float32([0, 1e-30])]
    found = clipped(device, gradients, gradient_clipping_type="by_norm", maximum_clipping_norm=1.0)
    right = [G / np.linalg.norm(G), gradients[1], np.float32([1, 0]), gradients[3]]
    for got, expected in zip(found, right, strict=True):
        np.testing.assert_allclose(got, expected, rtol=2e-6)


@everywhere
@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 0.0), (-INF, INF), (-INF, 0.25), (-0.25, INF), (1.0, 2.0), (-3, -3)]
)
def test_clipping_by_value(low: float, high: float, device: str) -> None:
    (found,) = clipped(
        device, [G], gradient_clipping_type="by_value",
        gradient_clip_min=low, gradient_clip_max=high,
    )  # fmt: skip
    np.testing.assert_array_equal(found, np.clip(G, low, high))


# --- roots and divisions -------------------------------------------------------------------------

Rule = Callable[..., tg.MLCOptimizer]
RULES: dict[str, Rule] = {
    "adam": tg.MLCAdamOptimizer,
    "amsgrad": lambda **k: tg.MLCAdamOptimizer(**k, uses_amsgrad=True),
    "adamw": tg.MLCAdamWOptimizer,
    "rmsprop": tg.MLCRMSPropOptimizer,
    "rmsprop with momentum": lambda **k: tg.MLCRMSPropOptimizer(**k, momentum_scale=0.5),
    "centred rmsprop": lambda **k: tg.MLCRMSPropOptimizer(**k, is_centered=True),
}


@everywhere
@pytest.mark.parametrize("epsilon", [0.0, 1e-8])
@pytest.mark.parametrize("name", RULES)
def test_no_gradient_moves_nothing(name: str, epsilon: float, device: str) -> None:
    """The root of a mean square of 0 divides 0."""
    net = Given(RULES[name](learning_rate=0.5, epsilon=epsilon), [3], device, start=1.0)
    for _ in range(3):
        net.step(np.zeros(3, np.float32))
    np.testing.assert_array_equal(net.values()[0], 1)


@everywhere
@pytest.mark.parametrize("name", [name for name in RULES if "centred" not in name])
def test_squares_beyond_the_type(name: str, device: str) -> None:
    """A square that is infinite divides to a step of 0; one that vanishes leaves epsilon alone."""
    net = Given(RULES[name](learning_rate=0.5, epsilon=1e-8), [4], device, start=1.0)
    net.step(np.float32([1e30, -1e20, 1e-30, -1e-42]))
    after = net.values()[0]
    np.testing.assert_array_equal(after, 1)
    net.step(np.float32([1, 1, 1, 1]))
    after = net.values()[0]
    np.testing.assert_array_equal(after[:2], 1)
    assert (after[2:] < 1).all()
    assert np.isfinite(after).all()


@everywhere
@pytest.mark.parametrize("name", ["adam", "amsgrad", "adamw"])
@pytest.mark.parametrize("keeps", [0.0, 0.9999999])
def test_moments_at_the_ends_of_their_shares(keeps: float, name: str, device: str) -> None:
    """The correction divides by 1 - beta**t, which is small at first; a step is the rate, then."""
    net = Given(RULES[name](learning_rate=0.5, beta1=keeps, beta2=keeps, epsilon=0.0), [3], device)
    net.step(G)
    np.testing.assert_allclose(net.values()[0], -0.5 * np.sign(G), rtol=2e-3)


@everywhere
@pytest.mark.parametrize("momentum", [0.0, 1.0])
@pytest.mark.parametrize("nesterov", [False, True])
def test_momentum_at_the_ends_of_its_share(nesterov: bool, momentum: float, device: str) -> None:
    optimizer = tg.MLCSGDOptimizer(
        learning_rate=0.5, momentum_scale=momentum, uses_nesterov_momentum=nesterov
    )
    net = Given(optimizer, [3], device)
    for _ in range(3):
        net.step(G)
    steps = 3 if momentum == 0 else 9 if nesterov else 6
    np.testing.assert_array_equal(net.values()[0], -0.5 * steps * G)
