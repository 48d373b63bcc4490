"""Kernels of which a part of an image may be asked, each with its gradient kernel."""

from gradients import device, random
from kernels import Normalization, Weights

from traingraph import mps

LINEAR = {"with_type": "linear", "a": 2.0, "b": 0.5}


def linear(gradient=False, name=""):
    d = mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(**LINEAR)
    cls = mps.MPSCNNNeuronGradient if gradient else mps.MPSCNNNeuron
    made = cls(device=device(), neuron_descriptor=d)
    made.label = name
    return made


def local(gradient=False):
    suffix = "Gradient" if gradient else ""
    cls = getattr(mps, f"MPSCNNSpatialNormalization{suffix}")
    made = cls(device=device(), kernel_width=3, kernel_height=2)
    made.beta, made.alpha = 0.75, 0.5
    return made


def instance(gradient=False):
    if gradient:
        return mps.MPSCNNInstanceNormalizationGradient(device=device())
    source = Normalization(1 + random(3, 4), random(4, 4))
    source.number_of_feature_channels = 4
    return mps.MPSCNNInstanceNormalization(device=device(), data_source=source)


def dropout(gradient=False):
    suffix = "Gradient" if gradient else ""
    cls = getattr(mps, f"MPSCNNDropout{suffix}")
    return cls(device=device(), keep_probability=0.5, seed=3)


def pooling(kind):
    def make(gradient=False):
        cls = getattr(mps, f"MPSCNNPooling{kind}{'Gradient' if gradient else ''}")
        return cls(
            device=device(),
            kernel_width=3,
            kernel_height=2,
            stride_in_pixels_x=2,
            stride_in_pixels_y=1,
        )

    return make


SOURCE = Weights(random(1, 8, 3, 3, 4), random(2, 8), stride_in_pixels_x=2)
UP = Weights(random(1, 8, 3, 2, 4), random(2, 8), stride_in_pixels_x=2)


def convolution(gradient=False):
    cls = mps.MPSCNNConvolutionGradient if gradient else mps.MPSCNNConvolution
    return cls(device=device(), weights=SOURCE)


def transpose(gradient=False):
    cls = mps.MPSCNNConvolutionTransposeGradient if gradient else mps.MPSCNNConvolutionTranspose
    return cls(device=device(), weights=UP)


# Kernels that move a window, and kernels whose result is as large as the source.
WINDOWS = {"convolution": convolution, "transpose": transpose, "average": pooling("Average"),
           "max": pooling("Max")}  # fmt: skip
PIXELS = {"linear": linear, "spatial": local, "instance": instance, "dropout": dropout}
BOTH = {**WINDOWS, **PIXELS}
SETTINGS = [
    "offset",
    "clip_rect",
    "destination_feature_channel_offset",
    "source_feature_channel_offset",
    "source_feature_channel_max_count",
]
