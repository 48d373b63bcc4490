"""``python -m traingraph``."""

import json
import re
import subprocess
import sys

import pytest

import traingraph
from traingraph.__main__ import main


def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    found = capsys.readouterr().out
    assert traingraph.__version__ in found
    assert re.search(r"^reference_loops   (none|cpu: convolution.*)$", found, re.MULTILINE)


def test_info_as_json() -> None:
    command = [sys.executable, "-m", "traingraph", "info", "--json"]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    information = json.loads(output)
    assert information["traingraph"] == traingraph.__version__
    assert {"cpu", "reference"} <= set(information["backends"])
    # A build without oneDNN has no convolutions of its own, and no reorders.
    looped = [
        "convolution", "convolution_gradient_data", "convolution_gradient_weights", "reorder"
    ]  # fmt: skip
    expected = looped if information["onednn"] == "none" else []
    assert information["reference_loops"].get("cpu", []) == expected


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "--cmake-dir" in capsys.readouterr().out
