"""What the CPU backend moves, chooses and drops has the reference's bits: in every type, in shapes
that no vector or block divides, by any number of threads."""

from typing import Any

import numpy as np
import pytest
from test_thread_counts import same_for_every_count

from op_harness import forward, testing

if "cpu" not in testing.backends():
    pytest.skip("no CPU backend on this machine", allow_module_level=True)

TYPES = ["float32", "float64", "float16", "int8", "uint8", "int32", "int64", "bool"]
EXTENTS = [1, 1, 2, 3, 5, 8, 16, 17, 33, 67]


def random_bits(shape: tuple[int, ...], dtype: str, rng: np.random.Generator) -> np.ndarray:
    if dtype == "bool":
        return rng.uniform(size=shape) < 0.5
    kind = np.dtype(dtype)
    count = int(np.prod(shape))
    return np.frombuffer(rng.bytes(count * kind.itemsize), kind).reshape(shape).copy()


def shape_of(rng: np.random.Generator, rank: int, most: int = 60_000) -> tuple[int, ...]:
    """Random extents of no more than so many elements."""
    shape = [int(e) for e in rng.choice(EXTENTS, rank)]
    while np.prod(shape) > most:
        shape[int(np.argmax(shape))] = 1
    return tuple(shape)


def assert_as_reference(op: str, attributes: dict[str, Any], arrays: list[np.ndarray]) -> None:
    expected = forward(op, attributes, arrays)
    found = same_for_every_count(lambda: forward(op, attributes, arrays, "cpu"))
    for got, right in zip(found, expected, strict=True):
        assert (got.dtype, got.shape) == (right.dtype, right.shape)
        assert got.tobytes() == right.tobytes(), (op, attributes, [a.shape for a in arrays])


@pytest.mark.parametrize("dtype", TYPES)
def test_transpose(dtype: str) -> None:
    rng = np.random.default_rng(1)
    for _ in range(25):
        rank = int(rng.integers(1, 6))
        axes = [int(k) for k in rng.permutation(rank)]
        x = random_bits(shape_of(rng, rank), dtype, rng)
        assert_as_reference("transpose", {"axes": axes}, [x])


@pytest.mark.parametrize("dtype", TYPES)
def test_concatenate_slice_and_pad(dtype: str) -> None:
    rng = np.random.default_rng(2)
    for _ in range(15):
        rank = int(rng.integers(1, 5))
        axis = int(rng.integers(rank))
        shape = shape_of(rng, rank, 20_000)
        parts, starts, end = [], [], 0
        for extent in rng.integers(1, 9, int(rng.integers(1, 4))):
            parts.append(random_bits((*shape[:axis], int(extent), *shape[axis + 1 :]), dtype, rng))
            starts.append(end + int(rng.integers(3)))
            end = starts[-1] + int(extent)
        assert_as_reference("concatenate", {"axis": axis}, parts)
        margins = {"axis": axis, "starts": starts, "extent": end + int(rng.integers(3))}
        assert_as_reference("pad", margins, parts)
        start = int(rng.integers(shape[axis]))
        extent = int(rng.integers(1, shape[axis] - start + 1))
        whole = random_bits(shape, dtype, rng)
        assert_as_reference("slice", {"axis": axis, "start": start, "extent": extent}, [whole])


@pytest.mark.parametrize("dtype", TYPES)
def test_select(dtype: str) -> None:
    rng = np.random.default_rng(3)
    for _ in range(12):
        shape = shape_of(rng, int(rng.integers(1, 5)))
        condition, x, y = (
            tuple(e if rng.uniform() < 0.7 else 1 for e in shape[int(rng.integers(len(shape))) :])
            for _ in range(3)
        )
        arrays = [random_bits(condition, "bool", rng)]
        arrays += [random_bits(s, dtype, rng) for s in (x, y)]
        assert_as_reference("select", {}, arrays)
        for where_not in (False, True):
            assert_as_reference("select", {"where_not": where_not}, arrays[:2])


