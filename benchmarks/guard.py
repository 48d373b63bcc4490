"""What CHECK_NUMERICS costs: steps with and without it, in turn, in one process.

python -m benchmarks.guard [--workloads lenet_digits,mlp_large] [--threads 1] [--seconds 5]
"""

import argparse
import statistics
import time

import traingraph as tg

from .ours import Session
from .workloads import WORKLOADS

DEFAULT = "lenet_digits,mlp_large,resnet18_cifar"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", default=DEFAULT)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5.0, help="per workload")
    options = parser.parse_args()
    now = tg.MLCExecutionOptions.SYNCHRONOUS
    kinds = {"plain": now, "checked": now | tg.MLCExecutionOptions.CHECK_NUMERICS}
    print(f"{'workload':<16}{'plain ms':>12}{'checked ms':>12}{'cost':>9}")
    for name in options.workloads.split(","):
        session = Session(WORKLOADS[name], options.threads, "")
        times: dict[str, list[float]] = {kind: [] for kind in kinds}
        end = time.perf_counter() + options.seconds
        while len(times["plain"]) < 8 or time.perf_counter() < end:
            for kind, flags in kinds.items():
                start = time.process_time()
                session.step(options=flags)
                times[kind].append(1e3 * (time.process_time() - start))
        # The first calls plan and warm up.
        plain, checked = (statistics.median(times[kind][3:]) for kind in kinds)
        print(f"{name:<16}{plain:>12.3f}{checked:>12.3f}{checked / plain - 1:>9.1%}")


if __name__ == "__main__":
    main()
