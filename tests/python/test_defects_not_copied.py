"""Defects of Apple's framework, one test each for what happens here instead."""

import gc
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import traingraph as tg

Make = Callable[..., Any]


def descriptor(inputs: int, outputs: int, kernel: tuple = (1, 1)) -> tg.MLCConvolutionDescriptor:
    return tg.MLCConvolutionDescriptor(
        kernel_sizes=kernel,
        input_feature_channel_count=inputs,
        output_feature_channel_count=outputs,
    )


def test_reshape_to_another_count_is_refused() -> None:
    """Apple: any count of elements is accepted."""
    x = tg.MLCTensor(shape=[2, 3])
    layer = tg.MLCReshapeLayer(shape=[7])
    layer.label = "flat"
    with pytest.raises(ValueError, match=r"6 elements .* but got 7") as caught:
        tg.MLCGraph().node(layer, source=x)
    assert "'flat'" in str(caught.value)


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda x: tg.MLCGraph().concatenate([x, x], dimension=2), "dimension"),
        (lambda x: tg.MLCGraph().concatenate([x, x], dimension=-1), "dimension"),
        (lambda x: tg.MLCGraph().reshape([], source=x), "extent"),
        (lambda x: tg.MLCGraph().reshape([0, 6], source=x), "extent"),
        (lambda x: tg.MLCTensorDescriptor(shape=[]), "extent"),
        (lambda x: tg.MLCGraph().transpose([1], source=x), "axis"),
        (lambda x: tg.MLCGraph().transpose([0, 1, 2, 3], source=x), "axis"),
    ],
)
def test_shapes_out_of_range_raise_typed_errors(build: Callable, text: str) -> None:
    """Apple: uncaught exceptions of the containers inside."""
    with pytest.raises(ValueError, match=text) as caught:
        build(tg.MLCTensor(shape=[2, 3]))
    assert isinstance(caught.value, tg.InvalidArgument)


def test_split_lengths_sum_to_the_extent() -> None:
    """Apple: 1 + 5 over an extent of 3 is accepted."""
    x = tg.MLCTensor(shape=[2, 3])
    with pytest.raises(ValueError, match=r"3.*6|6.*3"):
        tg.MLCGraph().split(source=x, split_section_lengths=[1, 5], dimension=1)


def test_quantizing_outside_a_graph_computes() -> None:
    """Apple: every element is zero."""
    x = tg.MLCTensor(data=np.array([-1.0, 0.25, 2.0], np.float32))
    q = x.quantized(to="int8", scale=0.25, bias=1)
    assert q.data.tolist() == [-3, 2, 9]
    assert q.dequantized(to="float32", scale=0.25, zero_point=1).data.tolist() == [-1, 0.25, 2]


def test_supported_data_types_are_told_truthfully() -> None:
    """Apple: false for every type and device."""
    supports = tg.MLCFullyConnectedLayer.supports_data_type
    assert supports("float32", on="cpu")
    assert not supports("int8", on="cpu")


def test_compiling_an_empty_graph_says_so() -> None:
    """Apple: an exception of a container."""
    for graph in (tg.MLCTrainingGraph, tg.MLCInferenceGraph):
        with pytest.raises(tg.InvalidArgument, match="at least one layer but the graph has none"):
            graph(graph_objects=[tg.MLCGraph()]).compile(device="cpu")


def test_skipping_input_data_is_honoured(regression: Make) -> None:
    """Apple: the option raises on a plain execute."""
    r = regression(tg.MLCSGDOptimizer(learning_rate=0.05))
    skip = tg.MLCExecutionOptions.SKIP_WRITING_INPUT_DATA_TO_DEVICE
    options = skip | tg.MLCExecutionOptions.SYNCHRONOUS
    with pytest.raises(tg.InvalidArgument, match="'x', 'y'"):
        r.training.execute(options=options)
    expected = regression(tg.MLCSGDOptimizer(learning_rate=0.05))
    assert r.step(options="synchronous").result == expected.step(options="synchronous").result
    again = r.training.execute(options=options).result
    assert again == expected.step(options="synchronous").result
    # What is given along is skipped, as the option says.
    other = {"inputs_data": {"x": np.full((4, 1), 9, np.float32)}}
    third = r.training.execute(options=options, **other).result
    assert third == expected.step(options="synchronous").result


def test_a_forward_without_inputs_names_them(regression: Make) -> None:
    """Apple: an exception of a container."""
    r = regression()
    r.training.bind_and_write_data(r.data, for_inputs={"x": r.x})
    with pytest.raises(tg.InvalidArgument, match=r"data for 'y'"):
        r.training.execute_forward(options="synchronous")


