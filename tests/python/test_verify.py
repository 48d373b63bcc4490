"""``python -m traingraph verify``: what it runs, reports and notes."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from traingraph import MLCDevice, MLCDeviceType, _core, _verify, _verify_machine
from traingraph.__main__ import main

OPTION = """
def pytest_addoption(parser):
    parser.addoption("--device")
"""
PASSES = """
def test_device(request):
    assert request.config.getoption("--device") == "cpu"
"""
FAILS = """
def test_number():
    assert 1 == 2
"""
SKIPS = """
import pytest

def test_nothing():
    pytest.skip("nothing here")
"""


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of tests, and a cache folder that is this test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "tests"
    (folder / "layers").mkdir(parents=True)
    (folder / "conftest.py").write_text(OPTION)
    return folder


def verify(suite: Path, **tests: str) -> tuple[int, dict[str, object], bool]:
    """The exit status, the report, and whether a pass is noted."""
    for old in (suite / "layers").glob("test_*.py"):
        old.unlink()
    for name, text in tests.items():
        (suite / "layers" / f"test_{name}.py").write_text(text)
    report = suite.parent / "report.json"
    command = ["verify", "--device", "cpu", "--tests", str(suite), "--report", str(report)]
    status = main(command)
    return status, json.loads(report.read_text()), _core.is_verified("cpu")


def failures(report: dict[str, object]) -> list[dict[str, str]]:
    return [failure for row in report["files"] for failure in row["failures"]]  # type: ignore


def test_a_pass_is_reported_and_noted(suite: Path) -> None:
    status, report, noted = verify(suite, good=PASSES)
    assert (status, report["verdict"], noted) == (0, "PASS", True)
    assert report["files_left"] == 0
    (row,) = report["files"]  # type: ignore
    assert row["file"] == "layers/test_good.py"
    assert (row["passed"], row["skipped"], row["failures"]) == (1, 0, [])
    assert (report["backend"], report["error"]) == ("cpu", "")
    assert "python" in report["machine"]  # type: ignore


@pytest.mark.parametrize("tests", [{"good": PASSES, "bad": FAILS}, {"nothing": SKIPS}])
def test_what_is_no_pass_takes_the_note_away(suite: Path, tests: dict[str, str]) -> None:
    assert verify(suite, good=PASSES)[2]
    status, report, noted = verify(suite, **tests)
    assert (status, report["verdict"], noted) == (1, "FAIL", False)
    if "bad" in tests:
        (failure,) = failures(report)
        assert failure["test"].endswith("::test_number")
        assert "assert 1 == 2" in failure["message"]


def test_a_broken_test_file_is_no_pass(suite: Path) -> None:
    status, report, noted = verify(suite, good=PASSES, broken="import nothing_of_this_name\n")
    assert (status, report["verdict"], noted) == (1, "FAIL", False)
    assert any("nothing_of_this_name" in failure["message"] for failure in failures(report))


ENDS = """
import os

def test_before():
    pass

def test_ends():
    os.write(2, b"a framework's last words\\n")
    os.abort()

def test_behind():
    pass
"""
HANGS = """
import time

def test_hangs():
    time.sleep(1000)

def test_behind():
    pass
