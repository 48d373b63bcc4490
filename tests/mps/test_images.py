"""Images that are parts of others, and pixels with regions, channels and strides."""

import gc

import numpy as np
import pytest
from gradients import near
from kernels import Weights, array, batch, commands, differences, image, run
from test_command_buffers import scale

from traingraph import mps

RANDOM = np.random.default_rng(17)
everywhere = pytest.mark.parametrize("device", ["reference", "cpu"])


def pixels(n=3, c=10, h=4, w=5):
    return RANDOM.normal(size=(n, c, h, w)).astype(np.float32)


@everywhere
@pytest.mark.parametrize("channels", [(0, 4), (4, 4), (8, 2), (4, 6), (0, 10)])
def test_sub_images_read_and_write_their_channels(device, channels):
    device, x, y = mps.MTLDevice(device=device), pixels(), pixels()
    first, count = channels
    source, target = image(device, x), image(device, y)
    part = source.sub_image(with_feature_channel_range=channels)
    assert part.parent is source
    assert (part.feature_channels, part.number_of_images, part.width) == (count, 3, 5)
    np.testing.assert_array_equal(array(part.batch_representation()), x[:, first : first + count])
    result = target.sub_image(with_feature_channel_range=channels)
    buffer = commands(device)
    scale(device, 2).encode_batch(buffer, source_images=[part], destination_images=[result])
    run(buffer)
    y[:, first : first + count] = 2 * x[:, first : first + count]
    np.testing.assert_array_equal(array(target.batch_representation()), y)
    np.testing.assert_array_equal(array(source.batch_representation()), x)


@everywhere
def test_sub_images_of_kernels_with_windows_and_clip_rectangles(device):
    """The same as with images of their own, and channel offsets count from the sub-image's."""
    device, x = mps.MTLDevice(device=device), pixels(2, 16)
    source = Weights(RANDOM.normal(size=(4, 3, 3, 4)).astype(np.float32))
    whole = image(device, x)
    own = image(device, np.ascontiguousarray(x[:, 4:16]))
    results = []
    for one in (whole.sub_image(with_feature_channel_range=(4, 12)), own):
        target = image(device, np.ones((2, 8, 4, 5), np.float32))
        part = target.sub_image(with_feature_channel_range=(4, 4))
        kernel = mps.MPSCNNConvolution(device=device, weights=source)
        kernel.source_feature_channel_offset, kernel.source_feature_channel_max_count = 4, 4
        kernel.clip_rect = mps.MTLRegion(mps.MTLOrigin(1, 1), mps.MTLSize(3, 2))
        buffer = commands(device)
        kernel.encode_batch(
            buffer,
            source_images=one.batch_representation(),
            destination_images=part.batch_representation(),
        )
        run(buffer)
        results.append(array(target.batch_representation()))
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0][:, :4], 1)
    assert (results[0][:, 4:, 1:3, 1:4] != 1).all()
    np.testing.assert_array_equal(results[0][:, 4:, 0], 1)


def test_sub_images_of_temporary_images():
    device, x = mps.MTLDevice(device="cpu"), pixels()
    out = image(device, np.zeros((3, 8, 4, 5), np.float32))
    buffer, kernel = commands(device), scale(device, 2)
    whole = kernel.encode(buffer, source_image=image(device, x))
    part = whole.sub_image(with_feature_channel_range=(4, 4))
    assert isinstance(part, mps.MPSTemporaryImage)
    assert part.parent is None
    assert part.read_count == 1
    kernel.encode(
        buffer,
        source_image=part,
        destination_image=out.sub_image(with_feature_channel_range=(0, 4)),
    )
    kernel.encode(
        buffer,
        source_image=whole.sub_image(with_feature_channel_range=(0, 4)),
        destination_image=out.sub_image(with_feature_channel_range=(4, 4)),
    )
    with pytest.raises(ValueError, match="read count above 0"):
        kernel.encode(buffer, source_image=part, destination_image=out)
    run(buffer)
    expected = 4 * np.concatenate([x[:, 4:8], x[:, :4]], axis=1)
    np.testing.assert_array_equal(array(out.batch_representation()), expected)


def test_a_graph_over_sub_images():
    device, x = mps.MTLDevice(device="cpu"), pixels(4, 8)
    node = mps.MPSCNNNeuronAbsoluteNode(source=mps.MPSNNImageNode(handle="x"))
    graph = mps.MPSNNGraph(device=device, result_image=node.result_image)
    graph.makes_temporary_images = False
    part = image(device, x).sub_image(with_feature_channel_range=(4, 4))
    for sources in ([part], part.batch_representation()):
        buffer = commands(device)
        results = graph.encode_batch(buffer, source_images=[sources])
        run(buffer)
        got = array(results) if len(results) > 1 else array(results[0].batch_representation())
        np.testing.assert_array_equal(got, np.abs(x[:, 4:]))


