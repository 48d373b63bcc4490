"""Every kernel class with nothing as it is at the beginning."""

import numpy as np
from kernels import Weights

from metadata import beside
from traingraph import mps

C = 4


def neuron(**given):
    return mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(**given)


def slopes():
    return mps.MPSNNNeuronDescriptor.cnn_neuron_prelu_descriptor(with_data=[0.5, 0.25, 2.0, -1.0])


def weights():
    random = np.random.default_rng(1)
    return Weights(
        random.normal(size=(C, 3, 2, C // 2)), random.normal(size=C), 2, "conv1",
        stride_in_pixels_x=2, dilation_rate_y=2,
        fused_neuron_descriptor=neuron(with_type="elu", a=0.75),
    )  # fmt: skip


class Channels:
    """A data source of numbers per channel, of any protocol."""

    number_of_groups = 2
    number_of_feature_channels = C

    def __init__(self):
        random = np.random.default_rng(2)
        self.arrays = random.normal(size=(4, C)).astype(np.float32) ** 2 + 0.5
        self.loads = self.purges = 0

    def gamma(self):
        return self.arrays[0]

    def beta(self):
        return None

    def mean(self):
        return self.arrays[2]

    def variance(self):
        return self.arrays[3]

    def epsilon(self):
        return 0.125

    def label(self):
        return "norm1"

    def load(self):
        self.loads += 1
        return True

    def purge(self):
        self.purges += 1


def loss():
    d = mps.MPSCNNLossDescriptor.cnn_loss_descriptor(with_type="huber", reduction_type="mean")
    d.delta, d.weight, d.reduce_across_batch = 0.25, 0.5, True
    return d


def optimizer():
    d = mps.MPSNNOptimizerDescriptor(learning_rate=0.125)
    d.gradient_rescale, d.regularization_type, d.regularization_scale = 0.5, "l2", 0.25
    d.apply_gradient_clipping, d.gradient_clip_min, d.gradient_clip_max = True, -0.75, 0.5
    return d


POOL = {"kernel_width": 3, "kernel_height": 2, "stride_in_pixels_x": 2, "stride_in_pixels_y": 3}
DILATED = {**POOL, "dilation_rate_x": 2, "dilation_rate_y": 3}
ZEROS = {"zero_pad_size_x": 1, "zero_pad_size_y": 2}
DROPOUT = {"keep_probability": 0.25, "seed": 2**40 + 1, "mask_stride_in_pixels": (1, 0, 1)}
SCALES = {"integer_scale_factor_x": 2, "integer_scale_factor_y": 3}
WINDOW = {"kernel_width": 3, "kernel_height": 2}
LOCAL = {"alpha": 0.5, "beta": 0.75, "delta": 1.5}
FUSED = {"fused_neuron_descriptor": slopes}
ARITHMETIC = {
    "primary_scale": 0.5, "secondary_scale": 0.25, "bias": 1.5, "minimum_value": -2.0,
    "maximum_value": 3.0, "secondary_stride_in_pixels_x": 0, "secondary_stride_in_pixels_y": 0,
    "secondary_stride_in_feature_channels": 0,
}  # fmt: skip
FORWARD_ARITHMETIC = {
    **ARITHMETIC, "primary_stride_in_pixels_x": 0, "primary_stride_in_pixels_y": 0,
    "primary_stride_in_feature_channels": 0,
}  # fmt: skip

# Neurons with a class of their own, but for PReLU, and their types.
NAMED = {
    "Absolute": "absolute", "ELU": "elu", "Exponential": "exponential",
    "HardSigmoid": "hard_sigmoid", "Linear": "linear", "Logarithm": "logarithm", "Power": "power",
    "ReLU": "relu", "ReLUN": "relun", "Sigmoid": "sigmoid", "SoftPlus": "soft_plus",
    "SoftSign": "soft_sign", "TanH": "tanh",
}  # fmt: skip

# Class -> what it is made with, and what is set; functions are called. A new class has its entry
# beside its tests: `CODED` of a file of this folder.
CASES = {
    "MPSCNNNeuron": ({"neuron_descriptor": slopes}, {}),
    "MPSCNNNeuronGradient": (
        {"neuron_descriptor": lambda: neuron(with_type="relun", a=2.0, b=3.0, c=1.5)},
        {"header_formula": True}),
    "MPSCNNConvolution": ({"weights": weights}, {}),
    "MPSCNNConvolutionGradient": ({"weights": weights}, {"gradient_option": 2}),
    "MPSCNNFullyConnected": ({"weights": weights}, {}),
    "MPSCNNFullyConnectedGradient": ({"weights": weights}, {"gradient_option": 1}),
    "MPSCNNConvolutionTranspose": (
        {"weights": weights}, {"kernel_offset_x": 3, "kernel_offset_y": 5}),
    "MPSCNNConvolutionTransposeGradient": ({"weights": weights}, {"gradient_option": 2}),
    "MPSCNNBatchNormalization": ({"data_source": Channels, **FUSED}, {"epsilon": 0.25}),
    "MPSCNNBatchNormalizationStatistics": ({}, {}),
    "MPSCNNBatchNormalizationStatisticsGradient": (FUSED, {}),
    "MPSCNNBatchNormalizationGradient": (FUSED, {}),
    "MPSCNNInstanceNormalization": ({"data_source": Channels}, {"epsilon": 0.25}),
    "MPSCNNInstanceNormalizationGradient": ({}, {}),
    "MPSCNNGroupNormalization": ({"data_source": Channels}, {"epsilon": 0.25}),
    "MPSCNNGroupNormalizationGradient": ({}, {}),
    "MPSCNNCrossChannelNormalization": ({"kernel_size": 3}, LOCAL),
    "MPSCNNCrossChannelNormalizationGradient": (
        {"kernel_size": 3}, {**LOCAL, "header_formula": True}),
    "MPSCNNSpatialNormalization": (WINDOW, LOCAL),
    "MPSCNNSpatialNormalizationGradient": (WINDOW, {**LOCAL, "header_formula": True}),
    "MPSCNNLocalContrastNormalization": (WINDOW, {**LOCAL, "p0": 0.5, "pm": 0.25, "ps": 2.0}),
    "MPSCNNLocalContrastNormalizationGradient": (
        WINDOW, {**LOCAL, "p0": 0.5, "pm": 0.25, "ps": 2.0, "header_formula": True}),
    "MPSCNNDropout": (DROPOUT, {}),
    "MPSCNNDropoutGradient": (DROPOUT, {}),
    "MPSCNNUpsamplingNearest": (SCALES, {}),
    "MPSCNNUpsamplingNearestGradient": (SCALES, {"align_corners": True}),
    "MPSCNNUpsamplingBilinear": ({**SCALES, "align_corners": True}, {}),
    "MPSCNNUpsamplingBilinearGradient": (SCALES, {"align_corners": True}),
    "MPSCNNDilatedPoolingMax": (DILATED, {}),
    "MPSCNNDilatedPoolingMaxGradient": (DILATED, {}),
    "MPSCNNLoss": ({"loss_descriptor": loss}, {"header_formula": True}),
    "MPSNNForwardLoss": ({"loss_descriptor": loss}, {}),
    "MPSNNLossGradient": (
        {"loss_descriptor": loss}, {"compute_label_gradients": True, "header_formula": True}),
    "MPSNNPad": (
        {"padding_size_before": (1, 2, 1), "padding_size_after": (3, 0, 2),
         "fill_value_array": [0.5] * (C + 3)}, {"fill_value": 2.5}),
    "MPSNNGramMatrixCalculation": ({"alpha": 0.25}, {}),
    "MPSNNGramMatrixCalculationGradient": ({"alpha": 0.25}, {}),
    "MPSNNCompare": (
        {}, {**FORWARD_ARITHMETIC, "comparison_type": "less_or_equal", "threshold": 0.75}),
    "MPSNNReshape": ({}, {"_reshaped": (4, 3, 6)}),
    "MPSNNResizeBilinear": (
        {"resize_width": 3, "resize_height": 2, "align_corners": True}, {}),
    **{f"MPSCNNNeuron{name}": (
        {"neuron_descriptor": lambda type=type: neuron(with_type=type, a=0.25, b=0.75, c=3.0)},
        {}) for name, type in NAMED.items()},
    "MPSCNNNeuronPReLU": ({"neuron_descriptor": slopes}, {}),
    "MPSNNOptimizerStochasticGradientDescent": (
        {"momentum_scale": 0.75, "use_nesterov_momentum": True, "optimizer_descriptor": optimizer},
        {}),
    "MPSNNOptimizerRMSProp": (
        {"decay": 0.75, "epsilon": 0.125, "optimizer_descriptor": optimizer}, {}),
    "MPSNNOptimizerAdam": (
        {"beta1": 0.75, "beta2": 0.5, "epsilon": 0.125, "time_step": 7,
         "optimizer_descriptor": optimizer}, {}),
    **{f"MPSCNNPooling{kind}{end}": (POOL, ZEROS if kind == "Average" else {})
       for kind in ("Max", "Average", "L2Norm") for end in ("", "Gradient")},
    **{f"MPSCNN{name}": ({}, FORWARD_ARITHMETIC)
       for name in ("Add", "Subtract", "Multiply", "Divide")},
    **{f"MPSCNN{name}Gradient": ({"is_secondary_source_filter": True}, ARITHMETIC)
       for name in ("Add", "Subtract", "Multiply")},
    **{name: ({}, {}) for name in (
        "MPSCNNSoftMax", "MPSCNNSoftMaxGradient", "MPSCNNLogSoftMax", "MPSCNNLogSoftMaxGradient",
        "MPSNNReshapeGradient", "MPSNNPadGradient", "MPSNNSlice",
        "MPSNNInitialGradient")},
} | beside("mps", "CODED")  # fmt: skip
# What every kernel of a kind has besides.
CLIP = {
    "clip_rect": mps.MTLRegion(mps.MTLOrigin(1, 2), mps.MTLSize(3, 4)),
    "destination_feature_channel_offset": 8, "makes_temporary_images": False,
}  # fmt: skip
TWO = {
    **CLIP, "primary_source_feature_channel_offset": 4,
    "primary_source_feature_channel_max_count": 5, "secondary_source_feature_channel_offset": 12,
    "secondary_source_feature_channel_max_count": 6,
}  # fmt: skip
COMMON = {
    mps.MPSKernel: {"label": "layer 7"},
    mps.MPSCNNKernel: {
        **CLIP, "offset": (-1, -2, 0), "padding": "size_full",
        "source_feature_channel_offset": 4, "source_feature_channel_max_count": 3},
    mps.MPSCNNGradientKernel: {
        **TWO, "primary_offset": (1, 2, 3), "secondary_offset": (4, 5, 6), "kernel_offset_x": 7,
        "kernel_offset_y": 8},
    mps.MPSCNNPoolingGradient: {"source_size": (5, 6, 7)},
    mps.MPSCNNBinaryKernel: {
        **TWO, "primary_offset": (1, 2, 3), "secondary_offset": (4, 5, 6), "padding": "size_full"},
    mps.MPSCNNLoss: {"makes_temporary_images": False},
}  # fmt: skip


def made(name, device="reference"):
    """A kernel that has nothing as it is at the beginning."""
    cls, (arguments, properties) = getattr(mps, name), CASES[name]
    given = {key: value() if callable(value) else value for key, value in arguments.items()}
    kernel = cls(device=device, **given)
    for base, common in COMMON.items():
        for key, value in common.items() if isinstance(kernel, base) else ():
            setattr(kernel, key, value)
    for key, value in properties.items():
        setattr(kernel, key, value)
    if name == "MPSNNPad":
        kernel.padding_size_before = (2, 1, 1)  # the offset is its negative
    for key in ("edge_mode", "secondary_edge_mode"):
        if hasattr(kernel, key):
            at_first = getattr(kernel, key) == mps.MPSImageEdgeMode.CLAMP
            setattr(kernel, key, "zero" if at_first else "clamp")
    return kernel
