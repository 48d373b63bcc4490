"""``python -m traingraph verify``: what a backend passes on this machine, and the note of that.

First it compares kernels that no documentation settles, one process each, and notes those that are
right: the backend uses no other. Then it runs the test suites and notes when all have passed:
Apple's GPU is what ``MLCDeviceType.ANY`` means only then.
"""

import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import warnings
import xml.etree.ElementTree as Tree
from typing import TypedDict

import traingraph
from traingraph import _core

# What runs on every backend.
SUITES = ("reference", "layers", "optimizers", "train", "graph", "checkpoint", "mps")

_warned: set[str] = set()


def warn_unless_verified(backend: str) -> None:
    """Warns once per process and backend where it is not."""
    if backend in _warned:
        return
    _warned.add(backend)
    if not _core.is_verified(backend):
        warnings.warn(
            f"[device] the backend {backend} was never verified on Apple's hardware; on this "
            f"machine 'python -m traingraph verify --device {backend}' does that",
            RuntimeWarning,
            stacklevel=3,
        )


class Kernel(TypedDict):
    """One that no documentation settles, and how it compares with the ops that it stands for."""

    name: str
    verdict: str
    deviation: str


class Report(TypedDict):
    """What `verify` found, as it stands in its file."""

    traingraph: str
    backend: str
    device: str
    system: str
    python: str
    tests: int
    skipped: int
    failed: list[str]
    kernels: list[Kernel]
    verdict: str


def write_note(device: str, lines: list[str], folder: pathlib.Path | None = None) -> None:
    """Notes these for this version and device, or takes the note away where there are none.

    The folder is the one for caches, without another the user's.
    """
    note = pathlib.Path(_core.verification_file(device))
    if folder is not None:
        note = folder / "traingraph" / note.name
    note.unlink(missing_ok=True)
    if lines:
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text("\n".join([_core.verification_note(device), *lines]) + "\n")


def compare_kernel(device: str, script: pathlib.Path, name: str) -> Kernel:
    """The kernel in a process of its own, which it may end, and whose note lists it alone."""
    with tempfile.TemporaryDirectory() as folder:
        write_note(device, [name], pathlib.Path(folder))
        environment = os.environ | {"XDG_CACHE_HOME": folder, "TRAINGRAPH_VERBOSE": "dispatch"}
        done = subprocess.run(
            [sys.executable, script, name],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
    ending = (done.stderr.strip().splitlines() or [""])[-1]
    said = done.stdout.strip() or f"ended with {done.returncode} {ending}".strip()
    refusal = f": {name.split()[0]}: "
    refused = [line for line in done.stderr.splitlines() if " refuses " in line and refusal in line]
    if refused:
        said = refused[0].rpartition(refusal)[2]
    passed = done.returncode == 0 and not refused
    return {"name": name, "verdict": "PASS" if passed else "FAIL", "deviation": said}


def compare_kernels(device: str, tests: pathlib.Path) -> list[Kernel]:
    """Compares what the tests list of this device, and prints a table.

    Their script prints the names without an argument. With one it prints the largest deviation of a
    result as a share of its largest number, or what is wrong, and returns 0 where nothing is.
    """
    script = tests / "verify" / f"{device}.py"
    if not script.is_file():
        return []
    listed = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    names = listed.stdout.splitlines()
    width = max(map(len, names))
    print(f"{'kernel':{width}}  result  deviation")
    rows = []
    for name in names:
        row = compare_kernel(device, script, name)
        print(f"{name:{width}}  {row['verdict']:6}  {row['deviation']}", flush=True)
        rows.append(row)
    return rows


def _run(
    device: str, tests: pathlib.Path, folders: list[pathlib.Path], results: pathlib.Path
) -> int:
    """Runs the tests on the device, showing what pytest shows, and returns its exit status."""
    # As one word: pytest takes a word that names a folder for tests to load.
    command = [sys.executable, "-m", "pytest", "-q", f"--device={device}", f"--junitxml={results}"]
    # The option --device is declared in the tests' own folder, above the folders that are run.
    command.append(f"--confcutdir={tests}")
    return subprocess.run([*command, *map(str, folders)], check=False).returncode


def _report(device: str, results: pathlib.Path, status: int, kernels: list[Kernel]) -> Report:
    cases = list(Tree.parse(results).iter("testcase")) if results.exists() else []
    failed = [
        f"{case.get('classname')}::{case.get('name')}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]
    skipped = sum(case.find("skipped") is not None for case in cases)
    passed = status == 0 and not failed and len(cases) > skipped
    return {
        "traingraph": traingraph.__version__,
        "backend": device,
        "device": _core.verification_note(device),
        "system": platform.platform(),
        "python": platform.python_version(),
        "tests": len(cases),
        "skipped": skipped,
        "failed": failed,
        "kernels": kernels,
        "verdict": "PASS" if passed else "FAIL",
    }


def verify(device: str, tests: pathlib.Path, report: pathlib.Path) -> int:
    """Compares kernels, runs the suites in this folder of tests on a backend, writes a report, and
    notes what has passed.

    Returns 0 when all passed. Errors: InvalidArgument where there are no tests; DeviceError.
    """
    folders = [tests / name for name in SUITES if (tests / name).is_dir()]
    if not folders:
        raise traingraph.InvalidArgument(
            f"[verify] expected the tests of the source repository in {tests} but got none"
        )
    write_note(device, [])
    kernels = compare_kernels(device, tests)
    right = [row["name"] for row in kernels if row["verdict"] == "PASS"]
    write_note(device, right)
    with tempfile.TemporaryDirectory() as folder:
        results = pathlib.Path(folder) / "results.xml"
        found = _report(device, results, _run(device, tests, folders, results), kernels)
    report.write_text(json.dumps(found, indent=2) + "\n")
    if found["verdict"] == "PASS":
        write_note(device, ["PASS", *right])
    print(f"{found['verdict']}: {found['device']}, {found['tests']} tests; see {report}")
    return 0 if found["verdict"] == "PASS" else 1
