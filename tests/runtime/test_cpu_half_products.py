"""Products of the CPU backend over operands of 16 bits that its own loops widen as they pack them:
what ends them, their bits, and that no widened operand lies in a workspace."""

import itertools

import numpy as np
import pytest
from cpu_ops import numbers, scalars
from test_cpu_halves import HALVES, PRODUCTS, product
from test_thread_counts import same_for_every_count

from op_harness import cast, declare, testing
from traingraph import nn

ENDS = {
    "nothing": [],
    "bias": [("add", 0, 1, 0, 0)],
    "bias, relu": [("add", 0, 1, 0, 0), ("relu", 2, -1, 0, 0)],
    "bias, tanh": [("add", 0, 1, 0, 0), ("tanh", 2, -1, 1, 1)],
}
FUNCTIONS = {"relu": lambda x: np.maximum(x, 0), "tanh": np.tanh}
# (M, N, K): small ones in panels and as dots, one block of K, several, and parts of K.
SIZES = [(40, 70, 33), (3, 6, 40), (200, 300, 100), (100, 330, 800), (60, 64, 9000), (30, 40, 2600)]


def rounded(array: np.ndarray, half: str) -> np.ndarray:
    """To 16 bits and back."""
    graph = testing.Graph()
    (value,) = declare(graph, [array])
    wide = cast(graph, cast(graph, value, half), "float32")
    return graph.run("cpu", {value: array}, [wide])[0]


def ended(
    half: str, sizes: tuple[int, int, int], turned: tuple[bool, bool], end: str, result: str
) -> tuple[np.ndarray, np.ndarray]:
    """On cpu, and of the same rounded operands in float64."""
    m, n, k = sizes
    matrices = [rounded(numbers(s, seed=i), half) for i, s in enumerate([(m, k), (k, n)])]
    bias = rounded(numbers((n,), seed=2), half)
    code = ENDS[end]
    arrays = [np.ascontiguousarray(a.T) if t else a for a, t in zip(matrices, turned, strict=True)]
    arrays += [bias] * bool(code)
    graph = testing.Graph()
    inputs = declare(graph, arrays)
    halves = [cast(graph, value, half) for value in inputs]
    attributes = {"transpose_a": turned[0], "transpose_b": turned[1], "result_type": result}
    if code:
        attributes["epilogue"] = scalars(2, code)
    found = graph.add_op("matmul", attributes, halves)[0]
    kept = found if result == "float32" else cast(graph, found, "float32")
    graph = testing.with_layouts(graph, "cpu")
    (got,) = graph.run("cpu", dict(zip(inputs, arrays, strict=True)), [kept])
    right = matrices[0].astype("d") @ matrices[1].astype("d") + (bias if code else 0)
    for name in FUNCTIONS.keys() & {step[0] for step in code}:
        right = FUNCTIONS[name](right)
    return got, right


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("half", HALVES)
def test_ends_of_products(half: str, sizes: tuple[int, int, int], end: str) -> None:
    for turned in itertools.product([False, True], repeat=2):
        for result in {"float32", half}:
            got, right = ended(half, sizes, turned, end, result)
            bound = 4e-6 + (0 if result == "float32" else HALVES[half])
            scale = np.abs(right).max() + np.sqrt(sizes[2])
            np.testing.assert_allclose(got, right, rtol=bound, atol=4e-6 * scale)


@pytest.mark.parametrize("half", HALVES)
def test_bits_for_any_number_of_threads(half: str) -> None:
    def products() -> list[np.ndarray]:
        plain = [product(half, half, sizes, (True, False))[0] for sizes in PRODUCTS]
        return plain + [ended(half, s, (False, True), "bias, tanh", half)[0] for s in SIZES]

    same_for_every_count(products)


