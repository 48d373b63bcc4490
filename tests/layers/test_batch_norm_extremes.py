"""Batch norm where float32 sums or differences would not do: large values, and one or two of them
per channel. What is expected is computed in float64."""

import numpy as np
import pytest

from op_harness import forward, in_half

EPSILON = 1e-5
DEVICES = pytest.mark.parametrize("device", ["reference", "cpu"])


def per_channel(values, x):
    return values.reshape((1, -1) + (1,) * (x.ndim - 2))


def expected(x, dy, gamma, beta):
    """y, mean, inverse deviation, variance; dx, dgamma, dbeta."""
    x, dy = x.astype(np.float64), dy.astype(np.float64)
    axes = (0, *range(2, x.ndim))
    mean, variance = x.mean(axes), x.var(axes)
    inverse = 1 / np.sqrt(variance + EPSILON)
    z = (x - per_channel(mean, x)) * per_channel(inverse, x)
    dbeta, dgamma = dy.sum(axes), (dy * z).sum(axes)
    count = x.size / x.shape[1]
    left = dy - per_channel(dbeta / count, x) - z * per_channel(dgamma / count, x)
    dx = left * per_channel(inverse * gamma, x)
    y = z * per_channel(gamma, x) + per_channel(beta, x)
    return (y, mean, inverse, variance), (dx, dgamma, dbeta)


def computed(x, dy, gamma, beta, device):
    attributes = {"epsilon": EPSILON}
    results = forward("batch_norm", attributes, [x, gamma, beta], device=device)
    operands = [dy, x, results[1], results[2], gamma]
    return results, forward("batch_norm_gradient", attributes, operands, device=device)


def operands(shape, scale=1.0):
    random, channels = (
        np.random.default_rng(11),
        shape[1],
    )  # each row alone gives what it gives here
    x = random.normal(size=shape) * scale
    numbers = [x, random.normal(size=shape), random.normal(size=channels)]
    numbers.append(random.normal(size=channels))
    return [n.astype(np.float32) for n in numbers]


def narrowed(array):
    """Rounded to what bfloat16 has."""
    return (array.view(np.uint32) & 0xFFFF0000).view(np.float32)


@DEVICES
@pytest.mark.parametrize("scale", [1e19, 1e20, 1e25, 1e37])
@pytest.mark.parametrize("shape", [(6, 1), (8, 40), (3, 5, 7, 9), (130, 70), (5000, 24), (4100, 7)])
def test_large_values(device, scale, shape):
    given = operands(shape, scale)
    (y, mean, inverse, _), (dx, dgamma, dbeta) = expected(*given)
    got, gradients = computed(*given, device)
    np.testing.assert_allclose(got[0], y, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(got[1], mean, rtol=1e-4, atol=1e-5 * scale)
    np.testing.assert_allclose(got[2], inverse, rtol=1e-5)
    for value, wanted in zip(gradients, (dx, dgamma, dbeta), strict=True):
        # Results below float32's normal numbers may be 0.
        np.testing.assert_allclose(value, wanted, atol=1e-4 * np.abs(wanted).max() + 1e-37)


@DEVICES
@pytest.mark.parametrize("scale", [1.0, 1e18, 1e20, 1e30, 1e37])
@pytest.mark.parametrize("shape", [(8, 40), (5000, 24), (4100, 7)])
def test_large_values_in_bfloat16(device, scale, shape):
    given = [narrowed(operand) for operand in operands(shape, scale)]
    (y, _, _, _), (dx, dgamma, dbeta) = expected(*given)
    x, dy, gamma, beta = given
    attributes = {"epsilon": EPSILON}
    results, _ = in_half("batch_norm", attributes, [x, gamma, beta], "bfloat16", (1, 2), device)
    np.testing.assert_allclose(results[0], y, rtol=2.0**-7, atol=2.0**-8 * np.abs(y).max())
    numbers = [dy, x, results[1], results[2], gamma]
    got, _ = in_half("batch_norm_gradient", attributes, numbers, "bfloat16", (2, 3, 4), device)
    for value, wanted in zip(got, (dx, dgamma, dbeta), strict=True):
        np.testing.assert_allclose(value, wanted, atol=2.0**-7 * np.abs(wanted).max() + 1e-37)


@DEVICES
@pytest.mark.parametrize("shape", [(1, 8), (1, 70), (1, 8, 1, 1), (1, 3, 1)])
def test_one_value_per_channel_has_no_gradient(device, shape):
    given = operands(shape, 3.0)
    got, (dx, dgamma, dbeta) = computed(*given, device)
    np.testing.assert_array_equal(got[0].ravel(), given[3])
    np.testing.assert_array_equal(dx, 0)
    np.testing.assert_array_equal(dgamma, 0)
    np.testing.assert_array_equal(dbeta, given[1].ravel())


@DEVICES
@pytest.mark.parametrize("offset", [0.0, 20.0])
@pytest.mark.parametrize("shape", [(2, 31), (1, 5, 1, 2), (2, 70, 1, 1)])
def test_what_two_values_leave_of_a_gradient(device, offset, shape):
    """A share of epsilon / variance: less than what rounding mean and deviation would change."""
    x, dy, gamma, beta = operands(shape)
    given = (x + np.float32(offset), np.sign(dy), gamma, beta)
    _, (dx, dgamma, dbeta) = expected(*given)
    _, gradients = computed(*given, device)
    for value, wanted in zip(gradients, (dx, dgamma, dbeta), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-6 * np.abs(wanted).max())


@DEVICES
@pytest.mark.parametrize("shape", [(2, 31), (1, 5, 1, 2)])
def test_two_values_and_the_statistics_of_others(device, shape):
    """Such as an inference normalizes by: they are used as they are given."""
    x, dy, gamma, _ = operands(shape)
    mean, inverse = (np.full(shape[1], number, np.float32) for number in (0.5, 0.75))
    given = [dy, x, mean, inverse, gamma]
    gradients = forward("batch_norm_gradient", {"epsilon": EPSILON}, given, device=device)
    axes, (dy, x, gamma) = (0, *range(2, x.ndim)), (a.astype(np.float64) for a in (dy, x, gamma))
    z = (x - 0.5) * 0.75
    dbeta, dgamma = dy.sum(axes), (dy * z).sum(axes)
    dx = dy - (per_channel(dbeta, x) + z * per_channel(dgamma, x)) / 2
    for value, wanted in zip(
        gradients, (dx * per_channel(gamma, x) * 0.75, dgamma, dbeta), strict=True
    ):
        np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-6)
