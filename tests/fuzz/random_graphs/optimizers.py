"""Optimizers of a program: drawn, as Python text, and by the documented formulas."""

import math
from collections.abc import Callable
from typing import Any

from metadata import beside

from .layer import Options, Text, single, written
from .optimizer import Optimizer


def draw(drawing: Any) -> Options:
    kind = drawing.random.choices(list(RULES), [rule.often for rule in RULES.values()])[0]
    common: Options = {"learning_rate": drawing.choice([0.1, 0.03, 0.01])}
    if drawing.chance(0.25):
        common["gradient_rescale"] = drawing.choice([0.5, 1.7])
    if drawing.chance(0.35):
        common["regularization_type"] = drawing.choice(
            ["l2"] if RULES[kind].decouples_decay else ["l1", "l2"]
        )
        common["regularization_scale"] = drawing.choice([0.01, 0.1])
    if drawing.chance(0.3):
        common["applies_gradient_clipping"] = True
        clipping = drawing.choice(["by_value", "by_norm", "by_global_norm"])
        common["gradient_clipping_type"] = clipping
        common |= {"gradient_clip_max": drawing.choice([0.1, 1.0]), "gradient_clip_min": -0.5}
        common["maximum_clipping_norm"] = drawing.choice([0.1, 1.0])
    return {"kind": kind, "common": common, "own": RULES[kind].draw(drawing)}


def slots(optimizer: Options) -> list[tuple[str, str, float]]:
    return RULES[optimizer["kind"]].slots(optimizer["own"])


def expression(optimizer: Options) -> str:
    descriptor = Text(written("MLCOptimizerDescriptor", **optimizer["common"]))
    return written(RULES[optimizer["kind"]].name, descriptor=descriptor, **optimizer["own"])


def clipped(common: Options, gradients: dict[str, Any],
            rounded: Callable[[Any], Any]) -> dict[str, Any]:  # fmt: skip
    if not common.get("applies_gradient_clipping"):
        return gradients
    kind, most = common["gradient_clipping_type"], single(common["maximum_clipping_norm"])
    if kind == "by_value":
        low, high = single(common["gradient_clip_min"]), single(common["gradient_clip_max"])
        return {name: g.clamp(low, high) for name, g in gradients.items()}
    norms = {name: float(g.norm()) for name, g in gradients.items()}
    if kind == "by_global_norm":
        norms = dict.fromkeys(norms, math.sqrt(sum(n**2 for n in norms.values())))
    return {
        n: rounded(g * (most / norms[n])) if norms[n] > most else g for n, g in gradients.items()
    }


def update(t: Any, optimizer: Options, parameters: dict[str, Any], gradients: dict[str, Any],
           buffers: dict[str, dict[str, Any]], step: int,
           rounded: Callable[[Any], Any] = lambda g: g) -> None:  # fmt: skip
    """One step of all parameters, in place; `step` counts from 1, and `rounded` is what rounding
    makes of a gradient that is clipped by its norm."""
    common, rule = optimizer["common"], RULES[optimizer["kind"]]
    rate = single(common["learning_rate"])
    scale = single(common.get("regularization_scale", 0))
    own = {key: single(value) for key, value in optimizer["own"].items()}
    for name, g in clipped(common, gradients, rounded).items():
        p, kept = parameters[name], buffers.setdefault(name, {})
        g = g * single(common.get("gradient_rescale", 1))
        decay, kind = 0, common.get("regularization_type")
        if kind == "l1":
            g = g + scale * p.sign()
        elif kind == "l2" and rule.decouples_decay:
            decay = rate * scale * p
        elif kind == "l2":
            g = g + scale * p
        p -= decay + rule.step(t, g, kept, rate, own, step)


# --- SGD


def draw_sgd(drawing: Any) -> Options:
    momentum = drawing.choice([0.0, 0.5, 0.9])
    return {"momentum_scale": momentum, "uses_nesterov_momentum": drawing.chance(0.4)}


def sgd(t: Any, g: Any, kept: dict[str, Any], rate: float, own: dict[str, float],
        step: int) -> Any:  # fmt: skip
    momentum = own["momentum_scale"]
    if momentum == 0:
        return rate * g
    if own["uses_nesterov_momentum"]:
        kept["v"] = momentum * kept.get("v", 0) + g
        return rate * (g + momentum * kept["v"])
    kept["v"] = momentum * kept.get("v", 0) + rate * g
    return kept["v"]


# --- Adam


def draw_adam(drawing: Any) -> Options:
    own = {"beta1": drawing.choice([0.8, 0.9]), "beta2": drawing.choice([0.9, 0.999])}
    return own | {"epsilon": drawing.choice([1e-8, 1e-3]), "uses_amsgrad": drawing.chance(0.3)}


def slots_of_adam(own: Options) -> list[tuple[str, str, float]]:
    found = [("m", "normal", 0.3), ("v", "positive", 1.0)]
    return found + ([("x", "positive", 1.0)] if own["uses_amsgrad"] else [])


def adam(t: Any, g: Any, kept: dict[str, Any], rate: float, own: dict[str, float],
         step: int) -> Any:  # fmt: skip
    b1, b2 = own["beta1"], own["beta2"]
    kept["m"] = b1 * kept.get("m", 0) + (1 - b1) * g
    kept["v"] = b2 * kept.get("v", 0) + (1 - b2) * g * g
    under = kept["v"]
    if own["uses_amsgrad"]:
        under = kept["x"] = t.maximum(kept.get("x", 0 * under), under)
    scale = rate * math.sqrt(1 - b2**step) / (1 - b1**step)
    return scale * kept["m"] / (under.sqrt() + own["epsilon"])


# By what a program calls it. A new class has its entry beside its tests: `DRAWN` of a file of
# tests/optimizers.
RULES: dict[str, Optimizer] = {
    "sgd": Optimizer(
        "MLCSGDOptimizer",
        draw_sgd,
        lambda own: [("v", "normal", 0.3)] if own["momentum_scale"] else [],
        sgd,
        often=2,
    ),
    "adam": Optimizer("MLCAdamOptimizer", draw_adam, slots_of_adam, adam),
    "adamw": Optimizer("MLCAdamWOptimizer", draw_adam, slots_of_adam, adam, decouples_decay=True),
} | beside("optimizers", "DRAWN")
