"""What a step takes beside busy processes, one on each core, and beside ones of `nice 19`.

python -m benchmarks.busy [--workloads lenet_digits,mlp_large] [--threads 2] [--ahead]

The states of the machine take turns, and each figure is a mean, so that stalls count.
"""

import argparse
import contextlib
import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from .ours import Session
from .workloads import WORKLOADS

DEFAULT = "lenet_digits,mlp_large,transformer"
# By the state of the machine: the niceness of the busy processes.
STATES = {"idle": None, "busy": 0, "nice 19": 19}
# Priorities differ as without it, and everything else has nearly nothing.
AHEAD = -20


@contextlib.contextmanager
def busy(niceness: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """A process on each core, which waits until it is told to go on."""
    code = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\n"
    code += "os.setpriority(os.PRIO_PROCESS, 0, int(sys.argv[2]))\nwhile True: pass"
    processes = []
    try:
        for core in sorted(os.sched_getaffinity(0)):
            command = [sys.executable, "-c", code, str(core), str(niceness)]
            processes.append(subprocess.Popen(command))
        time.sleep(0.5)
        tell(processes, signal.SIGSTOP)
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def tell(processes: list[subprocess.Popen[bytes]], what: signal.Signals) -> None:
    for process in processes:
        process.send_signal(what)


def mean(session: Session, seconds: float) -> float:
    """Milliseconds per step, over at least three."""
    session.step()
    start = time.perf_counter()
    steps = 0
    while steps < 3 or time.perf_counter() < start + seconds:
        session.step()
        steps += 1
    return (time.perf_counter() - start) / steps * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", default=DEFAULT)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="per state and round")
    parser.add_argument(
        "--ahead", action="store_true", help="the measured processes before all others; root"
    )
    options = parser.parse_args()
    shift = AHEAD if options.ahead else 0
    if options.ahead:
        os.setpriority(os.PRIO_PROCESS, 0, shift)
    print(f"{'workload':<16}{'idle ms':>10}{'busy':>8}{'nice 19':>10}")
    with contextlib.ExitStack() as stack:
        beside = {
            state: [] if nice is None else stack.enter_context(busy(nice + shift))
            for state, nice in STATES.items()
        }
        for name in options.workloads.split(","):
            session = Session(WORKLOADS[name], options.threads, "")
            times: dict[str, list[float]] = {state: [] for state in STATES}
            for _ in range(options.rounds):
                for state, processes in beside.items():
                    tell(processes, signal.SIGCONT)
                    times[state].append(mean(session, options.seconds))
                    tell(processes, signal.SIGSTOP)
            idle, equal, lower = (statistics.median(times[state]) for state in STATES)
            print(f"{name:<16}{idle:>10.3f}{equal / idle:>8.2f}{lower / idle:>10.2f}", flush=True)


if __name__ == "__main__":
    main()