def test_unknown_names_list_the_known_ones(regression: Make) -> None:
    """Apple: unknown names and tensors are accepted and answered with true."""
    r = regression()
    with pytest.raises(ValueError, match=r"'x'.*'z'"):
        r.training.execute(inputs_data={"z": r.data["x"]}, loss_labels_data=r.labels)
    with pytest.raises(ValueError, match=r"'y'.*'z'"):
        r.training.execute(inputs_data=r.data, loss_labels_data={"z": r.labels["y"]})
    with pytest.raises(ValueError, match=r"'result'.*'z'"):
        r.step(outputs_data={"z": np.zeros((4, 1), np.float32)})
    with pytest.raises(ValueError, match=r"'x'.*'z'"):
        r.training.bind_and_write_data({"z": r.data["x"]}, for_inputs={"x": r.x})
    foreign = tg.MLCTensor(shape=[4, 1])
    foreign.label = "foreign"
    with pytest.raises(ValueError, match="of this graph but got tensor 'foreign'"):
        r.training.bind_and_write_data({"z": r.data["x"]}, for_inputs={"z": foreign})
    with pytest.raises(ValueError, match=f"but got tensor '{r.weights.label}'"):
        r.training.bind_and_write_data({"w": np.ones((1, 1))}, for_inputs={"w": r.weights})
    with pytest.raises(ValueError, match="'foreign' for 'out'"):
        r.training.add_outputs({"out": foreign})
    with pytest.raises(ValueError, match="'x' already names another tensor"):
        r.training.add_inputs({"x": tg.MLCTensor(shape=[4, 1])})


def test_tensors_named_for_training_are_in_the_graph(regression: Make) -> None:
    """Apple: any tensor is accepted, and nothing happens to it."""
    foreign = tg.MLCTensor(shape=[4, 1], fill_with_data=0.0)
    foreign.label = "foreign"
    for tensor in (foreign, regression().x):
        r = regression()
        r.training.set_training_tensor_parameters([tg.MLCTensorParameter(tensor=tensor)])
        with pytest.raises(ValueError, match=rf"set_training_tensor_parameters.*'{tensor.label}'"):
            r.training.compile(device="cpu")
    r = regression()
    r.training.set_training_tensor_parameters([tg.MLCTensorParameter(tensor=r.x)])
    with pytest.raises(ValueError, match="declared by add_inputs"):
        r.step()  # compiles again, and would feed the tensor that it is to train
    r = regression()
    r.training.stop_gradient([foreign])
    with pytest.raises(ValueError, match=r"stop_gradient.*'foreign'"):
        r.training.compile(device="cpu")


def test_a_parameter_is_no_input(regression: Make) -> None:
    """Apple: accepted; what is fed does not reach the layer."""
    r = regression()
    r.training.add_inputs({"w": r.weights})
    with pytest.raises(ValueError, match=r"add_inputs.*'w'"):
        r.training.compile(device="cpu")


def test_errors_name_layer_shapes_and_types() -> None:
    """Apple: false or nil without a reason."""
    x = tg.MLCTensor(shape=[4, 3])
    layer = tg.MLCFullyConnectedLayer(descriptor=descriptor(5, 2))
    layer.label = "head"
    with pytest.raises(tg.ShapeError) as caught:
        tg.MLCGraph().node(layer, source=x)
    text = str(caught.value)
    assert "expected" in text
    assert "but got" in text
    assert "(4, 3)" in text
    assert f"at layer {layer.layer_id} 'head'" in text
    whole = tg.MLCTensor(shape=[4, 3], data_type="int32")
    with pytest.raises(TypeError, match=r"int32.*'relu'|int32.*layer") as caught:
        tg.MLCGraph().node(tg.MLCActivationLayer.relu(), source=whole)
    assert isinstance(caught.value, tg.DataTypeError)


@pytest.mark.parametrize(
    "make",
    [
        lambda t: tg.MLCConvolutionLayer(
            weights=t(1, 5, 3, 3), descriptor=descriptor(2, 4, (3, 3))
        ),
        lambda t: tg.MLCConvolutionLayer(
            weights=t(1, 8, 3, 3), biases=t(3), descriptor=descriptor(2, 4, (3, 3))
        ),
        lambda t: tg.MLCFullyConnectedLayer(weights=t(3, 3), descriptor=descriptor(2, 4)),
        lambda t: tg.MLCBatchNormalizationLayer(
            feature_channel_count=4, mean=t(1, 3, 1, 1), variance=t(1, 4, 1, 1)
        ),
    ],
    ids=["weights", "biases", "fully_connected", "batch_normalization"],
)
def test_parameters_that_do_not_fit_raise_at_once(make: Callable) -> None:
    """Apple: an empty layer object that fails later."""
    with pytest.raises(tg.ShapeError, match=r"expected .* but got"):
        make(lambda *shape: tg.MLCTensor(shape=shape, fill_with_data=0.0))


