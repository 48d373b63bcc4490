"""Training steps on a GPU beside PyTorch and JAX there, in one process, data resident.

python -m benchmarks.gpu [--workloads mlp_small,resnet50_224] [--precisions tf32,mixed_bfloat16]
                         [--modes eager,whole+update,jax] [--batches 1,8] [--seconds 1]
                         [--json figures.json]

A sample is a run of steps that are submitted one after the other and waited for once at its end,
divided by their number; all take turns, round by round. *one by one* waits for each step and reads
its loss. Peak memory is that of the tensors: PyTorch's counter over some steps of that peer alone,
and the memory plan's total here. Where a peer needs less than the plan, a further row has a plan
that keeps below that peer, by computing values again where it must. All start from the same
parameters: where one of the first three losses differs, the run ends with an error.
"""

import argparse
import importlib
import importlib.util
import itertools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import traingraph as tg

from . import ours
from . import workloads as w
from .arguments import names
from .bound import crossings, work
from .runner import quantiles

OURS = "traingraph", "with a memory limit"
MODES = ["eager", "captured", "compiled", "whole", "whole+update", "max-autotune", "jax"]
AUTOTUNED = ("lstm", "transformer", "transformer_base")  # others' trials take many minutes
ROUNDS = 5
LEAST = 5e-3  # seconds of a sample
RESIDENT = tg.MLCExecutionOptions.SKIP_WRITING_INPUT_DATA_TO_DEVICE
ELEMENT_BYTES = {"float32": 4, "tf32": 4, "mixed_bfloat16": 2, "mixed_float16": 2}
L2_BYTES = 50e6
# How far a loss may be from this library's, over the larger of that one and 1. Adam's first steps
# have the sign of each gradient, however small, so rounding moves the next losses.
APART = {"float32": 5e-3, "tf32": 1e-2, "mixed_bfloat16": 5e-2, "mixed_float16": 5e-2}


def _peer(module: str) -> Any:
    """A module that needs the library."""
    return importlib.import_module(f".{module}", __package__)


def _torch() -> Any:
    return _peer("gpu_torch")


class Ours:
    def __init__(self, workload: w.Workload, precision: str, limit: int | None = None) -> None:
        self.session = ours.Session(workload, tg.get_num_threads(), "cuda", precision, limit)
        self.losses = [self.session.loss() for _ in range(3)]
        self.training = self.session.training
        for _ in range(3):  # the first ones are recorded
            self.wait()
        self.last: Any = None

    def step(self) -> None:
        self.last = self.training.execute(inputs_data={}, options=RESIDENT)

    def finish(self) -> None:
        self.last.wait()

    def wait(self) -> None:
        now = RESIDENT | tg.MLCExecutionOptions.SYNCHRONOUS
        float(self.training.execute(inputs_data={}, options=now).result)

    @property
    def peak_bytes(self) -> int:
        return self.training.memory_plan().total_bytes


