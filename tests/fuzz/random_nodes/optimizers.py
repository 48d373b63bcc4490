"""Optimizers that a program's data sources encode; optimizers.py of random_graphs computes them."""

from typing import Any

from random_graphs.layer import Options, Text

from .writing import call

CLASSES = {
    "sgd": "MPSNNOptimizerStochasticGradientDescent", "adam": "MPSNNOptimizerAdam",
    "rmsprop": "MPSNNOptimizerRMSProp",
}  # fmt: skip
# What a data source does after the run, with the same rate.
DESCENT = {"momentum_scale": 0.0, "uses_nesterov_momentum": False}


def draw(drawing: Any) -> Options:
    kind = drawing.choice(["sgd", "sgd", "adam", "rmsprop"])
    common: Options = {"learning_rate": drawing.choice([0.1, 0.03, 0.01])}
    if drawing.chance(0.25):
        common["gradient_rescale"] = drawing.choice([0.5, 1.7])
    if drawing.chance(0.35):
        common["regularization_type"] = drawing.choice(["l1", "l2"])
        common["regularization_scale"] = drawing.choice([0.01, 0.1])
    if drawing.chance(0.3):
        common["apply_gradient_clipping"] = True
        common |= {"gradient_clip_max": drawing.choice([0.1, 1.0]), "gradient_clip_min": -0.5}
    if kind == "sgd":
        own = {"momentum_scale": drawing.choice([0.0, 0.0, 0.5, 0.9])}
        own |= {"uses_nesterov_momentum": drawing.chance(0.4)}
    elif kind == "rmsprop":
        own = {"alpha": drawing.choice([0.9, 0.99]), "epsilon": drawing.choice([1e-8, 1e-3])}
    else:
        own = {"beta1": drawing.choice([0.8, 0.9]), "beta2": drawing.choice([0.9, 0.999])}
        own |= {"epsilon": drawing.choice([1e-8, 1e-3]), "uses_amsgrad": drawing.chance(0.3)}
    return {"kind": kind, "common": common, "own": own}


def rule(optimizer: Options, style: str) -> Options:
    """As random_graphs knows it: clipping is by value there, and has another name."""
    common = dict(optimizer["common"])
    if style == "cpu":
        return {"kind": "sgd", "common": {"learning_rate": common["learning_rate"]}, "own": DESCENT}
    if common.pop("apply_gradient_clipping", False):
        common |= {"applies_gradient_clipping": True, "gradient_clipping_type": "by_value"}
        common["maximum_clipping_norm"] = 1.0
    own = dict(optimizer["own"])
    if optimizer["kind"] == "rmsprop":
        own |= {"momentum_scale": 0.0, "is_centered": False}
    return {"kind": optimizer["kind"], "common": common, "own": own}


def is_linear(optimizer: Options) -> bool:
    """Whether one image's update after another is that of the sum."""
    own, common = optimizer["own"], set(optimizer["common"])
    return own.get("momentum_scale") == 0 and common <= {"learning_rate", "gradient_rescale"}


def slots(optimizer: Options) -> list[str]:
    """Of vectors that an encoding is given."""
    own = optimizer["own"]
    if optimizer["kind"] == "sgd":
        return ["input_momentum"] if own["momentum_scale"] else []
    if optimizer["kind"] == "rmsprop":
        return ["input_sum_of_squares"]
    return ["input_momentum", "input_velocity"] + ["maximum_velocity"] * own["uses_amsgrad"]


def expression(optimizer: Options) -> str:
    own = {key: value for key, value in optimizer["own"].items() if key != "uses_amsgrad"}
    if "alpha" in own:
        own["decay"] = own.pop("alpha")
    if "uses_nesterov_momentum" in own:
        own["use_nesterov_momentum"] = own.pop("uses_nesterov_momentum")
    if optimizer["kind"] == "adam":
        own["time_step"] = 0
    descriptor = Text(call("MPSNNOptimizerDescriptor", **optimizer["common"]))
    given = {"device": Text("on"), **own, "optimizer_descriptor": descriptor}
    return call(CLASSES[optimizer["kind"]], **given)
