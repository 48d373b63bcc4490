"""What README.md says is what happens."""

import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_training_example(tmp_path: Path) -> None:
    (example,) = blocks("python")
    script = tmp_path / "example.py"
    script.write_text(example)
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    values = [float(number) for number in re.findall(r"[-\d.]+", done.stdout)]
    np.testing.assert_allclose(values, [2, 5], atol=1e-5)


def test_commands_are_the_ones_that_are_run() -> None:
    train, test, embed = blocks("sh")
    assert f"{test.strip()} || exit" in (ROOT / ".ci/run").read_text().splitlines()
    assert len(train.splitlines()) == len(test.splitlines()) == 1
    install, run = train.split(" && ")
    assert shlex.split(install) == ["pip", "install", ".[examples]"]
    assert (ROOT / shlex.split(run)[1]).is_file()
    assert (ROOT / "examples/embed/CMakeLists.txt").is_file()
    assert "examples/embed" in embed


def test_support_matrix_is_that_of_the_table() -> None:
    updated = runpy.run_path(str(ROOT / "docs" / "support_matrix.py"))["updated"]
    definitions = (ROOT / "cpp/src/ops.def").read_text()
    assert updated(README, definitions) == README, "run python docs/support_matrix.py"
    changed = definitions + "TRAINGRAPH_OP(new_op, NoAttributes, false)\n"
    assert updated(README, changed) != README


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda path: path.stem
)
def test_links_lead_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text())
    assert [target for target in targets if not (path.parent / target).exists()] == []


def test_it_says_what_it_is_not() -> None:
    text = " ".join(README.split())
    assert (
        "an independent implementation, not affiliated with or endorsed by Apple; no relation to "
        "MLC-LLM or to PyTorch's MPS backend"
    ) in text
