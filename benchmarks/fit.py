"""What `fit` costs: over arrays and over batches of a generator, beside the same steps by execute.

All of them in turn, in one process.

python -m benchmarks.fit [--workloads policy,lenet_digits] [--device cpu] [--threads 1]
                         [--batches 64] [--seconds 5]

Each step has other rows of one array. On the CPU the loop waits for each step; on a GPU the array
lies there, in PyTorch's memory, and the loop waits at its end.
"""

import argparse
import time
from collections.abc import Callable, Iterator

import numpy as np

import traingraph as tg

from .arguments import names
from .ours import Session
from .runner import quantiles
from .workloads import WORKLOADS, data


def pair(name: str, device: str, threads: int, batches: int) -> dict[str, Callable[[], object]]:
    workload = WORKLOADS[name]
    training = Session(workload, threads, device).training
    whole = [np.concatenate([part] * batches) for part in data(workload)]
    if device != "cpu":
        import torch

        whole = [torch.from_numpy(part).to("cuda") for part in whole]
    x, y = whole
    rows = len(x) // batches
    parts = [slice(k * rows, (k + 1) * rows) for k in range(batches)]
    calls = [({"x": x[part]}, {"y": y[part]}) for part in parts]
    kinds = tg.MLCExecutionOptions
    options = kinds.SYNCHRONOUS if device == "cpu" else kinds.NONE

    def loop() -> None:
        for inputs, labels in calls:
            last = training.execute(inputs_data=inputs, loss_labels_data=labels, options=options)
        last.wait()

    def batches() -> Iterator[tuple[object, object]]:
        for part in parts:
            yield x[part], y[part]

    return {
        "loop": loop,
        "fit": lambda: training.fit(x, y, shuffle_seed=1),
        "batches": lambda: training.fit(batches=batches()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", type=names, default=["policy", "lenet_digits"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--batches", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=5.0, help="per workload")
    given = parser.parse_args()
    print(f"{'workload':<16}{'':<8}{'us a step':>12}{'p10':>10}{'p90':>10}{'of loop':>10}")
    for name in given.workloads:
        calls = pair(name, given.device, given.threads, given.batches)
        times: dict[str, list[float]] = {kind: [] for kind in calls}
        end = time.perf_counter() + given.seconds
        while len(times["fit"]) < 8 or time.perf_counter() < end:
            for kind, call in calls.items():
                start = time.perf_counter()
                call()
                times[kind].append(1e6 * (time.perf_counter() - start) / given.batches)
        # The first rounds plan and record.
        found = {kind: quantiles(values[3:]) for kind, values in times.items()}
        for kind, row in found.items():
            figures = f"{row['median']:>12.3f}{row['p10']:>10.3f}{row['p90']:>10.3f}"
            ratio = row["median"] / found["loop"]["median"]
            print(f"{name:<16}{kind:<8}{figures}{ratio:>10.3f}")


if __name__ == "__main__":
    main()
