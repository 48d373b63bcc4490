"""Kernels of oneDNN against the reference implementation: convolution with its gradients, matrix
products, reorders; in plain layouts and those that the kernels ask for; with one thread and two."""

import os
import subprocess
import sys

import numpy as np
import pytest

from op_harness import declare, testing

if "cpu" not in testing.backends():
    pytest.skip("no CPU backend on this machine", allow_module_level=True)

# Sums of up to a thousand float32 products, relative to the largest result.
BOUND = 1e-5


def numbers(seed, shape):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def run(op, attributes, arrays, backend, with_layouts=False):
    """The first result, plain, and the layouts of inputs and result."""
    graph = testing.Graph()
    inputs = declare(graph, arrays)
    result = graph.add_op(op, attributes, inputs)[0]
    plain = graph.add_op("reorder", {}, [result])[0]
    if with_layouts:
        graph = testing.with_layouts(graph, backend)
    bound = dict(zip(inputs, arrays, strict=True))
    found = [graph.run(backend, bound, [plain])[0] for _ in range(2)]
    assert found[0].tobytes() == found[1].tobytes()
    return found[0], testing.layout(graph, result)


def check(op, attributes, arrays, bound=BOUND):
    """In both kinds of layouts against the reference in float64."""
    expected = run(op, attributes, [a.astype(np.float64) for a in arrays], "reference")[0]
    scale = np.abs(expected).max()
    for with_layouts in (False, True):
        got = run(op, attributes, arrays, "cpu", with_layouts)[0]
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, expected, rtol=0, atol=bound * scale)


