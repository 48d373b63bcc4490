"""Starts the ranks of a program, as torchrun would, or by an mpirun."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).parent / "rank_program.py"
LIMIT = 120  # seconds of a program
LAUNCHERS = ("RANK", "WORLD_SIZE", "MASTER_", "OMPI_", "PMI", "SLURM_", "TORCHELASTIC")
Result = dict[str, Any]


def clean() -> dict[str, str]:
    """This process's variables but for those of a launcher."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS)}
    return {**kept, "OMP_NUM_THREADS": "1"}


def command(scenario: str, options: Result) -> list[str]:
    return [sys.executable, str(PROGRAM), scenario, json.dumps(options)]


def run_alone(
    scenario: str, options: Result, variables: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(scenario, options),
        env={**clean(), **variables},
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )


def one(scenario: str, **options: Any) -> Result:
    """The rank that others are compared with."""
    done = run_alone(scenario, options, {})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def printed(text: str, count: int) -> list[Result]:
    """By rank, of a launcher's output, which may join the lines of its ranks."""
    starts = [found.start() for found in re.finditer(r'\{"rank"', text)]
    results = [json.JSONDecoder().raw_decode(text, start)[0] for start in starts]
    assert len(results) == count, text
    return sorted(results, key=lambda result: result["rank"])


def started(
    scenario: str,
    count: int,
    options: Result,
    of_last: dict[str, str] | None = None,
    within: tuple[str, ...] = (),
    stopped: int | None = None,
    **variables: str,
) -> list[Result]:
    """What each rank has printed, with `status` and `output` of those that print nothing.

    `of_last`: variables of the last rank alone. `within`: a command that runs each rank's.
    `stopped`: the rank that stops itself, and is killed when the others have ended.
    """
    # Kept while they run, so that the system gives it to nobody else: ranks of another test would
    # meet these. Rank 0 may listen there all the same.
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("127.0.0.1", 0))
    port = kept.getsockname()[1]
    shared = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = [
        subprocess.Popen(
            [*within, *command(scenario, options)],
            env={
                **clean(),
                **shared,
                "RANK": str(rank),
                **variables,
                **((of_last or {}) if rank == count - 1 else {}),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]
    results: dict[int, Result] = {}
    try:
        for number in sorted(range(count), key=lambda number: number == stopped):
            rank = ranks[number]
            if number == stopped:
                rank.kill()
            out, err = rank.communicate(timeout=LIMIT)
            printed = json.loads(out) if out.startswith("{") else {"output": err}
            results[number] = {"status": rank.returncode, **printed}
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()
        kept.close()
    return [results[number] for number in range(count)]


def ranks(scenario: str, count: int = 2, **options: Any) -> list[Result]:
    """The same, once more where another program has taken the port in between."""
    results = started(scenario, count, options)
    if any("listen at" in result.get("output", "") for result in results):
        results = started(scenario, count, options)
    assert all(result["status"] == 0 for result in results), results
    return results
