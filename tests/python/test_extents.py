"""Extents that cannot be are refused, with a typed error and before anything is allocated."""

import subprocess
import sys

import numpy as np
import pytest

import traingraph as tg
from traingraph import mps

HUGE = [2**46 * 3, 2**53, 2**62, 2**62 + 4, 2**63 - 1]


@pytest.mark.parametrize("extent", HUGE)
def test_tensor(extent):
    with pytest.raises(tg.ShapeError, match=rf"at most 281474976710656 bytes but got .*{extent}"):
        tg.MLCTensor(shape=[extent, 256])


@pytest.mark.parametrize("channels", HUGE)
def test_weights(channels):
    descriptor = tg.MLCConvolutionDescriptor(
        kernel_sizes=(1, 1),
        input_feature_channel_count=256,
        output_feature_channel_count=channels,
    )
    for layer in (tg.MLCFullyConnectedLayer, tg.MLCConvolutionLayer):
        with pytest.raises(tg.ShapeError, match=str(channels)):
            layer(descriptor=descriptor)


@pytest.mark.parametrize("channels", [*HUGE, -(2**62), -(2**63)])
def test_channels_of_a_depthwise_convolution(channels):
    """Their product with the multiplier must not wrap round to a number that could be."""
    descriptor = tg.MLCConvolutionDescriptor(
        depthwise_with_kernel_width=1,
        kernel_height=1,
        input_feature_channel_count=channels,
        channel_multiplier=2**18,
    )
    assert not 0 < descriptor.output_feature_channel_count < 2**63 - 1
    with pytest.raises(tg.InvalidArgument):
        tg.MLCConvolutionLayer(descriptor=descriptor)


@pytest.mark.parametrize("channels", [*HUGE, -(2**62), -(2**63)])
def test_channels_of_a_weights_descriptor(channels):
    sizes = {
        "convolution_weights_with_width": 1,
        "height": 1,
        "input_feature_channel_count": channels,
    }
    count = {"convolution_weights_with_input_feature_channel_count": channels}
    for form in (sizes, count):
        with pytest.raises(tg.InvalidArgument):
            tg.MLCTensor(
                descriptor=tg.MLCTensorDescriptor(**form, output_feature_channel_count=2**18)
            )


@pytest.mark.parametrize("batch", HUGE)
def test_batch_size(batch):
    x = tg.MLCTensor(shape=[3, 64, 1])
    x.label = "pixels"
    graph = tg.MLCGraph()
    graph.node(tg.MLCDropoutLayer(rate=0.1, seed=1), source=x)
    run = tg.MLCInferenceGraph(graph_objects=[graph])
    run.add_inputs({"x": x})
    run.compile(device="cpu")
    with pytest.raises(tg.ShapeError, match=str(batch)):
        run.execute(inputs_data={"x": b"\0" * 1024}, batch_size=batch, options="synchronous")


BATCHES_OF_NO_MACHINE = """
import resource, sys, traingraph as tg
refusals = tg.OutOfMemory, tg.ShapeError
if sys.argv[2] == "cuda":  # whose driver reserves more addresses, and whose products say no
    refusals = *refusals, tg.Unsupported
else:
    resource.setrlimit(resource.RLIMIT_AS, (2**31,) * 2)
kernel = tg.MLCConvolutionDescriptor(
    kernel_sizes=(1, 1), input_feature_channel_count=4, output_feature_channel_count=4)
layer = getattr(tg, sys.argv[1])(descriptor=kernel)
graph = tg.MLCGraph()
shape = [2, 4, 5, 5] if "Convolution" in sys.argv[1] else [2, 4]
x, label = tg.MLCTensor(shape=shape), tg.MLCTensor(shape=shape)
graph.node(layer, source=x)
run = tg.MLCTrainingGraph(
    graph_objects=[graph], loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
    optimizer=tg.MLCSGDOptimizer(learning_rate=0.1))
run.add_inputs({"x": x}, loss_labels={"label": label})
run.compile(device=sys.argv[2])
for batch in (2**31, 2**32, 2**33 + 1):
    for call in (run.execute, run.execute_forward):
        data = {} if call == run.execute_forward else {"inputs_data": {"x": b""}}
        try: call(batch_size=batch, **data)
        except refusals as error: print(type(error).__name__)
"""


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("layer", ["MLCConvolutionLayer", "MLCFullyConnectedLayer"])
def test_batches_that_no_library_counts(layer, device):
    """An int of them wraps round, to 0 among others, and kernels divide by that."""
    done = subprocess.run(
        [sys.executable, "-c", BATCHES_OF_NO_MACHINE, layer, device], capture_output=True, text=True
    )
    assert done.returncode == 0, done
    assert len(done.stdout.splitlines()) == 6


