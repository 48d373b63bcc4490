"""The fans of random initializers: products that do not wrap round, and what has none."""

import math

import numpy as np
import pytest

_testing = pytest.importorskip("traingraph._testing", reason="built with TRAINGRAPH_TESTING")

MOST = 2**63 - 1


@pytest.mark.parametrize(
    ("shape", "fans"),
    [
        ((4,), (1, 4)),
        ((4, 3), (3, 4)),
        ((4, 3, 5, 2), (30, 40)),
        ((2**32, 2**31, 2**31, 2), (MOST, MOST)),
        ((1, 2**62, 4), (MOST, 4)),
        ((2**62 + 1, 1, 4), (4, MOST)),
    ],
)
def test_products(shape, fans):
    assert _testing.fans(shape) == fans


def test_numbers_of_large_fans():
    numbers = np.array(_testing.random_of_fans([2000], MOST, MOST))
    limit = math.sqrt(6 / (2 * float(MOST)))
    assert 0.9 * limit < np.abs(numbers).max() <= limit * (1 + 1e-6)


@pytest.mark.parametrize("fans", [(0, 0), (-1, 1), (1, 0), (-(2**63), MOST)])
def test_no_fans_are_refused(fans):
    with pytest.raises(ValueError, match=rf"at least 1 but got {fans[0]} and {fans[1]}"):
        _testing.random_of_fans([4], *fans)
