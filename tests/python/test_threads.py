"""How the threads of a step wait for each other."""

import os
import platform
import re
import subprocess
import sys

import pytest


def spin_count(**variables: str) -> tuple[str, str]:
    """What libgomp has read when the core was loaded, and what the environment says afterwards."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))}
    run = subprocess.run(
        [sys.executable, "-c", "import os, traingraph; print(os.environ.get('GOMP_SPINCOUNT'))"],
        env={**plain, "OMP_DISPLAY_ENV": "VERBOSE", **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.search(r"GOMP_SPINCOUNT = '(\w+)'", run.stderr)
    assert found, run.stderr
    return found[1], run.stdout.strip()


@pytest.mark.skipif(platform.system() != "Linux", reason="libgomp is what Linux has")
def test_waiting_threads_give_their_core_away() -> None:
    assert spin_count() == ("2000", "None")


@pytest.mark.skipif(platform.system() != "Linux", reason="libgomp is what Linux has")
def test_the_user_decides() -> None:
    assert spin_count(GOMP_SPINCOUNT="77") == ("77", "77")
    assert spin_count(OMP_WAIT_POLICY="ACTIVE")[0] not in ("2000", "77")
