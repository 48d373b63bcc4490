"""Nodes with data sources beside those of test_nodes.py: gradients, updates, and their order."""

import numpy as np
import pytest
from gradients import backward, forward, near, random
from graphs import assert_same, differences, encode, evaluate, graph_of, source
from kernels import Weights, array, batch, commands, run
from test_nodes import TrainedWeights, loss_descriptor

from traingraph import InvalidArgument, Unsupported, mps

SHAPE = (2, 4, 2, 3)


class Affine(mps.MPSCNNGroupNormalizationDataSource):
    number_of_feature_channels, number_of_groups = 4, 2

    def __init__(self):
        self.factors = np.linspace(0.5, 2, 4).astype(np.float32)
        self.terms = np.linspace(-1, 1, 4).astype(np.float32)
        self.calls = 0

    def gamma(self):
        return self.factors

    def beta(self):
        return self.terms

    def epsilon(self):
        return 1e-3

    def label(self):
        return "affine"


KINDS = ["Instance", "Group"]


def node_of(kind, data, image=None):
    return getattr(mps, f"MPSCNN{kind}NormalizationNode")(
        source=image or source("x"), data_source=data
    )


def floats(buffer, dtype=np.float64):
    return np.asarray(buffer).view(dtype).ravel()


@pytest.mark.parametrize("kind", KINDS)
def test_normalizations_against_differences(kind):
    on = mps.MTLDevice(device="reference")
    data = Affine()
    node = node_of(kind, data)
    assert node.label == "affine"
    made = node.gradient_filter(with_source=source("dy"))
    assert type(made) is getattr(mps, f"MPSCNN{kind}NormalizationGradientNode")
    node.result_state.export_from_graph = True
    given = {"x": random(1, *SHAPE), "dy": random(2, *SHAPE)}
    (dx,), (states,) = encode(graph_of(on, made.result_image), given)
    expected = differences(on, node.result_image, given, "x", given["dy"])
    near(dx, expected)
    assert len(states) == 2
    for values, name in [(data.factors, "gradient_for_gamma"), (data.terms, "gradient_for_beta")]:
        summed = sum(floats(getattr(one, name)) for one in states)
        for channel in range(4):
            ends = []
            for side in (0.25, -0.25):  # linear, and exact in float32
                values[channel] += side
                y = evaluate(on, given, node_of(kind, data).result_image)[0]
                ends.append((y * given["dy"]).sum())
                values[channel] -= side
            np.testing.assert_allclose(summed[channel], (ends[0] - ends[1]) / 0.5, rtol=1e-7)


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("kind", KINDS)
def test_normalizations_have_the_bits_of_encoded_kernels(kind, device):
    on = mps.MTLDevice(device=device)
    data = Affine()
    x, dy = (random(k, *SHAPE).astype(np.float32) for k in (1, 2))
    hand = getattr(mps, f"MPSCNN{kind}Normalization")(device=on, data_source=data)
    y, states = forward(hand, x)
    dx = backward(getattr(mps, f"MPSCNN{kind}NormalizationGradient")(device=on), dy, x, states)
    node = node_of(kind, data)
    made = node.gradient_filter(with_source=source("dy"))
    node.result_state.export_from_graph = True
    graph = graph_of(on, node.result_image, made.result_image, dtype="float32")
    found, (exported,) = encode(graph, {"x": x, "dy": dy})
    assert_same(found[0], y, device)
    assert_same(found[1], dx, device)
    for got, want in zip(exported, states, strict=True):
        for name in ("gradient_for_gamma", "gradient_for_beta"):
            pair = [floats(getattr(one, name), np.float32) for one in (got, want)]
            assert_same(*pair, device)


