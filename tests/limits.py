"""What functions tend to at infinity, and are at the ends of a type's range.

A formula is evaluated in extended precision. An infinite operand stands for three numbers far
beyond the range of the type, a zero beside it for zero and two numbers that close to it: where all
of them agree once they are rounded, that is the limit, and where they do not there is none, and NaN
is right.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

WIDE = np.longdouble
# Ordinary numbers, and a half below a kink of most cases.
ORDINARY = (-1.0, 1.0, 0.25)
# Of single functions: 3 ulp or so; a float32 function may flush what is subnormal.
BOUNDS = {
    "float32": {"rtol": 2e-6, "atol": 2e-38},
    "float64": {"rtol": 1e-13, "atol": 1e-300},
}


def points(dtype: str) -> np.ndarray:
    """±∞, ± the largest and the smallest number, ±0 and ordinary ones."""
    info = np.finfo(dtype)
    ends = [np.inf, info.max, info.smallest_subnormal, 0.0]
    return np.array([sign * end for sign in (1, -1) for end in ends] + list(ORDINARY), dtype)


def pairs(dtype: str) -> list[np.ndarray]:
    """Every point with every other."""
    return [a.ravel() for a in np.meshgrid(points(dtype), points(dtype))]


def magnitudes(dtype: str) -> list[WIDE]:
    """The least is beyond the type even after a division by the square of its largest number, and
    the most beyond the square of the least."""
    info = np.finfo(dtype)
    digits = math.log10(float(info.max))
    least = 2 * digits - math.log10(float(info.smallest_subnormal)) + 3
    most = 2 * least + digits + 3
    if most > np.finfo(WIDE).maxexp * math.log10(2):
        pytest.skip(f"long double reaches no further than {dtype} does here")
    return [WIDE(10) ** WIDE(e) for e in (least, (least + most) / 2, most)]


def limit(
    f: Callable[..., Any], operands: list[np.ndarray], held: tuple[int, ...] = ()
) -> np.ndarray:
    """f of arrays of one type, at infinity what it tends to, NaN where to nothing. Operands that
    are `held` are no variables: their zeros are zeros."""
    large = magnitudes(operands[0].dtype.name)
    any_infinite = np.any([np.isinf(a) for a in operands], axis=0)
    choices = []
    for k, a in enumerate(operands):
        near_zero = (a == 0) & any_infinite & (k not in held)
        small = [WIDE(0), 1 / large[0], 1 / large[2]]
        choices.append(
            [
                np.where(np.isinf(a), np.copysign(h, a), np.where(near_zero, np.copysign(s, a), a))
                for h, s in zip(large, small, strict=True)
            ]
        )
    with np.errstate(all="ignore"):
        found = [
            np.asarray(f(*each), WIDE).astype(operands[0].dtype)
            for each in itertools.product(*choices)
        ]
    agree = np.all([one == found[0] for one in found], axis=0)
    return np.where(agree, found[0], np.nan).astype(operands[0].dtype)


def at_once(f: Callable[..., Any], operands: list[np.ndarray]) -> np.ndarray:
    """What f makes of infinities themselves: for functions that choose."""
    with np.errstate(all="ignore"):
        return np.asarray(f(*operands), operands[0].dtype)


def assert_equals(found: np.ndarray, expected: np.ndarray, *operands: np.ndarray, **bounds: float):
    """Within the bounds of the type, infinities and NaN in the same places."""
    bounds = BOUNDS[found.dtype.name] | bounds
    with np.errstate(all="ignore"):
        distance = np.abs(found.astype(WIDE) - expected)
        near = distance <= bounds["atol"] + bounds["rtol"] * np.abs(expected.astype(WIDE))
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    wrong = ~(same | (near & np.isfinite(found) & np.isfinite(expected)))
    rows = [
        f"f({', '.join(str(a[k]) for a in operands)}) = {found[k]}, not {expected[k]}"
        for k in np.flatnonzero(wrong)
    ]
    assert not rows, "\n".join(rows)
