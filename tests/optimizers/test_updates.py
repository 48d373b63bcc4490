"""Optimizers against the formulas of the documentation, written again, in NumPy."""

import numpy as np
import pytest
from updates import (
    BOUNDS,
    OPTIONS,
    STEPS,
    Problem,
    checks,
    descriptor,
    expected,
    f32,
    prepared,
    trained,
)

import traingraph as tg


def sgd(p, g, s, t, lr, momentum=0.0, nesterov=False):
    if momentum == 0:
        return p - lr * g
    v = s.setdefault("v", np.zeros_like(p))
    if nesterov:
        v[...] = momentum * v + g
        return p - lr * (g + momentum * v)
    v[...] = momentum * v + lr * g
    return p - v


def adam(p, g, s, t, lr, amsgrad=False, decay=0.0, b1=0.9, b2=0.999, eps=1e-8):
    b1, b2, eps = (float(np.float32(v)) for v in (b1, b2, eps))
    m = s.setdefault("m", np.zeros_like(p))
    v = s.setdefault("v", np.zeros_like(p))
    m[...] = b1 * m + (1 - b1) * g
    v[...] = b2 * v + (1 - b2) * g * g
    under = v
    if amsgrad:
        largest = s.setdefault("max", np.zeros_like(p))
        largest[...] = np.maximum(largest, v)
        under = largest
    rate = lr * np.sqrt(1 - b2**t) / (1 - b1**t)
    return p - rate * m / (np.sqrt(under) + eps) - lr * decay * p


RULES = {
    "sgd": (lambda d: tg.MLCSGDOptimizer(descriptor=d), sgd),
    "momentum": (
        lambda d: tg.MLCSGDOptimizer(
            descriptor=d, momentum_scale=0.75, uses_nesterov_momentum=False
        ),
        lambda *a, **k: sgd(*a, momentum=0.75, **k),
    ),
    "nesterov": (
        lambda d: tg.MLCSGDOptimizer(
            descriptor=d, momentum_scale=0.75, uses_nesterov_momentum=True
        ),
        lambda *a, **k: sgd(*a, momentum=0.75, nesterov=True, **k),
    ),
    "adam": (lambda d: tg.MLCAdamOptimizer(descriptor=d), adam),
    "amsgrad": (
        lambda d: tg.MLCAdamOptimizer(
            descriptor=d, beta1=0.9, beta2=0.999, epsilon=1e-8, uses_amsgrad=True, time_step=1
        ),
        lambda *a, **k: adam(*a, amsgrad=True, **k),
    ),
}

test_updates_follow_the_formulas = checks(RULES)


@pytest.mark.parametrize("decay", [0.0, 0.25])
@pytest.mark.parametrize(("device", "dtype"), [("reference", "float64"), ("cpu", "float32")])
def test_adamw_decays_apart_from_the_gradient(decay, device, dtype):
    problem = Problem()
    options = {"regularization_type": "l2", "regularization_scale": decay} if decay else {}
    got = trained(
        problem, tg.MLCAdamWOptimizer(descriptor=descriptor(0.0625, options)), device, dtype
    )
    want = expected(problem, lambda *a: adam(*a, decay=decay), 0.0625, {})
    for have, value in zip(got, want, strict=True):
        np.testing.assert_allclose(have, value, rtol=BOUNDS[dtype], atol=BOUNDS[dtype])


def test_adamw_refuses_l1():
    with pytest.raises(ValueError, match=r"AdamW.*L1"):
        tg.MLCAdamWOptimizer(
            descriptor=descriptor(0.1, {"regularization_type": "l1", "regularization_scale": 1.0})
        )


def test_learning_rate_and_clipping_change_between_steps():
    problem = Problem()
    options = {**OPTIONS["clip by value"], "applies_gradient_clipping": False}
    optimizer = tg.MLCSGDOptimizer(descriptor=descriptor(0.0625, options))

    def change(step):
        optimizer.applies_gradient_clipping = step >= 2
        optimizer.learning_rate = 0.0625 / (step + 1)

    got = trained(problem, optimizer, "reference", "float64", change)
    values = [problem.w, problem.b]
    for step in range(STEPS):
        now = {**options, "applies_gradient_clipping": step >= 2}
        gradients = prepared(problem.gradients(*values), values, now)
        rate = f32(0.0625 / (step + 1))
        values = [p - rate * g for p, g in zip(values, gradients, strict=True)]
    for have, want in zip(got, values, strict=True):
        np.testing.assert_allclose(have, want, rtol=1e-12, atol=1e-12)
