"""What the core does for a device with memory of its own, on a double of one.

The double is a plugin over the reference loops whose addresses the host cannot use: whatever
touches them without the backend crashes. Suites run on it in a process of their own.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import traingraph

ROOT = Path(__file__).parents[2]
# What counts a GPU's kernels, or says what NVIDIA's driver says.
OF_A_GPU = "not one_kernel and not recorded_step and not out_of_memory"


def link(source: str, target: str) -> None:
    if Path(target).exists():  # both folders are one
        return
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy(source, target)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package whose GPU is the double; the folder it is in."""
    compiled = Path(traingraph._core.__file__).parent
    if not (compiled / "lib" / "libtraingraph_double.so").exists():
        pytest.skip("built without TRAINGRAPH_TESTING")
    folder = tmp_path_factory.mktemp("double")
    for source in (Path(traingraph.__file__).parent, compiled):
        shutil.copytree(source, folder / "traingraph", copy_function=link, dirs_exist_ok=True)
    libraries = folder / "traingraph" / "lib"
    (libraries / "libtraingraph_cuda.so").unlink(missing_ok=True)
    (libraries / "libtraingraph_double.so").rename(libraries / "libtraingraph_cuda.so")
    return folder


@pytest.mark.parametrize(
    "suites",
    [
        ["tests/graph"],
        ["tests/mps"],
        ["tests/train", "tests/checkpoint"],
        ["tests/runtime/test_cuda.py", "tests/passes/test_memory_plan.py", "-k", OF_A_GPU],
    ],
    ids=lambda suites: suites[0],
)
def test_suites_pass_on_it(package: Path, suites: list[str]) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--device",
            "cuda",
            "-p",
            "no:cacheprovider",
            *suites,
        ],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert " passed" in done.stdout
