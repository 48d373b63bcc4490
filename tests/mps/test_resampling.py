"""Upsampling, reshape, padding, slices, concatenation, means and Gram matrices."""

import numpy as np
import pytest
from gradients import backward, check, device, execute, forward, random
from kernels import array, batch, commands, empty

from traingraph import ShapeError, _core, mps

EDGES = {
    "zero": {"mode": "constant"}, "constant": {"mode": "constant", "constant_values": 0.75},
    "clamp": {"mode": "edge"}, "mirror": {"mode": "reflect"},
    "mirror_with_edge": {"mode": "symmetric"},
}  # fmt: skip


def interpolation(size, scale, align_corners):
    """(scale size, size)."""
    count = size * scale
    matrix = np.zeros((count, size))
    for i in range(count):
        at = i / scale
        if align_corners:
            at = i * (size - 1) / max(count - 1, 1)
        at = min(max(at, 0), size - 1)
        below = int(np.floor(at))
        matrix[i, below] += 1 - (at - below)
        matrix[i, min(below + 1, size - 1)] += at - below
    return matrix


@pytest.mark.parametrize("scale", [(1, 1), (2, 3), (3, 1)])
def test_nearest(scale):
    x = random(1, 2, 3, 2, 4)
    sizes = {"integer_scale_factor_x": scale[0], "integer_scale_factor_y": scale[1]}
    kernel = mps.MPSCNNUpsamplingNearest(device=device(), **sizes)
    expected = x.repeat(scale[1], axis=2).repeat(scale[0], axis=3)
    gradient = mps.MPSCNNUpsamplingNearestGradient(device=device(), **sizes)
    check(kernel, gradient, x, expected)
    assert (gradient.scale_factor_x, gradient.scale_factor_y) == scale


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("scale", [(1, 1), (2, 3), (4, 2)])
def test_bilinear(scale, align_corners):
    x = random(2, 2, 2, 3, 4)
    sizes = {"integer_scale_factor_x": scale[0], "integer_scale_factor_y": scale[1]}
    kernel = mps.MPSCNNUpsamplingBilinear(device=device(), **sizes, align_corners=align_corners)
    rows = interpolation(3, scale[1], align_corners)
    columns = interpolation(4, scale[0], align_corners)
    expected = np.einsum("ih,nchw,jw->ncij", rows, x, columns)
    gradient = mps.MPSCNNUpsamplingBilinearGradient(device=device(), **sizes)
    check(kernel, gradient, x, expected)
    assert gradient.align_corners is align_corners


def test_what_a_program_measured_on_hardware():
    """A row of red, green and blue, twice as large: half of both between them, exact on them."""
    x = np.eye(3)[None, :, None, :]
    sizes = {"integer_scale_factor_x": 2, "integer_scale_factor_y": 2}
    y, _ = forward(mps.MPSCNNUpsamplingBilinear(device=device(), **sizes), x)
    np.testing.assert_array_equal(y[0, :, 0, :3].T, [[1, 0, 0], [0.5, 0.5, 0], [0, 1, 0]])


def test_the_destination_form_leaves_align_corners_as_it_is():
    sizes = {"integer_scale_factor_x": 2, "integer_scale_factor_y": 2}
    x = random(3, 1, 1, 2, 2)
    kernel = mps.MPSCNNUpsamplingBilinear(device=device(), **sizes, align_corners=True)
    y, states = forward(kernel, x)
    gradient = mps.MPSCNNUpsamplingBilinearGradient(device=device(), **sizes)
    dy = random(4, *y.shape)
    given = {
        "source_gradients": batch(device(), dy), "source_images": batch(device(), x),
        "gradient_states": states,
    }  # fmt: skip
    out = empty(device(), x.shape)
    execute(lambda buffer: gradient.encode_batch(buffer, **given, destination_gradients=out))
    rows = interpolation(2, 2, False)
    np.testing.assert_allclose(array(out), np.einsum("ih,ncij,jw->nchw", rows, dy, rows))
    gradient.destination_image_descriptor(
        for_source_images=[given["source_gradients"][0], given["source_images"][0]],
        source_states=states,
    )
    assert gradient.align_corners
    out = empty(device(), x.shape)
    execute(lambda buffer: gradient.encode_batch(buffer, **given, destination_gradients=out))
    rows = interpolation(2, 2, True)
    np.testing.assert_allclose(array(out), np.einsum("ih,ncij,jw->nchw", rows, dy, rows))