@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("dtype", TYPES)
def test_indices_of_slices_and_elements(dtype: str, index: str) -> None:
    """Some outside of the tensor, some twice; of elements fewer than the tensor has."""
    rng = np.random.default_rng(4)
    for number in range(16):
        rank = int(rng.integers(2, 5))
        axis = int(rng.integers(rank))
        shape = shape_of(rng, rank, 20_000)
        picks = int(rng.integers(1, 9))
        if number % 2 == 0:
            places: tuple[int, ...] = (picks,)
            picked = (*shape[:axis], picks, *shape[axis + 1 :])
        else:
            picked = tuple(int(rng.integers(1, e + 1)) for e in shape)
            picked = places = (*picked[:axis], picks, *picked[axis + 1 :])
        indices = rng.integers(-1, shape[axis] + 1, places).astype(index)
        x, values = random_bits(shape, dtype, rng), random_bits(picked, dtype, rng)
        assert_as_reference("gather", {"axis": axis}, [x, indices])
        over = {"axis": axis, "adds": False}
        assert_as_reference("scatter", over, [values, indices, x])
        assert_as_reference("scatter", over | {"onto": shape}, [values, indices])
        assert_as_reference("scatter_gradient", {"axis": axis}, [x, indices])


@pytest.mark.parametrize("index", ["int32", "int64"])
def test_check_indices(index: str) -> None:
    rng = np.random.default_rng(5)
    for count in (1, 7, 511, 513, 200_001):
        for wrong in ([], [0], [count - 1], [count // 2, count // 3, count - 1]):
            indices = rng.integers(-1, 40, count).astype(index)
            indices[wrong] = np.resize([-2, 40, 41], len(wrong))
            limits = {"number": 3, "lowest": -1, "end": 40}
            assert_as_reference("check_indices", limits, [indices])
            for before in ([-1, -1, -1], [2, 5, 99]):
                assert_as_reference("check_indices", limits, [indices, np.array(before)])


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.999])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_dropout(dtype: str, rate: float) -> None:
    rng = np.random.default_rng(6)
    for shape in [(1,), (3,), (5, 7), (4, 2), (33, 129), (7, 11, 13, 5), (70_001,)]:
        x = rng.normal(size=shape).astype(dtype)
        x[(0,) * len(shape)] = np.nan
        for seed, step, first in [(1, 1, 0), (2**63 + 5, 2**40 + 3, 2**34 + 1)]:
            attributes = {"rate": rate, "seed": seed}
            given = [x, np.array([step])]
            assert_as_reference("dropout", attributes, given)
            assert_as_reference("dropout", attributes, [*given, np.array([first])])


ROWS = (1301, 1111)  # work for eight threads


def large_cases() -> dict[str, tuple[str, dict[str, Any], list[np.ndarray]]]:
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(2, *ROWS)).astype(np.float32)
    condition = rng.uniform(size=(ROWS[0], 1)) < 0.5
    rows = rng.integers(0, ROWS[0], ROWS[0]).astype(np.int32)
    places = rng.integers(0, ROWS[0], ROWS)
    deep = x[:1300, :1110].reshape(13, 100, 3, 370)
    margins = {"axis": 1, "starts": [2, 1200], "extent": 2400}
    halves = x.astype(np.float16)
    return {
        "transpose": ("transpose", {"axes": [1, 0]}, [x]),
        "transpose of 16 bits": ("transpose", {"axes": [1, 0]}, [halves]),
        "transpose of runs": ("transpose", {"axes": [2, 1, 0, 3]}, [deep]),
        "transpose of planes": ("transpose", {"axes": [0, 3, 2, 1]}, [deep]),
        "concatenate rows": ("concatenate", {"axis": 0}, [x, y]),
        "concatenate columns": ("concatenate", {"axis": 1}, [x, y]),
        "pad": ("pad", margins, [x, y]),
        "pad rows": ("pad", {"axis": 0, "starts": [700], "extent": 2700}, [x]),
        "slice": ("slice", {"axis": 1, "start": 3, "extent": 1001}, [x]),
        "select": ("select", {}, [condition, x, y]),
        "gather elements": ("gather", {"axis": 0}, [x, places]),
        "scatter elements": ("scatter", {"axis": 0, "adds": False}, [y, places, x]),
        "scatter rows": ("scatter", {"axis": 0, "adds": False}, [y, rows, x]),
        "gradient of scattered rows": ("scatter_gradient", {"axis": 0}, [x, rows]),
        "gradient of scattered elements": ("scatter_gradient", {"axis": 1}, [x, places % ROWS[1]]),
        "dropout": ("dropout", {"rate": 0.3, "seed": 4}, [x, np.array([5])]),
        "dropout of 16 bits": ("dropout", {"rate": 0.3, "seed": 4}, [halves, np.array([5])]),
    }


LARGE = large_cases()


@pytest.mark.parametrize("name", LARGE)
def test_what_threads_share(name: str) -> None:
    assert_as_reference(*LARGE[name])
