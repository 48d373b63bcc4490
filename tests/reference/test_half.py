"""Numbers of 16 bits: casts against NumPy bit for bit, and ops on them on the reference and the CPU
backend.

What an op does with them is defined here: widen (exact), compute in float32, round once. So the
expected bits are those of the same op over float32, rounded.
"""

import numpy as np
import pytest

from op_harness import IDENTITY, cast, forward, in_half, testing

HALVES = ["float16", "bfloat16"]
on_hosts = pytest.mark.parametrize("device", ["reference", "cpu"])


def rounded(array, half):
    """The nearest numbers of 16 bits, ties to even, as float32."""
    array = np.asarray(array, np.float32)
    if half == "float16":
        with np.errstate(over="ignore"):
            return array.astype(np.float16).astype(np.float32)
    bits = array.view(np.uint32).astype(np.uint64)
    up = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return np.where(np.isnan(array), array, up.astype(np.uint32).view(np.float32))


def edges():
    """Every half of either kind and what lies half way to the next, and beside that."""
    bits = np.arange(1 << 16, dtype=np.uint16)
    halves = bits.view(np.float16).astype(np.float32)
    halves = np.concatenate([halves, (bits.astype(np.uint32) << 16).view(np.float32)])
    finite = np.sort(halves[np.isfinite(halves)])
    middle = (finite[:-1].astype(np.float64) + finite[1:].astype(np.float64)) / 2
    middle = middle.astype(np.float32)
    beside = [np.nextafter(middle, np.float32(s), dtype=np.float32) for s in (-np.inf, np.inf)]
    rng = np.random.default_rng(0)
    random = rng.integers(0, 1 << 32, 100_000, dtype=np.uint32).view(np.float32)
    return np.concatenate([halves, middle, *beside, random])


@on_hosts
@pytest.mark.parametrize("half", HALVES)
def test_casts_round_to_the_nearest_and_keep_nan(half, device):
    values = edges()
    graph = testing.Graph()
    x = graph.add_input("float32", values.shape)
    back = cast(graph, cast(graph, x, half), "float32")
    (got,) = graph.run(device, {x: values}, [back])
    expected = rounded(values, half)
    nan = np.isnan(values)
    assert np.isnan(got[nan]).all()
    assert got[~nan].tobytes() == expected[~nan].tobytes()


@on_hosts
@pytest.mark.parametrize("half", HALVES)
def test_what_has_16_bits_is_cast_without_a_loss(half, device):
    values = edges()
    values = rounded(values[~np.isnan(values)], half)
    graph = testing.Graph()
    x = graph.add_input("float32", values.shape)
    back = cast(graph, cast(graph, x, half), "float32")
    (got,) = graph.run(device, {x: values}, [back])
    assert got.tobytes() == values.tobytes()


def numbers(*shape):
    rng = np.random.default_rng(sum(shape))
    return rng.normal(size=shape).astype(np.float32)


CONVOLUTION = {"kernel": (3, 3), "padding_before": (1, 1), "padding_after": (1, 1)}
POOLING = {"kernel": (2, 2), "stride": (2, 2)}
AFFINE = {
    "inputs": 3,
    "code": [("multiply", 0, 1, 0.0, 0.0), ("add", 3, 2, 0.0, 0.0), ("tanh", 4, -1, 1.0, 1.0)],
    "results": [5, 3],
}
# name, op, attributes, operands, those that stay float32, types of the results (h: 16 bits)
CASES = [
    ("matmul", "matmul", {}, [(5, 7), (7, 4)], (), "h"),
    ("matmul batched", "matmul", {"transpose_b": True}, [(2, 5, 7), (4, 7)], (), "h"),
    ("matmul to float32", "matmul", {"result_type": "float32"}, [(5, 7), (7, 4)], (), "f"),
    ("convolution", "convolution", CONVOLUTION, [(2, 3, 6, 5), (4, 3, 3, 3)], (), "h"),
    (
        "gradient by data",
        "convolution_gradient_data",
        {**CONVOLUTION, "result_shape": (2, 3, 6, 5)},
        [(2, 4, 6, 5), (4, 3, 3, 3)],
        (),
        "h",
    ),
    (
        "gradient by weights",
        "convolution_gradient_weights",
        {**CONVOLUTION, "result_shape": (4, 3, 3, 3)},
        [(2, 4, 6, 5), (2, 3, 6, 5)],
        (),
        "h",
    ),
    ("batch norm", "batch_norm", {}, [(6, 3, 4), (3,), (3,)], (1, 2), "hfff"),
    (
        "batch norm gradient",
        "batch_norm_gradient",
        {},
        [(6, 3, 4), (6, 3, 4), (3,), (3,), (3,)],
        (2, 3, 4),
        "hff",
    ),
    ("max pooling", "pooling", {**POOLING, "with_index": True}, [(2, 3, 6, 4)], (), "hi"),
    ("average pooling", "pooling", {**POOLING, "kind": 1}, [(2, 3, 6, 4)], (), "h"),
    (
        "average pooling gradient",
        "pooling_gradient",
        {**POOLING, "kind": 1, "source_shape": (2, 3, 6, 4)},
        [(2, 3, 3, 2)],
        (),
        "h",
    ),
    ("sum", "reduce", {"axes": [0, 2]}, [(5, 3, 4)], (), "f"),
    ("squares", "reduce", {"kind": 1, "axes": [1]}, [(5, 3, 4)], (), "f"),
    ("transpose", "transpose", {"axes": [1, 0, 2]}, [(2, 3, 4)], (), "h"),
    ("slice", "slice", {"axis": 1, "start": 1, "extent": 2}, [(2, 4, 3)], (), "h"),
    ("concatenate", "concatenate", {"axis": 1}, [(2, 4, 3), (2, 1, 3)], (), "h"),
    ("elementwise", "elementwise", {"list": AFFINE}, [(4, 5), (4, 5), (5,)], (), "hh"),
    ("elementwise mixed", "elementwise", {"list": AFFINE}, [(4, 5), (4, 5), (5,)], (1,), "ff"),
    (
        "elementwise to both",
        "elementwise",
        {"list": AFFINE, "result_types": ["float32", "half"]},
        [(4, 5), (4, 5), (5,)],
        (2,),
        "fh",
    ),
]


