import numpy as np
import pytest

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


SHAPES = [((3, 5), 1), ((4, 3), 0), ((2, 3, 4), 1), ((2, 3, 4), 2), ((2, 3, 2, 2), 1), ((3, 1), 1)]

CASES = [
    Case(f"{name} {shape} {axis}", layer(name, axis), expected(axis), [shape], rows=axis != 0)
    for name, expected in (("softmax", softmax), ("log_softmax", log_softmax))
    for shape, axis in SHAPES
] + [
    Case("one axis", layer("softmax", 0), softmax(0), [(5,)]),
    Case("wide", layer("softmax", 1), softmax(1), [np.linspace(-40, 40, 130).reshape(2, 65)]),
]

test_forward, test_gradient, test_backends, test_same_bits, test_batch = checks(CASES)


def test_the_dimension_is_1_unless_given():
    assert tg.MLCSoftmaxLayer(operation="softmax").dimension == 1


@everywhere
def test_large_logits_stay_finite(device):
    x = np.array([[3e4, 0, -3e4], [-3e4, -3e4, -3e4]])
    case = Case("large", layer("softmax", 1), softmax(1), [x])
    found = Inference(case, device, "float32")(x)
    np.testing.assert_allclose(found, [[1, 0, 0], [1 / 3] * 3], rtol=1e-6)


def test_wrong_shapes():
    with pytest.raises(ValueError, match=r"dimension below the rank of \(2, 3\) but got 2"):
        node(layer("softmax", 2)(), (2, 3))
    with pytest.raises(ValueError, match="dimension of at least 0 but got -1"):
        layer("softmax", -1)()
    with pytest.raises(ValueError, match="expected 1 source but got 2"):
        node(layer("softmax", 1)(), (2, 3), (2, 3))
