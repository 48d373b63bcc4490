"""Over the Metal backend traingraph.mps encodes Apple's kernels of the same names.

What the doubles compute of them is compared with the reference implementation.
"""

import metal_package
import numpy as np
import pytest
from mps_kernels import array_of as arrays
from mps_kernels import images, object_of
from mps_kernels import kernel as kernel_of

from traingraph import mps

pytestmark = metal_package.needs_doubles

N, C, H, W = SHAPE = 2, 4, 6, 5
WINDOW = {"kernel_width": 3, "kernel_height": 2, "stride_in_pixels_x": 2, "stride_in_pixels_y": 1}
SMALL = {"kernel_width": 3, "kernel_height": 2}
BOTH = {"integer_scale_factor_x": 2, "integer_scale_factor_y": 3}
LOCAL = {"alpha": 0.5, "beta": 0.75, "delta": 2}
PART = mps.MTLRegion(mps.MTLOrigin(1, 2), mps.MTLSize(3, 3, 1))
REDUCTIONS = [f"MPSNNReduce{axis}{what}" for axis in ("Row", "Column", "FeatureChannels")
              for what in ("Sum", "Mean", "Min", "Max")]  # fmt: skip
REDUCTIONS += [f"MPSNNReduceFeatureChannelsArgument{what}" for what in ("Min", "Max")]


class Groups(mps.MPSCNNGroupNormalizationDataSource):
    number_of_feature_channels, number_of_groups = C, 2

    def gamma(self):
        return np.arange(1, C + 1, dtype=np.float32)

    def beta(self):
        return np.arange(C, dtype=np.float32)

    def epsilon(self):
        return 0.125


def neuron(name):
    return mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(with_type=name, a=0.5, b=0.25, c=2)


NEURONS = [
    "linear", "sigmoid", "hard_sigmoid", "tanh", "absolute", "soft_plus", "soft_sign", "elu",
    "relu", "relun", "power", "exponential", "logarithm",
]  # fmt: skip
SLOPES = mps.MPSNNNeuronDescriptor.cnn_neuron_prelu_descriptor(with_data=[0.5, 0.25, 2, -1])
# The class, what its kernels are made with, and properties of the forward kernel.
PAIRS = [
    ("MPSCNNPoolingMax", WINDOW, {"offset": (1, 1, 0)}),
    ("MPSCNNPoolingMax", WINDOW, {"edge_mode": "zero"}),
    ("MPSCNNPoolingAverage", WINDOW, {"offset": (1, 0, 0)}),
    ("MPSCNNPoolingAverage", WINDOW, {"edge_mode": "clamp", "zero_pad_size_x": 1}),
    ("MPSCNNPoolingL2Norm", WINDOW, {}),
    ("MPSCNNDilatedPoolingMax", WINDOW | {"dilation_rate_x": 2, "dilation_rate_y": 2}, {}),
    *[("MPSCNNNeuron", {"neuron_descriptor": neuron(name)}, {}) for name in NEURONS],
    ("MPSCNNNeuron", {"neuron_descriptor": SLOPES}, {}),
    ("MPSCNNSoftMax", {}, {}),
    ("MPSCNNLogSoftMax", {}, {}),
    ("MPSCNNUpsamplingNearest", BOTH, {}),
    ("MPSCNNUpsamplingBilinear", BOTH, {}),
    ("MPSCNNCrossChannelNormalization", {"kernel_size": 3}, LOCAL),
    ("MPSCNNSpatialNormalization", SMALL, LOCAL),
    ("MPSCNNLocalContrastNormalization", SMALL, LOCAL | {"p0": 0.5, "pm": 0.25, "ps": 2}),
    ("MPSCNNInstanceNormalization", {"data_source": Groups()}, {}),
    ("MPSCNNGroupNormalization", {"data_source": Groups()}, {"epsilon": 0.5}),
    ("MPSNNGramMatrixCalculation", {"alpha": 0.5}, {}),
]
PADDING = {"padding_size_before": (1, 2, 0), "padding_size_after": (2, 1, 4)}
FORWARD = [
    *PAIRS,
    ("MPSCNNUpsamplingBilinear", BOTH | {"align_corners": True}, {}),
    ("MPSNNPad", PADDING, {"edge_mode": "zero"}),
    ("MPSNNPad", PADDING, {"edge_mode": "constant", "fill_value": 0.5}),
    ("MPSNNPad", PADDING | {"padding_size_after": (2, 1, 0)}, {"edge_mode": "clamp"}),
    ("MPSNNResizeBilinear", {"resize_width": 3, "resize_height": 8, "align_corners": True}, {}),
    *[(name, {}, {}) for name in REDUCTIONS],
    *[(name, {}, {"clip_rect_source": PART}) for name in REDUCTIONS],
    ("MPSNNReduceFeatureChannelsSum", {}, {"weight": 0.5}),
]
# Made without arguments, as the state has all.
STATED = ("MPSCNNInstanceNormalization", "MPSCNNGroupNormalization")