def test_upsampling_refuses_scales_and_gradients_of_another_size():
    with pytest.raises(ValueError, match=r"MPSCNNUpsamplingNearest.*1 or more but got 0 and 2"):
        mps.MPSCNNUpsamplingNearest(
            device=device(), integer_scale_factor_x=0, integer_scale_factor_y=2
        )
    sizes = {"integer_scale_factor_x": 2, "integer_scale_factor_y": 2}
    x = random(3, 1, 1, 2, 2)
    _, states = forward(mps.MPSCNNUpsamplingNearest(device=device(), **sizes), x)
    gradient = mps.MPSCNNUpsamplingNearestGradient(device=device(), **sizes)
    with pytest.raises(ShapeError, match=r"NearestGradient\] expected source gradients"):
        backward(gradient, x, x, states)
    kernel = mps.MPSCNNUpsamplingNearest(device=device(), **sizes)
    with pytest.raises(ShapeError, match="expected destination images"):
        kernel.encode_batch(
            commands(device()), source_images=batch(device(), x),
            destination_images=empty(device(), (1, 1, 2, 4)),
        )  # fmt: skip


def test_reshape():
    on = device()
    x = random(5, 2, 3, 2, 4)
    kernel = mps.MPSNNReshape(device=on)
    kernel.makes_temporary_images = False
    y, states = execute(
        lambda buffer: kernel.encode_batch(
            buffer, source_images=batch(on, x), destination_state_is_temporary=False,
            reshaped_width=6, reshaped_height=1, reshaped_feature_channels=4,
        )
    )  # fmt: skip
    np.testing.assert_array_equal(array(y), x.reshape(2, 4, 1, 6))
    dy = random(6, 2, 4, 1, 6)
    dx = backward(mps.MPSNNReshapeGradient(device=on), dy, x, states)
    np.testing.assert_array_equal(dx, dy.reshape(x.shape))
    out = empty(on, (2, 24, 1, 1))
    execute(
        lambda buffer: kernel.encode_batch(
            buffer, source_images=batch(on, x), destination_images=out
        )
    )
    np.testing.assert_array_equal(array(out), x.reshape(2, 24, 1, 1))
    with pytest.raises(ShapeError, match=r"MPSNNReshape.*as many elements"):
        kernel.encode(
            commands(on), source_image=batch(on, x)[0], reshaped_width=5, reshaped_height=1,
            reshaped_feature_channels=4,
        )  # fmt: skip


@pytest.mark.parametrize("edge", EDGES)
def test_padding(edge):
    on = device()
    x = random(7, 2, 3, 4, 3)
    before, after = (1, 2, 1), (2, 0, 2)
    kernel = mps.MPSNNPad(device=on, padding_size_before=before, padding_size_after=after)
    kernel.edge_mode = edge
    kernel.fill_value = 0.75
    widths = [(0, 0), *zip(reversed(before), reversed(after), strict=True)]
    gradient = mps.MPSNNPadGradient(device=on)
    check(kernel, gradient, x, np.pad(x, widths, **EDGES[edge]))
    assert tuple(gradient.primary_offset) == before
    assert kernel.padding_size_before == before
    assert tuple(kernel.offset) == (-1, -2, -1)


def test_padding_by_channel():
    x = random(8, 1, 2, 2, 2)
    kernel = mps.MPSNNPad(
        device=device(), padding_size_before=(1, 0, 1), padding_size_after=(0, 1, 0),
        fill_value_array=[1.0, 2.0, 3.0],
    )  # fmt: skip
    expected = np.broadcast_to(np.reshape([1.0, 2.0, 3.0], (1, 3, 1, 1)), (1, 3, 3, 3)).copy()
    expected[:, 1:, :2, 1:] = x
    check(kernel, mps.MPSNNPadGradient(device=device()), x, expected)
    with pytest.raises(ShapeError, match=r"MPSNNPad.*one fill value per result channel, 4"):
        forward(kernel, random(8, 1, 3, 2, 2))
    with pytest.raises(ValueError, match="0 or more but got"):
        mps.MPSNNPad(device=device(), padding_size_before=(-1, 0, 0))


