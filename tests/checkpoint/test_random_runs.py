"""Random programs keep the promises of docs/checkpoints.md and docs/guide.md.

A failure names its seed: RUNS_SEED=<seed> repeats it first.
"""

import os
import pickle
import secrets
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from random_runs import Memory, Plan, Run, resumed

SECONDS = float(os.environ.get("RUNS_SECONDS", "3"))  # of each row
FIRST = int(os.environ.get("RUNS_SEED", secrets.randbelow(10**9)))
SCRIPT = Path(__file__).with_name("random_runs.py")


def compare(got: dict, expected: dict, what: str) -> None:
    assert list(got) == list(expected), what
    differing = [name for name in expected if got[name] != expected[name]]
    assert not differing, f"{what}: {differing}"


def check_resumed(plan: Plan, expected: dict, folder: Path, in_process: bool) -> None:
    """Saved at any point and taken by another network, twice; the last one by another process."""
    count = len(plan.actions)
    first, last = sorted(plan.draw.integers(0, count + 1, 2).tolist())
    memory, file = folder / "memory", folder / "file"

    def leave(run: Run) -> None:
        run.training.save(file)
        memory.write_bytes(pickle.dumps((plan, run.memory)))

    leave(Run(plan, Memory()).compile().acts(0, first))
    leave(resumed(memory, file, plan.draw).acts(first, last))
    if in_process:
        got = resumed(memory, file, plan.draw).acts(last, count).outcome()
    else:
        done = subprocess.run(
            [sys.executable, SCRIPT, memory, file, str(last), str(plan.seed)],
            capture_output=True,
            env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
        )
        assert done.returncode == 0, done.stderr.decode()
        got = pickle.loads(done.stdout)
    compare(got, expected, f"resumed at {first} and {last}")


def check_limit(plan: Plan, expected: dict) -> None:
    """Within a limit on memory: the same bits, or a refusal."""
    free = Run(plan, Memory()).compile().training.memory_plan()
    limit = free.total_bytes - int(free.arena_bytes * plan.draw.uniform(0, 0.4))
    try:
        got = Run(plan, Memory(), limit=limit).compile().acts(0, len(plan.actions)).outcome()
    except MemoryError as error:
        if "memory_limit" not in str(error):
            raise
        return
    compare(got, expected, f"within {limit} of {free.total_bytes} bytes")


def check(seed: int, folder: Path, in_process: bool) -> None:
    plan = Plan(seed)
    count = len(plan.actions)
    expected = Run(plan, Memory()).compile().acts(0, count).outcome()
    for how in ("other", "quiet"):
        compare(Run(plan, Memory()).compile().acts(0, count, how).outcome(), expected, how)
    check_resumed(plan, expected, folder, in_process)
    check_limit(plan, expected)


@pytest.mark.parametrize("row", range(8))
def test_promises(row: int, tmp_path: Path) -> None:
    seed, end = FIRST + 10_000 * row, time.monotonic() + SECONDS
    print(f"seeds from RUNS_SEED={seed}")
    done = 0
    while done == 0 or time.monotonic() < end:
        plan = Plan(seed)
        drawn = (plan.device, plan.precision, plan.move, plan.layers, plan.actions)
        what = f"RUNS_SEED={seed} {drawn}"
        try:
            check(seed, tmp_path, in_process=done % 8 != 3)
        except Exception as error:
            raise AssertionError(what) from error
        seed, done = seed + 1, done + 1


def test_the_comparison_sees_what_is_lost(tmp_path: Path) -> None:
    """Without the file a resumed run is another one: each of the checks above can fail."""
    plans = [plan for plan in map(Plan, range(200)) if ("run", 4) in plan.actions][:3]
    for plan in plans:
        count = len(plan.actions)
        expected = Run(plan, Memory()).compile().acts(0, count).outcome()
        other = Run(plan, Memory(), start=1).compile().acts(0, count).outcome()
        with pytest.raises(AssertionError, match="another start"):
            compare(other, expected, "another start")
        assert all(np.isfinite(float(loss)) for loss in expected["losses"])
