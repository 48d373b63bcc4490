"""One network by ML Compute's layers and by kernels encoded by hand: the same losses."""

import numpy as np
import pytest
from kernels import Normalization, Weights, array, batch, commands, empty, vector

import traingraph as tg
from traingraph import mps

N, STEPS, EPSILON = 8, 30, 1e-3


class Start:
    """Weights, data and labels that both begin from."""

    def __init__(self):
        random = np.random.default_rng(0)

        def normal(*shape):
            return (random.normal(size=shape) * 0.3).astype(np.float32)

        self.conv, self.conv_bias = normal(4, 2, 3, 3), normal(4)
        self.gamma, self.beta = 1 + normal(4), normal(4)
        self.full, self.full_bias = normal(3, 4, 4, 4), normal(3)
        self.x = [normal(N, 2, 8, 8) for _ in range(4)]
        self.y = [np.eye(3, dtype=np.float32)[random.integers(0, 3, N)] for _ in range(4)]


def ml_compute(kind, device):
    start = Start()

    def tensor(a, *shape):
        return tg.MLCTensor(shape=shape, data=a.reshape(shape).copy(), data_type="float32")

    x = tg.MLCTensor(shape=[N, 2, 8, 8], data_type="float32")
    y = tg.MLCTensor(shape=[N, 3], data_type="float32")
    graph = tg.MLCGraph()
    conv = tg.MLCConvolutionLayer(
        weights=tensor(start.conv, 1, 8, 3, 3), biases=tensor(start.conv_bias, 1, 4, 1, 1),
        descriptor=tg.MLCConvolutionDescriptor(
            kernel_sizes=(3, 3), input_feature_channel_count=2, output_feature_channel_count=4,
            strides=(1, 1), padding_policy="same"),
    )  # fmt: skip
    norm = tg.MLCBatchNormalizationLayer(
        feature_channel_count=4, mean=tensor(np.zeros(4, np.float32), 1, 4, 1, 1),
        variance=tensor(np.ones(4, np.float32), 1, 4, 1, 1), beta=tensor(start.beta, 1, 4, 1, 1),
        gamma=tensor(start.gamma, 1, 4, 1, 1), variance_epsilon=EPSILON,
    )  # fmt: skip
    pool = tg.MLCPoolingLayer(descriptor=tg.MLCPoolingDescriptor(
        type="max", kernel_sizes=(2, 2), strides=(2, 2), padding_policy="valid"))  # fmt: skip
    full = tg.MLCFullyConnectedLayer(
        weights=tensor(start.full, 1, 3 * 64, 1, 1), biases=tensor(start.full_bias, 1, 3, 1, 1),
        descriptor=tg.MLCConvolutionDescriptor(
            kernel_sizes=(1, 1), input_feature_channel_count=64, output_feature_channel_count=3),
    )  # fmt: skip
    t = x
    for layer in (conv, norm, tg.MLCActivationLayer.leaky_relu(negative_slope=0.1), pool,
                  tg.MLCReshapeLayer(shape=[N, 64]), full):  # fmt: skip
        t = graph.node(layer, source=t)
    descriptor = tg.MLCOptimizerDescriptor(learning_rate=0.05)
    optimizer = {
        "sgd": lambda: tg.MLCSGDOptimizer(descriptor=descriptor),
        "adam": lambda: tg.MLCAdamOptimizer(descriptor=descriptor),
    }[kind]()
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.softmax_cross_entropy(reduction_type="mean"),
        optimizer=optimizer,
    )
    training.add_inputs({"x": x}, loss_labels={"y": y})
    training.compile(options=tg.MLCGraphCompilationOptions.NONE, device=device)
    return [
        float(training.execute(
            inputs_data={"x": start.x[k % 4]}, loss_labels_data={"y": start.y[k % 4]},
            batch_size=N, options=tg.MLCExecutionOptions.SYNCHRONOUS).result)
        for k in range(STEPS)
    ]  # fmt: skip


