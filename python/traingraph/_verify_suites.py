"""Runs files of tests for `verify`: each in a process of its own, which may abort or hang."""

import os
import pathlib
import sys
import tempfile
import time
from typing import TypedDict

from traingraph import _verify_record
from traingraph._verify_process import run

# How often a file is begun again behind a test that ended its process.
RESTARTS = 5
# What a report keeps of the output of a process that ended, and of a failure's message.
LAST_LINES, CHARACTERS = 40, 4000


class Failure(TypedDict):
    """A test that failed, or in which its process ended."""

    test: str
    message: str


class FileResult(TypedDict):
    """What became of the tests of a file."""

    file: str
    seconds: float
    passed: int
    skipped: int
    failures: list[Failure]


async def run_file(
    device: str, tests: pathlib.Path, file: pathlib.Path, limit: float
) -> FileResult:
    """Runs the tests of one file on the device."""
    # As one word: pytest takes a word that names a folder for tests to load. The option --device is
    # declared in the tests' own folder, above what is run. What frameworks print as they abort is
    # seen only where pytest does not capture it.
    command = [sys.executable, "-m", "pytest", "-q", "-s", f"--device={device}"]
    command += [f"--confcutdir={tests}", "-p", "traingraph._verify_record", str(file)]
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        record = pathlib.Path(folder) / "tests.jsonl"
        environment = os.environ | {_verify_record.FILE: str(record)}
        ended_in: dict[str, str] = {}
        for _ in range(1 + RESTARTS):
            status, ended, output = await run(command, environment, limit)
            rows = _verify_record.read(record)
            failed = any(row["outcome"] == "failed" for row in rows.values())
            if status in (0, 5) or (status == 1 and failed):  # as pytest ends after its tests
                break
            last = "\n".join([ended, *output.splitlines()[-LAST_LINES:]])
            begun = [test for test, row in rows.items() if row["outcome"] == "begun"]
            where = [test for test in begun if test not in ended_in]
            ended_in |= dict.fromkeys(where or [str(file)], last)
            if not where:
                break
        else:
            ended_in[str(file)] = f"given up after {1 + RESTARTS} processes that ended"
    outcomes = [row["outcome"] for row in rows.values()]
    messages = {test: row["message"] for test, row in rows.items() if row["outcome"] == "failed"}
    return {
        "file": file.relative_to(tests).as_posix(),
        "seconds": round(time.monotonic() - begin, 1),
        "passed": outcomes.count("passed"),
        "skipped": outcomes.count("skipped"),
        "failures": [
            {"test": test, "message": message[-CHARACTERS:]}
            for test, message in (messages | ended_in).items()
        ],
    }
