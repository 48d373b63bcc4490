"""What mixed precision costs or gains on a CPU: steps in each precision, in turns, in one process.

python -m benchmarks.mixed [--workloads mlp_small,lstm] [--threads 1,2] [--realtime]
"""

import statistics
from collections.abc import Callable
from typing import Any

from .arguments import parsed, parser_of
from .cores import Cores
from .ours import Session
from .worker import Samples, priority, timed
from .workloads import WORKLOADS

PRECISIONS = ("float32", "mixed_bfloat16", "mixed_float16")
NETWORKS = ["mlp_small", "lenet_digits", "mlp_large", "lstm", "transformer", "resnet18_cifar"]


def main() -> None:
    parser = parser_of("python -m benchmarks.mixed", __doc__, NETWORKS, "precision")
    options = parsed(parser)
    heads = "".join(f"{name:>24}" for name in PRECISIONS)
    print(f"{'ms, p50 (of float32)':<22}{'threads':>8}{heads}")
    cores = Cores(options.realtime)
    for name in options.workloads:
        for threads in map(int, options.threads):
            sessions = [Session(WORKLOADS[name], threads, "cpu", p) for p in PRECISIONS]
            samples: list[Samples] = [[] for _ in sessions]
            for session in sessions:
                for _ in range(3):  # plan and warm up
                    session.step()
            far = 0
            for turn in range(options.rounds):
                for k in range(len(sessions)):
                    one = (turn + k) % len(sessions)

                    def sample(step: Callable[[], Any] = sessions[one].step) -> Samples:
                        with priority(options.realtime):
                            return timed(step, options.seconds)

                    taken, near = cores.sampled(sample) if threads > 1 else (sample(), True)
                    samples[one] += taken
                    far += not near
            wall = [statistics.median(wall for wall, _ in of) for of in samples]
            cells = "".join(f"{ms:>15.4g} ({ms / wall[0]:>6.3f})" for ms in wall)
            note = f"  {far} of the samples with cores far apart" if far else ""
            print(f"{name:<22}{threads:>8}{cells}{note}", flush=True)


if __name__ == "__main__":
    main()
