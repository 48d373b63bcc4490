"""Matrix products of the CPU backend by its own loops and by oneDNN: results beside float64, and
bits that depend neither on the number of threads nor on where a row lies."""

import itertools

import numpy as np
import pytest
from cpu_ops import near, numbers, on_cpu, scalars

from op_harness import testing

THREADS = [1, 2, 3, 4, 8]
TRANSPOSES = list(itertools.product([False, True], repeat=2))

# (M, N, K) on both sides of what decides: extents of a tile and a panel, blocks of K and of rows,
# parts of K, sums in float64, and results of few rows or columns.
SHAPES = [
    *[
        (64, 64, 600),
        (97, 113, 385),
        (300, 250, 64),
        (257, 1030, 31),
        (30, 4100, 40),
        (13, 17, 9999),
    ],
    *[(256, 256, 2048), (520, 40, 1500), (8, 3000, 100), (3000, 8, 100), (256, 127, 2305)],
    *[(3, 4, 70000), (1, 1, 200000), (9, 1, 30000), (40, 33, 8193), (2, 2500, 500), (2500, 3, 500)],
    *[(1, 4000, 700), (1003, 1, 3000), (7, 640, 900), (640, 7, 900), (5, 5000, 120)],
]


def drawn(count):
    random = np.random.default_rng(7)
    for _ in range(count):
        m, n, k = (int(2 ** random.uniform(0, 10)) for _ in range(3))
        yield m, n, k


def some(transposes):
    """Half of the shapes, in turns."""
    return SHAPES[TRANSPOSES.index(transposes) % 2 :: 2]


def stored(array, transposed):
    return np.ascontiguousarray(array.T) if transposed else array


def product(a, b, transposes=(False, False), **attributes):
    """Of matrices as they are multiplied, each stored transposed where it says so."""
    attributes |= {"transpose_a": transposes[0], "transpose_b": transposes[1]}
    arrays = [stored(x, t) for x, t in zip((a, b), transposes, strict=True)]
    return on_cpu("matmul", attributes, arrays)[0][0]


@pytest.mark.parametrize("transposes", TRANSPOSES)
def test_products(transposes, threads):
    for m, n, k in [*SHAPES, *drawn(20)]:
        a, b = numbers((m, k)), numbers((k, n), seed=1)
        expected = -0.5 * (a.astype(np.float64) @ b.astype(np.float64))
        got = product(a, b, transposes, alpha=-0.5)
        scale = 0.5 * np.sqrt(k) / 3 + np.abs(expected).max()
        np.testing.assert_allclose(got, expected, rtol=0, atol=3e-6 * scale, err_msg=f"{m, n, k}")


@pytest.mark.parametrize("transposes", TRANSPOSES)
def test_bits_for_any_number_of_threads(transposes):
    for m, n, k in some(transposes):
        a, b = numbers((m, k)), numbers((k, n), seed=1)
        found = set()
        for count in THREADS:
            testing.set_thread_count(count)
            found.add(product(a, b, transposes).tobytes())
        testing.set_thread_count(1)
        assert len(found) == 1, (m, n, k)


@pytest.mark.parametrize("transposes", TRANSPOSES)
def test_a_row_has_its_bits_wherever_it_lies(transposes, threads):
    for m, n, k in [*some(transposes), *drawn(10), (7, 24, 50), (9, 10, 64), (8, 3, 33)]:
        a, b = numbers((m, k)), numbers((k, n), seed=1)
        order = np.random.default_rng(m).permutation(m)
        straight = product(a, b, transposes)
        moved = product(np.ascontiguousarray(a[order]), b, transposes)
        np.testing.assert_array_equal(moved, straight[order], err_msg=f"{m, n, k}")


