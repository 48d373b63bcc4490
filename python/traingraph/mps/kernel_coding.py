"""What copying and coding know of each kernel class: one table, read by copy, encode and decode."""

import copy as copies
from collections.abc import Callable
from typing import Any, NamedTuple

from traingraph import _core
from traingraph._core import InvalidArgument
from traingraph.mps import stored_sources as stored

Reader = Callable[[Any], Any]


class Described(NamedTuple):
    """Of a class alone: arguments that it is made with, and properties that are set afterwards.

    An argument is read by the property of this name, or by a function of the kernel.
    """

    arguments: dict[str, str | Reader]
    properties: tuple[str, ...] = ()


# --- objects that arguments are ------------------------------------------------------------------

_CONVOLUTION = (
    "kernel_width", "kernel_height", "input_feature_channels", "output_feature_channels",
    "stride_in_pixels_x", "stride_in_pixels_y", "groups", "dilation_rate_x", "dilation_rate_y",
    "fused_neuron_descriptor", "_batch_normalization",
)  # fmt: skip


def _convolution(cls: Any) -> Callable[[], Any]:
    """How a convolution's descriptor of this class begins."""
    return lambda: cls.cnn_convolution_descriptor(
        with_kernel_width=1, kernel_height=1, input_feature_channels=1, output_feature_channels=1
    )


# Class -> how one begins, and its fields.
STRUCTURES: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "MPSNNNeuronDescriptor": (
        lambda: _core.MPSNNNeuronDescriptor.cnn_neuron_descriptor(with_type="none"),
        ("neuron_type", "a", "b", "c", "data"),
    ),
    "MPSCNNLossDescriptor": (
        lambda: _core.MPSCNNLossDescriptor.cnn_loss_descriptor(
            with_type="mean_squared_error", reduction_type="none"
        ),
        ("loss_type", "reduction_type", "reduce_across_batch", "weight", "label_smoothing",
         "number_of_classes", "epsilon", "delta"),
    ),
    "MPSNNOptimizerDescriptor": (
        lambda: _core.MPSNNOptimizerDescriptor(learning_rate=0.0),
        ("learning_rate", "gradient_rescale", "apply_gradient_clipping", "gradient_clip_max",
         "gradient_clip_min", "regularization_type", "regularization_scale"),
    ),
    "MPSCNNConvolutionDescriptor": (
        _convolution(_core.MPSCNNConvolutionDescriptor), _CONVOLUTION),
    "MPSCNNDepthWiseConvolutionDescriptor": (
        _convolution(_core.MPSCNNDepthWiseConvolutionDescriptor), _CONVOLUTION),
    "MPSCNNSubPixelConvolutionDescriptor": (
        _convolution(_core.MPSCNNSubPixelConvolutionDescriptor),
        (*_CONVOLUTION, "sub_pixel_scale_factor")),
}  # fmt: skip
# Enumerations among the fields: they are coded by their number.
_ENUMS = {
    "neuron_type": _core.MPSCNNNeuronType,
    "loss_type": _core.MPSCNNLossType,
    "reduction_type": _core.MPSCNNReductionType,
    "regularization_type": _core.MPSNNRegularizationType,
}


def _structure(name: str) -> Reader:
    """Reads a descriptor off a kernel that has its fields as properties."""

    def read(kernel: Any) -> Any:
        begin, fields = STRUCTURES[name]
        made = begin()
        for field in fields:
            setattr(made, field, getattr(kernel, field))
        return made

    return read


_NEURON = {"neuron_descriptor": _structure("MPSNNNeuronDescriptor")}
_FUSED = {"fused_neuron_descriptor": "fused_neuron_descriptor"}
_LOSS = {"loss_descriptor": _structure("MPSCNNLossDescriptor")}
_OPTIMIZER = {"optimizer_descriptor": _structure("MPSNNOptimizerDescriptor")}
_WEIGHTS = {"weights": "data_source"}
_SOURCE = {"data_source": "data_source"}
_SCALES: dict[str, str | Reader] = {
    "integer_scale_factor_x": lambda kernel: int(kernel.scale_factor_x),
    "integer_scale_factor_y": lambda kernel: int(kernel.scale_factor_y),
}


def _named(*names: str, prefix: str = "") -> dict[str, str | Reader]:
    return {name: prefix + name for name in names}


