"""The CPU's batch norm over tensors of 16 bits: beside float64 of the same rounded operands, in
every layout, and without widened tensors in the workspace."""

import itertools
from typing import Any

import numpy as np
import pytest
from cpu_ops import LAYOUTS, numbers, scalars, wide

from op_harness import cast, declare, forward, testing
from traingraph import nn

HALVES = {"float16": 2.0**-11, "bfloat16": 2.0**-8}  # half a unit of the last bit
# With parts of a vector, and channels of several stretches.
SHAPES = [(4, 16, 5, 7), (2, 48, 9, 9), (3, 10, 4, 4), (50, 100), (7, 16, 60, 60)]
CASES = [(s, way) for s, way in itertools.product(SHAPES, LAYOUTS) if way == "plain" or len(s) == 4]
RELU, MASK = ("relu", 0, -1, 0, 0), ("relu_gradient", 1, 0, 0, 0)
SUM_RELU = [("add", 1, 0, 0, 0), ("relu", 2, -1, 0, 0)]
SUM_MASK = [("add", 0, 1, 0, 0), ("relu_gradient", 3, 2, 0, 0)]


def rounded(array: np.ndarray, half: str) -> np.ndarray:
    graph = testing.Graph()
    inputs = declare(graph, [array])
    wide = cast(graph, cast(graph, inputs[0], half), "float32")
    return graph.run("reference", {inputs[0]: array}, [wide])[0]


def in_half(
    op: str, attributes: dict[str, Any], arrays: list[np.ndarray], half: str, layout: str
) -> list[np.ndarray]:
    """Tensors of the first one's shape are of 16 bits, in this layout."""
    graph = testing.Graph()
    inputs = declare(graph, arrays)
    operands = []
    for value, array in zip(inputs, arrays, strict=True):
        if array.shape == arrays[0].shape:
            value = cast(graph, value, half)
            if layout != "plain":
                value = graph.add_op("reorder", {}, [value])[0]
                testing.set_layout(graph, value, *LAYOUTS[layout])
        operands.append(value)
    results = graph.add_op(op, attributes, operands)
    is_half = [graph.type(r)[0] == half for r in results]
    assert is_half[0]
    kept = [
        graph.add_op("reorder", {}, [cast(graph, r, "float32")])[0] if narrow else r
        for r, narrow in zip(results, is_half, strict=True)
    ]
    graph = testing.with_layouts(graph, "cpu")
    return graph.run("cpu", dict(zip(inputs, arrays, strict=True)), kept)


def near(got: np.ndarray, expected: np.ndarray, share: float) -> None:
    """Rounded once to 16 bits (`share` of the number), and 5e-6 of the largest."""
    assert got.shape == expected.shape
    bound = 1.01 * share * np.abs(expected) + 5e-6 * np.abs(expected).max()
    assert (np.abs(got - expected) <= bound).all()


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize(("shape", "layout"), CASES)
def test_forward(shape: tuple[int, ...], layout: str, half: str) -> None:
    c = shape[1]
    x, added = (rounded(numbers(shape, seed=k), half) for k in (1, 2))
    arrays = [x, numbers((c,), seed=3), numbers((c,), seed=4)]
    expected = forward("batch_norm", {}, wide(arrays))
    for code, more in [([], []), ([RELU], []), (SUM_RELU, [added])]:
        attributes = {"epilogue": scalars(1 + len(more), code)} if code else {}
        got = in_half("batch_norm", attributes, [*arrays, *more], half, layout)
        y = expected[0] + (added if more else 0)
        near(got[0], np.maximum(y, 0) if code else y, HALVES[half])
        for k in (1, 2, 3):
            near(got[k], expected[k], 0)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize(("shape", "layout"), CASES)
def test_gradient(shape: tuple[int, ...], layout: str, half: str) -> None:
    c = shape[1]
    dy, x, added, y = (rounded(numbers(shape, seed=k), half) for k in range(1, 5))
    numbers_of_channels = [
        numbers((c,), -0.1, 0.1, seed=5), numbers((c,), 1, 2, seed=6), numbers((c,), seed=7)
    ]  # fmt: skip
    zero = np.float32(0)
    total = rounded(dy + added, half)
    for code, given, counts in [
        ([], [], dy),
        ([MASK], [dy], np.where(y <= 0, zero, dy)),
        (SUM_MASK, [added, y], np.where(y <= 0, zero, total)),
    ]:
        first = y if code == [MASK] else dy
        attributes: dict[str, Any] = {}
        if code:
            attributes = {"epilogue": scalars(1 + len(given), code)}
        if len(given) == 2:
            attributes["gives_prologue"] = True
        expected = forward("batch_norm_gradient", {}, wide([counts, x, *numbers_of_channels]))
        got = in_half(
            "batch_norm_gradient",
            attributes,
            [first, x, *numbers_of_channels, *given],
            half,
            layout,
        )
        near(got[0], expected[0], HALVES[half])
        near(got[1], expected[1], 0)
        near(got[2], expected[2], 0)
        if len(given) == 2:
            np.testing.assert_array_equal(got[3], counts)


@pytest.mark.parametrize("half", HALVES)
def test_sums_beyond_float32_are_infinite_in_no_lane(half: str) -> None:
    """The largest numbers of bfloat16 square to more than float32 holds: float64 adds them."""
    x = rounded(numbers((4, 16, 5, 7)) * np.float32(3e38 if half == "bfloat16" else 6e4), half)
    arrays = [x, numbers((16,), seed=1), numbers((16,), seed=2)]
    expected = forward("batch_norm", {}, wide(arrays))
    got = in_half("batch_norm", {}, arrays, half, "blocks of 16")
    near(got[0], expected[0], HALVES[half])
    near(got[1], expected[1], 0)


@pytest.mark.parametrize("columns", [16, 13])  # whole vectors, and parts of them
@pytest.mark.parametrize("half", HALVES)
def test_every_number_is_rounded_as_by_a_cast(half: str, columns: int) -> None:
    """All bits of 16 times a factor: subnormals, infinities and NaN among them."""
    bits = np.arange(1 << 16, dtype=np.uint32)
    every = {"bfloat16": (bits << 16).view("f4"), "float16": bits.astype("u2").view("f2")}
    x = every[half][: (1 << 16) // columns * columns].astype("f4").reshape(-1, columns)
    one = np.ones(columns, "f4")
    for factor in np.float32([0.7236, 1.0039, 3.1]):
        given = np.tile(np.float32([factor, 0, 0, 0]), (columns, 1))
        got = in_half("batch_norm", {"coefficients": 2}, [x, one, one, given], half, "plain")[0]
        with np.errstate(over="ignore", invalid="ignore"):
            np.testing.assert_array_equal(got, rounded(x * factor, half))


@pytest.mark.parametrize("precision", ["mixed_float16", "mixed_bfloat16"])
def test_no_tensor_is_widened(precision: str) -> None:
    """Else float32 forms of all operands would lie in the workspace."""
    source = (32, 24, 24)
    model = nn.model(
        [nn.conv2d(32, 1), nn.batch_norm(), "relu", nn.conv2d(8, 1)],
        input=source, batch_size=16, device="cpu",
    )  # fmt: skip
    model.compile(device="cpu", precision=precision)
    found = [e for e in model.memory_plan().entries if e.name.startswith("batch_norm")]
    used = [e.bytes for e in found if e.kind == "workspace"]
    assert len(used) == 2
    assert max(used) < 4 * 16 * np.prod(source)
