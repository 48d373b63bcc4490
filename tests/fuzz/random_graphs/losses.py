"""Losses of a program: drawn, as Python text, and computed."""

from typing import Any

from .layer import Options, Shape, Text, single, written

KINDS = [
    "mean_absolute_error", "mean_squared_error", "huber", "sigmoid_cross_entropy",
    "hinge", "cosine_distance", "softmax_cross_entropy",
]  # fmt: skip
OVER_CLASSES = ("softmax_cross_entropy", "categorical_cross_entropy", "cosine_distance")


def draw(drawing: Any, source: str, shape: Shape) -> Options:
    kinds = KINDS if len(shape) > 1 else KINDS[:-2]
    loss = {"source": source, "type": drawing.choice(kinds)}
    loss["reduction_type"] = drawing.choice(["none", "sum", "mean", "mean"])
    if drawing.chance(0.2):
        loss["weight"] = drawing.choice([0.5, 2.3])
    if loss["type"] == "huber":
        loss["delta"] = drawing.choice([1.0, 0.4])
    if loss["type"].endswith("entropy") and drawing.chance(0.4):
        loss["label_smoothing"] = drawing.choice([0.1, 0.3])
    loss["classes"] = loss["type"] == "softmax_cross_entropy" and drawing.chance(0.5)
    loss["weighted"] = drawing.chance(0.3)
    return loss


def expression(loss: Options, weights: str) -> str:
    keys = ("type", "reduction_type", "weight", "delta", "label_smoothing", "epsilon",
            "class_count")  # fmt: skip
    given = {key: loss[key] for key in keys if key in loss}
    descriptor = Text(written("MLCLossDescriptor", **given))
    tensors = {"weights": Text(weights)} if loss["weighted"] else {}
    return written("MLCLossLayer", descriptor=descriptor, **tensors)


def label(loss: Options, shape: Shape) -> tuple[Shape, str]:
    """Its shape and kind of numbers."""
    if loss["classes"]:
        return [shape[0], *shape[2:]], "class"
    return list(shape), "uniform" if loss["type"].endswith("entropy") else "normal"


def weight_shape(loss: Options, shape: Shape) -> Shape:
    """One weight per value that reduction none gives."""
    return [shape[0], *shape[2:]] if loss["type"] in OVER_CLASSES else list(shape)


def one_hot(t: Any, classes: Any, y: Any) -> Any:
    found = t.nn.functional.one_hot(classes.long().clamp(min=0), y.shape[1])
    return found.movedim(-1, 1).to(y.dtype)


def compute(t: Any, loss: Options, y: Any, labels: Any, weights: Any) -> Any:
    """Reduced; of reduction none, all values."""
    F = t.nn.functional  # noqa: N806
    smoothing = single(loss.get("label_smoothing", 0))
    kind = loss["type"]
    if kind == "softmax_cross_entropy":
        count = loss.get("class_count") or y.shape[1]
        if loss["classes"]:
            hot = one_hot(t, labels, y)
            smooth = hot * (1 - smoothing) + smoothing / count
            labels = smooth * (labels >= 0).unsqueeze(1)
        else:
            labels = labels * (1 - smoothing) + smoothing / count
        values = -(labels * t.log_softmax(y, 1)).sum(1)
    elif kind == "categorical_cross_entropy":
        if loss["classes"]:
            labels = one_hot(t, labels, y) * (labels >= 0).unsqueeze(1)
        values = -(labels * y.log()).sum(1)
    elif kind == "log":
        epsilon = single(loss.get("epsilon", 1e-7))
        values = -labels * (y + epsilon).log() - (1 - labels) * (1 - y + epsilon).log()
    elif kind == "sigmoid_cross_entropy":
        labels = labels * (1 - smoothing) + smoothing / 2
        values = F.binary_cross_entropy_with_logits(y, labels, reduction="none")
    elif kind == "hinge":
        values = (1 - (2 * labels - 1) * y).relu()
    elif kind == "cosine_distance":
        values = 1 - (y * labels).sum(1)
    elif kind == "huber":
        delta, error = single(loss["delta"]), (y - labels).abs()
        values = t.where(error <= delta, error**2 / 2, delta * (error - delta / 2))
    else:
        values = (y - labels).abs() if kind == "mean_absolute_error" else (y - labels) ** 2
    values = values * single(loss.get("weight", 1))
    values = values if weights is None else values * weights
    return {"none": lambda: values, "sum": values.sum, "mean": values.mean}[
        loss["reduction_type"]
    ]()
