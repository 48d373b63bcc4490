"""Two processes train to the same bits, on whatever devices the suite runs on."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("equal_bits.py")


@pytest.mark.parametrize("device", ["cpu"])
@pytest.mark.parametrize("network", ["lenet", "mlp"])
def test_equal_bits_in_every_process(network: str, device: str) -> None:
    digests = set()
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, str(PROGRAM), network, device], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        digests.add(done.stdout)
    assert len(digests) == 1
