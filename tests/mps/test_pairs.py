"""Every pair of kernels in one command buffer, with temporary images and states, on each device."""

import numpy as np
import pytest
from gradients import backward, forward, random
from kernels import Weights, array, batch, commands, empty, run

from traingraph import _core, mps

BOTH = {"integer_scale_factor_x": 2, "integer_scale_factor_y": 3}
WINDOW = {"kernel_width": 3, "kernel_height": 2}
DROPOUT = {"keep_probability": 0.5, "seed": 3}


class Source(mps.MPSCNNGroupNormalizationDataSource):
    number_of_feature_channels, number_of_groups = 4, 2

    def gamma(self):
        return np.arange(1, 5, dtype=np.float32)

    def epsilon(self):
        return 1e-3


def weights(dtype):
    taken = np.random.default_rng(5).standard_normal((3, 3, 3, 4)).astype(np.float32)
    return Weights(taken.astype(dtype), stride_in_pixels_x=2, stride_in_pixels_y=2)


def pad(device, dtype):
    kernel = mps.MPSNNPad(device=device, padding_size_before=(1, 0, 0),
                          padding_size_after=(2, 1, 0))  # fmt: skip
    kernel.edge_mode = "clamp"
    return kernel


def pair(name, **given):
    """The two kernels of a name, both made with these arguments."""

    def make(device, dtype):
        return (getattr(_core, name)(device=device, **given),
                getattr(_core, f"{name}Gradient")(device=device, **given))  # fmt: skip

    return make


PAIRS = {
    "nearest": pair("MPSCNNUpsamplingNearest", **BOTH),
    "bilinear": pair("MPSCNNUpsamplingBilinear", **BOTH),
    "pad": lambda device, dtype: (pad(device, dtype), mps.MPSNNPadGradient(device=device)),
    "spatial mean": pair("MPSNNReductionSpatialMean"),
    "gram": pair("MPSNNGramMatrixCalculation", alpha=0.5),
    "dropout": pair("MPSCNNDropout", **DROPOUT),
    "cross-channel": pair("MPSCNNCrossChannelNormalization", kernel_size=3),
    "spatial": pair("MPSCNNSpatialNormalization", **WINDOW),
    "local contrast": pair("MPSCNNLocalContrastNormalization", **WINDOW),
    "instance": lambda device, dtype: (
        mps.MPSCNNInstanceNormalization(device=device, data_source=Source()),
        mps.MPSCNNInstanceNormalizationGradient(device=device),
    ),
    "group": lambda device, dtype: (
        mps.MPSCNNGroupNormalization(device=device, data_source=Source()),
        mps.MPSCNNGroupNormalizationGradient(device=device),
    ),
    "transpose": lambda device, dtype: (
        mps.MPSCNNConvolutionTranspose(device=device, weights=weights(dtype)),
        mps.MPSCNNConvolutionTransposeGradient(device=device, weights=weights(dtype)),
    ),
    "root of squares": pair("MPSCNNPoolingL2Norm", **WINDOW),
    "dilated": pair("MPSCNNDilatedPoolingMax", **WINDOW, dilation_rate_x=2,
                    dilation_rate_y=1),
}  # fmt: skip


@pytest.mark.parametrize("device", ["reference", "cpu"])
@pytest.mark.parametrize(("dtype", "slack"), [("float32", 1e-4), ("float16", 1e-2)])
@pytest.mark.parametrize("name", PAIRS)
def test_one_buffer_with_temporaries(name, dtype, slack, device):
    on = mps.MTLDevice(device=device)
    # The gradient of L2 pooling and the divisor of a contrast are steep near 0.
    x = (random(1, 2, 4, 4, 5) + 3).astype(dtype)
    exact = x.astype(np.float64)
    kernel, gradient = PAIRS[name](mps.MTLDevice(device="reference"), np.float64)
    y, states = forward(kernel, exact)
    dy = random(2, *y.shape).astype(dtype)
    dx = backward(gradient, dy.astype(np.float64), exact, states)

    kernel, gradient = PAIRS[name](on, np.float32)
    buffer = commands(on)
    source = batch(on, x)
    result, states = kernel.encode_batch(
        buffer, source_images=source, destination_state_is_temporary=True
    )
    assert all(one.read_count == 1 for one in [*result, *states])
    kept = empty(on, y.shape, dtype)
    mps.MPSNNSlice(device=on).encode_batch(buffer, source_images=result, destination_images=kept)
    temporary = gradient.encode_batch(
        buffer, source_gradients=batch(on, dy), source_images=source, gradient_states=states
    )
    assert all(one.read_count == 0 for one in [*result, *states])
    out = empty(on, x.shape, dtype)
    mps.MPSNNSlice(device=on).encode_batch(buffer, source_images=temporary, destination_images=out)
    with pytest.raises(ValueError, match="read count above 0"):
        gradient.encode_batch(
            buffer, source_gradients=batch(on, dy), source_images=source, gradient_states=states
        )
    run(buffer)
    if (name, device) == ("dropout", "metal"):
        # Which may have Apple's masks: those that the states show.
        bits = [np.frombuffer(one.mask_data(), np.uint8).reshape(4, 5, 4) for one in states]
        masks = np.stack(bits).transpose(0, 3, 1, 2)
        y, dx = (masks * one.astype(np.float64) / 0.5 for one in (x, dy))
    np.testing.assert_allclose(array(kept), y, rtol=slack, atol=slack * np.abs(y).max())
    np.testing.assert_allclose(array(out), dx, rtol=slack, atol=2 * slack * np.abs(dx).max())


@pytest.mark.parametrize("device", ["reference", "cpu"])
@pytest.mark.parametrize("name", ["Add", "Subtract", "Multiply"])
def test_arithmetic_in_one_buffer(name, device):
    on = mps.MTLDevice(device=device)
    a, b = (random(seed, 2, 3, 2, 4).astype(np.float32) for seed in (3, 4))
    dy = random(5, *a.shape).astype(np.float32)
    kernel = getattr(mps, f"MPSCNN{name}")(device=on)
    kernel.maximum_value = 1.0
    buffer = commands(on)
    images = {"primary_images": batch(on, a), "secondary_images": batch(on, b)}
    result, states = kernel.encode_batch(buffer, **images, destination_state_is_temporary=True)
    for state in states:
        state.read_count = 2
    found = []
    for is_secondary, other in ((False, "secondary_images"), (True, "primary_images")):
        gradient = getattr(mps, f"MPSCNN{name}Gradient")(
            device=on, is_secondary_source_filter=is_secondary
        )
        found.append(empty(on, a.shape, "float32"))
        gradient.destination_image_descriptor(
            for_source_images=[result[0], images[other][0]], source_states=states
        )
        gradient.encode_batch(
            buffer, source_gradients=batch(on, dy), source_images=images[other],
            gradient_states=states, destination_gradients=found[-1],
        )  # fmt: skip
    run(buffer)
    plain = {"Add": a + b, "Subtract": a - b, "Multiply": a * b}[name]
    inner = np.where(plain < 1, dy, 0)
    first = inner * b if name == "Multiply" else inner
    second = {"Add": inner, "Subtract": -inner, "Multiply": inner * a}[name]
    np.testing.assert_allclose(array(found[0]), first, rtol=1e-5)
    np.testing.assert_allclose(array(found[1]), second, rtol=1e-5)
