"""Ops that a backend has no kernels for, written in others.

Here the reference backend is without the kernel of an op, so that each composition runs on it, and
is compared with the op itself in float64: results and gradients.
"""

import itertools

import numpy as np
import pytest
import test_attention
import test_choosing_ops
import test_embedding_op
import test_lstm_op
import test_row_norm as row_norms

from harness import assert_all_near
from op_harness import testing

INF, NAN = np.inf, np.nan
RULES = (
    "attention", "attention_gradient", "compare", "embedding", "embedding_gradient", "extremum",
    "limit_rows", "lstm", "lstm_gradient", "one_hot", "row_norm", "row_norm_gradient",
)  # fmt: skip
RNG = np.random.default_rng(8)


def built(op, attributes, arrays, wanted=(), seeds=()):
    """A graph of the op and its gradients, what it is given, and what it leaves."""
    graph = testing.Graph()
    inputs = [graph.add_input(a.dtype.name, a.shape) for a in arrays]
    results = graph.add_op(op, attributes, inputs)
    bound = dict(zip(inputs, arrays, strict=True))
    cotangents = {}
    for k in seeds:
        dtype, shape, _ = graph.type(results[k])
        cotangents[results[k]] = graph.add_input(dtype, shape)
        bound[cotangents[results[k]]] = np.random.default_rng(k).normal(size=shape).astype(dtype)
    if wanted:
        graph.begin_gradient()
        results = results + graph.autodiff(cotangents, [inputs[i] for i in wanted])
    return graph, bound, results


def compared(op, attributes, arrays, wanted=(), seeds=(0,), tolerance=1e-12, lacking=RULES):
    """What the op and what its composition give; no op of those that are lacking is left."""
    arrays = [np.asarray(a) for a in arrays]
    seeds = seeds if wanted else ()
    graph, bound, results = built(op, attributes, arrays, wanted, seeds)
    expected = graph.run("reference", bound, results)
    assert {op} <= set(graph.ops())
    graph.compose(list(lacking))
    assert not set(lacking) & set(graph.ops())
    graph.verify()
    found = graph.run("reference", bound, results)
    again = graph.run("reference", bound, results)
    for a, b, right in zip(found, again, expected, strict=True):
        assert (a.dtype, a.shape) == (right.dtype, right.shape)
        assert a.tobytes() == b.tobytes()
        if tolerance == 0 or a.dtype.kind in "bi":
            np.testing.assert_array_equal(a, right)
        finite = np.isfinite(right) if right.dtype.kind == "f" else np.ones(right.shape, bool)
        np.testing.assert_array_equal(a[~finite], right[~finite])
    numbers = [(a, b) for a, b in zip(found, expected, strict=True) if b.dtype.kind == "f"]
    if tolerance:
        assert_all_near(*([np.nan_to_num(p[k]) for p in numbers] for k in (0, 1)), tolerance)
    return found


EDGES = np.array([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 1e-45, 3e38, -3e38])


NUMBERS = ["float32", "float64"]
COMPARED = [(k, dtype) for k in range(12) for dtype in [*NUMBERS[: 2 * (k < 6)], "bool"]]


@pytest.mark.parametrize(("number", "dtype"), COMPARED)
def test_compare(number, dtype):
    edges = np.array([False, True]) if dtype == "bool" else EDGES.astype(dtype)
    x, y = edges[:, None], edges[None]
    operands = [x] if number == 8 else [x, y]
    found = compared("compare", {"comparison": number}, operands, tolerance=0)[0]
    function = (test_choosing_ops.COMPARISONS + test_choosing_ops.LOGICAL)[number]
    np.testing.assert_array_equal(found, function(*operands))
    compared("compare", {"comparison": number}, [x[:, 0], x[:, 0]][: len(operands)], tolerance=0)
    scalar = [np.array(edges[1])] * len(operands)
    compared("compare", {"comparison": number}, scalar, tolerance=0)


def test_one_value_is_compared_with_itself():
    graph = testing.Graph()
    x = graph.add_input("float64", (len(EDGES),))
    (same,) = graph.add_op("compare", {"comparison": 0}, [x, x])
    graph.compose(["compare"])
    (found,) = graph.run("reference", {x: EDGES}, [same])
    np.testing.assert_array_equal(found, EDGES == EDGES)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_integers_have_no_arithmetic(dtype):
    """They stay as they are: the backend then says what it lacks."""
    graph = testing.Graph()
    x = graph.add_input(dtype, (3, 2))
    graph.add_op("compare", {"comparison": 0}, [x, x])
    graph.add_op("extremum", {"axis": 0}, [x])
    before = str(graph)
    graph.compose(["compare", "extremum"])
    assert str(graph) == before