def test_memory_of_a_tensor():
    child = (
        "import resource, traingraph as tg\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2**31,) * 2)\n"
        "try: tg.MLCTensor(shape=[2**32], fill_with_data=1.0)\n"
        "except tg.OutOfMemory as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True)
    assert "17179869184 bytes of host memory for (4294967296,)" in done.stdout, done


@pytest.mark.parametrize("count", HUGE)
def test_split(count):
    x = tg.MLCTensor(shape=[3, 2])
    part = tg.MLCGraph().node(tg.MLCSplitLayer(split_count=count, dimension=1), source=x)
    assert list(part.descriptor.shape) == [3, 1]
    lengths = tg.MLCSplitLayer(split_section_lengths=[2**62] * 4 + [2], dimension=1)
    with pytest.raises(tg.ShapeError, match="the sum"):
        tg.MLCGraph().node(lengths, source=x)


def pooled(device, kernel, kind="max", strides=(1, 1), dilations=(1, 1)):
    weights = tg.MLCTensor(shape=[1, 1, 4, 4], fill_with_data=1.0)
    x = tg.MLCTensor(shape=[1, 1, 4, 4])
    graph = tg.MLCGraph()
    y = graph.node(tg.MLCArithmeticLayer(operation="multiply"), sources=[x, weights])
    descriptor = tg.MLCPoolingDescriptor(
        type=kind,
        kernel_sizes=kernel,
        strides=strides,
        dilation_rates=dilations,
        padding_policy="same",
    )
    y = graph.node(tg.MLCPoolingLayer(descriptor=descriptor), source=y)
    train = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="sum"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=0.1),
    )
    train.add_inputs({"x": x}, loss_labels={"y": tg.MLCTensor(shape=y.descriptor.shape)})
    train.set_training_tensor_parameters([tg.MLCTensorParameter(tensor=weights)])
    train.compile(device=device)
    train.execute(
        inputs_data={"x": np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)},
        loss_labels_data={"y": np.zeros(y.descriptor.shape, np.float32)},
        options="synchronous",
    )
    train.synchronize_updates()
    return np.array(weights.data)


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_index_of_a_window(device):
    with pytest.raises(tg.ShapeError, match="65537x65537"):
        pooled(device, (65537, 65537))
    assert np.array_equal(pooled(device, (40001, 40001)), pooled(device, (9, 9)))


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_taps_outside_are_not_visited(device):
    if device == "cuda":
        with pytest.raises(tg.Unsupported, match=r"an extent above 2\^29"):
            pooled(device, (2**31 - 1, 2**31 - 1), "average")
        return
    wide = pooled(device, (2**31 - 1, 2**31 - 1), "average")
    assert np.allclose(wide, pooled(device, (9, 9), "average"), rtol=1e-5)


@pytest.mark.parametrize("number", [2**31, *HUGE])
@pytest.mark.parametrize("name", ["kernel_sizes", "strides", "dilation_rates"])
def test_window(number, name):
    arguments = {"kernel_sizes": (2, 2), "strides": (1, 1), name: (number, 1)}
    with pytest.raises(tg.InvalidArgument, match=rf"2147483647 or less but got {number}x1"):
        tg.MLCPoolingLayer(descriptor=tg.MLCPoolingDescriptor(type="max", **arguments))


def test_coder_that_nests_for_ever():
    class Coder:
        def decode(self, *, for_key):
            loop = []
            loop.append(loop)
            return loop

        def mps_mtl_device(self):
            return mps.MTLDevice(device="cpu")

    with pytest.raises(tg.InvalidArgument, match="at most 64 levels"):
        mps.MPSCNNSoftMax(coder=Coder())


@pytest.mark.parametrize("number", [2**31, *HUGE])
@pytest.mark.parametrize("name", ["kernel_width", "stride_in_pixels_x"])
def test_window_of_an_mps_kernel(number, name):
    window = {"kernel_width": 2, "kernel_height": 2, name: number}
    with pytest.raises(tg.InvalidArgument, match=rf"2147483647 or less but got .*{number}"):
        mps.MPSCNNPoolingMax(device=mps.MTLDevice(device="cpu"), **window)