class OnTheDevice(Affine):
    """Plain descent, image by image, which adds the gradients up."""

    def train(self, on):
        d = mps.MPSNNOptimizerDescriptor(learning_rate=0.1)
        self.optimizer = mps.MPSNNOptimizerStochasticGradientDescent(
            device=on, momentum_scale=0.0, use_nesterov_momentum=False, optimizer_descriptor=d
        )
        self.state = mps.MPSCNNNormalizationGammaAndBetaState(
            gamma=mps.MTLBuffer(device=on, bytes=self.factors.tobytes()),
            beta=mps.MTLBuffer(device=on, bytes=self.terms.tobytes()),
        )
        return self

    def update_gamma_and_beta(self, command_buffer, state_batch):
        self.calls += 1
        d = mps.MPSVectorDescriptor.vector_descriptor(with_length=4, data_type="float32")
        for name in ("gamma", "beta"):
            own = mps.MPSVector(buffer=getattr(self.state, name), descriptor=d)
            for state in state_batch:
                gradient = mps.MPSVector(
                    buffer=getattr(state, f"gradient_for_{name}"), descriptor=d
                )
                self.optimizer.encode(
                    command_buffer, input_gradient_vector=gradient, input_values_vector=own,
                    result_values_vector=own,
                )  # fmt: skip
        return self.state


class OnTheCPU(Affine):
    def step(self, states):
        self.calls += 1
        self.factors = self.factors - np.float32(0.1) * sum(
            floats(one.gradient_for_gamma, np.float32) for one in states
        )
        self.terms = self.terms - np.float32(0.1) * sum(
            floats(one.gradient_for_beta, np.float32) for one in states
        )
        return self.calls == 1

    update_gamma_and_beta_with_instance_normalization_state_batch = step
    update_gamma_and_beta_with_group_normalization_state_batch = step


@pytest.mark.parametrize("device", ["cpu"])
@pytest.mark.parametrize("kind", KINDS)
def test_updates_of_normalizations_on_the_device_and_on_the_cpu(kind, device):
    on = mps.MTLDevice(device=device)
    given = {"x": random(1, *SHAPE), "dy": random(2, *SHAPE)}
    given = {name: x.astype(np.float32) for name, x in given.items()}
    results = []
    for data, style in [(OnTheDevice().train(on), "gpu"), (OnTheCPU(), "cpu")]:
        node = node_of(kind, data)
        node.training_style = f"update_device_{style}"
        (last,) = node.training_graph(with_source_gradient=source("dy"))
        assert last.training_style == node.training_style
        graph = graph_of(on, node.result_image, last.result_image, dtype="float32")
        results.append([encode(graph, given)[0][0] for _ in range(3)])
        assert data.calls == 3
    device, cpu = results
    assert np.abs(device[1] - device[0]).max() > 0.1
    np.testing.assert_array_equal(device[0], cpu[0])
    np.testing.assert_allclose(device[1], cpu[1], rtol=1e-5, atol=1e-5)
    # Its second call said no: the graph goes on with the values of the first.
    np.testing.assert_array_equal(cpu[2], cpu[1])
    assert np.abs(device[2] - device[1]).max() > 1e-3
    # And loads those of the third when it is told to.
    expected = evaluate(on, given, node_of(kind, data).result_image)[0]
    graph.reload_from_data_sources()
    np.testing.assert_allclose(encode(graph, given)[0][0], expected, rtol=1e-6, atol=1e-6)
    assert np.abs(expected - cpu[2]).max() > 1e-3


def test_bad_normalizations_are_refused():
    a, b = (node_of(kind, Affine()) for kind in KINDS)
    seed = source("dy")
    for one, other in [(a, b), (b, a)]:
        gradient = type(one.gradient_filter(with_source=seed))
        with pytest.raises(InvalidArgument, match=rf"{gradient.__name__}.*{type(other).__name__}"):
            gradient(source_gradient=seed, source_image=seed, gradient_state=other.result_state)
    data = Affine()
    data.number_of_groups = 3
    on = mps.MTLDevice(device="cpu")
    with pytest.raises(InvalidArgument, match="groups that divide 4 channels but got 3"):
        mps.MPSNNGraph(device=on, result_image=node_of("Group", data).result_image)
    data = OnTheDevice().train(on)
    data.update_gamma_and_beta = lambda command_buffer, state_batch: 3
    (last,) = node_of("Group", data).training_graph(with_source_gradient=seed)
    given = {"x": random(1, *SHAPE), "dy": random(2, *SHAPE)}
    given = {name: x.astype(np.float32) for name, x in given.items()}
    with pytest.raises(TypeError, match=r"GroupNormalizationDataSource.update_gamma_and_beta.*int"):
        evaluate(on, given, last.result_image)


# --- transposed convolution ----------------------------------------------------------------------