def test_what_a_rule_needs_may_be_lacking_too():
    """The op itself stays, and not a part of what it is composed of."""
    graph, bound, results = built("attention", *attention("k", 0.0)[:2])
    before = str(graph)
    graph.compose(["attention", "extremum", "pooling"])
    assert str(graph) == before
    assert graph.run("reference", bound, results)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("numbers", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bool"])
def test_extremum(dtype, numbers, largest):
    for shape in [(5,), (3, 40), (40, 3), (2, 3, 4), (2, 17, 33), (1, 1), (2, 300, 2)]:
        few = test_choosing_ops.few(shape, dtype)
        for axis in range(len(shape)):
            attributes = {"axis": axis, "largest": largest, "numbers": numbers}
            wanted = [0] if dtype != "bool" and not numbers else []
            compared("extremum", attributes, [few], wanted, tolerance=0)
    if dtype == "bool":
        return
    signs = np.array([[0.0, -0.0, 0.0], [-0.0, 0.0, -0.0], [NAN, 1, NAN], [1, NAN, INF]], dtype)
    value = compared("extremum", {"axis": 1, "largest": largest}, [signs], tolerance=0)[0]
    np.testing.assert_array_equal(np.signbit(value[:2, 0]), [False, True])


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("kind", NUMBERS)
def test_one_hot(dtype, kind):
    for shape in [(4, 1), (3, 1, 2, 5), (1, 1, 1)]:
        classes = RNG.integers(-1, 6, shape).astype(dtype)
        compared("one_hot", {"classes": 6, "type": kind}, [classes], tolerance=0)


@pytest.mark.parametrize(("shape", "axis"), row_norms.SHAPES)
def test_row_norm(shape, axis):
    for epsilon in (1e-5, 0.25):
        x = row_norms.numbers(*shape)
        compared("row_norm", {"axis": axis, "epsilon": epsilon}, [x], [0])


PICKS = [(5, 3, (4,)), (1, 1, (1,)), (7, 4, (2, 3)), (40, 17, (3, 2, 5)), (6, 2, (30,))]


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize(("count", "dimension", "shape"), PICKS)
def test_embedding(count, dimension, shape, kind):
    table = test_embedding_op.table(count, dimension)
    for outside in (0, 1):
        picks = RNG.integers(-outside, count + outside, shape).astype(kind)
        for padding, by_frequency in itertools.product((-1, 0, count - 1), (False, True)):
            attributes = {"count": count, "padding": padding, "by_frequency": by_frequency}
            compared("embedding", attributes, [table, picks], [0], tolerance=0)


def test_a_row_for_padding_has_no_gradient_of_infinity():
    picks, dy = np.array([1, 0]), np.array([[INF, NAN], [1.0, 2.0]])
    attributes = {"count": 3, "padding": 1}
    found = compared("embedding_gradient", attributes, [dy, picks], tolerance=0)[0]
    np.testing.assert_array_equal(found, [[1, 2], [0, 0], [0, 0]])


@pytest.mark.parametrize("order", [0.5, 1.0, 2.0, 3.0, INF])
def test_limit_rows(order):
    table = test_embedding_op.table(40, 17)
    picks = np.array([3, 5, 3, -1, 39, 40])
    norms = test_embedding_op.norm_of(table[[3, 5, 39]], order)
    for maximum in (0.99 * float(np.median(norms)), 1e-3, 1e9):
        attributes = {"maximum": maximum, "order": order}
        compared("limit_rows", attributes, [table, picks], tolerance=1e-13)
    edges = np.array([[3, 4], [0, 0], [NAN, 5], [INF, 1], [1e308, 1e308], [0.6, 0.8], [NAN, INF]])
    for maximum in (1.0, 0.0):
        attributes = {"maximum": maximum, "order": order}
        compared("limit_rows", attributes, [edges, np.arange(7)], tolerance=1e-13)


def attention(masks, rate, extents=(2, 3, 5, 7, 3), masked=None):
    sample = test_attention.Sample(extents, masks, masked, rate)
    return sample.attributes, [np.asarray(a) for a in sample.arrays], sample.wanted


@pytest.mark.parametrize("masked", [None, 2])
@pytest.mark.parametrize("rate", [0.0, 0.3])
@pytest.mark.parametrize("masks", test_attention.MASKS)
@pytest.mark.parametrize("extents", test_attention.EXTENTS[::2])
def test_attention_and_its_gradient(masks, rate, masked, extents):
    attributes, arrays, wanted = attention(masks, rate, extents, masked)
    compared("attention", attributes, arrays, wanted)
    compared("attention", attributes, arrays, wanted, lacking=["attention", "extremum"])
    compared("attention", attributes, arrays, wanted, lacking=["attention_gradient"])
    if rate:
        compared("attention", attributes, [*arrays, np.int64(5)], wanted)


@pytest.mark.parametrize("kind", ["key mask", "mask", "infinite numbers"])
def test_rows_without_keys(kind):
    n, h, length, keys, d = 2, 2, 3, 6, 4
    q, k, v = (RNG.normal(size=(n, count, h * d)) for count in (length, keys, keys))
    ignored = np.zeros((n, length, keys), bool)
    ignored[0, :, :4] = True
    ignored[1] = True
    mask = np.repeat(ignored, h, axis=0)
    attributes = {"heads": h, "scale": 1.0, "has_mask": True}
    if kind == "key mask":
        mask, attributes = ignored[:, 0], {"heads": h, "scale": 1.0, "has_key_mask": True}
    elif kind == "infinite numbers":
        mask = np.where(mask, -INF, 0.0)
    found = compared("attention", attributes, [q, k, v, mask], [0, 1, 2])
    assert (found[0][1] == 0).all()
    assert (found[1][1] == INF).all()
    assert all(np.isfinite(gradient).all() for gradient in found[2:])


@pytest.mark.parametrize("where", [0, 1, 2, 3])
def test_attention_over_nan_and_infinity(where):
    for value in (NAN, INF):
        attributes, arrays, wanted = attention("a", 0.0)
        arrays[where][0, 1, 0] = value
        compared("attention", attributes, arrays, wanted)


@pytest.mark.parametrize("flags", test_lstm_op.EVERY, ids=lambda f: "-".join(k for k in f if f[k]))
@pytest.mark.parametrize("other", [False, True], ids=["usual", "other"])
def test_lstm(flags, other):
    more = {"functions": test_lstm_op.FUNCTIONS} if other else {}
    for extents in ((1, 3, 1), (3, 1, 2), (5, 5, 3), (20, 3, 7)):
        attributes, arrays, _ = test_lstm_op.operands(*extents, **flags, **more)
        attributes |= test_lstm_op.ACTIVATIONS if other else {}
        compared("lstm", attributes | {"keeps": False}, arrays)
        wanted = [k for k, a in enumerate(arrays) if a.dtype != np.int32]
        for seeds in ((0,), (1,), (2,), (0, 1, 2)):
            compared("lstm", attributes | {"keeps": True}, arrays, wanted, seeds)


@pytest.mark.parametrize("lengths", [[1, 2, 3], [5, 1, 1], [2, 1, -1], [2, 3, 1], [-1, -1, -1]])
def test_wrong_lengths(lengths):
    attributes, arrays, _ = test_lstm_op.operands(3, 4, 2, has_lengths=True)
    arrays[-1] = np.array(lengths, np.int32)
    found = compared("lstm", attributes | {"keeps": True}, arrays, [0, 1])
    assert all(np.isnan(one).all() for one in found[:6])


def test_many_steps_stay_one_op():
    graph, _, _ = built("lstm", {}, [np.zeros((1, 257, 4)), np.zeros((4, 1))])
    graph.compose(["lstm"])
    assert graph.ops() == ["lstm"]


def test_long_lists_are_cut():
    """Each part has the shape of the whole, whatever it reads."""
    code = [("exp", 0, -1, 0.0, 0.0), ("add", 0, 1, 0.0, 0.0)]
    code += [("scale", 1, -1, float(k), 0.0) for k in range(5)]
    whole = {"list": {"inputs": 2, "code": code, "results": list(range(2, 9))}}
    graph = testing.Graph()
    arrays = [RNG.normal(size=(3, 1)), RNG.normal(size=(1, 4))]
    inputs = [graph.add_input("float64", a.shape) for a in arrays]
    results = graph.add_op("elementwise", whole, inputs)
    bound = dict(zip(inputs, arrays, strict=True))
    expected = graph.run("reference", bound, results)
    graph.compose([], most_results=2)
    graph.verify()
    assert graph.ops() == ["elementwise"] * 4
    for found, right in zip(graph.run("reference", bound, results), expected, strict=True):
        assert found.shape == (3, 4)
        np.testing.assert_array_equal(found, right)
    graph.compose(["elementwise"])
    assert graph.ops() == ["elementwise"] * 4


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_16_bits_are_widened_once(half):
    """So the result is that of float32, rounded."""
    x = RNG.normal(3, 1, (4, 9)).astype(np.float32)
    graph = testing.Graph()
    source = graph.add_input("float32", x.shape)
    identity = {"inputs": 1, "code": [("identity", 0, -1, 0.0, 0.0)], "results": [1]}

    def cast(value, to):
        return graph.add_op("elementwise", {"list": identity, "result_types": [to]}, [value])[0]

    narrow = cast(source, half)
    y, mean, *_ = graph.add_op("row_norm", {"axis": 1}, [narrow])
    exact = graph.add_op("row_norm", {"axis": 1}, [cast(narrow, "float32")])
    right = cast(cast(exact[0], half), "float32")
    wide = cast(y, "float32")
    graph.compose(["row_norm"])
    graph.verify()
    assert "row_norm" not in graph.ops()
    found = graph.run("reference", {source: x}, [wide, mean, right, exact[1]])
    np.testing.assert_array_equal(found[0], found[2])
    np.testing.assert_array_equal(found[1], found[3])


def test_values_keep_their_numbers():
    """What replaces a parameter is the result itself, in the phase and the place of the op."""
    graph = testing.Graph()
    table = graph.add_parameter(0, "float32", (4, 2))
    picks = graph.add_input("int32", (3,))
    (limited,) = graph.add_op("limit_rows", {"maximum": 1.0}, [table, picks])
    graph.writes(limited, table)
    rows = graph.add_op("embedding", {}, [limited, picks])
    graph.compose(list(RULES))
    graph.verify()
    assert graph.ops()[-1] == "gather"
    assert graph.type(limited) == ("float32", (4, 2), False)
    assert graph.type(rows[0]) == ("float32", (3, 2), False)
