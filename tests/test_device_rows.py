"""What --device adds to tests over several backends, and what --only-device leaves of them."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from device_rows import is_about, loops_over_backends, with_devices

ROOT = Path(__file__).parent.parent


def rows(names, given, *devices):
    """As (values, devices of the marks) where a row was added, else as they were."""
    found = with_devices(names, given, list(devices))
    kept, added = found[: len(given)], found[len(given) :]
    assert kept == list(given)
    return [(row.values, [mark.args[0] for mark in row.marks]) for row in added]


@pytest.mark.parametrize(
    ("names", "given"),
    [
        ("device", ["cpu", "reference"]),
        ("device", ("reference", "cpu")),
        (["device"], [("reference",), ("cpu",)]),
        ("device", [pytest.param("cpu", id="own")]),
    ],
)
def test_each_device_gets_a_row(names, given):
    assert rows(names, given) == []
    expected = [(("cuda",), ["cuda"]), (("bnns",), ["bnns"])]
    assert rows(names, given, "cuda", "bnns") == expected


def test_the_rest_of_a_row_is_kept():
    given = [("reference", "float64"), ("cpu", "float32"), ("cpu", "float16")]
    for names in ("device, dtype", ("device", "dtype")):
        found = [values for values, _ in rows(names, given, "metal")]
        assert found == [("metal", "float32"), ("metal", "float16")]
    assert rows("dtype", ["float32"], "metal") == []


def test_backends_in_another_argument_are_refused():
    for names, given in [
        ("backend", ["reference", "cpu"]),
        (("on", "dtype"), [("cpu", "float32")]),
        ("name, device", [("cpu", "reference")]),
    ]:
        with pytest.raises(pytest.fail.Exception, match="in an argument 'device' but got"):
            with_devices(names, given, [])
    assert rows("style", ["gpu", "cpu"], "cuda") == []


# Lists that are no choice of backends to run on, each with its reason.
LOOPS = {
    "tests/fuzz/archives.py": "two devices, of which each input is given one",
    "tests/fuzz/changing_sources.py": "two devices, of which each program is given one",
    "tests/fuzz/random_nodes/judge.py": "updates in a command buffer and behind it",
    "tests/mps/test_state_properties.py": "two devices, of which one is another's",
    "tests/python/test_device.py": "spellings of names",
    "tests/runtime/test_cuda.py": "moves between a GPU and the host",
}


def test_no_test_loops_over_backends():
    """One row each is what --device adds to."""
    files = [path for path in (ROOT / "tests").rglob("*.py") if "apple" not in path.parts]
    found = {path.relative_to(ROOT).as_posix(): loops_over_backends(path.read_text())
             for path in files}  # fmt: skip
    assert {name for name, lines in found.items() if lines} == set(LOOPS)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('for name in ("reference", "cpu"):\n    pass', [1]),
        ('x = 1\nfound = [run(name) for name in ["cpu", "reference"]]', [2]),
        ('for name in (device, "cpu"):\n    pass', []),
        ('for name in ("float32", "float64"):\n    pass', []),
    ],
)
def test_a_loop_over_backends_is_found(text, lines):
    assert loops_over_backends(text) == lines


def item(*marked, fixtures=()):
    marks = [pytest.mark.row_of(device).mark for device in marked]
    return SimpleNamespace(fixturenames=fixtures, iter_markers=lambda name: marks)


def test_rows_of_other_devices_are_about_another_device():
    assert is_about(item("cuda"), ["cuda"])
    assert is_about(item("cuda"), ["metal", "cuda"])
    assert not is_about(item("metal"), ["cuda"])
    assert not is_about(item(), ["cuda"])
    assert is_about(item(fixtures=["gpu"]), ["cuda"])
    assert not is_about(item(fixtures=["gpu"]), ["metal"])