"""


def test_a_test_that_ends_its_process_is_reported_and_the_next_ones_run(suite: Path) -> None:
    status, report, noted = verify(suite, ends=ENDS, good=PASSES)
    assert (status, report["verdict"], noted) == (1, "FAIL", False)
    assert [row["passed"] for row in report["files"]] == [2, 1]  # type: ignore
    (failure,) = failures(report)
    assert failure["test"].endswith("::test_ends")
    assert failure["message"].startswith("ended by SIGABRT\n")
    assert "a framework's last words" in failure["message"]


def test_a_test_that_hangs_is_reported_and_the_next_ones_run(
    suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_verify, "SECONDS_EACH", 10)
    status, report, _ = verify(suite, hangs=HANGS)
    (failure,) = failures(report)
    assert failure["test"].endswith("::test_hangs")
    assert failure["message"].startswith("did not end within 10 s")
    assert (status, report["files"][0]["passed"]) == (1, 1)  # type: ignore


def test_a_file_whose_tests_all_end_it_is_given_up(suite: Path) -> None:
    text = "import os\n\n" + "".join(f"def test_{k}():\n    os.abort()\n\n" for k in range(8))
    _, report, _ = verify(suite, ends=text)
    *tests, last = failures(report)
    assert len(tests) == 6
    assert last["message"] == "given up after 6 processes that ended"


def test_without_pytest_the_report_says_so(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = suite.parent / "site"
    site.mkdir()
    (site / "pytest.py").write_text("import sys\nsys.exit('no pytest here')\n")
    monkeypatch.setenv("PYTHONPATH", f"{site}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    status, report, _ = verify(suite, good=PASSES)
    (failure,) = failures(report)
    assert (status, failure["test"]) == (1, str(suite / "layers/test_good.py"))
    assert failure["message"] == "ended with exit status 1\nno pytest here"


def test_a_comparison_that_is_cut_short_is_gone_on_with(
    suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare, names = _verify.compare_kernel, []

    def compare_kernel(device: str, script: Path, name: str) -> object:
        names.append(name)
        if names == ["Right", "Wrong one"]:
            raise KeyboardInterrupt
        return compare(device, script, name)

    monkeypatch.setattr(_verify, "compare_kernel", compare_kernel)
    (suite / "verify").mkdir()
    (suite / "verify" / "cpu.py").write_text(KERNELS)
    with pytest.raises(KeyboardInterrupt):
        verify(suite, good=PASSES)
    unfinished = json.loads((suite.parent / "report.json").read_text())
    assert (unfinished["verdict"], unfinished["files_left"]) == ("UNFINISHED", 1)
    assert [row["name"] for row in unfinished["kernels"]] == ["Right"]
    assert verify(suite, good=PASSES)[0] == 0
    assert names == ["Right", "Wrong one", "Wrong one", "Ends", "Composed"]


def test_a_report_that_is_not_finished_is_gone_on_with(
    suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, files = _verify.run_file, []

    def run_file(device: str, tests: Path, file: Path, limit: float) -> object:
        files.append(file.name)
        if files == ["test_first.py", "test_second.py"]:
            raise KeyboardInterrupt
        return run(device, tests, file, limit)

    monkeypatch.setattr(_verify, "run_file", run_file)
    monkeypatch.setattr(_verify, "files_at_once", lambda device: 1)
    for name in "first", "second":
        (suite / "layers" / f"test_{name}.py").write_text(PASSES)
    report = suite.parent / "report.json"
    command = ["verify", "--device", "cpu", "--tests", str(suite), "--report", str(report)]
    with pytest.raises(KeyboardInterrupt):
        main(command)
    unfinished = json.loads(report.read_text())
    assert (unfinished["verdict"], unfinished["files_left"]) == ("UNFINISHED", 1)
    assert main(command) == 0
    assert files == ["test_first.py", "test_second.py", "test_second.py"]
    assert main(command) == 0  # finished: begun anew
    assert files[3:] == ["test_first.py", "test_second.py"]


# One that passes only beside another, which is there when it writes the file of this name.
WAITS = """
import pathlib, time

def test_waits():
    there = pathlib.Path({there!r})
    for _ in range(600):
        if there.exists():
            return
        time.sleep(0.1)
    raise AssertionError
"""
WRITES = """
import pathlib

def test_writes():
    pathlib.Path({there!r}).touch()
"""


def test_files_run_beside_each_other_and_are_reported_in_their_order(
    suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_verify, "files_at_once", lambda device: 2)
    there = str(suite / "there")
    status, report, _ = verify(suite, a=WAITS.format(there=there), b=WRITES.format(there=there))
    files = [row["file"] for row in report["files"]]  # type: ignore
    assert (status, files) == (0, ["layers/test_a.py", "layers/test_b.py"])


def test_a_gpu_runs_one_file_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert [_verify.files_at_once(device) for device in ("metal", "bnns")] == [1, 8]


# Writes its process, and hangs.
SAYS_WHO = """
import os, pathlib, time

def test_hangs():
    pathlib.Path({there!r}).write_text(str(os.getpid()))
    time.sleep(1000)
"""


def test_an_interrupt_ends_what_runs(suite: Path) -> None:
    there = suite / "there"
    (suite / "layers/test_hangs.py").write_text(SAYS_WHO.format(there=str(there)))
    report = suite.parent / "report.json"
    command = ["-m", "traingraph", "verify", "--device", "cpu", "--tests", str(suite)]
    process = subprocess.Popen([sys.executable, *command, "--report", str(report)])
    while not (there.exists() and there.read_text()):
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) != 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(there.read_text()), 0)
    assert json.loads(report.read_text())["files_left"] == 1


INTERRUPTS = """
import signal