def named(case):
    return f"{case[0]}-{len(case[1])}-{'-'.join(map(str, case[2]))}"


def values(shape=SHAPE, seed=0):
    return np.random.default_rng(seed).uniform(0.5, 2, shape).astype(np.float32)


def works(name):
    return metal_package.doubles().apple_work_of(name.encode())


def compare(name, expected, run):
    """The same arrays on both devices, and so many computations by Apple's class on one."""

    def executed(device):
        on = mps.MTLDevice(device=device)
        buffer = on.make_command_queue().make_command_buffer()
        kept = run(on, buffer)
        buffer.commit()
        buffer.wait_until_completed()
        return [np.array(one.data) if hasattr(one, "data") else arrays(one) for one in kept]

    results = {}
    for device in ("reference", "metal"):
        before = works(name)
        results[device] = executed(device)
        assert works(name) - before == (expected if device == "metal" else 0), device
    for got, want in zip(results["metal"], results["reference"], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


# An offset of a window is the policy's in the forms that return images, so it is given with them.
def destination(device, kernel, x):
    offset = kernel.offset
    like = kernel.destination_image_descriptor(for_source_images=x, source_states=None)
    kernel.offset = offset
    return images(device, np.zeros((N, like.feature_channels, like.height, like.width), np.float32))


@pytest.mark.parametrize("case", FORWARD, ids=named)
def test_forward(case):
    name, arguments, properties = case

    def run(device, buffer):
        kernel = kernel_of(name, device, arguments, properties)
        x = images(device, values())
        result = destination(device, kernel, x)
        kernel.encode_batch(buffer, source_images=x, destination_images=result)
        return [result]

    compare(name, N, run)


@pytest.mark.parametrize("case", PAIRS, ids=named)
def test_gradient(case):
    name, arguments, properties = case
    gradient_name = f"{name}Gradient"

    def run(device, buffer):
        kernel = kernel_of(name, device, arguments, properties)
        x = images(device, values())
        y, states = kernel.encode_batch(
            buffer, source_images=x, destination_state_is_temporary=False
        )
        shared = {} if name in STATED else arguments
        own = {key: value for key, value in properties.items()
               if key in LOCAL or key in ("p0", "pm", "ps", "zero_pad_size_x")}  # fmt: skip
        gradient = kernel_of(gradient_name, device, shared, own)
        first = y[0]
        shape = (N, first.feature_channels, first.height, first.width)
        result = gradient.encode_batch(
            buffer,
            source_gradients=images(device, values(shape, seed=1) - 1),
            source_images=y if "SoftMax" in name else x,
            gradient_states=states,
        )
        sums = [getattr(state, f"gradient_for_{which}") for state in states
                for which in ("gamma", "beta")] if name in STATED else []  # fmt: skip
        return [result, *(Numbers(one) for one in sums)]

    compare(gradient_name, N, run)


@pytest.mark.parametrize("case", [one for one in FORWARD if one[0] == "MPSNNPad"], ids=named)
def test_gradient_of_padding(case):
    name, arguments, properties = case

    def run(device, buffer):
        kernel = kernel_of(name, device, arguments, properties)
        x = images(device, values())
        y, states = kernel.encode_batch(
            buffer, source_images=x, destination_state_is_temporary=False
        )
        first = y[0]
        shape = (N, first.feature_channels, first.height, first.width)
        gradient = kernel_of("MPSNNPadGradient", device, {}, {})
        return [
            gradient.encode_batch(
                buffer, source_gradients=images(device, values(shape, seed=1)), source_images=x,
                gradient_states=states,
            )
        ]  # fmt: skip

    compare("MPSNNPadGradient", N, run)


def test_images_that_an_offset_leaves_out():
    """The first of three images of an object: both kernels get the others alone."""
    name, three = "MPSCNNPoolingMax", (3, C, H, W)

    def run(device, buffer):
        sizes = {"kernel_width": 3, "kernel_height": 3}
        place = {
            "clip_rect": mps.MTLRegion(mps.MTLOrigin(0, 0, 1), mps.MTLSize(W, H, 2)),
            "edge_mode": "clamp",
        }
        kernel = kernel_of(name, device, sizes, place | {"offset": (0, 0, 1)})
        x, y, dx = ([object_of(device, values(three, seed))] for seed in range(3))
        states = kernel.result_state_batch(for_source_image=x)
        kernel.encode_batch(
            buffer, source_images=x, destination_states=states, destination_images=y
        )
        gradient = kernel_of(f"{name}Gradient", device, sizes, {
            "primary_offset": (0, 0, 1), "secondary_offset": (0, 0, 1),
            "clip_rect": place["clip_rect"], "secondary_edge_mode": "clamp",
        })  # fmt: skip
        gradient.encode_batch(
            buffer, source_gradients=y, source_images=x, gradient_states=states,
            destination_gradients=dx,
        )  # fmt: skip
        return [one[0].batch_representation() for one in (y, dx)]

    compare(name, 2, run)
    compare(f"{name}Gradient", 2, run)


class Numbers:
    """A buffer, read when its command buffer is done."""

    def __init__(self, buffer):
        self.buffer = buffer

    @property
    def data(self):
        return np.array(self.buffer)


@pytest.mark.parametrize("rectangles", [False, True])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Mean", {}),
        ("Sum", {}),
        ("Sum", {"do_weighted_sum_by_non_zero_weights": True}),
    ],
)
def test_weighted_reductions(name, arguments, rectangles):
    name = f"MPSNNReduceFeatureChannelsAndWeights{name}"
    parts = ("primary_source_clip_rect", "secondary_source_clip_rect") if rectangles else ()

    def run(device, buffer):
        kernel = kernel_of(name, device, arguments, dict.fromkeys(parts, PART))
        x, weights = images(device, values()), images(device, values(seed=1))
        return [kernel.encode_batch(buffer, primary_images=x, secondary_images=weights)]

    compare(name, N, run)


def test_reshape():
    def run(device, buffer):
        x = images(device, values())
        y, states = kernel_of("MPSNNReshape", device, {}, {}).encode_batch(
            buffer,
            source_images=x,
            destination_state_is_temporary=False,
            reshaped_width=3,
            reshaped_height=4,
            reshaped_feature_channels=10,
        )
        dx = kernel_of("MPSNNReshapeGradient", device, {}, {}).encode_batch(
            buffer,
            source_gradients=images(device, values((N, 10, 4, 3), seed=1)),
            source_images=x,
            gradient_states=states,
        )
        return [y, dx]

    compare("MPSNNReshape", N, run)
    compare("MPSNNReshapeGradient", N, run)