_WINDOW = ("kernel_width", "kernel_height")
_STRIDES = ("stride_in_pixels_x", "stride_in_pixels_y")
_DILATIONS = ("dilation_rate_x", "dilation_rate_y")
_CLIP = ("clip_rect", "destination_feature_channel_offset", "makes_temporary_images")
_TWO_SOURCES = (
    *_CLIP, "primary_source_feature_channel_offset", "primary_source_feature_channel_max_count",
    "secondary_source_feature_channel_offset", "secondary_source_feature_channel_max_count",
)  # fmt: skip
_SCALING = ("primary_scale", "secondary_scale", "bias", "minimum_value", "maximum_value",
            "secondary_stride_in_pixels_x", "secondary_stride_in_pixels_y",
            "secondary_stride_in_feature_channels")  # fmt: skip
_DROPOUT = _named("keep_probability", "seed", "mask_stride_in_pixels")
_LOCAL = ("alpha", "beta", "delta")
_CONTRAST = (*_LOCAL, "p0", "pm", "ps")
_OFFSETS = ("kernel_offset_x", "kernel_offset_y")

# A class has what its base classes have, too.
KERNELS = {
    "MPSKernel": Described({}, ("label",)),
    "MPSCNNKernel": Described({}, (
        "offset", "edge_mode", "padding", *_CLIP, "source_feature_channel_offset",
        "source_feature_channel_max_count")),
    "MPSCNNGradientKernel": Described({}, (
        "primary_offset", "secondary_offset", *_OFFSETS, "secondary_edge_mode", *_TWO_SOURCES)),
    "MPSCNNBinaryKernel": Described({}, ("primary_offset", "secondary_offset", *_TWO_SOURCES)),
    "MPSCNNNeuron": Described({**_NEURON}),
    "MPSCNNNeuronGradient": Described({**_NEURON}),
    "MPSCNNPooling": Described(_named(*_WINDOW, *_STRIDES)),
    "MPSCNNPoolingGradient": Described(
        _named(*_WINDOW, *_STRIDES, prefix="secondary_"), ("source_size",)),
    "MPSCNNPoolingAverage": Described({}, ("zero_pad_size_x", "zero_pad_size_y")),
    "MPSCNNPoolingAverageGradient": Described({}, ("zero_pad_size_x", "zero_pad_size_y")),
    "MPSCNNDilatedPoolingMax": Described(_named(*_DILATIONS)),
    "MPSCNNDilatedPoolingMaxGradient": Described(_named(*_DILATIONS, prefix="secondary_")),
    "MPSCNNConvolution": Described({**_WEIGHTS}),
    "MPSCNNConvolutionGradient": Described({**_WEIGHTS}, ("gradient_option",)),
    "MPSCNNConvolutionTranspose": Described({**_WEIGHTS}, _OFFSETS),
    "MPSCNNConvolutionTransposeGradient": Described({**_WEIGHTS}, ("gradient_option",)),
    "MPSCNNBatchNormalization": Described({**_SOURCE, **_FUSED}, ("epsilon",)),
    "MPSCNNBatchNormalizationStatisticsGradient": Described({**_FUSED}),
    "MPSCNNBatchNormalizationGradient": Described({**_FUSED}),
    "MPSCNNInstanceNormalization": Described({**_SOURCE}, ("epsilon",)),
    "MPSCNNGroupNormalization": Described({**_SOURCE}, ("epsilon",)),
    "MPSCNNCrossChannelNormalization": Described(_named("kernel_size"), _LOCAL),
    "MPSCNNCrossChannelNormalizationGradient": Described(
        _named("kernel_size"), (*_LOCAL, "header_formula")),
    "MPSCNNSpatialNormalization": Described(_named(*_WINDOW), _LOCAL),
    "MPSCNNSpatialNormalizationGradient": Described(
        _named(*_WINDOW, prefix="secondary_"), (*_LOCAL, "header_formula")),
    "MPSCNNLocalContrastNormalization": Described(_named(*_WINDOW), _CONTRAST),
    "MPSCNNLocalContrastNormalizationGradient": Described(
        _named(*_WINDOW, prefix="secondary_"), _CONTRAST),
    "MPSCNNDropout": Described(_DROPOUT),
    "MPSCNNDropoutGradient": Described(_DROPOUT),
    "MPSCNNUpsamplingNearest": Described(_SCALES),
    "MPSCNNUpsamplingBilinear": Described({**_SCALES, **_named("align_corners")}),
    "MPSCNNUpsamplingNearestGradient": Described(_SCALES, ("align_corners",)),
    "MPSCNNUpsamplingBilinearGradient": Described(_SCALES, ("align_corners",)),
    "MPSNNResizeBilinear": Described(_named("resize_width", "resize_height", "align_corners")),
    "MPSCNNArithmetic": Described({}, (
        *_SCALING, "primary_stride_in_pixels_x", "primary_stride_in_pixels_y",
        "primary_stride_in_feature_channels")),
    "MPSNNCompare": Described({}, ("comparison_type", "threshold")),
    "MPSCNNArithmeticGradient": Described(_named("is_secondary_source_filter"), _SCALING),
    "MPSCNNLoss": Described({**_LOSS}, ("makes_temporary_images",)),
    "MPSNNForwardLoss": Described({**_LOSS}),
    "MPSNNLossGradient": Described({**_LOSS}, ("compute_label_gradients",)),
    "MPSNNPad": Described({
        **_named("padding_size_before", "padding_size_after"),
        "fill_value_array": "_fill_value_array"}, ("fill_value",)),
    "MPSNNConcatenation": Described({}, ("makes_temporary_images",)),
    "MPSNNReduceUnary": Described({}, ("clip_rect_source",)),
    "MPSNNReduceFeatureChannelsSum": Described({}, ("weight",)),
    "MPSNNReduceBinary": Described({}, (
        "primary_source_clip_rect", "secondary_source_clip_rect")),
    "MPSNNReduceFeatureChannelsAndWeightsSum": Described(
        _named("do_weighted_sum_by_non_zero_weights")),
    "MPSNNGramMatrixCalculation": Described(_named("alpha")),
    "MPSNNGramMatrixCalculationGradient": Described(_named("alpha")),
    "MPSNNOptimizerStochasticGradientDescent": Described(
        {**_named("momentum_scale", "use_nesterov_momentum"), **_OPTIMIZER}),
    "MPSNNOptimizerRMSProp": Described({**_named("decay", "epsilon"), **_OPTIMIZER}),
    "MPSNNOptimizerAdam": Described(
        {**_named("beta1", "beta2", "epsilon", "time_step"), **_OPTIMIZER}),
}  # fmt: skip


