"""How many threads a step may use until the program says so: OMP_NUM_THREADS, else all."""

import os
import platform
import subprocess
import sys

import pytest

PLAIN = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))}


def run(program: str, environment: str | None = None) -> subprocess.CompletedProcess[str]:
    """A fresh process with OMP_NUM_THREADS as given, or without it."""
    setting = {} if environment is None else {"OMP_NUM_THREADS": environment}
    command = [sys.executable, "-c", program]
    return subprocess.run(
        command, env={**PLAIN, **setting}, capture_output=True, text=True, check=True
    )


def default(environment: str | None = None) -> int:
    program = "import traingraph as tg; print(tg.get_num_threads())"
    return int(run(program, environment).stdout)


@pytest.mark.parametrize(
    ("environment", "threads"), [("1", 1), ("3", 3), ("5,2", 5), (" 4 ", 4), ("64", 64)]
)
def test_the_environment_decides(environment: str, threads: int) -> None:
    assert default(environment) == threads


@pytest.mark.parametrize("environment", ["", "0", "-1", "many", "2.5", "1,"])
def test_a_wrong_value_counts_as_none(environment: str) -> None:
    assert default(environment) == default()


@pytest.mark.skipif(platform.system() != "Linux", reason="needs sched_setaffinity")
def test_without_it_all_processors_of_the_process_count() -> None:
    assert default() == len(os.sched_getaffinity(0))
    one = min(os.sched_getaffinity(0))
    narrow = (
        "import os, traingraph as tg\n"
        f"os.sched_setaffinity(0, [{one}])\n"
        "print(tg.get_num_threads())"
    )
    assert int(run(narrow).stdout) == 1
    assert int(run(narrow, "3").stdout) == 3


def test_a_call_wins_over_the_environment() -> None:
    program = "import traingraph as tg; tg.set_num_threads(2); print(tg.get_num_threads())"
    assert int(run(program, "3").stdout) == 2


def test_neither_steps_nor_threads_change_it() -> None:
    """oneDNN's calls set OpenMP's number meanwhile, and each thread has its own."""
    program = """
import threading
import numpy as np
import traingraph as tg
from traingraph import nn

model = nn.model([nn.conv2d(32, 3), "relu", nn.flatten(), nn.dense(10)], input=(8, 32, 32))
x, y = np.zeros((64, 8, 32, 32), np.float32), np.zeros(64, np.int32)
found = []
model.fit(x, y, on_epoch=lambda epoch: found.append(tg.get_num_threads()))
worker = threading.Thread(target=lambda: found.append(tg.get_num_threads()))
worker.start()
worker.join()
print(*found, tg.get_num_threads())
"""
    assert run(program, "3").stdout.split() == ["3", "3", "3"]


def test_changes_after_the_import_are_not_read() -> None:
    program = (
        "import os, traingraph as tg\n"
        "os.environ['OMP_NUM_THREADS'] = '7'\n"
        "print(tg.get_num_threads())"
    )
    assert int(run(program, "3").stdout) == 3
