"""Networks of nodes: gradients, training graphs, updates, and what is refused."""

import numpy as np
import pytest
from kernels import Normalization, Weights, array, batch, commands, empty, run, vector
from test_agreement import STEPS, N, Start, ml_compute

from traingraph import InvalidArgument, ShapeError, Unsupported, mps


class Updated:
    """The device's update of a data source: its own optimizer, and vectors for its slots."""

    def train(self, on, kind, sizes):
        d = mps.MPSNNOptimizerDescriptor(learning_rate=0.05)
        slots = {"sgd": [], "adam": ["input_momentum", "input_velocity"]}[kind]
        self.slots = {f"{name}_vectors": [vector(on, np.zeros(n)) for n in sizes] for name in slots}
        self.optimizer = (
            mps.MPSNNOptimizerAdam(device=on, beta1=0.9, beta2=0.999, epsilon=1e-8, time_step=0,
                                   optimizer_descriptor=d)
            if kind == "adam"
            else mps.MPSNNOptimizerStochasticGradientDescent(
                device=on, momentum_scale=0.0, use_nesterov_momentum=False, optimizer_descriptor=d)
        )  # fmt: skip
        return self


class TrainedWeights(Weights, Updated):
    def update(self, command_buffer, gradient_state, source_state):
        self.state = source_state
        self.optimizer.encode(
            command_buffer, convolution_gradient_state=gradient_state,
            convolution_source_state=source_state, result_state=source_state, **self.slots,
        )  # fmt: skip
        return source_state


class TrainedNormalization(Normalization, Updated):
    def train(self, on, kind, sizes):
        gamma, beta = (
            mps.MTLBuffer(device=on, bytes=a.astype(np.float32).tobytes()) for a in self.arrays
        )
        self.state = mps.MPSCNNNormalizationGammaAndBetaState(gamma=gamma, beta=beta)
        return super().train(on, kind, sizes)

    def update_gamma_and_beta(self, command_buffer, batch_normalization_state):
        self.optimizer.encode(
            command_buffer, batch_normalization_state=batch_normalization_state,
            result_state=self.state, **self.slots,
        )  # fmt: skip
        return self.state


def loss_descriptor(kind="soft_max_cross_entropy", reduction="mean"):
    d = mps.MPSCNNLossDescriptor.cnn_loss_descriptor(with_type=kind, reduction_type=reduction)
    d.reduce_across_batch = True
    return d


class Network:
    """The network of test_agreement.py."""

    def __init__(self, kind, device):
        start = self.start = Start()
        on = self.on = mps.MTLDevice(device=device)
        conv = TrainedWeights(np.ascontiguousarray(start.conv.transpose(0, 2, 3, 1)),
                              start.conv_bias, name="conv").train(on, kind, [72, 4])  # fmt: skip
        full = TrainedWeights(np.ascontiguousarray(start.full.transpose(0, 2, 3, 1)),
                              start.full_bias, name="full").train(on, kind, [192, 3])  # fmt: skip
        norm = TrainedNormalization(start.gamma, start.beta, 1e-3).train(on, kind, [4, 4])
        node = mps.MPSCNNConvolutionNode(source=mps.MPSNNImageNode(handle="x"), weights=conv)
        node = mps.MPSCNNBatchNormalizationNode(source=node.result_image, data_source=norm)
        node = mps.MPSCNNNeuronReLUNode(source=node.result_image, a=0.1)
        node = mps.MPSCNNPoolingMaxNode(source=node.result_image, filter_size=2)
        node.padding_policy = "size_valid_only"
        node = mps.MPSCNNFullyConnectedNode(source=node.result_image, weights=full)
        loss = mps.MPSCNNLossNode(source=node.result_image, loss_descriptor=loss_descriptor())
        (last,) = loss.training_graph()
        self.graph = mps.MPSNNGraph(
            device=on, result_image=last.result_image, result_image_is_needed=False
        )
        self.losses = empty(on, (N, 1, 1, 1), "float32")

    def step(self, x, y):
        buffer = commands(self.on)
        labels = [
            mps.MPSCNNLossLabels(loss_image=a, labels_image=b)
            for a, b in zip(self.losses, batch(self.on, y.reshape(N, 3, 1, 1)), strict=True)
        ]
        result = self.graph.encode_batch(
            buffer, source_images=[batch(self.on, x)], source_states=[labels]
        )
        assert result is None
        run(buffer)
        return float(array(self.losses)[0, 0, 0, 0])


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_the_same_losses_as_ml_compute(kind, device):
    network = Network(kind, device)
    start = network.start
    losses = [network.step(start.x[k % 4], start.y[k % 4]) for k in range(STEPS)]
    np.testing.assert_allclose(losses, ml_compute(kind, device), rtol=0, atol=1e-5)
    assert losses[-1] < losses[0] / 2


