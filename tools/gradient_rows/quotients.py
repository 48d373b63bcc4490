"""Differences of a value in float64, by which gradients are judged, and the rule of kinks.

Of an array every entry is moved; of one of more than 1,024 entries, and in cases of more than 2,048
entries altogether, 64 drawn entries and four directions that move all of it. The quotient is the
central one of fourth order, (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h, with h of 1e-5 (at numbers
above 1, of that times the number).

A kink is where one of the values has one-sided quotients of second order,
(4 f(h) - f(2h) - 3 f(0)) / 2h and the same to the left, that differ from each other, or in the mean
from the central one, by more than 5e-8 of the array's largest quotient (and 1e-9 of the largest
value, which rounding may leave). The gradient that is judged has no part in that. A direction with
kinks is cut in halves four times over. At a kink a gradient is still held to lie between the
one-sided quotients, of each value that has one, so a wrong gradient is not excused; and an array
that has kinks only is an error.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

STEP = 1e-5
KINK = 5e-8
ROUNDING = 1e-9  # what it may leave of one-sided quotients, in units of the values
MOST = 1024
ALTOGETHER = 2048
DRAWN = 64
DIRECTIONS = 4
DEPTH = 4  # how often a direction with kinks is cut in halves

Values = list[np.ndarray]


@dataclass
class Quotient:
    """Along some entries. Without a kink, all three are one."""

    moved: np.ndarray  # flat places
    along: np.ndarray  # how far each of them moves
    central: float
    low: float
    high: float
    is_kink: bool

    def error(self, gradient: np.ndarray) -> float:
        """How far a gradient is off along this, or outside of what a kink allows."""
        found = float(np.sum(gradient.reshape(-1)[self.moved] * self.along))
        return float(np.max([self.low - found, found - self.high, 0.0]))


@dataclass
class Sides:
    """Quotients of each value that moved: the central ones, and those of both sides."""

    moved: np.ndarray
    along: np.ndarray
    central: np.ndarray
    left: np.ndarray
    right: np.ndarray

    def of(self, least: float) -> Quotient:
        middle = (self.left + self.right) / 2
        apart = np.maximum(abs(self.right - self.left), abs(middle - self.central))
        kinks = apart > least
        low = np.where(kinks, np.minimum(self.left, self.right), self.central)
        high = np.where(kinks, np.maximum(self.left, self.right), self.central)
        sums = (float(np.sum(part)) for part in (self.central, low, high))
        return Quotient(self.moved, self.along, *sums, bool(kinks.any()))


def scale_of(array: np.ndarray, beside: float) -> float:
    """The largest entry; what stands beside where all are 0 but for rounding."""
    largest = float(np.abs(array).max(initial=0))
    return largest if largest > 1e-10 * beside else beside


class Quotients:
    """Of one array, which `move` gives other numbers."""

    def __init__(
        self, home: np.ndarray, move: Callable[[np.ndarray], None], values: Callable[[], Values],
        starts: Values, altogether: int, beside: float,
    ) -> None:  # fmt: skip
        self.home, self.move, self.values, self.starts = home, move, values, starts
        self.at_home = [v.copy() for v in values()]
        self.steps = STEP * np.maximum(1, np.abs(home.reshape(-1)))
        random = np.random.default_rng(home.size)
        few = home.size > DRAWN and (home.size > MOST or altogether > ALTOGETHER)
        places = np.arange(home.size)
        if few:
            places = np.sort(random.choice(home.size, DRAWN, replace=False))
        entries = [self.sides(places[k : k + 1], np.ones(1)) for k in range(len(places))]
        largest = np.array([one.central.sum() for one in entries])
        self.scale = scale_of(largest, beside)
        pairs = zip(self.at_home, starts, strict=True)
        size = max(float(np.abs(value * dy).max(initial=0)) for value, dy in pairs)
        self.least = KINK * self.scale + ROUNDING * size
        self.found = [one.of(self.least) for one in entries]
        for _ in range(DIRECTIONS if few else 0):
            signs = random.choice([-1, 1], home.size)
            along = random.uniform(0.5, 1.5, home.size) * signs
            self.cut(np.arange(home.size), along, random, DEPTH)
        move(home)

    def change(self, moved: np.ndarray, along: np.ndarray, by: float) -> np.ndarray:
        """Of all values times their starts, one by one."""
        array = self.home.copy()
        array.reshape(-1)[moved] += by * self.steps[moved] * along
        self.move(array)
        pairs = zip(self.values(), self.at_home, self.starts, strict=True)
        return np.concatenate([((a - b) * dy).ravel() for a, b, dy in pairs])

    def sides(self, moved: np.ndarray, along: np.ndarray) -> Sides:
        f1, f2, b1, b2 = (self.change(moved, along, by) for by in (1, 2, -1, -2))
        # The step of one entry; of several, differences of theirs are part of the direction.
        step = float(self.steps[moved[0]]) if len(moved) == 1 else STEP
        central = (8 * (f1 - b1) - (f2 - b2)) / (12 * step)
        right, left = (4 * f1 - f2) / (2 * step), -(4 * b1 - b2) / (2 * step)
        here = (f1 != 0) | (f2 != 0) | (b1 != 0) | (b2 != 0)
        ratio = self.steps[moved] / step
        return Sides(moved, along * ratio, central[here], left[here], right[here])

    def cut(self, moved: np.ndarray, along: np.ndarray, random: Any, depth: int) -> None:
        """Adds the quotient along this; those of its halves where it has kinks."""
        one = self.sides(moved, along).of(self.least)
        if not one.is_kink or depth == 0 or len(moved) == 1:
            self.found.append(one)
            return
        first = random.random(len(moved)) < 0.5
        for half in (first, ~first):
            if half.any():
                self.cut(moved[half], along[half], random, depth - 1)

    @property
    def kinks(self) -> int:
        return sum(q.is_kink for q in self.found)

    def error(self, gradient: np.ndarray) -> float:
        """The largest, relative to the largest quotient."""
        if not np.isfinite(gradient).all():
            return np.inf
        return float(np.max([q.error(gradient) for q in self.found])) / self.scale
