"""Runs a program, compares it with its judge, and says what is wrong."""

import importlib.util
import math
from dataclasses import replace

import numpy as np

from .program import Program
from .script import run
from .torch_judge import Rounding, judge

HAS_TORCH = importlib.util.find_spec("torch") is not None
HELD, EXCUSED, SKIPPED = "held", "excused by rounding", "not finite"
# In numbers that are exact to float64: what the devices' own rounding may be.
ROUNDINGS = {
    "float64": [
        Rounding(inputs=3e-16),
        Rounding(gradients=3e-16),
        Rounding(results=3e-16),
        Rounding(clipped=3e-16),
    ],
    "float32": [
        Rounding(dtype="float32"),
        Rounding(inputs=1e-7),
        Rounding(gradients=1e-7),
        Rounding(results=1e-7),
        Rounding(clipped=1e-7),
    ],
}


class Deviation(AssertionError):  # noqa: N818
    """A number that is not the judge's: `kind` is what stays the same in a smaller program."""

    kind = "deviation"


def distance(got: np.ndarray, want: np.ndarray, zero: float = 0.0) -> float:
    """Relative to the largest number; `zero` is what rounding may leave of terms that cancel."""
    if got.size != want.size or not np.isfinite(got).all():
        return math.inf
    if np.abs(want).max(initial=0) < 1e-13 and np.abs(got).max(initial=0) <= zero:
        return 0.0
    largest = max(np.abs(want).max(initial=0), 1e-6)
    return float(np.abs(got - want).max(initial=0) / largest)


def expected(program: Program, rounding: Rounding) -> dict[str, np.ndarray]:
    if HAS_TORCH:
        return judge(program, rounding)
    return run({**program, "device": "reference", "type": "float64", "limit": False})


def check(program: Program) -> str:
    """What came of it; raises Deviation, or what the package raised."""
    want = expected(program, Rounding())
    if not all(np.isfinite(v).all() and np.abs(v).max(initial=0) < 1e6 for v in want.values()):
        return SKIPPED
    got = run(program)
    if sorted(got) != sorted(want):
        raise Deviation(f"other names: {sorted(set(got) ^ set(want))}")
    bound = 1e-9 if program["type"] == "float64" else 2e-4 * (1 + len(program["nodes"]) / 8)
    zero = 1e-12 if program["type"] == "float64" else 1e-6
    wrong = [name for name in want if distance(got[name], want[name], zero) > bound]
    if wrong and HAS_TORCH:
        moved = dict.fromkeys(wrong, 0.0)
        for base in ROUNDINGS[program["type"]]:
            for seed in range(3):
                other = judge(program, replace(base, seed=seed))
                for name in wrong:
                    moved[name] = max(moved[name], distance(other[name], want[name]))
        wrong = [name for name in wrong if distance(got[name], want[name]) > 100 * moved[name]]
        if not wrong:
            return EXCUSED
    if not wrong:
        return HELD
    name = wrong[0]
    if got[name].size != want[name].size:
        raise Deviation(f"{name} has {got[name].size} numbers and not {want[name].size}")
    k = int(np.nanargmax(np.abs(got[name] - want[name])))
    raise Deviation(f"{name}[{k}] is {got[name][k]!r} and should be {want[name][k]!r}; {wrong}")
