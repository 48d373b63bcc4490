"""Images and matrices that cannot be are refused before anything is allocated."""

import numpy as np
import pytest
from kernels import Weights, batch, commands, run

import traingraph as tg
from traingraph import mps


@pytest.mark.parametrize("extent", [2**47, 2**53, 2**62, 2**63 - 1])
def test_image(extent: int) -> None:
    descriptor = mps.MPSImageDescriptor.image_descriptor(
        with_channel_format="float32", width=extent, height=4, feature_channels=4
    )
    with pytest.raises(tg.ShapeError, match=str(extent)):
        mps.MPSImage(device="cpu", image_descriptor=descriptor)


@pytest.mark.parametrize("scale", [2**53, 2**62, 2**63 - 1])
def test_upsampling(scale: int) -> None:
    kernel = mps.MPSCNNUpsamplingBilinear(
        device="cpu", integer_scale_factor_x=scale, integer_scale_factor_y=1
    )
    sources = batch(kernel.device, np.zeros((1, 4, 3, 3), np.float32))
    with pytest.raises(tg.ShapeError, match="281474976710656"):
        kernel.encode_batch(commands(kernel.device), source_images=sources)


@pytest.mark.parametrize("scale", [2**62, 2**63 - 1])
@pytest.mark.parametrize("kind", ["Nearest", "Bilinear"])
def test_gradient_of_an_upsampling(scale: int, kind: str) -> None:
    factors = {"integer_scale_factor_x": 1, "integer_scale_factor_y": 1}
    forward = getattr(mps, f"MPSCNNUpsampling{kind}")(device="cpu", **factors)
    factors["integer_scale_factor_y"] = scale
    kernel = getattr(mps, f"MPSCNNUpsampling{kind}Gradient")(device="cpu", **factors)
    sources = batch(kernel.device, np.zeros((1, 4, 3, 3), np.float32))
    on = commands(kernel.device)
    states = forward.result_state_batch(sources)
    with pytest.raises(tg.ShapeError, match=f"expected source gradients .*{2**63 - 1}"):
        kernel.encode_batch(
            on, source_gradients=sources, source_images=sources, gradient_states=states
        )


@pytest.mark.parametrize("stride", ["column", "row", "image"])
@pytest.mark.parametrize("distance", [2**60, 2**62, 2**63 - 1])
def test_strides_whose_products_are_beyond_64_bits(stride: str, distance: int) -> None:
    """The last pixel lies where no caller's bytes are: the sum must not wrap round to few."""
    descriptor = mps.MPSImageDescriptor.image_descriptor(
        with_channel_format="float32", width=17, height=17, feature_channels=1, number_of_images=17
    )
    image = mps.MPSImage(device="cpu", image_descriptor=descriptor)
    place = {"column": 4, "row": 68, "image": 1156}
    at = list(place).index(stride)
    sizes = [*list(place.values())[:at], distance, *2 * [2**63 - 1]]
    given = {f"bytes_per_{name}": size for name, size in zip(place, sizes, strict=False)}
    extents = [17 if name == stride else 1 for name in place]
    layout = {"data_layout": "height_x_width_x_feature_channels", "image_index": 0,
              "region": ((0, 0, 0), tuple(extents)), "feature_channel_info": (0, 1)}  # fmt: skip
    pixels = np.zeros(17 * 17 * 17, np.float32)
    with pytest.raises(tg.InvalidArgument, match=f"expected {2**63 - 1} bytes or more but got"):
        image.write_bytes(pixels, **layout, **given)


def test_memory_that_the_host_does_not_have() -> None:
    """A matrix of more bytes than an address can name, which an image could yet be."""
    kernel = mps.MPSCNNUpsamplingBilinear(
        device="cpu", integer_scale_factor_x=2**42, integer_scale_factor_y=1
    )
    sources = batch(kernel.device, np.zeros((1, 1, 3, 3), np.float32))
    with pytest.raises(tg.OutOfMemory, match="memory"):
        kernel.encode_batch(commands(kernel.device), source_images=sources)


