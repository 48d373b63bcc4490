"""Optimizers of a program: drawn, as Python text, and by the documented formulas."""

import math
from collections.abc import Callable
from typing import Any

from .layer import Options, Text, single, written

CLASSES = {
    "sgd": "MLCSGDOptimizer", "adam": "MLCAdamOptimizer", "adamw": "MLCAdamWOptimizer",
    "rmsprop": "MLCRMSPropOptimizer",
}  # fmt: skip


def draw(drawing: Any) -> Options:
    kind = drawing.choice(["sgd", "sgd", "adam", "adamw", "rmsprop"])
    common: Options = {"learning_rate": drawing.choice([0.1, 0.03, 0.01])}
    if drawing.chance(0.25):
        common["gradient_rescale"] = drawing.choice([0.5, 1.7])
    if drawing.chance(0.35):
        common["regularization_type"] = "l2" if kind == "adamw" else drawing.choice(["l1", "l2"])
        common["regularization_scale"] = drawing.choice([0.01, 0.1])
    if drawing.chance(0.3):
        common["applies_gradient_clipping"] = True
        clipping = drawing.choice(["by_value", "by_norm", "by_global_norm"])
        common["gradient_clipping_type"] = clipping
        common |= {"gradient_clip_max": drawing.choice([0.1, 1.0]), "gradient_clip_min": -0.5}
        common["maximum_clipping_norm"] = drawing.choice([0.1, 1.0])
    if kind == "sgd":
        momentum = drawing.choice([0.0, 0.5, 0.9])
        own = {"momentum_scale": momentum, "uses_nesterov_momentum": drawing.chance(0.4)}
    elif kind == "rmsprop":
        own = {"momentum_scale": drawing.choice([0.0, 0.9]), "alpha": drawing.choice([0.9, 0.99])}
        own |= {"epsilon": drawing.choice([1e-8, 1e-3]), "is_centered": drawing.chance(0.4)}
    else:
        own = {"beta1": drawing.choice([0.8, 0.9]), "beta2": drawing.choice([0.9, 0.999])}
        own |= {"epsilon": drawing.choice([1e-8, 1e-3]), "uses_amsgrad": drawing.chance(0.3)}
    return {"kind": kind, "common": common, "own": own}


def slots(optimizer: Options) -> list[tuple[str, str, float]]:
    """What is kept for a parameter, in the order of its buffers: the name that `update` has for it,
    and the kind and scale of numbers that may stand there."""
    own, kind = optimizer["own"], optimizer["kind"]
    if kind == "sgd":
        return [("v", "normal", 0.3)] if own["momentum_scale"] else []
    if kind == "rmsprop":
        found = [("n", "positive", 1.0)]
        found += [("g", "normal", 0.05)] if own["is_centered"] else []
        return found + ([("s", "normal", 0.1)] if own["momentum_scale"] else [])
    found = [("m", "normal", 0.3), ("v", "positive", 1.0)]
    return found + ([("x", "positive", 1.0)] if own["uses_amsgrad"] else [])


def expression(optimizer: Options) -> str:
    descriptor = Text(written("MLCOptimizerDescriptor", **optimizer["common"]))
    return written(CLASSES[optimizer["kind"]], descriptor=descriptor, **optimizer["own"])


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
    common, own = optimizer["common"], optimizer["own"]
    rate = single(common["learning_rate"])
    scale = single(common.get("regularization_scale", 0))
    numbers = {key: single(value) for key, value in own.items()}
    for name, g in clipped(common, gradients, rounded).items():
        p, kept = parameters[name], buffers.setdefault(name, {})
        g = g * single(common.get("gradient_rescale", 1))
        decay, kind = 0, common.get("regularization_type")
        if kind == "l1":
            g = g + scale * p.sign()
        elif kind == "l2" and optimizer["kind"] == "adamw":
            decay = rate * scale * p
        elif kind == "l2":
            g = g + scale * p
        if optimizer["kind"] == "sgd":
            p -= sgd(g, kept, rate, numbers)
        elif optimizer["kind"] == "rmsprop":
            p += rmsprop(g, kept, rate, numbers)
        else:
            p -= decay + adam(t, g, kept, rate, numbers, step)


def sgd(g: Any, kept: dict[str, Any], rate: float, n: dict[str, float]) -> Any:
    momentum = n["momentum_scale"]
    if momentum == 0:
        return rate * g
    if n["uses_nesterov_momentum"]:
        kept["v"] = momentum * kept.get("v", 0) + g
        return rate * (g + momentum * kept["v"])
    kept["v"] = momentum * kept.get("v", 0) + rate * g
    return kept["v"]


def adam(t: Any, g: Any, kept: dict[str, Any], rate: float, n: dict[str, float],
         step: int) -> Any:  # fmt: skip
    b1, b2 = n["beta1"], n["beta2"]
    kept["m"] = b1 * kept.get("m", 0) + (1 - b1) * g
    kept["v"] = b2 * kept.get("v", 0) + (1 - b2) * g * g
    under = kept["v"]
    if n["uses_amsgrad"]:
        under = kept["x"] = t.maximum(kept.get("x", 0 * under), under)
    scale = rate * math.sqrt(1 - b2**step) / (1 - b1**step)
    return scale * kept["m"] / (under.sqrt() + n["epsilon"])


def rmsprop(g: Any, kept: dict[str, Any], rate: float, n: dict[str, float]) -> Any:
    alpha = n["alpha"]
    under = kept["n"] = alpha * kept.get("n", 0) + (1 - alpha) * g * g
    if n["is_centered"]:
        kept["g"] = alpha * kept.get("g", 0) + (1 - alpha) * g
        under = (under - kept["g"] ** 2).clamp(min=0)
    step = n["momentum_scale"] * kept.get("s", 0) - rate * g / (under.sqrt() + n["epsilon"])
    kept["s"] = step
    return step