class Trained:
    """A kernel with its gradient kernel, the weights that are updated, and their own vectors."""

    def __init__(self, on, kind, source, slots):
        self.forward = getattr(mps, kind)(device=on, weights=source)
        self.gradient = getattr(mps, f"{kind}Gradient")(device=on, weights=source)
        arrays = (source.weights(), source.bias_terms())
        weights, biases = (mps.MTLBuffer(device=on, bytes=a.tobytes()) for a in arrays)
        self.state = mps.MPSCNNConvolutionWeightsAndBiasesState(weights=weights, biases=biases)
        self.slots = {
            f"{name}_vectors": [vector(on, np.zeros(a.size)) for a in arrays] for name in slots
        }

    def update(self, buffer, optimizer, gradients):
        optimizer.encode(
            buffer, convolution_gradient_state=gradients, convolution_source_state=self.state,
            result_state=self.state, **self.slots,
        )  # fmt: skip
        for kernel in (self.forward, self.gradient):
            kernel.reload_weights_and_biases(buffer, state=self.state)


class ByHand:
    def __init__(self, kind, device):
        start = self.start = Start()
        on = self.on = mps.MTLDevice(device=device)
        slots = {"sgd": [], "adam": ["input_momentum", "input_velocity"]}[kind]
        d = mps.MPSNNOptimizerDescriptor(learning_rate=0.05)
        # One optimizer per layer: each encoding of Adam counts as a step.
        self.optimizers = [
            mps.MPSNNOptimizerAdam(device=on, beta1=0.9, beta2=0.999, epsilon=1e-8, time_step=0,
                                   optimizer_descriptor=d)
            if kind == "adam"
            else mps.MPSNNOptimizerStochasticGradientDescent(
                device=on, momentum_scale=0.0, use_nesterov_momentum=False, optimizer_descriptor=d)
            for _ in range(3)
        ]  # fmt: skip
        conv = Weights(np.ascontiguousarray(start.conv.transpose(0, 2, 3, 1)), start.conv_bias)
        full = Weights(np.ascontiguousarray(start.full.transpose(0, 2, 3, 1)), start.full_bias)
        self.conv = Trained(on, "MPSCNNConvolution", conv, slots)
        self.full = Trained(on, "MPSCNNFullyConnected", full, slots)
        self.norm = mps.MPSCNNBatchNormalization(
            device=on, data_source=Normalization(start.gamma, start.beta, EPSILON)
        )
        gamma, beta = (
            mps.MTLBuffer(device=on, bytes=a.tobytes()) for a in (start.gamma, start.beta)
        )
        self.norm_state = mps.MPSCNNNormalizationGammaAndBetaState(gamma=gamma, beta=beta)
        self.norm_slots = {
            f"{name}_vectors": [vector(on, np.zeros(4)) for _ in range(2)] for name in slots
        }
        self.statistics = mps.MPSCNNBatchNormalizationStatistics(device=on)
        self.statistics_gradient = mps.MPSCNNBatchNormalizationStatisticsGradient(device=on)
        self.norm_gradient = mps.MPSCNNBatchNormalizationGradient(device=on)
        leaky = mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(with_type="relu", a=0.1)
        self.neuron = mps.MPSCNNNeuron(device=on, neuron_descriptor=leaky)
        self.neuron_gradient = mps.MPSCNNNeuronGradient(device=on, neuron_descriptor=leaky)
        window = {"device": on, "kernel_width": 2, "kernel_height": 2,
                  "stride_in_pixels_x": 2, "stride_in_pixels_y": 2}  # fmt: skip
        self.pool = mps.MPSCNNPoolingMax(**window)
        self.pool.padding = "size_valid_only"
        self.pool_gradient = mps.MPSCNNPoolingMaxGradient(**window)
        d = mps.MPSCNNLossDescriptor.cnn_loss_descriptor(
            with_type="soft_max_cross_entropy", reduction_type="mean"
        )
        d.reduce_across_batch = True
        self.loss = mps.MPSCNNLoss(device=on, loss_descriptor=d)
        self.losses = empty(on, (N, 1, 1, 1), "float32")

    def step(self, x, y):
        on, buffer = self.on, commands(self.on)

        def encode(kernel, sources):
            images, states = kernel.encode_batch(
                buffer, source_images=sources, destination_state_is_temporary=False
            )
            for image in images:  # read again by the gradient kernel behind
                image.read_count = 2
            return images, states

        source = batch(on, x)
        convolved, conv_states = encode(self.conv.forward, source)
        for image in convolved:
            image.read_count = 4
        norm_state = self.norm.result_state_batch(for_source_image=convolved)[0]
        self.statistics.encode_batch(buffer, source_images=convolved,
                                     batch_normalization_state=norm_state)  # fmt: skip
        d = mps.MPSImageDescriptor.image_descriptor(
            with_channel_format="float32", width=8, height=8, feature_channels=4,
            number_of_images=N)  # fmt: skip
        whole = mps.MPSTemporaryImage.temporary_image(buffer, image_descriptor=d)
        normal = whole.batch_representation()
        for image in normal:
            image.read_count = 2
        self.norm.encode_batch(buffer, source_images=convolved, destination_images=normal,
                               batch_normalization_state=norm_state)  # fmt: skip
        active, neuron_states = encode(self.neuron, normal)
        pooled, pool_states = encode(self.pool, active)
        scores, full_states = encode(self.full.forward, pooled)
        labels = [
            mps.MPSCNNLossLabels(loss_image=a, labels_image=b)
            for a, b in zip(self.losses, batch(on, y.reshape(N, 3, 1, 1)), strict=True)
        ]
        g = self.loss.encode_batch(buffer, source_images=scores, labels=labels)
        g = self.full.gradient.encode_batch(
            buffer, source_gradients=g, source_images=pooled, gradient_states=full_states
        )
        g = self.pool_gradient.encode_batch(
            buffer, source_gradients=g, source_images=active, gradient_states=pool_states
        )
        g = self.neuron_gradient.encode_batch(
            buffer, source_gradients=g, source_images=normal, gradient_states=neuron_states
        )
        for image in g:
            image.read_count = 2
        arguments = {"source_gradients": g, "source_images": convolved,
                     "batch_normalization_state": norm_state}  # fmt: skip
        self.statistics_gradient.encode_batch(buffer, **arguments)
        g = self.norm_gradient.encode_batch(buffer, **arguments)
        self.conv.gradient.encode_batch(
            buffer, source_gradients=g, source_images=source, gradient_states=conv_states
        )
        self.conv.update(buffer, self.optimizers[0], conv_states[0])
        self.optimizers[1].encode(buffer, batch_normalization_state=norm_state,
                                  result_state=self.norm_state, **self.norm_slots)  # fmt: skip
        self.norm.reload_gamma_and_beta(buffer, gamma_and_beta_state=self.norm_state)
        self.full.update(buffer, self.optimizers[2], full_states[0])
        buffer.commit()
        buffer.wait_until_completed()
        assert array(self.losses)[1:].sum() == 0
        return float(array(self.losses)[0, 0, 0, 0])

    def run(self):
        return [self.step(self.start.x[k % 4], self.start.y[k % 4]) for k in range(STEPS)]


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_the_same_losses(kind, device):
    expected = ml_compute(kind, device)
    by_hand = ByHand(kind, device)
    losses = by_hand.run()
    assert expected[-1] < expected[0] / 2
    np.testing.assert_allclose(losses, expected, rtol=0, atol=1e-5)


def test_steps_after_the_first_compile_nothing():
    by_hand = ByHand("adam", "cpu")
    by_hand.step(by_hand.start.x[0], by_hand.start.y[0])
    before = by_hand.on.compilations
    for _ in range(3):
        by_hand.step(by_hand.start.x[1], by_hand.start.y[1])
    assert by_hand.on.compilations == before
