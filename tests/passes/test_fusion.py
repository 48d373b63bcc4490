"""Fusion and layouts as a compiled graph shows them."""

import re

import numpy as np
import pytest

import traingraph as tg
from device_rows import APPLE


def convolution(inputs, outputs, weights=None):
    descriptor = tg.MLCConvolutionDescriptor(
        kernel_sizes=(3, 3),
        input_feature_channel_count=inputs,
        output_feature_channel_count=outputs,
    )
    if weights is None:
        return tg.MLCConvolutionLayer(descriptor=descriptor)
    biases = tg.MLCTensor(data=np.zeros((1, outputs, 1, 1), np.float32))
    return tg.MLCConvolutionLayer(
        weights=tg.MLCTensor(data=weights), biases=biases, descriptor=descriptor
    )


def compiled(layers, options="none", device="cpu", shape=(4, 16, 8, 8), training=False):
    graph = tg.MLCGraph()
    x = tg.MLCTensor(shape=list(shape))
    result = tg.sequential(graph, x, layers)
    if training:
        label = tg.MLCTensor(shape=list(result.descriptor.shape))
        whole = tg.MLCTrainingGraph(
            graph_objects=[graph],
            loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
            optimizer=tg.MLCSGDOptimizer(learning_rate=0.1),
        )
        whole.add_inputs({"x": x}, loss_labels={"y": label})
    else:
        whole = tg.MLCInferenceGraph(graph_objects=[graph])
        whole.add_inputs({"x": x})
    whole.compile(options=options, device=device)
    return whole


def ops(graph, phase="forward"):
    """Names of the ops of a phase, in order."""
    text = graph.compiled_description() + "\nend:"
    block = re.search(rf"^{phase}:\n(.*?)^\w+:", text, re.S | re.M)
    return re.findall(r"^  .*? = (\w+)\(", block.group(1), re.M) if block else []


def test_convolution_takes_bias_and_activation():
    graph = compiled([convolution(16, 16), tg.MLCActivationLayer.relu()])
    assert "elementwise" not in ops(graph)
    assert "relu" in graph.compiled_description()


def test_batch_norm_takes_its_activation_forward_and_gradient():
    layers = [
        convolution(16, 16),
        tg.MLCBatchNormalizationLayer(feature_channel_count=16),
        tg.MLCActivationLayer.relu(),
        convolution(16, 16),
    ]
    graph = compiled(layers, training=True)
    text = graph.compiled_description()
    assert re.search(r"= batch_norm\([^\n]*relu\(", text)
    assert re.search(r"= batch_norm_gradient\([^\n]*relu_gradient\(", text)


@pytest.mark.parametrize("device", ["cpu"])
def test_an_activation_after_a_reshape_joins_the_product_before_it(device):
    """And the losses are those without fusion."""

    def trained(options):
        random = np.random.default_rng(3)
        x = tg.MLCTensor(shape=[4, 16])
        graph = tg.MLCGraph()
        weights = tg.MLCTensor(data=random.normal(size=(1, 16 * 8, 1, 1)).astype(np.float32))
        descriptor = tg.MLCConvolutionDescriptor(
            kernel_sizes=(1, 1), input_feature_channel_count=16, output_feature_channel_count=8
        )
        full = tg.MLCFullyConnectedLayer(weights=weights, biases=None, descriptor=descriptor)
        y = graph.node(full, source=x)
        y = graph.reshape(shape=[4, 8, 1, 1], source=y)
        y = graph.node(tg.MLCActivationLayer.relu(), source=y)
        y = graph.node(tg.MLCActivationLayer.tanh(), source=y)
        whole = tg.MLCTrainingGraph(
            graph_objects=[graph],
            loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
            optimizer=tg.MLCSGDOptimizer(learning_rate=0.1),
        )
        whole.add_inputs({"x": x}, loss_labels={"y": tg.MLCTensor(shape=[4, 8, 1, 1])})
        whole.compile(device=device, options=options)
        data = {"x": random.normal(size=(4, 16)).astype(np.float32)}
        labels = {"y": np.zeros((4, 8, 1, 1), np.float32)}
        calls = [
            whole.execute(inputs_data=data, loss_labels_data=labels, options="synchronous")
            for _ in range(3)
        ]
        return whole.compiled_description(), [float(call.result) for call in calls]

    fused, losses = trained("none")
    apart, expected = trained("disable_layer_fusion")
    np.testing.assert_allclose(losses, expected, rtol=1e-6)
    joined = r"= matmul\([^\n]*relu\("
    # Products by Apple's libraries take nothing behind them.
    assert bool(re.search(joined, fused)) == (device not in APPLE)
    assert not re.search(joined, apart)


