"""Weights of losses: every shape that is taken is applied in full, any other is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import traingraph as tg
from differences import Slopes, assert_near
from harness import BOUNDS, empty, everywhere, node, tensor

L = tg.MLCLossLayer
RATE = 64.0


def smoothed(t: np.ndarray, smoothing: float, classes: int = 0) -> np.ndarray:
    return t * (1 - smoothing) + smoothing / (classes or t.shape[1])


def cross_entropy(y: np.ndarray, t: np.ndarray) -> np.ndarray:
    """The terms whose sum over the classes is a loss value."""
    return t * (np.logaddexp.reduce(y, axis=1, keepdims=True) - y)


def huber(y: np.ndarray, t: np.ndarray) -> np.ndarray:
    e = np.abs(y - t)
    return np.where(e <= 0.5, e * e / 2, 0.5 * (e - 0.25))


def log_loss(y: np.ndarray, t: np.ndarray) -> np.ndarray:
    epsilon = float(np.float32(1e-7))
    return -t * np.log(y + epsilon) - (1 - t) * np.log(1 - y + epsilon)


# (reduction_type=, weights=) -> a layer; prediction, labels -> a term per element; over classes?
Kind = tuple[Callable[..., Any], Callable[..., np.ndarray], bool]
KINDS: dict[str, Kind] = {
    "absolute error": (L.mean_absolute_error, lambda y, t: np.abs(y - t), False),
    "squared error": (L.mean_squared_error, lambda y, t: (y - t) ** 2, False),
    "huber": (lambda **k: L.huber_loss(delta=0.5, **k), huber, False),
    "sigmoid": (
        L.sigmoid_cross_entropy,
        lambda y, t: np.maximum(y, 0) - y * t + np.log1p(np.exp(-np.abs(y))),
        False,
    ),
    "log": (L.log, log_loss, False),
    "hinge": (L.hinge_loss, lambda y, t: np.maximum(1 - (2 * t - 1) * y, 0), False),
    "categorical": (L.categorical_cross_entropy, lambda y, t: -t * np.log(y), True),
    "cosine": (L.cosine_distance, lambda y, t: 1 / y.shape[1] - y * t, True),
    "softmax": (L.softmax_cross_entropy, cross_entropy, True),
    "softmax, smoothed": (
        lambda **k: L.softmax_cross_entropy(label_smoothing=0.25, **k),
        lambda y, t: cross_entropy(y, smoothed(t, 0.25)),
        True,
    ),
    "softmax, smoothed by 8": (
        lambda **k: L.softmax_cross_entropy(label_smoothing=0.25, class_count=8, **k),
        lambda y, t: cross_entropy(y, smoothed(t, 0.25, 8)),
        True,
    ),
}
# Shape of the prediction, of weights per label, and of weights per loss value over classes.
PREDICTIONS: dict[str, tuple[tuple[int, ...], list[tuple[int, ...]], list[tuple[int, ...]]]] = {
    "rows": ((3, 4), [(3, 4), (3, 4, 1, 1)], [(3,), (3, 1)]),
    "pixels": ((2, 3, 2, 2), [(2, 3, 2, 2)], [(2, 2, 2), (2, 1, 2, 2)]),
    "a pixel": ((3, 4, 1, 1), [(3, 4), (3, 4, 1, 1)], [(3,), (3, 1, 1)]),
}


def cases() -> list[Any]:
    found = []
    for kind, (_, _, over_classes) in KINDS.items():
        for size, (prediction, per_label, per_value) in PREDICTIONS.items():
            for shape in per_label + (per_value if over_classes else []):
                found.append(pytest.param(kind, prediction, shape, id=f"{kind}-{size}-{shape}"))
    return found


def run(
    layer: Callable[..., Any], y: np.ndarray, t: np.ndarray, w: np.ndarray, given: str,
    device: str = "reference", dtype: str = "float64",
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """A step: loss, and gradient of the prediction. The weights are declared, or the layer's."""
    graph, x = tg.MLCGraph(), tensor(y, dtype)
    graph.node(tg.MLCActivationLayer.linear(1.0, bias=0.0), source=x)
    declared, data = {}, {}
    options = {}
    if given == "layer":
        options["weights"] = tensor(w, dtype)
    else:
        declared["loss_label_weights"] = {"w": empty(w.shape, dtype)}
        data["loss_label_weights_data"] = {"w": w.astype(dtype)}
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=layer(**options),
        optimizer=tg.MLCSGDOptimizer(learning_rate=RATE),
    )
    training.set_training_tensor_parameters([tg.MLCTensorParameter(tensor=x)])
    training.add_inputs({}, loss_labels={"t": empty(t.shape, dtype)}, **declared)
    training.compile(device=device)
    loss = training.execute(
        inputs_data={}, loss_labels_data={"t": t.astype(dtype)}, options="synchronous", **data
    ).result
    training.synchronize_updates()
    with np.errstate(invalid="ignore"):
        return np.asarray(loss, np.float64), (y.astype(dtype) - x.data) / RATE


