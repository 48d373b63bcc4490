"""Programs in examples/ with the same in PyTorch beside them: length, statements, and learning."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sklearn")
pytest.importorskip("torch")

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
# What the last line has to say, and from where to where that number is right. At the beginning it
# is about 0, 30, 45 and 25.
PROGRAMS = {
    "autoencoder": (r"R² (\S+)", 0.7, 1),
    "dcgan": (r"epoch 12 distance (\S+)", 0, 5),
    "ppo": (r"iteration 15 falls (\S+)", 0, 15),
    "reinforce": (r"first 30 episodes, (\S+)", 50, 300),
}


def statements(path: Path) -> int:
    """Without imports and docstrings; a loop and what it repeats count one each."""

    def counts(node: ast.AST) -> bool:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return not isinstance(node.value.value, str)
        return isinstance(node, ast.stmt) and not isinstance(node, (ast.Import, ast.ImportFrom))

    return sum(map(counts, ast.walk(ast.parse(path.read_text()))))


def test_statements_are_counted(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text('"""Text."""\nimport os\nfor k in range(3):\n    a = k\n    print(a)\n')
    assert statements(program) == 3


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_program_is_longer_than_pytorchs(name: str) -> None:
    mine, theirs = EXAMPLES / f"{name}.py", EXAMPLES / f"{name}_torch.py"
    assert statements(mine) <= statements(theirs)
    for program in (mine, theirs):
        text = program.read_text()
        assert len(text.splitlines()) <= 60
        assert "fmt: off" not in text
        assert ";" not in text.partition("import")[2]


def printed(program: Path) -> str:
    """Its last line."""
    done = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True, text=True, timeout=600,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    "kind", ["", pytest.param("_torch", marks=pytest.mark.programs)], ids=["own", "pytorch"]
)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_learn(name: str, kind: str) -> None:
    pattern, least, most = PROGRAMS[name]
    last = printed(EXAMPLES / f"{name}{kind}.py")
    found = re.search(pattern, last)
    assert found, last
    assert least <= float(found[1]) <= most


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_pytorch_run(name: str, tmp_path: Path) -> None:
    """Two rounds of each; how well they learn is asked at full length."""
    text = (EXAMPLES / f"{name}_torch.py").read_text()
    short, loops = re.subn(r"^(for \w+ in range)\(\d+\):", r"\1(2):", text, flags=re.MULTILINE)
    assert loops == 1
    program = tmp_path / "short.py"
    program.write_text(short)
    assert re.search(r"(R²|epoch 2 distance|iteration 2 falls|steps) -?\d", printed(program))
