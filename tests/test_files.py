"""Rules for every file: its length, its first sentence, and names that it may not contain."""

import re

import pytest

from tracked_files import ROOT, SOURCE_FILES, relative, tracked

# Generated text and licences may be longer.
CODE = (*SOURCE_FILES, ".py", ".cmake")
LONG_REASON = re.compile(r"^\W*Over 400 lines: \w+", re.MULTILINE)
OPENING = re.compile(r'(#!.*\n)?("""|// )[A-Z`\d][^"]*?[.:](\s|"""|$)')


def too_long(text: str, tests: bool = False) -> str:
    lines = text.splitlines()
    if len(lines) > 800:
        return f"{len(lines)} lines, at most 800"
    if len(lines) > 400 and not tests and not LONG_REASON.search("\n".join(lines[:10])):
        return f"{len(lines)} lines without 'Over 400 lines: <reason>' at the top"
    return ""


def test_files_are_short() -> None:
    """A list of tests may be long without a reason."""
    found = {
        relative(path): too_long(path.read_text(), path.name.startswith("test_"))
        for path in tracked()
        if path.suffix in CODE
    }
    assert {path: reason for path, reason in found.items() if reason} == {}


def test_a_long_file_is_found() -> None:
    assert not too_long("x\n" * 400)
    assert too_long("x\n" * 401)
    assert not too_long("// Over 400 lines: one table.\n" + "x\n" * 600)
    assert too_long("// Over 400 lines: one table.\n" + "x\n" * 800)
    assert not too_long("x\n" * 800, tests=True)
    assert too_long("x\n" * 801, tests=True)


# Put together here, so that this file does not contain what it looks for.
FOLDERS = "|".join(("work", "tmp", "root", "Users", "home", "build", "mnt"))
MACHINE_PATH = re.compile(rf"(?<![\w.$)}}\]>*:/-])/({FOLDERS})/\w")
REGISTRY = re.compile("pypi" + r"\.(org|python\.org)|" + "files.python" + "hosted")


def local_names(text: str) -> list[str]:
    return [match.group() for rule in (MACHINE_PATH, REGISTRY) for match in rule.finditer(text)]


def test_nothing_names_a_machine() -> None:
    wrong = {}
    for path in tracked():
        if "licenses" in path.parts or path.suffix in (".png", ".npz", ".so"):
            continue
        # Anchored patterns: folders inside the repository.
        found = [] if path.name == ".gitignore" else local_names(path.read_text(errors="replace"))
        if found:
            wrong[relative(path)] = found
    assert wrong == {}


def test_a_machine_path_is_found() -> None:
    assert local_names('open("' + "/".join(("", "tmp", "x")) + '")')
    assert local_names("see " + "/".join(("", "home", "somebody")))
    assert local_names("https://" + "pypi" + ".org/simple")
    assert not local_names("cpp/build/x and ${DIR}/tmp/x and tests/work/x")


# --- first sentences -----------------------------------------------------------------------------


def opens_with_a_sentence(text: str) -> bool:
    """Whether a comment or a docstring begins the file and ends a sentence."""
    match = OPENING.match(text)
    if match is None:
        return False
    return match[2] == '"""' or all(line.startswith("//") for line in match[0].splitlines())


def test_longer_files_open_with_a_sentence() -> None:
    """Of more than 60 lines: what the file is for, before anything else."""
    longer = {
        relative(path): text
        for path in tracked()
        if path.suffix in (*SOURCE_FILES, ".py")
        if len((text := path.read_text()).splitlines()) > 60
    }
    assert len(longer) > 900
    assert [path for path, text in longer.items() if not opens_with_a_sentence(text)] == []


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("// Sums of rows.\n#pragma once\n", True),
        ("// Sums of rows,\n// in order.\n", True),
        ('"""Sums of rows."""\n', True),
        ('#!/usr/bin/env python\n"""Sums of rows."""\n', True),
        ("#pragma once\n// Sums of rows.\n", False),
        ("// Sums of rows\nint x = 1.;\n", False),
        ("import os\n", False),
    ],
)
def test_an_opening_is_found(text: str, good: bool) -> None:
    assert opens_with_a_sentence(text) == good


# --- the root -----------------------------------------------------------------------------------

# Folders, and files that people and tools look for there.
IN_THE_ROOT = {
    ".ci", ".clang-format", ".clang-tidy", ".editorconfig", ".gitattributes", ".github",
    ".gitignore", ".pre-commit-config.yaml", "CHANGELOG.md", "CMakeLists.txt", "CMakePresets.json",
    "CONTRIBUTING.md", "LICENSE", "README.md", "SECURITY.md", "benchmarks", "cpp", "docs",
    "examples", "pyproject.toml", "python", "tests", "third_party", "tools",
}  # fmt: skip


def test_the_root_holds_what_belongs_there() -> None:
    assert {relative(path).split("/")[0] for path in tracked()} - IN_THE_ROOT == set()


# --- internals of pybind11 --------------------------------------------------------------------

# What another minor version may change; casters and function calls are what extensions are made of.
INTERNALS = re.compile(
    r"\bdetail::(\w*internals|instance|make_new_instance|type_record|(get_)?type_info|generic_type|"
    r"register_instance|values?_and_holders?|function_record|npy_api|array_proxy|holder_enum_t)\b"
)


def test_the_files_that_use_internals_of_pybind11_are_named() -> None:
    named = re.search(
        r"^Internals of pybind11 .*$", (ROOT / "third_party/README.md").read_text(), re.M
    )
    assert named is not None
    assert sorted(re.findall(r"`([\w/]+\.(?:h|cpp))`", named.group())) == sorted(
        path.relative_to(ROOT / "python/bindings").as_posix()
        for path in tracked()
        if path.is_relative_to(ROOT / "python/bindings")
        and path.suffix in SOURCE_FILES
        and INTERNALS.search(path.read_text())
    )