def test_slices():
    """One for every four channels: of 10 channels three."""
    device, x = mps.MTLDevice(device="cpu"), pixels()
    parent = image(device, x)

    def part(slices, channels):
        made = mps.MPSImage(parent_image=parent, slice_range=slices, feature_channels=channels)
        assert made.parent is parent
        return array(made.batch_representation())

    np.testing.assert_array_equal(part((4, 1), 3), x[1:2, 4:7])
    np.testing.assert_array_equal(part((7, 2), 6), x[2:3, 4:])
    np.testing.assert_array_equal(part((3, 6), 10), x[1:])
    np.testing.assert_array_equal(part((0, 9), 9), x[:, :9])
    bad = [((2, 2), 8), ((0, 6), 8), ((1, 3), 10), ((9, 1), 4), ((0, 1), 5), ((0, 0), 4),
           ((-3, 3), 10), ((0, 3), 0), ((2, 1), 4), ((0, 12), 10)]  # fmt: skip
    for slices, channels in bad:
        with pytest.raises(ValueError, match="expected"):
            part(slices, channels)


def test_rows_of_a_batch():
    device, x = mps.MTLDevice(device="cpu"), pixels(5)
    parent = image(device, x)
    np.testing.assert_array_equal(array(parent.batch_representation(with_sub_range=(1, 3))), x[1:4])
    assert parent.parent is None
    for bad in ((3, 3), (-1, 2), (0, 0), (0,)):
        with pytest.raises(ValueError, match="expected"):
            parent.batch_representation(with_sub_range=bad)
    for bad in ((2, 4), (8, 4), (0, 0), (-4, 4)):
        with pytest.raises(ValueError, match="expected"):
            parent.sub_image(with_feature_channel_range=bad)
    with pytest.raises(TypeError, match="with_sub_range"):
        parent.batch_representation(with_sub_range="all")


def test_batches_of_other_channels():
    device, x = mps.MTLDevice(device="cpu"), pixels(1, 8)
    parent = image(device, x)
    parts = [parent.sub_image(with_feature_channel_range=(k, 4)) for k in (0, 4)]
    kernel, buffer = scale(device, 2), commands(device)
    with pytest.raises(ValueError, match="the same channels of others"):
        kernel.encode_batch(
            buffer, source_images=parts, destination_images=batch(device, pixels(2, 4))
        )
    with pytest.raises(ValueError, match="apart from the sources"):
        kernel.encode(buffer, source_image=parts[0], destination_image=parts[1])
    run(buffer)
    np.testing.assert_array_equal(array(parent.batch_representation()), x)


# --- bytes ---------------------------------------------------------------------------------------

