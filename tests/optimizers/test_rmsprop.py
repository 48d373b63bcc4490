"""RMSProp against its formula, and how the fuzz draws and computes it."""

import numpy as np
import pytest
from given_gradients import Given
from random_graphs.optimizer import Optimizer
from updates import checks, f32

import traingraph as tg
from harness import everywhere


def rmsprop(p, g, s, t, lr, momentum=0.0, alpha=0.99, eps=1e-8, centered=False):
    alpha, eps = f32(alpha), f32(eps)
    n = s.setdefault("n", np.zeros_like(p))
    n[...] = alpha * n + (1 - alpha) * g * g
    under = n
    if centered:
        mean = s.setdefault("mean", np.zeros_like(p))
        mean[...] = alpha * mean + (1 - alpha) * g
        under = np.maximum(n - mean**2, 0)
    step = s.setdefault("step", np.zeros_like(p))
    step[...] = momentum * step - lr * g / (np.sqrt(under) + eps)
    return p + step


RULES = {
    "rmsprop": (lambda d: tg.MLCRMSPropOptimizer(descriptor=d), rmsprop),
    "rmsprop centered": (
        lambda d: tg.MLCRMSPropOptimizer(
            descriptor=d, momentum_scale=0.5, alpha=0.9, epsilon=1e-3, is_centered=True
        ),
        lambda *a, **k: rmsprop(*a, momentum=0.5, alpha=0.9, eps=1e-3, centered=True, **k),
    ),
}

test_updates_follow_the_formulas = checks(RULES)


@everywhere
@pytest.mark.parametrize("momentum", [0.0, 0.5])
@pytest.mark.parametrize("alpha", [0.0, 0.25, 0.5, 0.75, 0.99, 1.0])
def test_a_variance_that_rounding_makes_negative_is_0(alpha, momentum, device):
    """Of constant gradients it goes to 0, on either side where float32 rounds."""
    gradients = np.random.default_rng(6).uniform(-4, 4, 64).astype(np.float32)
    optimizer = tg.MLCRMSPropOptimizer(
        learning_rate=0.125, momentum_scale=momentum, alpha=alpha, epsilon=1.0, is_centered=True
    )
    net = Given(optimizer, [64], device)
    rule = {"momentum": momentum, "alpha": alpha, "eps": 1.0, "centered": True}
    right, kept = np.zeros(64), {}
    for step in range(60):
        net.step(gradients)
        right = rmsprop(right, gradients.astype(np.float64), kept, step, 0.125, **rule)
    # A root that rounding has left is at most that of a few units of float32.
    np.testing.assert_allclose(net.values()[0], right, rtol=5e-3)


# --- for the fuzz


def draw(drawing):
    own = {"momentum_scale": drawing.choice([0.0, 0.9]), "alpha": drawing.choice([0.9, 0.99])}
    return own | {"epsilon": drawing.choice([1e-8, 1e-3]), "is_centered": drawing.chance(0.4)}


def slots(own):
    found = [("n", "positive", 1.0)]
    found += [("g", "normal", 0.05)] if own["is_centered"] else []
    return found + ([("s", "normal", 0.1)] if own["momentum_scale"] else [])


def step(t, g, kept, rate, own, count):
    alpha = own["alpha"]
    under = kept["n"] = alpha * kept.get("n", 0) + (1 - alpha) * g * g
    if own["is_centered"]:
        kept["g"] = alpha * kept.get("g", 0) + (1 - alpha) * g
        under = (under - kept["g"] ** 2).clamp(min=0)
    kept["s"] = own["momentum_scale"] * kept.get("s", 0) - rate * g / (
        under.sqrt() + own["epsilon"]
    )
    return -kept["s"]


DRAWN = {"rmsprop": Optimizer("MLCRMSPropOptimizer", draw, slots, step)}
