"""``python -m traingraph verify``: runs the test suite on a device and notes when it has passed.

Apple's GPU is what ``MLCDeviceType.ANY`` means only on a machine where that note stands.
"""

import json
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
    verdict: str


def _run(
    device: str, tests: pathlib.Path, folders: list[pathlib.Path], results: pathlib.Path
) -> int:
    """Runs the tests on the device, showing what pytest shows, and returns its exit status."""
    # As one word: pytest takes a word that names a folder for tests to load.
    command = [sys.executable, "-m", "pytest", "-q", f"--device={device}", f"--junitxml={results}"]
    # The option --device is declared in the tests' own folder, above the folders that are run.
    command.append(f"--confcutdir={tests}")
    return subprocess.run([*command, *map(str, folders)], check=False).returncode


def _report(device: str, results: pathlib.Path, status: int) -> Report:
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
        "device": _core.verification_note(device).removesuffix(" PASS\n"),
        "system": platform.platform(),
        "python": platform.python_version(),
        "tests": len(cases),
        "skipped": skipped,
        "failed": failed,
        "verdict": "PASS" if passed else "FAIL",
    }


def verify(device: str, tests: pathlib.Path, report: pathlib.Path) -> int:
    """Runs the suites in this folder of tests on a backend, writes a report, and notes a pass.

    Returns 0 when all passed. Errors: InvalidArgument where there are no tests; DeviceError.
    """
    folders = [tests / name for name in SUITES if (tests / name).is_dir()]
    if not folders:
        raise traingraph.InvalidArgument(
            f"[verify] expected the tests of the source repository in {tests} but got none"
        )
    note = pathlib.Path(_core.verification_file(device))
    note.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        results = pathlib.Path(folder) / "results.xml"
        found = _report(device, results, _run(device, tests, folders, results))
    report.write_text(json.dumps(found, indent=2) + "\n")
    if found["verdict"] == "PASS":
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(_core.verification_note(device))
    print(f"{found['verdict']}: {found['device']}, {found['tests']} tests; see {report}")
    return 0 if found["verdict"] == "PASS" else 1
