"""The public headers over libc++, which is the C++ library of a Mac."""

import shutil
import subprocess
from pathlib import Path

import pytest

INCLUDE = Path(__file__).resolve().parents[2] / "cpp/include"
HEADERS = sorted(str(path.relative_to(INCLUDE)) for path in INCLUDE.rglob("*.h"))
LIBCXX = Path("/usr/lib/llvm-19/include/c++/v1/vector")


@pytest.mark.skipif(
    shutil.which("clang++-19") is None or not LIBCXX.exists(), reason="needs clang-19 and libc++"
)
def test_they_compile(tmp_path):
    assert len(HEADERS) > 50
    source = tmp_path / "all.cpp"
    source.write_text("".join(f"#include <{name}>\n" for name in HEADERS))
    command = ["clang++-19", "-stdlib=libc++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra",
               "-Werror", f"-I{INCLUDE}", str(source)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
