"""Steps on a GPU beside the same steps on the CPU: `python -m benchmarks.cuda_steps [WORKLOAD …]`.

Prints the first losses of both, and the time of a step with host arrays passed in each call or
with data that stays on the device.
"""

import statistics
import sys
import time
from collections.abc import Callable

import traingraph as tg

from . import ours
from . import workloads as w

COMPARED = 3
SECONDS = 1.0
SKIP = tg.MLCExecutionOptions.SYNCHRONOUS | (
    tg.MLCExecutionOptions.SKIP_WRITING_INPUT_DATA_TO_DEVICE
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


def main(names: list[str]) -> None:
    columns = ("loss on cuda", 32), ("relatively apart", 18), ("us", 9), ("resident", 9)
    print(f"{'workload':16}" + "".join(f"{name:>{width}}" for name, width in columns))
    for name in names or list(w.WORKLOADS):
        workload = w.WORKLOADS[name]
        sessions = [ours.Session(workload, tg.get_num_threads(), d) for d in ("cuda", "cpu")]
        losses = [[float(s.step().result) for _ in range(COMPARED)] for s in sessions]
        apart = max(abs(a - b) / max(abs(b), 1e-9) for a, b in zip(*losses, strict=True))
        gpu = sessions[0]
        resident = microseconds(lambda gpu=gpu: gpu.training.execute(inputs_data={}, options=SKIP))
        text = " ".join(f"{loss:.6f}" for loss in losses[0])
        print(f"{name:16} {text:>31}{apart:18.1e}{microseconds(gpu.step):9.1f}{resident:9.1f}")


if __name__ == "__main__":
    main(sys.argv[1:])
