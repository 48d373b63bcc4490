"""Batches as sequences, their read counts, and where weights lie between steps."""

from collections.abc import Sequence

import numpy as np
import pytest
from kernels import Weights, array, batch, commands, empty, image, run
from test_agreement import ByHand, ml_compute
from test_nodes import TrainedWeights, loss_descriptor

from traingraph import InvalidArgument, mps


def relu(on, x, buffer):
    descriptor = mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(with_type="relu", a=0.0)
    kernel = mps.MPSCNNNeuron(device=on, neuron_descriptor=descriptor)
    return kernel.encode_batch(buffer, source_images=x, destination_state_is_temporary=True)


def test_a_batch_is_a_sequence():
    on = mps.MTLDevice(device="cpu")
    whole = batch(on, np.arange(6, dtype=np.float32).reshape(3, 2, 1, 1))
    assert isinstance(whole, mps.MPSImageBatch)
    assert isinstance(whole, Sequence)
    items = list(whole)
    assert [type(one) for one in items] == [mps.MPSImage] * 3
    assert whole == items
    assert whole[0] is items[0]
    assert whole[-1] is items[2]
    assert whole[1:] == items[1:]
    assert whole + items == items + whole == items * 2
    assert items[1] in whole
    assert len(whole) == 3
    assert repr(whole) == repr(items)
    assert hash(whole) == hash(tuple(items))
    assert list(reversed(whole)) == items[::-1]
    with pytest.raises(IndexError, match="below 3 but got 3"):
        whole[3]
    with pytest.raises(IndexError, match="below 3 but got -4"):
        whole[-4]
    with pytest.raises(TypeError):
        whole["first"]
    # Lists, tuples and parts serve as well.
    for source in (items, tuple(items), whole[1:]):
        buffer = commands(on)
        result, states = relu(on, source, buffer)
        assert len(result) == len(states) == len(source)
        assert isinstance(states, mps.MPSStateBatch)
        assert len(set(states)) == len(source)
    with pytest.raises(TypeError, match="source_images"):
        relu(on, [*items, "image"], commands(on))


def test_read_counts_of_batches():
    on = mps.MTLDevice(device="cpu")
    buffer = commands(on)
    result, states = relu(on, batch(on, np.ones((2, 1, 1, 1), np.float32)), buffer)
    mps.image_batch_increment_read_count(result, 2)
    assert [image.read_count for image in result] == [3, 3]
    # An object that is there several times counts once.
    mps.image_batch_increment_read_count([result[0]] * 3, -1)
    assert [image.read_count for image in result] == [2, 3]
    mps.state_batch_increment_read_count(states, 1)
    assert [state.read_count for state in states] == [2, 2]
    with pytest.raises(InvalidArgument, match="of 0 or more but got -1"):
        mps.image_batch_increment_read_count(result, -3)
    permanent = batch(on, np.ones((1, 1, 1, 1), np.float32))
    mps.image_batch_increment_read_count(permanent, 1)
    # Two readings each, of which a batch that names an image twice takes one.
    first = result[0]
    relu(on, [first, first], buffer)
    assert first.read_count == 1
    relu(on, [first], buffer)
    with pytest.raises(InvalidArgument, match="has run out"):
        relu(on, [first], buffer)


# --- where weights lie ---------------------------------------------------------------------------


def trained(on, **options):
    """A convolution whose kernels want blocks of channels, trained by nodes; its source."""
    random = np.random.default_rng(0)
    weights = (random.normal(size=(32, 3, 3, 16)) * 0.1).astype(np.float32)
    source = TrainedWeights(weights, **options).train(on, "adam", [weights.size, 32])
    node = mps.MPSCNNConvolutionNode(source=mps.MPSNNImageNode(), weights=source)
    loss = mps.MPSCNNLossNode(source=node.result_image,
                              loss_descriptor=loss_descriptor("mean_squared_error"))  # fmt: skip
    (last,) = loss.training_graph()
    graph = mps.MPSNNGraph(device=on, result_image=last.result_image, result_image_is_needed=False)
    x = batch(on, random.normal(size=(4, 16, 8, 8)).astype(np.float32))
    losses, truth = (empty(on, shape, "float32") for shape in ((4, 1, 1, 1), (4, 32, 8, 8)))
    labels = [
        mps.MPSCNNLossLabels(loss_image=a, labels_image=b)
        for a, b in zip(losses, truth, strict=True)
    ]

    def step():
        buffer = commands(on)
        graph.encode_batch(buffer, source_images=[x], source_states=[labels])
        run(buffer)
        return float(array(losses)[0, 0, 0, 0])

    return source, step


@pytest.mark.parametrize("device", ["cpu"])
def test_weights_are_apples_whatever_kernels_want(device):
    """A copy shows (O, kh, kw, I) after each step, and training goes on as on reference."""
    results = []
    for name in (device, "reference"):
        on = mps.MTLDevice(device=name)
        source, step = trained(on)
        losses, shown = [], []
        for _ in range(4):
            losses.append(step())
            shown.append(np.array(source.state.weights))
        results.append((losses, shown))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-5)
    # A unit at the bend of a ReLU may count on one device and not on another one.
    apart = np.subtract(results[0][1], results[1][1])
    assert np.linalg.norm(apart) < 1e-4 * np.linalg.norm(results[1][1])
    assert np.abs(np.diff(results[0][1], axis=0)).max() > 1e-4


def test_a_view_stays_true():
    on = mps.MTLDevice(device="cpu")
    source, step = trained(on)
    step()
    weights = source.state.weights
    seen = np.asarray(weights)
    before = seen.copy()
    compiled = on.compilations
    step()
    assert not np.array_equal(seen, before)
    np.testing.assert_array_equal(seen, np.array(weights))
    # The program over the new order is the last that is compiled.
    assert on.compilations == compiled + 1
    step()
    assert on.compilations == compiled + 1
    np.testing.assert_array_equal(seen, np.array(weights))