def convolution(n, c, size, o, kernel, stride=1, dilation=1, before=(0, 0), after=None, groups=1):
    """Arrays x (N, C, H, W) and weights (O, C / groups, kh, kw), and the attributes."""
    attributes = {
        "kernel": kernel,
        "stride": (stride, stride),
        "dilation": (dilation, dilation),
        "padding_before": before,
        "padding_after": before if after is None else after,
        "groups": groups,
    }
    return numbers(1, (n, c, *size)), numbers(2, (o, c // groups, *kernel)), attributes


CONVOLUTIONS = {
    "3x3": convolution(2, 16, (9, 9), 32, (3, 3), before=(1, 1)),
    "7x7 stride 2 on 3 channels": convolution(2, 3, (17, 17), 64, (7, 7), stride=2, before=(3, 3)),
    "one channel": convolution(4, 1, (8, 8), 32, (3, 3), before=(1, 1)),
    "17 to 30 channels": convolution(3, 17, (10, 11), 30, (3, 3), before=(1, 1)),
    "3 to 17 channels": convolution(2, 3, (8, 8), 17, (3, 3)),
    "30 to 3 channels, batch 1": convolution(1, 30, (7, 7), 3, (3, 3), before=(1, 1)),
    "1x1": convolution(2, 64, (7, 7), 32, (1, 1)),
    "1x1 stride 2": convolution(2, 32, (8, 8), 64, (1, 1), stride=2),
    "1x1, 17 to 30 channels": convolution(1, 17, (5, 5), 30, (1, 1)),
    "stride 2": convolution(2, 32, (16, 16), 64, (3, 3), stride=2, before=(1, 1)),
    "stride 2, odd": convolution(2, 17, (15, 13), 30, (3, 3), stride=2, before=(1, 1)),
    "padding after only": convolution(2, 16, (10, 10), 16, (3, 3), stride=2, after=(1, 1)),
    "asymmetric": convolution(2, 5, (10, 9), 7, (4, 2), stride=2, before=(1, 0), after=(2, 1)),
    "more padding than kernel": convolution(1, 4, (3, 3), 8, (3, 3), before=(3, 3)),
    "dilation 2": convolution(2, 16, (12, 12), 32, (3, 3), dilation=2, before=(2, 2)),
    "dilation 3, stride 2": convolution(
        1, 8, (20, 20), 24, (3, 3), stride=2, dilation=3, before=(3, 3)
    ),
    "1x5": convolution(2, 16, (6, 14), 16, (1, 5), before=(0, 2)),
    "whole source": convolution(4, 32, (5, 5), 40, (5, 5)),
    "2 groups": convolution(2, 32, (8, 8), 32, (3, 3), before=(1, 1), groups=2),
    "4 groups of 16": convolution(2, 64, (8, 8), 64, (3, 3), before=(1, 1), groups=4),
    "3 groups of 3 to 5": convolution(2, 9, (8, 8), 15, (3, 3), before=(1, 1), groups=3),
    "4 groups of 2 to 16": convolution(2, 8, (8, 8), 64, (3, 3), stride=2, before=(1, 1), groups=4),
    "depthwise": convolution(2, 32, (9, 9), 32, (3, 3), before=(1, 1), groups=32),
    "depthwise stride 2": convolution(
        2, 48, (9, 9), 48, (3, 3), stride=2, before=(1, 1), groups=48
    ),
    "depthwise, 30 channels": convolution(2, 30, (9, 9), 30, (3, 3), before=(1, 1), groups=30),
    "depthwise, dilated": convolution(
        1, 17, (14, 14), 17, (5, 5), dilation=2, before=(4, 4), groups=17
    ),
    "two results per channel": convolution(2, 16, (9, 9), 32, (3, 3), before=(1, 1), groups=16),
    "two threads' worth": convolution(8, 64, (16, 16), 64, (3, 3), before=(1, 1)),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.usefixtures("threads")
def test_convolution(name):
    x, weights, attributes = CONVOLUTIONS[name]
    check("convolution", attributes, [x, weights])


@pytest.mark.parametrize("name", CONVOLUTIONS)
@pytest.mark.usefixtures("threads")
def test_convolution_gradients(name):
    x, weights, attributes = CONVOLUTIONS[name]
    y = run("convolution", attributes, [x, weights], "cpu")[0]
    dy = numbers(3, y.shape)
    to_x = {**attributes, "result_shape": x.shape}
    check("convolution_gradient_data", to_x, [dy, weights])
    to_weights = {**attributes, "result_shape": weights.shape}
    check("convolution_gradient_weights", to_weights, [dy, x])


MANY_SAMPLES = {
    "one beyond a part": (1025, 3, (4, 5), 8),
    "some parts": (3001, 16, (3, 3), 16),
    "one channel": (2500, 1, (5, 4), 5),
}


@pytest.mark.parametrize("name", MANY_SAMPLES)
@pytest.mark.usefixtures("threads")
def test_the_gradient_of_weights_in_parts_of_the_samples(name):
    n, c, size, o = MANY_SAMPLES[name]
    x, weights, attributes = convolution(n, c, size, o, (3, 3), before=(1, 1))
    dy = numbers(3, (n, o, *size))
    to_weights = {**attributes, "result_shape": weights.shape}
    check("convolution_gradient_weights", to_weights, [dy, x])


@pytest.mark.parametrize(("n", "c", "size"), [(300_000, 1, 3), (100_000, 8, 2)])
def test_equal_terms_of_many_samples(n, c, size):
    """Each addition to a sum in float32 errs alike: by a part of the terms that were added."""
    padding = 0 if size == 3 else 1
    x, weights, attributes = convolution(n, c, (size, size), c, (3, 3), before=(padding, padding))
    x[:] = 1 / 3
    dy = np.full((n, c, 1, 1) if size == 3 else x.shape, np.float32(1 / 3))
    to_weights = {**attributes, "result_shape": weights.shape}
    got = run("convolution_gradient_weights", to_weights, [dy, x], "cpu")[0]
    terms = np.full((3, 3), n) if size == 3 else n * np.outer([1, 2, 1], [1, 2, 1])
    right = np.tile(terms * float(x.flat[0]) ** 2, (c, c, 1, 1))
    np.testing.assert_allclose(got, right, rtol=0, atol=1e-4 * right.max())


@pytest.mark.skipif(
    os.environ.get("TRAINGRAPH_ISA") == "v2", reason="oneDNN's gradients for SSE4.1 are plain"
)
def test_one_layout_runs_through_the_three_passes():
    """One extent of 1 must not hide a fast kernel, nor a stride change the layout."""
    for name in ("3x3", "one channel", "1x1 stride 2", "stride 2", "depthwise"):
        x, weights, attributes = CONVOLUTIONS[name]
        y, forward = run("convolution", attributes, [x, weights], "cpu", with_layouts=True)
        to_x = {**attributes, "result_shape": x.shape}
        _, dx = run("convolution_gradient_data", to_x, [y, weights], "cpu", with_layouts=True)
        assert forward == dx, name


def epilogue(bias, function=None, p=0.0, q=0.0):
    inputs = 2 if bias else 1
    code = [("add", 0, 1, 0.0, 0.0)] if bias else []
    if function is not None:
        code.append((function, inputs if bias else 0, -1, p, q))
    return {"inputs": inputs, "code": code, "results": [inputs + len(code) - 1]}


EPILOGUES = {
    "bias": epilogue(True),
    "relu": epilogue(False, "relu"),
    "bias, relu": epilogue(True, "relu"),
    "bias, leaky relu": epilogue(True, "leaky_relu", 0.1),
    "bias, tanh": epilogue(True, "tanh", 1.0, 1.0),
    "absolute": epilogue(False, "absolute"),
    "bias, elu": epilogue(True, "elu", 1.5),
    "bias, gelu": epilogue(True, "gelu"),
}


def unfused(op, attributes, arrays, bias, tail):
    """The same as ops of their own, on the reference backend in float64."""
    graph = testing.Graph()
    arrays = [a.astype(np.float64) for a in [*arrays, *bias]]
    inputs = declare(graph, arrays)
    result = graph.add_op(op, attributes, inputs[:2])[0]
    result = graph.add_op("elementwise", {"list": tail}, [result, *inputs[2:]])[0]
    return graph.run("reference", dict(zip(inputs, arrays, strict=True)), [result])[0]


def check_epilogue(op, attributes, arrays, bias, tail):
    bias = [bias] if tail["inputs"] == 2 else []
    expected = unfused(op, attributes, arrays, bias, tail)
    for with_layouts in (False, True):
        with_tail = {**attributes, "epilogue": tail}
        got = run(op, with_tail, [*arrays, *bias], "cpu", with_layouts)[0]
        np.testing.assert_allclose(got, expected, rtol=0, atol=3e-5 * np.abs(expected).max())


@pytest.mark.parametrize("tail", EPILOGUES)
@pytest.mark.parametrize("name", ["3x3", "one channel", "17 to 30 channels", "1x1", "depthwise"])
def test_epilogue_of_convolution(name, tail):
    x, weights, attributes = CONVOLUTIONS[name]
    bias = numbers(4, (1, weights.shape[0], 1, 1))
    check_epilogue("convolution", attributes, [x, weights], bias, EPILOGUES[tail])


@pytest.mark.parametrize("tail", EPILOGUES)
def test_epilogue_of_matmul(tail):
    arrays = [numbers(1, (200, 300)), numbers(2, (260, 300))]
    check_epilogue("matmul", {"transpose_b": True}, arrays, numbers(3, (260,)), EPILOGUES[tail])


@pytest.mark.parametrize(
    "tail", ["relu", "bias, leaky relu", "bias, tanh", "absolute", "bias, elu"]
)
@pytest.mark.parametrize("with_layouts", [False, True])
def test_epilogue_lets_nan_through(tail, with_layouts):
    x, weights, attributes = CONVOLUTIONS["1x1"]
    x = x.copy()
    x[0, :, 2, 3] = np.nan
    arrays = [x, weights]
    if EPILOGUES[tail]["inputs"] == 2:
        arrays.append(np.zeros((1, weights.shape[0], 1, 1), np.float32))
    with_tail = {**attributes, "epilogue": EPILOGUES[tail]}
    y = run("convolution", with_tail, arrays, "cpu", with_layouts)[0]
    assert np.isnan(y[0, :, 2, 3]).all()
    assert np.isnan(y).sum() == y.shape[1]


def test_bias_and_relu_fuse():
    """… into the convolution and into the matrix product, and nothing else is left."""
    for op, attributes, shapes in [
        ("convolution", {"kernel": (3, 3)}, [(2, 16, 8, 8), (32, 16, 3, 3), (1, 32, 1, 1)]),
        ("matmul", {"transpose_b": True}, [(256, 784), (2048, 784), (2048,)]),
    ]:
        graph = testing.Graph()
        inputs = [graph.add_input("float32", shape) for shape in shapes]
        y = graph.add_op(op, attributes, inputs[:2])[0]
        y = graph.add_op("elementwise", {"list": EPILOGUES["bias, relu"]}, [y, inputs[2]])[0]
        assert "elementwise" not in str(testing.fused(graph, "cpu"))


MATMULS = {
    "large": ((256, 784), (784, 300)),
    "narrow": ((300, 2048), (2048, 10)),
    "short inner extent": ((300, 10), (10, 2048)),
    "one row": ((1, 640), (640, 1000)),
    "one column": ((1000, 640), (640, 1)),
    "odd": ((131, 257), (257, 67)),
    "rows of two axes": ((8, 33, 70), (70, 90)),
    "batched": ((6, 64, 80), (6, 80, 96)),
    "two leading axes": ((2, 3, 128, 32), (2, 3, 32, 128)),
    "left broadcast": ((4, 1, 64, 80), (4, 5, 80, 96)),
    "both broadcast": ((2, 1, 48, 64), (1, 3, 64, 80)),
    "fewer axes on the left": ((80, 64), (2, 3, 64, 80)),
    "fewer axes on the right": ((2, 3, 80, 64), (3, 64, 80)),
}


@pytest.mark.parametrize("transposes", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("name", MATMULS)
@pytest.mark.usefixtures("threads")
def test_matmul(name, transposes):
    arrays = []
    for k, (shape, transposed) in enumerate(zip(MATMULS[name], transposes, strict=True)):
        shape = (*shape[:-2], shape[-1], shape[-2]) if transposed else shape
        arrays.append(numbers(k, shape))
    attributes = {"transpose_a": transposes[0], "transpose_b": transposes[1]}
    check("matmul", attributes, arrays)
    check("matmul", {**attributes, "alpha": -0.37}, arrays)


def test_padding_of_blocked_results_stays_zero():
    """A second convolution reads the first one's padded channels."""
    graph = testing.Graph()
    arrays = [numbers(1, (2, 16, 8, 8)), numbers(2, (30, 16, 3, 3)), numbers(3, (17, 30, 3, 3))]
    bias = numbers(4, (1, 30, 1, 1))
    inputs = declare(graph, [*arrays, bias])
    attributes = {"kernel": (3, 3), "padding_before": (1, 1), "padding_after": (1, 1)}
    with_tail = {**attributes, "epilogue": EPILOGUES["bias, gelu"]}
    y = graph.add_op("convolution", with_tail, [inputs[0], inputs[1], inputs[3]])[0]
    z = graph.add_op("convolution", attributes, [y, inputs[2]])[0]
    plain = graph.add_op("reorder", {}, [z])[0]
    bound = dict(zip(inputs, [*arrays, bias], strict=True))
    expected = graph.run("cpu", bound, [plain])[0]
    got = testing.with_layouts(graph, "cpu").run("cpu", bound, [plain])[0]
    np.testing.assert_allclose(got, expected, rtol=0, atol=BOUND * np.abs(expected).max())


@pytest.mark.parametrize(
    "setting", ["OMP_THREAD_LIMIT=1", "OMP_DYNAMIC=true", "OMP_MAX_ACTIVE_LEVELS=0"]
)
def test_fewer_threads_than_asked_for(setting):
    """oneDNN leaves out what a missing thread should have computed, without an error."""
    name, value = setting.split("=")
    script = (
        "import test_onednn_kernels as t\n"
        "t.testing.set_thread_count(4)\n"
        'x, weights, attributes = t.CONVOLUTIONS["two threads\' worth"]\n'
        "t.check('convolution', attributes, [x, weights])\n"
        "dy = t.run('convolution', attributes, [x, weights], 'cpu')[0]\n"
        "attributes['result_shape'] = weights.shape\n"
        "t.check('convolution_gradient_weights', attributes, [dy, x])\n"
    )
    path = os.pathsep.join(p for p in [os.path.dirname(__file__), *sys.path] if p)
    environment = {**os.environ, name: value, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