def test_ctrl_c():
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""


def test_tests_are_interrupted_where_verify_is_not(suite: Path) -> None:
    kept = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as of a job in a shell's background
    try:
        assert verify(suite, some=INTERRUPTS)[0] == 0
    finally:
        signal.signal(signal.SIGINT, kept)


def test_a_list_of_kernels_that_hangs_is_reported(
    suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_verify, "SECONDS_EACH", 10)
    (suite / "verify").mkdir()
    (suite / "verify" / "cpu.py").write_text("import time\ntime.sleep(99)\n")
    _, report, _ = verify(suite, good=PASSES)
    found = {"name": "cpu.py", "verdict": "FAIL", "deviation": "did not end within 10 s"}
    assert report["kernels"] == [found]


def test_without_the_device_there_is_a_report_of_why(suite: Path) -> None:
    report = suite.parent / "report.json"
    command = ["verify", "--device", "nothing", "--tests", str(suite), "--report", str(report)]
    assert main(command) == 1
    found = json.loads(report.read_text())
    assert found["verdict"] == "FAIL"
    assert "'nothing'" in found["error"]


def test_a_device_that_ends_the_process_is_reported(
    suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_verify_machine, "MAKES_THE_DEVICE", "import os; os.abort()")
    assert _verify_machine.describe_device("cpu") == ("", "ended by SIGABRT: ")
    monkeypatch.setattr(_verify_machine, "MAKES_THE_DEVICE", "import time; time.sleep(99)")
    monkeypatch.setattr(_verify_machine, "SECONDS", 1)
    assert _verify_machine.describe_device("cpu") == ("", "did not end within 1 s: ")


KERNELS = """
import os, sys
if len(sys.argv) == 1:
    print("Right", "Wrong one", "Ends", "Composed", sep="\\n")
elif sys.argv[1] == "Composed":
    print("0.0")
    print("traingraph: dispatch: cpu refuses named_kernel: mps: Composed: no", file=sys.stderr)
elif sys.argv[1] == "Ends":
    os.abort()
else:
    print("1e-07" if sys.argv[1] == "Right" else "0.5")
    sys.exit(sys.argv[1] != "Right")
"""


@pytest.mark.parametrize(("suites", "verdict"), [(PASSES, "PASS"), (FAILS, "FAIL")])
def test_kernels_are_noted_one_by_one(
    suite: Path, suites: str, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the suites say: a kernel is compared by itself, and may end its process."""
    (suite / "verify").mkdir()
    (suite / "verify" / "cpu.py").write_text(KERNELS)
    _, report, noted = verify(suite, some=suites)
    assert (report["verdict"], noted) == (verdict, verdict == "PASS")
    found = [(row["verdict"], row["deviation"]) for row in report["kernels"]]  # type: ignore
    assert found == [("PASS", "1e-07"), ("FAIL", "0.5"), ("FAIL", "ended with -6"), ("FAIL", "no")]
    lines = Path(_core.verification_file("cpu")).read_text().splitlines()
    assert lines[1:] == (["PASS", "Right"] if verdict == "PASS" else ["Right"])
    table = capsys.readouterr().out.splitlines()
    assert [line.split() for line in table[:3]] == [
        ["kernel", "result", "deviation"],
        ["Right", "PASS", "1e-07"],
        ["Wrong", "one", "FAIL", "0.5"],
    ]


def test_without_tests_it_says_where_they_should_be(
    suite: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = suite.parent / "empty"
    assert main(["verify", "--device", "cpu", "--tests", str(empty)]) == 2
    assert str(empty) in capsys.readouterr().err


def test_a_backend_warns_once_unless_a_pass_is_noted(
    suite: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_verify, "_warned", set())
    with pytest.warns(RuntimeWarning, match="verify --device cpu"):
        _verify.warn_unless_verified("cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _verify.warn_unless_verified("cpu")
        verify(suite, good=PASSES)
        monkeypatch.setattr(_verify, "_warned", set())
        _verify.warn_unless_verified("cpu")


def test_any_stays_on_the_cpu_where_there_is_no_apple_gpu(suite: Path) -> None:
    if "metal" in _core.backends():
        pytest.skip("this build has Apple's backend")
    verify(suite, good=PASSES)
    assert MLCDevice(type=MLCDeviceType.ANY).actual_device_type == MLCDeviceType.CPU
