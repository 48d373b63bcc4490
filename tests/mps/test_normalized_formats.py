"""Images of whole numbers for those from 0 to 1: UNORM8 and UNORM16."""

from typing import Any

import numpy as np
import pytest
from gradients import device as device_of
from gradients import execute, random
from graphs import source
from kernels import Weights, array, batch, commands, run

from traingraph import InvalidArgument, ShapeError, mps

WHOLE = {"unorm8": (np.uint8, 255), "unorm16": (np.uint16, 65535)}
SHAPE = (2, 3, 4, 5)


def image(on: Any, form: str, shape: tuple[int, ...] = SHAPE) -> Any:
    n, c, h, w = shape
    d = mps.MPSImageDescriptor.image_descriptor(
        with_channel_format=form, width=w, height=h, feature_channels=c, number_of_images=n
    )
    return mps.MPSImage(device=on, image_descriptor=d)


def numbers(form: str, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    kind, most = WHOLE[form]
    return np.random.default_rng(3).integers(0, most + 1, shape).astype(kind)


def write(made: Any, whole: np.ndarray) -> Any:
    for k, one in enumerate(whole):
        made.write_bytes(np.ascontiguousarray(one), image_index=k)
    return made


def read(made: Any, form: str) -> np.ndarray:
    shape = (made.number_of_images, made.feature_channels, made.height, made.width)
    out = np.empty(shape, WHOLE[form][0])
    for k, one in enumerate(out):
        made.read_bytes(one, image_index=k)
    return out


def scaled(on: Any, scale: float, offset: float = 0.0) -> Any:
    d = mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(with_type="linear", a=scale, b=offset)
    return mps.MPSCNNNeuron(device=on, neuron_descriptor=d)


@pytest.mark.parametrize("form", WHOLE)
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_every_number_goes_in_and_out(form: str, device: str) -> None:
    on = device_of(device)
    kind, most = WHOLE[form]
    made = image(on, form, (1, 1, 256, 256))
    assert made.feature_channel_format == mps.MPSImageFeatureChannelFormat[form.upper()]
    assert made.resource_size() == 65536 * np.dtype(kind).itemsize
    whole = (np.arange(65536) % (most + 1)).astype(kind).reshape(1, 1, 256, 256)
    np.testing.assert_array_equal(read(write(made, whole), form), whole)
    # And through a kernel, as what it stands for.
    out, back = image(on, "float32", whole.shape), image(on, form, whole.shape)
    buffer = commands(on)
    same = scaled(on, 1.0)
    same.encode(buffer, source_image=made, destination_image=out)
    same.encode(buffer, source_image=out, destination_image=back)
    run(buffer)
    values = np.empty(whole.shape[1:], np.float32)
    out.read_bytes(values)
    np.testing.assert_array_equal(values, (whole[0].astype(np.float32) / np.float32(most)))
    np.testing.assert_array_equal(read(back, form), whole)


@pytest.mark.parametrize("form", WHOLE)
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_results_are_the_nearest_values(form: str, device: str) -> None:
    on = device_of(device)
    kind, most = WHOLE[form]
    x = (3 * random(1, *SHAPE)).astype(np.float32)
    x[0, 0, 0] = [0, 1, -np.inf, np.inf, 0.5]
    out = image(on, form)
    execute(lambda b: scaled(on, 1.0).encode_batch(
        b, source_images=batch(on, x), destination_images=out.batch_representation()),
        on)  # fmt: skip
    expected = np.rint(np.clip(x, 0, 1) * np.float32(most)).astype(kind)
    np.testing.assert_array_equal(read(out, form), expected)
    # Only a part of it : the rest stays as it was, bit for bit.
    before = numbers(form)
    write(out, before)
    kernel = scaled(on, 0.5)
    kernel.clip_rect = ((1, 2), (2, 1))
    execute(lambda b: kernel.encode_batch(
        b, source_images=batch(on, np.ones(SHAPE, np.float32)),
        destination_images=out.batch_representation()), on)  # fmt: skip
    before[:, :, 2, 1:3] = np.rint(np.float32(0.5) * most)
    np.testing.assert_array_equal(read(out, form), before)


@pytest.mark.parametrize("form", WHOLE)
def test_layouts_and_regions(form: str) -> None:
    on = device_of("cpu")
    kind, _ = WHOLE[form]
    made, whole = image(on, form), numbers(form)
    for k, one in enumerate(whole):
        rows = np.ascontiguousarray(one.transpose(1, 2, 0))
        made.write_bytes(rows, data_layout="height_x_width_x_feature_channels", image_index=k)
    np.testing.assert_array_equal(read(made, form), whole)
    size = np.dtype(kind).itemsize
    region = np.zeros((2, 2, 6), kind)  # two channels of 2x4 pixels, in rows of six
    made.read_bytes(
        region, data_layout="feature_channels_x_height_x_width", bytes_per_row=6 * size,
        bytes_per_image=24 * size, region=((1, 2), (4, 2)), feature_channel_info=(1, 2),
        image_index=1,
    )  # fmt: skip
    np.testing.assert_array_equal(region[..., :4], whole[1, 1:, 2:, 1:])
    patch = np.full((1, 2, 2), 7, kind)
    made.write_bytes(
        patch, data_layout="feature_channels_x_height_x_width", bytes_per_row=2 * size,
        region=((0, 1), (2, 2)), feature_channel_info=(2, 1), image_index=0,
    )  # fmt: skip
    whole[0, 2, 1:3, :2] = 7
    np.testing.assert_array_equal(read(made, form), whole)
    raw = bytearray(whole[0].nbytes)
    made.read_bytes(raw, image_index=0)
    assert bytes(raw) == whole[0].tobytes()
    made.write_bytes(bytes(whole[1].tobytes()), image_index=0)
    np.testing.assert_array_equal(read(made, form)[0], whole[1])
    part = made.sub_image(with_feature_channel_range=(0, 2))
    np.testing.assert_array_equal(read(part, form), read(made, form)[:, :2])


def test_other_numbers_are_refused() -> None:
    on = device_of("cpu")
    with pytest.raises((TypeError, ValueError)):
        image(on, "unorm16").write_bytes(np.zeros(SHAPE[1:], np.float32))
    with pytest.raises((TypeError, ValueError)):
        image(on, "unorm8").read_bytes(np.zeros(SHAPE[1:], np.float32))
    with pytest.raises(InvalidArgument, match="60 bytes but got 59"):
        image(on, "unorm8").read_bytes(bytearray(59))
    with pytest.raises(InvalidArgument, match="without gaps"):
        image(on, "unorm16").read_bytes(np.zeros((3, 4, 10), np.uint16)[..., ::2])
    with pytest.raises(InvalidArgument, match=r'"unorm8", .*"float64" but got "none"$'):
        image(on, "none")


@pytest.mark.parametrize("form", WHOLE)
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_between_nodes(form: str, device: str) -> None:
    """What lies between two kernels has a format's values, also where it has no bytes."""
    on = device_of(device)
    _, most = WHOLE[form]
    half = mps.MPSCNNNeuronLinearNode(source=source("x"), a=0.5)
    half.result_image.format = form
    last = mps.MPSCNNNeuronLinearNode(source=half.result_image, a=2.0)
    graph = mps.MPSNNGraph(device=on, result_image=last.result_image)
    graph.makes_temporary_images = False
    given, whole = image(on, form), numbers(form)
    write(given, whole)
    for _ in range(3):
        result = execute(lambda b: graph.encode_batch(
            b, source_images=[given.batch_representation()]), on)  # fmt: skip
        out = np.stack([np.empty(SHAPE[1:], np.float32) for _ in result])
        for one, to in zip(result, out, strict=True):
            one.read_bytes(to)
        x = whole.astype(np.float32) / np.float32(most)
        expected = 2 * np.rint(x * np.float32(0.5) * most) / most
        np.testing.assert_allclose(out, expected, rtol=2e-7)
    # The gradient goes through as if the values were any.
    back = half.gradient_filter(with_source=source("dy"))
    graph = mps.MPSNNGraph(device=on, result_image=back.result_image)
    graph.makes_temporary_images = False
    dy = random(2, *SHAPE).astype(np.float32)
    sources = {"x": given.batch_representation(), "dy": batch(on, dy)}
    result = execute(lambda b: graph.encode_batch(
        b, source_images=[sources[handle] for handle in graph.source_image_handles]),
        on)  # fmt: skip
    for one, to, want in zip(result, out, dy, strict=True):
        one.read_bytes(to)
        np.testing.assert_allclose(to, want / 2, rtol=1e-6)


def test_a_temporary_image() -> None:
    on = device_of("cpu")
    d = mps.MPSImageDescriptor.image_descriptor(
        with_channel_format="unorm8", width=5, height=4, feature_channels=3
    )
    buffer = commands(on)
    between = mps.MPSTemporaryImage.temporary_image(buffer, image_descriptor=d)
    x = np.linspace(-0.2, 1.2, 60, dtype=np.float32).reshape(1, 3, 4, 5)
    out = batch(on, np.zeros_like(x))
    scaled(on, 1.0).encode(buffer, source_image=batch(on, x)[0], destination_image=between)
    scaled(on, 1.0).encode(buffer, source_image=between, destination_image=out[0])
    run(buffer)
    found = np.empty(x.shape[1:], np.float32)
    out[0].read_bytes(found)
    expected = np.rint(np.clip(x[0], 0, 1) * np.float32(255)) / np.float32(255)
    np.testing.assert_array_equal(found, expected.astype(np.float32))


def test_a_batch_of_two_formats() -> None:
    on = device_of("cpu")
    mixed = [image(on, "unorm8", (1, 3, 4, 5)), batch(on, np.zeros((1, 3, 4, 5), np.float32))[0]]
    with pytest.raises(ShapeError, match=r"source images of one format, unorm8, but got image.* of "
                                         r"float32"):  # fmt: skip
        mps.MPSCNNSoftMax(device=on).encode_batch(commands(on), source_images=mixed)


# --- results whose format nobody has said ---------------------------------------------------------


def convolved(on: Any, weight: float) -> tuple[Any, Any]:
    data = Weights(np.full((1, 1, 1, 1), weight, np.float32))
    made = (mps.MPSCNNConvolution(device=on, weights=data),
            mps.MPSCNNConvolutionGradient(device=on, weights=data))  # fmt: skip
    for kernel in made:
        kernel.makes_temporary_images = False
    return made


@pytest.mark.parametrize("form", WHOLE)
def test_made_results_and_gradients_are_not_limited(form: str) -> None:
    """They were of the source's format, where -0.5 is 0."""
    on = device_of("cpu")
    kernel, gradient = convolved(on, -0.5)
    kind, most = WHOLE[form]
    whole = np.full((1, 1, 1, 2), most, kind)
    x = write(image(on, form, whole.shape), whole).batch_representation()
    dy = batch(on, np.ones(whole.shape, np.float32))
    y, states = execute(lambda b: kernel.encode_batch(
        b, source_images=x, destination_state_is_temporary=False), on)  # fmt: skip
    dx = execute(lambda b: gradient.encode_batch(
        b, source_gradients=dy, source_images=x, gradient_states=states), on)  # fmt: skip
    made = {"y": (y, -0.5), "dx": (dx, -0.5)}
    for name, sign in (("Add", 2), ("Subtract", 0)):
        add = getattr(mps, "MPSCNN" + name)(device=on)
        add.makes_temporary_images = False
        result, states = execute(lambda b, add=add: add.encode_batch(
            b, primary_images=x, secondary_images=x, destination_state_is_temporary=False
        ), on)  # fmt: skip
        back = getattr(mps, f"MPSCNN{name}Gradient")(device=on, is_secondary_source_filter=True)
        back.makes_temporary_images = False
        made[name] = (result, sign)
        made["d" + name] = (execute(lambda b, back=back, states=states: back.encode_batch(
            b, source_gradients=dy, source_images=x, gradient_states=states
        ), on), sign - 1)  # fmt: skip
    for name, (images, expected) in made.items():
        assert images[0].feature_channel_format == mps.MPSImageFeatureChannelFormat.FLOAT32, name
        np.testing.assert_array_equal(array(images), np.float32(expected))


@pytest.mark.parametrize("form", WHOLE)
def test_losses_and_joined_results_are_not_limited(form: str) -> None:
    on = device_of("cpu")
    x = image(on, form, (1, 4, 1, 1)).batch_representation()
    labels = batch(on, np.full((1, 4, 1, 1), 2, np.float32))
    d = mps.MPSCNNLossDescriptor.cnn_loss_descriptor(
        with_type="mean_squared_error", reduction_type="none"
    )
    loss = mps.MPSNNForwardLoss(device=on, loss_descriptor=d)
    slope = mps.MPSNNLossGradient(device=on, loss_descriptor=d)
    first = mps.MPSCNNLoss(device=on, loss_descriptor=d)
    for kernel in (loss, slope, first):
        kernel.makes_temporary_images = False
    buffer = commands(on)
    values, states = loss.encode_batch(buffer, source_images=x, labels=labels, weights=None,
                                       destination_state_is_temporary=False)  # fmt: skip
    dx = slope.encode_batch(buffer, source_gradients=batch(on, np.ones((1, 4, 1, 1), np.float32)),
                            source_images=x, labels=labels, weights=None,
                            source_states=states)  # fmt: skip
    pairs = [mps.MPSCNNLossLabels(loss_image=batch(on, np.zeros((1, 4, 1, 1), np.float32))[0],
                                  labels_image=labels[0], weights_image=None)]  # fmt: skip
    other = first.encode_batch(buffer, source_images=x, labels=pairs)
    run(buffer)
    for images, expected in ((values, 4), (dx, -4), (other, -4)):
        np.testing.assert_array_equal(array(images), np.float32(expected))


def test_the_program_may_ask_for_a_normalized_result() -> None:
    on = device_of("cpu")
    kernel, _ = convolved(on, -0.5)
    whole = np.full((1, 1, 1, 2), 255, np.uint8)
    x = write(image(on, "unorm8", whole.shape), whole).batch_representation()
    y = image(on, "unorm8", whole.shape)
    execute(lambda b: kernel.encode_batch(
        b, source_images=x, destination_images=y.batch_representation()), on)  # fmt: skip
    assert not read(y, "unorm8").any()
