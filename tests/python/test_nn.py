"""Blocks of traingraph.nn are the classes with what follows from the source; models are graphs."""

import inspect
import re
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import traingraph as tg
from traingraph import nn


def built(block: Any, *shape: int, dtype: str = "float32") -> tuple[list[int], list[tg.MLCLayer]]:
    """The shape that the block gives, and the layers that it made."""
    graph = tg.MLCGraph()
    result = block(graph, tg.MLCTensor(shape=shape, data_type=dtype))
    return list(result.descriptor.shape), graph.layers


# A block, its source, what it gives and the class of its first layer.
BLOCKS = {
    "dense(8)": (nn.dense(8), (4, 6), [4, 8], tg.MLCFullyConnectedLayer),
    "dense(6, 8)": (nn.dense(6, 8), (4, 5, 6), [4, 5, 8], tg.MLCFullyConnectedLayer),
    "dense(1)": (nn.dense(1), (4, 6, 1, 1), [4, 1, 1, 1], tg.MLCFullyConnectedLayer),
    "conv2d(16, 3)": (nn.conv2d(16, 3), (4, 3, 8, 7), [4, 16, 8, 7], tg.MLCConvolutionLayer),
    "conv2d(3, 16, 3x5)": (
        nn.conv2d(3, 16, (3, 5), padding="valid", stride=(1, 2)), (4, 3, 8, 7), [4, 16, 6, 2],
        tg.MLCConvolutionLayer,
    ),
    "conv2d(6, 2)": (
        nn.conv2d(6, 2, groups=3, padding=(1, 2), dilation=2), (4, 3, 8, 8), [4, 6, 8, 10],
        tg.MLCConvolutionLayer,
    ),
    "batch_norm()": (nn.batch_norm(), (4, 3, 8, 8), [4, 3, 8, 8], tg.MLCBatchNormalizationLayer),
    "batch_norm(3)": (nn.batch_norm(3), (4, 3), [4, 3], tg.MLCBatchNormalizationLayer),
    "layer_norm()": (nn.layer_norm(), (4, 5, 6), [4, 5, 6], tg.MLCLayerNormalizationLayer),
    "layer_norm((5, 6))": (
        nn.layer_norm([5, 6]), (4, 5, 6), [4, 5, 6], tg.MLCLayerNormalizationLayer,
    ),
    "conv1d(8, 3)": (nn.conv1d(8, 3), (4, 7, 6), [4, 7, 8], tg.MLCTransposeLayer),
    "conv2d_transpose(3, 8, 2)": (
        nn.conv2d_transpose(3, 8, 2, stride=2), (4, 3, 5, 4), [4, 8, 10, 8],
        tg.MLCConvolutionLayer,
    ),
    "group_norm(2)": (nn.group_norm(2), (4, 6, 5), [4, 6, 5], tg.MLCGroupNormalizationLayer),
    "gru(5)": (nn.gru(5), (4, 7, 6), [4, 5], tg.MLCFullyConnectedLayer),
    "positional_embedding()": (
        nn.positional_embedding(), (4, 7, 6), [4, 7, 6], tg.MLCEmbeddingLayer,
    ),
    "residual([dense(6)])": (
        nn.residual([nn.dense(6)]), (4, 6), [4, 6], tg.MLCFullyConnectedLayer,
    ),
    "max_pool(2)": (nn.max_pool(2), (4, 3, 8, 6), [4, 3, 4, 3], tg.MLCPoolingLayer),
    "max_pool(3x2)": (nn.max_pool((3, 2), stride=1), (4, 3, 8, 6), [4, 3, 8, 6],
                      tg.MLCPoolingLayer),
    "average_pool()": (nn.average_pool(), (4, 3, 8, 6), [4, 3, 1, 1], tg.MLCPoolingLayer),
    "average_pool(3)": (
        nn.average_pool(3, padding="valid"), (4, 3, 8, 6), [4, 3, 2, 2], tg.MLCPoolingLayer,
    ),
    "flatten()": (nn.flatten(), (4, 3, 8, 6), [4, 144], tg.MLCReshapeLayer),
    "reshape((3, -1))": (nn.reshape([3, -1]), (4, 6), [4, 3, 2], tg.MLCReshapeLayer),
    "permute((2, 3, 1))": (nn.permute((2, 3, 1)), (4, 3, 8, 6), [4, 8, 6, 3], tg.MLCTransposeLayer),
    "dropout(0.5)": (nn.dropout(0.5), (4, 6), [4, 6], tg.MLCDropoutLayer),
    "lstm(5)": (nn.lstm(5), (4, 7, 6), [4, 5], tg.MLCLSTMLayer),
    "lstm(6, 5)": (
        nn.lstm(6, 5, layers=2, bidirectional=True, returns_sequences=True), (4, 7, 6),
        [4, 7, 10], tg.MLCLSTMLayer,
    ),
    "embedding(9, 5)": (nn.embedding(9, 5), (4, 7), [4, 7, 5], tg.MLCEmbeddingLayer),
    "attention(2)": (nn.attention(2), (4, 7, 6), [4, 7, 6], tg.MLCMultiheadAttentionLayer),
    "attention(6, 3)": (nn.attention(6, 3), (4, 7, 6), [4, 7, 6], tg.MLCMultiheadAttentionLayer),
    "gelu": (nn.activation("gelu"), (4, 6), [4, 6], tg.MLCActivationLayer),
    "softmax": (nn.activation("softmax"), (4, 7, 6), [4, 7, 6], tg.MLCSoftmaxLayer),
}  # fmt: skip


