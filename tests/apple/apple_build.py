"""How the doubles of Apple's frameworks are built, and what code over them is compiled with."""

import shutil
import subprocess
from pathlib import Path

import pytest

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


def build(folder: Path, sanitizers: str = "") -> Path:
    """The folder, with the doubles and the checks built in it."""
    if shutil.which(COMPILER) is None:
        pytest.skip(f"{COMPILER} is not installed: Apple's backends are built on Linux by it alone")
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    flags = f"-fsanitize={sanitizers} -shared-libasan -g" if sanitizers else ""
    options = ["-DCMAKE_BUILD_TYPE=RelWithDebInfo", f"-DCMAKE_OBJCXX_FLAGS={flags}"]
    # One compiler, for its sanitizers' run-time library.
    options += [f"-DCMAKE_CXX_COMPILER={COMPILER}", f"-DCMAKE_CXX_FLAGS={flags}"]
    configure = ["cmake", "-S", HERE, "-B", folder, *launcher, *options]
    for step in (configure, ["cmake", "--build", folder, "-j2"]):
        done = subprocess.run(step, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return folder
