"""Matrix products: transposed and broadcast operands, and wrong shapes."""

import numpy as np
import pytest

import traingraph as tg
from harness import Case, checks, node


def layer(alpha=1.0, x=False, y=False):
    return lambda: tg.MLCMatMulLayer(
        descriptor=tg.MLCMatMulDescriptor(alpha=alpha, transposes_x=x, transposes_y=y)
    )


def product(alpha=1.0, x=False, y=False):
    def expected(a, b):
        a = np.swapaxes(a, -1, -2) if x else a
        b = np.swapaxes(b, -1, -2) if y else b
        return alpha * (a @ b)

    return expected


def case(a, b, alpha=1.0, x=False, y=False, rows=False):
    name = f"{alpha} {a}{'T' * x} {b}{'T' * y}"
    return Case(name, layer(alpha, x, y), product(alpha, x, y), [a, b], rows=rows)


def with_itself(transposed):
    return lambda graph, sources, _: graph.node(
        layer(0.5, False, transposed)(), sources=[sources[0], sources[0]]
    )


CASES = [
    case((3, 4), (4, 2)),
    case((4, 3), (4, 2), x=True),
    case((3, 4), (2, 4), y=True),
    case((4, 3), (2, 4), x=True, y=True),
    case((3, 4), (4, 2), alpha=-0.5),
    case((2, 3, 4), (2, 4, 5), rows=True),
    case((2, 4, 3), (2, 5, 4), alpha=2.0, x=True, y=True, rows=True),
    case((2, 3, 4), (4, 5)),
    case((3, 4), (2, 4, 5)),
    case((1, 2, 3), (5, 3, 4)),
    case((2, 2, 3, 4), (2, 2, 4, 3), rows=True),
    case((2, 1, 3, 4), (1, 3, 4, 2)),
    case((1, 1), (1, 1)),
    Case(
        "with itself",
        layer(),
        lambda x: 0.5 * x @ x,
        [(3, 3)],
        build=with_itself(False),
    ),
    Case(
        "with itself transposed",
        layer(),
        lambda x: 0.5 * x @ np.swapaxes(x, -1, -2),
        [(2, 3, 4)],
        build=with_itself(True),
        rows=True,
    ),
]

test_forward, test_gradient, test_backends, test_same_bits, test_batch = checks(CASES)


def test_wrong_shapes():
    with pytest.raises(ValueError, match=r"inner extents but got \(2, 3\) and \(4, 5\) at layer"):
        node(layer()(), (2, 3), (4, 5))
    with pytest.raises(ValueError, match=r"inner extents but got \(2, 3\) and \(3, 4\) transposed"):
        node(layer(y=True)(), (2, 3), (3, 4))
    with pytest.raises(ValueError, match="expected matrices"):
        node(layer()(), (3,), (3, 4))
    with pytest.raises(ValueError, match="leading axes that broadcast"):
        node(layer()(), (2, 3, 4), (3, 4, 5))
    with pytest.raises(ValueError, match="expected 2 sources but got 1"):
        node(layer()(), (3, 3))
