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
    _, said, _ = re.split(r"<!-- layers.*-->\n|<!-- end -->\n", README)
    rows = re.findall(r"^\| MLC(\w+)Layer \| [^|]*float32[^|]* \| (.*) \|$", page, re.MULTILINE)
    assert f"All {len(rows)} layers run on *reference*, *cpu* and *cuda*." in said
    for name, cells in rows:
        exception = re.search(
            rf"^\| (?:[\w, ]+, )?{name}(?:, [\w, ]+)? \| (.*) \|$", said, re.MULTILINE
        )
        *whole, metal, bnns = cells.split(" | ")
        assert set(whole) == {"runs"}
        assert (exception[1] if exception else "runs | runs") == f"{metal} | {bnns}", name


def test_what_changes_on_the_page_changes_the_readme() -> None:
    with_layers = runpy.run_path(str(ROOT / "docs" / "class_tables.py"))["with_layers"]
    head = "| layer | types | reference | cpu | cuda | metal | bnns |\n"
    runs = "| MLCSoftmaxLayer | float32, float64 | runs | runs | runs | runs | runs |\n"
    odd = "| MLCLossLayer | float32 | runs | runs | no kernel of loss | composed | runs |\n"
    other = "| MLCLossLayer | int8 | x | x | x | x | x |\n"
    empty = "a\n<!-- layers: docs/class_tables.py -->\n<!-- end -->\nb\n"

    def said(page: str) -> str:
        return with_layers(empty, page).split("-->\n")[1].removesuffix("<!-- end ")

    devices = "*reference*, *cpu*"
    assert said(head + runs + other) == (
        f"All 1 layers run on {devices}, *cuda*, *metal* and *bnns*.\n"
    )
    assert said(head + runs + odd + other) == (
        f"All 2 layers run on {devices} and *bnns*. On *cuda* and *metal* these have no kernel of "
        "their own:\n\n| layers | cuda | metal |\n|---|---|---|\n| Loss | no | composed |\n"
    )


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
