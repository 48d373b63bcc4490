"""Every number of threads gives the same bits, and every row of a batch those of its sample."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from big_ops import CASES, CONVOLUTIONS, convolution
from cpu_ops import numbers, on_cpu

from op_harness import testing

THREADS = (1, 2, 3, 4, 8)


def bits(results: list[np.ndarray]) -> list[bytes]:
    return [array.tobytes() for array in results]


def same_for_every_count(run: Callable[[], list[np.ndarray]]) -> list[np.ndarray]:
    found = []
    try:
        for threads in THREADS:
            testing.set_thread_count(threads)
            found.append(run())
    finally:
        testing.set_thread_count(1)
    for threads, results in zip(THREADS, found, strict=True):
        assert bits(results) == bits(found[0]), f"{threads} threads"
    return found[0]


@pytest.mark.parametrize("name", CASES)
def test_one_op(name: str) -> None:
    op, attributes, arrays = CASES[name]
    for layout in ("plain", "channels last", "blocks of 8"):
        same_for_every_count(lambda layout=layout: on_cpu(op, attributes, arrays, layout)[0])
        if arrays[0].ndim != 4:
            break


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolution_and_its_gradients(name: str) -> None:
    (x, weights), attributes = convolution(name)

    def run(op: str, given: list[np.ndarray], **more: Any) -> np.ndarray:
        return same_for_every_count(lambda: on_cpu(op, {**attributes, **more}, given)[0])[0]

    y = run("convolution", [x, weights])
    dy = numbers(y.shape, seed=3)
    run("convolution_gradient_data", [dy, weights], result_shape=x.shape)
    run("convolution_gradient_weights", [dy, x], result_shape=weights.shape)


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_rows_of_a_convolution(name: str) -> None:
    (x, weights), attributes = convolution(name)
    order = np.random.default_rng(1).permutation(len(x))

    def rows_apart(op: str, given: np.ndarray, **more: Any) -> np.ndarray:
        right = on_cpu(op, {**attributes, **more}, [given, weights])[0][0]
        moved = on_cpu(op, {**attributes, **more}, [given[order], weights])[0][0]
        assert moved.tobytes() == right[order].tobytes(), op
        return right

    y = rows_apart("convolution", x)
    dy = numbers(y.shape, seed=3)
    rows_apart("convolution_gradient_data", dy, result_shape=x.shape)


# Sums over the batch, and statistics of it, which depend on the order of the samples.
OF_THE_BATCH = ("sum", "long sum", "batch norm", "norm")


@pytest.mark.parametrize("name", [n for n in CASES if not n.startswith(OF_THE_BATCH)])
def test_rows_of_an_op(name: str) -> None:
    op, attributes, arrays = CASES[name]
    n = len(arrays[0])
    order = np.random.default_rng(1).permutation(n)
    moved = [a[order] if len(a) == n else a for a in arrays]
    right, found = (on_cpu(op, attributes, given)[0] for given in (arrays, moved))
    for a, b in zip(right, found, strict=True):
        assert (a[order] if len(a) == n else a).tobytes() == b.tobytes()


@pytest.mark.parametrize("columns", [1, 9, 40])
@pytest.mark.parametrize("rows", [2, 3, 5, 7, 13, 19, 37])
def test_rows_of_a_product(rows: int, columns: int) -> None:
    """Groups of rows of every size, whose sums go on in registers of their own."""
    x, weights = numbers((rows, 129)), numbers((columns, 129), seed=1)
    order = np.random.default_rng(rows).permutation(rows)
    for given in ({"transpose_b": True}, {}):
        matrix = weights if given else np.ascontiguousarray(weights.T)
        right, moved = (on_cpu("matmul", given, [a, matrix])[0][0] for a in (x, x[order]))
        assert moved.tobytes() == right[order].tobytes()


@pytest.mark.parametrize("sequences", [3, 7, 9, 13, 17, 23])
def test_rows_of_an_lstm(sequences: int) -> None:
    """One sequence in every row, at falling lengths: in groups of 8 or 16, and what is left."""
    hidden, steps = 24, 23
    gates = np.repeat(numbers((1, steps, 4 * hidden)), sequences, axis=0)
    lengths = np.linspace(steps, 1, sequences).astype(np.int32)
    given = [gates, numbers((4 * hidden, hidden), seed=1), lengths]
    y = on_cpu("lstm", {"has_lengths": True}, given)[0][0]
    assert np.isfinite(y).all()
    for row, length in zip(y, lengths, strict=True):
        assert row[:length].tobytes() == y[0, :length].tobytes()


def test_a_thread_that_is_held_up_holds_up_no_part() -> None:
    assert testing.parts_are_taken_over(20.0)


@pytest.mark.parametrize("threads", [2, 3, 8, 40])
@pytest.mark.parametrize("parts", [2, 5, 16, 1000])
def test_each_part_is_run_once(parts: int, threads: int) -> None:
    assert testing.runs_of_parts(parts, threads) == [1] * parts
