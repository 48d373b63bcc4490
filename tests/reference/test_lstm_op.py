"""The op lstm and its gradient."""

import itertools

import numpy as np
import pytest

import traingraph as tg
from harness import everywhere
from lstm_steps import USUAL, lstm
from op_harness import check_gradients, checks, forward, gradients, scalar_list, testing

OTHERS = {
    "relu": ("leaky_relu", 0.1, lambda x: np.where(x < 0, 0.1 * x, x)),
    "linear": ("affine", 0.5, lambda x: 0.5 * x),
    "soft sign": ("soft_sign", 0.0, lambda x: x / (1 + np.abs(x))),
    "tanh": ("tanh", 1.5, None),
    "gelu": ("gelu", 0.0, None),
}


def scaled_tanh(x):
    return 1.5 * np.tanh(0.5 * x)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


ACTIVATIONS = {
    "activations": [
        scalar_list(name, 1, p, 0.5 if name == "tanh" else 0.0)["list"]
        for name, p, _ in OTHERS.values()
    ]
}
FUNCTIONS = tuple(f or (scaled_tanh if n == "tanh" else gelu) for n, _, f in OTHERS.values())
LENGTHS = {1: [2], 3: [3, 1, 0], 5: [4, 4, 2, 1, 1], 20: [3] * 5 + [2] * 10 + [1] * 4 + [0]}


def operands(
    sequences=3, steps=4, hidden=2, dtype="float64", seed=0, functions=USUAL, **attributes
):
    """Attributes and arrays of the op, and what is expected."""
    rng = np.random.default_rng([seed, sequences, steps, hidden])

    def drawn(*shape):
        return rng.uniform(-1, 1, shape).astype(np.float32).astype(np.float64)

    # A power of 2, which float32 has exactly.
    shrinks = 2.0 ** -np.ceil(np.log2(hidden) / 2)
    given = drawn(sequences, steps, 4 * hidden), shrinks * drawn(4 * hidden, hidden)
    states = [drawn(sequences, hidden) for _ in range(2)] if attributes.get("has_states") else []
    peepholes = [drawn(3, hidden)] if attributes.get("has_peepholes") else []
    lengths = []
    if attributes.get("has_lengths"):
        lengths = [np.minimum(LENGTHS[sequences], steps).astype(np.int32)]
    found, h, c = lstm(
        *given,
        *(states or [None, None]),
        *(peepholes or [None]),
        *(lengths or [None]),
        reverse=attributes.get("reverse", False),
        functions=functions,
    )
    inputs = given[0]
    if attributes.get("time_first"):
        inputs, found = inputs.swapaxes(0, 1).copy(), found.swapaxes(0, 1)
    arrays = [inputs, given[1], *states, *peepholes, *lengths]
    arrays = [a if a.dtype == np.int32 else a.astype(dtype) for a in arrays]
    return attributes, arrays, (found, h, c)


FLAGS = ("time_first", "reverse", "has_states", "has_peepholes", "has_lengths")
EVERY = [
    dict(zip(FLAGS, flags, strict=True)) for flags in itertools.product([False, True], repeat=5)
]


@pytest.mark.parametrize("flags", EVERY, ids=lambda f: "-".join(k for k, v in f.items() if v))
@pytest.mark.parametrize("other", [False, True], ids=["usual", "other"])
@everywhere
def test_values(flags, other, device):
    more = {"functions": FUNCTIONS} if other else {}
    functions = ACTIVATIONS if other else {}
    for extents in ((1, 3, 1), (3, 4, 2), (5, 5, 17), (20, 3, 33)):
        attributes, arrays, expected = operands(*extents, dtype="float32", **flags, **more)
        for keeps in (False, True):
            found = forward("lstm", {**attributes, **functions, "keeps": keeps}, arrays, device)
            assert len(found) == 3 + keeps * (3 + flags["has_peepholes"])
            for got, right in zip(found, expected, strict=False):
                np.testing.assert_allclose(got, right, atol=3e-6)


@pytest.mark.parametrize("flags", EVERY, ids=lambda f: "-".join(k for k, v in f.items() if v))
def test_gradients(flags):
    attributes, arrays, expected = operands(3, 3, 2, **flags)
    wanted = [k for k, a in enumerate(arrays) if a.dtype != np.int32]
    attributes["keeps"] = True
    found = forward("lstm", attributes, arrays)
    for got, right in zip(found, expected, strict=False):
        np.testing.assert_allclose(got, right, rtol=1e-12, atol=1e-14)
    for results in ((0,), (1,), (2,), (0, 1, 2)):
        check_gradients("lstm", attributes, arrays, wanted, results)


@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_of_other_functions(reverse):
    attributes, arrays, _ = operands(
        3, 3, 2, has_states=True, has_peepholes=True, has_lengths=True, reverse=reverse,
        functions=FUNCTIONS,
    )  # fmt: skip
    attributes |= ACTIVATIONS | {"keeps": True}
    check_gradients("lstm", attributes, arrays, range(len(arrays) - 1), (0, 1, 2))


