"""Each workload beside the peers that are installed: python -m benchmarks."""

import argparse
import datetime
import importlib.util
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from . import bound
from .arguments import names, parsed, parser_of
from .runner import Plan, differing, measure
from .table import best_peer, phases, table
from .workloads import ON_CPU, WORKLOADS


def _arguments() -> argparse.Namespace:
    parser = parser_of("python -m benchmarks", __doc__, ON_CPU, "library")
    parser.add_argument(
        "--peers",
        type=names,
        default=["torch", "torch:tuned", "torch:tuned+compile", "jax", "onnxruntime"],
        help="torch, torch:A+B of channels_last, fused, compile, tuned, float64; jax; onnxruntime",
    )
    return parsed(parser)


def _installed(peers: list[str]) -> list[str]:
    found = []
    for peer in peers:
        if importlib.util.find_spec(peer.partition(":")[0]) is None:
            print(f"{peer} is not installed", file=sys.stderr)
        else:
            found.append(peer)
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((s.partition(":")[2].strip() for s in lines if s.startswith("model name")), "")


def main() -> None:
    arguments = _arguments()
    peers = ["ours", *_installed(arguments.peers)]
    plan = Plan(peers, arguments.rounds, arguments.seconds, arguments.realtime)
    rows: list[dict[str, Any]] = []
    ceilings: dict[str, dict[str, float]] = {}
    for threads in map(int, arguments.threads):
        if (found := bound.machine(threads, arguments.realtime)) is not None:
            ceilings[str(threads)] = {"gflops": found.compute, "gbytes_per_second": found.memory}
        for workload in arguments.workloads:
            measured = measure(workload, threads, plan)
            for row in measured:
                if found is not None:
                    row["bound_ms"] = bound.milliseconds(WORKLOADS[workload], found)
            rows += measured
            texts = [table(measured), best_peer(measured), phases(measured)]
            print(*filter(None, texts), sep="\n", end="\n\n", flush=True)
    if arguments.json:
        versions = {row["peer"]: row.get("version") for row in rows}
        about = {
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "processor": _processor(),
            "cores": os.cpu_count(),
            "system": platform.platform(),
            "python": platform.python_version(),
            "versions": versions,
            "ceilings": ceilings,
        }
        arguments.json.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")
    if odd := differing(rows):
        sys.exit(odd)


if __name__ == "__main__":
    main()
