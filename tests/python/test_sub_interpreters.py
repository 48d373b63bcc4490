"""An import in a sub-interpreter, whose lock is not the one that the bindings ask for."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
if "first" in sys.argv:
    import traingraph
    import traingraph.mps
own = interpreters.create()
run = getattr(interpreters, "run_string", None) or interpreters.exec
run(own, '''
try:
    import traingraph
    print("imported")
except ImportError as error:
    print(error)
''')
interpreters.destroy(own)
import traingraph
print(traingraph.MLCTensor(shape=[2]).descriptor.shape)
"""


@pytest.mark.parametrize("when", ["never", "first"])
def test_an_import_is_refused(when: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, when], capture_output=True, text=True, timeout=60
    )
    lines = run.stdout.splitlines()
    assert run.returncode == 0, run.stderr
    assert lines[0].startswith("traingraph works in the main interpreter of a process"), lines
    assert lines[1:] == ["[2]"]
