"""Small networks of the benchmarks: memory stays flat over many steps, and compiling is quick."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import traingraph as tg

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from benchmarks import ours
from benchmarks import workloads as w

STEPS = 5000
# 200 bytes a step: less than a handle, an array or a list node that is left behind each time.
GROWTH = 1 << 20
NOW = tg.MLCExecutionOptions.SYNCHRONOUS
LATER = tg.MLCExecutionOptions.NONE


class Policy:
    """The workload, fed with new arrays in each step."""

    def __init__(self) -> None:
        self.session = ours.Session(w.WORKLOADS["policy"], 1, "cpu")
        self.training = self.session.training
        x, y = w.data(w.of_batch(w.WORKLOADS["policy"], 100))
        self.x, self.y = np.ascontiguousarray(x), np.ascontiguousarray(y)

    def execute(self, k: int, options: Any) -> Any:
        row = slice(k % 100, k % 100 + 1)
        fed = {"inputs_data": {"x": self.x[row]}, "loss_labels_data": {"y": self.y[row]}}
        return self.training.execute(**fed, options=options)

    def read(self, steps: int) -> None:
        for k in range(steps):
            assert np.isfinite(float(self.execute(k, NOW).result))

    def unread(self, steps: int) -> None:
        for k in range(steps):
            self.execute(k, NOW)

    def in_flight(self, steps: int) -> None:
        for k in range(steps):
            handle = self.execute(k, LATER)
            if k % 50 == 49:
                handle.wait()

    def phases(self, steps: int) -> None:
        for _ in range(steps):
            for call in self.session.phases.values():
                call()

    def fit(self, steps: int) -> None:
        self.training.fit(self.x, self.y, epochs=steps // 100)

    def keep(self, steps: int) -> None:
        """What the limit is to find: a handle is left behind in each step."""
        self.kept = [*getattr(self, "kept", []), *(self.execute(k, NOW) for k in range(steps))]


WAYS = ["read", "unread", "in_flight", "phases", "fit", "keep"]  # the last one leaves free memory


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


def grown(run: Callable[[int], None]) -> int:
    """Bytes that many steps leave behind, after as many as fill the pools."""
    run(STEPS // 10)
    before = resident()
    run(STEPS)
    return resident() - before


@pytest.fixture(scope="module")
def growth() -> dict[str, int]:
    """By way, in a process of its own: in an older one free memory would hide what is left."""
    folders = [str(Path(__file__).parent), *(path for path in sys.path if path)]
    done = subprocess.run(
        [sys.executable, __file__],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(folders)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, int] = json.loads(done.stdout)
    return result


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@pytest.mark.parametrize("way", WAYS)
def test_resident_memory_stays_flat(growth: dict[str, int], way: str) -> None:
    assert (growth[way] > GROWTH) == (way == "keep"), growth


@pytest.mark.parametrize("name", ["linreg", "policy", "mlp_small"])
def test_compiling_takes_ten_milliseconds_at_most(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of process time, in which other programs have no part: the best of three new graphs."""
    compile_graph, seconds = tg.MLCTrainingGraph.compile, []

    def timed(training: tg.MLCTrainingGraph, **options: Any) -> None:
        start = time.process_time()
        compile_graph(training, **options)
        seconds.append(time.process_time() - start)

    monkeypatch.setattr(tg.MLCTrainingGraph, "compile", timed)
    for _ in range(3):
        ours.Session(w.WORKLOADS[name], 2, "cpu")
    assert len(seconds) == 3
    assert min(seconds) < 10e-3


if __name__ == "__main__":
    print(json.dumps({way: grown(getattr(Policy(), way)) for way in WAYS}))
