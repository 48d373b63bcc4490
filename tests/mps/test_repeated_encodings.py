"""Later encodings of a graph repeat what one before has recorded: nobody may see a difference."""

import numpy as np
import pytest
from kernels import Weights, array, batch, commands, empty, image, run
from test_nodes import TrainedNormalization, TrainedWeights, loss_descriptor

from traingraph import InvalidArgument, mps

pytestmark = pytest.mark.parametrize("device", ["cpu", "reference"])

X, Y = np.arange(2, 10, dtype=np.float32), np.linspace(-6, 6, 8, dtype=np.float32)


def pixel(on, value):
    return image(on, np.full((1, 1, 1, 1), value, np.float32))


class Watching(Weights):
    """One weight, and what is done with each gradient."""

    def __init__(self, value=1.0, biases=None):
        super().__init__(np.full((1, 1, 1, 1), value, np.float32), biases)
        self.on_update = lambda buffer, gradient, source: None

    def update(self, command_buffer, gradient_state, source_state):
        return self.on_update(command_buffer, gradient_state, source_state)


class Line:
    """(w x + b - y)^2 over one pixel, its gradient by w x as the result where it is needed."""

    def __init__(self, on, data, needed=False):
        self.on = on
        node = mps.MPSCNNConvolutionNode(source=mps.MPSNNImageNode(handle="x"), weights=data)
        loss = mps.MPSCNNLossNode(
            source=node.result_image, loss_descriptor=loss_descriptor("mean_squared_error")
        )
        (self.last,) = loss.training_graph()
        self.graph = mps.MPSNNGraph(
            device=on, result_image=self.last.result_image, result_image_is_needed=needed
        )
        self.graph.makes_temporary_images = False

    def encode(self, buffer, x, y):
        """The loss image, to be read after the run, and the result."""
        loss = empty(self.on, (1, 1, 1, 1), "float32")
        labels = mps.MPSCNNLossLabels(loss_image=loss[0], labels_image=pixel(self.on, y))
        source = x if isinstance(x, mps.MPSImage) else pixel(self.on, x)
        result = self.graph.encode(buffer, source_images=[source], source_states=[labels])
        return loss, result

    def step(self, x, y):
        buffer = commands(self.on)
        loss, result = self.encode(buffer, x, y)
        run(buffer)
        return (*array(loss).ravel(), None if result is None else float(array([result]).item()))

    def losses(self):
        return [float(self.step(x, y)[0]) for x, y in zip(X, Y, strict=True)]


EXPECTED = [float((x - y) ** 2) for x, y in zip(X, Y, strict=True)]


@pytest.fixture
def on(device):
    return mps.MTLDevice(device=device)


def test_each_encoding_has_its_own_images(on):
    line = Line(on, Watching(), needed=True)
    steps = [line.step(x, y) for x, y in zip(X, Y, strict=True)]
    np.testing.assert_allclose([loss for loss, _ in steps], EXPECTED, rtol=1e-6)
    np.testing.assert_allclose([dx for _, dx in steps], 2 * (X - Y), rtol=1e-6)


def test_results_outlive_the_encodings_behind_them(on):
    line, buffer = Line(on, Watching(), needed=True), commands(on)
    encoded = [line.encode(buffer, x, y) for x, y in zip(X, Y, strict=True)]
    run(buffer)
    np.testing.assert_allclose([array(loss).item() for loss, _ in encoded], EXPECTED, rtol=1e-6)
    np.testing.assert_allclose([array([dx]).item() for _, dx in encoded], 2 * (X - Y), rtol=1e-6)


def test_temporary_results_are_read_as_often_as_they_are_handed_out(on):
    line = Line(on, Watching(), needed=True)
    line.graph.makes_temporary_images = True
    negate = mps.MPSCNNNeuron(
        device=on, neuron_descriptor=mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(
            with_type="linear", a=-1.0, b=0.0)
    )  # fmt: skip
    for x, y in zip(X, Y, strict=True):
        buffer, out = commands(on), empty(on, (1, 1, 1, 1), "float32")
        _, result = line.encode(buffer, x, y)
        assert result.read_count == 1
        negate.encode(buffer, source_image=result, destination_image=out[0])
        with pytest.raises(InvalidArgument, match="read count"):
            negate.encode(buffer, source_image=result, destination_image=out[0])
        run(buffer)
        assert array(out).item() == pytest.approx(-2 * (x - y), rel=1e-6)