def numbers(shape: tuple[int, ...], kind: str = "") -> tuple[np.ndarray, np.ndarray]:
    """Predictions away from the labels, where the absolute error has a kink, or between 0 and 1."""
    random = np.random.default_rng(sum(shape))
    t = random.uniform(0, 1, shape)
    if kind in ("log", "hinge", "categorical", "cosine"):
        y = random.uniform(0.1, 0.9, shape)
        return y.astype(np.float32).astype(np.float64), t.astype(np.float32).astype(np.float64)
    y = t + random.uniform(0.1, 2, shape) * random.choice([-1, 1], shape)
    return y.astype(np.float32).astype(np.float64), t.astype(np.float32).astype(np.float64)


@everywhere
@pytest.mark.parametrize("given", ["declared", "layer"])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize(("kind", "prediction", "shape"), cases())
def test_all_weights_are_applied(kind, prediction, shape, reduction, given, device):
    layer, terms, over_classes = KINDS[kind]
    y, t = numbers(prediction, kind)
    w = np.random.default_rng(3).uniform(-1, 2, shape).astype(np.float32).astype(np.float64)
    w.flat[1] = 0
    per_term = w.reshape(prediction) if w.size == y.size else np.expand_dims(
        w.reshape(prediction[0], *prediction[2:]), 1
    )  # fmt: skip

    def values(y: np.ndarray) -> np.ndarray:
        weighted = terms(y, t) * per_term
        return weighted.sum(axis=1) if over_classes else weighted

    expected = values(y)
    share = expected.size if reduction == "mean" else 1
    total = expected if reduction == "none" else expected.sum() / share
    dtype = "float64" if device == "reference" else "float32"
    bound = 1e-12 if device == "reference" else BOUNDS[dtype]
    loss, gradient = run(
        lambda **k: layer(reduction_type=reduction, **k), y, t, w, given, device, dtype
    )
    assert_near(loss, np.asarray(total), bound, [expected / share])
    slopes = Slopes(values, y.copy(), 1 / share)
    slopes.assert_near(gradient.astype(np.float64), max(bound, 2e-8))


@everywhere
@pytest.mark.parametrize("given", ["declared", "layer"])
def test_a_row_without_weights_contributes_exactly_nothing(given, device):
    """Wherever its prediction and labels lie."""
    y = np.array([[np.inf, 1, np.nan], [1, 2, 3]])
    t = np.array([[np.nan, 1, 0], [0.5, 0.5, 0]])
    w = np.array([[0, 0, 0], [1, 0, 2]])
    loss, gradient = run(
        lambda **k: L.softmax_cross_entropy(reduction_type="none", **k),
        y, t, w, given, device, "float32",
    )  # fmt: skip
    row = cross_entropy(y[1:], t[1:] * w[1:]).sum()
    np.testing.assert_allclose(loss, [0, row], rtol=1e-6)
    assert gradient[0, 1] == 0
    softmax = np.exp(y[1]) / np.exp(y[1]).sum()
    np.testing.assert_allclose(gradient[1], softmax / 2 - [0.5, 0, 0], rtol=1e-5)


