"""The fuzz targets for a moment, and what their driver says of a fault."""

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path
from random import Random

import programs
import pytest
import signatures

FUZZ = Path(__file__).parent
DRIVER = FUZZ / "driver.py"
TARGETS = [
    "checkpoints", "archives", "descriptors", "calls", "changing_sources", "training_graphs",
    "mps_graphs",
]  # fmt: skip


def drive(target: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(DRIVER), *options, str(target)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_holds_for_a_moment(name: str) -> None:
    done = drive(FUZZ / f"{name}.py", "--seconds", "2")
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    inputs = int(re.search(r'"inputs": (\d+)', done.stdout).group(1))
    assert inputs > len(os.listdir(FUZZ / "corpus" / name)) > 0


def test_programs_are_drawn_of_every_public_class() -> None:
    """One that is left out is on a list, with a reason."""
    public = {name for _, name, _ in signatures.public()}
    assert set(programs.NOT_DRAWN) <= public
    drawn = sorted(public - set(programs.NOT_DRAWN))
    for name, seed in itertools.product(drawn, range(5)):
        text = programs.program(Random(f"{name} {seed}"), name)
        assert f".{name}" in text or name in programs.RECEIVERS, text
        assert "use(" in text, text


@pytest.mark.parametrize("name", ["MLCConvolutionDescriptor", "MPSImageDescriptor", "MPSNNPad"])
def test_programs_have_extremes(name: str) -> None:
    texts = [programs.program(Random(k), name) for k in range(300)]
    assert all(any(number in text for text in texts) for number in programs.WHOLE)


FAULTS = {
    "os.kill(os.getpid(), signal.SIGSEGV)": "-11",
    "signal.alarm(1), time.sleep(60)": "longer than",
    "raise RuntimeError('untyped')": "untyped",
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_reported_with_its_input(tmp_path: Path, fault: str) -> None:
    (tmp_path / "corpus").mkdir()
    target = tmp_path / "target.py"
    target.write_text(
        "import os, pathlib, signal, time\n"
        f"corpus = pathlib.Path({str(tmp_path / 'corpus')!r})\n"
        "def make(random):\n    return random.choice([b'good', b'bad'])\n"
        f"def run(content):\n    if content == b'bad':\n        {fault}\n    return 'fine'\n"
    )
    done = drive(target, "--seconds", "5", "--seed", "3")
    assert done.returncode == 1
    assert FAULTS[fault] in done.stdout
    kept = Path(re.search(r"--file (\S+)", done.stdout).group(1))
    assert kept.read_bytes() == b"bad"
    again = drive(target, "--file", str(kept))
    assert again.returncode != 0
