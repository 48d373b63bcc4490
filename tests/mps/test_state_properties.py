"""Which kernels write into states that are there, and the order of weights in them."""

import numpy as np
import pytest
from coded import made
from gradients import backward, device, forward, random
from kernels import Weights, batch, commands, vector

from traingraph import InvalidArgument, ShapeError, mps

# Gradients of weights or of gamma and beta, and statistics.
MODIFIED = {
    "MPSCNNConvolutionTransposeGradient", "MPSCNNBatchNormalizationStatistics",
    "MPSCNNBatchNormalizationStatisticsGradient", "MPSCNNInstanceNormalizationGradient",
    "MPSCNNGroupNormalizationGradient", "MPSCNNConvolutionGradient",
}  # fmt: skip
OTHERS = [
    "MPSCNNConvolution", "MPSCNNFullyConnectedGradient", "MPSCNNPoolingMax",
    "MPSCNNPoolingMaxGradient", "MPSCNNBatchNormalization", "MPSCNNBatchNormalizationGradient",
    "MPSCNNDropout", "MPSCNNDropoutGradient", "MPSCNNAdd", "MPSCNNAddGradient", "MPSNNReduceRowSum",
]  # fmt: skip


@pytest.mark.parametrize("name", [*sorted(MODIFIED), *OTHERS])
def test_is_state_modified(name):
    assert made(name).is_state_modified == (name in MODIFIED)


@pytest.mark.parametrize("option", ["gradient_with_data", "gradient_with_weights_and_bias", "all"])
def test_a_state_is_modified_by_the_option(option):
    """The property says what happens to the state."""
    source = Weights(random(1, 4, 2, 2, 3), random(2, 4))
    kernel = mps.MPSCNNConvolution(device=device(), weights=source)
    gradient = mps.MPSCNNConvolutionGradient(device=device(), weights=source)
    gradient.gradient_option = option
    x = random(3, 1, 3, 4, 4)
    y, states = forward(kernel, x)
    before = np.array(states[0].gradient_for_weights)
    backward(gradient, random(4, *y.shape), x, states)
    changed = np.any(np.array(states[0].gradient_for_weights) != before)
    assert changed == gradient.is_state_modified == (option != "gradient_with_data")


def test_the_order_of_weights():
    """One weight's gradient lies where the layout says."""
    source = Weights(random(1, 4, 2, 3, 5))
    kernel = mps.MPSCNNConvolution(device=device(), weights=source)
    gradient = mps.MPSCNNConvolutionGradient(device=device(), weights=source)
    kernel.padding = "size_valid_only"
    x, dy = np.zeros((1, 5, 2, 3)), np.zeros((1, 4, 1, 1))
    x[0, 3, 1, 2], dy[0, 2] = 2.0, 0.5
    _, states = forward(kernel, x)
    backward(gradient, dy, x, states)
    assert states[0].gradient_for_weights_layout == mps.MPSCNNConvolutionWeightsLayout.OHWI
    expected = np.zeros((4, 2, 3, 5))
    expected[2, 1, 2, 3] = 1.0
    found = np.array(states[0].gradient_for_weights).reshape(expected.shape)
    np.testing.assert_array_equal(found, expected)


PAIRS = {
    "MPSCNNNormalizationGammaAndBetaState": ("gamma", "beta"),
    "MPSCNNNormalizationMeanAndVarianceState": ("mean", "variance"),
}


def buffers(**bytes_of):
    return {name: mps.MTLBuffer(device=device(), length=size) for name, size in bytes_of.items()}


@pytest.mark.parametrize("name", sorted(PAIRS))
def test_two_buffers_of_channels_have_one_size(name):
    first, second = PAIRS[name]
    state = getattr(mps, name)
    assert getattr(state(**buffers(**{first: 12, second: 12})), first).length == 12
    with pytest.raises(ShapeError, match=rf"\[{name}\] expected {first} and {second} .* 12,.* 16"):
        state(**buffers(**{first: 12, second: 16}))


