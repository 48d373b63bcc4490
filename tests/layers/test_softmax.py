"""Softmax and log softmax along each axis, with large logits."""

import numpy as np
import pytest
from random_graphs.layer import Layer, need, same, written

import traingraph as tg
from harness import Case, Inference, checks, everywhere, node


def softmax(axis):
    def expected(x):
        e = np.exp(x - x.max(axis=axis, keepdims=True))
        return e / e.sum(axis=axis, keepdims=True)

    return expected


def log_softmax(axis):
    def expected(x):
        shifted = x - x.max(axis=axis, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))

    return expected


def layer(operation, axis):
    return lambda: tg.MLCSoftmaxLayer(operation=operation, dimension=axis)


EXPECTED = {"softmax": softmax, "log_softmax": log_softmax}
SHAPES = [((3, 5), 1), ((4, 3), 0), ((2, 3, 4), 1), ((2, 3, 4), 2), ((2, 3, 2, 2), 1), ((3, 1), 1)]

CASES = [
    Case(f"{name} {shape} {axis}", layer(name, axis), expected(axis), [shape], rows=axis != 0)
    for name, expected in EXPECTED.items()
    for shape, axis in SHAPES
] + [
    Case("one axis", layer("softmax", 0), softmax(0), [(5,)]),
    Case("wide", layer("softmax", 1), softmax(1), [np.linspace(-40, 40, 130).reshape(2, 65)]),
]

test_forward, test_gradient, test_backends, test_same_bits, test_batch = checks(CASES)


def draw(drawing, shape):
    operation = drawing.choice(list(EXPECTED))
    return {"options": {"operation": operation, "dimension": drawing.axis(shape)}}


def results(options, shapes):
    need(options["dimension"] < len(shapes[0]))
    return same(options, shapes)


DRAWN = {
    "MLCSoftmaxLayer": Layer(
        draw,
        results,
        lambda options, shapes, names: written("MLCSoftmaxLayer", **options),
        lambda t, options, sources, at: getattr(t, options["operation"])(
            sources[0], options["dimension"]
        ),
    ),
}


def test_the_dimension_is_1_unless_given():
    assert tg.MLCSoftmaxLayer(operation="softmax").dimension == 1


# Where float32 has no exponential any more, on both sides, and where it just has one.
@pytest.mark.parametrize(("low", "high"), [(-1e4, 1e4), (9990, 1e4), (88, 100), (-104, -88)])
@pytest.mark.parametrize(("shape", "axis"), [((3, 37), 1), ((5, 9), 0), ((2, 21, 3, 3), 1)])
@pytest.mark.parametrize("operation", EXPECTED)
@everywhere
def test_large_logits(device, operation, shape, axis, low, high):
    x = np.random.default_rng(3).uniform(low, high, shape).astype(np.float32).astype(np.float64)
    case = Case("large", layer(operation, axis), EXPECTED[operation](axis), [x])
    found = Inference(case, device, "float32")(x)
    np.testing.assert_allclose(found, case.expected(x), rtol=4e-6, atol=4e-6)


@everywhere
def test_equal_large_logits(device):
    x = np.array([[3e4, 0, -3e4], [-3e4, -3e4, -3e4]])
    for operation, expected in EXPECTED.items():
        case = Case("large", layer(operation, 1), expected(1), [x])
        found = Inference(case, device, "float32")(x)
        np.testing.assert_allclose(found, expected(1)(x), rtol=1e-6)


def test_wrong_shapes():
    with pytest.raises(ValueError, match=r"dimension below the rank of \(2, 3\) but got 2"):
        node(layer("softmax", 2)(), (2, 3))
    with pytest.raises(ValueError, match="dimension of at least 0 but got -1"):
        layer("softmax", -1)()
    with pytest.raises(ValueError, match="expected 1 source but got 2"):
        node(layer("softmax", 1)(), (2, 3), (2, 3))