@pytest.mark.parametrize("half", HALVES)
def test_a_row_has_its_bits_wherever_it_lies(half: str) -> None:
    for m, n, k in [(300, 200, 500), (33, 20, 40), (70, 300, 900)]:
        a, b = numbers((m, k), seed=1), numbers((k, n), seed=2)
        order = np.random.default_rng(3).permutation(m)
        found = []
        for rows in (a, a[order]):
            graph = testing.Graph()
            inputs = declare(graph, [rows, b])
            halves = [cast(graph, value, half) for value in inputs]
            result = graph.add_op("matmul", {"result_type": half}, halves)
            wide = [cast(graph, result[0], "float32")]
            graph = testing.with_layouts(graph, "cpu")
            found += graph.run("cpu", dict(zip(inputs, [rows, b], strict=True)), wide)
        assert found[0][order].tobytes() == found[1].tobytes()


def test_every_number_of_16_bits_is_widened_to_itself() -> None:
    """By a product with the unit matrix: all finite ones, in both orders of each operand."""
    bits = np.arange(1 << 16, dtype=np.uint32)
    patterns = {"bfloat16": (bits << 16).view(np.float32)}
    patterns["float16"] = bits.astype(np.uint16).view(np.float16).astype(np.float32)
    for half, values in patterns.items():
        if half == "bfloat16":  # a library's products take subnormal ones for zero
            values = values[np.abs(values) > 2.0**-120]
        finite = np.resize(values[np.isfinite(values)], (1024, 64))
        unit = np.eye(64, dtype=np.float32)
        for turned in itertools.product([False, True], repeat=2):
            for arrays in ([finite, unit], [unit, np.ascontiguousarray(finite.T)]):
                stored = [
                    np.ascontiguousarray(a.T) if t else a
                    for a, t in zip(arrays, turned, strict=True)
                ]
                graph = testing.Graph()
                inputs = declare(graph, stored)
                halves = [cast(graph, value, half) for value in inputs]
                attributes = {"transpose_a": turned[0], "transpose_b": turned[1]}
                attributes["result_type"] = half
                result = graph.add_op("matmul", attributes, halves)
                wide = [cast(graph, result[0], "float32")]
                graph = testing.with_layouts(graph, "cpu")
                (got,) = graph.run("cpu", dict(zip(inputs, stored, strict=True)), wide)
                np.testing.assert_array_equal(got, arrays[0] @ arrays[1])


def test_operands_are_not_widened_in_the_workspace() -> None:
    """Else float32 forms of all operands and of the result would lie there."""
    model = nn.model([nn.dense(2048)], input=(1024,), batch_size=256, device="cpu")
    model.compile(device="cpu", precision="mixed_float16")
    entries = [e for e in model.memory_plan().entries if e.name.startswith("matmul")]
    assert entries
    operands = 4 * (1024 * 2048 + 1024 * 256)
    assert all(e.bytes < operands for e in entries if e.kind == "workspace"), entries


@pytest.mark.parametrize("divisor", [65536.0, 1.0, -0.25, 2.0**-100, 3.0, 0.1, 2.0**127, 0.0])
def test_quotients_by_a_number(divisor: float) -> None:
    """By powers of two they are products, with the bits of quotients."""
    x = numbers((40, 1000), low=-1e-30, high=1e30, seed=1)
    x[:, :9] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 1e-38, 3e38, 65504.0]
    number = np.array([divisor], np.float32)
    graph = testing.Graph()
    inputs = declare(graph, [x, number])
    code = scalars(2, [("divide", 0, 1, 0, 0)], [2])
    found = graph.add_op("elementwise", {"list": code}, inputs)
    graph = testing.with_layouts(graph, "cpu")
    (got,) = graph.run("cpu", dict(zip(inputs, [x, number], strict=True)), found)
    with np.errstate(all="ignore"):
        right = x / number
    np.testing.assert_array_equal(got, right)
    numbers_alone = ~np.isnan(right)
    np.testing.assert_array_equal(np.signbit(got)[numbers_alone], np.signbit(right)[numbers_alone])
