"""Formatting, lint and types of the whole repository, by the tools' own configuration."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import traingraph

ROOT = Path(__file__).parent.parent
CXX = [
    path
    for folder in ("cpp", "python/bindings", "tests/apple", "tests/cpp", "examples/embed")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".cpp", ".h", ".cu", ".mm")
]


def tool(name):
    # Beside the interpreter: a virtual environment need not be activated.
    found = shutil.which(name, path=Path(sys.executable).parent) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed; the extra 'test' brings it")
    return found


def check(*command, folder=ROOT):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


def test_there_are_sources():
    assert len(CXX) > 100


def test_cxx_is_formatted():
    check(tool("clang-format"), "--dry-run", "-Werror", *map(os.fspath, CXX))


def test_python_is_formatted():
    check(tool("ruff"), "format", "--check", "--no-cache", ".")


def test_python_has_no_lint():
    check(tool("ruff"), "check", "--no-cache", ".")


def test_types_are_strict(tmp_path):
    """Of the sources, with stubs of the extension that is installed."""
    package = tmp_path / "traingraph"
    shutil.copytree(ROOT / "python/traingraph", package)
    make = ROOT / "python/bindings/make_stub.py"
    check(sys.executable, make, traingraph._core.__file__, package)
    mypy = [tool("mypy"), "--config-file", ROOT / "pyproject.toml", "--cache-dir", os.devnull]
    check(*mypy, folder=tmp_path)
