"""Bilinear images of any size: the kernel, and the scaling node of graphs."""

import numpy as np
import pytest
from gradients import device as made
from gradients import execute, forward, random
from graphs import evaluate, source
from kernels import array, batch

from traingraph import InvalidArgument, Unsupported, mps


def positions(size, count, align_corners):
    """(count, size)."""
    at = (np.arange(count) + 0.5) * size / count - 0.5
    if align_corners:
        at = np.arange(count) * (size - 1) / max(count - 1, 1)
    at = np.clip(at, 0, size - 1)
    return np.maximum(0, 1 - np.abs(at[:, None] - np.arange(size)))


def resized(x, height, width, align_corners=False):
    rows = positions(x.shape[2], height, align_corners)
    columns = positions(x.shape[3], width, align_corners)
    return np.einsum("ih,nchw,jw->ncij", rows, x, columns)


def kernel_of(width, height, on="reference", **given):
    return mps.MPSNNResizeBilinear(
        device=made(on), resize_width=width, resize_height=height, **given
    )


SIZES = [(5, 4), (10, 8), (7, 9), (3, 2), (1, 1), (1, 11), (13, 1)]


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize(("width", "height"), SIZES)
def test_against_numpy(width, height, align_corners):
    x = random(1, 2, 3, 4, 5)
    kernel = kernel_of(width, height, align_corners=align_corners)
    assert (kernel.resize_width, kernel.resize_height) == (width, height)
    assert kernel.align_corners is align_corners
    expected = resized(x, height, width, align_corners)
    np.testing.assert_allclose(forward(kernel, x)[0], expected, rtol=1e-12, atol=1e-12)
    if (width, height) == (5, 4):
        np.testing.assert_allclose(expected, x)


def test_corners():
    x = random(2, 1, 1, 4, 5)
    y, _ = forward(kernel_of(9, 3, align_corners=True), x)
    np.testing.assert_allclose(y[..., ::2, ::8], x[..., ::3, ::4])
    assert kernel_of(9, 3).align_corners is False


def test_one_kernel_for_images_of_several_sizes():
    kernel = kernel_of(4, 6)
    for shape in ((1, 2, 3, 4), (2, 1, 7, 2), (1, 2, 3, 4)):
        x = random(3, *shape)
        np.testing.assert_allclose(forward(kernel, x)[0], resized(x, 6, 4), atol=1e-12)


@pytest.mark.parametrize("device", ["cpu"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_images_of_other_formats(dtype, device):
    x = random(4, 2, 3, 4, 5).astype(dtype)
    y, _ = forward(kernel_of(7, 3, device), x)
    assert y.dtype == x.dtype
    near = 2e-3 if dtype == "float16" else 1e-5
    np.testing.assert_allclose(y, resized(x.astype(float), 3, 7), atol=near)


def test_between_corners_a_factor_is_what_upsampling_does():
    """Without them resizing has centers on centers, and upsampling first pixels on first pixels."""
    x = random(5, 2, 3, 4, 5)
    for align_corners in (True, False):
        upsampling = mps.MPSCNNUpsamplingBilinear(
            device=made(), integer_scale_factor_x=3, integer_scale_factor_y=2,
            align_corners=align_corners,
        )  # fmt: skip
        found = forward(kernel_of(15, 8, align_corners=align_corners), x)[0]
        assert np.array_equal(found, forward(upsampling, x)[0]) is align_corners


def test_a_part_of_the_destination():
    on, x, old = made(), random(6, 1, 8, 4, 5), random(7, 1, 12, 9, 9)
    kernel = kernel_of(3, 2)
    kernel.clip_rect = ((4, 5), (3, 2))
    kernel.source_feature_channel_offset = kernel.destination_feature_channel_offset = 4
    out = batch(on, old)
    execute(lambda b: kernel.encode_batch(b, source_images=batch(on, x), destination_images=out))
    expected = old.copy()
    expected[:, 4:8, 5:7, 4:7] = resized(x[:, 4:], 2, 3)
    np.testing.assert_allclose(array(out), expected, rtol=1e-12)


def test_bad_sizes_are_refused():
    for width, height in ((0, 3), (3, -1)):
        with pytest.raises(InvalidArgument, match=r"MPSNNResizeBilinear\] expected a size of 1"):
            kernel_of(width, height)


# --- nodes ---------------------------------------------------------------------------------------


def test_nodes():
    x = random(8, 2, 3, 4, 5)
    size = mps.MTLSize(7, 3)
    for node in (
        mps.MPSNNBilinearScaleNode(source=source("x"), output_size=size),
        mps.MPSNNBilinearScaleNode(source=source("x"), output_size=(7, 3)),
        mps.MPSNNBilinearScaleNode(source=source("x"), transform_provider=None, output_size=size),
    ):
        assert isinstance(node, mps.MPSNNScaleNode)
        (found,) = evaluate(made(), {"x": x}, node.result_image)
        np.testing.assert_allclose(found, resized(x, 3, 7), rtol=1e-12, atol=1e-12)
    assert node.result_state is None
    with pytest.raises(Unsupported, match=r"MPSNNBilinearScaleNode.*this one has none"):
        node.gradient_filter(with_source=source("dy"))


def test_bad_nodes_are_refused():
    image = source("x")
    with pytest.raises(Unsupported, match=r"MPSNNBilinearScaleNode\] a transform provider"):
        mps.MPSNNBilinearScaleNode(source=image, transform_provider=object(), output_size=(2, 2))
    with pytest.raises(TypeError, match=r"MPSNNBilinearScaleNode\.output_size"):
        mps.MPSNNBilinearScaleNode(source=image, output_size=3)
    with pytest.raises(TypeError):
        mps.MPSNNScaleNode(source=image, output_size=(2, 2))
    node = mps.MPSNNBilinearScaleNode(source=image, output_size=(0, 2))
    with pytest.raises(InvalidArgument, match="size of 1 pixel or more"):
        mps.MPSNNGraph(device="cpu", result_image=node.result_image)