def test_concatenation_and_its_slices():
    on = device()
    parts = [random(9 + k, 2, channels, 2, 3) for k, channels in enumerate((1, 4, 2))]
    kernel = _core.MPSNNConcatenation(device=on)
    kernel.makes_temporary_images = False
    y = execute(
        lambda buffer: kernel.encode_batch(buffer, source_images=[batch(on, p) for p in parts])
    )
    np.testing.assert_array_equal(array(y), np.concatenate(parts, axis=1))
    first = 0
    for part in parts:
        piece = mps.MPSNNSlice(device=on)
        piece.source_feature_channel_offset = first
        piece.source_feature_channel_max_count = part.shape[1]
        np.testing.assert_array_equal(forward(piece, array(y))[0], part)
        first += part.shape[1]
    with pytest.raises(ShapeError, match=r"MPSNNConcatenation.*one size"):
        kernel.encode_batch(
            commands(on), source_images=[batch(on, parts[0]), batch(on, random(1, 2, 1, 3, 3))]
        )
    piece.source_feature_channel_offset = 7
    with pytest.raises(ShapeError, match=r"MPSNNSlice.*more than 7 channels"):
        forward(piece, array(y))


@pytest.mark.parametrize(("name", "axis"), [("Row", 3), ("Column", 2), ("FeatureChannels", 1)])
@pytest.mark.parametrize("kind", ["Sum", "Mean"])
def test_reductions(name, axis, kind):
    x = random(12, 2, 3, 4, 5)
    kernel = getattr(mps, f"MPSNNReduce{name}{kind}")(device=device())
    y, _ = forward(kernel, x)
    expected = getattr(x, kind.lower())(axis=axis, keepdims=True)
    np.testing.assert_allclose(y, expected, rtol=1e-12)


def test_weighted_sum_over_channels():
    x = random(13, 1, 3, 2, 2)
    kernel = mps.MPSNNReduceFeatureChannelsSum(device=device())
    kernel.weight = 0.25
    np.testing.assert_allclose(forward(kernel, x)[0], 0.25 * x.sum(axis=1, keepdims=True))


def test_spatial_mean():
    x = random(14, 2, 3, 4, 5)
    kernel = _core.MPSNNReductionSpatialMean(device=device())
    gradient = _core.MPSNNReductionSpatialMeanGradient(device=device())
    check(kernel, gradient, x, x.mean(axis=(2, 3), keepdims=True))


def test_gram_matrix():
    x = random(15, 2, 3, 2, 4)
    kernel = mps.MPSNNGramMatrixCalculation(device=device(), alpha=0.5)
    rows = x.reshape(2, 3, 8)
    expected = 0.5 * np.einsum("nfk,nck->ncf", rows, rows)[:, :, None, :]
    gradient = mps.MPSNNGramMatrixCalculationGradient(device=device())
    check(kernel, gradient, x, expected)
    assert gradient.alpha == 0.5
    dy = random(16, 2, 3, 1, 3)
    _, states = forward(kernel, x)
    both = dy[:, :, 0, :] + dy[:, :, 0, :].transpose(0, 2, 1)
    by_hand = 0.5 * np.einsum("nfc,nck->nfk", both, rows).reshape(x.shape)
    np.testing.assert_allclose(backward(gradient, dy, x, states), by_hand)


def test_pooling_by_root_of_squares_and_with_gaps():
    x = random(17, 1, 2, 5, 6)
    sizes = {"kernel_width": 3, "kernel_height": 2, "stride_in_pixels_x": 2}
    check(
        mps.MPSCNNPoolingL2Norm(device=device(), **sizes),
        mps.MPSCNNPoolingL2NormGradient(device=device(), **sizes), x,
    )  # fmt: skip
    sizes = {"kernel_width": 2, "kernel_height": 3, "dilation_rate_x": 3, "dilation_rate_y": 2}
    check(
        mps.MPSCNNDilatedPoolingMax(device=device(), **sizes),
        mps.MPSCNNDilatedPoolingMaxGradient(device=device(), **sizes), x,
    )  # fmt: skip
