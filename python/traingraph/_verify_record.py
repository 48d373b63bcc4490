"""A plugin of pytest that `verify` loads: each test writes when it begins and how it ends.

A test that ends its process, or never ends, leaves the first line alone. Tests that have a line are
not run again, so a second process goes on behind it.
"""

import json
import os
import pathlib
import signal
from typing import Any

# The variable that names the file.
FILE = "TRAINGRAPH_VERIFY_RECORD"


def read(file: pathlib.Path) -> dict[str, dict[str, str]]:
    """The last line of each test; a failure outweighs what a later phase of it says."""
    tests: dict[str, dict[str, str]] = {}
    for line in file.read_text().splitlines() if file.exists() else []:
        row = json.loads(line)
        if tests.get(row["test"], row)["outcome"] != "failed":
            tests[row["test"]] = row
    return tests


def _write(test: str, outcome: str, message: str = "") -> None:
    with open(os.environ[FILE], "a", encoding="utf-8") as file:
        print(json.dumps({"test": test, "outcome": outcome, "message": message}), file=file)


def pytest_configure() -> None:
    """Ctrl-C interrupts tests where `verify` ignores it, as a job in a shell's background does."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    begun = read(pathlib.Path(os.environ[FILE]))
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in begun])
    items[:] = [item for item in items if item.nodeid not in begun]


def pytest_collectreport(report: Any) -> None:
    if report.failed:
        _write(report.nodeid, "failed", report.longreprtext)


def pytest_runtest_logstart(nodeid: str) -> None:
    _write(nodeid, "begun")


def pytest_runtest_logreport(report: Any) -> None:
    if report.when == "call" or not report.passed:
        _write(report.nodeid, report.outcome, report.longreprtext if report.failed else "")
