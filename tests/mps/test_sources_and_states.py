"""What data sources, descriptors and states can do beside the plain training step."""

import numpy as np
import pytest
from kernels import Normalization, Weights, array, batch, commands, empty, run, vector
from test_coding import archived, unarchived
from test_command_buffers import scale

from traingraph import mps

RANDOM = np.random.default_rng(29)


def on(name="cpu"):
    return mps.MTLDevice(device=name)


# --- optimizers over batch normalization ---------------------------------------------------------

GAMMA, BETA = (RANDOM.normal(size=3).astype(np.float32) for _ in range(2))
PLAIN = {"learning_rate": 0.1}


def descriptor():
    return mps.MPSNNOptimizerDescriptor.optimizer_descriptor(with_learning_rate=0.1)


OPTIMIZERS = {
    "momentum": (
        lambda device: mps.MPSNNOptimizerStochasticGradientDescent(
            device=device, momentum_scale=0.5, use_nesterov_momentum=False,
            optimizer_descriptor=descriptor()),
        ["input_momentum"], lambda w, g: w - 0.1 * g),
    "rms": (
        lambda device: mps.MPSNNOptimizerRMSProp(device=device, **PLAIN),
        ["input_sum_of_squares"],
        lambda w, g: w - 0.1 * g / (np.sqrt(0.1 * g * g) + 1e-8)),
    "adam": (
        lambda device: mps.MPSNNOptimizerAdam(device=device, **PLAIN),
        ["input_momentum", "input_velocity"],
        lambda w, g: w - 0.1 * np.sqrt(0.001) / 0.1 * 0.1 * g / (np.sqrt(0.001 * g * g) + 1e-8)),
    "amsgrad": (
        lambda device: mps.MPSNNOptimizerAdam(device=device, **PLAIN),
        ["input_momentum", "input_velocity", "maximum_velocity"],
        lambda w, g: w - 0.1 * np.sqrt(0.001) / 0.1 * 0.1 * g / (np.sqrt(0.001 * g * g) + 1e-8)),
}  # fmt: skip