def test_only_the_gradient_of_a_relu_alone_may_work_its_result_out_again():
    """With beta behind the prologue; where something was added before the relu, it has none."""

    def operands_of_gradient(added):
        source = tg.MLCTensor(shape=[4, 16, 8, 8])
        graph = tg.MLCGraph()
        x = graph.node(convolution(16, 16), source=source)
        x = graph.node(tg.MLCBatchNormalizationLayer(feature_channel_count=16), source=x)
        if added:
            x = graph.node(tg.MLCArithmeticLayer(operation="add"), sources=[x, source])
        x = graph.node(tg.MLCActivationLayer.relu(), source=x)
        graph.node(convolution(16, 16), source=x)
        whole = tg.MLCTrainingGraph(
            graph_objects=[graph],
            loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
            optimizer=tg.MLCSGDOptimizer(learning_rate=0.1),
        )
        label = tg.MLCTensor(shape=[4, 16, 8, 8])
        whole.add_inputs({"x": source}, loss_labels={"y": label})
        whole.compile(device="cpu")
        (call,) = re.findall(r"= batch_norm_gradient\(([^)]*)\)", whole.compiled_description())
        return call.split(", ")

    assert len(operands_of_gradient(added=False)) == 7
    assert len(operands_of_gradient(added=True)) == 6


def test_fusion_can_be_switched_off_and_changes_no_result():
    layers = [convolution(16, 16), tg.MLCActivationLayer.relu()]
    x = np.random.default_rng(0).normal(size=(4, 16, 8, 8)).astype(np.float32)
    weights = layers[0].weights.data.copy()
    fused = compiled(layers)
    first = fused.execute(inputs_data={"x": x}, options="synchronous").result
    plain = compiled(
        [convolution(16, 16, weights), tg.MLCActivationLayer.relu()],
        options="disable_layer_fusion",
    )
    second = plain.execute(inputs_data={"x": x}, options="synchronous").result
    assert len(ops(plain)) > len(ops(fused))
    np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-5)


def test_a_chain_of_elementwise_layers_is_one_op():
    graph = compiled(
        [tg.MLCActivationLayer.tanh(), tg.MLCActivationLayer.sigmoid(), tg.MLCActivationLayer.elu()]
    )
    assert ops(graph) == ["elementwise"]


def test_preferred_layouts_flow_through_the_network():
    layers = []
    for _ in range(3):
        layers += [
            convolution(16, 16),
            tg.MLCBatchNormalizationLayer(feature_channel_count=16),
            tg.MLCActivationLayer.relu(),
        ]
    graph = compiled(layers, training=True)
    forward = ops(graph)
    # Input and label arrive plain; nothing is converted in between.
    assert forward.count("reorder") <= 2
    assert forward[0] == "reorder"


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_the_null_backend_plans_like_the_others(device):
    layers = [convolution(16, 16), tg.MLCActivationLayer.relu()]
    planned = compiled(layers, device="null", training=True)
    real = compiled(
        [convolution(16, 16), tg.MLCActivationLayer.relu()], device=device, training=True
    )
    assert planned.device_memory_size > 0
    assert real.device_memory_size > 0