def described(cls: type[Any]) -> Described:
    """Of a class and its base classes, theirs first."""
    rows = [KERNELS[one.__name__] for one in reversed(cls.__mro__) if one.__name__ in KERNELS]
    arguments: dict[str, str | Reader] = {}
    for row in rows:
        arguments |= row.arguments
    return Described(arguments, tuple(name for row in rows for name in row.properties))


def _class_of(kernel: Any) -> Any:
    """The class of this package that a kernel is of, or that its class derives from."""
    return next(one for one in type(kernel).__mro__ if hasattr(_core, one.__name__))


def _values(kernel: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments and properties as they are."""
    arguments, properties = described(_class_of(kernel))
    return (
        {
            name: getattr(kernel, read) if isinstance(read, str) else read(kernel)
            for name, read in arguments.items()
        },
        {name: getattr(kernel, name) for name in properties},
    )


def _made(cls: Any, device: Any, arguments: dict[str, Any], properties: dict[str, Any]) -> Any:
    kernel = cls(device=device, **arguments)
    for name, value in properties.items():
        setattr(kernel, name, value)
    return kernel


# --- copying -------------------------------------------------------------------------------------


def copied_source(source: Any, device: Any) -> Any:
    """A data source by its own copy(device=), by Python's copy protocol, or the same again."""
    if hasattr(source, "copy"):
        return source.copy(device=device)
    return copies.copy(source) if hasattr(source, "__copy__") else source


def copied(kernel: Any, device: Any) -> Any:
    """An independent kernel with the same properties, on this device or the kernel's own."""
    device = kernel.device if device is None else device
    arguments, properties = _values(kernel)
    for name in ("weights", "data_source"):
        if name in arguments:
            arguments[name] = copied_source(arguments[name], device)
    return _made(_class_of(kernel), device, arguments, properties)


# --- coding --------------------------------------------------------------------------------------

_SMALLEST = 1.1754943508222875e-38
_CHANNEL_SOURCES: dict[str, tuple[Callable[[dict[str, Any]], Any], tuple[str, ...]]] = {
    "MPSCNNBatchNormalization": (
        stored.StoredBatchNormalization, ("gamma", "beta", "mean", "variance")),
    "MPSCNNInstanceNormalization": (stored.StoredInstanceNormalization, ("gamma", "beta")),
    "MPSCNNGroupNormalization": (stored.StoredGroupNormalization, ("gamma", "beta")),
}  # fmt: skip


def plain(value: Any) -> Any:
    """Numbers, texts, None, lists and dictionaries of these."""
    name = type(value).__name__
    if name in STRUCTURES:
        return {field: plain(getattr(value, field)) for field in STRUCTURES[name][1]}
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    return value


def structured(name: str, values: Any) -> Any:
    """The descriptor of this class that was made plain."""
    begin, fields = STRUCTURES[name]
    made = begin()
    for field in fields:
        value = values[field]
        if field in _ENUMS:
            value = _ENUMS[field](value)
        if field == "fused_neuron_descriptor":
            value = structured("MPSNNNeuronDescriptor", value)
        setattr(made, field, value)
    return made


_DESCRIPTORS = {
    "neuron_descriptor": "MPSNNNeuronDescriptor",
    "fused_neuron_descriptor": "MPSNNNeuronDescriptor",
    "loss_descriptor": "MPSCNNLossDescriptor",
    "optimizer_descriptor": "MPSNNOptimizerDescriptor",
}


def coded_argument(kind: str, name: str, value: Any) -> Any:
    if name == "weights":
        descriptor = value.descriptor()
        return {
            "descriptor": plain(descriptor), "descriptor_class": type(descriptor).__name__,
            **stored.StoredConvolution.values_of(value),
        }  # fmt: skip
    if name == "data_source":
        return stored.channels_of(value, _CHANNEL_SOURCES[kind][1], _SMALLEST)
    return plain(value)


def decoded_argument(kind: str, name: str, value: Any) -> Any:
    if name == "weights":
        kind_of_sizes = value.get("descriptor_class", "MPSCNNConvolutionDescriptor")
        descriptor = structured(kind_of_sizes, value["descriptor"])
        return stored.StoredConvolution(value, descriptor)
    if name == "data_source":
        return _CHANNEL_SOURCES[kind][0](value)
    return structured(_DESCRIPTORS[name], value) if name in _DESCRIPTORS else value


# What damaged archives raise.
DAMAGES = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


def other_archive(kind: str, error: Exception) -> InvalidArgument:
    text = "expected what an object of this class has encoded but got something else"
    return InvalidArgument(f"[{kind}] {text}: {error}")


def encode(kernel: Any, coder: Any) -> None:
    """Writes every argument and property of a kernel, each under its name."""
    kind = _class_of(kernel).__name__
    arguments, properties = _values(kernel)
    for name, value in arguments.items():
        coder.encode(coded_argument(kind, name, value), for_key=name)
    for name, value in properties.items():
        coder.encode(plain(value), for_key=name)


def device_for(coder: Any, device: Any) -> Any:
    """This device, or the coder's. Errors: neither."""
    if device is not None:
        return device
    if hasattr(coder, "mps_mtl_device"):
        return coder.mps_mtl_device()
    raise InvalidArgument(
        "[MPSKernel] expected a device, or a coder that provides one by mps_mtl_device(), "
        "but got neither"
    )


def decoded(cls: Any, coder: Any, device: Any) -> Any:
    """The kernel of this class that was encoded. Errors: no device; what is no such kernel's."""
    device = device_for(coder, device)
    arguments, properties = described(cls)
    kind = cls.__name__
    try:
        return _made(
            cls, device,
            {n: decoded_argument(kind, n, coder.decode(for_key=n)) for n in arguments},
            {n: coder.decode(for_key=n) for n in properties},
        )  # fmt: skip
    except DAMAGES as error:
        raise other_archive(kind, error) from error


def encode_descriptor(descriptor: Any, coder: Any) -> None:
    """Writes every field of a descriptor."""
    for name, value in plain(descriptor).items():
        coder.encode(value, for_key=name)


def decoded_descriptor(cls: Any, coder: Any) -> Any:
    """The descriptor of this class that was encoded. Errors: what is no such descriptor's."""
    name = cls.__name__
    try:
        return structured(name, {key: coder.decode(for_key=key) for key in STRUCTURES[name][1]})
    except DAMAGES as error:
        raise other_archive(name, error) from error
