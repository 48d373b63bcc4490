"""Who reads a temporary state of weights, gamma or beta takes one of its readings."""

import numpy as np
import pytest
from kernels import Weights, array, batch, commands, empty, run

from traingraph import mps

DEVICES = pytest.mark.parametrize("device", ["cpu", "reference"])


class Pass:
    """Forward and gradient of a convolution and a batch norm behind it, all on one buffer."""

    def __init__(self, device):
        on = self.on = mps.MTLDevice(device=device)
        numbers = np.random.default_rng(0)
        source = Weights(numbers.normal(size=(3, 1, 1, 2)).astype(np.float32))
        self.convolution = mps.MPSCNNConvolution(device=on, weights=source)
        self.gradient = mps.MPSCNNConvolutionGradient(device=on, weights=source)
        self.buffer = commands(on)
        x = batch(on, numbers.normal(size=(1, 2, 2, 2)).astype(np.float32))
        y = empty(on, (1, 3, 2, 2), "float32")
        self.states = self.convolution.result_state_batch(for_source_image=x)
        self.convolution.encode_batch(self.buffer, source_images=x, destination_images=y,
                                      destination_states=self.states)  # fmt: skip
        self.gradient.makes_temporary_images = False
        self.gradient.encode_batch(self.buffer, source_gradients=y, source_images=x,
                                   gradient_states=self.states)  # fmt: skip
        self.x, self.y = x, y
        self.optimizer = mps.MPSNNOptimizerStochasticGradientDescent(
            device=on, momentum_scale=0.0, use_nesterov_momentum=False,
            optimizer_descriptor=mps.MPSNNOptimizerDescriptor(learning_rate=0.1))  # fmt: skip

    def held(self, value):
        weights = mps.MTLBuffer(device=self.on, bytes=np.full(6, value, np.float32).tobytes())
        biases = mps.MTLBuffer(device=self.on, bytes=np.full(3, value, np.float32).tobytes())
        return mps.MPSCNNConvolutionWeightsAndBiasesState(weights=weights, biases=biases)

    def temporary(self):
        make = mps.MPSCNNConvolutionWeightsAndBiasesState
        return make.temporary_cnn_convolution_weights_and_biases_state(
            self.buffer, cnn_convolution_descriptor=Weights(np.ones((3, 1, 1, 2), "f4")).sizes
        )

    def update(self, source, result):
        self.optimizer.encode(
            self.buffer, convolution_gradient_state=self.states[0],
            convolution_source_state=source, result_state=result)  # fmt: skip


@DEVICES
def test_an_optimizer_reads_its_source(device):
    one = Pass(device)
    middle, last, before = one.temporary(), one.held(0), one.held(1)
    one.update(before, middle)
    assert middle.read_count == 1  # written, and not read yet
    middle.read_count = 2
    one.update(middle, last)
    assert middle.read_count == 1
    one.update(middle, last)
    assert middle.read_count == 0
    with pytest.raises(ValueError, match="read count above 0 of MPSCNNConvolutionWeights"):
        one.update(middle, last)
    run(one.buffer)
    gradient = np.asarray(one.states[0].gradient_for_weights).ravel()
    np.testing.assert_allclose(np.asarray(last.weights).view(np.float32).ravel(),
                               1 - 0.2 * gradient, rtol=1e-4, atol=1e-6)  # fmt: skip


@DEVICES
@pytest.mark.parametrize("which", ["convolution", "gradient"])
def test_a_reload_of_weights_reads_its_state(device, which):
    one = Pass(device)
    state = one.temporary()
    one.update(one.held(1), state)
    kernel = getattr(one, which)
    kernel.reload_weights_and_biases(one.buffer, state=state)
    assert state.read_count == 0
    with pytest.raises(ValueError, match="read count above 0 of MPSCNNConvolutionWeights"):
        kernel.reload_weights_and_biases(one.buffer, state=state)
    run(one.buffer)


class Numbers(mps.MPSCNNBatchNormalizationDataSource):
    def number_of_feature_channels(self):
        return 3

    def gamma(self):
        return np.ones(3, np.float32)

    def beta(self):
        return np.zeros(3, np.float32)

    mean = beta
    variance = gamma

    def load(self):
        return True

    def purge(self):
        pass


@DEVICES
def test_a_reload_of_gamma_and_beta_reads_its_state(device):
    one = Pass(device)
    norm = mps.MPSCNNBatchNormalization(device=one.on, data_source=Numbers())
    batch_state = norm.result_state_batch(for_source_image=one.y)[0]
    statistics = mps.MPSCNNBatchNormalizationStatistics(device=one.on)
    statistics.encode_batch(one.buffer, source_images=one.y, batch_normalization_state=batch_state)
    gradient = mps.MPSCNNBatchNormalizationStatisticsGradient(device=one.on)
    gradient.encode_batch(one.buffer, source_gradients=one.y, source_images=one.y,
                          batch_normalization_state=batch_state)  # fmt: skip
    make = mps.MPSCNNNormalizationGammaAndBetaState
    state = make.temporary_state(one.buffer, number_of_feature_channels=3)
    one.optimizer.encode(one.buffer, batch_normalization_state=batch_state, result_state=state)
    assert state.read_count == 1
    norm.reload_gamma_and_beta(one.buffer, gamma_and_beta_state=state)
    assert state.read_count == 0
    with pytest.raises(ValueError, match="read count above 0 of MPSCNNNormalizationGammaAndBeta"):
        norm.reload_gamma_and_beta(one.buffer, gamma_and_beta_state=state)
    run(one.buffer)
    assert np.isfinite(array(one.y)).all()
