"""Small networks of the benchmarks: memory stays flat over many steps, and compiling is quick."""

import os
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


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE")


def grown(run: Callable[[int], None]) -> int:
    """Bytes that many steps leave behind, after as many as fill the pools."""
    run(STEPS // 10)
    before = resident()
    run(STEPS)
    return resident() - before


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
@pytest.mark.parametrize("way", ["read", "unread", "in_flight", "phases", "fit"])
def test_resident_memory_stays_flat(way: str) -> None:
    assert grown(getattr(Policy(), way)) < GROWTH


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_what_each_step_leaves_behind_is_seen() -> None:
    policy, left = Policy(), []

    def run(steps: int) -> None:
        for k in range(steps):
            left.append(policy.execute(k, NOW))

    assert grown(run) > GROWTH


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
