"""The precision TF32: a flag on products, exact where a backend has no such units."""

import re

import numpy as np
import pytest

import traingraph as tg
from op_harness import testing
from small_layers import convolution, dense, regression


def trained(precision, device="reference"):
    """A convolution and a matrix product, with their gradients, and the loss of two steps."""
    tg.MLCPlatform.set_rng_seed_to(5)
    graph = tg.MLCGraph()
    x = tg.MLCTensor(shape=[2, 2, 6, 6])
    layers = [
        convolution(2, 4),
        convolution(4, 4, padding_policy="valid"),
        tg.MLCReshapeLayer(shape=[2, 64]),
        dense(64, 3),
    ]
    result = tg.sequential(graph, x, layers)
    training = regression(graph, x, result)
    training.compile(device=device, precision=precision)
    rng = np.random.default_rng(0)
    data = {
        "inputs_data": {"x": rng.normal(size=(2, 2, 6, 6)).astype(np.float32)},
        "loss_labels_data": {"y": rng.normal(size=(2, 3)).astype(np.float32)},
    }
    losses = [training.execute(**data, options="synchronous").result for _ in range(2)]
    return training, np.array(losses)


def test_every_product_carries_the_flag_and_nothing_else_does():
    training, _ = trained("tf32")
    for line in training.compiled_description().splitlines():
        op = re.search(r"= (\w+)\(", line)
        if op:
            product = op.group(1) == "matmul" or op.group(1).startswith("convolution")
            assert ("tf32=yes" in line) is product


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_a_backend_without_such_units_computes_exactly(device):
    exact, losses = trained("float32", device)
    assert "tf32" not in exact.compiled_description()
    assert losses.tobytes() == trained("tf32", device)[1].tobytes()


def test_precision_is_readable_and_belongs_to_the_compile():
    training, _ = trained(tg.Precision.TF32)
    assert training.precision is tg.Precision.TF32
    training.compile(device="reference")
    assert training.precision is tg.Precision.FLOAT32
    with pytest.raises(ValueError, match='"tf32"'):
        training.compile(device="reference", precision="float8")
    assert training.precision is tg.Precision.FLOAT32


def test_another_batch_size_keeps_the_precision():
    graph = tg.MLCGraph()
    x = tg.MLCTensor(shape=[4, 3])
    descriptor = tg.MLCConvolutionDescriptor(
        kernel_sizes=(1, 1), input_feature_channel_count=3, output_feature_channel_count=2
    )
    graph.node(tg.MLCFullyConnectedLayer(descriptor=descriptor), source=x)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    inference.compile(device="reference", precision="tf32")
    data = {"x": np.ones((8, 3), np.float32)}
    inference.execute(inputs_data=data, batch_size=8, options="synchronous")
    text = inference.compiled_description()
    assert "(N=8, 3)" in text
    assert "tf32=yes" in text


@pytest.mark.parametrize("precision", ["tf32", "mixed_bfloat16", "mixed_float16"])
def test_float64_is_exact_alone(precision):
    graph = tg.MLCGraph()
    x = tg.MLCTensor(shape=[4, 3], data_type="float64")
    graph.node(tg.MLCActivationLayer.relu(), source=x)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    expected = f"float32 tensors for precision {precision} but got float64"
    with pytest.raises(tg.DataTypeError, match=expected):
        inference.compile(device="reference", precision=precision)
    inference.compile(device="reference")
    assert inference.precision is tg.Precision.FLOAT32


def test_an_op_says_its_flag():
    graph = testing.Graph()
    a, b = graph.add_input("float32", (2, 3)), graph.add_input("float32", (3, 4))
    graph.add_op("matmul", {"tf32": True}, [a, b])
    assert "tf32=yes" in str(graph)