@pytest.mark.parametrize("first", ["training", "inference"])
def test_graphs_compile_in_any_order(first: str, regression: Make) -> None:
    """Apple: a graph that an inference graph compiled cannot be trained any more."""
    r = regression(tg.MLCSGDOptimizer(learning_rate=0.05))
    training = tg.MLCTrainingGraph(
        graph_objects=[r.graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error("mean"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=0.05),
    )
    training.add_inputs({"x": r.x}, loss_labels={"y": r.y})
    inference = tg.MLCInferenceGraph(graph_objects=[r.graph])
    inference.add_inputs({"x": r.x})
    graphs = [training, inference] if first == "training" else [inference, training]
    for graph in graphs:
        graph.compile(device="cpu")
    inference.execute(inputs_data=r.data, options="synchronous")
    losses = [
        float(training.execute(inputs_data=r.data, loss_labels_data=r.labels).result)
        for _ in range(3)
    ]
    assert losses == pytest.approx([69, 25.62875, 10.9086969], rel=1e-5)


def test_a_copy_of_a_descriptor_keeps_everything() -> None:
    """Apple: a copied product forgets both of its transpositions."""
    for made in (True, False):
        whole = tg.MLCMatMulDescriptor(alpha=0.5, transposes_x=made, transposes_y=not made).copy()
        assert (whole.alpha, whole.transposes_x, whole.transposes_y) == (0.5, made, not made)


def test_the_device_of_a_layer_is_none_before_it_is_compiled() -> None:
    """Apple: 2147483647."""
    x = tg.MLCTensor(shape=[2])
    layer = tg.MLCActivationLayer.relu()
    graph = tg.MLCGraph()
    graph.node(layer, source=x)
    assert layer.device_type is None
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    inference.compile(device="cpu")
    assert layer.device_type is tg.MLCDeviceType.CPU


@pytest.mark.parametrize(
    ("shape", "fans"), [((300, 500), 800), ((64, 32, 3, 3), 864), ((500, 300), 800)]
)
def test_random_weights_know_their_fans(shape: tuple, fans: int) -> None:
    """Apple: the range of a single weight, whatever the shape."""
    uniform = tg.MLCTensor(shape=shape, random_initializer_type="glorot_uniform").data
    limit = math.sqrt(6 / fans)
    assert 0.99 * limit < np.abs(uniform).max() <= limit
    # Six standard errors: the numbers have no seed.
    of_std, of_mean = 6 / math.sqrt(2 * uniform.size), 6 / math.sqrt(uniform.size)
    assert uniform.std() == pytest.approx(limit / math.sqrt(3), rel=of_std)
    normal = tg.MLCTensor(shape=shape, random_initializer_type="xavier").data
    assert normal.std() == pytest.approx(math.sqrt(2 / fans), rel=of_std)
    assert normal.mean() == pytest.approx(0, abs=of_mean * math.sqrt(2 / fans))


def test_two_initialisers_differ_without_a_seed() -> None:
    """Apple: both start the same stream."""
    first, second = (
        tg.MLCTensor(shape=[100], random_initializer_type="uniform").data for _ in range(2)
    )
    assert (first != second).all()


def test_clipping_by_the_global_norm_clips() -> None:
    """Apple: the custom norm is 1 by default, which replaces the joint norm and never clips."""
    assert tg.MLCOptimizerDescriptor(learning_rate=1.0).custom_global_norm == 0
    weight, bias = np.zeros((1, 1), np.float32), np.zeros((1, 1), np.float32)
    x, y = tg.MLCTensor(shape=[4, 1]), tg.MLCTensor(shape=[4, 1])
    graph = tg.MLCGraph()
    graph.node(
        tg.MLCFullyConnectedLayer(
            weights=tg.MLCTensor(data=weight),
            biases=tg.MLCTensor(data=bias),
            descriptor=descriptor(1, 1),
        ),
        source=x,
    )
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error("mean"),
        optimizer=tg.MLCSGDOptimizer(
            learning_rate=1.0,
            applies_gradient_clipping=True,
            gradient_clipping_type="by_global_norm",
            maximum_clipping_norm=1.0,
        ),
    )
    training.add_inputs({"x": x}, loss_labels={"y": y})
    training.compile(device="cpu")
    points = np.arange(4, dtype=np.float32).reshape(4, 1)
    training.execute(
        inputs_data={"x": points}, loss_labels_data={"y": 2 * points + 5}, options="synchronous"
    )
    training.synchronize_updates()
    # The gradient is (-29, -16).
    joint = math.hypot(29, 16)
    assert (weight.item(), bias.item()) == pytest.approx((29 / joint, 16 / joint), rel=1e-6)


