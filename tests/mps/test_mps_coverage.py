"""How much of the MPS inventory is here: n of n, and what is missing with its reason."""

import inspect
import json
import re
import typing
from pathlib import Path
from typing import Any

from traingraph import mps

TABLE = json.loads((Path(__file__).parent / "naming.json").read_text())
CLASSES: dict[str, list[str]] = TABLE["classes"]  # class -> spellings of its own members
ENUMS: dict[str, dict[str, int]] = TABLE["enums"]
# Reason -> spellings as "Class: member", or names of classes.
NOT_YET: dict[str, list[str]] = TABLE["not_yet"]
# Where the inventory that the table was made from lies, for those who have it.
INVENTORY = Path(__file__).resolve().parents[2] / "../shared/spec/mps_api.json"


def parse(spelling: str) -> tuple[str, list[str], bool]:
    """Name, arguments, and whether it is called at all."""
    match = re.match(r"^(\w+)(?:\((.*)\))?$", spelling)
    assert match, spelling
    arguments = [one.strip().split("=")[0] for one in (match[2] or "").split(",") if one.strip()]
    return match[1], arguments, match[2] is not None


def forms(function: Any, name: str) -> list[set[str]]:
    """Argument names of each signature line that a docstring begins with, or of the overloads."""
    function = getattr(function, "__func__", function)
    if inspect.isfunction(function):
        every = typing.get_overloads(function) or [function]
        plain = [getattr(one, "__func__", one) for one in every]
        return [set(inspect.signature(one).parameters) for one in plain]
    lines = re.findall(rf"^(?:\d+\. )?{name}\((.*)\) ->", inspect.getdoc(function) or "", re.M)
    return [set(re.findall(r"(\w+):", line)) for line in lines]


def is_there(owner: str, spelling: str) -> bool:
    cls = getattr(mps, owner, None)
    name, arguments, called = parse(spelling)
    if cls is None:
        return False
    member = cls.__init__ if name == owner else getattr(cls, name, None)
    if member is None or (name == owner and "__init__" not in vars(cls)):
        return False
    if not called:
        return not callable(member)
    if isinstance(inspect.getattr_static(cls, name, None), property) or not callable(member):
        return False
    found = forms(member, "__init__" if name == owner else name)
    if not arguments:
        return True
    return any(set(arguments) <= form for form in found)


def every() -> list[str]:
    rows = [f"{owner}: {member}" for owner, members in CLASSES.items() for member in members]
    return rows + [f"{owner}: {case}" for owner, cases in ENUMS.items() for case in cases]


def is_here(row: str) -> bool:
    owner, member = row.split(": ")
    if owner in ENUMS:
        cases = getattr(mps, owner).__members__
        return member in cases and int(cases[member]) == ENUMS[owner][member]
    return is_there(owner, member)


def report() -> tuple[str, set[str]]:
    rows = every()
    absent = {row for row in rows if not is_here(row)}
    lines = []
    for owner in [*CLASSES, *ENUMS]:
        own = [row for row in rows if row.startswith(f"{owner}: ")]
        lines.append(f"{owner}: {sum(row not in absent for row in own)} of {len(own)}")
    lines.append(f"together: {len(rows) - len(absent)} of {len(rows)}")
    for reason, missing in NOT_YET.items():
        lines.append(f"not yet, {reason}: {len(missing)}")
        lines += [f"    {row}" for row in missing]
    return "\n".join(lines), absent


def test_what_is_missing_has_a_reason() -> None:
    """What is listed is missing, and what is missing is listed."""
    text, absent = report()
    print(text)  # pytest -s shows it
    listed = [row for missing in NOT_YET.values() for row in missing]
    assert len(listed) == len(set(listed))
    assert absent == {row for row in listed if ": " in row}, text
    assert not any(hasattr(mps, name) for name in listed if ": " not in name)


def test_the_report_sees_what_is_missing() -> None:
    assert is_there("MPSCNNConvolution", "MPSCNNConvolution(device=, weights=)")
    assert not is_there("MPSCNNConvolution", "MPSCNNConvolution(device=, colour=)")
    assert not is_there("MPSCNNConvolution", "colour")
    assert not is_there("MPSCNNConvolution", "groups()")
    assert not is_there("MPSImage", "read_bytes")
    assert is_there("MPSImage", "width")
    assert re.search(r"^together: \d+ of \d+$", report()[0], re.MULTILINE)


def test_the_table_has_every_class_of_the_package() -> None:
    own = {n for n in mps.__all__ if n.startswith("MTL") or n[0].islower()}
    own |= {"NSKeyedArchiver", "MPSImageBatch", "MPSStateBatch"}  # the latter are typedefs
    protocols = {n for n in mps.__all__ if n.endswith("DataSource")}
    assert set(CLASSES) | set(ENUMS) == set(mps.__all__) - own - protocols
    assert all(inspect.getdoc(getattr(mps, name)) for name in mps.__all__)


def test_the_table_is_the_inventorys() -> None:
    """Where the inventory is: no spelling is lost, and no class is left without a word."""
    if not INVENTORY.exists():
        return
    inventory = json.loads(INVENTORY.read_text())
    for owner, members in CLASSES.items():
        rows = inventory["classes"][owner]
        spelled = [m["python"] for m in (*rows["properties"], *rows["methods"]) if m["python"]]
        assert sorted(set(spelled)) == sorted(members), owner
    named = {name for missing in NOT_YET.values() for name in missing}
    assert set(inventory["classes"]) <= set(CLASSES) | named
