"""Asks one process per library in turn, so that whatever else the machine does meets them all."""

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from .cores import Cores
from .workloads import WORKLOADS

Row = dict[str, Any]
# What a peer gains from its surroundings: huge pages, and a malloc that keeps its memory.
TUNED = {
    "THP_MEM_ALLOC_ENABLE": "1",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    "MALLOC_TRIM_THRESHOLD_": str(2**40),
    "MALLOC_MMAP_THRESHOLD_": str(2**25),  # glibc takes no more
}
# MKL asks whose processor it runs on, and takes AVX2 kernels where AVX-512 ones would run as well.
MKL_ANSWER = "int mkl_serv_intel_cpu_true(void) { return 1; }"


OTHER_STEP = "SGD without momentum"


@dataclass(frozen=True)
class Plan:
    peers: Sequence[str]
    rounds: int = 10
    seconds: float = 0.2  # of timed steps, per library and round
    realtime: bool = False  # timed steps go before ordinary processes; Linux, as root


class Worker:
    """A library in a process of its own, with its own thread settings."""

    def __init__(self, workload: str, peer: str, threads: int) -> None:
        self.peer = peer
        command = [sys.executable, "-m", "benchmarks.worker"]
        if threads == 1 and hasattr(os, "sched_setaffinity"):
            # One core for pools that ignore thread settings too; the last one has least to do.
            core = max(os.sched_getaffinity(0))
            code = f"import os; os.sched_setaffinity(0, {{{core}}})"
            code += "; from benchmarks.worker import main; main()"
            command = [sys.executable, "-c", code]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=_settings(threads) | surroundings(peer),
        )
        self.ready = self.ask({"workload": workload, "peer": peer, "threads": threads})

    def ask(self, question: Row) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        return json.loads(line) if line else {"error": "the process ended"}

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


@dataclass
class Record:
    """What one library has answered so far."""

    worker: Worker
    step: list[tuple[float, float]] = field(default_factory=list)
    phases: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    far: int = 0  # rounds whose cores were far apart, in every try


def _settings(threads: int) -> dict[str, str]:
    settings = dict(os.environ)
    for pool in ("OMP", "MKL", "OPENBLAS"):
        settings[f"{pool}_NUM_THREADS"] = str(threads)
    settings["JAX_PLATFORMS"] = "cpu"
    if threads == 1:
        flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        settings["XLA_FLAGS"] = f"{settings.get('XLA_FLAGS', '')} {flags}"
    return settings


def surroundings(peer: str) -> dict[str, str]:
    """For all but this library, and PyTorch as it is installed."""
    library, _, variant = peer.partition(":")
    if library in ("ours", "mps") or (library == "torch" and "tuned" not in variant.split("+")):
        return {}
    folder = _mkl_answer()
    return TUNED | ({"LD_PRELOAD": str(Path(folder.name) / "answer.so")} if folder else {})


@cache
def _mkl_answer() -> tempfile.TemporaryDirectory[str] | None:
    """With a library that is loaded first; None without a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        return None
    folder = tempfile.TemporaryDirectory()
    command = [compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", f"{folder.name}/answer.so"]
    done = subprocess.run(command, input=MKL_ANSWER, text=True, check=False)
    return folder if done.returncode == 0 else None


def quantiles(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    last = len(ordered) - 1
    shares = {"p10": 0.1, "median": 0.5, "p90": 0.9}
    return {name: ordered[round(share * last)] for name, share in shares.items()}


def _summary(samples: list[tuple[float, float]]) -> Row:
    wall, cpu = zip(*samples, strict=True)
    return {"wall_ms": quantiles(wall), "cpu_ms": quantiles(cpu), "samples": len(samples)}


def measure(workload: str, threads: int, plan: Plan) -> list[Row]:
    """One row per library; one that is missing or fails has a row with its error."""
    rows: list[Row] = []
    records: list[Record] = []
    for peer in plan.peers:
        worker = Worker(workload, peer, threads)
        row = {"workload": workload, "threads": threads, "peer": peer, **worker.ready}
        rows.append(row)
        if "error" in worker.ready:
            worker.close()
        else:
            records.append(Record(worker))
    urgency = {"realtime": plan.realtime}
    cores = Cores(plan.realtime) if threads > 1 else None
    for turn in range(plan.rounds):
        for k in range(len(records)):
            record = records[(turn + k) % len(records)]
            ask = partial(record.worker.ask, {"ask": "step", "seconds": plan.seconds} | urgency)
            answer, near = cores.sampled(ask) if cores is not None else (ask(), True)
            record.far += not near
            if isinstance(answer, list):
                record.step += answer
    for record in records:
        row = next(row for row in rows if row["peer"] == record.worker.peer)
        seconds = plan.seconds * plan.rounds / 2
        phases = record.worker.ask({"ask": "phases", "seconds": seconds} | urgency)
        row.update(record.worker.ask({"ask": "memory"}))
        record.worker.close()
        if "error" not in row:
            row.update(_summary(record.step), far=record.far)
            row["phases"] = {name: _summary(samples) for name, samples in phases.items()}
    _compare_losses(rows, WORKLOADS[workload].spread)
    return rows


def _compare_losses(rows: list[Row], spread: Sequence[float] = ()) -> None:
    """All start from the same parameters and data, so their first losses agree: where rounding
    moves them by a known spread, to three standard deviations of a difference of two."""
    known = [row for row in rows if row.get("losses")]
    for row in known:
        first = known[0]["losses"]
        bounds = [5e-3 * abs(b) + 1e-4 for b in first]
        if spread:
            bounds = [3 * math.sqrt(2) * s * abs(b) for s, b in zip(spread, first, strict=True)]
        triples = zip(row["losses"], first, bounds, strict=True)
        row["same_losses"] = all(abs(a - b) <= bound for a, b, bound in triples)


def differing(rows: list[Row]) -> str:
    """The rows whose losses differ, but for those of a step that is known to be another one."""
    odd = [row for row in rows if not row.get("same_losses", True)]
    names = [f"{row['workload']} {row['peer']}" for row in odd if row.get("variant") != OTHER_STEP]
    return f"losses differ: {', '.join(names)}" if names else ""