@pytest.mark.parametrize("text", BLOCKS)
def test_a_block_makes_its_class(text: str) -> None:
    block, source, result, cls = BLOCKS[text]
    assert repr(block) == f"<Block {text}>"
    dtype = "int32" if cls is tg.MLCEmbeddingLayer else "float32"
    if text == "positional_embedding()":
        dtype = "float32"  # which adds to what it is given
    shape, layers = built(block, *source, dtype=dtype)
    assert shape == result
    assert type(layers[0]) is cls
    assert built(block, *source, dtype=dtype)[1][0] != layers[0]


def test_signatures_of_several_forms() -> None:
    dense = inspect.signature(nn.dense)
    assert list(dense.parameters)[:2] == ["outputs", "bias"]
    assert "inputs" in dense.parameters
    for name in set(nn.__all__) - {"Block", "Value"}:
        assert "args" not in inspect.signature(getattr(nn, name)).parameters, name


def test_every_function_is_tried() -> None:
    blocks = {text.split("(")[0] for text in BLOCKS} - {"gelu", "softmax"}
    others = {"Block", "activation", "sequential", "model", "sgd", "adam", "adamw", "rmsprop"}
    # test_nn_values.py and test_nn_shared.py try them.
    others |= {
        "Input", "Value", "abs", "clip", "concatenate", "cos", "exp", "gather", "log", "loss",
        "matmul", "maximum", "mean", "minimum", "sin", "sqrt", "square", "stop_gradient", "sum",
        "tanh", "where", "shared",
    }  # fmt: skip
    assert blocks | others == set(nn.__all__)
    assert tg.nn is nn


def test_options_reach_the_layer() -> None:
    (conv,) = built(nn.conv2d(6, 3, stride=(2, 1), dilation=2, groups=3, bias=False), 1, 3, 8, 8)[1]
    assert (conv.descriptor.strides, conv.descriptor.dilation_rates) == ((2, 1), (2, 2))
    assert (conv.descriptor.group_count, conv.biases) == (3, None)
    (dense,) = built(nn.dense(3, bias=False), 4, 6)[1]
    assert dense.biases is None
    (norm,) = built(nn.batch_norm(epsilon=0.5), 4, 6)[1]
    assert (norm.momentum, norm.variance_epsilon) == (pytest.approx(0.9), 0.5)
    (norm,) = built(nn.batch_norm(6, momentum=0.5), 4, 6)[1]
    assert norm.momentum == 0.5
    (norm,) = built(nn.layer_norm(epsilon=0.5), 4, 2, 3, 5)[1]
    assert (list(norm.normalized_shape), norm.variance_epsilon) == ([2, 3, 5], 0.5)
    assert norm.gamma.data.min() == norm.gamma.data.max() == 1
    assert not norm.beta.data.any()
    (pool,) = built(nn.max_pool(2, stride=(1, 2), padding="valid"), 1, 1, 4, 4)[1]
    assert pool.descriptor.strides == (1, 2)
    assert pool.descriptor.pooling_type == tg.MLCPoolingType.MAX
    assert pool.descriptor.padding_policy == tg.MLCPaddingPolicy.VALID
    (pool,) = built(nn.average_pool(2), 1, 1, 4, 4)[1]
    assert pool.descriptor.pooling_type == tg.MLCPoolingType.AVERAGE
    (dropout,) = built(nn.dropout(0.25, seed=9), 4, 6)[1]
    assert (dropout.rate, dropout.seed) == (0.25, 9)
    (embedding,) = built(nn.embedding(500, 8, padding_index=3), 4, dtype="int32")[1]
    table = embedding.weights.data
    assert embedding.descriptor.padding_index == 3
    assert not table[3].any()
    assert table.std() == pytest.approx(1, abs=0.05)
    (attention,) = built(nn.attention(2, dropout=0.5, bias=False), 4, 7, 6)[1]
    assert attention.descriptor.dropout == 0.5
    assert attention.biases is None
    lstm = built(nn.lstm(5, layers=2, dropout=0.5), 4, 7, 6)[1][0]
    assert (lstm.descriptor.layer_count, lstm.descriptor.dropout) == (2, 0.5)
    forget = [biases.data.all() for biases in lstm.biases]
    assert forget == [False, True, False, False] * 2


