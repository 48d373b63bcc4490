"""One op on the CPU backend, in every layout, beside the reference in float64."""

import numpy as np
import pytest

from op_harness import declare, forward, testing

if "cpu" not in testing.backends():
    pytest.skip("no CPU backend on this machine", allow_module_level=True)

LAYOUTS = {
    "plain": ([], []),
    "channels last": ([0, 2, 3, 1], []),
    "blocks of 16": ([0, 1, 2, 3], [(1, 16)]),
    "blocks of 8": ([0, 1, 2, 3], [(1, 8)]),
}


def numbers(shape, low=-1.0, high=1.0, seed=0):
    rng = np.random.default_rng([seed, *shape])
    return rng.uniform(low, high, shape).astype(np.float32)


def on_cpu(op, attributes, arrays, layout="plain"):
    """The op's results with every operand of the first one's shape in this layout, and how its
    first result lay in memory."""
    graph = testing.Graph()
    inputs = declare(graph, arrays)
    operands = []
    for value, array in zip(inputs, arrays, strict=True):
        if layout != "plain" and array.ndim == 4 and array.shape[1] > 1:
            value = graph.add_op("reorder", {}, [value])[0]
            testing.set_layout(graph, value, *LAYOUTS[layout])
        operands.append(value)
    results = graph.add_op(op, attributes, operands)
    plain = [graph.add_op("reorder", {}, [r])[0] for r in results if graph.type(r)[1]]
    graph = testing.with_layouts(graph, "cpu")
    bound = dict(zip(inputs, arrays, strict=True))
    found = [graph.run("cpu", bound, plain or results) for _ in range(2)]
    for a, b in zip(*found, strict=True):
        assert a.tobytes() == b.tobytes()
    return found[0], testing.layout(graph, results[0])


def wide(arrays):
    return [a.astype(np.float64) if a.dtype == np.float32 else a for a in arrays]


def near(got, expected, bound, of=None):
    """Within `bound` of the largest element of the array, or of what it is made of."""
    assert got.shape == expected.shape
    if got.dtype != np.float32:
        np.testing.assert_array_equal(got, expected)
        return
    finite = np.abs(expected[np.isfinite(expected)] if of is None else of)
    np.testing.assert_allclose(got, expected, rtol=0, atol=bound * finite.max(initial=0))


def check(op, attributes, arrays, bound=2e-6, layout="plain"):
    expected = forward(op, attributes, wide(arrays))
    got, kept = on_cpu(op, attributes, arrays, layout)
    for g, e in zip(got, expected, strict=True):
        near(g, e, bound)
    return kept


def scalars(inputs, code, results=None):
    full = [(f, x, y, float(p), float(q)) for f, x, y, p, q in code]
    last = [inputs + len(code) - 1] if results is None else results
    return {"inputs": inputs, "code": full, "results": last}
