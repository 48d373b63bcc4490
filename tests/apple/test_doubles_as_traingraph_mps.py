"""The doubles compute what traingraph.mps computes, whose kernels a Mac's are to stand for."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from kernel_pairs import run_forward, run_pair, set_all
from loss_cases import (
    CASES,
    DELTA,
    EPSILON,
    FORWARD,
    GRADIENT,
    LOSSES,
    SMOOTHING,
    WEIGHT,
    arrays,
    loss_kernel,
)
from mps_session import Session, session, values
from objective_c import Object, Runtime
from reference_pairs import DEVICE, images, numbers, run_pair_by_mps

from traingraph import mps

GAMMA, BETA, WEIGHTS, BIASES = values(6), values(6), values(8, 3, 3, 4), values(8)


@pytest.fixture(autouse=True)
def kernels_give_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers say so of few kernels."""
    monkeypatch.setenv("APPLE_DOUBLE_READINGS", "lenient")


class Source(mps.MPSCNNGroupNormalizationDataSource):
    number_of_feature_channels, number_of_groups = 6, 3

    def gamma(self) -> np.ndarray:
        return GAMMA

    def beta(self) -> np.ndarray:
        return BETA

    def epsilon(self) -> float:
        return 0.1


class Weights(mps.MPSCNNConvolutionDataSource):
    def descriptor(self) -> Any:
        made = mps.MPSCNNConvolutionDescriptor.cnn_convolution_descriptor(
            with_kernel_width=3, kernel_height=3, input_feature_channels=4,
            output_feature_channels=8,
        )  # fmt: skip
        made.stride_in_pixels_x = made.stride_in_pixels_y = 2
        return made

    def weights(self) -> np.ndarray:
        return WEIGHTS

    def bias_terms(self) -> np.ndarray:
        return BIASES


def normalization(kind: str) -> Callable[[Session], list[Object]]:
    def make(s: Session) -> list[Object]:
        source = s.make(
            "CheckGroups", "initWithGamma:beta:channels:groups:epsilon:",
            GAMMA, BETA, 6, 3, 0.1,
        )  # fmt: skip
        name = f"MPSCNN{kind}Normalization"
        forward = s.kernel(name, "initWithDevice:dataSource:", source)
        return [forward, s.kernel(f"{name}Gradient")]

    return make


def normalization_by_mps(kind: str) -> list[Any]:
    name = f"MPSCNN{kind}Normalization"
    forward = getattr(mps, name)(device=DEVICE, data_source=Source())
    return [forward, getattr(mps, f"{name}Gradient")(device=DEVICE)]


def transpose(s: Session) -> list[Object]:
    descriptor = s.runtime.MPSCNNConvolutionDescriptor.send(
        "cnnConvolutionDescriptorWithKernelWidth:kernelHeight:inputFeatureChannels:"
        "outputFeatureChannels:",
        3, 3, 4, 8,
    )  # fmt: skip
    set_all(descriptor, strideInPixelsX=2, strideInPixelsY=2)
    source = s.make(
        "CheckWeights", "initWithDescriptor:weights:count:biases:",
        descriptor, WEIGHTS, WEIGHTS.size, BIASES,
    )  # fmt: skip
    pair = [
        s.kernel(f"MPSCNNConvolutionTranspose{suffix}", "initWithDevice:weights:", source)
        for suffix in ("", "Gradient")
    ]
    set_all(pair[0], offset=(1, 0, 0))
    set_all(pair[1], secondaryOffset=(1, 0, 0))
    for kernel in pair:
        set_all(kernel, kernelOffsetX=-1, kernelOffsetY=1)
    return pair


def transpose_by_mps() -> list[Any]:
    forward = mps.MPSCNNConvolutionTranspose(device=DEVICE, weights=Weights())
    gradient = mps.MPSCNNConvolutionTransposeGradient(device=DEVICE, weights=Weights())
    forward.offset = gradient.secondary_offset = (1, 0)
    for kernel in (forward, gradient):
        kernel.kernel_offset_x, kernel.kernel_offset_y = -1, 1
    return [forward, gradient]


def pad(edge: int) -> Callable[[Session], list[Object]]:
    def make(s: Session) -> list[Object]:
        form = "initWithDevice:paddingSizeBefore:paddingSizeAfter:"
        pair = [s.kernel("MPSNNPad", form, (2, 1, 1), (1, 2, 0)), s.kernel("MPSNNPadGradient")]
        set_all(pair[0], offset=(-2, -1, 0), edgeMode=edge, fillValue=0.5)
        set_all(pair[1], primaryOffset=(2, 1, 1), secondaryEdgeMode=edge)
        return pair

    return make


