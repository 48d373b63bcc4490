"""Losses as images with a gradient kernel of their own, and the gradient that begins with ones."""

import numpy as np
import pytest
from gradients import device, execute, forward, near, random
from kernels import array, batch, commands, differences

from traingraph import ShapeError, Unsupported, mps

TYPES = {
    "mean_absolute_error": {}, "mean_squared_error": {}, "soft_max_cross_entropy": {},
    "sigmoid_cross_entropy": {}, "categorical_cross_entropy": {}, "hinge": {},
    "huber": {"delta": 0.4}, "log": {"epsilon": 0.01}, "kullback_leibler_divergence": {},
}  # fmt: skip
# Predictions and labels between 0 and 1, away from every kink.
SHAPE = (2, 3, 1, 2)


def values(name, y, t, smoothing=0.0, delta=0.4, epsilon=0.01):
    """One value per element, in NumPy."""
    if name == "soft_max_cross_entropy":
        t = t * (1 - smoothing) + smoothing / y.shape[1]
        logs = y - np.log(np.exp(y).sum(axis=1, keepdims=True))
        return -(t * logs).sum(axis=1, keepdims=True)
    if name == "sigmoid_cross_entropy":
        t = t * (1 - smoothing) + smoothing / 2
        return np.maximum(y, 0) - y * t + np.log1p(np.exp(-np.abs(y)))
    distance = np.abs(y - t)
    return {
        "mean_absolute_error": lambda: distance,
        "mean_squared_error": lambda: distance**2,
        "categorical_cross_entropy": lambda: -t * np.log(y),
        "hinge": lambda: np.maximum(1 - t * y, 0),
        "huber": lambda: np.where(
            distance <= delta, distance**2 / 2, delta * (distance - delta / 2)
        ),
        "log": lambda: -t * np.log(y + epsilon) - (1 - t) * np.log(1 - y + epsilon),
        "kullback_leibler_divergence": lambda: t * (np.log(t) - y),
    }[name]()


def reduced(v, kind, across, w):
    v = v * w
    axes = (1, 2, 3)
    if kind == "none":
        return v
    total = v.sum(axis=axes, keepdims=True)
    if kind == "mean":
        total = total / (v.size / len(v))
    if kind == "sum_by_non_zero_weights":
        count = (w != 0).sum(axis=axes, keepdims=True)
        total = total / (count.sum() if across else count)
    if across:
        whole = total.sum() / (len(v) if kind == "mean" else 1)
        total = np.zeros_like(total)
        total[0] = whole
    return total


def kernels_of(name, kind, across=False, smoothing=0.0, weight=1.0):
    d = mps.MPSCNNLossDescriptor.cnn_loss_descriptor(with_type=name, reduction_type=kind)
    d.reduce_across_batch, d.label_smoothing, d.weight = across, smoothing, weight
    for key, value in TYPES.get(name, {}).items():
        setattr(d, key, value)
    made = (mps.MPSNNForwardLoss(device=device(), loss_descriptor=d),
            mps.MPSNNLossGradient(device=device(), loss_descriptor=d))  # fmt: skip
    for kernel in made:
        kernel.makes_temporary_images = False
    return made


def loss_of(kernel, y, t, w=None):
    given = {"weights": batch(device(), w)} if w is not None else {}
    result, states = execute(
        lambda buffer: kernel.encode_batch(
            buffer, source_images=batch(device(), y), labels=batch(device(), t), **given,
            destination_state_is_temporary=False,
        )
    )  # fmt: skip
    return array(result), states


def gradient_of(kernel, dloss, y, t, states, w=None):
    given = {"weights": batch(device(), w)} if w is not None else {}
    return array(
        execute(
            lambda buffer: kernel.encode_batch(
                buffer, source_gradients=batch(device(), dloss), source_images=batch(device(), y),
                labels=batch(device(), t), source_states=states, **given,
            )
        )
    )  # fmt: skip


