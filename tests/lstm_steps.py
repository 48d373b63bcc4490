"""An LSTM in NumPy, step by step: the reference of the op and of the layer."""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


USUAL = (sigmoid, sigmoid, np.tanh, sigmoid, np.tanh)


def lstm(inputs, u, h, c, peepholes=None, lengths=None, reverse=False, functions=USUAL):
    """Of what the gates add to U h (N, T, 4H): h of all steps, and the last h and c.

    Gates stand in the order input, forget, candidate, output. `h` and `c` (N, H) may be None.
    """
    count, steps, width = inputs.shape
    hidden = width // 4
    h = np.zeros((count, hidden)) if h is None else np.array(h)
    c = np.zeros((count, hidden)) if c is None else np.array(c)
    lengths = np.full(count, steps) if lengths is None else np.asarray(lengths)
    p = np.zeros((3, hidden)) if peepholes is None else peepholes
    found = np.zeros((count, steps, hidden))
    for step in range(steps)[:: -1 if reverse else 1]:
        inside = (step < lengths)[:, None]
        sums = np.where(inside, inputs[:, step], 0) + h @ u.T
        i, f, g, o = (sums[:, k * hidden : (k + 1) * hidden] for k in range(4))
        i, f, g = functions[0](i + p[0] * c), functions[1](f + p[1] * c), functions[2](g)
        moved = f * c + i * g
        o = functions[3](o + p[2] * moved)
        c = np.where(inside, moved, c)
        h = np.where(inside, o * functions[4](moved), h)
        found[:, step] = np.where(inside, h, 0)
    return found, h, c
