"""One library, one workload, in a process of its own; answers the runner's questions in turn."""

import contextlib
import importlib
import json
import os
import re
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .workloads import WORKLOADS, Workload

MODULES = {
    "ours": "ours",
    "mps": "ours_mps",
    "torch": "peer_torch",
    "jax": "peer_jax",
    "onnxruntime": "peer_onnxruntime",
}
SAMPLE = 2e-3  # seconds that one sample lasts at least, so that the clock does not matter
Samples = list[tuple[float, float]]


def peak_mib() -> float:
    """The most memory this process has held, not counting what it was before exec."""
    with contextlib.suppress(OSError, AttributeError):
        text = Path("/proc/self/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", text)[1]) / 1024  # type: ignore[index]
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


@contextlib.contextmanager
def priority(realtime: bool) -> Iterator[None]:
    """Before all ordinary processes if wanted: for figures from a machine that is not idle."""
    if not realtime:
        yield
        return

    def schedule(policy: int, rank: int) -> None:
        for task in os.listdir("/proc/self/task"):
            os.sched_setscheduler(int(task), policy, os.sched_param(rank))

    schedule(os.SCHED_FIFO, 1)
    try:
        yield
    finally:
        schedule(os.SCHED_OTHER, 0)


def sample(call: Callable[[], Any], count: int) -> tuple[float, float]:
    """Wall and process time of one call, in milliseconds, over `count` of them."""
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(count):
        call()
    scale = 1e3 / count
    return (time.perf_counter() - wall) * scale, (time.process_time() - cpu) * scale


def timed(call: Callable[[], Any], seconds: float) -> Samples:
    """Samples for about this long, at least one, after a call that wakes sleeping threads."""
    once = sample(call, 1)[0] / 1e3
    count = max(1, round(min(SAMPLE, seconds) / once))
    samples: Samples = []
    end = time.perf_counter() + seconds
    while not samples or time.perf_counter() < end:
        samples.append(sample(call, count))
    return samples


def timed_phases(phases: dict[str, Callable[[], Any]], seconds: float) -> dict[str, Samples]:
    """The phases in turn, each call a sample."""
    samples: dict[str, Samples] = {name: [] for name in phases}
    end = time.perf_counter() + seconds
    while phases and (not all(samples.values()) or time.perf_counter() < end):
        for name, call in phases.items():
            samples[name].append(sample(call, 1))
    return samples


def session_of(peer: str, workload: Workload, threads: int) -> Any:
    library, _, variant = peer.partition(":")
    module = importlib.import_module(f".{MODULES[library]}", __package__)
    kind = getattr(module, "Session" if workload.trained else "Gradients", None)
    if kind is None:
        raise ValueError(f"{library} is measured in training steps, and {workload.name} is none")
    return kind(workload, threads, variant)


def compared(session: Any) -> list[float]:
    """What all libraries agree on: three losses, or the sum of each gradient's magnitudes."""
    if hasattr(session, "gradients"):
        return [float(np.abs(values).sum(dtype="d")) for values in session.gradients()]
    return [session.loss() for _ in range(3)]


def answer(session: Any, question: dict[str, Any]) -> Any:
    with priority(question.get("realtime", False)):
        match question["ask"]:
            case "step":
                return timed(session.step, question["seconds"])
            case "phases":
                return timed_phases(session.phases, question["seconds"])
    return {"peak_mib": peak_mib(), "variant": session.variant}


def main() -> None:
    # Libraries may print; the answers have a channel of their own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(what: Any) -> None:
        print(json.dumps(what), file=answers, flush=True)

    request = json.loads(sys.stdin.readline())
    try:
        start = time.perf_counter()
        session = session_of(request["peer"], WORKLOADS[request["workload"]], request["threads"])
        losses = compared(session)
        first = time.perf_counter() - start
        for _ in range(3):
            session.step()
        say({"losses": losses, "first_seconds": first, "version": session.version})
        for line in sys.stdin:
            say(answer(session, json.loads(line)))
    except Exception as error:  # told to the runner, which goes on without us
        say({"error": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