def test_stacks_in_every_broadcast(threads):
    for left, right in [
        ((6,), (6,)),
        ((4, 1), (4, 5)),
        ((2, 1), (1, 3)),
        ((), (2, 3)),
        ((3, 4), ()),
    ]:
        for transposes in TRANSPOSES:
            a, b = numbers((*left, 80, 64)), numbers((*right, 64, 72), seed=1)
            expected = a.astype(np.float64) @ b.astype(np.float64)
            arrays = [
                np.ascontiguousarray(x.swapaxes(-1, -2)) if t else x
                for x, t in zip((a, b), transposes, strict=True)
            ]
            attributes = {"transpose_a": transposes[0], "transpose_b": transposes[1]}
            near(on_cpu("matmul", attributes, arrays)[0][0], expected, 2e-6)


ENDS = {
    "bias": [("add", 0, 1, 0, 0)],
    "bias, relu": [("add", 0, 1, 0, 0), ("relu", 2, -1, 0, 0)],
    "relu": [("relu", 0, -1, 0, 0)],
    "bias, elu": [("add", 0, 1, 0, 0), ("elu", 2, -1, 0.7, 0)],
    "tanh": [("tanh", 0, -1, 1, 1)],
}
FUNCTIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "elu": lambda x: np.where(x > 0, x, 0.7 * np.expm1(x)),
    "tanh": np.tanh,
}


def unless_onednn_multiplies(attributes, arrays):
    try:
        return on_cpu("matmul", attributes, arrays)[0][0]
    except NotImplementedError as error:
        if "a library's products are the choice at level" not in str(error):
            raise
    return None


@pytest.mark.parametrize("end", ENDS)
def test_epilogues(end, threads):
    """With one part of K, with several, and with float64 between them."""
    code = ENDS[end]
    adds = code[0][0] == "add"
    for m, n, k in [(300, 250, 64), (256, 250, 2048), (20, 33, 8200)]:
        for alpha in (1, 0.25):
            arrays = [numbers((m, k)), numbers((n, k), seed=1)] + [numbers((n,), seed=2)] * adds
            expected = alpha * (arrays[0].astype(np.float64) @ arrays[1].T.astype(np.float64))
            expected += arrays[2] if adds else 0
            sums = expected
            for function in FUNCTIONS.keys() & {step[0] for step in code}:
                expected = FUNCTIONS[function](expected)
            attributes = {"alpha": alpha, "transpose_b": True}
            attributes["epilogue"] = scalars(1 + adds, code)
            found = unless_onednn_multiplies(attributes, arrays)
            if found is None:
                # It adds before it scales, so no pass fuses this.
                assert alpha != 1
                continue
            near(found, expected, 3e-6, of=sums)


@pytest.mark.parametrize("transposes", TRANSPOSES)
def test_what_is_not_finite_stays_in_its_row_and_column(transposes, threads):
    for m, n, k in [(97, 113, 385), (256, 250, 2048), (3, 4, 70000), (5, 5000, 120)]:
        a, b = numbers((m, k)), numbers((k, n), seed=1)
        a[1, 3] = np.inf
        a[2, k - 1] = np.nan
        b[4, n - 1] = np.nan
        y = product(a, b, transposes)
        expected = np.ones((m, n), bool)
        expected[1:3] = expected[:, n - 1] = False
        np.testing.assert_array_equal(np.isfinite(y), expected)
        assert np.isinf(y[1, : n - 1]).all()
        assert np.isnan(y[2]).all()


@pytest.mark.parametrize(("m", "n"), [(4, 3), (1, 1), (64, 64)])
def test_long_sums_of_products(m, n, threads):
    """… of terms of one sign, and of equal ones, keep the digits of float32."""
    k = 300000
    for a, b in [
        (numbers((k, m), 0, 1), numbers((k, n), 0, 1, seed=1)),
        (np.full((k, m), 0.1, np.float32), np.full((k, n), 0.3, np.float32)),
    ]:
        expected = a.T.astype(np.float64) @ b.astype(np.float64)
        near(product(np.ascontiguousarray(a.T), b, (True, False)), expected, 4e-6)
