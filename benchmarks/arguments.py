"""What the programs that measure round by round are told on the command line."""

import argparse
from pathlib import Path

from .workloads import WORKLOADS


def names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def parser_of(
    program: str, description: str | None, workloads: list[str], what: str
) -> argparse.ArgumentParser:
    """`what` is what a round has a share of --seconds for."""
    parser = argparse.ArgumentParser(prog=program, description=description)
    parser.add_argument("--workloads", type=names, default=workloads, help=",".join(WORKLOADS))
    parser.add_argument("--threads", type=names, default=["1", "2"])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.2, help=f"per {what} and round")
    parser.add_argument(
        "--realtime", action="store_true", help="timed steps before ordinary processes; root, Linux"
    )
    parser.add_argument("--json", type=Path)
    return parser


def parsed(parser: argparse.ArgumentParser) -> argparse.Namespace:
    arguments = parser.parse_args()
    for name in arguments.workloads:
        if name not in WORKLOADS:
            parser.error(f"expected workloads of {','.join(WORKLOADS)} but got {name}")
    return arguments
