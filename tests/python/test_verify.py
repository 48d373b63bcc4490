"""``python -m traingraph verify``: what it runs, reports and notes."""

import json
import warnings
from pathlib import Path

import pytest

from traingraph import MLCDevice, MLCDeviceType, _core, _verify
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


def test_a_pass_is_reported_and_noted(suite: Path) -> None:
    status, report, noted = verify(suite, good=PASSES)
    assert (status, report["verdict"], noted) == (0, "PASS", True)
    assert (report["tests"], report["skipped"], report["failed"]) == (1, 0, [])
    assert report["backend"] == "cpu"


@pytest.mark.parametrize("tests", [{"good": PASSES, "bad": FAILS}, {"nothing": SKIPS}])
def test_what_is_no_pass_takes_the_note_away(suite: Path, tests: dict[str, str]) -> None:
    assert verify(suite, good=PASSES)[2]
    status, report, noted = verify(suite, **tests)
    assert (status, report["verdict"], noted) == (1, "FAIL", False)
    if "bad" in tests:
        assert [name.rpartition("::")[2] for name in report["failed"]] == ["test_number"]


def test_a_broken_test_file_is_no_pass(suite: Path) -> None:
    status, report, noted = verify(suite, good=PASSES, broken="import nothing_of_this_name\n")
    assert (status, report["verdict"], noted) == (1, "FAIL", False)


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
