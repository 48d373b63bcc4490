"""Steps on a GPU beside the same steps on the CPU: `python -m benchmarks.cuda_steps [WORKLOAD …]`.

Prints the first losses of both, and the microseconds of a step: with host arrays passed in each
call, with data that stays on the device, and of the recorded step alone, launched again and again
without reading its loss (with the number of its nodes). With `--profile` first: the ops of a step
launched one by one, each followed by a wait.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import traingraph as tg

from . import ours
from . import workloads as w

try:
    from traingraph import _testing  # built with TRAINGRAPH_TESTING
except ImportError:
    _testing = None

TRAINED = [name for name in w.ON_CPU if w.WORKLOADS[name].trained]
COMPARED = 3
SECONDS = 1.0
REPEATED = 2000
PROFILED = 20
SKIP = tg.MLCExecutionOptions.SYNCHRONOUS | (
    tg.MLCExecutionOptions.SKIP_WRITING_INPUT_DATA_TO_DEVICE
)
COLUMNS = (
    *(("loss on cuda", 32), ("relatively apart", 18), ("us", 9), ("resident", 9)),
    *(("alone", 9), ("nodes", 7)),
)


def microseconds(step: Callable[[], object]) -> float:
    """The median of a second of calls."""
    for _ in range(5):
        step()
    taken = []
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        step()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken) * 1e6


def profile(session: ours.Session) -> str:
    """One line per op: its median time."""
    options = SKIP | tg.MLCExecutionOptions.PER_LAYER_PROFILING
    runs = [session.training.execute(inputs_data={}, options=options) for _ in range(PROFILED)]
    entries = [run.profile.entries for run in runs]
    lines = []
    for ops in zip(*entries, strict=True):
        taken = statistics.median(op.seconds for op in ops) * 1e6
        lines.append(f"{taken:9.2f} {ops[0].phase:9} {ops[0].op:32} {ops[0].layer}")
    return "\n".join(lines)


def report(workload: w.Workload, precision: str, profiled: bool) -> str:
    """One line of the table."""
    before = _testing.device_counters("cuda")["captured"] if _testing else 0
    threads = tg.get_num_threads()
    devices = ("cuda", precision), ("cpu", "float32")
    sessions = [ours.Session(workload, threads, *device) for device in devices]
    losses = [[float(s.step().result) for _ in range(COMPARED)] for s in sessions]
    apart = max(abs(a - b) / max(abs(b), 1e-9) for a, b in zip(*losses, strict=True))
    gpu = sessions[0]
    if profiled:
        print(f"-- {workload.name}\n{profile(gpu)}")
    fed = microseconds(gpu.step)
    resident = microseconds(lambda: gpu.training.execute(inputs_data={}, options=SKIP))
    alone, nodes = "-", "-"
    if _testing:
        alone = f"{_testing.repeat_last_run('cuda', REPEATED) * 1e6:.1f}"
        nodes = str(_testing.device_counters("cuda")["captured"] - before)
    values = (
        *(" ".join(f"{loss:.6f}" for loss in losses[0]), f"{apart:.1e}", f"{fed:.1f}"),
        *(f"{resident:.1f}", alone, nodes),
    )
    columns = zip(values, COLUMNS, strict=True)
    return f"{workload.name:16}" + "".join(f"{value:>{width}}" for value, (_, width) in columns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workloads", nargs="*", choices=[[], *TRAINED])
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--precision", default="float32")
    arguments = parser.parse_args()
    names = arguments.workloads or TRAINED
    lines = [report(w.WORKLOADS[name], arguments.precision, arguments.profile) for name in names]
    print(f"{'workload':16}" + "".join(f"{name:>{width}}" for name, width in COLUMNS))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
