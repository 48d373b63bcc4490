"""Gradients along a few directions: one wrong element is seen, and all of them on demand."""

import numpy as np
import pytest

import differences
from differences import Slopes

SHAPE = (3, 7, 11)


def cubes():
    """A gradient, and slopes of sum(dy x³) to hold it against."""
    rng = np.random.default_rng(1)
    x, dy = rng.uniform(0.5, 2, SHAPE), rng.choice([-1, 1], SHAPE) * rng.uniform(0.5, 1, SHAPE)
    return 3 * dy * x**2, Slopes(lambda moved: moved**3, x, dy)


def test_the_right_gradient_is_near():
    gradient, slopes = cubes()
    assert slopes.elements is None
    slopes.assert_near(gradient, 2e-8)


@pytest.mark.parametrize("bound", [2e-8, 1e-6])
@pytest.mark.parametrize("wrong", [1 + 1e-4, 1 - 1e-4])
def test_an_element_off_by_a_ten_thousandth_is_seen(wrong, bound):
    gradient, slopes = cubes()
    for at in np.ndindex(SHAPE):
        moved = gradient.copy()
        moved[at] *= wrong
        with pytest.raises(AssertionError, match="off by"):
            slopes.assert_near(moved, bound)


def test_every_direction_sees_it_alone():
    gradient, slopes = cubes()
    gradient[1, 2, 3] *= 1 + 1e-4
    each = slopes.directions
    assert len(each) == differences.DIRECTIONS
    for direction in each:
        slopes.directions = [direction]
        with pytest.raises(AssertionError, match="off by"):
            slopes.assert_near(gradient, 2e-8)


def test_two_errors_that_cancel_in_a_sum_are_seen():
    gradient, slopes = cubes()
    gradient[0, 0, 0] += 1e-3
    gradient[2, 6, 10] -= 1e-3
    with pytest.raises(AssertionError, match="off by"):
        slopes.assert_near(gradient, 2e-8)


def test_a_gradient_of_zeros_is_exact():
    zeros = np.zeros(SHAPE)
    slopes = Slopes(lambda moved: 0 * moved, np.ones(SHAPE))
    slopes.assert_near(zeros, 1e-8)
    with pytest.raises(AssertionError):
        Slopes(lambda moved: 1e-3 * moved, np.ones(SHAPE)).assert_near(zeros, 1e-8)
    # What is 0 in theory may be rounding, beside gradients that are not.
    with pytest.raises(AssertionError):
        slopes.assert_near(zeros + 1e-17, 1e-8)
    slopes.assert_near(zeros + 1e-17, 1e-8, beside=[np.ones(3)])


def test_small_arrays_are_compared_element_by_element():
    x = np.linspace(-1, 1, differences.SMALL)
    slopes = Slopes(lambda moved: moved**2, x)
    np.testing.assert_allclose(slopes.elements, 2 * x, atol=1e-9)
    assert (x == np.linspace(-1, 1, differences.SMALL)).all()
