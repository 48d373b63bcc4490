"""Labels and weights of a loss from the caller's memory."""

import copy

import numpy as np
import pytest
from kernels import array, batch, commands, run

from traingraph import DataTypeError, InvalidArgument, ShapeError, mps

LAYOUTS = {
    "height_x_width_x_feature_channels": (1, 2, 0),
    "feature_channels_x_height_x_width": (0, 1, 2),
}


def random(seed, *shape):
    return np.random.default_rng(seed).uniform(0.1, 1, size=shape).astype(np.float32)


def described(values, layout, rows=0, slices=0):
    """(C, H, W) in this layout, with so many numbers behind each row and slice."""
    laid = np.ascontiguousarray(values.transpose(LAYOUTS[layout]))
    c, h, w = values.shape
    planes = laid.reshape(c if layout.startswith("feature") else 1, h, -1)
    longer = np.full((len(planes), h * (planes.shape[2] + rows) + slices), 99, np.float32)
    for plane, to in zip(planes, longer, strict=True):
        to[: h * (planes.shape[2] + rows)].reshape(h, -1)[:, : planes.shape[2]] = plane
    made = mps.MPSCNNLossDataDescriptor.cnn_loss_data_descriptor(
        with_data=longer.reshape(-1), layout=layout, size=(w, h, c)
    )
    if rows or slices:
        made.bytes_per_row = 4 * (planes.shape[2] + rows)
        made.bytes_per_image = 4 * longer.shape[1]
    return made


@pytest.mark.parametrize("device", ["reference", "cpu"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("rows", "slices"), [(0, 0), (3, 0), (0, 5), (2, 4)])
def test_labels_and_weights(layout, rows, slices, device):
    truth, weights = random(1, 3, 2, 4), random(2, 3, 2, 4)
    labels = mps.MPSCNNLossLabels(
        device=device, loss_image_size=(4, 2, 3),
        labels_descriptor=described(truth, layout, rows, slices),
        weights_descriptor=described(weights, layout, rows, slices),
    )  # fmt: skip
    np.testing.assert_array_equal(array([labels.labels_image()])[0], truth)
    np.testing.assert_array_equal(array([labels.weights_image()])[0], weights)
    loss = labels.loss_image()
    assert (loss.width, loss.height, loss.feature_channels, loss.number_of_images) == (4, 2, 3, 1)
    bare = mps.MPSCNNLossLabels(
        device=device, loss_image_size=(4, 2, 3), labels_descriptor=described(truth, layout),
        weights_descriptor=None,
    )  # fmt: skip
    assert bare.weights_image() is None


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_loss_of_one_value(layout):
    """The form without a size, in a loss against NumPy and its derivative."""
    on = mps.MTLDevice(device="cpu")
    y, t = random(3, 2, 3, 2, 4), random(4, 2, 3, 2, 4)
    kernel = mps.MPSCNNLoss(
        device=on,
        loss_descriptor=mps.MPSCNNLossDescriptor.cnn_loss_descriptor(
            with_type="mean_squared_error", reduction_type="sum"
        ),
    )
    kernel.makes_temporary_images = False
    labels = [
        mps.MPSCNNLossLabels(device=on, labels_descriptor=described(one, layout)) for one in t
    ]
    buffer = commands(on)
    gradient = kernel.encode_batch(buffer, source_images=batch(on, y), labels=labels)
    run(buffer)
    losses = array([one.loss_image() for one in labels])
    expected = ((y - t) ** 2).sum(axis=(1, 2, 3), keepdims=True)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    np.testing.assert_allclose(array(gradient), 2 * (y - t), rtol=1e-5, atol=1e-6)


def test_a_descriptor_is_a_copy():
    data = random(1, 24)
    made = mps.MPSCNNLossDataDescriptor.cnn_loss_data_descriptor(
        with_data=data, layout="feature_channels_x_height_x_width", size=(4, 2, 3)
    )
    assert made.size == mps.MTLSize(4, 2, 3)
    assert made.layout == mps.MPSDataLayout.FEATURE_CHANNELS_X_HEIGHT_X_WIDTH
    assert (made.bytes_per_row, made.bytes_per_image) == (16, 32)
    other = copy.copy(made)
    made.bytes_per_row, first = 20, data.copy()
    assert other.bytes_per_row == 16
    data[:] = 0
    labels = mps.MPSCNNLossLabels(device="cpu", labels_descriptor=other)
    np.testing.assert_array_equal(array([labels.labels_image()]).reshape(-1), first)


def test_bad_data():
    make = mps.MPSCNNLossDataDescriptor.cnn_loss_data_descriptor
    layout, data = "height_x_width_x_feature_channels", random(1, 24)
    with pytest.raises(ShapeError, match=r"MPSCNNLossDataDescriptor\].*float32 of .*but got 96"):
        make(with_data=data, layout=layout, size=(5, 2, 3))
    for size in ((2**40, 2**40, 2**40), (2**62, 4, 1), (1, 2**62, 4)):
        with pytest.raises(ShapeError, match=r"MPSCNNLossDataDescriptor\].*but got 96 bytes"):
            make(with_data=data, layout=layout, size=size)
    with pytest.raises(ShapeError, match=r"MPSCNNLossDataDescriptor\].*1 or more in each"):
        make(with_data=data, layout=layout, size=(4, 0, 3))
    with pytest.raises(InvalidArgument, match=r"\(width, height, depth\) but got 2 numbers"):
        make(with_data=data, layout=layout, size=(4, 2))
    with pytest.raises(DataTypeError, match="MPSCNNLossDataDescriptor"):
        make(with_data=data.astype(np.complex64), layout=layout, size=(4, 2, 3))
    made = make(with_data=data, layout=layout, size=(4, 2, 3))
    for row, image, text in (
        (44, 96, "48 bytes per row or more but got 44"),
        (48, 92, "96 bytes per slice or more, for all its rows, but got 92"),
        (52, 104, "data for 52 bytes per row and 104 per slice of .*but got 96 bytes"),
        (2**62, 2**63 - 1, "data for"),
    ):
        made.bytes_per_row, made.bytes_per_image = row, image
        with pytest.raises(ShapeError, match=rf"MPSCNNLossDataDescriptor\].*{text}"):
            mps.MPSCNNLossLabels(device="cpu", labels_descriptor=made)
    made.bytes_per_row, made.bytes_per_image = 48, 96
    assert mps.MPSCNNLossLabels(device="cpu", labels_descriptor=made).labels_image().width == 4
