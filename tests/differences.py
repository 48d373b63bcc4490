"""How near arrays are, and gradients to central differences in float64.

A gradient g is compared along a few directions d: <g, d> with the difference of sum(dy * f) along
d. Entries of a direction are 0.5 to 1.5 in size, so an element that is wrong by more than twice the
bound shows in every one. Small arrays are compared element by element; --jacobians does so for all.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

DIRECTIONS = 4
SMALL = 12  # elements: one by one they cost little more
every_element = False  # set by --jacobians


def largest(arrays: Sequence[Any]) -> float:
    return max(float(np.abs(array).max(initial=0)) for array in arrays)


def is_zero(array: Any, beside: Sequence[Any]) -> bool:
    """Whether the array is 0 but for float64's rounding of numbers of the size of those beside."""
    return largest([array]) <= 1e-12 * largest(beside)


def scale_of(array: Any, beside: Sequence[Any]) -> float:
    """Its largest number; where it is 0 in theory, the largest beside it: the case's gradients."""
    beside = [array, *beside]
    return largest(beside if is_zero(array, beside) else [array])


def assert_near(got: Any, expected: Any, bound: float, beside: Sequence[Any] = ()) -> None:
    """Elements differ by at most `bound`, relative to the scale of what is expected."""
    assert got.shape == expected.shape
    atol = bound * scale_of(expected, beside)
    np.testing.assert_allclose(got, expected, rtol=0, atol=atol)


class Slopes:
    """The derivative of sum(dy * function(at)) by an array, which is moved in place.

    `function` gives an array: differences of its elements have not lost the digits of a sum.
    """

    def __init__(
        self, function: Callable[[Any], Any], at: np.ndarray, dy: Any = 1.0,
        step: float = 1e-6, elements: bool = False,
    ) -> None:  # fmt: skip
        self.function, self.at, self.dy, self.step = function, at, dy, step
        self.elements: np.ndarray | None = None
        if elements or every_element or at.size <= SMALL:
            self.elements = np.zeros(at.shape)
            for index in np.ndindex(at.shape):
                direction = np.zeros(at.shape)
                direction[index] = 1
                moved, change = self.along(direction)
                self.elements[index] = change / moved[index]
        else:
            self.directions = [self.along(d) for d in directions(at.shape)]

    def along(self, direction: np.ndarray) -> tuple[np.ndarray, float]:
        """How far the array moved, rounded as it was, and how far the sum did."""
        home, ends = self.at.copy(), []
        for step in (self.step, -self.step):
            self.at[...] = home + step * np.maximum(1, np.abs(home)) * direction
            ends.append((self.at.copy(), np.array(self.function(self.at), np.float64)))
        self.at[...] = home
        (up, high), (down, low) = ends
        return up - down, float(np.sum(self.dy * (high - low)))

    def assert_near(self, gradient: Any, bound: float, beside: Sequence[Any] = ()) -> None:
        """Relative to the scale of the gradient."""
        assert gradient.shape == self.at.shape
        if self.elements is not None:
            # Where the gradient is 0 in theory, what differences show is their own rounding.
            atol = bound * scale_of(gradient, beside)
            np.testing.assert_allclose(gradient, self.elements, rtol=0, atol=atol)
            return
        scale = 2 * self.step * scale_of(gradient, beside)
        for moved, change in self.directions:
            off = abs(np.sum(gradient * moved) - change)
            assert off <= bound * scale, f"off by {off:.1e} at a scale of {scale:.1e}"


def directions(shape: tuple[int, ...]) -> Iterator[np.ndarray]:
    random = np.random.default_rng(sum(shape))
    for _ in range(DIRECTIONS):
        yield random.uniform(0.5, 1.5, shape) * random.choice([-1, 1], shape)
