"""Losses with their gradients, and the update rules over vectors and states."""

import numpy as np
import pytest
from gradients import near
from kernels import array, batch, commands, differences, empty, image, run, vector

from traingraph import mps

RANDOM = np.random.default_rng(11)


def log_softmax(y):
    shifted = y - y.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


LOSSES = {
    "mean_absolute_error": lambda y, t: np.abs(y - t),
    "mean_squared_error": lambda y, t: (y - t) ** 2,
    "soft_max_cross_entropy": lambda y, t: -(t * log_softmax(y)).sum(axis=1, keepdims=True),
    "sigmoid_cross_entropy": lambda y, t: np.logaddexp(0, y) - y * t,
    "categorical_cross_entropy": lambda y, t: -t * np.log(y),
    "hinge": lambda y, t: np.maximum(1 - t * y, 0),
    "huber": lambda y, t: np.where(
        np.abs(y - t) <= 0.5, (y - t) ** 2 / 2, 0.5 * (np.abs(y - t) - 0.25)
    ),
    "log": lambda y, t: -t * np.log(y + 1e-7) - (1 - t) * np.log(1 - y + 1e-7),
    "kullback_leibler_divergence": lambda y, t: t * (np.log(t) - y),
}


def evaluate(name, y, t, reduction, across=False, weights=None, **options):
    on = mps.MTLDevice(device="reference")
    d = mps.MPSCNNLossDescriptor.cnn_loss_descriptor(with_type=name, reduction_type=reduction)
    d.reduce_across_batch, d.delta = across, 0.5
    for key, value in options.items():
        setattr(d, key, value)
    kernel = mps.MPSCNNLoss(device=on, loss_descriptor=d)
    kernel.makes_temporary_images = False
    shape = (len(y), 1, 1, 1) if reduction != "none" else LOSSES[name](y, t).shape
    losses, truths = empty(on, shape), batch(on, t)
    weighted = batch(on, weights) if weights is not None else [None] * len(y)
    labels = [
        mps.MPSCNNLossLabels(loss_image=a, labels_image=b, weights_image=c)
        for a, b, c in zip(losses, truths, weighted, strict=True)
    ]
    buffer = commands(on)
    gradient = kernel.encode_batch(buffer, source_images=batch(on, y), labels=labels)
    run(buffer)
    return array(losses), array(gradient)


def prediction_and_labels():
    y = RANDOM.uniform(0.1, 0.9, size=(3, 4, 1, 2))
    t = RANDOM.uniform(0.1, 1, size=y.shape)
    return y, t / t.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(
    ("reduction", "across"), [("none", False), ("sum", False), ("mean", False), ("mean", True)]
)
def test_losses(name, reduction, across):
    y, t = prediction_and_labels()

    def reported(v):
        values = LOSSES[name](v, t) * 2
        if reduction == "none":
            return values
        joined = values.sum(axis=(1, 2, 3), keepdims=True)
        if reduction == "mean":
            joined = joined / values[0].size
        if across:
            joined = np.concatenate([joined.mean(axis=0, keepdims=True), 0 * joined[1:]])
        return joined

    loss, gradient = evaluate(name, y, t, reduction, across, weight=2.0)
    np.testing.assert_allclose(loss, reported(y), rtol=1e-6, atol=1e-9)
    expected = differences(lambda v: reported(v).sum(), y)
    near(gradient, expected)