def pad_by_mps(edge: int) -> list[Any]:
    sizes = {"padding_size_before": (2, 1, 1), "padding_size_after": (1, 2, 0)}
    pair = [mps.MPSNNPad(device=DEVICE, **sizes), mps.MPSNNPadGradient(device=DEVICE)]
    pair[0].edge_mode, pair[0].fill_value = edge, 0.5
    pair[1].primary_offset, pair[1].secondary_edge_mode = (2, 1, 1), edge
    return pair


def gram(s: Session) -> list[Object]:
    names = ("MPSNNGramMatrixCalculation", "MPSNNGramMatrixCalculationGradient")
    return [s.kernel(name, "initWithDevice:alpha:", 0.5) for name in names]


def gram_by_mps() -> list[Any]:
    names = ("MPSNNGramMatrixCalculation", "MPSNNGramMatrixCalculationGradient")
    return [getattr(mps, name)(device=DEVICE, alpha=0.5) for name in names]


class Pair(NamedTuple):
    doubles: Callable[[Session], list[Object]]
    by_mps: Callable[[], list[Any]]
    source: tuple[int, ...]
    result: tuple[int, ...]


PLACES = (2, 6, 3, 4)
PAIRS = {
    "instance": Pair(
        normalization("Instance"), lambda: normalization_by_mps("Instance"), PLACES, PLACES
    ),
    "group": Pair(normalization("Group"), lambda: normalization_by_mps("Group"), PLACES, PLACES),
    "transpose": Pair(transpose, transpose_by_mps, (2, 4, 3, 4), (2, 8, 6, 7)),
    "gram": Pair(gram, gram_by_mps, (2, 5, 3, 4), (2, 5, 1, 5)),
    "reshape": Pair(
        lambda s: [s.kernel("MPSNNReshape"), s.kernel("MPSNNReshapeGradient")],
        lambda: [mps.MPSNNReshape(device=DEVICE), mps.MPSNNReshapeGradient(device=DEVICE)],
        PLACES, (2, 3, 8, 3),
    ),
    **{
        f"pad {edge}": Pair(
            pad(edge), lambda edge=edge: pad_by_mps(edge), (2, 3, 3, 4), (2, 4, 6, 7)
        )
        for edge in range(5)
    },
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_pair(runtime: Runtime, name: str) -> None:
    pair = PAIRS[name]
    x, e = values(*pair.source), values(*pair.result)
    with session(runtime) as s:
        found = run_pair(s, *pair.doubles(s), x, e)
    expected = run_pair_by_mps(*pair.by_mps(), x, e)
    for double, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(double, other, rtol=1e-5, atol=1e-5)


def forward_by_mps(kernel: Any, x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    results = images(np.zeros(shape))
    buffer = DEVICE.make_command_queue().make_command_buffer()
    kernel.encode_batch(buffer, source_images=images(x), destination_images=results)
    buffer.commit()
    buffer.wait_until_completed()
    return numbers(results, shape)


@pytest.mark.parametrize("kind", ["ArgumentMin", "ArgumentMax", "Min", "Max"])
def test_reduction_of_channels(runtime: Runtime, kind: str) -> None:
    name = f"MPSNNReduceFeatureChannels{kind}"
    x = np.round(values(2, 5, 3, 4))
    x[0, 2:4, 1, 1] = np.nan
    with session(runtime) as s:
        found = run_forward(s, s.kernel(name), x, (2, 1, 3, 4))
    expected = forward_by_mps(getattr(mps, name)(device=DEVICE), x, (2, 1, 3, 4))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize(("height", "width"), [(7, 3), (2, 9), (1, 1), (4, 5)])
def test_resize(runtime: Runtime, height: int, width: int, corners: bool) -> None:
    x, shape = values(2, 3, 4, 5), (2, 3, height, width)
    with session(runtime) as s:
        form = "initWithDevice:resizeWidth:resizeHeight:alignCorners:"
        found = run_forward(
            s, s.kernel("MPSNNResizeBilinear", form, width, height, corners), x, shape
        )
    kernel = mps.MPSNNResizeBilinear(
        device=DEVICE, resize_width=width, resize_height=height, align_corners=corners
    )
    np.testing.assert_allclose(found, forward_by_mps(kernel, x, shape), rtol=1e-5, atol=1e-6)


def test_channels_from_a_place_on(runtime: Runtime) -> None:
    x = values(2, 11, 3, 4)
    with session(runtime) as s:
        copies = s.runtime.MPSNNNeuronDescriptor.send("cnnNeuronDescriptorWithType:", 0)
        kernel = s.kernel("MPSCNNNeuron", "initWithDevice:neuronDescriptor:", copies)
        set_all(kernel, sourceFeatureChannelOffset=4, sourceFeatureChannelMaxCount=5)
        found = run_forward(s, kernel, x, (2, 5, 3, 4))
    np.testing.assert_array_equal(found, x[:, 4:9])


# What each is made with.
NEURONS = {
    "Absolute": {}, "ELU": {"a": 0.7}, "Exponential": {"a": 0.5, "b": 0.1, "c": 2.0},
    "HardSigmoid": {"a": 0.3, "b": 0.4}, "Linear": {"a": 2.0, "b": -1.0},
    "Logarithm": {"a": 0.5, "b": 4.0, "c": 3.0}, "Power": {"a": 0.5, "b": 3.0, "c": 2.0},
    "ReLU": {"a": 0.2}, "ReLUN": {"a": 0.1, "b": 0.6}, "Sigmoid": {},
    "SoftPlus": {"a": 0.5, "b": 1.5}, "SoftSign": {}, "TanH": {"a": 1.5, "b": 0.7},
}  # fmt: skip


@pytest.mark.parametrize("name", NEURONS)
def test_neurons_by_their_names(runtime: Runtime, name: str) -> None:
    x, given = 2 * values(2, 3, 2, 4), NEURONS[name]
    form = "initWithDevice:" + "".join(f"{letter}:" for letter in given)
    with session(runtime) as s:
        kernel = s.kernel(f"MPSCNNNeuron{name}", form, *given.values())
        found = run_forward(s, kernel, x, x.shape)
    kernel = getattr(mps, f"MPSCNNNeuron{name}")(device=DEVICE, **given)
    np.testing.assert_allclose(found, forward_by_mps(kernel, x, x.shape), rtol=1e-5, atol=1e-6)


def test_slopes_of_channels(runtime: Runtime) -> None:
    x, slopes = values(2, 3, 2, 4), np.array([0.5, -0.25, 2.0], np.float32)
    with session(runtime) as s:
        kernel = s.kernel("MPSCNNNeuronPReLU", "initWithDevice:a:count:", slopes, 3)
        found = run_forward(s, kernel, x, x.shape)
    expected = np.where(x < 0, x * slopes[:, None, None], x)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(("name", "reduction", "across"), CASES)
def test_loss(runtime: Runtime, name: str, reduction: int, across: bool) -> None:
    y, t, w = arrays(name, reduction, values)
    descriptor = mps.MPSCNNLossDescriptor.cnn_loss_descriptor(
        with_type=LOSSES[name][0], reduction_type=reduction
    )
    descriptor.reduce_across_batch, descriptor.weight = across, WEIGHT
    descriptor.label_smoothing, descriptor.delta, descriptor.epsilon = SMOOTHING, DELTA, EPSILON
    # The first shape is that of the values.
    size = LOSSES[name][1](y, t).shape if reduction == 0 else (2, 1, 1, 1)
    e = values(*size)

    forward = mps.MPSNNForwardLoss(device=DEVICE, loss_descriptor=descriptor)
    gradient = mps.MPSNNLossGradient(device=DEVICE, loss_descriptor=descriptor)
    losses, slopes, sources, labels = images(0 * e), images(0 * y), images(y), images(t)
    weights = None if w is None else images(w)
    buffer = DEVICE.make_command_queue().make_command_buffer()
    forward.encode_batch(
        buffer, source_images=sources, labels=labels, weights=weights, destination_images=losses
    )
    gradient.encode_batch(
        buffer, source_gradients=images(e), source_images=sources, labels=labels, weights=weights,
        destination_gradients=slopes,
    )  # fmt: skip
    buffer.commit()
    buffer.wait_until_completed()

    with session(runtime) as s:
        forward, gradient = (
            loss_kernel(s, kernel, name, reduction, across)
            for kernel in ("MPSNNForwardLoss", "MPSNNLossGradient")
        )
        sources, labels = s.batch(y), s.batch(t)
        weights = None if w is None else s.batch(w)
        results, gradients = s.blank_batch(*e.shape), s.blank_batch(*y.shape)
        states = s.states(forward, sources, results)
        forward.send(FORWARD, s.commands, sources, labels, weights, states, results)
        errors = s.batch(e)
        gradient.send(GRADIENT, s.commands, errors, sources, labels, weights, states, gradients)
        s.run()
        found = s.read_batch(results), s.read_batch(gradients)
    for double, other in zip(found, (losses, slopes), strict=True):
        np.testing.assert_allclose(double, numbers(other, double.shape), rtol=1e-5, atol=1e-5)
