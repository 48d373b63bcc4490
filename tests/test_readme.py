"""What README.md says is what happens."""

import re
import runpy
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_the_first_program_is_the_short_one() -> None:
    """That test_short_networks counts and runs."""
    (example,) = blocks("python")
    assert example in (ROOT / "tests/train/short_mlp.py").read_text()


def test_commands_are_the_ones_that_are_run() -> None:
    train, test, embed = blocks("sh")
    assert f"{test.strip()} || exit" in (ROOT / ".ci/run").read_text().splitlines()
    assert len(train.splitlines()) == len(test.splitlines()) == 1
    install, run = train.split(" && ")
    assert shlex.split(install) == ["pip", "install", "-v", ".[examples]"]
    assert (ROOT / shlex.split(run)[1]).is_file()
    assert (ROOT / "examples/embed/CMakeLists.txt").is_file()
    assert "examples/embed" in embed


def test_layers_are_those_of_the_page() -> None:
    with_layers = runpy.run_path(str(ROOT / "docs" / "class_tables.py"))["with_layers"]
    page = (ROOT / "docs/support.md").read_text()
    assert with_layers(README, page) == README, "run python docs/class_tables.py"
    changed = page.replace("| MLCSoftmaxLayer | float32", "| MLCOtherLayer | float32")
    assert with_layers(README, changed) != README


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
