"""Concatenation, reshape and transposition, and batch sizes that they fix."""

import numpy as np
import pytest

import traingraph as tg
from harness import Case, Inference, checks, node


def concatenation(axis):
    return lambda: tg.MLCConcatenationLayer(dimension=axis)


def reshape(*shape):
    return lambda: tg.MLCReshapeLayer(shape=list(shape))


def transpose(*axes):
    return lambda: tg.MLCTransposeLayer(dimensions=list(axes))


def joined(axis):
    return lambda *arrays: np.concatenate(arrays, axis)


CASES = [
    Case("concat 1", tg.MLCConcatenationLayer, joined(1), [(2, 3), (2, 1)], rows=True),
    Case("concat 0", concatenation(0), joined(0), [(2, 3), (1, 3)]),
    Case("concat 2", concatenation(2), joined(2), [(2, 3, 1), (2, 3, 4), (2, 3, 2)], rows=True),
    Case("concat images", concatenation(1), joined(1), [(2, 3, 2, 2), (2, 1, 2, 2)], rows=True),
    Case("concat one", concatenation(1), lambda x: x, [(2, 3)], rows=True),
    Case(
        "concat of a tensor with itself",
        concatenation(1),
        lambda x: np.concatenate([x, x], 1),
        [(2, 3)],
        build=lambda graph, s, _: graph.concatenate([s[0], s[0]], dimension=1),
        rows=True,
    ),
    Case("reshape", reshape(2, 12), lambda x: x.reshape(len(x), 12), [(2, 3, 4)], rows=True),
    Case("reshape up", reshape(2, 3, 2, 2), lambda x: x.reshape(-1, 3, 2, 2), [(2, 12)], rows=True),
    Case(
        "reshape the rest", reshape(2, -1), lambda x: x.reshape(len(x), 12), [(2, 3, 4)], rows=True
    ),
    Case("reshape rows", reshape(-1, 12), lambda x: x.reshape(-1, 12), [(2, 3, 4)], rows=True),
    Case("reshape to one", reshape(2, 12, -1), lambda x: x[:, :, None], [(2, 12)], rows=True),
    Case("reshape all", reshape(-1), lambda x: x.reshape(-1), [(2, 3, 4)]),
    Case("reshape the batch", reshape(12, 2), lambda x: x.reshape(12, 2), [(2, 3, 4)]),
    Case("reshape to the same", reshape(2, 3), lambda x: x, [(2, 3)], rows=True),
    Case("transpose", transpose(0, 2, 1), lambda x: x.transpose(0, 2, 1), [(2, 3, 4)], rows=True),
    Case("transpose the batch", transpose(1, 0), lambda x: x.T, [(2, 3)]),
    Case(
        "to channels last",
        transpose(0, 2, 3, 1),
        lambda x: x.transpose(0, 2, 3, 1),
        [(2, 3, 4, 5)],
        rows=True,
    ),
    Case(
        "from channels last",
        transpose(0, 3, 1, 2),
        lambda x: x.transpose(0, 3, 1, 2),
        [(2, 4, 5, 3)],
        rows=True,
    ),
    Case("transpose nothing", transpose(0, 1), lambda x: x, [(2, 3)], rows=True),
]

test_forward, test_gradient, test_backends, test_same_bits, test_batch = checks(CASES)


@pytest.mark.parametrize(
    "name", ["concat 0", "reshape the batch", "reshape all", "transpose the batch"]
)
def test_other_batch_is_refused(name):
    case = next(c for c in CASES if c.name == name)
    if name == "concat 0":
        case = Case("two", concatenation(0), joined(0), [(2, 3), (2, 3)])
    run = Inference(case, "reference", "float32")
    kind = case.layer().label
    with pytest.raises(ValueError, match=rf"expected batch size 2, .*layer \d+ '{kind}'"):
        run(*[s[:1] for s in case.sources], batch_size=1)


def test_wrong_shapes():
    with pytest.raises(ValueError, match=r"dimension below the rank of \(2, 3\) but got 2"):
        node(concatenation(2)(), (2, 3), (2, 3))
    with pytest.raises(ValueError, match=r"axis 1 alone but got \(2, 3\) and \(3, 3\) at layer"):
        node(concatenation(1)(), (2, 3), (3, 3))
    with pytest.raises(ValueError, match=r"axis 1 alone but got \(2, 3\) and \(2, 3, 1\)"):
        node(concatenation(1)(), (2, 3), (2, 3, 1))
    with pytest.raises(ValueError, match="at least 0 but got -1"):
        concatenation(-1)()
    with pytest.raises(
        ValueError, match=r"expected 6 elements as in \(2, 3\) but got 7 in \(7,?\)"
    ):
        node(reshape(7)(), (2, 3))
    with pytest.raises(
        tg.ShapeError, match=r"multiple of 4 elements for \(2, 2, -1\) but got \(2, 3\)"
    ):
        node(reshape(2, 2, -1)(), (2, 3))
    for shape in ([], [0, 6], [-2, 6], [-1, -1]):
        with pytest.raises(ValueError, match="extents of at least 1"):
            reshape(*shape)()
    with pytest.raises(ValueError, match=r"one entry per axis of \(2, 3, 4\) but got \(1, 0\)"):
        node(transpose(1, 0)(), (2, 3, 4))
    for axes in ([], [0, 0], [0, 2], [-1, 0]):
        with pytest.raises(ValueError, match="each axis once"):
            transpose(*axes)()
