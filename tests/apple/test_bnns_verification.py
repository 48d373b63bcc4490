"""Which backend the CPU of a Mac is, by what `python -m traingraph verify --device bnns` finds.

The double of Accelerate reads Apple's pages as the backend does, or otherwise; the suites of
convolution and pooling, which `verify` runs, tell the two apart.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from traingraph import MLCDevice, MLCDeviceType, _core
from traingraph.__main__ import main

pytestmark = [
    pytest.mark.skipif("bnns" not in _core.backends(), reason="built without the BNNS backend"),
    pytest.mark.skipif(sys.platform == "darwin", reason="asks the double of Accelerate"),
]

TESTS = Path(__file__).parents[1]
SUITES = ("test_convolution.py", "test_pooling.py")
Verify = Callable[[str], str]


def backend_of(device: MLCDevice) -> str:
    return repr(device).removeprefix("<MLCDevice ").partition(":")[0]


@pytest.fixture
def verify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Verify:
    """Runs the command where Accelerate reads its pages by a word, and returns the verdict."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # The rows about the device alone, up to the first failure.
    monkeypatch.setenv("PYTEST_ADDOPTS", "--only-device=bnns --exitfirst")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS), os.environ["PYTHONPATH"]]))
    suites = tmp_path / "tests" / "layers"
    suites.mkdir(parents=True)
    shutil.copy(TESTS / "conftest.py", suites.parent)
    for name in SUITES:
        shutil.copy(TESTS / "layers" / name, suites)
    report = tmp_path / "report.json"
    command = ["verify", "--device", "bnns", "--tests", str(suites.parent), "--report", str(report)]

    def verdict(word: str) -> str:
        monkeypatch.setenv("TRAINGRAPH_ACCELERATE_READS", word)
        status = main(command)
        found = json.loads(report.read_text())
        assert (status == 0) == (found["verdict"] == "PASS")
        assert any(row["passed"] or row["failures"] for row in found["files"])
        return str(found["verdict"])

    return verdict


@pytest.mark.parametrize(
    "word", ["copies", "null", "padding", "groups", "dilation", "averages", "norm"]
)
def test_where_pages_mean_something_else_the_cpu_stays_portable(word: str, verify: Verify) -> None:
    assert verify(word) == "FAIL"
    assert backend_of(MLCDevice.cpu()) == "cpu"


def test_the_cpu_is_accelerate_once_that_is_verified(verify: Verify) -> None:
    assert backend_of(MLCDevice.cpu()) == "cpu"
    # Memory for gradients is cleared before each call, so that either reading is right.
    for word in ("", "adds"):
        assert verify(word) == "PASS"
    assert backend_of(MLCDevice.cpu()) == "bnns"
    assert MLCDevice.cpu() == MLCDevice(type="cpu") == MLCDevice(type=MLCDeviceType.ANY)
    assert _core.stand_ins("MLCConvolutionLayer", "float32", on="cpu")["looped"] == []
    # A failure takes it back.
    assert verify("padding") == "FAIL"
    assert backend_of(MLCDevice.cpu()) == "cpu"
