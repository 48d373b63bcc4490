"""Winograd's method over tensors of 16 bits: beside float64 of the same rounded operands, and
without widened tensors in the workspace."""

import os

import numpy as np
import pytest
from cpu_ops import numbers, scalars
from test_cpu_half_norms import HALVES, rounded
from test_cpu_winograd import BOUND, ENDS, PROBLEMS, exact, exact_gradients, problem
from test_thread_counts import same_for_every_count

from op_harness import cast, declare, testing
from traingraph import nn

NAMES = ["many blocks, odd", "many blocks, paddings", "shared, odd", "one image", "slices"]


def in_half(op, attributes, arrays, half):
    graph = testing.Graph()
    inputs = declare(graph, arrays)
    found = graph.add_op(op, attributes, [cast(graph, value, half) for value in inputs])[0]
    assert graph.type(found)[0] == half
    wide = graph.add_op("reorder", {}, [cast(graph, found, "float32")])[0]
    graph = testing.with_layouts(graph, "cpu")
    return graph.run("cpu", dict(zip(inputs, arrays, strict=True)), [wide])[0]


def near(got, expected, half):
    bound = 1.01 * HALVES[half] * np.abs(expected) + BOUND * np.abs(expected).max()
    assert (np.abs(got - expected) <= bound).all()


def operands(name, half):
    x, weights, attributes = problem(*PROBLEMS[name])
    x, weights = rounded(x, half), rounded(weights, half)
    dy = rounded(numbers(exact(x, weights, attributes).shape, seed=2), half)
    return x, weights, dy, attributes


def computed(name, half):
    x, weights, dy, attributes = operands(name, half)
    to_x, to_weights = ({**attributes, "result_shape": a.shape} for a in (x, weights))
    return (
        in_half("convolution", attributes, [x, weights], half),
        in_half("convolution_gradient_data", to_x, [dy, weights], half),
        in_half("convolution_gradient_weights", to_weights, [dy, x], half),
    )


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("name", NAMES)
def test_results_and_gradients(name, half, threads):
    x, weights, dy, attributes = operands(name, half)
    y = exact(x, weights, attributes)
    right = (y, *exact_gradients(dy, x, weights, attributes))
    for got, expected in zip(computed(name, half), right, strict=True):
        near(got, expected, half)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("name", NAMES)
def test_bits_for_any_number_of_threads(name, half):
    same_for_every_count(lambda: list(computed(name, half)))


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("end", ENDS)
def test_epilogues(end, half):
    x, weights, _, attributes = operands("many blocks, odd", half)
    bias = [rounded(numbers((1, weights.shape[0], 1, 1), seed=4), half)] if "bias" in end else []
    expected = exact(x, weights, attributes) + (bias[0] if bias else 0)
    if "relu" in end:
        expected = np.maximum(expected, 0)
    tail = scalars(1 + len(bias), ENDS[end])
    got = in_half("convolution", {**attributes, "epilogue": tail}, [x, weights, *bias], half)
    near(got, expected, half)


def workspaces(precision):
    """Of the convolutions whose result is no sum of gradients."""
    model = nn.model(
        [nn.conv2d(64, 3, padding=1), "relu", nn.conv2d(64, 3, padding=1)],
        input=(64, 24, 24), batch_size=16, device="cpu",
    )  # fmt: skip
    model.compile(device="cpu", precision=precision)
    entries = [e for e in model.memory_plan().entries if e.kind == "workspace"]
    taken = {e.name.split()[0]: e.bytes for e in entries}
    return [taken[op] for op in ("convolution", "convolution_gradient_data")]


@pytest.mark.skipif(os.environ.get("TRAINGRAPH_ISA") == "v2", reason="no gain on level v2")
@pytest.mark.skipif(os.environ.get("TRAINGRAPH_WINOGRAD") == "0", reason="turned off")
@pytest.mark.parametrize("precision", ["mixed_float16", "mixed_bfloat16"])
def test_no_tensor_is_widened(precision):
    """Else float32 forms of all operands would lie in the workspace."""
    assert workspaces(precision) == workspaces("float32")