def test_buffers_that_are_encoded_side_by_side(on):
    line, buffers = Line(on, Watching()), [commands(on) for _ in X]
    losses = [line.encode(*given)[0] for given in zip(buffers, X, Y, strict=True)]
    for buffer in reversed(buffers):
        run(buffer)
    np.testing.assert_allclose([array(loss).item() for loss in losses], EXPECTED, rtol=1e-6)


def test_weights_that_are_trained(device):
    """Against graphs that encode once each, from the same weights on."""
    on = mps.MTLDevice(device=device)

    def data(value):
        return TrainedWeights(np.full((1, 1, 1, 1), value, np.float32),
                              np.zeros(1, np.float32)).train(on, "sgd", [1, 1])  # fmt: skip

    once, expected = data(0.5), []
    for x, y in zip(X, Y, strict=True):
        expected.append(float(Line(on, once).step(x / 8, y)[0]))
        once.array = np.asarray(once.state.weights).view(np.float32).reshape(1, 1, 1, 1).copy()
        once.biases = np.asarray(once.state.biases).view(np.float32).copy()
    line = Line(on, data(0.5))
    losses = [float(line.step(x / 8, y)[0]) for x, y in zip(X, Y, strict=True)]
    np.testing.assert_allclose(losses, expected, rtol=1e-6)


def test_states_and_buffers_that_a_data_source_keeps(on):
    data, kept, gradients = Watching(), [], []
    line = Line(on, data)
    read = mps.MPSNNOptimizerStochasticGradientDescent(device=on, learning_rate=1.0)

    def by_gradient(buffer, gradient, source):
        kept.append([gradient, gradient.gradient_for_weights][len(kept) % 2])
        result = mps.MPSCNNConvolutionWeightsAndBiasesState(
            weights=mps.MTLBuffer(device=on, bytes=bytes(4))
        )
        read.encode(buffer, convolution_gradient_state=gradient,
                    convolution_source_state=source, result_state=result)  # fmt: skip
        gradients.append(result)

    data.on_update = by_gradient
    np.testing.assert_allclose(line.losses(), EXPECTED, rtol=1e-6)
    got = [1 - np.asarray(one.weights).view(np.float32)[0] for one in gradients]
    np.testing.assert_allclose(got, 2 * (X - Y) * X, rtol=1e-5)


def test_a_state_of_an_earlier_buffer_is_refused(on):
    data, kept = Watching(), []
    line = Line(on, data)
    rule = mps.MPSNNOptimizerStochasticGradientDescent(device=on, learning_rate=1.0)

    def with_the_one_before(buffer, gradient, source):
        if len(kept) > 3:
            rule.encode(buffer, convolution_gradient_state=kept[-1],
                        convolution_source_state=source, result_state=source)  # fmt: skip
        kept.append(gradient if len(kept) > 2 else None)

    data.on_update = with_the_one_before
    for _ in range(4):
        line.step(1, 2)
    with pytest.raises(InvalidArgument, match="temporary one of another"):
        line.step(1, 2)


def test_biases_that_come_with_an_update(on):
    data = Watching()
    line = Line(on, data)
    assert [line.step(2, 6)[0] for _ in range(4)] == [16] * 4
    state = mps.MPSCNNConvolutionWeightsAndBiasesState(
        weights=mps.MTLBuffer(device=on, bytes=np.full(1, 2, np.float32).tobytes()),
        biases=mps.MTLBuffer(device=on, bytes=np.full(1, 1, np.float32).tobytes()),
    )
    data.on_update = lambda buffer, gradient, source: state
    assert [line.step(2, 6)[0] for _ in range(4)] == [16, 1, 1, 1]


