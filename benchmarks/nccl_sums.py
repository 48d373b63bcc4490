"""Sums of float32 over GPUs by NCCL alone, which PyTorch calls, one behind the other.

python -m torch.distributed.run --nproc-per-node 2 -m benchmarks.nccl_sums
"""

import os
import statistics
import time

import torch
from torch import distributed

MEGABYTES = (1, 4, 8, 16, 25, 45, 100, 340)
SAMPLES, SUMS = 5, 30


def sample(array: torch.Tensor) -> float:
    """Seconds of a sum."""
    distributed.barrier()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(SUMS):
        distributed.all_reduce(array)
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / SUMS


def main() -> None:
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    distributed.init_process_group("nccl")
    for size in MEGABYTES:
        array = torch.zeros(size * 1_000_000 // 4, device="cuda")
        sample(array)
        seconds = statistics.median(sample(array) for _ in range(SAMPLES))
        if distributed.get_rank() == 0:
            print(f"{size:4} MB {seconds * 1e6:8.1f} µs {size / 1e3 / seconds:6.0f} GB/s")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