ACTIVATIONS = {
    "relu": tg.MLCActivationLayer.relu(),
    "leaky_relu": tg.MLCActivationLayer.leaky_relu(),
    "relu6": tg.MLCActivationLayer.relu6(),
    "sigmoid": tg.MLCActivationLayer.sigmoid(),
    "hard_sigmoid": tg.MLCActivationLayer.hard_sigmoid(),
    "tanh": tg.MLCActivationLayer.tanh(),
    "absolute": tg.MLCActivationLayer.absolute(),
    "soft_plus": tg.MLCActivationLayer.soft_plus(),
    "softplus": tg.MLCActivationLayer.soft_plus(),
    "soft_sign": tg.MLCActivationLayer.soft_sign(),
    "softsign": tg.MLCActivationLayer.soft_sign(),
    "elu": tg.MLCActivationLayer.elu(),
    "log_sigmoid": tg.MLCActivationLayer.log_sigmoid(),
    "selu": tg.MLCActivationLayer.selu(),
    "celu": tg.MLCActivationLayer.celu(),
    "hard_shrink": tg.MLCActivationLayer.hard_shrink(),
    "soft_shrink": tg.MLCActivationLayer.soft_shrink(),
    "tanh_shrink": tg.MLCActivationLayer.tanh_shrink(),
    "gelu": tg.MLCActivationLayer.gelu(),
    "hard_swish": tg.MLCActivationLayer.hard_swish(),
    "silu": tg.MLCActivationLayer.silu(),
    "gelu_erf": tg.MLCActivationLayer.gelu_erf(),
    "mish": tg.MLCActivationLayer.mish(),
    "squareplus": tg.MLCActivationLayer.squareplus(),
}


def applied(layers: list[Any]) -> np.ndarray:
    x = tg.MLCTensor(shape=[1, 7])
    graph = tg.MLCGraph()
    tg.sequential(graph, x, layers)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    inference.compile(device="cpu")
    return inference.predict(np.linspace(-8, 8, 7, dtype=np.float32)[None])


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_is_that_of_its_name(name: str) -> None:
    np.testing.assert_array_equal(applied([name]), applied([ACTIVATIONS[name]]))
    np.testing.assert_array_equal(applied([nn.activation(name)]), applied([name]))


@pytest.mark.parametrize(
    ("block", "layer"),
    [
        (nn.activation("leaky_relu", 0.3), lambda: tg.MLCActivationLayer.leaky_relu(0.3)),
        (nn.activation("linear", 2.0, 3.0), lambda: tg.MLCActivationLayer.linear(scale=2, bias=3)),
        (nn.activation("relun", 0.0, 2.0), lambda: tg.MLCActivationLayer.relun(a=0, b=2)),
        (nn.activation("clamp", -1.0, b=2.0), lambda: tg.MLCActivationLayer.clamp(min=-1, max=2)),
        (
            nn.activation("threshold", 1.0, 4.0),
            lambda: tg.MLCActivationLayer.threshold(threshold=1, replacement=4),
        ),
        (nn.activation("softmax"), lambda: tg.MLCSoftmaxLayer(operation="softmax")),
        (nn.activation("log_softmax"), lambda: tg.MLCSoftmaxLayer(operation="log_softmax")),
    ],
)
def test_numbers_of_activations(block: nn.Block, layer: Any) -> None:
    np.testing.assert_array_equal(applied([block]), applied([layer()]))


