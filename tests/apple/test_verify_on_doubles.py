"""``traingraph verify`` on doubles of a Mac that goes wrong, and where there is no /proc.

A method of a double is given the address of another function, in each process that verify starts.
"""

import json
import os
import subprocess
import sys

import metal_package
import pytest
from metal_package import DOUBLES, ROOT

from traingraph import _verify, _verify_machine
from traingraph.__main__ import main

pytestmark = metal_package.needs_doubles

# Python loads a module of this name as it starts.
SITE = """
import ctypes, os

doubles, c = ctypes.CDLL(os.environ["DOUBLES"]), ctypes.CDLL(None)
for name in "objc_lookUpClass", "sel_registerName", "objc_msg_lookup", "method_setImplementation":
    getattr(doubles, name).restype = ctypes.c_void_p
doubles.class_getInstanceMethod.restype = ctypes.c_void_p
P = ctypes.c_void_p

def replace(of_class, selector, function):
    found = P(doubles.objc_lookUpClass(of_class))
    method = P(doubles.class_getInstanceMethod(found, P(doubles.sel_registerName(selector))))
    return doubles.method_setImplementation(method, ctypes.cast(function, P))

def without_kernels(device, selector, source, options, error):
    name, make = P(doubles.objc_lookUpClass(b"NSString")), P(doubles.sel_registerName(b"string"))
    empty = ctypes.CFUNCTYPE(P, P, P)(doubles.objc_msg_lookup(name, make))(name, make)
    return compile(device, selector, empty, options, error)

Compile = ctypes.CFUNCTYPE(P, P, P, P, P, P)
broken = os.environ["BROKEN"]
if broken == "shader":
    kept = Compile(without_kernels)
    compile = Compile(replace(b"AppleDevice", b"newLibraryWithSource:options:error:", kept))
elif broken != "nothing":
    replace(b"AppleCommandBuffer", b"commit", getattr(c, broken))
"""
OPTION = """
def pytest_addoption(parser):
    parser.addoption("--device")
"""
TESTS = """
import numpy as np
import traingraph as tg

def test_before():
    pass

def test_a_run():
    x, graph = tg.MLCTensor(shape=[2, 3]), tg.MLCGraph()
    relu = tg.MLCActivationDescriptor(type="relu", a=0.0)
    graph.node(tg.MLCActivationLayer(descriptor=relu), source=x)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    inference.compile(device="metal")
    inference.execute(inputs_data={"x": np.ones((2, 3), "float32")}, options="synchronous")

def test_behind():
    pass
"""


@pytest.fixture
def verified(tmp_path, monkeypatch):
    """What verify returns and reports of these three tests on doubles that are broken so."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text(SITE)
    (tmp_path / "tests/layers").mkdir(parents=True)
    (tmp_path / "tests/conftest.py").write_text(OPTION)
    (tmp_path / "tests/layers/test_some.py").write_text(TESTS)
    path = os.pathsep.join([str(tmp_path / "site"), str(DOUBLES.parents[2])])
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.setenv("DOUBLES", str(DOUBLES))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def run(broken):
        monkeypatch.setenv("BROKEN", broken)
        report = tmp_path / "report.json"
        command = ["--device", "metal", "--tests", str(tmp_path / "tests")]
        status = main(["verify", *command, "--report", str(report)])
        return status, json.loads(report.read_text())

    return run


def test_healthy_ones_pass(verified):
    status, report = verified("nothing")
    assert (status, report["verdict"], report["error"]) == (0, "PASS", "")
    assert (report["files"][0]["passed"], report["files_left"]) == (3, 0)
    assert "metal" in report["device"]


@pytest.mark.parametrize(
    ("broken", "limit", "message"),
    [("abort", 600, "ended by SIGABRT\n"), ("pause", 30, "did not end within 30 s\n")],
)
def test_a_run_that_ends_its_process_or_hangs(verified, monkeypatch, broken, limit, message):
    monkeypatch.setattr(_verify, "SECONDS_EACH", limit)
    status, report = verified(broken)
    assert (status, report["verdict"], report["error"]) == (1, "FAIL", "")
    (row,) = report["files"]
    assert (row["passed"], report["files_left"]) == (2, 0)
    (failure,) = row["failures"]
    assert failure["test"].endswith("::test_a_run")
    assert failure["message"].startswith(message)


def test_a_device_that_is_nil(verified, monkeypatch):
    monkeypatch.setenv("APPLE_DOUBLE_NO_DEVICE", "any")
    status, report = verified("nothing")
    assert (status, report["verdict"], report["files"]) == (1, "FAIL", [])
    assert "expected a GPU but Metal finds none" in report["error"]
    assert report["machine"]["python"]


def test_a_shader_that_is_refused(verified):
    status, report = verified("shader")
    assert (status, report["verdict"], report["files"]) == (1, "FAIL", [])
    assert "the shaders do not compile" in report["error"]
    assert "the source has no kernel" in report["error"]  # the compiler's own words


def test_a_device_that_hangs(verified, monkeypatch):
    monkeypatch.setattr(_verify_machine, "MAKES_THE_DEVICE", "import time; time.sleep(99)")
    monkeypatch.setattr(_verify_machine, "SECONDS", 1)
    assert verified("nothing")[1]["error"].startswith("did not end within 1 s")


# Files with a test that reads /proc, or whose errors are those of a system.
OF_A_SYSTEM = ("train/test_client_graphs.py", "graph/test_check_gradients.py",
               "checkpoint/test_odd_files.py")  # fmt: skip
HIDDEN = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
# Goes on with a report that has all other files.
GOES_ON = """
import sys
from pathlib import Path
from traingraph import _verify

device, report, *last = sys.argv[1:]
tests, report = Path("tests"), Path(report)
found = _verify.begin(device, tests, report)
found["files"] = [{"file": file, "seconds": 0, "passed": 1, "skipped": 0, "failures": []}
                  for file in _verify.files_of(tests) if file not in last]
_verify.save(found, report)
sys.exit(_verify.verify(device, tests, report))
"""


@pytest.mark.parametrize("device", ["metal", "bnns"])
def test_files_that_read_proc_pass_without_it(tmp_path, device):
    if subprocess.run([*HIDDEN, "true"], capture_output=True).returncode != 0:
        pytest.skip("/proc can be hidden by root alone")
    report = tmp_path / "report.json"
    done = subprocess.run(
        [*HIDDEN, sys.executable, "-c", GOES_ON, device, str(report), *OF_A_SYSTEM],
        cwd=ROOT,
        env=os.environ | {"XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    found = json.loads(report.read_text())
    failures = {row["file"]: row["failures"] for row in found["files"]}
    assert [failures[file] for file in OF_A_SYSTEM] == [[], [], []], done.stderr
    assert (done.returncode, found["verdict"], found["files_left"]) == (0, "PASS", 0)
