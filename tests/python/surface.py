"""ML Compute's inventory, what of it is not here, and what the package has of the rest."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import traingraph
from inventory import Row, is_enum, read

TABLE = read(Path(__file__).parent / "inventory.tsv")
# Classes of ours beside Apple's, under names like theirs, and what they are for.
OURS = {
    "MLCExecution": "what execute and its like give: result, time and the call's handle",
}
ENUMS = {owner: rows for owner, rows in TABLE.items() if is_enum(rows)}
CLASSES = {owner: rows for owner, rows in TABLE.items() if owner not in ENUMS}
KINDS = ("case", "property", "static", "method", "constructor")


def rows(*kinds: str) -> Iterator[Row]:
    """Of the classes and enums that are here, by kind."""
    for members in TABLE.values():
        yield from (row for row in members if row.kind in kinds)


def why_left_out(row: Row) -> str:
    """Of what Apple's headers have and the inventory gives no spelling."""
    if row.value is not None:
        return "the case 0 that Swift does not name"
    if row.members == ("-init", "+new"):
        return "unavailable in Apple's own headers"
    return "Objective-C spelling of another initialiser"


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
    if row.kind == "case":
        return owner.__members__.get(row.name) == row.value
    if row.kind == "constructor":
        return takes(owner, "__init__", row.arguments)
    attribute = inspect.getattr_static(owner, row.name, None)
    if row.kind == "property":
        return isinstance(attribute, property)
    wanted = isinstance(attribute, staticmethod) == (row.kind == "static")
    return attribute is not None and wanted and takes(owner, row.name, row.arguments)
