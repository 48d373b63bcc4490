"""Gradients beside central differences in float64."""

import numpy as np


def slopes(function, arrays, index, dy, step=1e-6):
    """d sum(dy * function) / d arrays[index], element by element.

    `function` gives an array: differences of its elements have not lost the digits of a sum.
    """
    base = np.asarray(arrays[index])
    found = np.zeros(base.shape)
    for at in np.ndindex(base.shape):
        ends = []
        for sign in (1, -1):
            moved = base.copy()
            moved[at] = base[at] + sign * step * max(1.0, abs(base[at]))
            ends.append((moved[at], function(*arrays[:index], moved, *arrays[index + 1 :])))
        (up, high), (down, low) = ends
        found[at] = np.sum(dy * (high - low)) / (up - down)
    return found