@pytest.mark.parametrize("length", [2**62 + 1, 2**61 + 2, 2**63 - 1])
def test_a_vector_whose_bytes_wrap_round(length: int) -> None:
    """Four times the first length is 4 in 64 bits."""
    buffer = mps.MTLBuffer(device="cpu", length=4)
    descriptor = mps.MPSVectorDescriptor.vector_descriptor(1, data_type="float32")
    descriptor.length = length
    with pytest.raises(tg.InvalidArgument, match=r"^\[MPSVector\] expected a buffer of"):
        mps.MPSVector(buffer=buffer, descriptor=descriptor)


@pytest.mark.parametrize("mode", ["mirror", "mirror_with_edge", "clamp", "zero", "constant"])
@pytest.mark.parametrize("before", [(2**63 - 1, 0, 0), (0, 2**63 - 1, 0), (0, 0, 2**62)])
def test_padding(mode: str, before: tuple[int, int, int]) -> None:
    kernel = mps.MPSNNPad(
        device="cpu", padding_size_before=before, padding_size_after=(2**62, 2**62, 2**62)
    )
    kernel.edge_mode = mode
    sources = batch(kernel.device, np.zeros((1, 4, 3, 3), np.float32))
    with pytest.raises((tg.ShapeError, tg.InvalidArgument)):
        kernel.encode_batch(commands(kernel.device), source_images=sources)


def test_the_offset_of_a_padding() -> None:
    """A positive one would be a padding below 0, which no constructor takes."""
    kernel = mps.MPSNNPad(device="cpu", padding_size_before=(1, 2, 0))
    for offset in ((1, 0, 0), (-1, 2, 0), (0, 0, 2**63 - 1)):
        with pytest.raises(tg.InvalidArgument, match="expected padding sizes of 0 or more"):
            kernel.offset = offset
    assert tuple(kernel.offset) == (-1, -2, 0)
    kernel.offset = (-(2**63), 0, 0)
    assert kernel.padding_size_before[0] == 2**63 - 1


@pytest.mark.parametrize("extent", [2**24, 2**32, 2**62])
def test_storage_made_ahead(extent: int) -> None:
    descriptor = mps.MPSImageDescriptor.image_descriptor(
        with_channel_format="float32", width=extent, height=2**24, feature_channels=1
    )
    buffer = commands(mps.MTLDevice(device="cpu"))
    with pytest.raises(tg.ShapeError, match=r"\[MPSTemporaryImage.prefetch_storage\] expected"):
        mps.MPSTemporaryImage.prefetch_storage(buffer, image_descriptor_list=[descriptor])


def test_storage_made_ahead_for_many() -> None:
    """Each could be, and the sum of all bytes is 2^64."""
    descriptor = mps.MPSImageDescriptor.image_descriptor(
        with_channel_format="float32", width=2**23, height=2**23, feature_channels=1
    )
    buffer = commands(mps.MTLDevice(device="cpu"))
    expected = rf"of at most {2**48} bytes but got {2**48} after {2**48}"
    with pytest.raises(tg.ShapeError, match=expected):
        mps.MPSTemporaryImage.prefetch_storage(buffer, image_descriptor_list=[descriptor] * 2**16)


@pytest.mark.parametrize("offset", [2**61, 2**62, -(2**62), 2**63 - 1, -(2**63)])
def test_offsets_whose_products_with_strides_are_beyond_64_bits(offset: int) -> None:
    """Eight times one is a multiple of 2^64, which must not count as none."""
    weights = Weights(np.ones((4, 3, 3, 4), np.float32), stride_in_pixels_x=8)
    forward = mps.MPSCNNConvolution(device="cpu", weights=weights)
    gradient = mps.MPSCNNConvolutionGradient(device="cpu", weights=weights)
    transpose = mps.MPSCNNConvolutionTranspose(device="cpu", weights=weights)
    buffer, states = commands(forward.device), []
    sources, results = (batch(forward.device, np.zeros((1, 4, 9, 9), np.float32)) for _ in range(2))
    made = forward.encode_batch(
        buffer, source_images=sources, destination_states=states,
        destination_state_is_temporary=False,
    )  # fmt: skip
    gradient.primary_offset = transpose.offset = (offset, 0, 0)
    gradient.encode_batch(
        buffer, source_gradients=made, source_images=sources, gradient_states=states,
        destination_gradients=results,
    )  # fmt: skip
    with pytest.raises(tg.ShapeError, match="reach into the source"):
        run(buffer)
    buffer = commands(forward.device)
    transpose.encode_batch(buffer, source_images=sources, destination_images=results)
    with pytest.raises(tg.ShapeError, match="reach into the source"):
        run(buffer)


