"""The gradient of batch norm that begins with a sum of gradients and gives it to others.

Op by op here beside NumPy, and in residual networks beside the same ones without fusion.
"""

import re

import numpy as np
import pytest

import traingraph as tg
from op_harness import declare_with, forward, testing
from small_layers import convolution, regression

IMAGES = (32, 64, 16, 16)  # large enough for tensor cores

# Operands of the list by their place: those of the sum, and the result of relu.
LISTS = {
    "a sum": (2, [("add", 0, 1)]),
    "a sum that counts in part": (3, [("add", 0, 1), ("relu_gradient", 3, 2)]),
    "its operands in another order": (3, [("add", 2, 1), ("relu_gradient", 3, 0)]),
}
SHAPES = [(4, 16, 5, 7), (2, 48, 9, 9), (3, 17, 4, 4), (50, 100), (5000, 24), (4100, 7)]


def attributes_of(inputs, code):
    full = [(f, x, y, 0.0, 0.0) for f, x, y in code]
    epilogue = {"inputs": inputs, "code": full, "results": [inputs + len(code) - 1]}
    return {"epilogue": epilogue, "gives_prologue": True}


def ran(device, attributes, arrays, last):
    """Results of a batch_norm_gradient, its operands with the channel last; the same bits twice."""
    graph = testing.Graph()
    inputs, operands = declare_with(graph, arrays, last)
    results = graph.add_op("batch_norm_gradient", attributes, operands)
    plain = [graph.add_op("reorder", {}, [r])[0] for r in results]
    graph = testing.with_layouts(graph, device)
    bound = dict(zip(inputs, arrays, strict=True))
    found = [graph.run(device, bound, plain) for _ in range(2)]
    for first, second in zip(*found, strict=True):
        assert first.tobytes() == second.tobytes()
    return found[0]


def check_op(device, shape, name, last, dtype, bound):
    rng = np.random.default_rng(7)
    channels = shape[1]
    inputs, code = LISTS[name]
    operands = [rng.uniform(-1, 1, shape).astype(dtype) for _ in range(inputs)]
    x = rng.uniform(-1, 1, shape).astype(dtype)
    mean = rng.uniform(-0.1, 0.1, channels).astype("f4")
    deviation = rng.uniform(1, 2, channels).astype("f4")
    gamma = rng.uniform(-1, 1, channels).astype("f4")
    _, one, other = code[0]
    joined = (operands[one].astype("f4") + operands[other].astype("f4")).astype(dtype)
    if len(code) > 1:
        joined = np.where(operands[code[1][2]] <= 0, np.zeros((), dtype), joined)
    wide = [a.astype("f8") for a in (joined, x, mean, deviation, gamma)]
    expected = forward("batch_norm_gradient", {}, wide)
    arrays = [operands[0], x, mean, deviation, gamma, *operands[1:]]
    got = ran(device, attributes_of(inputs, code), arrays, last)
    np.testing.assert_array_equal(got[3], joined)
    for result, right in zip(got, expected, strict=False):
        scale = np.abs(right).max()
        np.testing.assert_allclose(result / scale, right / scale, rtol=0, atol=bound)


@pytest.mark.parametrize("device", ["cpu"])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_sum_is_a_fourth_result(device, shape, name, last):
    if device == "metal":
        pytest.skip("Metal takes no sum in front of a gradient")
    check_op(device, shape, name, last, np.float32, 5e-6)


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_sum_is_rounded_once_to_16_bits(gpu, shape, name):
    check_op(gpu, shape, name, True, np.float16, 2.0**-10)


def normalized(graph, h, channels, relu=True):
    h = graph.node(convolution(channels, channels), source=h)
    h = graph.node(tg.MLCBatchNormalizationLayer(feature_channel_count=channels), source=h)
    return graph.node(tg.MLCActivationLayer.relu(), source=h) if relu else h


# Two blocks: which of them has a convolution and a batch norm in its short way.
WAYS = [(False, True), (True, False)]