def between(seed):
    return np.random.default_rng(seed).uniform(0.2, 0.8, SHAPE)


REDUCTIONS = [
    ("none", False), ("sum", False), ("sum", True), ("mean", False), ("mean", True),
    ("sum_by_non_zero_weights", False), ("sum_by_non_zero_weights", True),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "across"), REDUCTIONS)
@pytest.mark.parametrize("name", TYPES)
def test_values_and_both_gradients(name, kind, across):
    y, t = between(1), between(2)
    channels = 1 if name == "soft_max_cross_entropy" else SHAPE[1]
    w = np.random.default_rng(3).uniform(0.5, 2, (2, channels, 1, 2))
    w[0, 0, 0, 1] = 0
    forward_kernel, gradient = kernels_of(name, kind, across, weight=0.5)
    found, states = loss_of(forward_kernel, y, t, w)
    expected = 0.5 * reduced(values(name, y, t), kind, across, w)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)

    dloss = random(4, *found.shape)
    by_y = differences(lambda moved: np.sum(dloss * loss_of(forward_kernel, moved, t, w)[0]), y)
    result = gradient_of(gradient, dloss, y, t, states, w)
    assert np.abs(result).max() > 0
    near(result, by_y)
    gradient.compute_label_gradients = True
    by_t = differences(lambda moved: np.sum(dloss * loss_of(forward_kernel, y, moved, w)[0]), t)
    near(gradient_of(gradient, dloss, y, t, states, w), by_t)


@pytest.mark.parametrize(("kind", "across"), REDUCTIONS)
def test_weights_of_classes(kind, across):
    """-sum w t log p, and its derivatives by predictions and by labels, which are smoothed."""
    y, t, smoothing = random(1, *SHAPE), between(2), 0.25
    w = np.random.default_rng(3).uniform(-0.5, 2, SHAPE)
    w[0, :, 0, 1] = w[1, 0] = 0
    forward_kernel, gradient = kernels_of(
        "soft_max_cross_entropy", kind, across, smoothing, weight=0.5
    )
    found, states = loss_of(forward_kernel, y, t, w)
    truth = t * (1 - smoothing) + smoothing / 3
    terms = -(w * truth * (y - np.log(np.exp(y).sum(axis=1, keepdims=True)))).sum(1, keepdims=True)
    expected = 0.5 * reduced(terms, "sum" if kind.startswith("sum_by") else kind, across, 1)
    if kind.startswith("sum_by"):
        counts = (w != 0).sum(axis=(1, 2, 3), keepdims=True)
        if across:
            expected /= counts.sum()
        else:
            expected /= counts
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
    dloss = random(4, *found.shape)
    by_y = differences(lambda moved: np.sum(dloss * loss_of(forward_kernel, moved, t, w)[0]), y)
    near(gradient_of(gradient, dloss, y, t, states, w), by_y)
    gradient.compute_label_gradients = True
    by_t = differences(lambda moved: np.sum(dloss * loss_of(forward_kernel, y, moved, w)[0]), t)
    near(gradient_of(gradient, dloss, y, t, states, w), by_t)


def test_what_programs_measured_on_hardware():
    """The hinge loss of -0.2 where 0.9 is true."""
    y, t = np.full((1, 1, 1, 1), -0.2), np.full((1, 1, 1, 1), 0.9)
    forward_kernel, gradient = kernels_of("hinge", "none")
    found, states = loss_of(forward_kernel, y, t)
    np.testing.assert_allclose(found, 1.18)
    np.testing.assert_allclose(gradient_of(gradient, np.ones_like(y), y, t, states), -0.9)


