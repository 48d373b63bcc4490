"""The loss that ends a program: by labels, by an image of labels, or a gradient that comes in."""

from typing import Any

from random_graphs import losses
from random_graphs.layer import Options, Shape, Text, need, single

from .writing import call

# Those of ML Compute, by its names, and those whose predictions are probabilities.
SHARED = {
    "mean_absolute_error": "mean_absolute_error", "mean_squared_error": "mean_squared_error",
    "huber": "huber", "sigmoid_cross_entropy": "sigmoid_cross_entropy",
    "soft_max_cross_entropy": "softmax_cross_entropy",
}  # fmt: skip
PROBABILITIES = ["categorical_cross_entropy", "log"]
OTHERS = ["hinge", "cosine_distance", "kullback_leibler_divergence"]


def draw(drawing: Any, source: str, shape: Shape) -> Options:
    form = drawing.choice(["labels", "labels", "image", "image", "seed"])
    if form == "seed":
        return {"source": source, "form": form}
    kinds = [*SHARED, *OTHERS]
    if any(name in drawing.layer_of(source) for name in ("NeuronSigmoid", "NNSoftMax")):
        kinds += 4 * PROBABILITIES
    loss: Options = {"source": source, "form": form, "type": drawing.choice(kinds)}
    loss["reduction_type"] = drawing.choice(["none", "sum", "mean", "sum_by_non_zero_weights"])
    if loss["type"] == "cosine_distance":
        loss["reduction_type"] = "sum"
    loss["weighted"] = loss["reduction_type"].startswith("sum_by") or drawing.chance(0.3)
    if loss["weighted"] and loss["type"] == "soft_max_cross_entropy" and drawing.chance(0.5):
        loss["class_weights"] = True
    loss["across"] = loss["reduction_type"] != "none" and drawing.chance(0.5)
    if drawing.chance(0.2):
        loss["weight"] = drawing.choice([0.5, 2.3])
    if loss["type"] == "huber":
        loss["delta"] = drawing.choice([1.0, 0.4])
    if loss["type"] == "log":
        loss["epsilon"] = drawing.choice([1e-3, 0.1])
    if loss["type"] in ("soft_max_cross_entropy", "sigmoid_cross_entropy") and drawing.chance(0.4):
        loss["label_smoothing"] = drawing.choice([0.1, 0.3])
    signed = loss["type"] in ("mean_absolute_error", "mean_squared_error", "huber")
    if form == "image" and signed and drawing.chance(0.3):
        # Labels that a node makes, which then have a gradient as well.
        made = [n for n in drawing.flows if n.startswith("n") and drawing.shapes[n] == shape]
        need(bool(made))
        loss["labels_from"] = drawing.choice(made)
    return loss


def label(loss: Options, shape: Shape) -> tuple[Shape, str]:
    """Its shape and kind of numbers."""
    signed = ("mean_absolute_error", "mean_squared_error", "huber", "cosine_distance")
    return list(shape), "normal" if loss["type"] in signed else "uniform"


def weight_shape(loss: Options, shape: Shape) -> Shape:
    """One per value, or one per class."""
    return list(shape) if loss.get("class_weights") else value_shape(loss, shape)


def value_shape(loss: Options, shape: Shape) -> Shape:
    """Of what reduction none gives."""
    return [shape[0], 1, *shape[2:]] if loss["type"].startswith("soft_max") else list(shape)


def image_shape(loss: Options, shape: Shape) -> Shape:
    """Of the loss."""
    none = loss["reduction_type"] == "none"
    return value_shape(loss, shape) if none else [shape[0], 1, 1, 1]


def descriptor(loss: Options) -> str:
    kinds = {"with_type": loss["type"], "reduction_type": loss["reduction_type"]}
    keys = ("weight", "delta", "epsilon", "label_smoothing")
    given = {key: loss[key] for key in keys if key in loss}
    given |= {"reduce_across_batch": True} if loss["across"] else {}
    made = call("MPSCNNLossDescriptor.cnn_loss_descriptor", **kinds)
    return f"made({made}{''.join(f', {key}={value!r}' for key, value in given.items())})"


def expression(loss: Options) -> str:
    """The node; of the form seed, none."""
    source, of = Text(loss["source"]), Text(descriptor(loss))
    if loss["form"] == "labels":
        return call("MPSCNNLossNode", source=source, loss_descriptor=of)
    labels = Text(loss.get("labels_from", "y0"))
    weights = {"weights": Text("w0")} if loss["weighted"] else {}
    return call("MPSNNForwardLossNode", source=source, labels=labels, **weights, loss_descriptor=of)


def values(t: Any, loss: Options, y: Any, labels: Any) -> Any:
    """One per element, or per pixel."""
    kind = loss["type"]
    if kind in SHARED:
        plain = {"type": SHARED[kind], "reduction_type": "none", "classes": False}
        keys = ("delta", "label_smoothing")
        found = losses.compute(t, plain | {k: loss[k] for k in keys if k in loss}, y, labels, None)
        return found.unsqueeze(1) if kind.startswith("soft_max") else found
    if kind == "hinge":
        return (1 - labels * y).clamp(min=0)
    if kind == "cosine_distance":
        return y.shape[0] / y.numel() - labels * y
    if kind == "kullback_leibler_divergence":
        return labels * (t.log(labels) - y)
    if kind == "categorical_cross_entropy":
        return -labels * t.log(y)
    small = single(loss["epsilon"])
    return -labels * t.log(y + small) - (1 - labels) * t.log(1 - y + small)


def compute(t: Any, loss: Options, y: Any, labels: Any, weights: Any) -> Any:
    """The images of the loss, (N, 1, 1, 1) unless nothing is reduced."""
    if loss.get("class_weights"):
        smooth = single(loss.get("label_smoothing", 0))
        labels = weights * (labels * (1 - smooth) + smooth / labels.shape[1])
        found = -(labels * t.log_softmax(y, 1)).sum(1, keepdim=True)
    else:
        found = values(t, loss, y, labels)
    found = found * single(loss.get("weight", 1))
    found = found if weights is None or loss.get("class_weights") else found * weights
    if loss["reduction_type"] == "none":
        return found
    total = found.sum((1, 2, 3), keepdim=True)
    if loss["reduction_type"] == "mean":
        total = total * (found.shape[0] / found.numel())
    elif loss["reduction_type"] == "sum_by_non_zero_weights":
        count = (weights != 0).sum((1, 2, 3), keepdim=True)
        total = total / (count.sum() if loss["across"] else count).clamp(min=1)
    if loss["across"]:
        whole = total.sum() / (total.shape[0] if loss["reduction_type"] == "mean" else 1)
        total = t.cat([whole.reshape(1, 1, 1, 1), t.zeros_like(total[1:])])
    return total
