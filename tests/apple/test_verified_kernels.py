"""Kernels that no page and no header settles: composed, unless the note of this machine lists them.

Here `traingraph verify` looks at the doubles, and at ones that compute otherwise.
"""

import metal_package
import pytest
from metal import KERNELS

from traingraph import _verify

pytestmark = metal_package.needs_doubles

SCRIPT = metal_package.ROOT / "tests/verify/metal.py"
TRANSPOSE = "MPSCNNConvolutionTranspose"
LOCAL = [f"MPSCNN{name}NormalizationGradient" for name in
         ("CrossChannel", "Spatial", "LocalContrast")]  # fmt: skip


def verdict(name):
    return _verify.compare_kernel("metal", SCRIPT, name)


@pytest.mark.parametrize("name", KERNELS)
def test_what_verify_finds_on_the_doubles(name):
    found = verdict(name)
    assert found["verdict"] == ("PASS" if name in metal_package.RIGHT else "FAIL"), found
    if name in metal_package.RIGHT and name != "MPSCNNDropout":
        assert float(found["deviation"]) < 1e-4


OTHERWISE = [
    *[(name, "APPLE_DOUBLE_FOLLOWS_TEXT", "1", "FAIL") for name in LOCAL],
    (f"{LOCAL[0]} header_formula", "APPLE_DOUBLE_FOLLOWS_TEXT", "1", "PASS"),
    ("MPSCNNSubtractGradient", "APPLE_DOUBLE_FOLLOWS_TEXT", "1", "FAIL"),
    ("MPSCNNAddGradient", "APPLE_DOUBLE_FOLLOWS_TEXT", "1", "PASS"),
    (TRANSPOSE, "APPLE_DOUBLE_BEGINS_AT_CORNER", TRANSPOSE, "FAIL"),
    (TRANSPOSE, "APPLE_DOUBLE_BEGINS_AT_CORNER", f"{TRANSPOSE}Gradient", "PASS"),
    (f"{TRANSPOSE}Gradient", "APPLE_DOUBLE_BEGINS_AT_CORNER", f"{TRANSPOSE}Gradient", "FAIL"),
]


@pytest.mark.parametrize(("name", "variable", "value", "expected"), OTHERWISE)
def test_doubles_that_compute_otherwise(name, variable, value, expected, monkeypatch):
    monkeypatch.setenv(variable, value)
    assert verdict(name)["verdict"] == expected


MASKS = {
    "forgets": "another kernel with this seed has another mask",
    "ignores_seed": "two steps have one mask",
    "ignores_strides": "decisions that strides share differ",
    "by_source": "another mask",
    "unscaled": "neither 0 nor scaled",
}


@pytest.mark.parametrize("what", MASKS)
def test_masks_that_a_seed_does_not_repeat(what, monkeypatch):
    monkeypatch.setenv("APPLE_DOUBLE_DROPOUT", what)
    found = verdict("MPSCNNDropout")
    assert found["verdict"] == "FAIL"
    assert MASKS[what] in found["deviation"]


COUNTS = """
import metal_package  # whose folders are searched behind it
import metal
import numpy as np

for name, cases in metal.KERNELS.items():
    if name == "MPSCNNDropout":
        continue
    before = metal_package.work_of(name.split()[0])
    found = metal.executed("metal", cases[0], "positive")
    print(name, metal_package.work_of(name.split()[0]) - before, sep=":")
    for got, want in zip(found, metal.executed("reference", cases[0], "positive"), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)
"""


@pytest.mark.parametrize("is_noted", [True, False])
def test_what_the_note_decides(is_noted, tmp_path):
    """By Apple's kernel, or composed; the results are those of the reference either way."""
    environment = {} if is_noted else {"XDG_CACHE_HOME": str(tmp_path)}
    done = metal_package.run_script(COUNTS, **environment)
    assert done.returncode == 0, done.stderr
    counts = dict(line.split(":") for line in done.stdout.splitlines())
    by_name = {name for name, count in counts.items() if count != "0"}
    assert by_name == (set(metal_package.RIGHT) - {"MPSCNNDropout"} if is_noted else set())


def test_a_note_of_another_version_decides_nothing(tmp_path):
    _verify.write_note("metal", metal_package.RIGHT, tmp_path)
    note = next(tmp_path.rglob("verified-metal.txt"))
    note.write_text("0" + note.read_text())
    done = metal_package.run_script(COUNTS, XDG_CACHE_HOME=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert all(line.endswith(":0") for line in done.stdout.splitlines())


def test_what_was_composed_is_said(tmp_path):
    done = metal_package.run_script(
        COUNTS, XDG_CACHE_HOME=str(tmp_path), TRAINGRAPH_VERBOSE="dispatch"
    )
    for name in KERNELS:
        if name != "MPSCNNDropout":
            assert f"'{name}' is not verified on this machine" in done.stderr
