"""Rows of softmax and its cross entropy with infinities, and losses of weight 0.

As PyTorch has it: a row with +∞, or of nothing but -∞, is NaN; beside other numbers -∞ has the
share 0. Beyond PyTorch, a label of 0 takes nothing of its class, and a weight of 0 nothing of its
value, whatever the prediction is there.
"""

import numpy as np
import pytest
from test_limits import differentiate, everywhere, lose

import traingraph as tg
from limits import assert_equals

INF, NAN = np.inf, np.nan
# What stands in the first classes of a row; 0.5 in the others.
ROWS = [
    (-INF, 1.0),
    (1.0, -INF),
    (INF, 1.0),
    (1.0, INF),
    (INF, INF),
    (INF, -INF),
    (3e38, -3e38),
    (-3e38, 1.0),
    (3e38, 3e38),
    (NAN, 1.0),
    (2.0, 1.0),
]
BOUNDS = {"float32": {"rtol": 1e-5, "atol": 1e-6}, "float64": {"rtol": 1e-12, "atol": 1e-14}}
# Classes, and what comes behind them.
SHAPES = [(3,), (37,), (3, 5), (19, 17)]


def rows(shape, dtype):
    """(N, K, …): all rows, and one of -∞ alone."""
    x = np.full((len(ROWS) + 1, shape[0]), 0.5, dtype)
    x[:-1, :2] = ROWS
    x[-1] = -INF
    return np.broadcast_to(x.reshape(*x.shape, *[1] * (len(shape) - 1)), (len(x), *shape)).copy()


def logarithm(x):
    """log softmax along axis 1, as PyTorch computes it, in float64."""
    x = x.astype(np.float64)
    with np.errstate(all="ignore"):
        shifted = x - x.max(axis=1, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def rounded(array, dtype):
    with np.errstate(over="ignore"):
        return array.astype(dtype).ravel()


@everywhere
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("operation", ["softmax", "log_softmax"])
def test_rows(operation, shape, device, dtype):
    x = rows(shape, dtype)

    def build(graph, source):
        return graph.node(tg.MLCSoftmaxLayer(operation=operation), source=source)

    value, (slope,) = differentiate(build, [x], dtype, device)
    share = np.exp(logarithm(x))
    with np.errstate(all="ignore"):
        if operation == "softmax":
            expected = share, share * (1 - share.sum(axis=1, keepdims=True))
        else:
            expected = logarithm(x), 1 - share * shape[0]
    for found, right in zip((value, slope), expected, strict=True):
        # What is rounding here is no gradient.
        bounds = BOUNDS[dtype] | {"atol": BOUNDS[dtype]["atol"] * shape[0]}
        assert_equals(found.ravel(), rounded(right, dtype), x.ravel(), **bounds)


@pytest.mark.parametrize("operation", ["softmax", "log_softmax"])
def test_it_is_what_pytorch_says(operation):
    torch = pytest.importorskip("torch")
    x = rows((3,), "float64")
    theirs = getattr(torch.nn.functional, operation)(torch.from_numpy(x), dim=1).numpy()
    mine = np.exp(logarithm(x)) if operation == "softmax" else logarithm(x)
    np.testing.assert_allclose(mine, theirs, rtol=1e-12)


@everywhere
@pytest.mark.parametrize("as_classes", [True, False])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_cross_entropy(shape, as_classes, device, dtype):
    x = rows(shape, dtype)
    labels = np.zeros(x.shape, dtype)
    labels[:, 1] = 1
    given = np.ones((len(x), *shape[1:]), np.int32) if as_classes else labels
    layer = tg.MLCLossLayer.softmax_cross_entropy(reduction_type="none")
    value, slope = lose(layer, x, given, dtype, device)
    logs = logarithm(x)
    with np.errstate(invalid="ignore"):
        expected = -logs[:, 1], np.exp(logs) - labels
    for found, right in zip((value, slope), expected, strict=True):
        assert_equals(found.ravel(), rounded(right, dtype), right.ravel(), **BOUNDS[dtype])


NAMES = ["mean_absolute_error", "mean_squared_error", "huber_loss", "sigmoid_cross_entropy"]


@everywhere
@pytest.mark.parametrize("name", [*NAMES, "softmax_cross_entropy", "softmax_cross_entropy of all"])
def test_a_weight_of_0_leaves_nothing(name, device, dtype):
    """Also of the gradient."""
    x = np.tile(np.array([1, INF, -INF, NAN, 2], dtype)[:, None], (4, 3))
    weights = np.tile(np.array([1, 0, 0, 0, 2], dtype)[:, None], (4, 3))
    t = np.zeros_like(x)
    t[:, 0] = 1
    softmax = name.startswith("softmax")
    if name.endswith("all"):
        x, t, weights = (np.repeat(a[..., None], 5, axis=2) for a in (x, t, weights))
    if softmax:
        weights = weights[:, 0]
    layer = getattr(tg.MLCLossLayer, name.removesuffix(" of all"))(reduction_type="none")
    value, slope = lose(layer, x, t, dtype, device, weights)
    alone = np.repeat(weights[:, None], 3, axis=1) if softmax else weights
    some = np.where(alone == 0, 1, x).astype(dtype)
    expected = lose(layer, some, t, dtype, device, weights)
    np.testing.assert_array_equal(value, expected[0])
    np.testing.assert_array_equal(slope, expected[1])
    assert not slope[alone == 0].any()
    assert slope[alone != 0].any()
