"""``python -m traingraph verify``: what a backend passes on this machine, and the note of that.

First it compares kernels that no documentation settles, one process each, and notes those that are
right: the backend uses no other. Then it runs the test suites, one process for each file and as
many at once as there are processors, and notes when all have passed: Apple's GPU is what
``MLCDeviceType.ANY`` means only then. The report is written after each file, in their order, and a
report that is not finished is gone on with.
"""

import asyncio
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings
from typing import TypedDict

import traingraph
from traingraph import _core
from traingraph._verify_machine import describe_device, describe_machine
from traingraph._verify_suites import FileResult, run_file

# What runs on every backend.
SUITES = ("reference", "layers", "optimizers", "train", "graph", "checkpoint", "mps")
# What one process may take.
SECONDS_EACH = 600.0

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
    machine: dict[str, str]
    error: str
    kernels: list[Kernel]
    files: list[FileResult]
    files_left: int
    verdict: str


def write_note(device: str, lines: list[str], folder: pathlib.Path | None = None) -> None:
    """Notes these for this version and device, or takes the note away where there are none.

    The folder is the one for caches, without another the user's.
    """
    file = pathlib.Path(_core.verification_file(device))
    if folder is not None:
        file = folder / "traingraph" / file.name
    file.unlink(missing_ok=True)
    if lines:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join([_core.verification_note(device), *lines]) + "\n")


def compare_kernel(device: str, script: pathlib.Path, name: str) -> Kernel:
    """The kernel in a process of its own, which it may end, and whose note lists it alone."""
    with tempfile.TemporaryDirectory() as folder:
        write_note(device, [name], pathlib.Path(folder))
        environment = os.environ | {"XDG_CACHE_HOME": folder, "TRAINGRAPH_VERBOSE": "dispatch"}
        command = [sys.executable, str(script), name]
        try:
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=SECONDS_EACH,
                check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            said = f"did not end within {SECONDS_EACH:g} s"
            return {"name": name, "verdict": "FAIL", "deviation": said}
    ending = (done.stderr.strip().splitlines() or [""])[-1]
    said = done.stdout.strip() or f"ended with {done.returncode} {ending}".strip()
    refusal = f": {name.split()[0]}: "
    refused = [line for line in done.stderr.splitlines() if " refuses " in line and refusal in line]
    if refused:
        said = refused[0].rpartition(refusal)[2]
    passed = done.returncode == 0 and not refused
    return {"name": name, "verdict": "PASS" if passed else "FAIL", "deviation": said}


def save(found: Report, report: pathlib.Path) -> None:
    """Writes the report, of which there is the old one or the new one at any time."""
    partial = report.with_name(f".{report.name}.partial")
    partial.write_text(json.dumps(found, indent=2) + "\n")
    partial.replace(report)


def compare_kernels(tests: pathlib.Path, found: Report, report: pathlib.Path) -> None:
    """Compares what the tests list of this device and the report lacks, and prints a table.

    Their script prints the names without an argument. With one it prints the largest deviation of a
    result as a share of its largest number, or what is wrong, and returns 0 where nothing is.
    """
    device, rows = found["backend"], found["kernels"]
    script = tests / "verify" / f"{device}.py"
    if not script.is_file():
        return
    try:
        listed = subprocess.run(
            [sys.executable, script], capture_output=True, text=True, timeout=SECONDS_EACH,
            check=False,
        )  # fmt: skip
        said = listed.stderr[-4000:] or f"ended with {listed.returncode}"
        refused = listed.returncode != 0
    except subprocess.TimeoutExpired:
        said, refused = f"did not end within {SECONDS_EACH:g} s", True
    if refused:
        rows[:] = [{"name": script.name, "verdict": "FAIL", "deviation": said}]
        return
    names = listed.stdout.splitlines()
    width = max(map(len, names))
    print(f"{'kernel':{width}}  result  deviation")
    done = {row["name"] for row in rows}
    for name in names:
        if name in done:
            continue
        row = compare_kernel(device, script, name)
        print(f"{name:{width}}  {row['verdict']:6}  {row['deviation']}", flush=True)
        rows.append(row)
        save(found, report)


def begin(device: str, tests: pathlib.Path, report: pathlib.Path) -> Report:
    """The report in this file, if it is about this machine and not finished, or a new one."""
    note, error = describe_device(device)
    made: Report = {
        "traingraph": traingraph.__version__,
        "backend": device,
        "device": note,
        "machine": describe_machine(),
        "error": error,
        "kernels": [],
        "files": [],
        "files_left": len(files_of(tests)),
        "verdict": "FAIL" if error else "UNFINISHED",
    }
    about = ("traingraph", "backend", "device", "machine", "error", "verdict")
    try:
        old: Report = json.loads(report.read_text())
        if made["verdict"] == "UNFINISHED" and all(
            dict(old)[key] == dict(made)[key] for key in about
        ):
            return old
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return made


def files_of(tests: pathlib.Path) -> list[str]:
    """The files of the suites, in the order in which they run."""
    files = [file for name in SUITES for file in sorted((tests / name).rglob("test_*.py"))]
    return [file.relative_to(tests).as_posix() for file in files]


def files_at_once(device: str) -> int:
    """One on a GPU: an error there may end work of other processes too, whose files would fail."""
    return 1 if device == "metal" and sys.platform == "darwin" else os.cpu_count() or 1


async def run_suites(tests: pathlib.Path, found: Report, report: pathlib.Path) -> None:
    """Runs the files that the report lacks, and writes it after each, with the files in order."""
    device, files = found["backend"], files_of(tests)
    done = {row["file"] for row in found["files"]}
    free = asyncio.Semaphore(files_at_once(device))

    async def run(file: str) -> None:
        async with free:
            row = await run_file(device, tests, tests / file, SECONDS_EACH)
            found["files"].append(row)
            found["files"].sort(key=lambda row: files.index(row["file"]))
            found["files_left"] = len(files) - len(found["files"])
            save(found, report)
            counts = f"{row['passed']} passed, {row['skipped']} skipped"
            print(
                f"{file}: {counts}, {len(row['failures'])} failed, {row['seconds']} s", flush=True
            )

    await asyncio.gather(*(run(file) for file in files if file not in done))


def verify(device: str, tests: pathlib.Path, report: pathlib.Path) -> int:
    """Compares kernels, runs the suites in this folder of tests on a backend, writes a report, and
    notes what has passed.

    Returns 0 when all passed. Errors: InvalidArgument where there are no tests.
    """
    if not any((tests / name).is_dir() for name in SUITES):
        raise traingraph.InvalidArgument(
            f"[verify] expected the tests of the source repository in {tests} but got none"
        )
    found = begin(device, tests, report)
    save(found, report)
    note = found["device"]
    if not found["error"]:
        write_note(device, [])
        if not found["files"]:
            compare_kernels(tests, found, report)
        right = [row["name"] for row in found["kernels"] if row["verdict"] == "PASS"]
        write_note(device, right)
        asyncio.run(run_suites(tests, found, report))
        failures = sum(len(row["failures"]) for row in found["files"])
        passed = sum(row["passed"] for row in found["files"])
        found["verdict"] = "PASS" if passed and not failures else "FAIL"
        print(f"{passed} tests passed, {failures} failed")
        if found["verdict"] == "PASS":
            write_note(device, ["PASS", *right])
    save(found, report)
    print(f"{found['verdict']}: {note or found['error']}; the report is {report.resolve()}")
    return 0 if found["verdict"] == "PASS" else 1