def residual(device, precision="float32", options="none", ways=WAYS[0]):
    tg.MLCPlatform.set_rng_seed_to(11)
    graph = tg.MLCGraph()
    source = tg.MLCTensor(shape=list(IMAGES))
    h = normalized(graph, source, IMAGES[1])
    for short in ways:
        long = normalized(graph, normalized(graph, h, IMAGES[1]), IMAGES[1], relu=False)
        if short:
            h = normalized(graph, h, IMAGES[1], relu=False)
        h = graph.node(tg.MLCArithmeticLayer(operation="add"), sources=[long, h])
        h = graph.node(tg.MLCActivationLayer.relu(), source=h)
    training = regression(graph, source, graph.node(convolution(IMAGES[1], 8), source=h), rate=1.0)
    training.compile(device=device, precision=precision, options=options)
    return training


def gradients(training):
    """Of all parameters, in one row: what SGD with rate 1 subtracts."""
    rng = np.random.default_rng(3)
    if training.loss_scale is not None:
        # Nothing overflows, and little is too small for float16.
        training.load_state({**training.state(), "state.loss_scale": np.full(1, 4096, np.float32)})
    before = {k: v for k, v in training.state().items() if not k.startswith("state.")}
    labels = (IMAGES[0], 8, *IMAGES[2:])
    training.execute(
        inputs_data={"x": rng.normal(size=IMAGES).astype("f4")},
        loss_labels_data={"y": rng.normal(size=labels).astype("f4")},
        options="synchronous",
    )
    after = training.state()
    return np.concatenate([np.ravel(before[k].astype("f8") - after[k]) for k in sorted(before)])


def check_beside_no_fusion(device, precision, bound, ways):
    one, again = (gradients(residual(device, precision, ways=ways)) for _ in range(2))
    assert one.tobytes() == again.tobytes()
    apart = gradients(residual(device, precision, "disable_layer_fusion", ways))
    assert np.linalg.norm(one - apart) <= bound * np.linalg.norm(apart)


@pytest.mark.parametrize("device", ["cpu"])
def test_residual_sums_are_inside_the_gradient_of_batch_norm(device):
    if device == "metal":
        pytest.skip("Metal takes no sum in front of a gradient")
    text = residual(device).compiled_description() + "\nend:"
    backward = re.search(r"^gradient:\n(.*?)^\w+:", text, re.S | re.M).group(1)
    sums = [line for line in backward.splitlines() if "= add(" in line]
    # The two blocks' sources: the sum of what the long and the short way give.
    assert len(sums) == 2
    assert all("= batch_norm_gradient(" in line and "gives_prologue" in line for line in sums)


@pytest.mark.parametrize("precision", ["tf32", "mixed_bfloat16", "mixed_float16"])
def test_relu_masks_are_read_in_place_of_results(gpu, precision):
    lines = residual(gpu, precision, ways=(True, False)).compiled_description().splitlines()
    given = [line for line in lines if "= batch_norm(" in line and "has_relu_mask" in line]
    gradients = [line for line in lines if "batch_norm_gradient(" in line]
    read = [line for line in gradients if "has_relu_mask" in line]
    # The last block's end is masked once for both its ways. In float32 a result without a sum is
    # worked out again, so only the end of the block before is left.
    assert len(given) == len(read) == (1 if precision == "tf32" else 4)
    # Both ways of the first block end in a batch norm.
    assert len([line for line in gradients if "has_residual_pair" in line]) == 1
    assert len([line for line in given if "adds_normalized" in line]) == 1


@pytest.mark.parametrize("device", ["cpu"])
@pytest.mark.parametrize("ways", WAYS, ids=str)
@pytest.mark.parametrize(("precision", "bound"), [("float32", 1e-5), ("tf32", 2.0**-9)])
def test_residual_networks_have_the_gradients_of_those_without_fusion(
    device, precision, bound, ways
):
    if device == "metal" and ways != WAYS[0]:
        pytest.skip("Metal joins nothing in either network, and one takes long on doubles")
    check_beside_no_fusion(device, precision, bound, ways)


# Fused and apart they round in other places: 8 units of 2^-8 and 2^-11.
@pytest.mark.parametrize("ways", WAYS, ids=str)
@pytest.mark.parametrize(
    ("precision", "bound"), [("mixed_bfloat16", 2.0**-5), ("mixed_float16", 2.0**-8)]
)
def test_residual_networks_in_16_bits(gpu, precision, bound, ways):
    check_beside_no_fusion(gpu, precision, bound, ways)