def test_later_encodings_compile_nothing():
    network = Network("adam", "cpu")
    network.step(network.start.x[0], network.start.y[0])
    before = network.on.compilations
    for k in range(3):
        network.step(network.start.x[k], network.start.y[k])
    assert network.on.compilations == before


def residual(on, weights, x, gradient):
    """dx of tanh(conv(x)) + x, and the result."""
    source = mps.MPSNNImageNode(handle="x")
    conv = mps.MPSCNNConvolutionNode(source=source, weights=weights)
    tanh = mps.MPSCNNNeuronTanHNode(source=conv.result_image)
    both = mps.MPSNNAdditionNode(left_source=tanh.result_image, right_source=source)
    both.result_image.export_from_graph = True
    both.result_image.makes_temporary_images = False
    seed = mps.MPSNNImageNode(handle="dy")
    terminal = both.training_graph(with_source_gradient=seed)
    assert [type(node) for node in terminal] == [mps.MPSNNAdditionNode]
    assert terminal[0].result_image.handle == "x"
    graph = mps.MPSNNGraph(
        device=on, result_images=[terminal[0].result_image, both.result_image],
        results_are_needed=[True, False],
    )  # fmt: skip
    graph.format = "float64"
    graph.makes_temporary_images = False
    given = {"x": x, "dy": gradient}
    buffer, results = commands(on), []
    dx = graph.encode_batch(
        buffer, source_images=[batch(on, given[name]) for name in graph.source_image_handles],
        intermediate_images=results,
    )  # fmt: skip
    run(buffer)
    return array(dx), array(results[0])


def test_images_with_several_readers_against_differences():
    random = np.random.default_rng(1)
    on = mps.MTLDevice(device="reference")
    weights = Weights(random.normal(size=(2, 3, 3, 2)) * 0.5)
    x, dy = random.normal(size=(2, 2, 2, 4, 3))
    dx, _ = residual(on, weights, x, dy)
    expected = np.zeros_like(x)
    for k in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[k] = 1e-5
        up, down = (residual(on, weights, x + s, dy)[1] for s in (step, -step))
        expected[k] = ((up - down) * dy).sum() / 2e-5
    np.testing.assert_allclose(dx, expected, rtol=0, atol=1e-8)


MADE = [
    (mps.MPSCNNPoolingMaxNode, {"filter_size": 2}, mps.MPSCNNPoolingMaxGradientNode),
    (mps.MPSCNNPoolingAverageNode, {"filter_size": 2}, mps.MPSCNNPoolingAverageGradientNode),
    (mps.MPSCNNPoolingL2NormNode, {"filter_size": 2}, mps.MPSCNNPoolingL2NormGradientNode),
    (mps.MPSCNNDilatedPoolingMaxNode, {"filter_size": 2, "stride": 1, "dilation_rate": 2},
     mps.MPSCNNDilatedPoolingMaxGradientNode),
    (mps.MPSCNNSoftMaxNode, {}, mps.MPSCNNSoftMaxGradientNode),
    (mps.MPSCNNLogSoftMaxNode, {}, mps.MPSCNNLogSoftMaxGradientNode),
    (mps.MPSCNNNeuronSigmoidNode, {}, mps.MPSCNNNeuronGradientNode),
    (mps.MPSCNNNeuronELUNode, {"a": 0.5}, mps.MPSCNNNeuronGradientNode),
    (mps.MPSCNNNeuronPReLUNode, {"a_data": [0.1, 0.2, 0.3]}, mps.MPSCNNNeuronGradientNode),
    (mps.MPSCNNNeuronReLUNNode, {"a": 0.1, "b": 1.504}, mps.MPSCNNNeuronGradientNode),
    (mps.MPSCNNNeuronHardSigmoidNode, {}, mps.MPSCNNNeuronGradientNode),
    (mps.MPSCNNNeuronSoftPlusNode, {"b": 0.5}, mps.MPSCNNNeuronGradientNode),
    (mps.MPSCNNNeuronPowerNode, {"b": 4.0, "c": 1.5}, mps.MPSCNNNeuronGradientNode),
    (mps.MPSCNNNeuronExponentialNode, {}, mps.MPSCNNNeuronGradientNode),
    (mps.MPSCNNNeuronLogarithmNode, {"b": 4.0}, mps.MPSCNNNeuronGradientNode),
]  # fmt: skip


