"""The double of Accelerate catches each wrong call; it stands in where the framework is missing."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "accelerate"
CASE = re.compile(r'^\{"(\w+)",\s*"([^"]+)"', re.MULTILINE)
MISUSES = dict(CASE.findall((FOLDER / "misuses.def").read_text()))
# require(…, call, "sentence") and its like; a sentence may stand on a line of its own.
RULE = re.compile(r'require\w*\((?:[^;]|\n)*?"([^"]+)"\)')


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that makes the wrong calls, under the sanitizers."""
    if shutil.which("c++") is None:
        pytest.skip("there is no C++ compiler")
    built = tmp_path_factory.mktemp("accelerate") / "misuses"
    flags = ["-std=c++20", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    command = ["c++", *flags, "-I", FOLDER / "include", *sorted(FOLDER.glob("*.cpp")), "-o", built]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return built


def run(program: Path, name: str) -> subprocess.CompletedProcess[str]:
    # Filters of wrong calls are never destroyed; abort() is what the test looks for.
    options = {"ASAN_OPTIONS": "detect_leaks=0:handle_abort=0"}
    return subprocess.run([program, name], capture_output=True, text=True, env=os.environ | options)


def test_the_list_is_read_whole(program: Path) -> None:
    printed = run(program, "list").stdout.splitlines()
    assert printed == [f"{name}: {sentence}" for name, sentence in MISUSES.items()]


@pytest.mark.parametrize("name", MISUSES)
def test_a_wrong_call_ends_the_process(program: Path, name: str) -> None:
    done = run(program, name)
    assert done.returncode == -6, (done.returncode, done.stderr)
    assert done.stderr.endswith(f": {MISUSES[name]}\n")


def test_a_program_without_a_wrong_call_ends_well(program: Path) -> None:
    done = run(program, "nothing")
    assert (done.returncode, done.stderr) == (0, "")


def test_every_rule_has_a_wrong_call() -> None:
    sources = [*FOLDER.glob("*.cpp"), *FOLDER.glob("*.h")]
    rules = {
        sentence
        for path in sources
        if path.name != "misuses.cpp"
        for sentence in RULE.findall(path.read_text())
    }
    assert len(rules) > 30
    assert rules == set(MISUSES.values())
