"""A network of most families of nodes: down, up again beside what was before, a loss node."""

import numpy as np
import pytest
from gradients import near, random
from graphs import differences, encode, graph_of, source
from kernels import Normalization, Weights, array, batch, commands, run
from test_nodes import TrainedNormalization, TrainedWeights, loss_descriptor
from test_trained_nodes import OnTheDevice

from traingraph import mps

SHAPE = (2, 2, 4, 6)


class Plain(OnTheDevice):
    def update_gamma_and_beta(self, command_buffer, state_batch):
        return None


def weights(seed, o, kernel, i, train, stride, dtype):
    array = (random(seed, o, *kernel, i) / np.sqrt(i * np.prod(kernel))).astype(dtype)
    given = {"stride_in_pixels_x": stride, "stride_in_pixels_y": stride}
    biases = np.zeros(o, dtype)
    if train is None:
        return Weights(array, biases, **given)
    return TrainedWeights(array, biases, **given).train(train, "adam", [array.size, o])


class Network:
    def __init__(self, on, train, dtype):
        def sources(*sizes, stride=1):
            return weights(*sizes, on if train else None, stride, dtype)

        norm = (np.ones(4), np.zeros(4), 1e-3)
        data = Normalization(*norm)
        if train:
            data = TrainedNormalization(*norm).train(on, "adam", [4, 4])
        group = (OnTheDevice if train else Plain)().train(on)
        x = source("x")
        self.down = mps.MPSCNNConvolutionNode(source=x, weights=sources(1, 4, (3, 3), 2, stride=2))
        node = mps.MPSCNNBatchNormalizationNode(source=self.down.result_image, data_source=data)
        node.flags = "calculate_statistics_always"
        node = mps.MPSCNNNeuronSoftPlusNode(source=node.result_image)
        self.up = mps.MPSCNNConvolutionTransposeNode(
            source=node.result_image, weights=sources(3, 2, (3, 3), 4, stride=2),
            convolution_gradient_state=self.down.convolution_gradient_state,
        )  # fmt: skip
        both = mps.MPSNNConcatenationNode(sources=[self.up.result_image, x])
        both.packs_channels = True
        group = mps.MPSCNNGroupNormalizationNode(source=both.result_image, data_source=group)
        gate = mps.MPSCNNNeuronSigmoidNode(source=group.result_image)
        mean = mps.MPSNNReductionSpatialMeanNode(source=gate.result_image)
        self.gated = mps.MPSNNMultiplicationNode(left_source=group.result_image,
                                                 right_source=mean.result_image)  # fmt: skip
        self.gated.secondary_stride_in_pixels_x = self.gated.secondary_stride_in_pixels_y = 0
        rest = mps.MPSNNSubtractionNode(
            left_source=self.gated.result_image, right_source=both.result_image
        )
        rest.secondary_scale = 0.5
        small = mps.MPSCNNPoolingAverageNode(source=rest.result_image, filter_size=2)
        small.padding_policy = "size_valid_only"
        full = mps.MPSCNNFullyConnectedNode(
            source=small.result_image, weights=sources(5, 3, (2, 3), 4)
        )
        self.loss = mps.MPSNNForwardLossNode(
            source=full.result_image, labels=source("t"), loss_descriptor=loss_descriptor()
        )
        self.ones = mps.MPSNNInitialGradientNode(source=self.loss.result_image)


def given(dtype):
    x = random(7, *SHAPE).astype(dtype)
    t = np.zeros((2, 3, 1, 1), dtype)
    t[0, 1] = t[1, 2] = 1
    return {"x": x, "t": t}


def test_its_gradient_against_differences():
    on = mps.MTLDevice(device="reference")
    network = Network(on, False, np.float64)
    (last,) = network.ones.training_graph()
    # The image is read by the first convolution and by the concatenation.
    assert isinstance(last, mps.MPSNNAdditionNode)
    data = given(np.float64)
    network.gated.result_image.export_from_graph = True
    network.gated.result_image.makes_temporary_images = False
    (dx, loss, gated), _ = encode(graph_of(on, last.result_image, network.loss.result_image), data)
    assert gated.shape == (2, 4, 4, 6)
    expected = differences(on, network.loss.result_image, data, "x", np.ones_like(loss))
    near(dx, expected)


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_it_learns_and_compiles_once(device):
    on = mps.MTLDevice(device=device)
    network = Network(on, True, np.float32)
    (last,) = network.ones.training_graph()
    graph = graph_of(on, network.loss.result_image, last.result_image, dtype="float32")
    data = given(np.float32)
    losses = [encode(graph, data)[0][0][0].item()]
    before = on.compilations
    losses += [encode(graph, data)[0][0][0].item() for _ in range(30)]
    assert on.compilations == before
    assert losses[-1] < 0.2 * losses[0]


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_steps_in_one_buffer_are_steps_one_after_another(device):
    """What is encoded behind an update reads what it has made, and nothing before does."""
    on = mps.MTLDevice(device=device)
    data = given(np.float32)
    found = []
    for together in (False, True):
        network = Network(on, True, np.float32)
        (last,) = network.ones.training_graph()
        graph = graph_of(on, network.loss.result_image, last.result_image, dtype="float32")
        buffers = [commands(on)] * 3 if together else [commands(on) for _ in range(3)]
        losses = []
        for buffer in buffers:
            sources = [batch(on, data[name]) for name in graph.source_image_handles]
            losses.append(graph.encode_batch(buffer, source_images=sources))
        for buffer in dict.fromkeys(buffers):
            run(buffer)
        found.append([array(one)[0].item() for one in losses])
    assert found[0][2] < found[0][1] < found[0][0]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)
