"""Builds the doubles of Apple's frameworks and the program of their checks, once for all tests."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from objective_c import Runtime

HERE = Path(__file__).resolve().parent
COMPILER = "clang++-19"


def compile_options(folder: Path) -> list[str | Path]:
    """What Objective-C++ is compiled with, against the doubles built in this folder."""
    include = next(Path("/usr/lib/gcc").glob("*/12/include"))
    folders = (HERE / "include", HERE / "shim", folder / "generated" / "include", HERE / "doubles")
    return [
        "-std=c++20",
        "-fobjc-runtime=gcc",
        "-fconstant-string-class=NSConstantString",
        "-fblocks",
        "-idirafter",
        include,
        *(f"-I{path}" for path in folders),
    ]


def build(folder: Path, *options: str) -> Path:
    """The folder, with the doubles and the checks built in it."""
    if shutil.which(COMPILER) is None:
        pytest.skip(f"{COMPILER} is not installed: Apple's backends are built on Linux by it alone")
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    command = ["cmake", "-S", HERE, "-B", folder, *launcher]
    for step in ([*command, *options], ["cmake", "--build", folder, "-j2"]):
        done = subprocess.run(step, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return folder


@pytest.fixture(scope="session")
def doubles() -> Path:
    """The folder in which libapple_doubles.so and apple_checks are."""
    folder = os.environ.get("TRAINGRAPH_APPLE_CHECKS")
    sanitize = os.environ.get("TRAINGRAPH_APPLE_SANITIZE", "")
    flags = f"-fsanitize={sanitize} -fno-omit-frame-pointer" if sanitize else ""
    return build(
        Path(folder or HERE.parents[1] / "build" / "apple-checks"),
        "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
        f"-DCMAKE_CXX_FLAGS={flags}",
        f"-DCMAKE_OBJCXX_FLAGS={flags}",
    )


@pytest.fixture(scope="session")
def runtime(doubles: Path) -> Runtime:
    """The doubles in this process."""
    return Runtime(doubles)
