"""python -m benchmarks.mps_steps: a step by ML Compute's graph, by MPS nodes and by MPS kernels."""

import json
import sys
from typing import Any

from .arguments import parsed, parser_of
from .runner import Plan, differing, measure
from .table import table

FORMS = ("ours", "mps:nodes", "mps:hand")


def ratios(rows: list[dict[str, Any]]) -> str:
    """Medians over ML Compute's, and by hand over nodes; nothing where a form has failed."""
    medians = {row["peer"]: row["wall_ms"]["median"] for row in rows if "wall_ms" in row}
    if len(medians) < len(FORMS):
        return ""
    graph, nodes, hand = (medians[form] for form in FORMS)
    return f"nodes / ML Compute {nodes / graph:.2f}, by hand / nodes {hand / nodes:.2f}"


def main() -> None:
    arguments = parsed(
        parser_of(
            "python -m benchmarks.mps_steps", __doc__, ["lenet_digits", "resnet18_cifar"], "form"
        )
    )
    plan = Plan(FORMS, arguments.rounds, arguments.seconds, arguments.realtime)
    rows: list[dict[str, Any]] = []
    for threads in map(int, arguments.threads):
        for workload in arguments.workloads:
            measured = measure(workload, threads, plan)
            rows += measured
            print(table(measured), ratios(measured), sep="\n", end="\n\n", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    if odd := differing(rows):
        sys.exit(odd)


if __name__ == "__main__":
    main()