def test_another_program_finds_the_weights_where_they_lie():
    """Inference between steps, over the same storage, gives what the weights say."""
    on = mps.MTLDevice(device="cpu")
    by_hand = ByHand("sgd", "cpu")
    assert by_hand.on == on
    start = by_hand.start
    losses = [by_hand.step(start.x[0], start.y[0])]
    for k in range(1, 4):
        buffer = commands(on)
        x = batch(on, start.x[k])
        by_hand.conv.forward.makes_temporary_images = False
        result = by_hand.conv.forward.encode_batch(buffer, source_images=x)
        run(buffer)
        by_hand.conv.forward.makes_temporary_images = True
        weights = np.array(by_hand.conv.state.weights).reshape(4, 3, 3, 2)
        padded = np.pad(start.x[k], ((0, 0), (0, 0), (1, 1), (1, 1)))
        patches = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
        expected = np.einsum("nchwij,oijc->nohw", patches, weights)
        expected += np.array(by_hand.conv.state.biases).reshape(1, 4, 1, 1)
        np.testing.assert_allclose(array(result), expected, atol=1e-5)
        losses.append(by_hand.step(start.x[k], start.y[k]))
    np.testing.assert_allclose(losses, ml_compute("sgd", "cpu")[:4], rtol=0, atol=1e-5)


# --- kernels without biases ----------------------------------------------------------------------


def test_a_source_without_biases_has_none_to_train():
    on = mps.MTLDevice(device="cpu")
    source, step = trained(on)
    step()
    assert source.state.biases is None
    other, step = trained(on, biases=np.zeros(32, np.float32))
    step()
    assert np.abs(np.array(other.state.biases)).max() > 1e-4


def test_biases_that_are_loaded_later_count():
    on = mps.MTLDevice(device="cpu")
    kernel = mps.MPSCNNConvolution(device=on, weights=Weights(np.ones((1, 1, 1, 1), np.float32)))
    kernel.makes_temporary_images = False
    x = batch(on, np.full((1, 1, 1, 1), 2, np.float32))

    def result():
        buffer = commands(on)
        images = kernel.encode_batch(buffer, source_images=x)
        run(buffer)
        return float(array(images)[0, 0, 0, 0])

    assert result() == 2
    weights, biases = (
        mps.MTLBuffer(device=on, bytes=np.full(1, value, np.float32).tobytes()) for value in (3, 4)
    )
    state = mps.MPSCNNConvolutionWeightsAndBiasesState(weights=weights, biases=biases)
    buffer = commands(on)
    kernel.reload_weights_and_biases(buffer, state=state)
    run(buffer)
    assert result() == 10
    kernel.reload_weights_and_biases_from_data_source()
    assert result() == 2


@pytest.mark.parametrize("neuron", ["none", "sigmoid"])
def test_bias_gradients_without_biases(neuron):
    """What a gradient state says does not hang on whether there are biases."""
    on = mps.MTLDevice(device="reference")
    random = np.random.default_rng(3)
    weights, x, dy = (random.normal(size=s) for s in ((2, 3, 3, 3), (2, 3, 4, 4), (2, 2, 4, 4)))
    fused = mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(with_type=neuron)
    seen = []
    for biases in (None, np.zeros(2)):
        source = Weights(weights, biases, fused_neuron_descriptor=fused)
        buffer = commands(on)
        forward = mps.MPSCNNConvolution(device=on, weights=source)
        images, states = forward.encode_batch(
            buffer, source_images=batch(on, x), destination_state_is_temporary=False
        )
        mps.MPSCNNConvolutionGradient(device=on, weights=source).encode_batch(
            buffer, source_gradients=batch(on, dy), source_images=batch(on, x),
            gradient_states=states,
        )  # fmt: skip
        assert len(images) == 2
        run(buffer)
        seen.append(np.array(states[0].gradient_for_biases))
    np.testing.assert_allclose(*seen, rtol=1e-12)
    if neuron == "none":
        np.testing.assert_allclose(seen[0], dy.sum((0, 2, 3)), rtol=1e-12)


@pytest.mark.parametrize("device", ["cpu"])
def test_results_come_in_the_form_of_their_sources(device):
    """One image of several, or as many images: the same values, forward and gradient."""
    on = mps.MTLDevice(device=device)
    x, dy = np.random.default_rng(2).normal(size=(2, 3, 2, 4, 4)).astype(np.float32)
    window = {"kernel_width": 2, "kernel_height": 2, "device": on}
    found = []
    for whole in (True, False):
        sources, gradients = (image(on, a) for a in (x, dy))
        sources, gradients = (
            [one] if whole else one.batch_representation() for one in (sources, gradients)
        )
        kernel, gradient = mps.MPSCNNPoolingMax(**window), mps.MPSCNNPoolingMaxGradient(**window)
        kernel.makes_temporary_images = gradient.makes_temporary_images = False
        buffer = commands(on)
        y, states = kernel.encode_batch(
            buffer, source_images=sources, destination_state_is_temporary=False
        )
        dx = gradient.encode_batch(
            buffer, source_gradients=gradients, source_images=sources, gradient_states=states
        )
        run(buffer)
        assert len(y) == len(dx) == len(sources) == len(states)
        found.append([values(y), values(dx)])
    np.testing.assert_array_equal(found[0], found[1])


def values(batch):
    """(N, C, H, W), however many images there are."""
    rows = []
    for one in batch:
        for index in range(one.number_of_images):
            rows.append(np.empty((one.feature_channels, one.height, one.width), np.float32))
            one.read_bytes(rows[-1], image_index=index)
    return np.stack(rows)
