"""Steps of several ranks beside one rank alone, and beside PyTorch's DistributedDataParallel.

python -m benchmarks.ranks [--count 2] [--device cuda] [--workloads lenet_digits,mlp_large]
                           [--precisions float32] [--batch 64] [--modes eager,compiled,captured]
                           [--rounds 10] [--steps 50] [--json figures.json]

Starts the ranks itself, with torchrun's variables: on CPUs with a core each, on GPUs one each. A
rank has the workload's whole batch. *alone* are steps of every rank that exchange nothing, all at
once, and *efficiency* is their time over that of the ranks together. A sample is so many steps, one
after another; all take turns, round by round. Of `--modes ''` there is no peer.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import traingraph as tg

from . import ours
from . import workloads as w
from .arguments import names
from .runner import quantiles, surroundings

ALONE, TOGETHER = "alone", "ranks"


class Ours:
    def __init__(self, workload: w.Workload, precision: str, device: str, world: Any) -> None:
        self.session = ours.Session(workload, 1, device, precision, ranks=world)
        self.losses = [self.session.loss() for _ in range(3)]
        self.step = self.session.resident_step

    def finish(self) -> None:
        self.session.last.wait()


class Peer:
    """With the fused optimizer: eager, compiled, or that captured as a whole on a GPU."""

    def __init__(self, workload: w.Workload, precision: str, device: str, mode: str) -> None:
        from .peer_torch import criterion_of, model_of, optimizer_of, torch, trained

        self.torch, self.on_gpu = torch, device != "cpu"
        place = device.replace("gpu", "cuda")
        x, y = (torch.from_numpy(array).to(place) for array in w.data(workload))
        model = model_of(workload).to(place)
        if workload.images:
            model, x = (z.to(memory_format=torch.channels_last) for z in (model, x))
        if self.on_gpu:
            torch.cuda.set_device(place)
            torch.backends.cudnn.benchmark = True
            for library in (torch.backends.cuda.matmul, torch.backends.cudnn):
                library.allow_tf32 = precision != "float32"
        torch._dynamo.config.recompile_limit = 256  # each block of the table is its own
        aside = torch.cuda.Stream() if mode == "captured" else None
        with torch.cuda.stream(aside):
            parallel = torch.nn.parallel.DistributedDataParallel(
                model, gradient_as_bucket_view=True, static_graph=True
            )
        forward = parallel if mode == "eager" else torch.compile(parallel)
        kind = {"capturable": True} if aside and workload.optimizer.name == "adam" else {}
        optimizer = optimizer_of(workload.optimizer, trained(model), fused=True, **kind)
        criterion, label = criterion_of(workload), y.long() if workload.classes else y
        half = {"dtype": torch.bfloat16} if precision == "mixed_bfloat16" else {"enabled": False}

        def step() -> Any:
            optimizer.zero_grad(set_to_none=aside is None)
            with torch.autocast(place.partition(":")[0], **half):
                loss = criterion(forward(x), label)
            loss.backward()
            optimizer.step()
            return loss

        self.step: Callable[[], Any] = step
        self.finish()  # what the other stream has copied is read by this one
        with torch.cuda.stream(aside):
            self.losses = [float(step().item()) for _ in range(3)]
        if aside is not None:
            self.step = self.captured(step, aside)

    def captured(self, step: Callable[[], Any], aside: Any) -> Callable[[], Any]:
        """After the steps in which the class finds out what it needs."""
        self.kept = step  # whose arrays the graph reads
        cuda = self.torch.cuda
        with cuda.stream(aside):
            for _ in range(12):
                step()
        cuda.synchronize()
        graph = cuda.CUDAGraph()
        # NCCL's watchdog asks for events meanwhile, from a thread of its own.
        with cuda.graph(graph, stream=aside, capture_error_mode="thread_local"):
            step()
        return graph.replay  # type: ignore[no-any-return]

    def finish(self) -> None:
        if self.on_gpu:
            self.torch.cuda.synchronize()


def sample(session: Any, steps: int) -> float:
    start = time.perf_counter()
    for _ in range(steps):
        session.step()
    session.finish()
    return (time.perf_counter() - start) / steps * 1e3


def measure(workload: w.Workload, precision: str, arguments: argparse.Namespace) -> list[Any]:
    """In one rank."""
    world = tg.distributed.world()
    device = f"gpu:{world.local_rank}" if arguments.device == "cuda" else "cpu"
    sessions: dict[str, Any] = {
        ALONE: Ours(workload, precision, device, None),
        TOGETHER: Ours(workload, precision, device, world),
    }
    for mode in arguments.modes:
        sessions[f"DDP {mode}"] = Peer(workload, precision, device, mode)
    samples: dict[str, list[float]] = {name: [] for name in sessions}
    for session in sessions.values():
        sample(session, arguments.steps)
    for _ in range(arguments.rounds):
        for name, session in sessions.items():
            samples[name].append(sample(session, arguments.steps))
    return [
        {
            "workload": workload.name, "batch": workload.source[0], "precision": precision,
            "ranks": world.size, "engine": world.engine, "device": device, "peer": name,
            "ms": quantiles(samples[name]), "losses": session.losses,
        }
        for name, session in sessions.items()
    ]  # fmt: skip


def show(rows: list[Any]) -> None:
    medians = {row["peer"]: row["ms"]["median"] for row in rows}
    for row in rows:
        ms, losses = row["ms"], " ".join(f"{loss:.4f}" for loss in row["losses"])
        print(
            f"{row['workload'] + ', ' + str(row['batch']):22}{row['precision']:16}"
            f"{row['ranks']} ranks over {row['engine']}  {row['peer']:14}"
            f"{ms['median']:9.4f} ({ms['p10']:.4f}, {ms['p90']:.4f}) ms  loss {losses}"
        )
    line = f"{'':38}efficiency {medians[ALONE] / medians[TOGETHER]:.3f}"
    if peers := [value for name, value in medians.items() if name not in (ALONE, TOGETHER)]:
        line += f", best peer / ranks {min(peers) / medians[TOGETHER]:.2f}"
    print(line, flush=True)


def run_rank(arguments: argparse.Namespace) -> None:
    rank, count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if arguments.modes:
        from .peer_torch import torch

        torch.set_num_threads(1)
        port = int(os.environ["MASTER_PORT"]) + 1
        backend = "nccl" if arguments.device == "cuda" else "gloo"
        torch.distributed.init_process_group(
            backend, f"tcp://127.0.0.1:{port}", world_size=count, rank=rank
        )
    rows = []
    for name in arguments.workloads:
        workload = w.WORKLOADS[name]
        if arguments.batch:
            workload = w.of_batch(workload, arguments.batch)
        for precision in arguments.precisions:
            found = measure(workload, precision, arguments)
            if rank == 0:
                show(found)
            rows += found
    if rank == 0 and arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    if arguments.modes:
        torch.distributed.destroy_process_group()


def start(arguments: argparse.Namespace) -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ranks = []
    cores = sorted(os.sched_getaffinity(0))
    for rank in range(arguments.count):
        own = {
            "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(arguments.count),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        command = [sys.executable, "-m", "benchmarks.ranks", *sys.argv[1:]]
        if arguments.device == "cuda":
            own["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"  # as PyTorch asks for captured steps
        else:
            own |= surroundings("torch:tuned")
            command = ["taskset", "-c", str(cores[rank % len(cores)]), *command]
        ranks.append(subprocess.Popen(command, env=os.environ | own))
    codes = []
    try:
        codes = [rank.wait() for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    return max(abs(code) for code in codes)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=2)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--workloads", type=names, default=["lenet_digits", "mlp_large"])
    parser.add_argument("--precisions", type=names, default=["float32"])
    parser.add_argument("--modes", type=names, default=["eager", "compiled"])
    parser.add_argument("--batch", type=int, help="of each rank; the workload's")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if "RANK" in os.environ:
        run_rank(arguments)
    else:
        sys.exit(start(arguments))


if __name__ == "__main__":
    main()
