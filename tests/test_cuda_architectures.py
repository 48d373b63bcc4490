"""For which GPUs a build has code, and what serves one that it has none for."""

import subprocess
from pathlib import Path

import pytest

ARCHITECTURES = Path(__file__).resolve().parents[1] / "cpp/cmake/cuda_architectures.cmake"
DEFAULT = "80-real;86-real;89-real;90a-real;90-virtual"


@pytest.mark.parametrize(
    ("gpus", "served_by"),
    [
        ("9.0", "90a-real"),
        ("8.7", "86-real"),
        ("12.0", "90-virtual"),
        ("8.9;9.0;9.0", "89-real;90a-real"),
    ],
)
def test_code_of_the_default_build_for_a_gpu(gpus: str, served_by: str) -> None:
    command = ["cmake", f"-DGPUS={gpus}", "-P", ARCHITECTURES]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == served_by


@pytest.mark.parametrize(
    ("asked", "found", "built", "said"),
    [
        (DEFAULT, "", DEFAULT, ""),
        ("native", "90-real;80-real", "90a-real;80-real", ""),
        ("native", "", DEFAULT, "no GPU was found"),
        ("native", "No CUDA devices found.-real", DEFAULT, "no GPU was found"),
        ("90", "", "90a-real;90-virtual", ""),
        ("80-real;90-real", "", "80-real;90a-real", ""),
        ("90a", "", "90a", ""),
        ("80", "", "80", "will lack kernels for Hopper"),
        ("all-major", "", "all-major", "will lack kernels for Hopper"),
    ],
)
def test_hopper_gets_its_own_kernels(
    tmp_path: Path, asked: str, found: str, built: str, said: str
) -> None:
    """By whatever name somebody asks for its code; where nobody does, the build says so."""
    script = tmp_path / "chosen.cmake"
    script.write_text(
        f"include({ARCHITECTURES.as_posix()})\n"
        f'chosen_cuda_architectures(built "{asked}" "{found}")\n'
        f'file(WRITE "{tmp_path.as_posix()}/built" "${{built}}")\n'
    )
    done = subprocess.run(["cmake", "-P", script], capture_output=True, text=True, check=True)
    assert (tmp_path / "built").read_text() == built
    text = " ".join((done.stdout + done.stderr).split())
    assert said in text if said else not text
