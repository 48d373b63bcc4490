"""The project's own table of ML Compute's names, and what the package has of it."""

import inspect
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import traingraph

TABLE = json.loads((Path(__file__).parent / "naming.json").read_text())
ENUMS: dict[str, dict[str, Any]] = TABLE["enums"]
CLASSES: dict[str, dict[str, Any]] = TABLE["classes"]
# Reason -> owner -> what Apple's headers have and the package has not, on purpose.
LEFT_OUT: dict[str, dict[str, list[str]]] = TABLE["left_out"]


@dataclass(frozen=True)
class Row:
    """One member, initialiser or case: its owner, what it is, its name and arguments."""

    owner: str
    kind: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        name, *arguments = self.words or ("",)
        if self.kind == "constructors":
            return f"{self.owner}({', '.join(self.words)})"
        call = "" if self.kind in ("properties", "cases") else f"({', '.join(arguments)})"
        return f"{self.owner}.{name}{call}"


def rows(*kinds: str) -> Iterator[Row]:
    """Of the classes, by kind: properties, statics, methods, constructors."""
    for owner, members in CLASSES.items():
        for kind in kinds:
            for row in members.get(kind, []):
                yield Row(owner, kind, (row,) if isinstance(row, str) else tuple(row))


def cases() -> Iterator[Row]:
    for owner, members in ENUMS.items():
        for case in members["cases"]:
            yield Row(owner, "cases", (case,))


def argument_lists(cls: type, name: str) -> list[list[str]]:
    """The arguments of each form, from the signature lines of the docstring."""
    text = inspect.getattr_static(cls, name)
    documentation = getattr(text, "__func__", text).__doc__ or ""
    forms = []
    for line in documentation.splitlines():
        found = re.match(rf"(?:\d+\. )?{name}\((.*)\) -> ", line)
        if found:
            names = re.findall(r"(?:^|, )(\w+)(?=: )", re.sub(r"\[[^\]]*\]", "", found[1]))
            forms.append([name for name in names if name != "self"])
    return forms


def is_subsequence(part: list[str], whole: list[str]) -> bool:
    remaining = iter(whole)
    return all(item in remaining for item in part)


def takes(cls: type, name: str, arguments: list[str]) -> bool:
    """Whether some form of the call has these arguments in this order."""
    return any(is_subsequence(arguments, form) for form in argument_lists(cls, name))


def is_there(row: Row) -> bool:
    """Whether the package has it, as the kind of member that it is and with its arguments."""
    owner = getattr(traingraph, row.owner, None)
    if owner is None:
        return False
    if row.kind == "cases":
        return row.words[0] in owner.__members__
    if row.kind == "constructors":
        return takes(owner, "__init__", list(row.words))
    name, *arguments = row.words
    attribute = inspect.getattr_static(owner, name, None)
    if row.kind == "properties":
        return isinstance(attribute, property)
    wanted = isinstance(attribute, staticmethod) == (row.kind == "statics")
    return attribute is not None and wanted and takes(owner, name, arguments)
