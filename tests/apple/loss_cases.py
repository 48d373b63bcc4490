"""Losses by numpy, and the doubles' descriptors of them."""

from collections.abc import Callable

import numpy as np
from mps_session import Session
from objective_c import Object

NONE, SUM, MEAN, NON_ZERO = 0, 1, 2, 3
WEIGHT, SMOOTHING, DELTA, EPSILON = 1.5, 0.1, 0.5, 1e-3

# The forms with given destinations of MPSNNForwardLoss and MPSNNLossGradient.
FORWARD = (
    "encodeBatchToCommandBuffer:sourceImages:labels:weights:destinationStates:destinationImages:"
)
GRADIENT = (
    "encodeBatchToCommandBuffer:sourceGradients:sourceImages:labels:weights:sourceStates:"
    "destinationGradients:"
)


def softmax_cross_entropy(y: np.ndarray, t: np.ndarray) -> np.ndarray:
    t = t * (1 - SMOOTHING) + SMOOTHING / y.shape[1]
    return -(t * (y - np.log(np.exp(y).sum(1, keepdims=True)))).sum(1, keepdims=True)


def sigmoid_cross_entropy(y: np.ndarray, t: np.ndarray) -> np.ndarray:
    t = t * (1 - SMOOTHING) + SMOOTHING / 2
    return np.log(1 + np.exp(y)) - y * t


def huber(y: np.ndarray, t: np.ndarray) -> np.ndarray:
    d = np.abs(y - t)
    return np.where(d <= DELTA, d * d / 2, DELTA * (d - DELTA / 2))


def log_loss(y: np.ndarray, t: np.ndarray) -> np.ndarray:
    return -t * np.log(y + EPSILON) - (1 - t) * np.log(1 - y + EPSILON)


def cosine_distance(y: np.ndarray, t: np.ndarray) -> np.ndarray:
    return 1 / y[0].size - t * y


# Apple's number of the type, the values of (N, C, H, W), and whether it wants probabilities.
LOSSES: dict[str, tuple[int, Callable[[np.ndarray, np.ndarray], np.ndarray], bool]] = {
    "mean absolute error": (0, lambda y, t: np.abs(y - t), False),
    "mean squared error": (1, lambda y, t: (y - t) ** 2, False),
    "softmax cross entropy": (2, softmax_cross_entropy, False),
    "sigmoid cross entropy": (3, sigmoid_cross_entropy, False),
    "categorical cross entropy": (4, lambda y, t: -t * np.log(y), True),
    "hinge": (5, lambda y, t: np.maximum(1 - t * y, 0), False),
    "huber": (6, huber, False),
    "cosine distance": (7, cosine_distance, False),
    "log": (8, log_loss, True),
    "kullback-leibler": (9, lambda y, t: t * (np.log(t) - y), False),
}
CASES = [
    (name, reduction, across)
    for name in LOSSES
    for reduction in (NONE, SUM, MEAN, NON_ZERO)
    for across in (False, True)
    if name != "cosine distance" or reduction == SUM
]


def reported(
    name: str, reduction: int, across: bool, y: np.ndarray, t: np.ndarray, w: np.ndarray | None
) -> np.ndarray:
    """What is reported of a batch; across a batch all of it stands in the first place."""
    losses = LOSSES[name][1](y.astype(np.float64), t.astype(np.float64)) * WEIGHT
    losses = losses if w is None else losses * w
    if reduction == NONE:
        return losses
    count = np.ones(len(y))
    if reduction == MEAN:
        count *= losses[0].size * (len(y) if across else 1)
    if reduction == NON_ZERO:
        marks = (np.asarray(w) != 0).sum((1, 2, 3))
        count *= marks.sum() if across else marks
    sums = losses.sum((1, 2, 3)) / count
    if across:
        sums = np.array([sums.sum(), *[0] * (len(y) - 1)])
    return sums.reshape(-1, 1, 1, 1)


def loss_kernel(s: Session, kernel: str, name: str, reduction: int, across: bool) -> Object:
    """A kernel by a descriptor with the numbers above."""
    form = "cnnLossDescriptorWithType:reductionType:"
    descriptor = s.runtime.MPSCNNLossDescriptor.send(form, LOSSES[name][0], reduction)
    descriptor.send("setReduceAcrossBatch:", across)
    descriptor.send("setWeight:", WEIGHT)
    descriptor.send("setLabelSmoothing:", SMOOTHING)
    descriptor.send("setDelta:", DELTA)
    descriptor.send("setEpsilon:", EPSILON)
    return s.kernel(kernel, "initWithDevice:lossDescriptor:", descriptor)


def arrays(
    name: str, reduction: int, make: Callable[..., np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Predictions, labels, and weights, some of them 0, where the reduction takes some.

    Predictions and labels lie on two grids, so that no difference crosses a bend of a loss.
    """
    _, function, probability = LOSSES[name]
    y, t = 2 * make(2, 5, 3, 4), np.abs(make(2, 5, 3, 4))
    y = np.abs(y) * 0.4 + 0.1 if probability else y
    y = (np.round(y * 20) / 20 + 0.02).astype(np.float32)
    t = np.maximum(np.round(t * 20) / 20, 0.05).astype(np.float32)
    w = make(*function(y, t).shape)
    w[0, 0, 1], w[1, 0, :, 2] = 0, 0
    return y, t, w if reduction in (NONE, NON_ZERO) else None
