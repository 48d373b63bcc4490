"""Layers that move and choose elements keep their type and bits, in every type."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import traingraph as tg
from harness import empty, everywhere

TYPES = [
    "float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "bool",
]  # fmt: skip
HALVES = {"float16": (0x7C00, 0x3FF), "bfloat16": (0x7F80, 0x7F)}  # bits of infinity, of fractions
INDICES = np.array([2, 0, 2], np.int32)
CONDITION = np.array([True, False, True, False])


def at_two(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x with y's columns where the indices say; of two for one the last stays."""
    found = x.copy()
    for k, place in enumerate(INDICES):
        found[:, place] = y[:, k]
    return found


# Layer, how many tensors (3, 4) it reads and what else, and what comes out.
Row = tuple[Callable[[], Any], int, list[np.ndarray], Callable[..., np.ndarray]]
ROWS: dict[str, Row] = {
    "concatenation": (
        lambda: tg.MLCConcatenationLayer(dimension=1), 2, [],
        lambda x, y: np.concatenate([x, y], 1),
    ),
    "reshape": (lambda: tg.MLCReshapeLayer(shape=[3, 2, 2]), 1, [], lambda x: x.reshape(3, 2, 2)),
    "transpose": (lambda: tg.MLCTransposeLayer(dimensions=[1, 0]), 1, [], lambda x: x.T),
    "split": (
        lambda: tg.MLCSplitLayer(split_section_lengths=[3, 1], dimension=1), 1, [],
        lambda x: x[:, :3],
    ),
    "slice": (
        lambda: tg.MLCSliceLayer(start=[1, 0], end=[3, 4], stride=[1, 3]), 1, [],
        lambda x: x[1:, ::3],
    ),
    "gather": (
        lambda: tg.MLCGatherLayer(dimension=1), 1, [INDICES], lambda x: x[:, INDICES],
    ),
    "gather of rows": (
        lambda: tg.MLCGatherLayer(dimension=0), 1, [INDICES], lambda x: x[INDICES],
    ),
    "upsampling of nearest": (
        lambda: tg.MLCUpsampleLayer(shape=[9]), 1, [], lambda x: x[:, np.arange(9) * 4 // 9],
    ),
    "selection": (
        lambda: tg.MLCSelectionLayer(), 2, [CONDITION],
        lambda x, y: np.where(CONDITION, x, y),
    ),
}  # fmt: skip


def assert_same_bits(found: np.ndarray, expected: np.ndarray) -> None:
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.tobytes() == np.ascontiguousarray(expected).tobytes()


def random_bits(dtype: str, seed: int) -> np.ndarray:
    """Any bits; of 16 bits zeros of both signs and NaN of several payloads in any case."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.uniform(size=(3, 4)) < 0.5
    kind = dtype_of(dtype)
    found = np.frombuffer(rng.bytes(12 * kind.itemsize), kind).reshape(3, 4).copy()
    if dtype in HALVES:
        infinity, fraction = HALVES[dtype]
        edges = [0x8000, 0, infinity | 1, 0x8000 | infinity | fraction, infinity | fraction // 3]
        found.view(np.uint16)[[0, 0, 1, 1, 2], [seed % 2, 2, 0, 2, 2]] = edges
    return found


def dtype_of(dtype: str) -> np.dtype:
    if dtype != "bfloat16":
        return np.dtype(dtype)
    return np.dtype(pytest.importorskip("ml_dtypes").bfloat16)


CASES = [
    (name, dtype)
    for name in ROWS
    for dtype in TYPES
    if name != "upsampling of nearest" or "float" in dtype
]


@everywhere
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_every_type_is_moved_bit_for_bit(name: str, dtype: str, device: str) -> None:
    layer, count, more, expected = ROWS[name]
    arrays = [random_bits(dtype, seed) for seed in range(count)]
    before = more if name == "selection" else []
    after = [] if name == "selection" else more
    given = [*before, *arrays, *after]
    types = [dtype if any(a is one for one in arrays) else a.dtype.name for a in given]
    graph = tg.MLCGraph()
    sources = [empty(a.shape, t) for a, t in zip(given, types, strict=True)]
    moving = layer()
    graph.node(moving, sources=sources)
    assert [t.descriptor.data_type.name.lower() for t in graph.result_tensors(moving)] == [
        {"bool": "boolean"}.get(dtype, dtype)
    ] * len(graph.result_tensors(moving))
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({f"x{k}": t for k, t in enumerate(sources)})
    inference.compile(device=device)
    data = {f"x{k}": a for k, a in enumerate(given)}
    found = inference.execute(inputs_data=data, options="synchronous").result
    assert_same_bits(found, expected(*arrays))


def scattered(dtype: str, device: str, reduction: str) -> tuple[np.ndarray, np.ndarray, Any]:
    """Two arrays, and the first with the second scattered into it."""
    x, y = random_bits(dtype, 1), random_bits(dtype, 2)[:, :3].copy()
    graph = tg.MLCGraph()
    sources = [empty((3, 3), dtype), empty((3,), "int32"), empty((3, 4), dtype)]
    graph.node(tg.MLCScatterLayer(dimension=1, reduction_type=reduction), sources=sources)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs(dict(zip("yix", sources, strict=True)))
    inference.compile(device=device)
    given = {"y": y, "i": INDICES, "x": x}
    return x, y, inference.execute(inputs_data=given, options="synchronous").result


@everywhere
@pytest.mark.parametrize("dtype", TYPES)
def test_scatter_overwrites_in_every_type(dtype: str, device: str) -> None:
    x, y, found = scattered(dtype, device, "none")
    assert_same_bits(found, at_two(x, y))


@everywhere
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "bool"])
def test_scatter_adds_whole_numbers_as_they_are(dtype: str, device: str) -> None:
    """Around the end of their type; of booleans one that is true is enough."""
    x, y, found = scattered(dtype, device, "sum")
    right = x.copy()
    with np.errstate(over="ignore"):
        for k, place in enumerate(INDICES):
            right[:, place] += y[:, k]
    np.testing.assert_array_equal(found, right)


@everywhere
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("kind", ["zero", "reflection", "symmetric", "constant"])
def test_margins_in_every_type(kind: str, dtype: str, device: str) -> None:
    x = random_bits(dtype, 3).reshape(1, 3, 4)
    more = {"constant_value": 1.0} if kind == "constant" else {}
    graph, source = tg.MLCGraph(), empty(x.shape, dtype)
    graph.node(tg.MLCPaddingLayer(**{f"{kind}_padding": [2, 1, 1, 3]}, **more), source=source)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": source})
    inference.compile(device=device)
    found = inference.execute(inputs_data={"x": x}, options="synchronous").result
    mode = {"zero": "constant", "reflection": "reflect"}.get(kind, kind)
    numbers = {"constant_values": 1} if kind == "constant" else {}
    bits = x.view(np.uint16) if dtype in HALVES else x
    if dtype in HALVES and kind == "constant":
        numbers = {"constant_values": np.ones(1, x.dtype).view(np.uint16)[0]}
    right = np.pad(bits, [(0, 0), (2, 1), (1, 3)], mode=mode, **numbers)
    assert_same_bits(found, right.view(x.dtype))


@everywhere
def test_what_says_so_is_what_runs(device: str) -> None:
    moving = [
        tg.MLCConcatenationLayer, tg.MLCReshapeLayer, tg.MLCTransposeLayer, tg.MLCSplitLayer,
        tg.MLCSliceLayer, tg.MLCGatherLayer, tg.MLCScatterLayer, tg.MLCSelectionLayer,
        tg.MLCPaddingLayer, tg.MLCComparisonLayer,
    ]  # fmt: skip
    for layer in moving:
        for dtype in TYPES:
            assert layer.supports_data_type(dtype, on=device), (layer, dtype)
