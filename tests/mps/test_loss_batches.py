"""Losses of batches: what is given for some of the images only, twice, or in another size."""

from typing import Any

import numpy as np
import pytest
from kernels import array, batch, commands, empty, run

import traingraph as tg
from traingraph import mps

SHAPE = (3, 4, 1, 2)
RANDOM = np.random.default_rng(8)
Y, T = RANDOM.uniform(0.1, 0.9, SHAPE), RANDOM.uniform(0.1, 0.9, SHAPE)


def descriptor(name: str, reduction: str = "sum") -> Any:
    return mps.MPSCNNLossDescriptor.cnn_loss_descriptor(with_type=name, reduction_type=reduction)


def loss(name: str, labels: list[Any], predictions: Any = Y) -> tuple[np.ndarray, np.ndarray]:
    on = mps.MTLDevice(device="reference")
    kernel = mps.MPSCNNLoss(device=on, loss_descriptor=descriptor(name))
    kernel.makes_temporary_images = False
    buffer = commands(on)
    gradient = kernel.encode_batch(buffer, source_images=batch(on, predictions), labels=labels)
    run(buffer)
    return array([one.loss_image() for one in labels]), array(gradient)


def truths(weights: list[Any], labels: np.ndarray = T) -> list[Any]:
    on = mps.MTLDevice(device="reference")
    rows = zip(empty(on, (len(labels), 1, 1, 1)), batch(on, labels), weights, strict=True)
    return [
        mps.MPSCNNLossLabels(loss_image=value, labels_image=truth, weights_image=weight)
        for value, truth, weight in rows
    ]


def weights_of(shape: tuple[int, ...] = SHAPE) -> list[Any]:
    return batch(mps.MTLDevice(device="reference"), RANDOM.uniform(1, 2, shape))


@pytest.mark.parametrize("place", range(3))
def test_weights_of_some_images_are_refused(place: int) -> None:
    """They were left out where the first image has none."""
    weights: list[Any] = [None] * 3
    weights[place] = weights_of()[0]
    with pytest.raises(tg.InvalidArgument, match="weights with the labels of every image or of n"):
        loss("mean_squared_error", truths(weights))


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("mean_squared_error", (3, 1, 1, 2)),
        ("mean_squared_error", (3, 4, 1, 1)),
        ("sigmoid_cross_entropy", (3, 1, 1, 1)),
        ("soft_max_cross_entropy", (3, 3, *SHAPE[2:])),
        ("soft_max_cross_entropy", (3, 1, 2, 1)),
    ],
)
def test_weights_of_another_size_are_refused(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(tg.ShapeError, match=r"\[MPSCNNLoss\] expected weights images \dx1x2"):
        loss(name, truths(weights_of(shape)))


@pytest.mark.parametrize("shape", [(3, 3, 1, 2), (3, 1, 1, 2), (3, 4, 2, 1), (3, 4, 1, 1)])
@pytest.mark.parametrize("name", ["mean_squared_error", "soft_max_cross_entropy"])
def test_labels_of_another_size_are_refused(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(tg.ShapeError, match=r"\[MPSCNNLoss\] expected labels images 4x1x2 but"):
        loss(name, truths([None] * 3, np.ones(shape)))


@pytest.mark.parametrize("count", [1, 2, 4])
def test_labels_for_another_number_of_images_are_refused(count: int) -> None:
    with pytest.raises(tg.ShapeError, match=rf"for 3 images but got {count} and 3"):
        loss("mean_squared_error", truths([None] * count, np.ones((count, 4, 1, 2))))


def test_one_image_does_not_take_the_losses_of_several() -> None:
    """The last one would be left."""
    (first, *_), *others = truths([None] * 3), truths([None] * 3)
    labels = [
        mps.MPSCNNLossLabels(loss_image=first.loss_image(), labels_image=one.labels_image())
        for one in others[0]
    ]
    with pytest.raises(tg.InvalidArgument, match="apart from each other but got one of them twic"):
        loss("mean_squared_error", labels)
    with pytest.raises(tg.InvalidArgument, match="apart from each other"):
        loss("mean_squared_error", [first] * 3)
    on = mps.MTLDevice(device="cpu")
    x, y = (batch(on, np.ones((2, 4, 3, 3), np.float32)) for _ in range(2))
    kernel, buffer = mps.MPSCNNSoftMax(device=on), commands(on)
    with pytest.raises(tg.InvalidArgument, match="apart from each other"):
        kernel.encode_batch(buffer, source_images=x, destination_images=[y[0], y[0]])
    kernel.encode_batch(buffer, source_images=[x[0], x[0]], destination_images=y)
    run(buffer)
    np.testing.assert_array_equal(array(y), 0.25)


NONE_AMONG_THEM = {
    "labels": lambda on, x: mps.MPSCNNLoss(
        device=on, loss_descriptor=descriptor("mean_squared_error")
    ).encode_batch(commands(on), source_images=x, labels=[None, None]),
    "sources": lambda on, x: mps.MPSCNNSoftMax(device=on).encode_batch(
        commands(on), source_images=[x[0], None]
    ),
    "size": lambda on, x: mps.MPSCNNSoftMax(device=on).destination_image_descriptor([None]),
    "size of two": lambda on, x: mps.MPSCNNAdd(device=on).destination_image_descriptor(
        [x[0], None]
    ),
    "read count": lambda on, x: mps.image_batch_increment_read_count([None], 1),
    "states": lambda on, x: mps.MPSCNNSoftMaxGradient(device=on).encode_batch(
        commands(on), source_gradients=x, source_images=x, gradient_states=[None, None]
    ),
}


@pytest.mark.parametrize("name", NONE_AMONG_THEM)
def test_none_in_a_list_is_refused(name: str) -> None:
    on = mps.MTLDevice(device="cpu")
    x = batch(on, np.ones((2, 4, 3, 3), np.float32))
    with pytest.raises(TypeError, match=r"\[.*\] expected \w+\[\d\]: \w+ but got 'NoneType'"):
        NONE_AMONG_THEM[name](on, x)