def samples():
    shapes = [(1, 5, 3), (3, 3, 16), (5, 4, 40), (20, 3, 65)]
    for extents, flags in itertools.product(shapes, EVERY[::3]):
        attributes, arrays, _ = operands(*extents, dtype="float32", **flags)
        wanted = [k for k, a in enumerate(arrays) if a.dtype != np.int32]
        yield "lstm", attributes | {"keeps": True}, arrays, wanted
    flags = dict.fromkeys(FLAGS, True)
    for extents in shapes:
        attributes, arrays, _ = operands(*extents, dtype="float32", **flags, functions=FUNCTIONS)
        yield "lstm", attributes | ACTIVATIONS | {"keeps": True}, arrays, [0, 1, 2, 3, 4]


test_float32 = checks(samples())


@pytest.mark.parametrize("other", [False, True], ids=["usual", "other"])
@pytest.mark.parametrize("extents", [(5, 3, 333), (20, 9, 200)])
def test_threads_change_no_bit(extents, other):
    """Those that share the steps of one group, and those that have groups of their own."""
    attributes, arrays, expected = operands(
        *extents, dtype="float32", has_states=True, has_lengths=True,
        functions=FUNCTIONS if other else USUAL,
    )  # fmt: skip
    attributes |= ACTIVATIONS if other else {}
    attributes["keeps"] = True
    before, found = tg.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            tg.set_num_threads(threads)
            results = forward("lstm", attributes, arrays, "cpu")
            cotangents = [np.ones_like(results[0])] + [None] * (len(results) - 1)
            slopes = gradients("lstm", attributes, arrays, cotangents, [0, 2, 3], "cpu")
            found.append([a.tobytes() for a in [*results, *slopes]])
    finally:
        tg.set_num_threads(before)
    assert found[0] == found[1] == found[2]
    for got, right in zip(results, expected, strict=False):
        np.testing.assert_allclose(got, right, atol=1e-5)


@everywhere
@pytest.mark.parametrize("lengths", [[1, 2, 0], [5, 1, 1], [2, 1, -1]])
def test_lengths_that_nobody_has_looked_at(lengths, device):
    """They reach no memory that is not theirs, and show."""
    attributes, arrays, _ = operands(3, 4, 2, dtype="float32", has_lengths=True, has_states=True)
    arrays[-1] = np.array(lengths, np.int32)
    attributes["keeps"] = True
    for found in forward("lstm", attributes, arrays, device)[:3]:
        assert np.isnan(found).all()
    ones = np.ones((3, 4, 2), np.float32)
    cotangents = [ones, None, None, None, None, None]
    for found in gradients("lstm", attributes, arrays, cotangents, [0, 2, 3], device):
        assert np.isnan(found).all()


@everywhere
def test_infinity_and_nan_are_those_of_their_sequence(device):
    attributes, arrays, _ = operands(3, 4, 2, dtype="float32")
    clean = forward("lstm", attributes, arrays, device)
    arrays[0][1, 2, :2] = np.inf  # the input gate
    arrays[0][2, 3, 0] = np.nan
    found = forward("lstm", attributes, arrays, device)
    np.testing.assert_array_equal(found[0][0], clean[0][0])
    np.testing.assert_array_equal(found[0][1, :2], clean[0][1, :2])
    assert np.isfinite(found[0][1]).all()
    assert np.isnan(found[0][2]).tolist() == [[False] * 2] * 3 + [[True, False]]
    arrays[0][0, 0, 4:6] = -np.inf  # the candidate is -1
    found = forward("lstm", attributes, arrays, device)
    assert np.isfinite(found[0][0]).all()
    # Behind its end nothing of a sequence is read.
    attributes, arrays, expected = operands(3, 4, 2, dtype="float32", has_lengths=True)
    arrays[0][2] = np.nan
    arrays[0][1, 1:] = np.nan
    for got, right in zip(forward("lstm", attributes, arrays, device), expected, strict=True):
        np.testing.assert_allclose(got, right, atol=3e-6)


REFUSED = [
    ({}, [(3, 4, 8), (8, 3)], r"expected weights \(8, 2\) but got \(8, 3\)"),
    ({}, [(3, 8), (8, 2)], "expected gates of rank 3"),
    ({}, [(3, 4, 9), (9, 2)], "expected four gates"),
    ({}, [(3, 4, 8)], "expected 2 inputs but got 1"),
    ({"has_states": True}, [(3, 4, 8), (8, 2), (4, 2), (3, 2)], r"hidden state \(3, 2\) but got"),
    ({"has_states": True}, [(3, 4, 8), (8, 2), (3, 2), (3, 3)], r"cell state \(3, 2\) but got"),
    ({"has_peepholes": True}, [(3, 4, 8), (8, 2), (2, 2)], r"peepholes \(3, 2\) but got \(2, 2\)"),
    ({"has_lengths": True}, [(3, 4, 8), (8, 2), (4,)], r"lengths \(3,?\) but got \(4"),
    ({"has_lengths": True}, [(3, 4, 8), (8, 2), (3,)], "expected int32 but got float32"),
    (
        {"activations": [scalar_list("tanh", 1)["list"]]},
        [(3, 4, 8), (8, 2)],
        "five short functions",
    ),
]


@pytest.mark.parametrize(("attributes", "shapes", "text"), REFUSED)
def test_wrong_operands(attributes, shapes, text):
    graph = testing.Graph()
    values = [graph.add_input("float32", shape) for shape in shapes]
    with pytest.raises(ValueError, match=text):
        graph.add_op("lstm", attributes, values)
