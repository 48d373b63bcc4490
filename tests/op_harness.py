"""Ops of the graph IR, one at a time, through the private module `traingraph._testing`.

Its interpreter guards every buffer and fills results with NaN first, so any test that runs a kernel
finds out when it writes outside its result, or adds to it.
"""

import numpy as np
import pytest

from differences import Slopes, assert_near
from harness import assert_all_near, everywhere

testing = pytest.importorskip("traingraph._testing", reason="built without TRAINGRAPH_TESTING")


def declare(graph, arrays):
    return [graph.add_input(a.dtype.name, a.shape) for a in map(np.asarray, arrays)]


def declare_with(graph, arrays, channels_last):
    """The inputs, and the operands: those or copies of images with the channel innermost."""
    inputs = declare(graph, arrays)
    operands = []
    for value, array in zip(inputs, arrays, strict=True):
        if channels_last and array.ndim == 4:
            value = graph.add_op("reorder", {}, [value])[0]
            testing.set_layout(graph, value, [0, 2, 3, 1], [])
        operands.append(value)
    return inputs, operands


def forward(op, attributes, arrays, device="reference"):
    """The op's results; the same bits twice."""
    arrays = [np.asarray(a) for a in arrays]
    graph = testing.Graph()
    inputs = declare(graph, arrays)
    results = graph.add_op(op, attributes, inputs)
    bound = dict(zip(inputs, arrays, strict=True))
    first = graph.run(device, bound, results)
    second = graph.run(device, bound, results)
    for a, b in zip(first, second, strict=True):
        assert a.tobytes() == b.tobytes()
    return first


def gradients(op, attributes, arrays, cotangents, wanted, device="reference"):
    """Gradients of sum(cotangent * result) by the op's gradient rule.

    `cotangents` has one array per result, None where nothing flows back; `wanted` lists inputs.
    """
    arrays = [np.asarray(a) for a in arrays]
    graph = testing.Graph()
    inputs = declare(graph, arrays)
    results = graph.add_op(op, attributes, inputs)
    bound = dict(zip(inputs, arrays, strict=True))
    seeds = {}
    for result, cotangent in zip(results, cotangents, strict=True):
        if cotangent is None:
            continue
        seeds[result] = graph.add_input(graph.type(result)[0], graph.type(result)[1])
        bound[seeds[result]] = np.asarray(cotangent)
    found = graph.autodiff(seeds, [inputs[i] for i in wanted])
    graph.verify()
    assert None not in found, f"no gradient for input {wanted[found.index(None)]}"
    for value, i in zip(found, wanted, strict=True):
        assert graph.type(value)[1] == arrays[i].shape
    return graph.run(device, bound, found)


def check_gradients(op, attributes, arrays, wanted, results=(0,), tolerance=1e-7, seed=0):
    """The op's gradient rule against central differences of its own forward pass in float64."""
    rng = np.random.default_rng(seed)
    values = forward(op, attributes, arrays)
    cotangents = [
        rng.uniform(0.5, 1.5, v.shape) if k in results else None for k, v in enumerate(values)
    ]

    dy = np.concatenate([c.ravel() for c in cotangents if c is not None])
    moved = [np.array(a) for a in arrays]

    def seen(_):
        found = zip(forward(op, attributes, moved), cotangents, strict=True)
        return np.concatenate([value.ravel() for value, c in found if c is not None])

    got = gradients(op, attributes, arrays, cotangents, wanted)
    for k, gradient in zip(wanted, got, strict=True):
        Slopes(seen, moved[k], dy).assert_near(gradient, tolerance, got)


def checks(samples):
    """The test of ops in float32: every backend against the reference implementation in float64.

    A sample is (op, attributes, float32 and integer arrays, inputs with a gradient).
    """

    @everywhere
    @pytest.mark.parametrize(("op", "attributes", "arrays", "wanted"), list(samples))
    def test_float32(op, attributes, arrays, wanted, device):
        wide = [a.astype(np.float64) if a.dtype == np.float32 else a for a in arrays]
        expected = forward(op, attributes, wide)
        for got, right in zip(forward(op, attributes, arrays, device), expected, strict=True):
            assert_near(got, right, 3e-6)
        cotangents = [np.linspace(-1, 1, expected[0].size).reshape(expected[0].shape)]
        cotangents += [None] * (len(expected) - 1)
        single = [None if c is None else c.astype(np.float32) for c in cotangents]
        slopes = gradients(op, attributes, wide, cotangents, wanted)
        found = gradients(op, attributes, arrays, single, wanted, device)
        assert_all_near(found, slopes, 3e-6)

    return test_float32


def scalar_list(function, arity, p=0.0, q=0.0):
    """Attributes of `elementwise` with one function."""
    operands = [0, 1][:arity] + [-1] * (2 - arity)
    code = [(function, *operands, float(p), float(q))]
    return {"list": {"inputs": arity, "code": code, "results": [arity]}}


IDENTITY = {"inputs": 1, "code": [("identity", 0, -1, 0.0, 0.0)], "results": [1]}


def cast(graph, value, to):
    return graph.add_op("elementwise", {"list": IDENTITY, "result_types": [to]}, [value])[0]


def in_half(op, attributes, arrays, half, kept=(), backend="reference"):
    """Results of an op over operands of 16 bits, in float32, and the types they had.

    Arrays come and go as float32, through casts; integers and those in `kept` are not cast.
    """
    graph = testing.Graph()
    inputs = [graph.add_input(a.dtype.name, a.shape) for a in arrays]
    operands = [
        v if k in kept or a.dtype != np.float32 else cast(graph, v, half)
        for k, (v, a) in enumerate(zip(inputs, arrays, strict=True))
    ]
    results = graph.add_op(op, attributes, operands)
    types = [graph.type(r)[0] for r in results]
    wide = [
        cast(graph, r, "float32") if t == half else r for r, t in zip(results, types, strict=True)
    ]
    graph.verify()
    return graph.run(backend, dict(zip(inputs, arrays, strict=True)), wide), types
