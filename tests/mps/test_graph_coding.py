"""Graphs as bytes and copies, and their runs without a command buffer of the program's."""

import json
import threading

import numpy as np
import pytest
from graphs import encode, graph_of, source
from kernels import Normalization, Weights, array, batch, commands, image, run

from traingraph import DataTypeError, InvalidArgument, Unsupported, mps

RANDOM = np.random.default_rng(23)
C = 4


def archived(graph):
    return mps.NSKeyedArchiver.archived_data(with_root_object=graph)


def of_bytes(graph, on=None):
    return mps.MPSKeyedUnarchiver.unarchived_object_of_class(
        mps.MPSNNGraph, from_data=archived(graph), device=graph.device if on is None else on
    )


class Learned(Weights):
    """Counts its copies and is trained nowhere."""

    copies = 0

    def copy(self, *, device):
        Learned.copies += 1
        return self


class Statistics(Normalization):
    def mean(self):
        return np.arange(C, dtype=np.float32)

    def variance(self):
        return np.arange(1, C + 1, dtype=np.float32)


def weights(o=C, i=C, k=3):
    return Learned(RANDOM.normal(size=(o, k, k, i)), RANDOM.normal(size=o), name="conv")


def normalization():
    return Statistics(RANDOM.normal(size=C), RANDOM.normal(size=C))


def several(x):
    """Many kinds of forward nodes, two of them over one data source, and an exported image."""
    shared = weights()
    one = mps.MPSCNNConvolutionNode(source=x, weights=shared)
    one.label, one.padding_policy = "first", mps.MPSNNPaddingMethod.SIZE_VALID_ONLY
    two = mps.MPSCNNConvolutionNode(source=one.result_image, weights=shared)
    norm = mps.MPSCNNBatchNormalizationNode(source=two.result_image, data_source=normalization())
    descriptor = mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(with_type="elu", a=0.5)
    neuron = mps.MPSCNNNeuronNode(source=norm.result_image, descriptor=descriptor)
    descriptor.a = 9  # what was given stays as it was
    pool = mps.MPSCNNPoolingAverageNode(source=neuron.result_image, filter_size=3, stride=1)
    pool.result_image.export_from_graph = True
    pool.result_image.handle = "pooled"
    pool.result_image.makes_temporary_images = False
    sources = [neuron.result_image, pool.result_image]
    joined = mps.MPSNNConcatenationNode(sources=sources)
    sources.clear()
    sum_ = mps.MPSNNAdditionNode(left_source=neuron.result_image, right_source=pool.result_image)
    sum_.secondary_scale, sum_.maximum_value = -0.5, 1.5
    pad = mps.MPSNNPadNode(source=sum_.result_image, padding_size_before=(1, 0, 0),
                           padding_size_after=(0, 1, 0), edge_mode="constant")  # fmt: skip
    pad.fill_value = 3.0
    return [joined.result_image, mps.MPSCNNSoftMaxNode(source=pad.result_image).result_image]


def several_gradients(x):
    """All that training_graph makes: several readers, both gradients of a product, a loss."""
    sigmoid = mps.MPSCNNNeuronSigmoidNode(source=x)
    convolution = mps.MPSCNNConvolutionNode(source=sigmoid.result_image, weights=weights())
    convolution.training_style = mps.MPSNNTrainingStyle.UPDATE_DEVICE_NONE
    product = mps.MPSNNMultiplicationNode(
        left_source=convolution.result_image, right_source=sigmoid.result_image
    )
    joined = mps.MPSNNConcatenationNode(sources=[product.result_image, sigmoid.result_image])
    error = mps.MPSNNForwardLossNode(
        source=joined.result_image, labels=source("t"),
        loss_descriptor=mps.MPSCNNLossDescriptor.cnn_loss_descriptor(
            with_type="mean_squared_error", reduction_type="mean"
        ),
    )  # fmt: skip
    (last,) = mps.MPSNNInitialGradientNode(source=error.result_image).training_graph()
    return [error.result_image, last.result_image]


GRAPHS = {"forward": several, "training": several_gradients}


def given(name):
    arrays = {"x": RANDOM.normal(size=(2, C, 6, 5))}
    return arrays if name == "forward" else arrays | {"t": RANDOM.normal(size=(2, 2 * C, 6, 5))}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("make", ["copy", "bytes"])