def up(seed=3, dtype=np.float64, cls=Weights, **given):
    return cls(random(seed, 3, 3, 3, 4).astype(dtype), random(seed + 1, 3).astype(dtype),
               stride_in_pixels_x=2, stride_in_pixels_y=2, **given)  # fmt: skip


def down(dtype=np.float64):
    return Weights(random(7, 4, 3, 3, 2).astype(dtype), stride_in_pixels_x=2, stride_in_pixels_y=2)


def test_transposed_convolutions_against_differences():
    on = mps.MTLDevice(device="reference")
    node = mps.MPSCNNConvolutionTransposeNode(source=source("x"), weights=up())
    made = node.gradient_filter(with_source=source("dy"))
    assert type(made) is mps.MPSCNNConvolutionTransposeGradientNode
    assert isinstance(made, mps.MPSCNNConvolutionGradientNode)
    assert isinstance(node.result_state, mps.MPSCNNConvolutionTransposeGradientStateNode)
    node.result_state.export_from_graph = True
    given = {"x": random(1, *SHAPE), "dy": random(2, 2, 3, 4, 6)}
    (dx,), (states,) = encode(graph_of(on, made.result_image), given)
    expected = differences(on, node.result_image, given, "x", given["dy"])
    near(dx, expected)
    assert isinstance(states[0], mps.MPSCNNConvolutionGradientState)
    found = floats(states[0].gradient_for_weights).reshape(3, 3, 3, 4)
    for index in [(0, 0, 0, 0), (1, 2, 1, 3), (2, 1, 0, 2)]:
        ends = []
        for side in (1e-3, -1e-3):
            weights = up()
            weights.array[index] += side
            other = mps.MPSCNNConvolutionTransposeNode(source=source("x"), weights=weights)
            ends.append((evaluate(on, given, other.result_image)[0] * given["dy"]).sum())
        np.testing.assert_allclose(found[index], (ends[0] - ends[1]) / 2e-3, rtol=1e-7)


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_a_transposed_convolution_mirrors_the_convolution_of_a_state(device):
    on = mps.MTLDevice(device=device)
    narrow, wide = down(np.float32), up(dtype=np.float32)
    first = mps.MPSCNNConvolutionNode(source=source("x"), weights=narrow)
    node = mps.MPSCNNConvolutionTransposeNode(
        source=first.result_image, weights=wide,
        convolution_gradient_state=first.convolution_gradient_state,
    )  # fmt: skip
    x = random(1, 2, 2, 5, 7).astype(np.float32)
    (last,) = node.training_graph(with_source_gradient=source("dy"))
    given = {"x": x, "dy": random(2, 2, 3, 5, 7).astype(np.float32)}
    y, dx = evaluate(on, given, node.result_image, last.result_image)
    assert y.shape == (2, 3, 5, 7)  # the policy alone would give 6 x 8
    conv = mps.MPSCNNConvolution(device=on, weights=narrow)
    inner, states = forward(conv, x)
    kernel = mps.MPSCNNConvolutionTranspose(device=on, weights=wide)
    kernel.makes_temporary_images = False
    buffer = commands(on)
    result, own = kernel.encode_batch(
        buffer, source_images=batch(on, inner), convolution_gradient_states=states,
        destination_state_is_temporary=False,
    )  # fmt: skip
    run(buffer)
    gradient = mps.MPSCNNConvolutionTransposeGradient(device=on, weights=wide)
    inner_gradient = backward(gradient, given["dy"], inner, own)
    expected = backward(
        mps.MPSCNNConvolutionGradient(device=on, weights=narrow), inner_gradient, x, states
    )
    for some in ([], list(states) * 3):
        with pytest.raises(ValueError, match=rf"state for each of 2 images but got {len(some)}"):
            kernel.encode_batch(
                commands(on), source_images=batch(on, inner), convolution_gradient_states=some
            )
    assert_same(y, array(result), device)
    assert_same(dx, expected, device)


