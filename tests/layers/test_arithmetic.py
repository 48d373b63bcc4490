"""Arithmetic of one and two sources: each operation, broadcasting, zeros, ties and large angles."""

import numpy as np
import pytest
from test_limits import differentiate

import traingraph as tg
from harness import Case, checks, everywhere, node

TWO = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "multiply_no_nan": np.multiply,
    "divide_no_nan": np.divide,
    "min": np.minimum,
    "max": np.maximum,
}
# Where each may be, away from kinks and poles.
ONE = {
    "sqrt": (np.sqrt, 0.25, 4),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 0.25, 4),
    "sin": (np.sin, -4, 4),
    "cos": (np.cos, -4, 4),
    "tan": (np.tan, -1.25, 1.25),
    "asin": (np.arcsin, -0.9, 0.9),
    "acos": (np.arccos, -0.9, 0.9),
    "atan": (np.arctan, -4, 4),
    "sinh": (np.sinh, -2, 2),
    "cosh": (np.cosh, -2, 2),
    "tanh": (np.tanh, -2, 2),
    "asinh": (np.arcsinh, -4, 4),
    "acosh": (np.arccosh, 1.25, 5),
    "atanh": (np.arctanh, -0.9, 0.9),
    "exp": (np.exp, -2, 2),
    "exp2": (np.exp2, -2, 2),
    "log": (np.log, 0.25, 4),
    "log2": (np.log2, 0.25, 4),
}
WHOLE = {"floor": np.floor, "round": np.rint, "ceil": np.ceil}
SHAPES = [
    ((4, 3), (4, 3)),
    ((2, 3, 4, 5), (2, 3, 4, 5)),
    ((2, 3), (3,)),
    ((3,), (2, 3)),
    ((2, 1), (1, 3)),
    ((2, 3), (2, 1)),
    ((2, 3, 4), (1,)),
    ((2, 3, 2, 2), (1, 3, 1, 1)),
]


def layer(operation):
    return lambda: tg.MLCArithmeticLayer(operation=operation)


def operand(shape, seed):
    """Numbers of both signs that stay away from 0, for the divisor."""
    rng = np.random.default_rng(seed)
    return rng.uniform(0.5, 2, shape) * rng.choice([-1, 1], shape)


def between(shape, low, high, seed=4):
    return np.random.default_rng(seed).uniform(low, high, shape)


def twice(operation):
    """Both sources are one tensor."""
    return lambda graph, sources, _: graph.node(
        layer(operation)(), sources=[sources[0], sources[0]]
    )


CASES = [
    Case(f"{name} {a} {b}", layer(name), function, [operand(a, 1), operand(b, 2)], rows=a == b)
    for name, function in TWO.items()
    for a, b in SHAPES
]
CASES += [
    Case(f"pow {a} {b}", layer("pow"), np.power, [between(a, 0.25, 3), operand(b, 2)], rows=a == b)
    for a, b in SHAPES
]
CASES += [
    Case(
        f"{name} of a tensor with itself",
        layer(name),
        lambda x, f=function: f(x, x),
        [operand((3, 4), 3)],
        build=twice(name),
        rows=True,
    )
    for name, function in TWO.items()
]
CASES.append(
    Case(
        "pow of a tensor with itself",
        layer("pow"),
        lambda x: x**x,
        [between((3, 4), 0.25, 3)],
        build=twice("pow"),
        rows=True,
    )
)
CASES += [
    Case(f"{name} {shape}", layer(name), function, [between(shape, low, high)], rows=True)
    for name, (function, low, high) in ONE.items()
    for shape in ((4, 3), (2, 3, 5, 7))
]
CASES += [
    Case(
        f"{name} {shape}",
        layer(name),
        function,
        [np.trunc(between(shape, -9, 9)) + between(shape, 0.05, 0.45, seed=5)],
        rows=True,
    )
    for name, function in WHOLE.items()
    for shape in ((4, 3), (2, 3, 5, 7))
]

test_forward, test_gradient, test_backends, test_same_bits, test_batch = checks(CASES)


def test_every_operation_has_cases():
    names = {operation.name.lower() for operation in tg.MLCArithmeticOperation}
    assert names == {*TWO, *ONE, *WHOLE, "pow"}


@pytest.mark.parametrize("operation", ["multiply_no_nan", "divide_no_nan"])
@everywhere
def test_nothing_is_left_of_what_a_zero_removes(operation, device):
    """Whatever stands beside it, the result is 0 and gradients are finite."""
    x = np.array([np.nan, np.inf, -np.inf, 2.0], np.float32)[:, None]

    def build(graph, *sources):
        return graph.node(layer(operation)(), sources=list(sources))

    value, (first, second) = differentiate(build, [x, np.zeros_like(x)], "float32", device)
    assert value.ravel().tolist() == [0, 0, 0, 0]
    assert first.ravel().tolist() == [0, 0, 0, 0]
    right = 2 if operation == "multiply_no_nan" else 0
    assert second.ravel().tolist() == [0, 0, 0, right]


@everywhere
def test_ties_share_the_gradient_and_halves_go_to_even(device):
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], np.float32)[:, None]

    def build(name):
        return lambda graph, *sources: graph.node(layer(name)(), sources=list(sources))

    for name in ("min", "max"):
        _, slopes = differentiate(build(name), [x, x.copy()], "float32", device)
        assert [s.ravel().tolist() for s in slopes] == [[0.5] * 6] * 2
    value, (slope,) = differentiate(build("round"), [x], "float32", device)
    assert value.ravel().tolist() == [-2, -2, 0, 0, 2, 2]
    assert slope.ravel().tolist() == [0] * 6


@everywhere
def test_large_angles(device):
    """Every float is an angle of its own."""
    rng = np.random.default_rng(9)
    x = (rng.uniform(1, 2, 4000) * 2.0 ** rng.integers(-30, 127, 4000)).astype(np.float32)
    x = np.append(x, np.float32(16367173 * 2.0**72))[:, None]  # almost a multiple of pi / 2
    wide = x.astype(np.longdouble)
    for name, function in (("sin", np.sin), ("cos", np.cos), ("tan", np.tan)):

        def build(graph, source, name=name):
            return graph.node(layer(name)(), source=source)

        value, _ = differentiate(build, [x], "float32", device)
        np.testing.assert_allclose(value, function(wide).astype(np.float32), rtol=1e-6)


def test_wrong_sources():
    with pytest.raises(ValueError, match=r"\(2, 3\) and \(2, 4\) at layer"):
        node(layer("add")(), (2, 3), (2, 4))
    for operation in tg.MLCArithmeticOperation:
        name = operation.name.lower()
        count = 1 if name in ONE or name in WHOLE else 2
        text = f"{operation.debug_description}.*expected {count} sources? but got"
        for wrong in {0, 1, 2, 3} - {count}:
            with pytest.raises(ValueError, match=f"{text} {wrong}" if wrong else "source"):
                node(layer(name)(), *[(2, 3)] * wrong)
        with pytest.raises(TypeError, match="but got int64"):
            node(layer(name)(), *[(2, 3)] * count, dtype="int64")
    with pytest.raises(TypeError, match="but got int64"):
        node(layer("add")(), (2, 3), (2, 3), dtypes=["float32", "int64"])
    with pytest.raises(TypeError, match="float32 but got float64"):
        node(layer("add")(), (2, 3), (2, 3), dtypes=["float32", "float64"])
