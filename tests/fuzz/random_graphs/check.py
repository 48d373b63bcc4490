"""Runs a program, compares it with its judge, and says what is wrong."""

import importlib.util
import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from random_nodes import judge as node_judge
from random_nodes import script as nodes

from . import script as graphs
from . import torch_judge
from .program import Program, is_of_nodes
from .torch_judge import Rounding

Numbers = dict[str, np.ndarray]
HAS_TORCH = importlib.util.find_spec("torch") is not None
HELD, EXCUSED, SKIPPED = "held", "excused by rounding", "not finite"
REFUSED = "another batch size than that of the limit on memory"
# In numbers that are exact to float64: what the devices' own rounding may be.
ROUNDINGS = {
    "float64": [
        Rounding(inputs=3e-16),
        Rounding(gradients=3e-16),
        Rounding(results=3e-16),
        Rounding(clipped=3e-16),
    ],
    "float32": [
        Rounding(dtype="float32", inputs=1e-7),
        Rounding(inputs=1e-7),
        Rounding(gradients=1e-7),
        Rounding(results=1e-7),
        Rounding(clipped=1e-7),
    ],
}


SEEDS = 10
"""Of each kind of rounding: a kink has two sides, and each draw falls on either."""


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


def script(program: Program) -> str:
    return nodes.script(program) if is_of_nodes(program) else graphs.script(program)


def disturbing(seed: int) -> Any:
    """Makes of `numbers` a function whose floats are off by rounding."""
    noise = np.random.default_rng(seed)

    def of(numbers: Any) -> Any:
        def disturbed(*given: Any, **named: Any) -> np.ndarray:
            found = np.asarray(numbers(*given, **named))
            if found.dtype.kind != "f":
                return found
            return np.asarray(found * (1 + 1e-7 * noise.normal(size=found.shape)))

        return disturbed

    return of


def run(program: Program, seed: int | None = None) -> Numbers:
    """What the script finds; with a seed, from numbers that are off by rounding."""
    text, names = script(program), dict[str, Any]()
    if seed is not None:
        names["disturbed"] = disturbing(seed)
        text = text.replace("\nSEED", "\nnumbers = disturbed(numbers)\nSEED", 1)
    exec(compile(text, "program", "exec"), names)
    return {k: np.asarray(v, np.float64).reshape(-1) for k, v in names["found"].items()}


def judge(program: Program, rounding: Rounding, got: Numbers) -> Numbers:
    if is_of_nodes(program):
        return node_judge.judge(program, rounding, got)
    return torch_judge.judge(program, rounding)


def on_reference(program: Program, kind: str) -> Program:
    return {**program, "device": "reference", "type": kind, "limit": False}


def expected(program: Program, got: Numbers) -> Numbers:
    if HAS_TORCH:
        return judge(program, Rounding(), got)
    return run(on_reference(program, "float64"))


def others(program: Program, kind: str, got: Numbers) -> Iterator[Numbers]:
    """What changes of the size of rounding give. Without PyTorch, the reference in float32."""
    if HAS_TORCH:
        for base, seed in itertools.product(ROUNDINGS[kind], range(SEEDS)):
            yield judge(program, replace(base, seed=seed), got)
    else:
        for seed in range(9):
            yield run(on_reference(program, "float32"), seed)


def rounded_as(program: Program, name: str) -> str:
    """The type that a number was computed in."""
    return "float32" if node_judge.is_single(program, name) else str(program["type"])


def excuse(program: Program, wrong: list[str], want: Numbers, got: Numbers) -> list[str]:
    """What is wrong by more than rounding may do there."""
    moved = dict.fromkeys(wrong, 0.0)
    for kind in {rounded_as(program, name) for name in wrong}:
        for other in others(program, kind, got):
            for name in wrong:
                if rounded_as(program, name) == kind:
                    moved[name] = max(moved[name], distance(other[name], want[name]))
    return [name for name in wrong if distance(got[name], want[name]) > 100 * moved[name]]


def has_other_batches(program: Program) -> bool:
    inputs = [value for value in program["values"].values() if value["role"] == "input"]
    return {value["shape"][0] for value in inputs} != set(program["rows"])


def check(program: Program) -> str:
    """What came of it; raises Deviation, or what the package raised."""
    try:
        got = run(program)
    except MemoryError:
        if program.get("limit") and has_other_batches(program):
            return REFUSED  # each batch size has to keep to the limit by itself
        raise
    want = expected(program, got)
    if not all(np.isfinite(v).all() and np.abs(v).max(initial=0) < 1e6 for v in want.values()):
        return SKIPPED
    if sorted(got) != sorted(want):
        raise Deviation(f"other names: {sorted(set(got) ^ set(want))}")
    most = {"float64": 1e-9, "float32": 2e-4 * (1 + len(program["nodes"]) / 8)}
    zero = {"float64": 1e-12, "float32": 1e-6}
    wrong = []
    for name in want:
        kind = rounded_as(program, name)
        # An update in float32 is a dozen roundings; the rest of its program is float64.
        bound = 1e-6 if kind != program["type"] else most[kind]
        if distance(got[name], want[name], zero[kind]) > bound:
            wrong.append(name)
    if wrong:
        wrong = excuse(program, wrong, want, got)
        if not wrong:
            return EXCUSED
    if not wrong:
        return HELD
    name = wrong[0]
    if got[name].size != want[name].size:
        raise Deviation(f"{name} has {got[name].size} numbers and not {want[name].size}")
    k = int(np.argmax(np.nan_to_num(np.abs(got[name] - want[name]), nan=np.inf)))
    raise Deviation(f"{name}[{k}] is {got[name][k]!r} and should be {want[name][k]!r}; {wrong}")
