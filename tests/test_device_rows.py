"""What --device adds to tests over several backends, and what --only-device leaves of them."""

from types import SimpleNamespace

import pytest

from device_rows import is_about, with_devices


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