@pytest.mark.parametrize("biases", [16, 24])
def test_weights_are_as_many_for_each_bias(biases):
    state = mps.MPSCNNConvolutionWeightsAndBiasesState
    assert state(**buffers(weights=36, biases=12)).biases.length == 12
    with pytest.raises(ShapeError, match=rf"\[{state.__name__}\] .* {biases} bytes, .* got 36"):
        state(**buffers(weights=36, biases=biases))


# --- two devices ---------------------------------------------------------------------------------


def buffer_on(name, size=12):
    return mps.MTLBuffer(device=device(name), length=size)


@pytest.mark.parametrize(
    ("state", "names"),
    [
        *sorted(PAIRS.items()),
        ("MPSCNNConvolutionWeightsAndBiasesState", ("weights", "biases")),
    ],
)
def test_the_buffers_of_a_state_are_of_one_device(state, names):
    first, second = names
    with pytest.raises(
        InvalidArgument, match=rf"\[{state}\] .* one device but got .* and reference loops"
    ):
        getattr(mps, state)(**{first: buffer_on("cpu"), second: buffer_on("reference")})


FOREIGN = "of device .* but got one of reference loops"


def test_a_kernel_takes_states_of_its_device_alone():
    x = np.ones((1, 3, 2, 2), np.float32)
    one, other = (
        mps.MPSCNNConvolution(device=device(name), weights=Weights(random(1, 3, 1, 1, 3)))
        for name in ("cpu", "reference")
    )
    _, states = forward(other, x)
    state = mps.MPSCNNConvolutionWeightsAndBiasesState(
        weights=buffer_on("reference", 36), biases=buffer_on("reference")
    )
    with pytest.raises(InvalidArgument, match=rf"ConvolutionWeightsAndBiasesState {FOREIGN}"):
        one.reload_weights_and_biases(commands(device("cpu")), state=state)
    gradient = mps.MPSCNNConvolutionGradient(
        device=device("cpu"), weights=Weights(random(1, 3, 1, 1, 3))
    )
    with pytest.raises(InvalidArgument, match=rf"ConvolutionGradientState {FOREIGN}"):
        backward(gradient, x, x, states)


def test_an_optimizer_takes_vectors_of_its_device_alone():
    rule = mps.MPSNNOptimizerStochasticGradientDescent(
        device=device("cpu"),
        momentum_scale=0.5,
        use_nesterov_momentum=False,
        optimizer_descriptor=mps.MPSNNOptimizerDescriptor(learning_rate=0.1),
    )
    here, there = (vector(device(name), np.ones(3, np.float32)) for name in ("cpu", "reference"))
    names = ["input_gradient", "input_values", "result_values", "input_momentum"]
    for name in names:
        given = {f"{n}_vector": there if n == name else here for n in names}
        with pytest.raises(InvalidArgument, match=FOREIGN):
            rule.encode(commands(device("cpu")), **given)


def test_labels_of_a_loss_are_of_its_device():
    y, dy = (batch(device("cpu"), np.ones((1, 2, 1, 1), np.float32)) for _ in range(2))
    (label,) = batch(device("reference"), np.ones((1, 2, 1, 1), np.float32))
    kernel = mps.MPSCNNLoss(
        device=device("cpu"),
        loss_descriptor=mps.MPSCNNLossDescriptor.cnn_loss_descriptor(
            with_type="mean_squared_error", reduction_type="mean"
        ),
    )
    (loss,) = batch(device("cpu"), np.ones((1, 1, 1, 1), np.float32))
    labels = mps.MPSCNNLossLabels(loss_image=loss, labels_image=label)
    with pytest.raises(InvalidArgument, match=r"of device .* but got image .* of reference"):
        kernel.encode_batch(
            commands(device("cpu")), source_images=y, labels=[labels], destination_images=dy
        )
