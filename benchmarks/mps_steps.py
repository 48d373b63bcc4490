"""python -m benchmarks.mps_steps: a step by ML Compute's graph, by MPS nodes and by MPS kernels."""

import argparse
import json
from pathlib import Path
from typing import Any

from .runner import Plan, measure
from .table import table
from .workloads import WORKLOADS

FORMS = ("ours", "mps:nodes", "mps:hand")


def ratios(rows: list[dict[str, Any]]) -> str:
    """Medians over ML Compute's, and by hand over nodes; nothing where a form has failed."""
    medians = {row["peer"]: row["wall_ms"]["median"] for row in rows if "wall_ms" in row}
    if len(medians) < len(FORMS):
        return ""
    graph, nodes, hand = (medians[form] for form in FORMS)
    return f"nodes / ML Compute {nodes / graph:.2f}, by hand / nodes {hand / nodes:.2f}"


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mps_steps", description=__doc__)
    parser.add_argument("--workloads", type=_names, default=["lenet_digits", "resnet18_cifar"])
    parser.add_argument("--threads", type=_names, default=["1", "2"])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.2, help="per form and round")
    parser.add_argument(
        "--realtime", action="store_true", help="timed steps before ordinary processes; root, Linux"
    )
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    for name in arguments.workloads:
        if name not in WORKLOADS:
            parser.error(f"expected workloads of {','.join(WORKLOADS)} but got {name}")
    plan = Plan(FORMS, arguments.rounds, arguments.seconds, arguments.realtime)
    rows: list[dict[str, Any]] = []
    for threads in map(int, arguments.threads):
        for workload in arguments.workloads:
            measured = measure(workload, threads, plan)
            rows += measured
            print(table(measured), ratios(measured), sep="\n", end="\n\n", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
