"""Rows of losses, each kind by itself. Gradients start from 1, as in a step."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from random_graphs import losses
from random_graphs.layer import Layer, Shape, Text, need, written

from .sample import SHAPES, TIES, Row, Sample, Values, coarse

TESTS = Path(__file__).resolve().parents[2] / "tests"
if str(TESTS / "layers") not in sys.path:
    sys.path.append(str(TESTS / "layers"))

import test_yolo_loss as yolo  # noqa: E402

Choice = dict[str, Any]


@dataclass(frozen=True)
class Loss(Layer):
    compute_loss: Callable[..., Any] = losses.compute


def parameters(options: Choice, shapes: list[Shape]) -> dict[str, tuple[Shape, str, float]]:
    if not options["weighted"]:
        return {}
    return {"weights": (losses.weight_shape(options, shapes[0]), "weight", 1.0)}


LOSS = Loss(
    lambda drawing, shape: {},
    lambda options, shapes: [],
    lambda options, shapes, names: losses.expression(options, names.get("weights", "")),
    lambda t, options, sources, at: None,
    parameters,
    running=("weights",),
)
OVER_CLASSES = ("softmax_cross_entropy", "categorical_cross_entropy", "cosine_distance")
OF_CLASSES = OVER_CLASSES[:2]
# Where predictions and labels are, by kind.
DOMAINS = {
    "log": ((0.125, 0.875), (0, 1)), "categorical_cross_entropy": ((0.25, 1), (0.0625, 1)),
    "sigmoid_cross_entropy": ((-2, 2), (0, 1)), "softmax_cross_entropy": ((-2, 2), (0, 1)),
}  # fmt: skip
KINKS = ("mean_absolute_error", "huber", "hinge")
MORE: dict[str, Choice] = {
    "huber": {"delta": [1.0, 0.4]},
    "log": {"epsilon": [1e-7, 0.01]},
    "sigmoid_cross_entropy": {"label_smoothing": [0.0, 0.3]},
    "softmax_cross_entropy": {"label_smoothing": [0.0, 0.3], "class_count": [None, 40]},
    "categorical_cross_entropy": {"label_smoothing": [0.0, 0.3]},
}


def loss(kind: str) -> Row:
    def make(choice: Choice) -> Sample:
        shape = SHAPES[choice["size"]]
        # One value of so many terms has lost the digits of its differences.
        need(choice["size"] != "large" or choice["reduction"] == "none")
        options = {"type": kind, "reduction_type": choice["reduction"], "weight": choice["weight"]}
        options |= {name: choice[name] for name in MORE.get(kind, {}) if choice[name] is not None}
        options["classes"] = choice.get("labels", "numbers") != "numbers"
        options["weighted"] = choice["weights"] == "tensor"
        of_prediction, of_labels = DOMAINS.get(kind, ((-2, 2), (-2, 2)))
        prediction = Values(shape, *of_prediction)
        if options["classes"]:
            places = [shape[0], *shape[2:]]
            labels = Values(places, kind="class", below=shape[1], dtype=choice["labels"])
        elif kind == "hinge":
            bits = np.random.default_rng(2).integers(0, 2, shape).astype(np.float64)
            labels = Values(shape, kind="label", array=bits)
        else:
            labels = Values(shape, *of_labels, kind="label")
        sources = [prediction, labels]
        if choice["weights"] == "fed":
            sources.append(Values(losses.weight_shape(options, shape), 0, 2, kind="label"))
        return Sample(LOSS, options, sources, coarse=coarse(choice), is_loss=True,
                      weights=choice["weights"])  # fmt: skip

    factors: Choice = {
        "size": TIES if kind in KINKS else [size for size in TIES if size != "ties"],
        "reduction": ["none", "sum", "mean"], "weight": [1.0, 2.5],
        "weights": ["", "tensor", "fed"], **MORE.get(kind, {}),
    }  # fmt: skip
    if kind in OF_CLASSES:
        factors["labels"] = ["numbers", "int32", "int64"]
    return Row("MLCLossLayer", kind, factors, make)


# --- YOLO

BOXES = {"odd": (3, 4, 5), "ones": (2, 1, 1), "vector": (2, 1, 33), "large": (1024, 2, 2)}
ANCHORS = [[(1.0, 2.0)], yolo.ANCHORS]


def yolo_descriptor(options: Choice) -> Any:
    return yolo.descriptor(options["anchors"], **options["members"])


YOLO = Loss(
    lambda drawing, shape: {},
    lambda options, shapes: [],
    lambda options, shapes, names: written(
        "MLCYOLOLossLayer", descriptor=Text(f"described({options!r})")
    ),
    lambda t, options, sources, at: None,
    compute_loss=lambda t, options, y, labels, weights: (
        yolo.in_torch(t, yolo_descriptor(options), y, labels) * (1 if weights is None else weights)
    ),
)


def yolo_loss(choice: Choice) -> Sample:
    images, height, width = BOXES[choice["size"]]
    members: Choice = {
        "should_rescore": choice["rescores"],
        "maximum_iou_for_object_absence": choice["absence"],
        "minimum_iou_for_object_presence": choice["presence"],
    }
    if choice["scales"] == "others":
        members |= {k: v for k, v in yolo.MEMBERS.items() if k.startswith("scale_")}
        members["scale_class_loss"] = 1.5
    options = {"anchors": choice["anchors"], "members": members}
    need(choice["size"] != "large" or len(choice["anchors"]) * (5 + choice["classes"]) == 16)
    y, t = yolo.drawn(4, (images, height, width), choice["anchors"], choice["classes"])
    sources = [Values(y.shape, array=y), Values(t.shape, kind="label", array=t)]
    if choice["weights"] == "fed":
        sources.append(Values([images], 0, 2, kind="label"))
    why = "no gradient flows through overlaps, which are part of the value"
    return Sample(YOLO, options, sources, is_loss=True, weights=choice["weights"],
                  namespace={"described": yolo_descriptor},
                  no_differences=why if choice["rescores"] else "")  # fmt: skip


ROWS = [
    *(loss(kind) for kind in [*losses.KINDS, "categorical_cross_entropy", "log"]),
    Row("MLCYOLOLossLayer", "", {"size": list(BOXES), "rescores": [False, True],
        "anchors": ANCHORS, "classes": [0, 3], "scales": ["usual", "others"],
        "absence": [0.3, 0.0625], "presence": [0.7, 0.5], "weights": ["", "fed"]}, yolo_loss),
]  # fmt: skip