@pytest.mark.parametrize("device", ["cpu"])
@pytest.mark.parametrize("style", ["gpu", "cpu"])
def test_a_transposed_convolution_is_trained(style, device):
    on = mps.MTLDevice(device=device)
    weights = TrainedWeights(np.ones((1, 1, 1, 1), np.float32), np.zeros(1, np.float32))
    weights.train(on, "sgd", [1, 1])

    def on_the_cpu(gradient_state, source_state):
        dw, db = gradient_state.gradient_for_weights, gradient_state.gradient_for_biases
        step = np.float32(0.05) * floats(dw, np.float32)
        weights.array = weights.array - step.reshape(1, 1, 1, 1)
        weights.biases = weights.biases - np.float32(0.05) * floats(db, np.float32)
        return True

    weights.update_with_gradient_state = on_the_cpu
    node = mps.MPSCNNConvolutionTransposeNode(source=source("x"), weights=weights)
    node.training_style = f"update_device_{style}"
    loss = mps.MPSNNForwardLossNode(
        source=node.result_image, labels=source("t"),
        loss_descriptor=loss_descriptor("mean_squared_error"),
    )  # fmt: skip
    (last,) = mps.MPSNNInitialGradientNode(source=loss.result_image).training_graph()
    graph = graph_of(on, last.result_image, loss.result_image, dtype="float32")
    x = np.arange(4, dtype=np.float32).reshape(4, 1, 1, 1)
    losses = [encode(graph, {"x": x, "t": 2 * x + 5})[0][1][0, 0, 0, 0] for _ in range(200)]
    assert losses[0] == pytest.approx(np.mean((x - (2 * x + 5)) ** 2), rel=1e-5)
    assert losses[-1] < 1e-4


def test_bad_transposed_convolutions_are_refused():
    image, seed = source("x"), source("dy")
    conv = mps.MPSCNNConvolutionNode(source=image, weights=down())
    node = mps.MPSCNNConvolutionTransposeNode(source=image, weights=up())
    with pytest.raises(InvalidArgument, match=r"TransposeNode\].*MPSCNNSoftMaxNode"):
        mps.MPSCNNConvolutionTransposeNode(
            source=image, weights=up(),
            convolution_gradient_state=mps.MPSCNNSoftMaxNode(source=image).result_state,
        )  # fmt: skip
    with pytest.raises(InvalidArgument, match=r"TransposeNode\].*MPSCNNConvolutionNode but got"):
        mps.MPSCNNConvolutionTransposeNode(
            source=image, weights=up(), convolution_gradient_state=node.result_state
        )
    sources = {"source_gradient": seed, "source_image": image}
    with pytest.raises(InvalidArgument, match=r"TransposeGradientNode.*MPSCNNConvolutionNode"):
        mps.MPSCNNConvolutionTransposeGradientNode(
            **sources, convolution_transpose_gradient_state=conv.result_state
        )
    with pytest.raises(InvalidArgument, match=r"ConvolutionGradientNode.*TransposeNode"):
        mps.MPSCNNConvolutionGradientNode(
            **sources, convolution_gradient_state=node.result_state, weights=down()
        )
    with pytest.raises(Unsupported, match="use result_state"):
        _ = node.convolution_gradient_state
    with pytest.raises(TypeError, match="MPSCNNConvolutionTransposeNode"):
        mps.MPSCNNConvolutionTransposeNode(source=image)


GRADIENTS = [
    (mps.MPSCNNConvolutionNode, mps.MPSCNNConvolutionGradientNode, "convolution_gradient_state",
     lambda: down(), (2, 2, 4, 4), (2, 4, 2, 2)),
    (mps.MPSCNNFullyConnectedNode, mps.MPSCNNFullyConnectedGradientNode,
     "convolution_gradient_state", lambda: Weights(random(5, 3, 2, 2, 2)), (2, 2, 2, 2),
     (2, 3, 1, 1)),
    (mps.MPSCNNConvolutionTransposeNode, mps.MPSCNNConvolutionTransposeGradientNode,
     "convolution_transpose_gradient_state", lambda: up(), SHAPE, (2, 3, 4, 6)),
]  # fmt: skip


