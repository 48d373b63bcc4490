"""Reads the tables of Apple's names, python/inventory.tsv and mps/inventory.tsv, line by line."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """Members with one Python spelling, or none; a case has a value."""

    owner: str
    members: tuple[str, ...]
    spelling: str = ""
    value: int | None = None

    def __str__(self) -> str:
        return f"{self.owner}: {self.spelling or ' '.join(self.members)}"

    @property
    def name(self) -> str:
        return self.spelling.partition("(")[0]

    @property
    def arguments(self) -> list[str]:
        return re.findall(r"(\w+)(?:=[^,]*)?(?:, |$)", self.spelling.partition("(")[2].rstrip(")"))

    @property
    def kind(self) -> str:
        if not self.spelling:
            return "left out"
        if self.value is not None:
            return "case"
        if "(" not in self.spelling:
            return "property"
        if self.name == self.owner:
            return "constructor"
        return "static" if self.members[0].startswith("+") else "method"

    @property
    def is_writable(self) -> bool:
        """A property has its setter beside it."""
        return any(re.fullmatch(r"set\w+:", member) for member in self.members)


def parse(lines: Iterable[str]) -> dict[str, list[Row]]:
    """The rows of each class, protocol or enum; a class without members has a line of its own."""
    table: dict[str, list[Row]] = {}
    for line in lines:
        if not line.startswith("#"):
            owner, members, spelling, value = (*line.split("\t"), "", "", "")[:4]
            rows = table.setdefault(owner, [])
            if members:
                number = int(value) if value else None
                rows.append(Row(owner, tuple(members.split()), spelling, number))
    return table


def read(path: Path) -> dict[str, list[Row]]:
    return parse(path.read_text().splitlines())


def is_enum(rows: Iterable[Row]) -> bool:
    return any(row.value is not None for row in rows)
