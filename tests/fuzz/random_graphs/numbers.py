"""The numbers of a program: the same wherever it is run, and exact in float32."""

import zlib

import numpy as np


# A printed program begins with this function's own text.
def numbers(seed, name, step, shape, kind="normal", scale=1.0, below=1):
    draw = np.random.default_rng([seed, zlib.crc32(f"{name} {step}".encode())])
    if kind == "index":
        return draw.integers(0, below, shape)
    if kind == "class":  # -1 is a row that is ignored
        return draw.integers(-1, below, shape)
    if kind == "boolean":
        return draw.random(shape) < 0.5
    found = draw.normal(size=shape) * scale
    if kind == "coarse":  # ties, zeros and kinks
        found = np.round(found * 2) / 2
    elif kind == "positive":
        found = np.abs(found) + 0.5
    elif kind == "near 1":
        found = 1 + 0.3 * found
    elif kind == "uniform":
        found = draw.random(shape)
    elif kind == "weight":  # a loss's: some are nothing
        found = draw.random(shape) * (draw.random(shape) < 0.8)
    elif kind in ("zeros", "ones"):
        found = np.full(shape, float(kind == "ones"))
    return found.astype(np.float32)