@pytest.mark.parametrize(("forward", "arguments", "gradient"), MADE)
def test_gradient_filters_against_differences(forward, arguments, gradient):
    random = np.random.default_rng(2)
    on = mps.MTLDevice(device="reference")
    source, seed = mps.MPSNNImageNode(handle="x"), mps.MPSNNImageNode(handle="dy")
    node = forward(source=source, **arguments)
    made = node.gradient_filter(with_source=seed)
    assert type(made) is gradient
    assert [type(n) for n in node.gradient_filters(with_sources=[seed])] == [gradient]

    def encode(result, *images):
        graph = mps.MPSNNGraph(device=on, result_image=result)
        graph.format, graph.makes_temporary_images = "float64", False
        given = dict(zip(("x", "dy"), images, strict=False))
        buffer = commands(on)
        made = graph.encode_batch(
            buffer, source_images=[batch(on, given[h]) for h in graph.source_image_handles]
        )
        run(buffer)
        return array(made)

    x = random.permutation(96).reshape(2, 3, 4, 4) / 20 - 2.41  # without ties and kinks
    dy = random.normal(size=encode(node.result_image, x).shape)
    expected = np.zeros_like(x)
    for k in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[k] = 1e-5
        up, down = (encode(node.result_image, x + s) for s in (step, -step))
        expected[k] = ((up - down) * dy).sum() / 2e-5
    np.testing.assert_allclose(encode(made.result_image, x, dy), expected, rtol=0, atol=1e-8)


class OnTheCPU(Weights):
    """y = w x; takes one step of gradient descent after each run, but not the second time."""

    calls = 0

    def update_with_gradient_state(self, gradient_state, source_state):
        self.calls += 1
        if self.calls == 3:
            raise ValueError("the third time")
        self.before = np.array(source_state.weights).ravel()
        self.array = self.array - 0.1 * np.asarray(gradient_state.gradient_for_weights).reshape(
            self.array.shape
        )
        return None if self.calls == 2 else True


def line(on, weights, style="update_device_gpu"):
    node = mps.MPSCNNConvolutionNode(source=mps.MPSNNImageNode(handle="x"), weights=weights)
    node.training_style = style
    loss = mps.MPSCNNLossNode(source=node.result_image,
                              loss_descriptor=loss_descriptor("mean_squared_error"))  # fmt: skip
    (last,) = loss.training_graph()
    assert last.training_style == node.training_style
    return mps.MPSNNGraph(device=on, result_image=last.result_image, result_image_is_needed=False)


def train(on, graph, x, y):
    losses = empty(on, (1, 1, 1, 1), "float32")
    labels = mps.MPSCNNLossLabels(
        loss_image=losses[0], labels_image=batch(on, np.full((1, 1, 1, 1), y, np.float32))[0]
    )
    buffer = commands(on)
    source = batch(on, np.full((1, 1, 1, 1), x, np.float32))[0]
    graph.encode(buffer, source_images=[source], source_states=[labels])
    run(buffer)
    return float(array(losses)[0, 0, 0, 0])


def test_updates_by_the_cpu():
    on = mps.MTLDevice(device="cpu")
    weights = OnTheCPU(np.ones((1, 1, 1, 1), np.float32))
    graph = line(on, weights, "update_device_cpu")
    # w = 1: (2 - 6)^2 = 16, gradient 2 (2 - 6) 2 = -16, w = 2.6.
    assert train(on, graph, 2, 6) == 16
    assert weights.before == 1
    assert train(on, graph, 2, 6) == pytest.approx((2 * 2.6 - 6) ** 2, abs=1e-5)
    # None: the graph goes on with 2.6, whatever the source has by now.
    assert weights.array.ravel()[0] != pytest.approx(2.6)
    assert train(on, graph, 2, 6) == pytest.approx((2 * 2.6 - 6) ** 2, abs=1e-5)
    with pytest.raises(ValueError, match="the third time"):
        train(on, graph, 2, 6)
    graph.reload_from_data_sources()
    weights.array[:] = 3
    graph.reload_from_data_sources()
    assert train(on, graph, 2, 6) == 0


class Given(Weights):
    """The device's update with a state of its own, or none."""

    state = None

    def update(self, command_buffer, gradient_state, source_state):
        return self.state


