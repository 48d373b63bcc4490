"""How far rounding moves a workload's first losses, in this library and in PyTorch.

python -m benchmarks.sensitivity [--workloads resnet50_224] [--threads 2] [--rounds 6]

Each round starts from other parameters, a rounding of float32 away (`Workload.neighbour`). What
spreads in float64 is what the network makes of that; float32 adds its own rounding. Plain loops
compute this library's float64: minutes per step of a large network, so one round has it.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from . import ours
from .arguments import names, parsed, parser_of
from .workloads import WORKLOADS, Workload


def _torch(of: Workload, threads: int, variant: str) -> Any:
    from .peer_torch import Session

    return Session(of, threads, variant)


LIBRARIES: dict[str, Callable[[Workload, int], Any]] = {
    "torch:float64": lambda of, threads: _torch(of, threads, "float64"),
    "torch": lambda of, threads: _torch(of, threads, ""),
    "torch:tuned": lambda of, threads: _torch(of, threads, "tuned"),
    "ours": lambda of, threads: ours.Session(of, threads, "cpu"),
    "ours:float64": lambda of, threads: ours.Session(of, threads, "cpu", data_type="float64"),
}
ONCE = ("ours:float64",)


def losses(library: str, workload: Workload, neighbour: int, threads: int) -> list[float]:
    session = LIBRARIES[library](replace(workload, neighbour=neighbour), threads)
    return [session.loss() for _ in range(3)]


def tell(what: str, found: list[list[float]]) -> None:
    if len(found) > 1:
        spread = np.std(found, axis=0, ddof=1) / np.mean(found, axis=0)
        print(f"{what}: standard deviation / mean", *(f"{s:.2g}" for s in spread), flush=True)


def main() -> None:
    parser = parser_of("python -m benchmarks.sensitivity", __doc__, ["resnet50_224"], "library")
    parser.add_argument("--libraries", type=names, default=list(LIBRARIES))
    options = parsed(parser)
    for name in options.workloads:
        together = []  # a difference of two libraries is one of two of these
        for threads in map(int, options.threads):
            for library in options.libraries:
                found = []
                for neighbour in range(1 if library in ONCE else options.rounds):
                    found.append(losses(library, WORKLOADS[name], neighbour, threads))
                    digits = "".join(f"{loss:>14.8f}" for loss in found[-1])
                    print(
                        f"{name:<14}{threads:>2}  {library:<14}{neighbour:>2}{digits}", flush=True
                    )
                tell(library, found)
                together += [] if library.endswith("float64") else found
        tell("all in float32", together)


if __name__ == "__main__":
    main()