def test_weights_per_label_of_a_smaller_batch():
    x, y, w = empty((4, 3), "float64"), empty((4, 3), "float64"), empty((4, 3), "float64")
    graph = tg.MLCGraph()
    graph.node(tg.MLCActivationLayer.linear(1.0, bias=0.0), source=x)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph], loss_layer=L.softmax_cross_entropy(reduction_type="sum")
    )
    training.add_inputs({"x": x}, loss_labels={"y": y}, loss_label_weights={"w": w})
    training.compile(device="reference")
    for rows in (4, 1, 3):
        logits, labels = numbers((rows, 3))
        weights = np.random.default_rng(rows).uniform(0, 2, (rows, 3))
        found = training.execute(
            inputs_data={"x": logits}, loss_labels_data={"y": labels},
            loss_label_weights_data={"w": weights}, batch_size=rows, options="synchronous",
        ).result  # fmt: skip
        expected = (cross_entropy(logits, labels) * weights).sum()
        np.testing.assert_allclose(found, expected, rtol=1e-12)


REFUSED = [
    ("softmax", (3, 4), (4, 3), "float64"),
    ("softmax", (3, 4), (4,), "float64"),
    ("softmax", (3, 4), (1, 4), "float64"),
    ("softmax", (2, 3, 2, 2), (2, 4), "float64"),
    ("softmax", (2, 3, 2, 2), (2, 2, 2, 3), "float64"),
    ("squared error", (3, 4), (4, 3), "float64"),
    ("squared error", (3, 4), (12,), "float64"),
    ("squared error", (3, 4), (3,), "float64"),
    ("huber", (2, 3, 2, 2), (3, 2, 2, 2), "float64"),
    # Labels that are classes have one weight each.
    ("softmax", (3, 4), (3, 4), "int32"),
]


@pytest.mark.parametrize(("kind", "prediction", "shape", "labels"), REFUSED)
@pytest.mark.parametrize("given", ["source", "layer"])
def test_other_shapes_are_refused(kind, prediction, shape, labels, given):
    layer = KINDS[kind][0]
    truth = prediction if labels == "float64" else prediction[:1]
    got = rf"\({', '.join(map(str, shape))},?\)"
    if given == "layer":
        made = layer(reduction_type="sum", weights=tensor(np.ones(shape), "float64"))
        sources, dtypes = [prediction, truth], ["float64", labels]
        got += r" in tensor '\d+\.Loss\.weights'"
    else:
        made = layer(reduction_type="sum")
        sources, dtypes = [prediction, truth, shape], ["float64", labels, "float64"]
    expected = rf"\[Loss .*\] expected one weight per loss value, .*but got {got} at layer \d+ '"
    with pytest.raises(tg.ShapeError, match=expected):
        node(made, *sources, dtypes=dtypes)


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_nan_behind_a_weight_of_zero(device: str) -> None:
    """The loss has nothing of it, but 0 times NaN is NaN in the layers before."""

    def train(bad: float) -> tuple[float, np.ndarray]:
        tg.MLCPlatform.set_rng_seed_to(0)
        model = tg.nn.model(
            [tg.nn.dense(2)], input=4, batch_size=8, weights=True, device=device,
            optimizer=tg.nn.sgd(0.1),
        )  # fmt: skip
        x = np.random.default_rng(5).normal(size=(8, 4)).astype(np.float32)
        x[3, 1] = bad
        weights = np.where(np.arange(8) == 3, 0, 1).astype(np.float32)
        (epoch,) = model.fit(x, np.arange(8) % 2, label_weights={"w": weights})
        return epoch.loss, model.state()["1.FullyConnected.weights"]

    loss, weights = train(0.0)
    spoiled, of_nan = train(np.nan)
    assert spoiled == loss
    assert np.isfinite(weights).all()
    assert np.isnan(of_nan).any()