def test_cosine_distance():
    y, t = prediction_and_labels()
    loss, gradient = evaluate("cosine_distance", y, t, "sum")
    np.testing.assert_allclose(loss, 1 - (t * y).sum(axis=(1, 2, 3), keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(gradient, -t, rtol=1e-6)


def test_weights_and_their_count():
    y, t = prediction_and_labels()
    weights = RANDOM.uniform(1, 2, size=y.shape)
    weights[:, 1] = 0
    loss, gradient = evaluate(
        "mean_squared_error", y, t, "sum_by_non_zero_weights", weights=weights
    )
    count = (weights[0] != 0).sum()
    values = (y - t) ** 2 * weights
    np.testing.assert_allclose(loss[:, 0, 0, 0], values.sum(axis=(1, 2, 3)) / count, rtol=1e-9)
    np.testing.assert_allclose(gradient, 2 * (y - t) * weights / count, rtol=1e-9)
    with pytest.raises(ValueError, match="labels with weights for a sum by non-zero weights"):
        evaluate("mean_squared_error", y, t, "sum_by_non_zero_weights")


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("reduction", ["none", "sum", "mean", "sum_by_non_zero_weights"])
def test_every_value_has_its_weight(name, reduction):
    y, t = prediction_and_labels()
    values = LOSSES[name](y, t)
    w = RANDOM.uniform(-1, 2, size=values.shape)
    w[:, 0, 0, 1] = 0
    share = {"mean": w[0].size, "sum_by_non_zero_weights": np.count_nonzero(w[0])}.get(reduction, 1)

    def reported(v):
        weighted = LOSSES[name](v, t) * w / share
        return weighted if reduction == "none" else weighted.sum(axis=(1, 2, 3), keepdims=True)

    loss, gradient = evaluate(name, y, t, reduction, weights=w)
    np.testing.assert_allclose(loss, reported(y), rtol=1e-6, atol=1e-9)
    near(gradient, differences(lambda v: reported(v).sum(), y))


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean", "sum_by_non_zero_weights"])
def test_weights_of_classes(reduction, smoothing):
    """-sum w t log p: a weight for each label, of which a pixel has one value."""
    y, t = prediction_and_labels()
    w = RANDOM.uniform(-1, 2, size=y.shape)
    w[:, 0, 0, 1] = w[1, :, 0, 0] = 0
    share = {"mean": 2, "sum_by_non_zero_weights": np.count_nonzero(w, (1, 2, 3))}.get(reduction, 1)
    part = np.float32(smoothing)
    truth = t * (1 - part) + part / 4

    def reported(v):
        values = 3 * -(w * truth * log_softmax(v)).sum(axis=1, keepdims=True)
        values = values / np.reshape(share, (-1, 1, 1, 1))
        return values if reduction == "none" else values.sum(axis=(1, 2, 3), keepdims=True)

    loss, gradient = evaluate(
        "soft_max_cross_entropy", y, t, reduction, weights=w, label_smoothing=smoothing, weight=3.0
    )
    np.testing.assert_allclose(loss, reported(y), rtol=1e-6, atol=1e-9)
    near(gradient, differences(lambda v: reported(v).sum(), y))
    # Against PyTorch.
    torch = pytest.importorskip("torch")
    v = torch.tensor(y, requires_grad=True)
    (torch.tensor(w * truth) * -v.log_softmax(1)).sum().backward()
    _, slope = evaluate("soft_max_cross_entropy", y, t, "sum", weights=w, label_smoothing=smoothing)
    np.testing.assert_allclose(slope, v.grad.numpy(), rtol=1e-6, atol=1e-9)


def test_label_smoothing_and_the_exact_softmax_gradient():
    """Labels that do not sum to 1: softmax(y) times their sum, minus them."""
    y, t = prediction_and_labels()
    _, gradient = evaluate("soft_max_cross_entropy", y, 2 * t, "sum")
    np.testing.assert_allclose(gradient, 2 * (np.exp(log_softmax(y)) - t), rtol=1e-6, atol=1e-9)
    loss, _ = evaluate("soft_max_cross_entropy", y, t, "none", label_smoothing=0.1)
    smooth = np.float32(0.1)
    expected = LOSSES["soft_max_cross_entropy"](y, t * (1 - smooth) + smooth / 4)
    np.testing.assert_allclose(loss, expected, rtol=1e-6)


def test_bad_losses():
    y, t = prediction_and_labels()
    d = mps.MPSCNNLossDescriptor.cnn_loss_descriptor(
        with_type="cosine_distance", reduction_type="none"
    )
    with pytest.raises(ValueError, match="the reduction type sum of a cosine distance"):
        mps.MPSCNNLoss(device="cpu", loss_descriptor=d)
    with pytest.raises(ValueError, match="labels images 4x1x2 but got 3x1x2"):
        evaluate("mean_squared_error", y, t[:, :3], "sum")
    on = mps.MTLDevice(device="cpu")
    labels = mps.MPSCNNLossLabels(
        device=on, loss_image_size=(2, 1, 1), labels_image=image(on, t[:1].astype(np.float32))
    )
    d = mps.MPSCNNLossDescriptor.cnn_loss_descriptor(
        with_type="mean_squared_error", reduction_type="sum"
    )
    kernel = mps.MPSCNNLoss(device=on, loss_descriptor=d)
    with pytest.raises(ValueError, match="loss images 1x1x1 but got 1x1x2"):
        kernel.encode(commands(on), source_image=image(on, y[:1].astype(np.float32)), labels=labels)


# --- optimizers ----------------------------------------------------------------------------------


def descriptor(**options):
    return mps.MPSNNOptimizerDescriptor(learning_rate=0.1, **options)


class Reference:
    """The rules as they are documented, in float64."""

    def __init__(self, kind, **options):
        self.kind, self.options, self.slots, self.t = kind, options, {}, 0

    def __call__(self, w, g):
        o, lr = self.options, 0.1
        if "clip" in o:
            g = np.clip(g, -o["clip"], o["clip"])
        g = g * o.get("rescale", 1)
        if o.get("penalty") == "l1":
            g = g + 0.01 * np.sign(w)
        if o.get("penalty") == "l2":
            g = g + 0.01 * w
        m = self.slots.setdefault("m", np.zeros_like(w))
        v = self.slots.setdefault("v", np.zeros_like(w))
        top = self.slots.setdefault("top", np.zeros_like(w))
        self.t += 1
        if self.kind == "sgd":
            if o.get("nesterov"):
                m[:] = 0.9 * m + g
                return w - lr * (g + 0.9 * m)
            m[:] = o.get("momentum", 0) * m + lr * g
            return w - m
        if self.kind == "rmsprop":
            v[:] = 0.9 * v + 0.1 * g * g
            return w - lr * g / (np.sqrt(v) + 1e-8)
        m[:] = 0.9 * m + 0.1 * g
        v[:] = 0.999 * v + 0.001 * g * g
        top[:] = np.maximum(top, v)
        rate = lr * np.sqrt(1 - 0.999**self.t) / (1 - 0.9**self.t)
        return w - rate * m / (np.sqrt(top if o.get("amsgrad") else v) + 1e-8)


def sgd(device, momentum=0.0, nesterov=False, **options):
    return mps.MPSNNOptimizerStochasticGradientDescent(
        device=device, momentum_scale=momentum, use_nesterov_momentum=nesterov,
        optimizer_descriptor=descriptor(**options),
    )  # fmt: skip


RULES = [
    ("sgd", {}, lambda d: sgd(d), []),
    ("sgd", {"momentum": 0.9}, lambda d: sgd(d, 0.9), ["input_momentum"]),
    ("sgd", {"momentum": 0.9, "nesterov": True}, lambda d: sgd(d, 0.9, True), ["input_momentum"]),
    ("sgd", {"clip": 0.5, "rescale": 2}, lambda d: sgd(
        d, apply_gradient_clipping=True, gradient_clip_max=0.5, gradient_clip_min=-0.5,
        gradient_rescale=2.0), []),
    ("sgd", {"penalty": "l1"}, lambda d: sgd(
        d, regularization_type="l1", regularization_scale=0.01), []),
    ("sgd", {"penalty": "l2"}, lambda d: sgd(
        d, regularization_type="l2", regularization_scale=0.01), []),
    ("rmsprop", {}, lambda d: mps.MPSNNOptimizerRMSProp(
        device=d, decay=0.9, epsilon=1e-8, optimizer_descriptor=descriptor()),
     ["input_sum_of_squares"]),
    ("adam", {}, lambda d: mps.MPSNNOptimizerAdam(device=d, learning_rate=0.1),
     ["input_momentum", "input_velocity"]),
    ("adam", {"amsgrad": True}, lambda d: mps.MPSNNOptimizerAdam(device=d, learning_rate=0.1),
     ["input_momentum", "input_velocity", "maximum_velocity"]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "options", "make", "slots"), RULES)
@pytest.mark.parametrize("in_place", [True, False])
def test_rules_over_vectors(kind, options, make, slots, in_place):
    on = mps.MTLDevice(device="cpu")
    optimizer, reference = make(on), Reference(kind, **options)
    start = RANDOM.normal(size=7)
    values = vector(on, start)
    result = values if in_place else vector(on, np.zeros(7))
    own = {f"{name}_vector": vector(on, np.zeros(7)) for name in slots}
    expected = np.asarray(values.data).astype(np.float64)
    compilations = []
    for _ in range(4):
        gradient = RANDOM.normal(size=7).astype(np.float32)
        buffer = commands(on)
        optimizer.encode(
            buffer, input_gradient_vector=vector(on, gradient), input_values_vector=values,
            result_values_vector=result, **own,
        )  # fmt: skip
        run(buffer)
        compilations.append(on.compilations)
        expected = reference(expected, gradient.astype(np.float64))
        np.testing.assert_allclose(np.asarray(result.data), expected, rtol=1e-4, atol=1e-5)
        if not in_place:
            np.testing.assert_array_equal(np.asarray(values.data), start.astype(np.float32))
            values, result = result, values
            start = np.array(values.data)
    assert len(set(compilations)) <= (1 if in_place else 2)


def test_the_time_step_counts_encodings():
    on = mps.MTLDevice(device="cpu")
    adam = mps.MPSNNOptimizerAdam(device=on, learning_rate=0.1)
    assert adam.time_step == 0
    values, slots = vector(on, [1.0]), [vector(on, [0.0]) for _ in range(2)]
    buffer = commands(on)
    for _ in range(3):
        adam.encode(
            buffer, input_gradient_vector=vector(on, [0.5]), input_values_vector=values,
            input_momentum_vector=slots[0], input_velocity_vector=slots[1],
            result_values_vector=values,
        )  # fmt: skip
    run(buffer)
    assert adam.time_step == 3
    np.testing.assert_allclose(np.asarray(values.data), [0.7], rtol=1e-5)
    adam.time_step = 10
    assert adam.time_step == 10


def test_a_new_learning_rate_compiles_nothing():
    on = mps.MTLDevice(device="cpu")
    optimizer, values = sgd(on), vector(on, [1.0])
    seen = []
    for rate in (0.1, 0.2, 0.4):
        optimizer.set_learning_rate(rate)
        buffer = commands(on)
        optimizer.encode(buffer, input_gradient_vector=vector(on, [1.0]),
                         input_values_vector=values, result_values_vector=values)  # fmt: skip
        run(buffer)
        seen.append((round(float(np.asarray(values.data)[0]), 6), on.compilations))
    assert [value for value, _ in seen] == [0.9, 0.7, 0.3]
    assert len({count for _, count in seen}) == 1


def test_bad_vectors():
    on = mps.MTLDevice(device="cpu")
    adam = mps.MPSNNOptimizerAdam(device=on, learning_rate=0.1)
    two, three = vector(on, [1, 2]), vector(on, [1, 2, 3])
    arguments = {"input_values_vector": two, "result_values_vector": two}
    with pytest.raises(ValueError, match=r"MPSNNOptimizerAdam.*2 vectors of its own but got 0"):
        adam.encode(commands(on), input_gradient_vector=two, **arguments)
    with pytest.raises(ValueError, match="2 elements of gradient and result but got 3"):
        sgd(on).encode(commands(on), input_gradient_vector=three, **arguments)
    with pytest.raises(ValueError, match="vector of 2 elements but got 3"):
        sgd(on, 0.9).encode(commands(on), input_gradient_vector=two, input_momentum_vector=three,
                            **arguments)  # fmt: skip