def trained_state(device, source, x, dy):
    """A state with gradients of gamma and beta."""
    kernel = mps.MPSCNNBatchNormalization(device=device, data_source=source)
    statistics = mps.MPSCNNBatchNormalizationStatistics(device=device)
    gradient = mps.MPSCNNBatchNormalizationStatisticsGradient(device=device)
    images, gradients, results = (
        batch(device, x),
        batch(device, dy),
        empty(device, x.shape, "float32"),
    )
    state = kernel.result_state_batch(for_source_image=images)[0]
    buffer = commands(device)
    statistics.encode_batch(buffer, source_images=images, batch_normalization_state=state)
    kernel.encode_batch(buffer, source_images=images, batch_normalization_state=state,
                        destination_images=results)  # fmt: skip
    gradient.encode_batch(buffer, source_gradients=gradients, source_images=images,
                          batch_normalization_state=state)  # fmt: skip
    run(buffer)
    return state


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_gradients_of_one_state_and_values_of_another(name):
    make, slots, rule = OPTIMIZERS[name]
    device = on()
    x, dy = (RANDOM.normal(size=(2, 3, 2, 2)).astype(np.float32) for _ in range(2))
    gradients = trained_state(device, Normalization(np.ones(3), np.zeros(3)), x, dy)
    kernel = mps.MPSCNNBatchNormalization(device=device, data_source=Normalization(GAMMA, BETA))
    values = kernel.result_state_batch(for_source_image=batch(device, x))[0]
    result = mps.MPSCNNNormalizationGammaAndBetaState(
        gamma=mps.MTLBuffer(device=device, length=12), beta=mps.MTLBuffer(device=device, length=12)
    )
    own = {f"{slot}_vectors": [vector(device, np.zeros(3)) for _ in range(2)] for slot in slots}
    buffer = commands(device)
    make(device).encode(
        buffer, batch_normalization_gradient_state=gradients,
        batch_normalization_source_state=values, result_state=result, **own,
    )  # fmt: skip
    run(buffer)
    for got, w, g in ((result.gamma, GAMMA, gradients.gradient_for_gamma()),
                      (result.beta, BETA, gradients.gradient_for_beta())):  # fmt: skip
        np.testing.assert_allclose(np.array(got), rule(w, np.array(g)), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(np.array(values.gamma()), GAMMA)
    assert all(np.abs(np.array(one.data)).min() > 0 for pair in own.values() for one in pair)
    short = {key: pair[:1] for key, pair in own.items()}
    with pytest.raises(ValueError, match="two vectors per slot"):
        make(device).encode(
            commands(device), batch_normalization_gradient_state=gradients,
            batch_normalization_source_state=values, result_state=result, **short,
        )  # fmt: skip
    with pytest.raises(ValueError, match="was not encoded"):
        make(device).encode(
            commands(device), batch_normalization_gradient_state=values,
            batch_normalization_source_state=values, result_state=result, **own,
        )  # fmt: skip


def test_apples_misspelt_momentum():
    made = mps.MPSNNOptimizerStochasticGradientDescent(
        device="cpu", momentum_scale=0.5, use_nestrov_momentum=True,
        optimizer_descriptor=descriptor(),
    )  # fmt: skip
    assert made.use_nesterov_momentum
    assert made.use_nestrov_momentum
    assert unarchived(made, archived(made), "cpu").use_nestrov_momentum


# --- convolutions --------------------------------------------------------------------------------


def forward(device, source, x, kernel=None):
    kernel = kernel or mps.MPSCNNConvolution(device=device, weights=source)
    kernel.makes_temporary_images = False
    buffer = commands(device)
    result = kernel.encode_batch(buffer, source_images=batch(device, x))
    run(buffer)
    return array(result)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("plain", [False, True])
def test_a_batch_normalization_of_the_descriptor(dtype, biased, plain):
    """Between convolution and neuron; through bytes as well."""
    device = on("reference")
    x = RANDOM.normal(size=(2, 3, 4, 4)).astype(dtype)
    arrays = RANDOM.normal(size=(4, 5)).astype(np.float32)
    mean, variance, gamma, beta = arrays[0], arrays[1] ** 2 + 0.1, arrays[2], arrays[3]
    source = Weights(RANDOM.normal(size=(5, 2, 3, 3)).astype(dtype),
                     RANDOM.normal(size=5).astype(dtype) if biased else None)  # fmt: skip
    y = forward(device, source, x)
    given = {} if plain else {"gamma": gamma, "beta": beta, "epsilon": 0.25}
    source.sizes.set_batch_normalization_parameters_for_inference(
        with_mean=mean, variance=variance, **given
    )
    source.sizes.fused_neuron_descriptor = mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(
        with_type="relu", a=0.0
    )
    if plain:
        gamma, beta = np.ones(5), np.zeros(5)
    scaled = gamma / np.sqrt(variance.astype(np.float64) + (0 if plain else 0.25))
    want = (y - mean[:, None, None]) * scaled[:, None, None] + beta[:, None, None]
    want = np.maximum(want, 0)
    tolerance = {"rtol": 1e-4, "atol": 1e-5} if dtype == "float32" else {"rtol": 1e-6, "atol": 1e-7}
    np.testing.assert_allclose(forward(device, source, x), want, **tolerance)
    kernel = mps.MPSCNNConvolution(device=device, weights=source)
    again = unarchived(kernel, archived(kernel), device)
    np.testing.assert_array_equal(forward(device, None, x, again), forward(device, source, x))
    with pytest.raises(ValueError, match="5 elements but got 4"):
        source.sizes.set_batch_normalization_parameters_for_inference(
            with_mean=mean[:4], variance=variance
        )
    source.sizes.output_feature_channels = 10
    with pytest.raises(ValueError, match="batch normalization for 10 channels but got 5"):
        mps.MPSCNNConvolution(device=device, weights=source)


def test_neurons_of_the_descriptor():
    device, x = on("reference"), RANDOM.normal(size=(2, 3, 4, 4))
    source = Weights(RANDOM.normal(size=(5, 2, 3, 3)), RANDOM.normal(size=5))
    y = forward(device, source, x)
    slopes = RANDOM.normal(size=5).astype(np.float32)
    source.sizes.set_neuron_to_prelu(with_parameters_a=slopes)
    want = np.where(y < 0, slopes[:, None, None] * y, y)
    np.testing.assert_allclose(forward(device, source, x), want, rtol=1e-7)
    with pytest.raises(ValueError, match="5 elements but got 3"):
        source.sizes.set_neuron_to_prelu(with_parameters_a=slopes[:3])
    assert mps.MPSCNNConvolution(device=device, weights=source).neuron.data == list(slopes)
    source.sizes.set_neuron_type("relu", parameter_a=0.25, parameter_b=0.5)
    assert source.sizes.neuron_type() == mps.MPSCNNNeuronType.RELU
    assert (source.sizes.neuron_parameter_a(), source.sizes.neuron_parameter_b()) == (0.25, 0.5)
    kernel = mps.MPSCNNConvolution(device=device, weights=source)
    assert kernel.neuron_type == mps.MPSCNNNeuronType.RELU
    assert (kernel.neuron_parameter_a, kernel.neuron_parameter_b) == (0.25, 0.5)
    assert kernel.neuron_parameter_c == 1
    np.testing.assert_allclose(forward(device, source, x), np.where(y < 0, y / 4, y), rtol=1e-12)
    d = mps.MPSCNNConvolutionDescriptor.cnn_convolution_descriptor(
        with_kernel_width=1, kernel_height=1, input_feature_channels=1, output_feature_channels=1,
        neuron_filter=kernel.neuron,
    )  # fmt: skip
    assert d.neuron_type() == mps.MPSCNNNeuronType.RELU
    assert (
        mps.MPSCNNConvolution(device=device, weights=Weights(np.ones((1, 1, 1, 1)))).neuron is None
    )


def test_another_source_of_weights():
    device, x = on(), RANDOM.normal(size=(1, 3, 4, 4)).astype(np.float32)
    arrays = [RANDOM.normal(size=(5, 2, 3, 3)).astype(np.float32) for _ in range(2)]
    first, second = (Weights(one) for one in arrays)
    kernel = mps.MPSCNNConvolution(device=device, weights=first)
    kernel.reload_weights_and_biases(with_data_source=second)
    assert kernel.data_source is second
    np.testing.assert_array_equal(forward(device, None, x, kernel), forward(device, second, x))
    for bad in (arrays[0][:4], arrays[0].astype(np.float64)):
        with pytest.raises(ValueError, match=r"float32 weights \(5, 2, 3, 3\) but got"):
            kernel.reload_weights_and_biases(with_data_source=Weights(bad))
    np.testing.assert_array_equal(forward(device, None, x, kernel), forward(device, second, x))


def test_another_source_of_a_batch_normalization():
    device, x = on(), RANDOM.normal(size=(1, 3, 4, 4)).astype(np.float32)
    first, second = Normalization(np.ones(3), np.zeros(3)), Normalization(GAMMA, BETA)
    kernel = mps.MPSCNNBatchNormalization(device=device, data_source=first)
    second.mean = second.variance = lambda: np.arange(1, 4, dtype=np.float32)
    kernel.reload_data_source(second)
    numbers = np.arange(1, 4)[:, None, None]
    want = (x - numbers) / np.sqrt(numbers + 1e-3) * GAMMA[:, None, None] + BETA[:, None, None]
    np.testing.assert_allclose(forward(device, None, x, kernel), want, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="3 channels but got 2"):
        kernel.reload_data_source(Normalization(np.ones(2), np.zeros(2)))


# --- states --------------------------------------------------------------------------------------


def test_temporary_states_are_written_and_read_on_their_buffer():
    device, x = on(), RANDOM.normal(size=(1, 3, 4, 4)).astype(np.float32)
    source = Weights(np.zeros((5, 2, 3, 3), np.float32), np.zeros(5, np.float32))
    other = Weights(RANDOM.normal(size=(5, 2, 3, 3)).astype(np.float32), np.ones(5, np.float32))
    kernel, full = (mps.MPSCNNConvolution(device=device, weights=one) for one in (source, other))
    given = full.export_weights_and_biases(buffer := commands(device))
    states = mps.MPSCNNConvolutionWeightsAndBiasesState
    temporary = states.temporary_cnn_convolution_weights_and_biases_state(
        buffer, cnn_convolution_descriptor=source.sizes
    )
    assert (temporary.is_temporary, temporary.read_count) == (True, 1)
    states, zeros = [], empty(device, (1, 5, 4, 4), "float32")
    full.encode_batch(buffer, source_images=batch(device, x), destination_states=states,
                      destination_state_is_temporary=False)  # fmt: skip
    gradient = mps.MPSCNNConvolutionGradient(device=device, weights=other)
    gradient.encode_batch(buffer, source_gradients=zeros, source_images=batch(device, x),
                          gradient_states=states)  # fmt: skip
    mps.MPSNNOptimizerStochasticGradientDescent(device=device, learning_rate=1.0).encode(
        buffer, convolution_gradient_state=states[0], convolution_source_state=given,
        result_state=temporary,
    )  # fmt: skip
    kernel.reload_weights_and_biases(buffer, state=temporary)
    with pytest.raises(ValueError, match="temporary one of another"):
        kernel.reload_weights_and_biases(commands(device), state=temporary)
    run(buffer)
    np.testing.assert_allclose(
        forward(device, None, x, kernel), forward(device, other, x), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize(
    ("cls", "names"),
    [(mps.MPSCNNNormalizationGammaAndBetaState, ("gamma", "beta")),
     (mps.MPSCNNNormalizationMeanAndVarianceState, ("mean", "variance"))],
)  # fmt: skip
def test_temporary_states_of_channels(cls, names):
    device = on()
    buffer = commands(device)
    state = cls.temporary_state(buffer, number_of_feature_channels=3)
    assert (state.is_temporary, state.read_count) == (True, 1)
    assert [getattr(state, name).length for name in names] == [12, 12]
    kernel = mps.MPSCNNBatchNormalization(device=device, data_source=Normalization(GAMMA, BETA))
    reload = getattr(kernel, f"reload_{names[0]}_and_{names[1]}")
    argument = f"{names[0]}_and_{names[1]}_state"
    with pytest.raises(ValueError, match="that an earlier encoding has written"):
        reload(buffer, **{argument: state})
    with pytest.raises(ValueError, match="1 channel or more but got 0"):
        cls.temporary_state(buffer, number_of_feature_channels=0)


@pytest.mark.parametrize("reads", [1, 2])
@pytest.mark.parametrize("biased", [True, False])
def test_optimizers_read_temporary_gradients_of_convolutions(biased, reads):
    device, x = on(), RANDOM.normal(size=(1, 3, 4, 4)).astype(np.float32)
    biases = np.ones(5, np.float32) if biased else None
    source = Weights(RANDOM.normal(size=(5, 2, 3, 3)).astype(np.float32), biases)
    kernel = mps.MPSCNNConvolution(device=device, weights=source)
    gradient = mps.MPSCNNConvolutionGradient(device=device, weights=source)
    optimizer = mps.MPSNNOptimizerStochasticGradientDescent(device=device, learning_rate=0.1)
    buffer, states = commands(device), []
    results = kernel.encode_batch(buffer, source_images=batch(device, x), destination_states=states,
                                  destination_state_is_temporary=True)  # fmt: skip
    (state,) = states
    state.read_count = 1 + reads
    gradient.encode_batch(buffer, source_gradients=results, source_images=batch(device, x),
                          gradient_states=states)  # fmt: skip
    values = [kernel.export_weights_and_biases(buffer) for _ in range(2)]
    for left in reversed(range(reads)):
        assert state.read_count == left + 1
        optimizer.encode(buffer, convolution_gradient_state=state,
                         convolution_source_state=values[0], result_state=values[1])  # fmt: skip
    assert state.read_count == 0
    with pytest.raises(ValueError, match="read count"):
        optimizer.encode(buffer, convolution_gradient_state=state,
                         convolution_source_state=values[0], result_state=values[1])  # fmt: skip
    run(buffer)


def test_lists_for_new_states():
    """The list gets what the form without one returns beside the images."""
    device, x = on(), RANDOM.normal(size=(2, 4, 2, 2)).astype(np.float32)
    images, buffer, states = batch(device, x), commands(device), []
    neuron = scale(device, 2)
    assert not neuron.is_backwards
    one = neuron.encode(
        buffer, source_image=images[0], destination_state=states,
        destination_state_is_temporary=False,
    )  # fmt: skip
    assert isinstance(one, mps.MPSTemporaryImage)
    results = neuron.encode_batch(
        buffer, source_images=images, destination_states=states,
        destination_state_is_temporary=True,
    )  # fmt: skip
    assert len(results) == 2
    assert [state.is_temporary for state in states] == [False, True, True]
    gradient = mps.MPSCNNNeuronGradient(
        device=device,
        neuron_descriptor=mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(
            with_type="linear", a=2.0, b=0.0
        ),
    )
    assert gradient.is_backwards
    out = empty(device, x.shape, "float32")
    gradient.encode_batch(buffer, source_gradients=results, source_images=images,
                          gradient_states=states[1:], destination_gradients=out)  # fmt: skip
    run(buffer)
    np.testing.assert_array_equal(array(out), 4 * x)
    with pytest.raises(TypeError, match="destination_state"):
        neuron.encode(
            commands(device), source_image=images[0], destination_state=(),
            destination_state_is_temporary=False,
        )  # fmt: skip


def test_lists_for_new_states_of_other_forms():
    device, x = on(), RANDOM.normal(size=(2, 4, 2, 2)).astype(np.float32)
    images, buffer, states = batch(device, x), commands(device), []
    flag = {"destination_state_is_temporary": False}
    add = mps.MPSCNNAdd(device=device)
    assert not add.is_backwards
    add.encode(buffer, primary_image=images[0], secondary_image=images[1],
               destination_state=states, **flag)  # fmt: skip
    add.encode_batch(buffer, primary_images=images, secondary_images=images,
                     destination_states=states, **flag)  # fmt: skip
    reshape = mps.MPSNNReshape(device=device)
    size = {"reshaped_width": 4, "reshaped_height": 4, "reshaped_feature_channels": 1}
    reshape.encode(buffer, source_image=images[0], destination_state=states, **flag, **size)
    flat = reshape.encode_batch(buffer, source_images=images, destination_states=states, **flag,
                                **size)  # fmt: skip
    assert flat[0].width == 4
    convolution = mps.MPSCNNConvolution(
        device=device, weights=Weights(np.ones((3, 1, 1, 4), np.float32))
    )
    chained = []
    result = convolution.encode(buffer, source_image=images[0], destination_state=chained, **flag)
    transpose = mps.MPSCNNConvolutionTranspose(
        device=device, weights=Weights(np.ones((4, 1, 1, 3), np.float32))
    )
    back = transpose.encode(
        buffer, source_image=result, convolution_gradient_state=chained[0],
        destination_state=states, **flag,
    )  # fmt: skip
    assert back.feature_channels == 4
    loss = mps.MPSNNForwardLoss(
        device=device,
        loss_descriptor=mps.MPSCNNLossDescriptor.cnn_loss_descriptor(
            with_type="mean_squared_error", reduction_type="sum"
        ),
    )
    values = loss.encode_batch(buffer, source_images=images, labels=batch(device, 0 * x),
                               destination_states=states, **flag)  # fmt: skip
    assert len(values) == 2
    assert len(states) == 1 + 2 + 1 + 2 + 1 + 2
    run(buffer)


def test_convolutions_of_arrays():
    """The deprecated form: what was given may change afterwards."""
    device, x = on(), RANDOM.normal(size=(1, 3, 4, 4)).astype(np.float32)
    source = Weights(RANDOM.normal(size=(5, 2, 3, 3)).astype(np.float32), np.ones(5, np.float32))
    want = forward(device, source, x)
    given, sizes = source.array.copy(), source.sizes.copy()
    kernel = mps.MPSCNNConvolution(
        device=device, convolution_descriptor=sizes, kernel_weights=given, bias_terms=source.biases,
        flags=0,
    )  # fmt: skip
    given[:] = 0
    sizes.output_feature_channels = 7
    kernel.reload_weights_and_biases_from_data_source()
    np.testing.assert_array_equal(forward(device, None, x, kernel), want)
    again = unarchived(kernel, archived(kernel), device)
    np.testing.assert_array_equal(forward(device, None, x, again), want)
    bare = {"device": device, "convolution_descriptor": source.sizes, "bias_terms": None}
    plain = mps.MPSCNNFullyConnected(kernel_weights=source.array, **bare)
    assert plain.data_source.bias_terms() is None
    with pytest.raises(ValueError, match="flags of 0"):
        mps.MPSCNNConvolution(kernel_weights=source.array, flags=1, **bare)
    with pytest.raises(ValueError, match="90 elements but got 9"):
        mps.MPSCNNConvolution(kernel_weights=np.ones(9), **bare)