REGION = mps.MTLRegion(mps.MTLOrigin(1, 2), mps.MTLSize(3, 2, 2))
LAYOUTS = {
    "planes": (mps.MPSDataLayout.FEATURE_CHANNELS_X_HEIGHT_X_WIDTH, (0, 1, 2, 3)),
    "pixels": (mps.MPSDataLayout.HEIGHT_X_WIDTH_X_FEATURE_CHANNELS, (0, 2, 3, 1)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("of_channels", [False, True])
def test_regions_with_strides(layout, dtype, of_channels):
    """Rows, and images, with a gap behind them that stays as it is."""
    device = mps.MTLDevice(device="reference")
    x = pixels(3, 14).astype(dtype)
    made = image(device, x)
    if of_channels:
        made = made.sub_image(with_feature_channel_range=(4, 10))
    value, axes = LAYOUTS[layout]
    seen = x[:, 4:] if of_channels else x
    want = seen[1:3, 4:6, 2:4, 1:4].transpose(axes)
    element = want.itemsize
    row = want.shape[-1] * (1 if layout == "planes" else want.shape[-2]) * element
    rows = want.shape[1] * want.shape[2] if layout == "planes" else want.shape[1]
    padded = np.full((2, rows + 1, row // element + 2), 7, dtype)
    strides = {"bytes_per_row": row + 2 * element, "bytes_per_image": padded[0].nbytes}
    given = {"data_layout": value, "region": REGION, "feature_channel_info": (4, 2),
             "image_index": 1, **strides}  # fmt: skip
    made.read_bytes(padded, **given)
    np.testing.assert_array_equal(padded[:, :rows, : row // element].reshape(want.shape), want)
    assert (padded[:, rows] == 7).all()
    assert (padded[:, :, row // element :] == 7).all()
    made.write_bytes(-padded, **given)
    expected = seen.copy()
    expected[1:3, 4:6, 2:4, 1:4] *= -1
    np.testing.assert_array_equal(array(made.batch_representation()), expected)
    single = np.empty(want[0].shape, dtype)
    del given["bytes_per_image"]
    given["region"] = ((1, 2), (3, 2))
    made.read_bytes(single, **{**given, "bytes_per_row": row})
    np.testing.assert_array_equal(single, -want[0])


def test_columns_with_strides():
    device, x = mps.MTLDevice(device="cpu"), pixels(1, 2, 2, 3)
    made = image(device, np.zeros_like(x))
    padded = np.full((2, 3, 4), 9, np.float32)  # rows, columns, channels and a gap
    padded[..., :2] = x[0].transpose(1, 2, 0)
    made.write_bytes(
        padded,
        data_layout=mps.MPSDataLayout.HEIGHT_X_WIDTH_X_FEATURE_CHANNELS,
        bytes_per_column=16,
        bytes_per_row=48,
        bytes_per_image=96,
        region=((0, 0), (3, 2)),
        feature_channel_info=(0, 2),
        image_index=0,
    )
    np.testing.assert_array_equal(array([made]), x)


def test_bad_regions():
    made = image(mps.MTLDevice(device="cpu"), pixels())
    data = np.zeros(1000, np.float32)
    good = {
        "data_layout": "feature_channels_x_height_x_width", "bytes_per_row": 20,
        "region": ((0, 0), (5, 4)), "feature_channel_info": (0, 10), "image_index": 0,
    }  # fmt: skip
    made.write_bytes(data, **good)
    for bad, text in [
        ({"bytes_per_row": 16}, "20 bytes per row or more but got 16"),
        ({"region": ((1, 0), (5, 4))}, "columns below 5 but got 5 from 1"),
        ({"region": ((0, -1), (5, 4))}, "rows below 4"),
        ({"region": ((0, 0), (5, 0))}, "rows below 4"),
        ({"region": ((0, 0, 1), (5, 4, 1))}, "z of 0"),
        ({"region": ((0, 0, 0), (5, 4, 4))}, "an image index below 3 but got 4"),
        ({"feature_channel_info": (4, 8)}, "channels below 10 but got 8 from 4"),
        ({"feature_channel_info": (4,)}, "location, length"),
        ({"image_index": 3}, "an image index below 3"),
        ({"bytes_per_row": 400}, "bytes or more but got 4000"),
    ]:
        with pytest.raises(ValueError, match=text):
            made.write_bytes(data, **{**good, **bad})
    with pytest.raises(ValueError, match="800 bytes per image or more but got 796"):
        made.write_bytes(data, **good, bytes_per_image=796)
    temporary = mps.MPSTemporaryImage.temporary_image(
        command_buffer=commands(mps.MTLDevice(device="cpu")),
        image_descriptor=mps.MPSImageDescriptor.image_descriptor(
            with_channel_format="float32", width=5, height=4, feature_channels=10
        ),
    )
    with pytest.raises(ValueError, match="something temporary"):
        temporary.read_bytes(data, **good)


# --- training ------------------------------------------------------------------------------------


def gradients_over(device, x, dy, truth, of_channels):
    """Forward, loss and gradient of a convolution, all images being channels of others or not."""

    def images(values):
        if not of_channels:
            return batch(device, values)
        around = np.full((len(values), 8 + values.shape[1], *values.shape[2:]), 5.0)
        around[:, 4 : 4 + values.shape[1]] = values
        whole = image(device, around)
        channels = (4, values.shape[1])
        return whole.sub_image(with_feature_channel_range=channels).batch_representation()

    source = Weights(np.random.default_rng(5).normal(size=(3, 3, 3, 4)), np.ones(3))
    convolution = mps.MPSCNNConvolution(device=device, weights=source)
    gradient = mps.MPSCNNConvolutionGradient(device=device, weights=source)
    loss = mps.MPSCNNLoss(
        device=device,
        loss_descriptor=mps.MPSCNNLossDescriptor.cnn_loss_descriptor(
            with_type="mean_squared_error", reduction_type="sum"
        ),
    )
    sources, results, out = images(x), images(0 * dy), images(0 * x)
    labels = [
        mps.MPSCNNLossLabels(loss_image=a, labels_image=b, weights_image=c)
        for a, b, c in zip(images(np.zeros((len(x), 1, 1, 1))), images(truth), images(dy),
                           strict=True)
    ]  # fmt: skip
    buffer = commands(device)
    states = convolution.result_state_batch(for_source_image=sources)
    convolution.destination_image_descriptor(for_source_images=sources[:1])
    convolution.encode_batch(
        buffer, source_images=sources, destination_states=states, destination_images=results
    )
    errors = loss.encode_batch(buffer, source_images=results, labels=labels)
    gradient.destination_image_descriptor(
        for_source_images=[errors[0], sources[0]], source_states=states[:1]
    )
    gradient.encode_batch(
        buffer, source_gradients=errors, source_images=sources, gradient_states=states,
        destination_gradients=out,
    )  # fmt: skip
    run(buffer)
    losses = array([one.loss_image() for one in labels]).sum()
    return losses, array(out), np.array(states[0].gradient_for_weights)


def test_gradients_over_sub_images():
    device = mps.MTLDevice(device="reference")
    x, dy = RANDOM.normal(size=(2, 4, 3, 2)), RANDOM.uniform(1, 2, size=(2, 3, 3, 2))
    truth = RANDOM.normal(size=dy.shape)
    _, dx, dw = gradients_over(device, x, dy, truth, True)
    _, own_dx, own_dw = gradients_over(device, x, dy, truth, False)
    np.testing.assert_array_equal(dx, own_dx)
    np.testing.assert_array_equal(dw, own_dw)
    expected = differences(lambda v: gradients_over(device, v, dy, truth, True)[0], x)
    near(dx, expected)


def test_storage_for_temporary_images():
    device, x = mps.MTLDevice(device="cpu"), pixels()
    d = mps.MPSImageDescriptor.image_descriptor(
        with_channel_format="float32", width=512, height=512, feature_channels=8
    )
    buffer = commands(device)
    mps.MPSTemporaryImage.prefetch_storage(buffer, image_descriptor_list=[d, d])
    y = batch(device, np.zeros_like(x))
    scale(device, 2).encode_batch(buffer, source_images=batch(device, x), destination_images=y)
    run(buffer)
    np.testing.assert_array_equal(array(y), 2 * x)
    with pytest.raises(TypeError, match="image_descriptor_list"):
        mps.MPSTemporaryImage.prefetch_storage(buffer, image_descriptor_list=d)
    with pytest.raises(TypeError, match="image_descriptor_list"):
        mps.MPSTemporaryImage.prefetch_storage(buffer, image_descriptor_list=[3])


@everywhere
def test_images_of_a_batch_representation_have_parts(device):
    """Images of a batch are owned as a whole; a part of one keeps all of them."""
    device, x = mps.MTLDevice(device=device), pixels()
    rows = image(device, x).batch_representation()
    part = rows[1].sub_image(with_feature_channel_range=(4, 6))
    assert part.parent is rows[1]
    again = rows[2].batch_representation(with_sub_range=(0, 1))[0]
    slices = mps.MPSImage(parent_image=rows[0], slice_range=(1, 1), feature_channels=4)
    deeper = part.batch_representation()[0].sub_image((4, 2))
    del rows
    gc.collect()
    np.testing.assert_array_equal(array([part])[0], x[1, 4:])
    np.testing.assert_array_equal(array([again])[0], x[2])
    np.testing.assert_array_equal(array([slices])[0], x[0, 4:8])
    np.testing.assert_array_equal(array([deeper])[0], x[1, 8:])
    with pytest.raises(ValueError, match="1 or more of its 1 images but got 1 from 1 on"):
        again.batch_representation(with_sub_range=(1, 1))
    y = image(device, np.zeros((1, 4, 4, 5), np.float32))
    target = y.batch_representation()[0].sub_image((0, 4))
    scale(device, 2).encode(
        buffer := commands(device), source_image=slices, destination_image=target
    )
    run(buffer)
    np.testing.assert_array_equal(array([y])[0], 2 * x[0, 4:8])


@everywhere
def test_temporary_images_of_a_batch_representation_have_parts(device):
    device = mps.MTLDevice(device=device)
    buffer = commands(device)
    form = mps.MPSImageDescriptor.image_descriptor(
        with_channel_format="float32", width=5, height=4, feature_channels=8, number_of_images=2
    )
    made = mps.MPSTemporaryImage.temporary_image(command_buffer=buffer, image_descriptor=form)
    x, out = pixels(c=4, n=2), image(device, np.zeros((2, 4, 4, 5), np.float32))
    parts = [row.sub_image((4, 4)) for row in made.batch_representation()]
    assert [part.read_count for part in parts] == [1, 1]
    for source, part, result in zip(
        image(device, x).batch_representation(), parts, out.batch_representation(), strict=True
    ):
        scale(device, 2).encode(buffer, source_image=source, destination_image=part)
        scale(device, 5).encode(buffer, source_image=part, destination_image=result)
    run(buffer)
    np.testing.assert_array_equal(array(out.batch_representation()), 10 * x)


@pytest.mark.parametrize("what", ["node", "buffer", "image", "state"])
def test_objects_on_a_stack_are_refused_where_they_must_live_on(what):
    testing = pytest.importorskip("traingraph._testing", reason="built with TRAINGRAPH_TESTING")
    with pytest.raises(ValueError, match="that a shared pointer owns but got another one"):
        testing.ask_without_owner(what)
