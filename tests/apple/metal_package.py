"""The package that is tested, with the Metal backend over the doubles; and the same with one place
of a source changed, compiled and linked again.
"""

import atexit
import ctypes
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from traingraph import _core, _verify

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "cpp/src/backends/metal"
PACKAGE = Path(_core.__file__).parent
DOUBLES = PACKAGE / "lib/libapple_doubles.so"
needs_doubles = pytest.mark.skipif(
    not DOUBLES.exists(), reason="needs a build with TRAINGRAPH_APPLE_DOUBLES"
)

sys.path.append(str(ROOT / "tests/verify"))
from metal import KERNELS  # noqa: E402

# What `traingraph verify` finds right on the doubles, of kernels that no page settles. These follow
# calculus where the text prints something else, and 0 log 0 is NaN.
LOG_OF_ZERO = ("categorical_cross_entropy", "log without epsilon")
RIGHT = [name for name in KERNELS if not name.endswith(("header_formula", *LOG_OF_ZERO))]


def note_what_is_right(folder: Path) -> None:
    """Where XDG_CACHE_HOME is this folder, the backend encodes these kernels."""
    _verify.write_note("metal", RIGHT, folder)


# For this process, and for those that it starts unless they are given another folder.
if DOUBLES.exists() and "TRAINGRAPH_APPLE_NOTED" not in os.environ:
    noted = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, noted, ignore_errors=True)
    note_what_is_right(Path(noted))
    os.environ |= {"XDG_CACHE_HOME": noted, "TRAINGRAPH_APPLE_NOTED": "1"}


def doubles() -> ctypes.CDLL:
    """The functions of doubles/runtime.h."""
    library = ctypes.CDLL(str(DOUBLES))
    for name in ("live_objects", "live_objects_of", "made_objects_of", "work_of", "gpu_waiting"):
        getattr(library, f"apple_{name}").restype = ctypes.c_int64
    return library


def live(of_class: str | None = None) -> int:
    """Objects that are there, of one class or of all."""
    if of_class is None:
        return doubles().apple_live_objects()
    return doubles().apple_live_objects_of(of_class.encode())


def work_of(class_name: str) -> int:
    """Pieces of work that it has encoded so far."""
    return doubles().apple_work_of(class_name.encode())


def run_script(
    script: str, folder: Path = PACKAGE.parent, **environment: str
) -> subprocess.CompletedProcess[str]:
    """In a process of its own, with the package in this folder."""
    path = os.pathsep.join([str(folder), str(ROOT / "tests/apple")])
    return subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | environment | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )


def commands(build: Path, target: str) -> str:
    listed = subprocess.run(
        ["ninja", "-C", build, "-t", "commands", target], capture_output=True, text=True, check=True
    )
    return listed.stdout.splitlines()[-1]


def compiled(build: Path, folder: Path, source: str, old: str, new: str):
    """The object of a source with one place changed, and what the compiler said."""
    path = next(SOURCES.rglob(source))
    text = path.read_text()
    assert text.count(old) == 1, old
    changed = folder / source
    changed.write_text(text.replace(old, new))
    name = f"cpp/CMakeFiles/traingraph_apple.dir/src/backends/metal/{path.relative_to(SOURCES)}.o"
    made = folder / f"{source}.o"
    command = commands(build, name).replace(str(path), str(changed))
    command = command.replace(f" -o {name} ", f" -o {made} ").replace(f"{name}.d", f"{made}.d")
    done = subprocess.run(shlex.split(command), cwd=build, capture_output=True, text=True)
    return name, made, done


def run_changed(
    build: Path, folder: Path, change: list[str], script: str
) -> subprocess.CompletedProcess[str]:
    """The script over a copy of the package; the change is a source, what stands there, and what
    shall.
    """
    object_name, made, done = compiled(build, folder, *change)
    assert done.returncode == 0, done.stderr
    package = folder / "package/traingraph"
    shutil.copytree(PACKAGE, package)
    library = package / "lib/libtraingraph.so"
    link = commands(build, "lib/libtraingraph.so")
    link = link.replace(f" {object_name} ", f" {made} ")
    link = link.replace(" -o lib/libtraingraph.so ", f" -o {library} ")
    subprocess.run(link, cwd=build, shell=True, check=True)
    return run_script(script, package.parent)
