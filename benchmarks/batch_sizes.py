"""What steps over drawn numbers of rows cost in one program, beside whole batches.

python -m benchmarks.batch_sizes [--device cpu] [--threads 1] [--calls 1000]

Prints the median and p99 of whole batches, of batches of any size with ANY_BATCH_SIZE, and the
ratio of both p99. On the CPU with one thread time is that of the thread, so that other work on the
machine counts little.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np

import traingraph as tg
from traingraph import nn

WARM_UP = 50
# name: blocks, shape of a sample, batch
NETWORKS: dict[str, tuple[Callable[[], list[nn.Block | str]], tuple[int, ...], int]] = {
    "policy": (lambda: [nn.dense(128), "relu", nn.dense(128), "relu", nn.dense(4)], (8,), 500),
    "batch norm": (
        lambda: [
            nn.conv2d(16, 3), nn.batch_norm(), "relu", nn.max_pool(2), nn.conv2d(32, 3),
            nn.batch_norm(), "relu", nn.flatten(), nn.dense(4),
        ], (3, 16, 16), 64,
    ),
    "lstm": (lambda: [nn.lstm(32), nn.dense(4)], (10, 8), 64),
}  # fmt: skip


def measure(name: str, device: str, threads: int, calls: int) -> str:
    tg.MLCPlatform.set_rng_seed_to(0)
    tg.set_num_threads(threads)
    blocks, shape, batch = NETWORKS[name]
    model = nn.model(blocks(), input=shape, batch_size=batch, device=device, any_batch_size=True)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(batch, *shape)).astype(np.float32)
    y = rng.integers(0, 4, batch).astype(np.int32)
    clock = time.thread_time if device == "cpu" and threads == 1 else time.perf_counter

    def seconds(rows: int) -> float:
        start = clock()
        model.execute(
            inputs_data={"x": x[:rows]}, loss_labels_data={"y": y[:rows]}, options="synchronous"
        )
        return clock() - start

    drawn = [int(rows) for rows in rng.integers(1, batch + 1, calls)]
    for rows in drawn[:WARM_UP]:
        seconds(batch)
        seconds(rows)
    both = np.array([(seconds(batch), seconds(rows)) for rows in drawn]) * 1e6
    (whole, any_size), (whole_99, any_99) = np.median(both, axis=0), np.percentile(both, 99, axis=0)
    return (
        f"{name:12} whole {whole:8.1f} p99 {whole_99:8.1f} us   "
        f"any {any_size:8.1f} p99 {any_99:8.1f} us   p99 ratio {any_99 / whole_99:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--calls", type=int, default=1000)
    given = parser.parse_args()
    for name in NETWORKS:
        print(measure(name, given.device, given.threads, given.calls), flush=True)


if __name__ == "__main__":
    main()