def test_softmax_goes_over_channels_or_the_last_axis() -> None:
    for shape, dimension in (((2, 3), 1), ((2, 3, 4), 2), ((2, 3, 4, 5), 1)):
        (layer,) = built(nn.activation("softmax"), *shape)[1]
        assert layer.dimension == dimension


# --- weights -------------------------------------------------------------------------------------

PLAIN, HE = (1 / 64) ** 0.5, (6 / 64) ** 0.5
# What stands behind a dense block of 64 features, and the limit of its weights.
BEHIND: dict[str, tuple[Callable[[], list[Any]], float]] = {
    "nothing": (list, PLAIN),
    "relu": (lambda: ["relu"], HE),
    "relu layer": (lambda: [tg.MLCActivationLayer.relu()], HE),
    "leaky relu": (lambda: [nn.activation("leaky_relu", 0.1)], HE),
    "tanh": (lambda: ["tanh", "relu"], PLAIN),
    "dense": (lambda: [nn.dense(4), "relu"], PLAIN),
    "batch norm": (lambda: [nn.batch_norm(), "relu"], PLAIN),
    "its layer": (lambda: [tg.MLCBatchNormalizationLayer(feature_channel_count=64), "relu"], PLAIN),
    "layer norm": (lambda: [nn.flatten(), nn.layer_norm(), "relu"], PLAIN),
    "layers": (
        lambda: [tg.MLCDropoutLayer(rate=0.5), tg.MLCReshapeLayer(shape=[2, 64]), "relu"],
        HE,
    ),
    "shapes": (
        lambda: [nn.reshape([64, 1, 1]), nn.max_pool(1), nn.flatten(), nn.dropout(0.5), "relu"],
        HE,
    ),
    "nested": (lambda: [nn.sequential([nn.flatten()]), nn.sequential(["relu"])], HE),
    "nested norm": (lambda: [nn.sequential([nn.layer_norm()]), nn.sequential(["relu"])], PLAIN),
    "function": (lambda: [lambda graph, x: nn.activation("relu")(graph, x)], PLAIN),
}


def limits(weights: tg.MLCTensor, limit: float) -> bool:
    return bool(0.95 * limit < np.abs(weights.data).max() <= limit * 1.000001)


@pytest.mark.parametrize("name", BEHIND)
@pytest.mark.parametrize("first", [nn.dense(64), nn.sequential([nn.dense(64)])])
def test_weights_before_relu_are_he_uniform(name: str, first: nn.Block) -> None:
    behind, limit = BEHIND[name]
    dense = built(nn.sequential([first, *behind()]), 2, 64)[1][0]
    assert limits(dense.weights, limit)
    assert not dense.biases.data.any()


def test_weights_of_blocks_with_activations() -> None:
    assert limits(built(nn.dense(64, activation="relu"), 2, 64)[1][0].weights, HE)
    assert limits(built(nn.dense(64, activation="tanh"), 2, 64)[1][0].weights, PLAIN)
    conv = built(nn.conv2d(8, 8, 3, activation="relu"), 2, 8, 4, 4)[1][0]
    assert limits(conv.weights, (6 / 72) ** 0.5)
    conv = built(nn.conv2d(8, 3, groups=2, activation="relu"), 2, 8, 4, 4)[1][0]
    assert limits(conv.weights, (6 / 36) ** 0.5)
    assert limits(built(nn.conv2d(8, 3), 2, 8, 4, 4)[1][0].weights, (1 / 72) ** 0.5)


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("block", "shape", "text"),
    [
        (nn.dense(5, 3), (2, 4), r"\[dense\(5, 3\)\] expected a source .*5\) but got \(2, 4\)"),
        (
            nn.dense(3),
            (2, 4, 3, 3),
            r"\[dense\(3\)\] .* 3\); put flatten\(\) before it",
        ),
        (nn.dense(3), (4,), r"\[dense\(3\)\] .* but got \(4"),
        (nn.conv2d(5, 3, 3), (2, 4, 3, 3), r"\[conv2d\(5, 3, 3\)\] .*\(N, 5, H, W\) but got \(2"),
        (nn.conv2d(3, 3), (2, 4), r"\[conv2d\(3, 3\)\] .*\(N, C, H, W\) but got \(2, 4\)"),
        (nn.conv2d(3, 3, groups=3), (2, 4, 3, 3), r"multiple of 3 channels but got \(2, 4, 3, 3\)"),
        (nn.batch_norm(5), (2, 4), r"\[batch_norm\(5\)\] .*\(N, 5, .*\) but got \(2, 4\)"),
        (nn.layer_norm([5]), (2, 4), r"\[layer_norm\(\(5,?\)\)\] .* but got \(2, 4\)"),
        (nn.max_pool(2), (2, 4), r"\[max_pool\(2\)\] .*\(N, C, H, W\) but got \(2, 4\)"),
        (nn.max_pool(9, padding="valid"), (2, 4, 3, 3), r"in block max_pool\(9\) over \(2, 4, 3"),
        (nn.reshape([3, -1]), (2, 4), r"in block reshape\(\(3, -1\)\) over \(2, 4\)"),
        (nn.lstm(5, 3), (2, 6, 4), r"\[lstm\(5, 3\)\] .*\(N, T, 5\) but got \(2, 6, 4\)"),
        (nn.lstm(3), (2, 6), r"\[lstm\(3\)\] .*\(N, T, C\) but got \(2, 6\)"),
        (nn.attention(3), (2, 6, 4), r"in block attention\(3\) over \(2, 6, 4\)"),
        (nn.attention(5, 1), (2, 6, 4), r"\[attention\(5, 1\)\] .*\(N, T, 5\) but got \(2, 6, 4"),
        (nn.sequential([nn.dense(3), nn.conv2d(2, 2)]), (2, 4), r"\[conv2d\(2, 2\)\] .* \(2, 3\)"),
    ],
)
def test_errors_name_block_and_shape(block: nn.Block, shape: tuple[int, ...], text: str) -> None:
    with pytest.raises(ValueError, match=text) as caught:
        built(block, *shape)
    assert str(caught.value).count("in block") <= 1


