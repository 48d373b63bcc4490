"""The digits of batch norm where numbers are far from 0 or from each other, against float64.

The tolerances are what rounding costs. Of a float32 sum no number takes part in more than ROUNDS
additions at these sizes, each of which may move it by UNIT of itself.
"""

import numpy as np
import pytest

from op_harness import declare_with, testing

UNIT = 2.0**-24
ROUNDS = 64
SPREAD = 5  # of squares about a number that is within two deviations of the mean, in variances
EPSILON = 1e-5

# Where a GPU has clusters of blocks, one adds 2 parts of the rows, 4, or, from the third on, 8. In
# the third and the last, some parts would be left over.
SHAPES = [
    (2, 16, 12, 12),
    (3, 64, 12, 12),
    (4100, 7),
    (5000, 24),
    (64, 8, 32, 32),
    (8, 128, 56, 56),
]
# What is added to all, and to the first element of each channel.
FAR = {
    "a mean of 1e4": (1e4, 0),
    "an outlier": (0, 1e3),
    "a far outlier": (0, -1e4),
    "a mean of 1e4 and an outlier": (1e4, 1e3),
}
SUM = {"inputs": 2, "code": [("add", 0, 1, 0.0, 0.0)], "results": [2]}


def rows_of(array):
    """(N, C, …) as (rows, C) in float64."""
    return np.moveaxis(array.astype("f8"), 1, -1).reshape(-1, array.shape[1])


class Numbers:
    def __init__(self, shape, far):
        rng = np.random.default_rng(3)
        offset, outlier = FAR[far]
        x = rng.normal(size=shape) + offset
        x.reshape(*shape[:2], -1)[0, :, 0] += outlier
        self.x = x.astype("f4")
        self.dy, self.added = (rng.normal(0.5, 1, shape).astype("f4") for _ in range(2))
        self.gamma, self.beta = rng.uniform(0.5, 1.5, (2, shape[1])).astype("f4")
        wide = rows_of(self.x)
        self.mean, self.variance = wide.mean(0), wide.var(0)
        self.inverse = 1 / np.sqrt(self.variance + EPSILON)
        self.z = (wide - self.mean) * self.inverse


def ran(device, op, attributes, arrays, last):
    """Results as (rows, C), or as they are where they have one number per channel."""
    graph = testing.Graph()
    inputs, operands = declare_with(graph, arrays, last)
    results = graph.add_op(op, attributes, operands)
    plain = [graph.add_op("reorder", {}, [r])[0] for r in results]
    graph = testing.with_layouts(graph, device)
    found = graph.run(device, dict(zip(inputs, arrays, strict=True)), plain)
    return [a.astype("f8") if a.ndim == 1 else rows_of(a) for a in found]


def check(name, got, expected, tolerance):
    """The largest error, in tolerances, is said."""
    worst = np.max(np.abs(got - expected) / tolerance)
    assert worst <= 1, f"{name} is {worst:.3g} tolerances off"


def check_forward(device, shape, far, last):
    n = Numbers(shape, far)
    y, mean, inverse, variance = ran(
        device, "batch_norm", {"epsilon": EPSILON}, [n.x, n.gamma, n.beta], last
    )
    deviation = np.sqrt(n.variance)
    of_mean = ROUNDS * UNIT * np.sqrt(SPREAD) * deviation
    of_variance = ROUNDS * UNIT * SPREAD  # relative
    check("variance", variance, n.variance, of_variance * n.variance)
    check("inverse_deviation", inverse, n.inverse, (of_variance / 2 + UNIT) * n.inverse)
    check("mean", mean, n.mean, of_mean + UNIT * np.abs(n.mean))
    # Beside both, four operations work y out.
    of_z = of_mean * n.inverse + (of_variance / 2 + 4 * UNIT) * np.abs(n.z)
    check("y", y, n.gamma * n.z + n.beta, n.gamma * of_z + 4 * UNIT * np.abs(n.beta))


def check_gradient(device, shape, far, last, joined):
    """The gradient is given mean and deviation in float32: rounding moves every z alike."""
    n = Numbers(shape, far)
    arrays = [n.dy, n.x, n.mean.astype("f4"), n.inverse.astype("f4"), n.gamma]
    attributes = {"epilogue": SUM, "gives_prologue": True} if joined else {}
    dx, dgamma, dbeta = ran(
        device, "batch_norm_gradient", attributes, arrays + [n.added] * joined, last
    )[:3]
    dy = rows_of(n.dy + n.added if joined else n.dy)
    count, z, scale = len(dy), n.z, n.gamma * n.inverse
    beta, gamma = dy.mean(0), (dy * z).mean(0)
    moved = UNIT * np.abs(n.mean) * n.inverse
    of_beta = ROUNDS * UNIT * np.abs(dy).mean(0)
    of_gamma = (ROUNDS + 4) * UNIT * np.abs(dy * z).mean(0) + moved * np.abs(beta)
    check("dbeta", dbeta, beta * count, of_beta * count)
    check("dgamma", dgamma, gamma * count, of_gamma * count)
    of_dx = of_beta + np.abs(z) * of_gamma + moved * np.abs(gamma)
    of_dx = of_dx + 8 * UNIT * (np.abs(dy) + np.abs(beta) + np.abs(z * gamma))
    check("dx", dx, scale * (dy - beta - z * gamma), scale * of_dx)


EVERY = [
    pytest.mark.parametrize("device", ["cpu"]),
    pytest.mark.parametrize("last", [False, True], ids=["plain", "channels_last"]),
    pytest.mark.parametrize("far", FAR),
    pytest.mark.parametrize("shape", SHAPES, ids=str),
]


def everywhere(test):
    for mark in EVERY:
        test = mark(test)
    return test


@everywhere
def test_forward(device, shape, far, last):
    if device == "metal":
        pytest.skip("Metal takes the mean off x after it is rounded to float32")
    check_forward(device, shape, far, last)


@everywhere
@pytest.mark.parametrize("joined", [False, True], ids=["alone", "of a sum"])
def test_gradient(device, shape, far, last, joined):
    if joined and device == "metal":
        pytest.skip("Metal takes no sum in front of a gradient")
    if device == "metal" and FAR[far][0]:
        pytest.skip("Apple's gradient kernel makes the mean once more, with digits of its own")
    check_gradient(device, shape, far, last, joined)