def test_label_smoothing_counts_the_classes_itself() -> None:
    """Apple: one class is the default, so that smoothing adds the whole of it to each class."""
    assert (
        tg.MLCLossDescriptor(type="softmax_cross_entropy", reduction_type="mean").class_count
        is None
    )

    def loss(class_count: int | None) -> float:
        x, y = tg.MLCTensor(shape=[3, 4]), tg.MLCTensor(shape=[3, 4])
        graph = tg.MLCGraph()
        graph.node(tg.MLCActivationLayer.linear(scale=1.0, bias=0.0), source=x)
        training = tg.MLCTrainingGraph(
            graph_objects=[graph],
            loss_layer=tg.MLCLossLayer.softmax_cross_entropy(
                "sum", label_smoothing=0.2, class_count=class_count
            ),
        )
        training.add_inputs({"x": x}, loss_labels={"y": y})
        training.compile(device="cpu")
        return float(
            training.execute(inputs_data={"x": scores}, loss_labels_data={"y": labels}).result
        )

    scores = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    labels = np.eye(4, dtype=np.float32)[:3]
    logarithms = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    expected = -((0.8 * labels + 0.2 / 4) * logarithms).sum()
    assert loss(None) == loss(4) == pytest.approx(expected, rel=1e-5)
    assert loss(1) != pytest.approx(expected, rel=1e-2)


def test_gelu_is_the_tanh_form_and_says_so() -> None:
    """Apple: documented with the error function, computed with tanh."""
    x = tg.MLCTensor(shape=[1])
    graph = tg.MLCGraph()
    graph.node(tg.MLCActivationLayer.gelu(), source=x)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    inference.compile(device="cpu")
    result = inference.execute(inputs_data={"x": np.ones(1, np.float32)}).result.item()
    exact = (1 + math.erf(math.sqrt(0.5))) / 2
    assert result == pytest.approx((1 + math.tanh(0.7978845608 * 1.044715)) / 2, abs=1e-6)
    assert abs(result - exact) > 1e-4
    assert "tanh" in tg.MLCActivationLayer.gelu.__doc__


def test_free_layers_have_numbers_of_their_own() -> None:
    """Apple: 0 for every layer outside a graph."""
    layers = [tg.MLCActivationLayer.relu() for _ in range(3)]
    assert len({layer.layer_id for layer in layers}) == 3
    graph = tg.MLCGraph()
    before = layers[0].layer_id
    graph.node(layers[0], source=tg.MLCTensor(shape=[1]))
    assert layers[0].layer_id == before


def test_memory_of_the_caller_lives_as_long_as_its_tensor() -> None:
    """Apple: the caller must keep it alive."""
    tensors = [tg.MLCTensor(data=np.full((1000, 100), k, np.float32)) for k in range(20)]
    raw = tg.MLCTensor(shape=[4], data=tg.MLCTensorData(bytes_no_copy=bytearray(b"\1" * 16)))
    gc.collect()
    noise = [np.full((1000, 100), -1, np.float32) for _ in range(20)]
    for k, tensor in enumerate(tensors):
        assert (tensor.data == k).all()
    assert raw.data.tobytes() == b"\1" * 16
    view = tensors[3].data
    del tensors, noise
    gc.collect()
    assert (view == 3).all()


def test_the_batch_is_not_fixed_by_the_compiled_one(regression: Make) -> None:
    """Apple: the batch axis is part of what is compiled."""
    r = regression(tg.MLCSGDOptimizer(learning_rate=0.0))
    losses = (2 * np.arange(8, dtype=np.float32).reshape(8, 1) + 5) ** 2
    for count in (1, 3, 4, 8):
        x = np.arange(count, dtype=np.float32).reshape(count, 1)
        result = r.training.execute(
            inputs_data={"x": x}, loss_labels_data={"y": 2 * x + 5}, batch_size=count
        ).result
        assert float(result) == pytest.approx(losses[:count].mean(), rel=1e-6)