def test_another_graph_computes_the_same(name, make):
    graph = graph_of(mps.MTLDevice(device="reference"), *GRAPHS[name](source("x")))
    graph.label = "net"
    Learned.copies = 0
    other = graph.copy() if make == "copy" else of_bytes(graph)
    assert other is not graph
    assert Learned.copies == (1 if make == "copy" else 0)
    assert (other.label, other.makes_temporary_images) == ("net", False)
    for key in ("source_image_handles", "intermediate_image_handles", "format"):
        assert getattr(other, key) == getattr(graph, key)
    arrays = given(name)
    (results, _), (expected, _) = encode(other, arrays), encode(graph, arrays)
    assert len(results) == len(expected) == (3 if name == "forward" else 2)
    for got, want in zip(results, expected, strict=True):
        np.testing.assert_array_equal(got, want)
        assert np.abs(want).max() > 0
    again = of_bytes(other)
    np.testing.assert_array_equal(encode(again, arrays)[0][0], expected[0])


def test_another_device():
    graph = graph_of(mps.MTLDevice(device="reference"), *several(source("x")), dtype="float32")
    arrays = {"x": RANDOM.normal(size=(2, C, 6, 5)).astype(np.float32)}
    on = mps.MTLDevice(device="cpu")
    other = graph.copy(device=on)
    assert other.device == on
    assert of_bytes(graph, on).device == on
    expected, found = encode(graph, arrays)[0], encode(other, arrays)[0]
    for want, got in zip(expected, found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_a_loss_with_labels_trains_on():
    """A copy has the data source's own update, and starts with what the source gives."""
    device = mps.MTLDevice(device="cpu")

    class Trained(Weights):
        def __init__(self):
            super().__init__(np.zeros((1, 1, 1, 1), np.float32), np.zeros(1, np.float32))
            self.optimizer = mps.MPSNNOptimizerStochasticGradientDescent(
                device=device, learning_rate=0.125
            )

        def copy(self, *, device):
            return Trained()

        def update(self, command_buffer, gradient_state, source_state):
            self.state = source_state
            self.optimizer.encode(
                command_buffer, convolution_gradient_state=gradient_state,
                convolution_source_state=source_state, result_state=source_state,
            )  # fmt: skip
            return source_state

    line = Trained()
    full = mps.MPSCNNFullyConnectedNode(source=source("x"), weights=line)
    loss = mps.MPSCNNLossNode(
        source=full.result_image,
        loss_descriptor=mps.MPSCNNLossDescriptor.cnn_loss_descriptor(
            with_type="mean_squared_error", reduction_type="mean"
        ),
    )
    loss.input_labels.handle = "truth"
    (last,) = loss.training_graph()
    graph = mps.MPSNNGraph(
        device=device, result_image=last.result_image, result_image_is_needed=False
    )
    x, y = (batch(device, np.full((1, 1, 1, 1), k, np.float32)) for k in (1, 5))
    labels = [
        mps.MPSCNNLossLabels(device=device, loss_image_size=(1, 1, 1), labels_image=one)
        for one in y
    ]

    def step(one):
        buffer = commands(device)
        assert one.encode_batch(buffer, source_images=[x], source_states=[labels]) is None
        run(buffer)
        return float(array([labels[0].loss_image()])[0, 0, 0, 0])

    assert step(graph) == 25
    assert step(graph) == 25 / 4  # weight and bias are 1.25 each
    copy, archive = graph.copy(), of_bytes(graph)
    assert copy.source_state_handles == archive.source_state_handles == ["truth"]
    assert not copy.result_image_is_needed
    assert [step(copy), step(copy)] == [25, 25 / 4]
    assert [step(archive), step(archive)] == [25, 25]  # bytes know no update


def test_call_backs_and_handles():
    class Handle:
        def label(self):
            return "the source"

    class Alpha:
        def alpha(self, source_image, destination_image):
            return 2.0

    handle, call = Handle(), Alpha()
    node = mps.MPSNNGramMatrixCalculationNode(source=mps.MPSNNImageNode(handle=handle), alpha=3.0)
    graph = graph_of(mps.MTLDevice(device="reference"), node.result_image)
    assert graph.copy().source_image_handles == [handle]
    assert of_bytes(graph).source_image_handles == ["the source"]
    node.property_call_back = call
    x = RANDOM.normal(size=(1, 2, 2, 2))
    for one, factor in ((graph, 3), (graph.copy(), 2)):  # of the time when it was made
        (result,), _ = encode_only(one, x)
        flat = x.reshape(2, 4)
        np.testing.assert_allclose(result.ravel(), factor * (flat @ flat.T).ravel(), rtol=1e-6)
    with pytest.raises(Unsupported, match="property_call_back"):
        archived(graph)


def encode_only(graph, x):
    """For a graph whose source has a handle that is no text."""
    buffer = commands(graph.device)
    result = graph.encode_batch(buffer, source_images=[batch(graph.device, x)])
    run(buffer)
    return [array(result)], []


def test_damaged_bytes():
    graph = graph_of(mps.MTLDevice(device="cpu"), *several_gradients(source("x")))
    content = json.loads(archived(graph))

    def read(values):
        data = json.dumps({"class": "MPSNNGraph", "values": values}).encode()
        return mps.MPSKeyedUnarchiver.unarchived_object_of_class(
            mps.MPSNNGraph, from_data=data, device="cpu"
        )

    read(content["values"])
    for key in content["values"]:
        with pytest.raises(InvalidArgument, match="MPSNNGraph"):
            read({k: v for k, v in content["values"].items() if k != key})
    for change in ({"class": "MPSImage"}, {"class": "no node"}, {"which": 7}, {"gradient": 3},
                   {"properties": {"alpha": "much"}}):  # fmt: skip
        values = json.loads(json.dumps(content["values"]))
        for node in values["nodes"]:
            node |= change
        with pytest.raises(InvalidArgument, match="MPSNNGraph"):
            read(values)
    with pytest.raises(DataTypeError, match="expected MPSCNNNeuron but got MPSNNGraph"):
        mps.MPSKeyedUnarchiver.unarchived_object_of_class(
            mps.MPSCNNNeuron, from_data=archived(graph), device="cpu"
        )


def test_archives_from_before_concatenations_left_zeros():
    on = mps.MTLDevice(device="reference")
    sources = [source("x"), source("y")]
    node = mps.MPSNNConcatenationNode(sources=sources)
    content = json.loads(archived(graph_of(on, node.result_image)))
    assert content["values"]["nodes"][-1]["properties"].pop("packs_channels") is False
    older = mps.MPSKeyedUnarchiver.unarchive_object(
        with_data=json.dumps(content).encode(), device=on
    )
    given = {name: RANDOM.normal(size=(2, 3, 2, 2)) for name in ("x", "y")}
    (packed,), _ = encode(older, given)
    np.testing.assert_array_equal(packed, np.concatenate([given["x"], given["y"]], 1))


# --- execute_async and read counts ---------------------------------------------------------------


def test_execute_async():
    device = mps.MTLDevice(device="cpu")
    node = mps.MPSCNNNeuronAbsoluteNode(source=source("x"))
    graph = mps.MPSNNGraph(device=device, result_image=node.result_image)
    x, seen, done = RANDOM.normal(size=(1, 3, 2, 2)).astype(np.float32), [], threading.Event()

    def handler(result, error):
        seen.append((result, error))
        done.set()

    result = graph.execute_async(with_source_images=[image(device, x)], completion_handler=handler)
    assert done.wait(60)
    assert seen == [(result, None)]
    assert not isinstance(result, mps.MPSTemporaryImage)
    np.testing.assert_array_equal(array([result]), np.abs(x))
    assert graph.makes_temporary_images
    again = graph.execute_async(with_source_images=[image(device, -x)])
    np.testing.assert_array_equal(array([again]), np.abs(x))
    silent = mps.MPSNNGraph(
        device=device, result_image=node.result_image, result_image_is_needed=False
    )
    assert silent.execute_async(with_source_images=[image(device, x)]) is None
    with pytest.raises(ValueError, match="a batch for each of image 'x'"):
        graph.execute_async(with_source_images=[])
    with pytest.raises(TypeError, match="completion_handler"):
        graph.execute_async(with_source_images=[image(device, x)], completion_handler=3)
    assert graph.makes_temporary_images


def test_read_counts_of_sources():
    """Three nodes read a temporary source; the graph lowers its count by what it says."""
    device = mps.MTLDevice(device="cpu")
    x = source("x")
    absolute = mps.MPSCNNNeuronAbsoluteNode(source=x)
    sum_ = mps.MPSNNAdditionNode(left_source=absolute.result_image, right_source=x)
    graph = mps.MPSNNGraph(device=device, result_image=sum_.result_image)
    buffer = commands(device)
    kernel = mps.MPSCNNSoftMax(device=device)
    temporary = kernel.encode(buffer, source_image=image(device, np.ones((1, 4, 1, 1), np.float32)))
    temporary.read_count = 5
    graph.encode(buffer, source_images=[temporary])
    assert 5 - temporary.read_count == graph.read_count_for_source_image(at_index=0)
    for bad in (-1, 1):
        with pytest.raises(ValueError, match="index of one of 1 source images"):
            graph.read_count_for_source_image(at_index=bad)
    with pytest.raises(ValueError, match="index of one of 0 source states"):
        graph.read_count_for_source_state(at_index=0)
    buffer.commit()