def _sample(step: Callable[[], Any], finish: Callable[[], Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        step()
    finish()
    return (time.perf_counter() - start) / count * 1e3


def _samples(session: Any, seconds: float) -> list[float]:
    _sample(session.step, session.finish, 3)
    once = _sample(session.step, session.finish, 10) / 1e3
    count = max(1, round(LEAST / once))
    found: list[float] = []
    end = time.perf_counter() + seconds
    while not found or time.perf_counter() < end:
        found.append(_sample(session.step, session.finish, count))
    return found


def floor_ms(workload: w.Workload, precision: str, bandwidth: float, rate: float) -> float:
    """The larger of arithmetic and traffic; none where all that crosses would fit in the cache."""
    crossing = crossings(workload, ELEMENT_BYTES[precision])
    moved = crossing if crossing > L2_BYTES else 0.0
    return max(work(workload).operations / rate, moved / bandwidth) * 1e3


def measure(workload: w.Workload, precision: str, modes: list[str], seconds: float) -> list[Any]:
    whole, limited = OURS
    sessions: dict[str, Any] = {whole: Ours(workload, precision)}
    rows: list[Any] = []

    def add(name: str, make: Callable[[], Any]) -> None:
        try:
            sessions[name] = make()
        except Exception as error:
            rows.append({"peer": name, "error": f"{type(error).__name__}: {error}"})

    for mode in modes:
        if mode == "jax":
            add(mode, lambda: _peer("gpu_jax").Session(workload, precision))
        else:
            add(f"torch {mode}", lambda mode=mode: _torch().Session(workload, mode, precision))
    least = min(session.peak_bytes for session in sessions.values())
    if least < sessions[whole].peak_bytes:
        add(limited, lambda: Ours(workload, precision, least - 1))
    samples: dict[str, list[float]] = {name: [] for name in sessions}
    for _ in range(ROUNDS):
        for name, session in sessions.items():
            samples[name] += _samples(session, seconds / ROUNDS)
    one = sessions[whole]
    alone = [_sample(one.wait, one.finish, 1) for _ in range(50)]
    for name, session in sessions.items():
        row = {"peer": name, "ms": quantiles(samples[name])}
        row["peak_mib"] = session.peak_bytes / 2**20
        row["losses"] = session.losses
        if name == whole:
            row["one_by_one_ms"] = quantiles(alone)
        if isinstance(session, Ours):
            row["recomputed"] = len(session.training.memory_plan().recomputed)
        rows.append(row)
    bound = APART[precision]
    for row in rows:
        pairs = zip(row.get("losses", ()), sessions[whole].losses, strict=False)
        row["same_losses"] = all(abs(a - b) <= bound * max(abs(b), 1.0) for a, b in pairs)
    about = {"workload": workload.name, "batch": workload.source[0], "precision": precision}
    return [{**about, **row} for row in rows]


def _print(rows: list[Any], least: float | None) -> None:
    for row in rows:
        name = f"{row['workload']}, {row['batch']}"
        label = f"{name:22}{row['precision']:16}{row['peer']:19}"
        if "error" in row:
            print(label, row["error"].splitlines()[0][:160])
            continue
        ms = row["ms"]
        text = (
            f"{ms['median']:9.4f} ({ms['p10']:.4f}, {ms['p90']:.4f}) ms {row['peak_mib']:9.1f} MiB"
        )
        if "one_by_one_ms" in row:
            text += f", one by one {row['one_by_one_ms']['median']:.4f} ms"
            if least is not None:
                text += f", floor {least:.4f} ms"
        if row.get("recomputed"):
            text += f", {row['recomputed']} values rematerialized"
        text += "  loss " + " ".join(f"{loss:.4f}" for loss in row["losses"])
        print(label + text + ("" if row["same_losses"] else " (losses differ)"))
    known = {row["peer"]: row["ms"]["median"] for row in rows if "ms" in row}
    peers = [value for name, value in known.items() if name not in OURS]
    if peers:
        ratios = [f"{min(peers) / known[name]:.2f}" for name in known if name in OURS]
        print(f"{'':38}best peer / traingraph {', '.join(ratios)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workloads", type=names, default=list(w.ON_GPU))
    parser.add_argument("--batches", type=names, help="of those measured; lenet_digits has several")
    parser.add_argument("--precisions", type=names, default=["tf32", "mixed_bfloat16"])
    parser.add_argument("--modes", type=names, help=f"{','.join(MODES)}; all where they are quick")
    parser.add_argument("--seconds", type=float, default=1.0, help="per library")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if unknown := set(arguments.workloads) - set(w.ON_GPU):
        parser.error(f"expected workloads of {','.join(w.ON_GPU)} but got {','.join(unknown)}")
    if unknown := set(arguments.modes or ()) - set(MODES):
        parser.error(f"expected modes of {','.join(MODES)} but got {','.join(unknown)}")
    modes, known = arguments.modes or MODES, None
    if "jax" in modes and importlib.util.find_spec("jax") is None:
        print("jax is not installed")
        modes = [mode for mode in modes if mode != "jax"]
    if importlib.util.find_spec("torch") is None:
        print("torch is not installed: no peers, and no ceilings")
        modes = [mode for mode in modes if mode == "jax"]
    else:
        known = _torch().ceilings()
        rates = ", ".join(f"{name} {rate / 1e12:.0f}" for name, rate in known[1].items())
        print(f"copies {known[0] / 1e12:.2f} TB/s; products in TFLOP/s: {rates}")
    rows: list[Any] = []
    for name in arguments.workloads:
        quick = arguments.modes or name in AUTOTUNED
        tried = modes if quick else [mode for mode in modes if mode != "max-autotune"]
        wanted = [int(batch) for batch in arguments.batches or w.ON_GPU[name]]
        for batch, precision in itertools.product(wanted, arguments.precisions):
            workload = w.of_batch(w.WORKLOADS[name], batch)
            measured = measure(workload, precision, tried, arguments.seconds)
            least = None
            if known is not None:
                least = floor_ms(workload, precision, known[0], known[1][precision])
            _print(measured, least)
            rows += [{**row, "floor_ms": least} for row in measured]
            if arguments.json:
                arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    if odd := [f"{row['workload']} {row['peer']}" for row in rows if not row["same_losses"]]:
        sys.exit(f"losses differ: {', '.join(odd)}")


if __name__ == "__main__":
    main()
