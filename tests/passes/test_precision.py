"""Which ops compute in 16 bits, where the casts stand, and what stays float32."""

import re

import numpy as np
import pytest

import traingraph as tg
from small_layers import convolution, dense, regression

HALVES = {"mixed_bfloat16": "bfloat16", "mixed_float16": "float16"}


def trained(layers, shape, precision, outputs=None, options="none", device="reference"):
    graph = tg.MLCGraph()
    x = tg.MLCTensor(shape=list(shape))
    result = x
    hidden = {}
    for k, layer in enumerate(layers):
        result = graph.node(layer, source=result)
        if outputs is not None and k in outputs:
            hidden[f"h{k}"] = result
    training = regression(graph, x, result)
    if hidden:
        training.add_outputs(hidden)
    training.compile(options=options, device=device, precision=precision)
    return training


class Line:
    """One op of a printed program."""

    def __init__(self, phase, text):
        self.phase, self.text = phase, text
        self.op = re.search(r"= (\w+)\(", text).group(1)
        left, right = text.split(" = ", 1)
        self.results = re.findall(r"%(\d+) (\w+)", left)
        self.kept = " keep" in left
        self.writes = " writes " in left
        self.operands = re.findall(r"%(\d+)", right.split(")")[0])


def program(graph):
    """Types of the values by number, and the ops in order."""
    types, lines, phase = {}, [], None
    for text in graph.compiled_description().splitlines():
        if re.fullmatch(r"\w+:", text):
            phase = text[:-1]
        elif text.startswith("  "):
            lines.append(Line(phase, text))
            types.update(lines[-1].results)
        else:
            types.update(re.findall(r"^\w+ %(\d+) (\w+)", text))
    return types, lines


def operand_types(line, types):
    return [types[o] for o in line.operands]


PRODUCTS = (
    "matmul",
    "convolution",
    "convolution_gradient_data",
    "convolution_gradient_weights",
)
NETWORK = [
    lambda: convolution(2, 4),
    lambda: tg.MLCBatchNormalizationLayer(feature_channel_count=4),
    lambda: tg.MLCActivationLayer.relu(),
    lambda: tg.MLCPoolingLayer(
        descriptor=tg.MLCPoolingDescriptor(type="max", kernel_sizes=(2, 2), strides=(2, 2))
    ),
    lambda: convolution(4, 4),
    lambda: tg.MLCActivationLayer.gelu(),
    lambda: tg.MLCReshapeLayer(shape=[2, 64]),
    lambda: dense(64, 5),
]


def network():
    return [make() for make in NETWORK]


@pytest.mark.parametrize("precision", HALVES)
@pytest.mark.parametrize("options", ["none", "disable_layer_fusion"])
def test_products_take_16_bits_and_updates_give_float32(precision, options):
    half = HALVES[precision]
    types, lines = program(trained(network(), (2, 2, 8, 8), precision, options=options))
    products = [line for line in lines if line.op in PRODUCTS]
    assert len(products) == 8  # three layers forward and by weights, two by data
    for line in products:
        assert operand_types(line, types)[:2] == [half, half]
    for line in lines:
        if line.op == "convolution" or line.op.startswith("convolution_gradient"):
            assert line.results[0][1] == half
        if line.phase == "update":
            assert {t for _, t in line.results} == {"float32"}
        if line.kept or line.writes:
            assert {t for _, t in line.results} == {"float32"}


@pytest.mark.parametrize("precision", HALVES)
def test_updates_read_gradients_of_16_bits_as_they_are(precision):
    """Their casts are for who asks for a gradient, and no part of a step."""
    layers = network()
    training = trained(layers, (2, 2, 8, 8), precision)
    types, lines = program(training)
    by_weights = [line for line in lines if line.op == "convolution_gradient_weights"]
    halves = {number for line in by_weights for number, _ in line.results}
    updates = [line for line in lines if line.phase == "update"]
    read = [o for line in updates for o in line.operands if types[o] != "float32"]
    assert len(halves) == 2
    if precision == "mixed_bfloat16":  # gradients of float16 are divided by the scale first
        assert sorted(read) == sorted(halves)
    step = training.execute(
        inputs_data={"x": np.ones((2, 2, 8, 8), np.float32)},
        loss_labels_data={"y": np.ones((2, 5), np.float32)},
        options="synchronous|per_layer_profiling",
    )
    training.execute_forward(options="synchronous")
    apart = training.execute_gradient(options="synchronous|per_layer_profiling")
    ran, ran_apart = (
        [entry.op for entry in call.profile.entries if entry.phase == "gradient"]
        for call in (step, apart)
    )
    assert len(ran_apart) - len(ran) == len(read)
    gradient = training.gradient_data(layers[0].weights, layer=layers[0])
    assert gradient.dtype == np.float32
    assert gradient.any()


@pytest.mark.parametrize("precision", HALVES)
def test_what_stands_between_products_follows(precision):
    half = HALVES[precision]
    types, lines = program(trained(network(), (2, 2, 8, 8), precision))
    seen = set()
    for line in lines:
        first = types[line.operands[0]] if line.operands else None
        if line.op == "batch_norm":
            assert operand_types(line, types)[:3] == [half, "float32", "float32"]
            assert [t for _, t in line.results] == [half, *["float32"] * 3]
        elif line.op == "batch_norm_gradient":
            assert operand_types(line, types)[:5] == [half, half, *["float32"] * 3]
            assert [t for _, t in line.results] == [half, "float32", "float32"]
        elif line.op == "pooling":
            assert (first, line.results[0][1], line.results[1][1]) == (half, half, "uint8")
        elif line.op == "pooling_gradient":
            assert (first, line.results[0][1]) == (half, half)
        elif line.op == "reduce":
            assert line.results[0][1] == "float32"
        else:
            continue
        seen.add(line.op)
    assert seen >= {"batch_norm", "batch_norm_gradient", "pooling", "pooling_gradient", "reduce"}