def test_sources_that_load_anew(on):
    data = Watching(1.0, np.zeros(1, np.float32))
    line = Line(on, data)
    assert [line.step(2, 6)[0] for _ in range(4)] == [16] * 4
    data.array, data.biases = np.full((1, 1, 1, 1), 2, np.float32), None
    line.graph.reload_from_data_sources()
    assert [line.step(2, 6)[0] for _ in range(4)] == [4] * 4


def test_images_of_another_kind_in_between(on):
    line = Line(on, Watching())
    steps = 3 * [np.float32, np.float16] + 4 * [np.float16] + 4 * [np.float32]
    for dtype in steps:
        assert line.step(image(on, np.full((1, 1, 1, 1), 2, dtype)), 6)[0] == 16
    rows = image(on, np.arange(4, dtype=np.float32).reshape(4, 1, 1, 1)).batch_representation()
    for k in (1, 1, 1, 2, 3, 2, 2):
        assert line.step(rows[k], 6)[0] == (k - 6) ** 2


def test_properties_that_change_in_between(on):
    line = Line(on, Watching(), needed=True)
    for dtype in 4 * ["float32"] + 4 * ["float16"]:
        line.last.result_image.format = dtype
        buffer = commands(on)
        _, result = line.encode(buffer, 2, 6)
        run(buffer)
        assert array([result]).dtype == dtype
        assert array([result]).item() == -8


def test_sources_that_are_one_image(on):
    """Predictions and labels alike: another order of images than with two."""
    node = mps.MPSCNNNeuronReLUNode(source=mps.MPSNNImageNode(handle="a"))
    other = mps.MPSNNAdditionNode(
        left_source=node.result_image, right_source=mps.MPSNNImageNode(handle="b")
    )
    graph = mps.MPSNNGraph(device=on, result_image=other.result_image)
    graph.makes_temporary_images = False
    a, b = (batch(on, np.full((1, 1, 1, 1), k, np.float32))[0] for k in (3, 5))
    for pair in ([a, b], [a, b], [a, b], [a, a], [a, a], [a, a], [b, a], [b, a], [b, b]):
        buffer = commands(on)
        result = graph.encode(buffer, source_images=pair)
        run(buffer)
        assert array([result]).item() == sum(array([one]).item() for one in pair)


def test_what_a_data_source_raises_leaves_the_buffer_as_it_was(on):
    data = Watching()
    line, buffer, losses = Line(on, data), commands(on), []

    def raises(*_):
        raise ValueError("not now")

    for k in range(8):
        if k % 2 == 0:
            losses.append(line.encode(buffer, 2, 6)[0])
            continue
        data.on_update, before = raises, data.on_update
        with pytest.raises(ValueError, match="not now"):
            line.encode(buffer, 3, 6)
        data.on_update = before
        losses.append(line.encode(buffer, 4, 6)[0])
    run(buffer)
    assert [array(loss).item() for loss in losses] == [16, 4] * 4


def test_a_buffer_that_a_data_source_commits(on):
    data = Watching()
    line = Line(on, data)
    line.losses()
    data.on_update = lambda buffer, gradient, source: buffer.commit()
    buffer = commands(on)
    with pytest.raises(InvalidArgument, match="was committed"):
        line.encode(buffer, 1, 2)
    buffer.wait_until_completed()
    data.on_update = lambda *_: None
    np.testing.assert_allclose(line.losses(), EXPECTED, rtol=1e-6)


def test_parts_of_a_buffer_in_between(on):
    line = Line(on, Watching())
    for k, (x, y) in enumerate(zip(X, Y, strict=True)):
        buffer = commands(on)
        loss = line.encode(buffer, x, y)[0] if k % 2 else None
        buffer = mps.MPSCommandBuffer(command_buffer=buffer)
        if loss is None:
            loss = line.encode(buffer, x, y)[0]
        buffer.commit_and_continue()
        run(buffer)
        assert array(loss).item() == pytest.approx((x - y) ** 2, rel=1e-6)