@on_hosts
@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("case", CASES, ids=[c[0] for c in CASES])
def test_ops_compute_in_float32_and_round_once(case, half, device):
    if device == "cuda":
        pytest.skip("its kernels of 16 bits have other layouts, and other orders of sums")
    _, op, attributes, shapes, kept, kinds = case
    if "half" in attributes.get("result_types", ()):
        attributes = {**attributes, "result_types": ["float32", half]}
    arrays = [numbers(*s) for s in shapes]
    if op == "batch_norm_gradient":
        arrays[3] = np.abs(arrays[3]) + 0.5
    got, types = in_half(op, attributes, arrays, half, kept, device)
    names = {"h": half, "f": "float32", "i": "uint8"}
    assert types == [names[k] for k in kinds]
    seen = [a if k in kept else rounded(a, half) for k, a in enumerate(arrays)]
    plain = {k: v for k, v in attributes.items() if k not in ("result_type", "result_types")}
    # Products of 16 bits on bnns are those of the cpu backend's loops, not Accelerate's.
    wide = "cpu" if (op, device) == ("matmul", "bnns") else device
    for result, expected, kind in zip(got, forward(op, plain, seen, wide), kinds, strict=True):
        expected = rounded(expected, half) if kind == "h" else expected
        assert result.tobytes() == expected.tobytes()


@on_hosts
@pytest.mark.parametrize("half", HALVES)
def test_dropout_masks_do_not_depend_on_the_type(half, device):
    x = np.ones((64, 5), np.float32)
    step = np.array(3, np.int64)
    attributes = {"rate": 0.5, "seed": 7}
    (got,), types = in_half("dropout", attributes, [x, step], half, backend=device)
    assert types == [half]
    (expected,) = forward("dropout", attributes, [x, step], device)
    assert got.tobytes() == expected.tobytes()


def test_results_in_place_of_operands():
    """NumPy's own float16 through a chain, without casts."""
    x = numbers(3, 5).astype(np.float16)
    (got,) = forward(
        "elementwise", {"list": {**IDENTITY, "code": [("square", 0, -1, 0.0, 0.0)]}}, [x]
    )
    assert got.dtype == np.float16
    assert got.tobytes() == np.square(x.astype(np.float32)).astype(np.float16).tobytes()


def test_float64_mixes_with_nothing():
    graph = testing.Graph()
    a, b = graph.add_input("float64", (3,)), graph.add_input("float16", (3,))
    add = {"inputs": 2, "code": [("add", 0, 1, 0.0, 0.0)], "results": [2]}
    graph.add_op("elementwise", {"list": add}, [a, b])
    with pytest.raises(Exception, match="float64"):
        graph.verify()


@pytest.mark.parametrize("half", ["float16", "float32"])
def test_float64_is_cast_with_one_rounding(half):
    values = edges()
    values = values[np.isfinite(values)].astype(np.float64)
    # Half way between two halves but for a little, which float32 would lose.
    values = np.concatenate([values, np.nextafter(values, np.inf), np.nextafter(values, -np.inf)])
    graph = testing.Graph()
    x = graph.add_input("float64", values.shape)
    narrow = cast(graph, x, half)
    narrowed, back = graph.run("reference", {x: values}, [narrow, cast(graph, narrow, "float64")])
    with np.errstate(over="ignore"):
        expected = values.astype(half)
    assert narrowed.tobytes() == expected.tobytes()
    assert back.tobytes() == expected.astype(np.float64).tobytes()


@on_hosts
def test_counts_what_is_not_finite(device):
    x = numbers(4, 6)
    x[1, 2], x[3, 0], x[3, 5] = np.nan, np.inf, -np.inf
    x[0, 0] = np.finfo(np.float32).max
    (got,) = forward("reduce", {"kind": 2, "axes": [1]}, [x], device)
    np.testing.assert_array_equal(got, [[0], [1], [0], [2]])
    (got,) = forward("reduce", {"kind": 2, "axes": [0, 1]}, [x], device)
    np.testing.assert_array_equal(got, [[3]])
    many = np.tile(x, (2001, 7))
    (got,) = forward("reduce", {"kind": 2, "axes": [0, 1]}, [many], device)
    np.testing.assert_array_equal(got, [[3 * 2001 * 7]])