def test_the_last_product_gives_what_the_loss_reads_unrounded():
    types, lines = program(trained([dense(6, 5)], (4, 6), "mixed_bfloat16"))
    (forward,) = [line for line in lines if line.op == "matmul" and line.phase == "forward"]
    assert forward.results[0][1] == "float32"
    assert operand_types(forward, types)[:2] == ["bfloat16", "bfloat16"]


def test_gradients_by_weights_of_a_matrix_product_are_float32():
    _, lines = program(trained([dense(6, 5), dense(5, 3)], (4, 6), "mixed_bfloat16"))
    gradient = [line for line in lines if line.op == "matmul" and line.phase == "gradient"]
    # two by weights, one by data which the product before it reads
    assert sorted(line.results[0][1] for line in gradient) == ["bfloat16", "float32", "float32"]


def casts(lines, half):
    """Ops that do nothing but narrow."""
    return [
        line
        for line in lines
        if line.op == "elementwise"
        and re.search(r"list=\{(t0 = identity\(i0\))? ?-> [it]0\}", line.text)
        and line.results[0][1] == half
    ]


def test_a_value_is_cast_once():
    weights = dense(6, 6)
    graph = tg.MLCGraph()
    x = tg.MLCTensor(shape=[4, 6])
    first = graph.node(dense(6, 6), source=x)
    left, right = (graph.node(dense(6, 6), source=first) for _ in range(2))
    again = graph.node(weights, source=left)
    result = graph.node(tg.MLCArithmeticLayer(operation="add"), sources=[again, right])
    training = regression(graph, x, result)
    training.compile(device="reference", precision="mixed_bfloat16")
    _, lines = program(training)
    parameters = {
        number
        for number, shape in re.findall(
            r"^parameter %(\d+) float32 \(([^)]*)\)", training.compiled_description(), re.M
        )
        if shape == "6, 6"
    }
    narrowed = [line.operands[0] for line in casts(lines, "bfloat16")]
    assert len(narrowed) == len(set(narrowed))
    assert parameters <= set(narrowed)


def test_casts_join_the_chain_before_them():
    layers = [dense(6, 6), tg.MLCSoftmaxLayer(operation="softmax", dimension=1), dense(6, 5)]
    # its gradient reads what it was given, so that nothing else reads what it gives
    layers.insert(2, tg.MLCActivationLayer.gelu())
    types, lines = program(trained(layers, (4, 6), "mixed_float16"))
    gelu = [line for line in lines if "gelu(" in line.text and line.phase == "forward"]
    assert [operand_types(line, types) for line in gelu] == [["float32"]]
    assert gelu[0].results[0][1] == "float16"


def test_outputs_and_gradients_that_are_read_stay_float32():
    training = trained(network(), (2, 2, 8, 8), "mixed_bfloat16", outputs={0, 1, 3})
    rng = np.random.default_rng(0)
    training.execute(
        inputs_data={"x": rng.normal(size=(2, 2, 8, 8)).astype(np.float32)},
        loss_labels_data={"y": rng.normal(size=(2, 5)).astype(np.float32)},
        outputs_data={
            "h0": (a := np.zeros((2, 4, 8, 8), np.float32)),
            "h3": np.zeros((2, 4, 4, 4), np.float32),
        },
        options="synchronous",
    )
    assert a.any()
    _, lines = program(training)
    kept = [t for line in lines if line.kept for _, t in line.results]
    assert len(kept) >= 4
    assert set(kept) == {"float32"}


@pytest.mark.parametrize("precision", HALVES)
def test_layers_without_a_product_before_them_are_exact(precision):
    layers = [tg.MLCActivationLayer.tanh(), tg.MLCSoftmaxLayer(operation="softmax", dimension=1)]
    half = HALVES[precision]
    text = trained(layers, (4, 6), precision).compiled_description()
    assert half not in text


def test_inference_mixes_too():
    graph = tg.MLCGraph()
    x = tg.MLCTensor(shape=[2, 2, 8, 8])
    tg.sequential(graph, x, network())
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    inference.compile(device="reference", precision="mixed_float16")
    types, lines = program(inference)
    assert sum(line.op in PRODUCTS for line in lines) == 3
    assert all(
        operand_types(line, types)[:2] == ["float16"] * 2 for line in lines if line.op in PRODUCTS
    )
    assert lines[-1].results[0][1] == "float32"


def test_layers_under_debugging_are_readable_in_float32():
    layers = network()
    for layer in layers:
        layer.is_debugging_enabled = True
    training = trained(layers, (2, 2, 8, 8), "mixed_bfloat16", options="debug_layers")
    _, lines = program(training)
    kept = [t for line in lines if line.kept for _, t in line.results]
    assert len(kept) >= 2 * len(layers)
    assert set(kept) <= {"float32", "uint8"}


def test_what_compiles_again_keeps_the_precision():
    training = trained([dense(6, 5)], (4, 6), "mixed_bfloat16")
    training.micro_batches = 2
    training.execute(
        inputs_data={"x": np.ones((8, 6), np.float32)},
        loss_labels_data={"y": np.ones((8, 5), np.float32)},
        batch_size=8,
        options="synchronous",
    )
    text = training.compiled_description()
    assert "accumulates" in text
    assert "(N=8, 6)" in text
    assert "bfloat16" in text


@pytest.mark.parametrize("precision", HALVES)
def test_plans_without_a_device(precision):
    training = trained(network(), (2, 2, 8, 8), precision, device="null")
    assert training.device_memory_size > 0
