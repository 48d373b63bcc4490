"""The CPU backend's hand-written loops at each instruction level of this machine."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from op_harness import testing

if "cpu" not in testing.backends():
    pytest.skip("no CPU backend on this machine", allow_module_level=True)

LEVELS = ["v2", "v3"]


@pytest.mark.parametrize("level", LEVELS)
def test_lower_levels(level):
    """The other files again, in a process whose loops are of a lower level."""
    names = ("lists", "kernels", "products", "moved_elements", "halves", "winograd")
    files = [str(Path(__file__).with_name(f"test_cpu_{name}.py")) for name in names]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *files]
    environment = {**os.environ, "TRAINGRAPH_ISA": level}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if "expected a processor" in done.stdout:
        pytest.skip("the machine lacks this level")
    assert done.returncode == 0, done.stdout[-3000:]


def test_an_unknown_level_is_refused():
    code = "from traingraph import _testing as t; t.Graph().run('cpu', {}, [])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TRAINGRAPH_ISA": "v9"},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "expected TRAINGRAPH_ISA to be one of v2, v3, v4 but got 'v9'" in done.stderr