@pytest.mark.parametrize("number", [2**31, 2**53, 2**63 - 1])
@pytest.mark.parametrize(
    "name",
    ["kernel_width", "kernel_height", "input_feature_channels", "output_feature_channels",
     "stride_in_pixels_x", "stride_in_pixels_y", "dilation_rate_x", "dilation_rate_y", "groups"],
)  # fmt: skip
def test_numbers_of_a_convolution(name: str, number: int) -> None:
    """Distances are products and sums of them, and of the source's extents."""
    weights = Weights(np.ones((4, 3, 3, 4), np.float32))
    setattr(weights.sizes, name, number)
    for kind in ("Convolution", "ConvolutionGradient", "ConvolutionTranspose", "FullyConnected"):
        with pytest.raises(tg.InvalidArgument, match=f"of {2**31 - 1} or less but got"):
            getattr(mps, f"MPSCNN{kind}")(device="cpu", weights=weights)


@pytest.mark.parametrize("number", [2**31, 2**63 - 1])
def test_the_window_of_a_local_normalization(number: int) -> None:
    for kind in ("SpatialNormalization", "LocalContrastNormalization"):
        for suffix in ("", "Gradient"):
            with pytest.raises(tg.InvalidArgument, match=f"of {2**31 - 1} or less but got"):
                getattr(mps, f"MPSCNN{kind}{suffix}")(
                    device="cpu", kernel_width=3, kernel_height=number
                )


@pytest.mark.parametrize("size", ["same", "full"])
def test_the_result_of_a_transposed_convolution(size: str) -> None:
    """A source that the host's address space holds, with a stride behind it."""
    weights = Weights(np.ones((1, 1, 1, 1), np.float32))
    weights.sizes.stride_in_pixels_x = 2**31 - 1
    kernel = mps.MPSCNNConvolutionTranspose(device="cpu", weights=weights)
    kernel.padding = mps.MPSNNPaddingMethod[f"SIZE_{size.upper()}"]
    descriptor = mps.MPSImageDescriptor.image_descriptor(
        with_channel_format="float32", width=2**45, height=1, feature_channels=1
    )
    buffer = commands(kernel.device)
    source = mps.MPSTemporaryImage.temporary_image(buffer, image_descriptor=descriptor)
    with pytest.raises(tg.ShapeError, match=str(2**48)):
        kernel.encode(buffer, source_image=source)


@pytest.mark.parametrize("far", [2**62, 2**63 - 1, -(2**63)])
def test_offsets_far_outside_of_kernels_without_a_window(far: int) -> None:
    """Sums of the offset and what is written must not wrap round to a place inside."""
    device = mps.MTLDevice(device="cpu")
    sources, results = (batch(device, np.zeros((1, 4, 5, 6), np.float32)) for _ in range(2))
    for name in ("MPSNNSlice", "MPSCNNSoftMax"):
        for offset in ((far, 0, 0), (0, far, 0)):
            kernel = getattr(mps, name)(device=device)
            kernel.offset = offset
            with pytest.raises(tg.Error, match=r"expected 5x6 pixels to write|an offset"):
                kernel.encode_batch(
                    commands(device), source_images=sources, destination_images=results
                )
    kernel = mps.MPSCNNSoftMax(device=device)
    kernel.destination_feature_channel_offset = 2**63 - 4
    with pytest.raises(tg.ShapeError, match="channels or more, the offset included"):
        kernel.encode_batch(commands(device), source_images=sources, destination_images=results)
    add = mps.MPSCNNAdd(device=device)
    add.primary_offset = (far, 0, 0)
    with pytest.raises(tg.Error, match="primary"):
        add.encode_batch(
            commands(device), primary_images=sources, secondary_images=results,
            destination_images=batch(device, np.zeros((1, 4, 5, 6), np.float32)),
        )  # fmt: skip
