"""Batches of an iterable, for the program of the ranks."""

from collections.abc import Iterator
from typing import Any

import numpy as np


class Batches:
    """Of all ranks. Of `own` ones the rows of other ranks are no data and no classes."""

    def __init__(self, x: np.ndarray, y: np.ndarray, rows: int, world: Any, own: bool) -> None:
        self.x, self.y, self.rows, self.world, self.own = x, y, rows, world, own

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for first in range(0, len(self.x), self.rows):
            part = slice(first, first + self.rows)
            x, y = self.x[part].copy(), self.y[part].copy()
            if self.own:
                of_others = np.arange(len(x)) // (self.rows // self.world.size) != self.world.rank
                x[of_others], y[of_others] = np.nan, 2**31 - 1
            yield x, y