def test_row_16_updates_by_another_state_and_by_none():
    on = mps.MTLDevice(device="cpu")
    weights = Given(np.ones((1, 1, 1, 1), np.float32))
    graph = line(on, weights)
    assert [train(on, graph, 2, 6) for _ in range(2)] == [16, 16]
    weights.state = mps.MPSCNNConvolutionWeightsAndBiasesState(
        weights=mps.MTLBuffer(device=on, bytes=np.full(1, 3, np.float32).tobytes())
    )
    assert [train(on, graph, 2, 6) for _ in range(2)] == [16, 0]
    weights.state = 3
    with pytest.raises(TypeError, match=r"MPSCNNConvolutionDataSource.update.*int"):
        train(on, graph, 2, 6)
    weights.state = None
    assert train(on, graph, 2, 6) == 0


def test_a_graph_that_fails_leaves_the_buffer_as_it_was():
    """Behind what was encoded before, and before what is encoded then."""
    on = mps.MTLDevice(device="cpu")
    weights = Given(np.ones((1, 1, 1, 1), np.float32))
    graph = line(on, weights)
    buffer = commands(on)
    sources = [batch(on, np.full((1, 1, 1, 1), x, np.float32))[0] for x in (2, 3, 4)]
    losses = empty(on, (3, 1, 1, 1), "float32")
    truth = batch(on, np.full((1, 1, 1, 1), 6, np.float32))[0]
    for k, state in enumerate([None, 3, None]):
        weights.state = state
        labels = mps.MPSCNNLossLabels(loss_image=losses[k], labels_image=truth)
        if state is None:
            graph.encode(buffer, source_images=[sources[k]], source_states=[labels])
            continue
        with pytest.raises(TypeError, match=r"MPSCNNConvolutionDataSource.update"):
            graph.encode(buffer, source_images=[sources[k]], source_states=[labels])
    run(buffer)
    assert array(losses).ravel().tolist() == [16, 0, 4]


def test_style_none_and_stopped_gradients():
    on = mps.MTLDevice(device="cpu")
    weights = OnTheCPU(np.ones((1, 1, 1, 1), np.float32))
    train(on, line(on, weights, "update_device_none"), 2, 6)
    assert weights.calls == 0
    first = mps.MPSCNNNeuronAbsoluteNode(source=mps.MPSNNImageNode())
    second = mps.MPSCNNNeuronTanHNode(source=first.result_image)
    first.result_image.stop_gradient = True
    seen = []
    (last,) = second.training_graph(node_handler=lambda *nodes: seen.append(nodes))
    assert [nodes[0] for nodes in seen] == [last]
    assert seen[0][1] is second
    assert seen[0][2] is first.result_image
    assert seen[0][3] is second.result_image
    first.result_image.stop_gradient = False
    assert second.training_graph()[0] is not last


def test_bad_graphs_are_refused_by_name():
    on = mps.MTLDevice(device="cpu")
    source = mps.MPSNNImageNode(handle="pixels")
    pool = mps.MPSCNNPoolingMaxNode(source=source, filter_size=2)
    soft = mps.MPSCNNSoftMaxNode(source=pool.result_image)
    pool.label = "shrink"
    with pytest.raises(TypeError, match="MPSCNNSoftMaxNode"):
        mps.MPSCNNSoftMaxNode(source=None)
    with pytest.raises(InvalidArgument, match=r"image 'pixels', which no node makes"):
        mps.MPSNNGraph(device=on, result_image=source)
    with pytest.raises(InvalidArgument, match=r"MPSCNNSoftMaxNode.*MPSCNNPoolingMaxNode 'shrink'"):
        mps.MPSCNNSoftMaxGradientNode(
            source_gradient=source, source_image=source, gradient_state=pool.result_state
        )
    made = pool.gradient_filter(with_source=source)
    with pytest.raises(Unsupported, match="no gradients of gradient nodes"):
        made.gradient_filter(with_source=source)
    both = mps.MPSNNAdditionNode(left_source=source, right_source=source)
    with pytest.raises(InvalidArgument, match=r"MPSNNAdditionNode\].*gradient_filters"):
        both.gradient_filter(with_source=source)
    assert len(both.gradient_filters(with_source=source)) == 2
    loss = mps.MPSCNNLossNode(source=source, loss_descriptor=loss_descriptor())
    with pytest.raises(Unsupported, match="already the gradient"):
        loss.gradient_filter(with_source=source)
    with pytest.raises(InvalidArgument, match="nodes with gradients"):
        loss.training_graph()
    norm = mps.MPSCNNBatchNormalizationNode(
        source=source, data_source=Normalization(np.ones(1), np.ones(1))
    )
    norm.flags = "calculate_statistics_never"
    gradient = norm.gradient_filter(with_source=mps.MPSNNImageNode())
    with pytest.raises(InvalidArgument, match="CALCULATE_STATISTICS_NEVER"):
        mps.MPSNNGraph(device=on, result_image=gradient.result_image)

    graph = mps.MPSNNGraph(device=on, result_image=soft.result_image)
    x = batch(on, np.ones((1, 2, 4, 4), np.float32))
    other = mps.MTLDevice(device="reference")
    with pytest.raises(InvalidArgument, match=r"image 'pixels'.* but got 0"):
        graph.encode_batch(commands(on), source_images=[])
    with pytest.raises(InvalidArgument, match="no states"):
        graph.encode_batch(commands(on), source_images=[x], source_states=[[]])
    with pytest.raises(InvalidArgument, match="command buffer of device"):
        graph.encode_batch(commands(other), source_images=[x])
    with pytest.raises(InvalidArgument, match=r"image 'pixels' of device"):
        graph.encode_batch(
            commands(on), source_images=[batch(other, np.ones((1, 2, 4, 4), np.float32))]
        )
    graph.makes_temporary_images = False
    buffer = commands(on)
    result = graph.encode_batch(buffer, source_images=[x])
    full = mps.MPSCNNFullyConnectedNode(
        source=soft.result_image, weights=Weights(np.ones((1, 3, 3, 2), np.float32), name="wide")
    )
    broken = mps.MPSNNGraph(device=on, result_image=full.result_image)
    with pytest.raises(ShapeError, match=r"MPSCNNFullyConnected 'wide'"):
        broken.encode_batch(buffer, source_images=[x])
    run(buffer)  # as before the refused encoding
    np.testing.assert_allclose(array(result), 0.5)


