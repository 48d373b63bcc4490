"""Each allocation of C++ fails once: the call says so or has done its work, and the next one works.

tests/python/failing_allocations.py has the cases.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import traingraph

PROGRAM = Path(__file__).with_name("failing_allocations.py")
LIBRARY = Path(traingraph._core.__file__).parent / "lib" / "libtraingraph_failing_new.so"
# Those of a step are few, and each of them is tried; of others, one in so many.
STRIDES = {
    "step": 1, "waited step": 1, "handled step": 1, "phases": 1, "predicted": 1, "refused": 1,
    "encoded": 1, "fitted": 1,
    "encoded first": 3, "saved": 17, "loaded": 17, "built": 53, "compiled": 53,
    "other batches": 53, "checked": 101, "collected": 53, "networks": 3,
}  # fmt: skip

pytestmark = [
    pytest.mark.skipif(not LIBRARY.exists(), reason="built without TRAINGRAPH_TESTING"),
    pytest.mark.skipif("ASAN_OPTIONS" in os.environ, reason="a sanitizer has operator new"),
]


def run(stride, *cases):
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", str(PROGRAM), str(stride), *cases],
        env={**os.environ, "LD_PRELOAD": str(LIBRARY)},
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip


@pytest.mark.parametrize("case", STRIDES)
def test_a_failing_allocation_is_an_error_or_does_no_harm(case):
    done = run(STRIDES[case], case)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout.split()[-1]) > 5  # so many were tried, or were there to be tried