def test_types_of_sources() -> None:
    with pytest.raises(tg.DataTypeError, match=r"in block embedding\(3, 2\) over \(2, 4\)"):
        built(nn.embedding(3, 2), 2, 4)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: nn.dense(0), r"\[dense\(0\)\] expected 1 or more outputs but got 0"),
        (lambda: nn.dense(-1, 3), r"1 or more inputs but got -1"),
        (lambda: nn.conv2d(3, 0), r"kernel but got 0"),
        (lambda: nn.conv2d(3, 3, groups=0), "groups but got 0"),
        (lambda: nn.conv2d(3, 3, padding="sam"), 'expected one of "same", "valid"'),
        (lambda: nn.conv2d(3, (3, 3, 3)), "expected kernel: 2 numbers but got 3"),
        (lambda: nn.dropout(1.5), "rate"),
        (lambda: nn.embedding(0, 3), "count"),
        (lambda: nn.activation("rleu"), "expected one of relu, leaky_relu, .*but got 'rleu'"),
        (lambda: nn.activation("softmax", 1.0), "expected no a and b"),
        (lambda: nn.activation("clamp", float("nan")), "nan"),
        (lambda: nn.dense(3, activation="rleu"), "expected one of relu, .*but got 'rleu'"),
        (lambda: nn.sequential(["rleu"]), "expected one of relu, .*but got 'rleu'"),
        (lambda: nn.adam(float("nan")), "learning_rate"),
        (lambda: nn.sgd(0.1, momentum=2.0), "momentum"),
    ],
)
def test_values(call: Any, text: str) -> None:
    with pytest.raises(tg.InvalidArgument, match=text):
        call()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: nn.dense(),
            r"\[dense\] no form takes \(0 by position\); missing: outputs; write dense\(o",
        ),
        (lambda: nn.dense(1, 2, 3), r"no form takes \(3 by position\)"),
        (lambda: nn.dense(1, 2, outputs=2), r"no form takes \(2 by position, outputs\)"),
        (
            lambda: nn.dense(1, units=2),
            r"units\); did you mean outputs\? Write dense\(.* or dense\(",
        ),
        (lambda: nn.adam(lr=1.0), r"\[adam\] .* did you mean learning_rate\? Write adam"),
        (lambda: nn.dropout(p=0.5), r"\[dropout\] .* did you mean rate\?"),
        (lambda: nn.conv2d(8, kernel_size=3, filter=2), r"did you mean kernel\? Write conv2d"),
        (
            lambda: nn.dense(1, use_bias=False, bias_initializer=0),
            "did you mean bias, bias_init\\?",
        ),
        (lambda: nn.lstm(1, return_sequences=True), r"did you mean returns_sequences\?"),
        (lambda: nn.model([nn.flatten()], input_shape=3), r"\[model\] .* did you mean input\?"),
        (lambda: nn.dense(1.5), "expected outputs: int but got 'float'"),
        (lambda: nn.conv2d(3), r"\[conv2d\] no form takes \(1 by position\)"),
        (lambda: nn.sequential("relu"), "expected layers: .* but got 'str'"),
        (lambda: nn.sequential([None]), r"expected layers\[0\]: .* but got 'NoneType'"),
        (lambda: nn.sequential([nn.flatten]), r"but got the function flatten; did you mean flat"),
        (lambda: nn.sequential([tg.MLCActivationLayer.relu]), r"did you mean relu\(\)\?"),
        (lambda: nn.sequential([tg.MLCReshapeLayer]), "but got the class MLCReshapeLayer"),
        (lambda: nn.dense(3)(1, 2), r"a graph and a tensor, but got 'int' and 'int'; arrays are"),
        (lambda: nn.model([nn.dense(3)]), r"\[model\] no form takes .* write model\(layers"),
        (lambda: nn.model([nn.dense(3)], input=3, loss=1), "expected loss: MLCLossLayer"),
        (lambda: nn.model([lambda graph, x: 1], input=3), "its result: MLCTensor but got 'int'"),
    ],
)
def test_arguments(call: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        call()


def test_what_a_function_raises_comes_through() -> None:
    def wrong(graph: tg.MLCGraph, x: tg.MLCTensor) -> tg.MLCTensor:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        nn.model([nn.dense(3), wrong], input=3)


# --- networks ------------------------------------------------------------------------------------


def test_sequential_takes_all_alike() -> None:
    def twice(graph: tg.MLCGraph, x: tg.MLCTensor) -> tg.MLCTensor:
        return graph.node(tg.MLCArithmeticLayer(operation="add"), sources=[x, x])

    layers = [nn.dense(8), "relu", twice, tg.MLCSoftmaxLayer(operation="softmax")]
    graph = tg.MLCGraph()
    result = tg.sequential(graph, tg.MLCTensor(shape=[4, 6]), layers)
    expected = ["FullyConnected", "Activation", "Arithmetic", "Softmax"]
    assert [layer.label for layer in graph.layers] == expected
    assert graph.result_tensors(graph.layers[-1]) == [result]
    assert tg.sequential is nn.sequential
    assert repr(nn.sequential([nn.dense(8), "relu", twice])) == (
        "<Block sequential([dense(8), relu, twice])>"
    )
    x = tg.MLCTensor(shape=[2, 3])
    assert tg.sequential(tg.MLCGraph(), x, []) == x


X = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
CLASSES = X[:, :3].argmax(1)


def input_of(model: tg.MLCTrainingGraph) -> tg.MLCTensorDescriptor:
    return model.source_tensors(model.layers[0])[0].descriptor


def labels_of(model: tg.MLCTrainingGraph, samples: np.ndarray) -> tuple[list[int], bool]:
    """The shape of the labels, and whether they are whole numbers: as refusals say."""
    with pytest.raises(tg.ShapeError, match="loss labels 'y'") as refusal:
        model.fit(samples, np.zeros((len(samples), 7, 7, 7), np.int32))
    found = re.search(r"expected samples, \(N,(.*?)\), but", str(refusal.value))
    assert found is not None
    rest = [int(extent) for extent in found[1].split(",") if extent]
    shape = [input_of(model).shape[0], *rest]
    try:
        model.evaluate(samples, np.full((len(samples), *shape[1:]), 0.5, np.float32))
    except tg.DataTypeError:
        return shape, True
    return shape, False


def test_a_model_trains_scores_and_predicts() -> None:
    tg.MLCPlatform.set_rng_seed_to(0)
    layers = [nn.dense(16), "relu", nn.dense(3)]
    model = nn.model(layers, input=6, optimizer=nn.adam(0.01), batch_size=16, device="cpu")
    assert isinstance(model, tg.MLCTrainingGraph)
    assert isinstance(model.optimizer, tg.MLCAdamOptimizer)
    assert list(input_of(model).shape) == [16, 6]
    assert labels_of(model, X) == ([16], True)
    before = model.evaluate(X, CLASSES)
    epochs = model.fit(X, CLASSES, epochs=60)
    after = model.evaluate(X, CLASSES)
    assert (len(epochs), epochs[0].steps) == (60, 3)
    assert after.loss < before.loss / 2
    assert after.accuracy > 0.9
    logits = model.predict(X)
    assert logits.shape == (40, 3)
    assert np.mean(logits.argmax(1) == CLASSES) == after.accuracy
    model.compile(device="reference")
    np.testing.assert_allclose(model.predict(X), logits, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("labels", "loss", "shape", "dtype"),
    [
        ("classes", "softmax_cross_entropy", [8], "int32"),
        ("one_hot", "softmax_cross_entropy", [8, 3], "float32"),
        ("classes", "sigmoid_cross_entropy", [8, 3], "float32"),
        ("classes", "categorical_cross_entropy", [8, 3], "float32"),
        ("classes", "mean_squared_error", [8, 3], "float32"),
        ("classes", "mse", [8, 3], "float32"),
        ("classes", "mean_absolute_error", [8, 3], "float32"),
        ("classes", "mae", [8, 3], "float32"),
        ("classes", "huber", [8, 3], "float32"),
        ("classes", "hinge", [8, 3], "float32"),
        ("classes", "cosine_distance", [8, 3], "float32"),
        ("classes", "log", [8, 3], "float32"),
        ("classes", tg.MLCLossLayer.softmax_cross_entropy(label_smoothing=0.1), [8], "int32"),
        ("classes", tg.MLCLossLayer.huber_loss(delta=2.0), [8, 3], "float32"),
    ],
)
def test_labels_follow_from_the_loss(labels: str, loss: Any, shape: list[int], dtype: str) -> None:
    probabilities = {"categorical_cross_entropy": ["softmax"], "log": ["sigmoid"]}
    layers = [nn.dense(3), *(probabilities.get(loss, []) if isinstance(loss, str) else [])]
    model = nn.model(layers, input=(6,), loss=loss, labels=labels, batch_size=8, device="cpu")
    is_classes = dtype == "int32"
    assert labels_of(model, X) == (shape, is_classes)
    given = CLASSES if is_classes else np.eye(3, dtype=np.float32)[CLASSES]
    assert np.isfinite(model.fit(X, given)[0].loss)


def test_labels_of_images_and_texts() -> None:
    model = nn.model([nn.conv2d(5, 3)], input=(2, 4, 6), batch_size=8, device="cpu")
    assert labels_of(model, np.zeros((9, 2, 4, 6), np.float32)) == ([8, 4, 6], True)
    with pytest.raises(tg.ShapeError, match=r"\(N, classes, .*\) for softmax .* but got \(192"):
        nn.model([lambda graph, x: graph.reshape([-1], source=x)], input=6)


@pytest.mark.parametrize("first", [nn.embedding(9, 4), nn.sequential([nn.embedding(9, 4)])])
def test_texts_are_whole_numbers(first: nn.Block) -> None:
    tg.MLCPlatform.set_rng_seed_to(0)
    layers = [first, nn.attention(2), nn.lstm(8), nn.dense(2)]
    model = nn.model(layers, input=5, optimizer=nn.adam(0.01), batch_size=8, device="cpu")
    assert input_of(model).data_type == tg.MLCDataType.INT32
    words = np.random.default_rng(0).integers(9, size=(40, 5))
    model.fit(words, words[:, 4] > 4, epochs=120)
    assert model.evaluate(words, words[:, 4] > 4).accuracy > 0.9
    model = nn.model(layers, input=5, input_type="int64", device="cpu")
    assert input_of(model).data_type == tg.MLCDataType.INT64
    model = nn.model([nn.dense(2)], input=5, device="cpu")
    assert input_of(model).data_type == tg.MLCDataType.FLOAT32


@pytest.mark.parametrize(
    ("optimizer", "cls", "rate"),
    [
        ("sgd", tg.MLCSGDOptimizer, 0.01),
        ("adam", tg.MLCAdamOptimizer, 0.001),
        ("adamw", tg.MLCAdamWOptimizer, 0.001),
        ("rmsprop", tg.MLCRMSPropOptimizer, 0.001),
        (nn.sgd(0.5), tg.MLCSGDOptimizer, 0.5),
        (tg.MLCAdamOptimizer(learning_rate=0.25), tg.MLCAdamOptimizer, 0.25),
    ],
)
def test_optimizers(optimizer: Any, cls: type, rate: float) -> None:
    model = nn.model([nn.dense(2)], input=5, optimizer=optimizer, device="cpu")
    assert type(model.optimizer) is cls
    assert model.optimizer.learning_rate == pytest.approx(rate)


def test_numbers_of_optimizers() -> None:
    sgd = nn.sgd(0.1, momentum=0.5, nesterov=True)
    assert (sgd.momentum_scale, sgd.uses_nesterov_momentum) == (0.5, True)
    adam = nn.adam(0.1, beta1=0.5, beta2=0.25, epsilon=0.125)
    assert (adam.beta1, adam.beta2, adam.epsilon) == (0.5, 0.25, 0.125)
    adamw = nn.adamw(0.1, weight_decay=0.5, beta1=0.25)
    assert (adamw.regularization_scale, adamw.beta1) == (0.5, 0.25)
    assert adamw.regularization_type == tg.MLCRegularizationType.L2
    rms = nn.rmsprop(0.1, momentum=0.5, alpha=0.25, epsilon=0.125, centered=True)
    assert (rms.momentum_scale, rms.alpha, rms.epsilon, rms.is_centered) == (0.5, 0.25, 0.125, True)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"loss": "l2"}, r"\[model\] expected a loss of softmax_cross_entropy, .* but got 'l2'"),
        ({"optimizer": "adm"}, r"expected an optimizer of adam, adamw, sgd, rmsprop but got 'adm'"),
        ({"labels": "onehot"}, "expected labels of classes, one_hot but got 'onehot'"),
        ({"input": (1, 2, 3, 4)}, r"input of 1 to 3 extents.* but got 32 and \(1, 2, 3, 4\)"),
        ({"input": ()}, "input of 1 to 3 extents"),
        ({"input": 0}, "input of 1 to 3 extents"),
        ({"batch_size": 0}, "but got 0 and"),
        ({"loss": tg.MLCActivationLayer.relu()}, "expected a loss layer but got Activation ReLU"),
        ({"device": "cup"}, "cup"),
    ],
)
def test_a_model_of_the_wrong(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(tg.Error, match=text):
        nn.model([nn.dense(3)], **{"input": 4} | arguments)
    with pytest.raises(tg.InvalidArgument, match="1 or more blocks"):
        nn.model([], input=4)


def test_predict_gives_what_the_last_block_gives() -> None:
    def with_a_branch(graph: tg.MLCGraph, x: tg.MLCTensor) -> tg.MLCTensor:
        graph.node(tg.MLCActivationLayer.tanh(), source=x)
        return x

    def first_half(graph: tg.MLCGraph, x: tg.MLCTensor) -> tg.MLCTensor:
        return graph.split(x, split_count=2, dimension=1)[0]

    values = []
    for last in (with_a_branch, first_half):
        tg.MLCPlatform.set_rng_seed_to(3)
        model = nn.model([nn.dense(4), last], input=6, loss="mse", device="cpu")
        values.append(model.predict(X))
        labels = np.ones((40, values[-1].shape[1]), np.float32)
        expected = np.mean((values[-1] - labels) ** 2)
        assert model.evaluate(X, labels).loss == pytest.approx(expected, rel=1e-5)
    np.testing.assert_array_equal(values[0][:, :2], values[1])
    assert np.abs(values[0]).max() > 0.5


def test_a_seed_repeats_a_model() -> None:
    def losses() -> list[float]:
        tg.MLCPlatform.set_rng_seed_to(5)
        layers = [nn.dense(16), nn.batch_norm(), "relu", nn.dropout(0.5), nn.dense(3)]
        model = nn.model(layers, input=6, device="cpu")
        return [epoch.loss for epoch in model.fit(X, CLASSES, epochs=3)]

    assert losses() == losses()


def test_blocks_in_blocks_are_not_copied_with_what_they_hold() -> None:
    block, start = nn.dense(4), time.perf_counter()
    for _ in range(3000):
        block = nn.sequential([block])
    assert time.perf_counter() - start < 2  # the text alone grows: 40 kB at the end
    nn.model([block], input=3, batch_size=2, optimizer="sgd").predict(np.ones((2, 3), np.float32))


def test_weights_follow_from_the_seed_alone() -> None:
    """Not from what the process has made before it was set."""

    def state() -> dict[str, np.ndarray]:
        tg.MLCPlatform.set_rng_seed_to(9)
        layers = [nn.dense(4), "relu", nn.dropout(0.5), nn.dense(2, weights_init="he_normal")]
        model = nn.model(layers, input=3, batch_size=4)
        model.fit(np.ones((8, 3), np.float32), np.zeros(8, np.int32), epochs=2)
        return model.state()

    first = state()
    nn.model([nn.dense(5), "relu", nn.dropout(0.1)], input=2, loss="mse")
    for name, values in state().items():
        np.testing.assert_array_equal(values, first[name], err_msg=name)