@pytest.mark.parametrize("name", ["soft_max_cross_entropy", "sigmoid_cross_entropy"])
def test_label_smoothing(name):
    y, t = random(5, *SHAPE), between(6)
    forward_kernel, gradient = kernels_of(name, "sum", smoothing=0.3)
    found, states = loss_of(forward_kernel, y, t)
    smoothing = float(np.float32(0.3))
    expected = reduced(values(name, y, t, smoothing), "sum", False, 1)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    dloss = random(7, *found.shape)
    for by_labels, at in ((False, y), (True, t)):
        gradient.compute_label_gradients = by_labels
        numeric = differences(lambda _: np.sum(dloss * loss_of(forward_kernel, y, t)[0]), at)
        result = gradient_of(gradient, dloss, y, t, states)
        near(result, numeric)


@pytest.mark.parametrize("across", [False, True])
def test_cosine_distance(across):
    """1 - sum(t y) of each image; the derivatives are -t and -y."""
    y, t = between(1), between(2)
    forward_kernel, gradient = kernels_of("cosine_distance", "sum", across, weight=2.0)
    loss, states = loss_of(forward_kernel, y, t)
    each = 2 * (1 - (t * y).sum(axis=(1, 2, 3), keepdims=True))
    expected = np.concatenate([each.sum(axis=0, keepdims=True), 0 * each[1:]]) if across else each
    np.testing.assert_allclose(loss, expected, rtol=1e-12)
    ones = np.ones_like(loss)
    np.testing.assert_allclose(gradient_of(gradient, ones, y, t, states), -2 * t, rtol=1e-12)
    gradient.compute_label_gradients = True
    np.testing.assert_allclose(gradient_of(gradient, ones, y, t, states), -2 * y, rtol=1e-12)


def test_ones_times_the_gradient_is_what_the_loss_kernel_gives():
    y, t = random(8, *SHAPE), between(9)
    forward_kernel, gradient = kernels_of("soft_max_cross_entropy", "mean", True)
    loss, states = loss_of(forward_kernel, y, t)
    ones, _ = forward(mps.MPSNNInitialGradient(device=device()), loss)
    np.testing.assert_array_equal(ones, np.ones_like(loss))
    d = mps.MPSCNNLossDescriptor.cnn_loss_descriptor(
        with_type="soft_max_cross_entropy", reduction_type="mean"
    )
    d.reduce_across_batch = True
    kernel = mps.MPSCNNLoss(device=device(), loss_descriptor=d)
    kernel.makes_temporary_images = False
    labels = [
        mps.MPSCNNLossLabels(device=device(), loss_image_size=(1, 1, 1), labels_image=one)
        for one in batch(device(), t)
    ]
    result = execute(
        lambda buffer: kernel.encode_batch(buffer, source_images=batch(device(), y), labels=labels)
    )
    found = gradient_of(gradient, ones, y, t, states)
    # The ones of the images that hold no loss say nothing.
    np.testing.assert_allclose(found, array(result), rtol=1e-12)
    np.testing.assert_allclose(loss, array([label.loss_image() for label in labels]))


def test_what_is_refused():
    y, t = between(1), between(2)
    forward_kernel, gradient = kernels_of("mean_squared_error", "sum_by_non_zero_weights")
    with pytest.raises(ValueError, match=r"MPSNNForwardLoss\] expected weights"):
        loss_of(forward_kernel, y, t)
    with pytest.raises(ShapeError, match="expected 2 labels images 3x1x2 but got 2"):
        loss_of(forward_kernel, y, t[:, :2], y)
    with pytest.raises(ShapeError, match=r"MPSNNLossGradient\] expected 2 source gradients 1x1x1"):
        gradient_of(gradient, y, y, t, [], y)
    with pytest.raises(Unsupported, match="without labels"):
        forward_kernel.encode(commands(device()), source_image=batch(device(), y)[0])
    with pytest.raises(Unsupported, match="without labels"):
        gradient.encode(
            commands(device()), primary_image=batch(device(), y)[0],
            secondary_image=batch(device(), y)[0],
        )  # fmt: skip
    with pytest.raises(ValueError, match="the reduction type sum of a cosine distance"):
        kernels_of("cosine_distance", "mean")
