"""Losses: every type with reductions, weights, integer labels, large logits and wrong sources."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

import traingraph as tg
from differences import Slopes
from harness import BOUNDS, assert_near, empty, everywhere, node, tensor

L = tg.MLCLossLayer
RNG = np.random.default_rng(5)
# A power of 2: updates are larger than predictions, whose rounding is then not the gradient's.
RATE = 64.0


def sigmoid_cross_entropy(smoothing=0.0):
    def values(y, t):
        t = t * (1 - smoothing) + smoothing / 2
        return np.maximum(y, 0) - y * t + np.log1p(np.exp(-np.abs(y)))

    return values


def softmax_cross_entropy(smoothing=0.0, classes=None):
    """One value per position from a distribution; a row of -1 is ignored."""

    def values(y, t):
        t = np.where(t < 0, 0, t * (1 - smoothing) + smoothing / (classes or y.shape[1]))
        total = np.logaddexp.reduce(y, axis=1, keepdims=True)
        return (t * (total - y)).sum(axis=1)

    return values


def huber(delta=1.0):
    def values(y, t):
        e = np.abs(y - t)
        return np.where(e <= delta, e * e / 2, delta * (e - delta / 2))

    return values


def categorical_cross_entropy(y, t):
    """One value per position; a row of -1 is ignored."""
    return -np.where(t <= 0, 0, t * np.log(np.where(t <= 0, 1, np.maximum(y, 0)))).sum(axis=1)


def hinge(y, t):
    return np.maximum(1 - (2 * t - 1) * y, 0)


def log_loss(epsilon=1e-7):
    epsilon = float(np.float32(epsilon))

    def values(y, t):
        return -t * np.log(y + epsilon) - (1 - t) * np.log(1 - y + epsilon)

    return values


def cosine_distance(y, t):
    return 1 - (y * t).sum(axis=1)


@dataclass
class LossCase:
    name: str
    # (reduction_type=, weight= or weights=) -> a new layer
    layer: Callable[..., object]
    # prediction, labels -> what reduction none gives
    values: Callable[..., np.ndarray]
    prediction: np.ndarray
    labels: np.ndarray
    # the labels as `values` takes them, where that differs
    distribution: np.ndarray | None = None
    per_value: np.ndarray = field(init=False)

    def __post_init__(self):
        self.prediction = self.prediction.astype(np.float32).astype(np.float64)
        if self.labels.dtype.kind == "f":
            self.labels = self.labels.astype(np.float32).astype(np.float64)
        if self.distribution is None:
            self.distribution = self.labels
        shape = self.values(self.prediction, self.distribution).shape
        weights = RNG.uniform(0.5, 2, shape).astype(np.float32).astype(np.float64)
        weights.flat[0] = 0
        self.per_value = weights

    @property
    def is_cross_entropy(self):
        """Of logits: their softmax or sigmoid."""
        return self.name.startswith(("sigmoid", "distribution", "classes"))

    def __repr__(self):
        return self.name


def one_hot(classes, count):
    """(N, …) integers to (N, count, …); a row of -1 stays -1."""
    shape = [1, count] + [1] * (classes.ndim - 1)
    hot = (classes[:, None] == np.arange(count).reshape(shape)).astype(float)
    return np.where(classes[:, None] == -1, -1, hot)


def element(name, layer, values, shape=(4, 3), labels=None):
    """Predictions that keep away from the labels, where the absolute error has a kink."""
    labels = RNG.uniform(-2, 2, shape) if labels is None else labels
    distance = RNG.uniform(0.05, 2, shape) * RNG.choice([-1, 1], shape)
    return LossCase(name, layer, values, labels + distance, labels)


def of_scores(name, shape, options, *labels):
    values = softmax_cross_entropy(options.get("label_smoothing", 0), options.get("class_count"))
    return LossCase(
        name,
        lambda **k: L.softmax_cross_entropy(**options, **k),
        values,
        RNG.normal(size=shape),
        *labels,
    )


def classes(name, shape, dtype, form, **options):
    """Integer labels in the shape `form` makes of (N, …)."""
    labels = RNG.integers(0, shape[1], (shape[0], *shape[2:]))
    labels.flat[1] = -1
    return of_scores(name, shape, options, form(labels).astype(dtype), one_hot(labels, shape[1]))


def distribution(name, shape, **options):
    labels = RNG.dirichlet(np.ones(shape[1]), (shape[0], *shape[2:]))
    return of_scores(name, shape, options, np.moveaxis(labels, -1, 1))


def shares(shape, seed=5):
    """Positive, with the sum 1 along axis 1, none close to 0."""
    numbers = np.random.default_rng(seed).uniform(0.2, 1, shape)
    return numbers / numbers.sum(axis=1, keepdims=True)


def of_shares(name, shape, **options):
    labels = RNG.dirichlet(np.ones(shape[1]), (shape[0], *shape[2:]))
    labels = np.moveaxis(labels, -1, 1)
    labels[:, 0] = 0
    return LossCase(
        name,
        lambda **k: L.categorical_cross_entropy(**options, **k),
        categorical_cross_entropy,
        shares(shape),
        labels,
    )


def classes_of_shares(name, shape, dtype, form):
    labels = RNG.integers(0, shape[1], (shape[0], *shape[2:]))
    labels.flat[1] = -1
    return LossCase(
        name,
        L.categorical_cross_entropy,
        categorical_cross_entropy,
        shares(shape),
        form(labels).astype(dtype),
        one_hot(labels, shape[1]),
    )


def directions(name, shape):
    def unit(seed):
        numbers = np.random.default_rng(seed).normal(size=shape)
        return numbers / np.sqrt((numbers**2).sum(axis=1, keepdims=True))

    return LossCase(name, L.cosine_distance, cosine_distance, unit(1), unit(2))


def between_labels(name, layer, values, shape, low, high, labels=None):
    """Predictions from low to high, away from the kink of the hinge loss."""
    random = np.random.default_rng(11)
    labels = random.integers(0, 2, shape).astype(float) if labels is None else labels
    prediction = random.uniform(low, high, shape)
    prediction += 0.1 * (np.abs(np.abs(prediction) - 1) < 0.02)
    return LossCase(name, layer, values, prediction, labels)


def probabilities(shape=(4, 3)):
    return RNG.uniform(0, 1, shape) * (RNG.uniform(size=shape) > 0.3)


CASES = [
    element("absolute error", L.mean_absolute_error, lambda y, t: np.abs(y - t)),
    element("squared error", L.mean_squared_error, lambda y, t: (y - t) ** 2),
    element(
        "squared error of images", L.mean_squared_error, lambda y, t: (y - t) ** 2, (2, 3, 2, 2)
    ),
    element("squared error of a column", L.mean_squared_error, lambda y, t: (y - t) ** 2, (5, 1)),
    element("huber", L.huber_loss, huber()),
    element("huber delta", lambda **k: L.huber_loss(delta=0.5, **k), huber(0.5)),
    element(
        "sigmoid cross entropy",
        L.sigmoid_cross_entropy,
        sigmoid_cross_entropy(),
        labels=probabilities(),
    ),
    element(
        "sigmoid cross entropy, smoothed",
        lambda **k: L.sigmoid_cross_entropy(label_smoothing=0.25, **k),
        sigmoid_cross_entropy(0.25),
        labels=probabilities(),
    ),
    distribution("distribution", (4, 5)),
    distribution("distribution, smoothed", (4, 5), label_smoothing=0.25),
    distribution("distribution, smoothed by 8", (4, 5), label_smoothing=0.25, class_count=8),
    distribution("distribution of pixels", (2, 3, 2, 2)),
    distribution("distribution of steps, smoothed", (2, 3, 4), label_smoothing=0.5),
    classes("classes (N)", (4, 5), "int32", lambda c: c),
    classes("classes (N, 1)", (4, 5), "int64", lambda c: c[:, None]),
    classes("classes, smoothed", (4, 5), "int64", lambda c: c, label_smoothing=0.25),
    classes("classes (N, H, W)", (2, 3, 2, 2), "int32", lambda c: c),
    classes("classes (N, 1, H, W)", (2, 3, 2, 2), "int64", lambda c: c[:, None]),
    classes("classes (N, 1) of one pixel", (4, 3, 1, 1), "int32", lambda c: c[:, :, 0]),
    between_labels("hinge", L.hinge_loss, hinge, (5, 7), -3, 3),
    between_labels("hinge of images", L.hinge_loss, hinge, (2, 3, 4, 5), -3, 3),
    between_labels("log", L.log, log_loss(), (5, 7), 0.1, 0.9),
    between_labels(
        "log of shares",
        lambda **k: L.log(epsilon=0.01, **k),
        log_loss(0.01),
        (4, 3),
        0.1,
        0.9,
        probabilities(),
    ),
    of_shares("shares", (4, 5)),
    of_shares("shares of pixels", (2, 3, 2, 2)),
    # Labels are not smoothed, whatever the descriptor says.
    of_shares("shares, smoothing ignored", (4, 5), label_smoothing=0.25, class_count=8),
    classes_of_shares("shares by class (N)", (4, 5), "int32", lambda c: c),
    classes_of_shares("shares by class (N, 1)", (4, 5), "int64", lambda c: c[:, None]),
    classes_of_shares("shares by class (N, H, W)", (2, 3, 2, 2), "int32", lambda c: c),
    directions("directions", (5, 7)),
    directions("directions of pixels", (2, 3, 2, 2)),
]

each = pytest.mark.parametrize("case", CASES, ids=repr)
reductions = pytest.mark.parametrize("reduction", ["none", "sum", "mean"])


def run(case, layer, weights=None, device="reference", dtype="float64"):
    """One step: the loss, and the gradient of the prediction."""
    graph = tg.MLCGraph()
    x = tensor(case.prediction, dtype)
    graph.node(tg.MLCActivationLayer(descriptor=tg.MLCActivationDescriptor(type="none")), source=x)
    labels = case.labels.astype(dtype) if case.labels.dtype.kind == "f" else case.labels
    declared = {"labels": empty(labels.shape, labels.dtype.name)}
    data = {"loss_labels_data": {"labels": labels}}
    training = tg.MLCTrainingGraph(
        graph_objects=[graph], loss_layer=layer, optimizer=tg.MLCSGDOptimizer(learning_rate=RATE)
    )
    training.set_training_tensor_parameters([tg.MLCTensorParameter(tensor=x)])
    if weights is None:
        training.add_inputs({}, loss_labels=declared)
    else:
        data["loss_label_weights_data"] = {"weights": weights.astype(dtype)}
        named = {"weights": empty(weights.shape, dtype)}
        training.add_inputs({}, loss_labels=declared, loss_label_weights=named)
    training.compile(device=device)
    loss = training.execute(inputs_data={}, options="synchronous", **data).result
    training.synchronize_updates()
    with np.errstate(invalid="ignore"):
        return np.asarray(loss), (case.prediction.astype(dtype) - x.data) / RATE


def check(case, reduction, found, weights, bounds):
    loss, gradient = found
    values = case.values(case.prediction, case.distribution) * weights
    expected = {"none": values, "sum": values.sum(), "mean": values.mean()}[reduction]
    assert_near(loss.astype(np.float64), np.asarray(expected), bounds[0])
    # For none training starts with the sum.
    dy = weights * np.ones_like(values) / (values.size if reduction == "mean" else 1)
    slopes = Slopes(lambda y: case.values(y, case.distribution), case.prediction.copy(), dy)
    slopes.assert_near(gradient, bounds[1])


WEIGHTS = {
    "plain": lambda case, reduction, dtype: ({}, None, 1.0),
    "factor": lambda case, reduction, dtype: ({"weight": 0.5}, None, 0.5),
    "tensor": lambda case, reduction, dtype: (
        {"weights": tensor(case.per_value, dtype)},
        None,
        case.per_value,
    ),
    "source": lambda case, reduction, dtype: ({}, case.per_value, case.per_value),
}


@each
@reductions
@pytest.mark.parametrize("weighting", WEIGHTS)
def test_reference(case, reduction, weighting):
    options, source, weights = WEIGHTS[weighting](case, reduction, "float64")
    layer = case.layer(reduction_type=reduction, **options)
    check(case, reduction, run(case, layer, source), weights, (1e-12, 2e-8))


@each
@reductions
@pytest.mark.parametrize("weighting", WEIGHTS)
@everywhere
def test_backends(case, reduction, weighting, device):
    bound = BOUNDS["float32"]
    found = []
    for _ in range(2):
        options, source, weights = WEIGHTS[weighting](case, reduction, "float32")
        layer = case.layer(reduction_type=reduction, **options)
        found.append(run(case, layer, source, device, "float32"))
    assert found[0][0].dtype == found[0][1].dtype == np.float32
    for a, b in zip(*found, strict=True):
        assert a.tobytes() == b.tobytes()
    check(case, reduction, found[0], weights, (bound, bound))


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_reduced_loss_is_a_scalar(reduction):
    loss, _ = run(CASES[1], L.mean_squared_error(reduction_type=reduction))
    assert loss.shape == ()


@everywhere
@pytest.mark.parametrize("form", ["constructor", "node"])
def test_mean_divides_by_the_actual_batch(device, form):
    y = RNG.normal(size=(4, 3)).astype(np.float32)
    t = RNG.normal(size=(4, 3)).astype(np.float32)
    graph = tg.MLCGraph()
    x, labels = empty((4, 3), "float32"), empty((4, 3), "float32")
    out = graph.node(tg.MLCActivationLayer.tanh(), source=x)
    loss = L.mean_squared_error(reduction_type="mean")
    if form == "node":
        graph.node(loss, sources=[out], loss_labels=[labels])
    training = tg.MLCTrainingGraph(
        graph_objects=[graph], loss_layer=loss if form == "constructor" else None
    )
    training.add_inputs({"x": x}, loss_labels={"labels": labels})
    training.compile(device=device)
    for batch in (4, 1, 3):
        found = training.execute(
            inputs_data={"x": y[:batch]},
            loss_labels_data={"labels": t[:batch]},
            batch_size=batch,
            options="synchronous",
        ).result
        expected = np.mean((np.tanh(y[:batch]) - t[:batch]) ** 2)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@everywhere
def test_rows_without_labels_contribute_exactly_nothing(device):
    y = np.array([[-np.inf, 1, 2], [3, np.nan, 1], [0.5, 0, 1]], np.float32)
    zeros = np.array([[0, 1, 0], [0, 0, 0], [0, 0, 1]], np.float32)
    integers = np.array([1, -1, 2], np.int32)
    for labels in (zeros, integers):
        case = LossCase("rows", None, lambda y, t: y[:, 0], y, labels)
        layer = L.softmax_cross_entropy(reduction_type="none")
        loss, gradient = run(case, layer, device=device, dtype="float32")
        np.testing.assert_allclose(loss[:2], [np.log1p(np.e), 0], rtol=1e-6)
        assert np.isfinite(loss[2])
        # Where the prediction is not finite the difference of two steps says nothing.
        assert gradient[1, 0] == gradient[1, 2] == 0
        assert np.isfinite(gradient[2]).all()


@pytest.mark.parametrize("shape", [(3, 1), (2, 1, 1, 9), (1, 1, 37)])
@everywhere
def test_a_single_class_has_no_gradient(shape, device):
    """Its probability is 1: what rounding left would be as much as any gradient to Adam."""
    zeros, ones = np.zeros(shape, np.float32), np.ones(shape, np.float32)
    for labels in (ones, *(zeros[:, 0].astype(name) for name in ("int32", "int64"))):
        for smoothing in (0.1, 0.3, 0.7):
            case = LossCase("single", None, lambda y, t: y[:, 0], zeros, labels)
            layer = L.softmax_cross_entropy(
                reduction_type="mean", label_smoothing=smoothing, weight=2.3
            )
            loss, gradient = run(case, layer, device=device, dtype="float32")
            assert loss == 0
            assert not gradient.any()


@everywhere
def test_weight_zero_removes_what_is_not_finite(device):
    y = np.array([[np.inf, 1], [2, 3]], np.float32)
    t = np.zeros((2, 2), np.float32)
    case = LossCase("weights", None, lambda y, t: y, y, t)
    weights = np.array([[0, 1], [1, 1]], np.float32)
    layer = L.mean_squared_error(reduction_type="sum")
    loss, gradient = run(case, layer, weights, device, "float32")
    assert loss == 14
    np.testing.assert_allclose(gradient.ravel()[1:], [2, 4, 6], rtol=1e-6)


# Where float32 has no exponential any more, on both sides, and where it just has one.
LARGE = [(-1e4, 1e4), (9.9e3, 1e4), (-1e4, -9.9e3), (88, 100), (-104, -88)]


@pytest.mark.parametrize("case", [c for c in CASES if c.is_cross_entropy], ids=repr)
@pytest.mark.parametrize(("low", "high"), LARGE)
@everywhere
def test_large_logits(case, low, high, device):
    """As good as float32 keeps the logarithm of the sum, which is about as large as they are."""
    logits = np.random.default_rng(7).uniform(low, high, case.prediction.shape)
    case = LossCase(case.name, case.layer, case.values, logits, case.labels, case.distribution)
    loss, gradient = run(case, case.layer(reduction_type="none"), device=device, dtype="float32")
    expected = case.values(case.prediction, case.distribution)
    largest = np.abs(logits).max()
    bound = max(BOUNDS["float32"], largest * 2.0**-23)
    np.testing.assert_allclose(loss, expected, rtol=2e-7, atol=bound)
    by = np.zeros(logits.shape)
    slopes = Slopes(lambda by: case.values(case.prediction + by, case.distribution), by, step=1e-5)
    slopes.assert_near(gradient, 2 * bound)


def test_class_out_of_range_names_row_and_value():
    for wrong in (5, -2):
        labels = np.array([0, 1, wrong, 2], np.int32)
        case = LossCase("wrong", None, lambda y, t: y[:, 0], np.zeros((4, 5)), labels)
        with pytest.raises(ValueError, match=rf"0 to 4 or -1 but got {wrong} in row 2"):
            run(case, L.softmax_cross_entropy(reduction_type="sum"))


@everywhere
def test_labels_of_zero_take_nothing_of_what_they_leave_out(device):
    """Wherever the prediction lies."""
    y = np.array([[0.25, 0, -1], [np.nan, np.inf, 0.5]], np.float32)
    t = np.array([[1, 0, 0], [0, 0, 0.5]], np.float32)
    case = LossCase("zeros", None, lambda y, t: y[:, 0], y, t)
    for factory, losses, slopes in [
        (L.categorical_cross_entropy, [np.log(4), np.log(2) / 2], [[-4, 0], [0, -1]]),
        (L.cosine_distance, [0.75, 0.75], [[-1, 0], [0, -0.5]]),
    ]:
        loss, gradient = run(case, factory(reduction_type="none"), None, device, "float32")
        np.testing.assert_allclose(loss, losses, rtol=1e-6)
        # Where the prediction is not finite the difference of two steps says nothing.
        np.testing.assert_allclose(gradient[[0, 0, 1], [0, 1, 2]], [*slopes[0], slopes[1][1]])
    certain = np.array([[1, 0]], np.float32)
    case = LossCase("certain", None, lambda y, t: y, certain, certain)
    loss, gradient = run(case, L.log(reduction_type="none", epsilon=0.0), None, device, "float32")
    assert loss.tolist() == [[0, 0]]
    np.testing.assert_allclose(gradient, [[-1, 1]])


@everywhere
def test_a_kept_margin_has_no_gradient(device):
    y, t = np.array([[1, -1, 0.5, 3]], np.float32), np.array([[1, 0, 1, 1]], np.float32)
    case = LossCase("margins", None, hinge, y, t)
    loss, gradient = run(case, L.hinge_loss(reduction_type="none"), None, device, "float32")
    assert loss.tolist() == [[0, 0, 0.5, 0]]
    assert gradient.tolist() == [[0, 0, -1, 0]]


def test_classes_of_shares_out_of_range_are_named():
    for wrong in (5, -2):
        labels = np.array([0, 1, wrong, 2], np.int64)
        case = LossCase("wrong", None, lambda y, t: y[:, 0], np.ones((4, 5)), labels)
        with pytest.raises(ValueError, match=rf"0 to 4 or -1 but got {wrong} in row 2"):
            run(case, L.categorical_cross_entropy(reduction_type="sum"))


def test_wrong_arguments():
    for reduction in ("max", "min", "l1_norm"):
        with pytest.raises(ValueError, match='of "none", "sum", "mean" but got "'):
            L.mean_squared_error(reduction_type=reduction)
    for smoothing in (-0.1, 1.0):
        with pytest.raises(ValueError, match="label smoothing of at least 0 and below 1"):
            L.softmax_cross_entropy(reduction_type="sum", label_smoothing=smoothing)
    with pytest.raises(ValueError, match="expected delta above 0"):
        L.huber_loss(reduction_type="sum", delta=0.0)


def test_wrong_labels():
    squared = L.mean_squared_error(reduction_type="sum")
    softmax = L.softmax_cross_entropy(reduction_type="sum")
    node(L.mean_squared_error(reduction_type="sum"), (4, 1), (4,))  # no extents of 1 are needed
    with pytest.raises(ValueError, match=r"shape \(4, 2\) but got \(4,?\) at layer"):
        node(squared, (4, 2), (4,))
    with pytest.raises(ValueError, match=r"shape \(4, 3\) but got \(4, 1\) at layer"):
        node(softmax, (4, 3), (4, 1))
    with pytest.raises(TypeError, match="floating-point numbers but got int32"):
        node(squared, (4, 3), (4, 3), dtypes=["float32", "int32"])
    with pytest.raises(TypeError, match="int32 or int64 but got int8"):
        node(softmax, (4, 3), (4,), dtypes=["float32", "int8"])
    with pytest.raises(ValueError, match=r"integer labels \(4, 1\), .* but got \(3,?\)"):
        node(softmax, (4, 3), (3,), dtypes=["float32", "int32"])
    with pytest.raises(ValueError, match=r"integer labels \(4, 1\), .* but got \(4, 3\)"):
        node(softmax, (4, 3), (4, 3), dtypes=["float32", "int64"])
    with pytest.raises(ValueError, match=r"prediction \(N, K, …\) but got \(4,?\)"):
        node(softmax, (4,), (4,))
    with pytest.raises(ValueError, match="expected 2 to 3 sources but got 1"):
        node(squared, (4, 3))
    for factory in (L.categorical_cross_entropy, L.cosine_distance):
        with pytest.raises(ValueError, match=r"prediction \(N, K, …\) but got \(4,?\)"):
            node(factory(reduction_type="sum"), (4,), (4,))
        with pytest.raises(ValueError, match=r"shape \(4, 3\) but got \(4, 2\) at layer"):
            node(factory(reduction_type="sum"), (4, 3), (4, 2))
    cosine = L.cosine_distance(reduction_type="sum")
    with pytest.raises(TypeError, match="floating-point numbers but got int32"):
        node(cosine, (4, 3), (4, 3), dtypes=["float32", "int32"])
    categorical = L.categorical_cross_entropy(reduction_type="sum")
    with pytest.raises(ValueError, match=r"integer labels \(4, 1\), .* but got \(4, 3\)"):
        node(categorical, (4, 3), (4, 3), dtypes=["float32", "int64"])


def test_wrong_weights():
    squared = L.mean_squared_error(reduction_type="sum")
    with pytest.raises(ValueError, match=r"weight per loss value, \(4, 3\), but got \(4,?\)"):
        node(squared, (4, 3), (4, 3), (4,))
    softmax = L.softmax_cross_entropy(reduction_type="sum")
    of_labels_size = L.softmax_cross_entropy(reduction_type="sum")
    node(of_labels_size, (4, 3), (4, 3), (4, 3))
    with pytest.raises(ValueError, match=r"but got \(4, 2\)"):
        node(softmax, (4, 3), (4, 3), (4, 2))
    weights = tensor(np.ones(5), "float32")
    with pytest.raises(ValueError, match=r"per loss value, \(4,?\), or .* but got \(5,?\)"):
        node(L.softmax_cross_entropy(reduction_type="sum", weights=weights), (4, 3), (4, 3))
    both = L.mean_squared_error(reduction_type="sum", weights=tensor(np.ones((4, 3)), "float32"))
    with pytest.raises(ValueError, match="as a source or as the layer's tensor but got both"):
        node(both, (4, 3), (4, 3), (4, 3))


def test_the_default_reduction_is_mean():
    for case in CASES:
        assert case.layer().descriptor.reduction_type == tg.MLCReductionType.MEAN
    assert tg.MLCLossDescriptor(type="huber").reduction_type == tg.MLCReductionType.MEAN
    default, _ = run(CASES[1], L.mean_squared_error())
    mean, _ = run(CASES[1], L.mean_squared_error(reduction_type="mean"))
    assert default == mean