def test_a_temporary_source_is_read_once():
    on = mps.MTLDevice(device="cpu")
    source = mps.MPSNNImageNode(handle="x")
    twice = mps.MPSNNAdditionNode(sources=[source, source])
    graph = mps.MPSNNGraph(device=on, result_image=twice.result_image)
    graph.makes_temporary_images = False
    buffer = commands(on)
    neuron = mps.MPSCNNNeuron(
        device=on,
        neuron_descriptor=mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(with_type="absolute"),
    )
    x = neuron.encode_batch(buffer, source_images=batch(on, np.full((1, 1, 1, 1), -2, np.float32)))
    result = graph.encode_batch(buffer, source_images=[x])
    assert x[0].read_count == 0
    run(buffer)
    assert array(result).ravel() == [4]


class NormalizedOnTheCPU(Normalization):
    seen = None

    def update_gamma_and_beta_with_batch_normalization_state(self, state):
        self.seen = [np.array(state.gradient_for_gamma()), np.array(state.gradient_for_beta())]
        self.arrays = (np.zeros(1), np.full(1, 6.0))
        return True

    def update_mean_and_variance_with_batch_normalization_state(self, state):
        return None


def test_batch_normalization_updated_by_the_cpu():
    on = mps.MTLDevice(device="cpu")
    values = NormalizedOnTheCPU(np.ones(1), np.zeros(1))
    node = mps.MPSCNNBatchNormalizationNode(
        source=mps.MPSNNImageNode(handle="x"), data_source=values
    )
    node.training_style = "update_device_cpu"
    node.result_state.export_from_graph = True
    loss = mps.MPSCNNLossNode(source=node.result_image,
                              loss_descriptor=loss_descriptor("mean_squared_error"))  # fmt: skip
    (last,) = loss.training_graph()
    graph = mps.MPSNNGraph(device=on, result_image=last.result_image, result_image_is_needed=False)
    x = np.arange(4, dtype=np.float32).reshape(4, 1, 1, 1)
    normal = (x.ravel() - 1.5) / np.sqrt(1.25 + 1e-3)

    def step():
        losses, states = empty(on, (4, 1, 1, 1), "float32"), []
        truth = batch(on, np.full((4, 1, 1, 1), 6, np.float32))
        labels = [
            mps.MPSCNNLossLabels(loss_image=a, labels_image=b)
            for a, b in zip(losses, truth, strict=True)
        ]
        buffer = commands(on)
        graph.encode_batch(
            buffer, source_images=[batch(on, x)], source_states=[labels], destination_states=states
        )
        run(buffer)
        return float(array(losses)[0, 0, 0, 0]), states

    first, ((state, *_),) = step()
    assert first == pytest.approx(np.mean((normal - 6) ** 2), rel=1e-5)
    g = 2 * (normal - 6) / 4
    np.testing.assert_allclose(values.seen, [[(g * normal).sum()], [g.sum()]], rtol=1e-5)
    np.testing.assert_allclose(np.asarray(state.mean()), [1.5])
    assert step()[0] == pytest.approx(0, abs=1e-10)
