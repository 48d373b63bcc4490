"""What README.md says is what happens, and links of every page lead somewhere."""

import collections
import re
import shlex
from pathlib import Path

import pytest

from tracked_files import ROOT, relative, tracked

README = (ROOT / "README.md").read_text()


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_first_program_is_the_short_one() -> None:
    """That test_short_networks counts and runs."""
    (example,) = blocks("python")
    assert example in (ROOT / "tests/train/short_mlp.py").read_text()


def test_commands_are_the_ones_that_are_run() -> None:
    (train,) = blocks("sh")
    test = blocks("sh", (ROOT / "docs/testing.md").read_text())[0]
    assert f"{test.strip()} || exit" in (ROOT / ".ci/run").read_text().splitlines()
    assert len(train.splitlines()) == len(test.splitlines()) == 1
    install, run = train.split(" && ")
    assert shlex.split(install) == ["pip", "install", "-v", ".[examples]"]
    assert (ROOT / shlex.split(run)[1]).is_file()


def test_the_version_and_the_licence_are_those_of_the_package() -> None:
    version = re.search(r"traingraph VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())
    licence = (ROOT / "LICENSE").read_text().split()[0]
    assert version is not None
    assert f"Version {version[1]}, {licence} licence." in README
    assert f"\n## {version[1]} " in (ROOT / "CHANGELOG.md").read_text()


def test_the_first_screen_says_for_whom_it_is() -> None:
    """In 25 lines: what it is, when to use it and when not, and where to begin."""
    before = README[: README.index("```")]
    assert len(before.splitlines()) <= 25
    assert before.index("**Use it if**") < before.index("**Don't use it if**")
    assert all(f"docs/{page}.md" in before for page in ("quickstart", "install", "recipes"))


# --- links ---------------------------------------------------------------------------------------

PAGES = sorted(path for path in tracked() if path.suffix == ".md" and ".github" not in path.parts)
LINK = re.compile(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)")


def anchors(text: str) -> set[str]:
    """Of the headings, as the sites of repositories make them."""
    text = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.MULTILINE | re.DOTALL)
    found: collections.Counter[str] = collections.Counter()
    names = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        names.add(f"{name}-{found[name]}" if found[name] else name)
        found[name] += 1
    return names


def broken_links(path: Path, text: str) -> list[str]:
    text = re.sub(r"^( *)```.*?^\1```$", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\]\n *", "] ", text)
    wrong = []
    for target, anchor in LINK.findall(text):
        file = (path.parent / target).resolve() if target else path
        if target and not (file.exists() and file.is_relative_to(ROOT)):
            wrong.append(target)
        elif anchor and anchor not in anchors(text if file == path else file.read_text()):
            wrong.append(f"{target}#{anchor}")
    return wrong


@pytest.mark.parametrize("path", PAGES, ids=relative)
def test_links_lead_somewhere(path: Path) -> None:
    assert broken_links(path, path.read_text()) == []


def test_a_broken_link_is_found() -> None:
    text = "## A `b`, c\n## Same\n## Same\n"
    assert (
        broken_links(ROOT / "x.md", text + "[a](#a-b-c) [s](#same-1) [r](README.md#install)") == []
    )
    assert broken_links(ROOT / "x.md", text + "[a](#a-b)") == ["#a-b"]
    assert broken_links(ROOT / "x.md", "[a](no.md) [b](README.md#no)") == ["no.md", "README.md#no"]


def test_every_page_is_reached_from_the_index() -> None:
    """The index of docs names each page beside it and below it, but those that a page lists."""
    index = (ROOT / "docs/README.md").read_text()
    named = {(ROOT / "docs" / target).resolve() for target, _ in LINK.findall(index)}
    every = {path for path in PAGES if path.is_relative_to(ROOT / "docs")}
    classes = {path for path in every if path.parent.name == "classes" and path.stem != "README"}
    assert every - named - classes - {ROOT / "docs/README.md"} == set()
    listed = LINK.findall((ROOT / "docs/classes/README.md").read_text())
    assert {path.name for path in classes} <= {target for target, _ in listed}


def test_it_says_what_it_is_not() -> None:
    text = " ".join(README.split())
    assert (
        "an independent implementation, not affiliated with or endorsed by Apple; no relation to "
        "MLC-LLM or to PyTorch's MPS backend"
    ) in text
