"""The package is imported wherever Python looks for packages."""

import os
import pathlib
import pickle
import subprocess
import sys

import pytest

import traingraph
import traingraph.mps

STRANGE = [b"/nowhere/caf\xe9", b"\xff\xfe", "/nowhere/straße".encode()]
SHOW = "import traingraph, traingraph.mps; print(traingraph.MLCDevice.cpu())"
PACKAGE = pathlib.Path(traingraph.__file__).parent


def run(code: str, *folders: str, **variables: str) -> str:
    path = os.pathsep.join([*folders, os.environ.get("PYTHONPATH", "")])
    child = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path, **variables},
        capture_output=True,
        timeout=60,
    )
    assert child.returncode == 0, child.stderr.decode(errors="replace")
    return child.stdout.decode()


def test_folders_that_are_no_text() -> None:
    assert "MLCDevice" in run(SHOW, *map(os.fsdecode, STRANGE))


def test_entries_that_are_no_paths() -> None:
    before = "import sys; sys.path += [b'bytes', 7, None]; "
    assert "MLCDevice" in run(before + SHOW)


@pytest.mark.parametrize("name", STRANGE, ids=repr)
def test_a_package_in_a_folder_that_is_no_text(name: bytes, tmp_path: pathlib.Path) -> None:
    if sys.version_info >= (3, 12) and not os.fsdecode(name).isprintable():
        # It keeps extensions by their paths as UTF-8: hashtable_key_from_2_strings in import.c.
        pytest.skip("Python itself imports no extension module from there")
    folder = os.fsencode(tmp_path) + b"/" + os.path.basename(name)
    os.mkdir(folder)
    os.symlink(PACKAGE, folder + b"/traingraph")
    assert "MLCDevice" in run(SHOW, os.fsdecode(folder))


def test_a_home_that_is_no_text() -> None:
    home = os.fsdecode(STRANGE[0])
    show = "from traingraph import _core; print(ascii(_core.verification_file('cuda')))"
    printed = run(show, HOME=home, XDG_CACHE_HOME=home, XDG_STATE_HOME=home)
    assert ascii(home).strip("'") in printed


def test_classes_of_mps_are_made_when_they_are_asked_for() -> None:
    made = "print(*(name in vars(traingraph._core) for name in ('MLCLayer', 'MPSKernel')));"
    assert run(f"import traingraph; {made} import traingraph.mps; {made}").split() == [
        "True",
        "False",
        "True",
        "True",
    ]
    text = pickle.dumps(traingraph.mps.MTLDevice)
    load = f"import pickle; print(pickle.loads({text!r}).__name__)"
    assert run(f"import traingraph; {load}").strip() == "MTLDevice"
    both = "import threading; ts = [threading.Thread(target=exec, args=(load,)) for _ in range(8)]"
    start = "[t.start() for t in ts]; [t.join() for t in ts]"
    assert run(f"load = {load!r}; {both}; {start}").count("MTLDevice") == 8
    unknown = "import traingraph; print(hasattr(traingraph._core, 'MPSNothing'))"
    assert run(unknown).strip() == "False"
