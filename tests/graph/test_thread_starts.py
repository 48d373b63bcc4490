"""Calls for which no thread can be started: they raise, and have done nothing."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
PROGRAM = Path(__file__).parent / "starts.py"


@pytest.mark.parametrize("limit", ["processes", "memory"])
@pytest.mark.parametrize("call", ["execute", "handler", "await", "update", "commit"])
def test_a_worker_that_cannot_be_started(call: str, limit: str) -> None:
    run = subprocess.run(
        [sys.executable, str(PROGRAM), limit, call], capture_output=True, text=True, timeout=120
    )
    assert (run.returncode, run.stdout) == (0, "held\n"), run.stdout + run.stderr[-4000:]


def test_calls_while_no_thread_can_be_started() -> None:
    """The short form of the stress test."""
    command = [sys.executable, str(PROGRAM.parent / "stress_starts.py"), "--seconds", "3"]
    command += ["--seed", str(random.randrange(100000))]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stdout + run.stderr[-4000:]


TEAMS = ["execute", "queued", "fit", "evaluate", "predict", "buffer"]


@pytest.mark.parametrize("kind", ["processes", "stacks"])
@pytest.mark.parametrize("call", TEAMS)
def test_a_step_whose_threads_cannot_be_started(call: str, kind: str) -> None:
    """The OpenMP runtime would end the process."""
    command = [sys.executable, str(PROGRAM.parent / "teams.py"), kind, call]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stdout) == (0, "held\n"), run.stdout + run.stderr[-4000:]