def test_a_data_source_that_encodes_its_graph(on):
    data, inner = Watching(), []
    line = Line(on, data)

    def encode_once(buffer, gradient, source):
        data.on_update = lambda *_: None
        inner.append(line.encode(buffer, 3, 6)[0])
        data.on_update = encode_once

    data.on_update = encode_once
    for k in range(1, 6):
        assert line.step(2, 6)[0] == 16
        assert [array(loss).item() for loss in inner] == [9] * k


def test_the_same_state_is_handed_out_again_unless_it_is_kept(device):
    testing = pytest.importorskip("traingraph._testing", reason="built with TRAINGRAPH_TESTING")
    assert testing.handed_again(device, 5 * ["nothing"]) == [False, False, True, True, True]
    for what in ("state", "buffer"):
        keeps = [*3 * ["nothing"], what, *3 * ["nothing"]]
        # The one that is kept waits until it is let go.
        assert testing.handed_again(device, keeps)[:5] == [False, False, True, True, False]


def network(on, weighted):
    """A training graph over (2, 4, 6, 6) with trained weights of that kind, and what it trains."""
    layers = {
        "convolution": (mps.MPSCNNConvolutionNode, (4, 3, 3, 4), [144, 4]),
        "transposed": (mps.MPSCNNConvolutionTransposeNode, (4, 2, 2, 4), [64, 4]),
        "depthwise": (mps.MPSCNNConvolutionNode, (4, 3, 3, 1), [36, 4]),
    }
    kind, shape, sizes = layers[weighted]
    weights = np.random.default_rng(3).normal(0, 0.3, shape).astype(np.float32)
    groups = 4 if weighted == "depthwise" else 1
    data = TrainedWeights(weights, np.zeros(4, np.float32), groups).train(on, "adam", sizes)
    norm = TrainedNormalization(np.ones(4), np.zeros(4)).train(on, "sgd", [4, 4])
    node = kind(source=mps.MPSNNImageNode(handle="x"), weights=data)
    node = mps.MPSCNNBatchNormalizationNode(source=node.result_image, data_source=norm)
    left = mps.MPSCNNNeuronSigmoidNode(source=node.result_image)
    right = mps.MPSCNNPoolingAverageNode(
        source=node.result_image, kernel_width=3, kernel_height=3, stride_in_pixels_x=1,
        stride_in_pixels_y=1,
    )  # fmt: skip
    right.padding_policy = "size_same"
    node = mps.MPSNNAdditionNode(left_source=left.result_image, right_source=right.result_image)
    loss = mps.MPSCNNLossNode(
        source=node.result_image, loss_descriptor=loss_descriptor("mean_squared_error")
    )
    (last,) = loss.training_graph()
    return mps.MPSNNGraph(device=on, result_image=last.result_image, result_image_is_needed=True)


@pytest.mark.parametrize("weighted", ["convolution", "transposed", "depthwise"])
def test_the_bits_of_encodings_that_ask_every_kernel(device, weighted):
    """An MPSCommandBuffer's are: they may go on in another part."""
    on = mps.MTLDevice(device=device)
    numbers = np.random.default_rng(4)
    x = numbers.normal(size=(2, 4, 6, 6)).astype(np.float32)
    found = []
    for kind in (commands, lambda on: mps.MPSCommandBuffer(command_buffer=commands(on))):
        graph, steps = network(on, weighted), []
        graph.makes_temporary_images = False
        source = image(on, x).batch_representation()
        for _ in range(6):
            losses = empty(on, (2, 1, 1, 1), "float32")
            truths = batch(on, np.zeros((2, 4, 6, 6), np.float32))
            labels = [
                mps.MPSCNNLossLabels(loss_image=a, labels_image=b)
                for a, b in zip(losses, truths, strict=True)
            ]
            buffer = kind(on)
            result = graph.encode_batch(buffer, source_images=[source], source_states=[labels])
            run(buffer)
            steps.append((array(losses).tobytes(), array(result).tobytes()))
        found.append(steps)
    assert found[0] == found[1]
    assert len(set(found[0])) == 6