@pytest.mark.parametrize(("cls", "gradient", "state", "make", "size", "result"), GRADIENTS)
def test_gradient_nodes_without_weights_have_the_forward_nodes(
    cls, gradient, state, make, size, result
):
    on = mps.MTLDevice(device="reference")
    node = cls(source=source("x"), weights=make())
    made = node.gradient_filter(with_source=source("dy"))
    other = gradient(source_gradient=source("dy"), source_image=source("x"), weights=None,
                     **{state: node.result_state})  # fmt: skip
    given = {"x": random(1, *size), "dy": random(2, *result)}
    expected = evaluate(on, given, made.result_image)[0]
    np.testing.assert_array_equal(evaluate(on, given, other.result_image)[0], expected)


# --- when data sources are called ----------------------------------------------------------------


class Noted(TrainedWeights):
    def update(self, command_buffer, gradient_state, source_state):
        self.log.append(self.name)
        return super().update(command_buffer, gradient_state, source_state)


class NotedWeight:
    def __init__(self, log):
        self.log = log

    def scalar_weight(self, source_image, destination_image):
        self.log.append("loss gradient")
        return 1.0


def test_an_update_is_asked_for_as_soon_as_its_gradient_is_encoded():
    on = mps.MTLDevice(device="cpu")
    log = []
    late, early = (
        Noted(np.full((1, 1, 1, 1), 2, np.float32), name=name).train(on, "sgd", [1, 1])
        for name in ("late", "early")
    )
    late.log = early.log = log
    x = source("x")
    a = mps.MPSCNNConvolutionNode(source=x, weights=early)
    b = mps.MPSCNNConvolutionNode(source=a.result_image, weights=late)
    (left,) = b.training_graph(with_source_gradient=source("dy"))
    loss = mps.MPSNNForwardLossNode(
        source=x, labels=source("t"), loss_descriptor=loss_descriptor("mean_squared_error")
    )
    right = loss.gradient_filter(with_source=source("dl"))
    right.property_call_back = NotedWeight(log)
    graph = graph_of(on, left.result_image, right.result_image, dtype="float32")
    one = np.ones((1, 1, 1, 1), np.float32)
    dx, _ = encode(graph, {"x": one, "t": one, "dy": one, "dl": one})[0]
    # Both updates come before what is encoded behind them, and after the gradients they wait for:
    # dx is that of the weights before.
    assert log == ["late", "early", "loss gradient"]
    assert dx[0, 0, 0, 0] == 4


def test_two_nodes_over_one_data_source_have_weights_and_updates_of_their_own():
    on = mps.MTLDevice(device="cpu")
    weights = Weights(np.full((1, 1, 1, 1), 2, np.float32), np.zeros(1, np.float32))
    gradients, states = [], []

    def update(command_buffer, gradient_state, source_state):
        optimizer.encode(
            command_buffer, convolution_gradient_state=gradient_state,
            convolution_source_state=source_state, result_state=source_state,
        )  # fmt: skip
        gradients.append(gradient_state)
        states.append(source_state)
        return source_state

    optimizer = mps.MPSNNOptimizerStochasticGradientDescent(device=on, learning_rate=0.125)
    weights.update = update
    first = mps.MPSCNNConvolutionNode(source=source("x"), weights=weights)
    second = mps.MPSCNNConvolutionNode(source=first.result_image, weights=weights)
    (last,) = second.training_graph(with_source_gradient=source("dy"))
    graph = graph_of(on, second.result_image, last.result_image, dtype="float32")
    x, dy = np.full((1, 1, 1, 1), 3, np.float32), np.ones((1, 1, 1, 1), np.float32)
    # y = w2 w1 x: dw2 = w1 x = 6, dw1 = w2 x = 6, and so they stay alike here but for the biases.
    (y, dx), _ = encode(graph, {"x": x, "dy": dy})
    assert (y.item(), dx.item()) == (12, 4)
    assert len(gradients) == 2
    assert [floats(one.weights, np.float32).item() for one in states] == [1.25, 1.25]
    # The second update was not that of the first one's weights: 2 - 0.125 * 12 would be 0.5.
    biases = [floats(one.biases, np.float32).item() for one in states]
    assert biases == [-0.125, -0.25]  # dy, and w2 dy
    (y, _), _ = encode(graph, {"x": x, "dy": dy})
    assert y.item() == pytest.approx(1.25 * (1.25 * 3 - 0.25) - 0.125)
    # Loading anew makes them alike.
    graph.reload_from_data_sources()
    assert encode(graph, {"x": x, "dy": dy})[0][0].item() == 12
