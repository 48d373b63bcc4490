"""A failed test of concurrency ends its run, though threads of it go on."""

import subprocess
import sys
from pathlib import Path

TEST = """
import threading

def test_of_concurrency() -> None:
    threading.Thread(target=threading.Event().wait).start()
    assert not threading.active_count()
"""


def test_a_run_that_has_failed_ends(tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(TEST)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "left_threads"]
    run = subprocess.run(
        [*command, "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=Path(__file__).parent,  # which has the plugin
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 1
    assert "1 failed" in run.stdout
    assert "Timeout" in run.stderr  # of what was left
