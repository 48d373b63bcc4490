"""How much of the MPS inventory is here: n of n, and what is missing with its reason."""

import contextlib
import inspect
import re
import typing
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from inventory import Row, is_enum, read
from traingraph import mps

CLASS_METHODS = (staticmethod, classmethod)
FOLDER = Path(__file__).parent
TABLE = read(FOLDER / "inventory.tsv")
# Beside Apple's classes: under names like theirs, what is ours and what it is for.
OURS = {
    "NSKeyedArchiver": "Foundation's, which MPS's kernels are archived with",
    "MPSImageBatch": "a typedef of Apple's",
    "MPSStateBatch": "a typedef of Apple's",
}
MISSING_NAMES = (FOLDER / "missing_names.txt").read_text()


def missing_names() -> Iterator[list[str]]:
    """Patterns: of classes alone, or of classes and their members."""
    for block in MISSING_NAMES.split("\n\n")[1:]:  # the first one says what the file is
        reason, *lines = block.splitlines()
        assert not reason.startswith(" "), reason
        yield from map(str.split, lines)


def forms(function: Any, name: str) -> list[set[str]]:
    """Argument names of each signature line that a docstring begins with, or of the overloads."""
    function = getattr(function, "__func__", function)
    if inspect.isfunction(function):
        every = typing.get_overloads(function) or [function]
        plain = [getattr(one, "__func__", one) for one in every]
        return [set(inspect.signature(one).parameters) for one in plain]
    lines = re.findall(rf"^(?:\d+\. )?{name}\((.*)\) ->", inspect.getdoc(function) or "", re.M)
    return [set(re.findall(r"(\w+):", line)) for line in lines]


def takes(function: Any, name: str, row: Row) -> bool:
    return not row.arguments or any(set(row.arguments) <= form for form in forms(function, name))


def source_has(cls: Any, row: Row) -> bool:
    """A user's class has it: as an attribute, or as a method with arguments by position."""
    method = getattr(cls, row.name, None)
    if method is None:
        return row.kind == "property" and row.name in typing.get_type_hints(cls)
    return len(inspect.signature(method).parameters) == len(["self", *row.arguments])


def is_here(row: Row) -> bool:
    """As the kind of member that it is, with its arguments or its value, settable if Apple's is."""
    cls = getattr(mps, row.owner, None)
    if cls is None:
        return False
    if row.kind == "case":
        return row.name in cls.__members__ and int(cls[row.name]) == row.value
    if row.kind == "constructor":
        return "__init__" in vars(cls) and takes(cls.__init__, "__init__", row)
    if row.owner.endswith("DataSource"):
        return source_has(cls, row)
    attribute = inspect.getattr_static(cls, row.name, None)
    if row.kind == "property":
        writable = getattr(attribute, "fset", None) is not None
        return isinstance(attribute, property) and writable >= row.is_writable
    method = getattr(cls, row.name, None)
    if not callable(method) or isinstance(attribute, CLASS_METHODS) != (row.kind == "static"):
        return False
    return takes(method, row.name, row)


def offered(owner: str) -> list[Row]:
    return [row for row in TABLE[owner] if row.kind != "left out"]


def report() -> tuple[str, set[str], set[Row]]:
    """A line per owner and a sum; the owners that are not here, and rows of the others."""
    absent = {owner for owner in TABLE if not hasattr(mps, owner)}
    missing = {row for owner in TABLE for row in offered(owner) if not is_here(row)}
    lines = []
    for owner in TABLE:
        own = offered(owner)
        lacking = [row for row in own if row in missing]
        lines.append(f"{owner}: {len(own) - len(lacking)} of {len(own)}")
        lines += [f"    missing: {row.spelling}" for row in lacking if owner not in absent]
    total = sum(len(offered(owner)) for owner in TABLE)
    lines.append(f"together: {total - len(missing)} of {total}")
    return "\n".join(lines), absent, {row for row in missing if row.owner not in absent}


def found(pattern: list[str]) -> set[Any]:
    """The owners that a line of missing_names.txt is about, or the rows."""
    owners = {owner for owner in TABLE if fnmatchcase(owner, pattern[0])}
    rows = [row for owner in owners for row in offered(owner)]
    each = [
        {row for row in rows if any(fnmatchcase(member, one) for member in row.members)}
        for one in pattern[1:]
    ]
    assert owners, pattern
    assert all(each), pattern
    return set().union(*each) if each else owners


def test_what_is_missing_has_a_reason() -> None:
    """What is listed is missing, and what is missing is listed, once."""
    text, absent, missing = report()
    print(text, MISSING_NAMES, sep="\n\n")  # pytest -s shows it
    listed = [one for pattern in missing_names() for one in found(pattern)]
    assert len(listed) == len(set(listed))
    assert set(listed) == absent | missing, text


def test_the_table_has_lost_no_line() -> None:
    """A line of what is here could else go, and nothing would be missing."""
    enums = [owner for owner, rows in TABLE.items() if is_enum(rows)]
    rows = [row for rows in TABLE.values() for row in rows]
    assert len(set(rows)) == len(rows)
    assert (len(TABLE), len(enums), len(rows)) == (354, 29, 1835)


def test_the_table_has_every_class_of_the_package() -> None:
    metal = {n for n in mps.__all__ if n.startswith("MTL") or n[0].islower()}
    own = set(mps.__all__) - metal - set(TABLE)
    assert own == set(OURS)
    assert all(inspect.getdoc(getattr(mps, name)) for name in mps.__all__)


UNAVAILABLE = [
    (owner, member)
    for owner, rows in TABLE.items()
    for row in rows
    for member in row.members
    if hasattr(mps, owner) and row.kind == "left out" and member in ("-init", "-initWithDevice:")
]
# Our initialiser takes this call of an unavailable one: an image node without a handle has nil.
WITH_DEFAULTS = {"MPSNNImageNode"}


@pytest.mark.parametrize(("owner", "member"), UNAVAILABLE)
def test_an_unavailable_initialiser_is_refused(owner: str, member: str) -> None:
    given = {} if member == "-init" else {"device": mps.create_system_default_device()}
    refused = contextlib.nullcontext() if owner in WITH_DEFAULTS else pytest.raises(TypeError)
    with refused:
        getattr(mps, owner)(**given)


def test_a_gradient_of_dilated_pooling_needs_its_rates() -> None:
    sizes = {"kernel_width": 3, "kernel_height": 3, "stride_in_pixels_x": 1}
    device = mps.create_system_default_device()
    with pytest.raises(TypeError, match="missing: dilation_rate_x"):
        mps.MPSCNNDilatedPoolingMaxGradient(device=device, **sizes)


def test_the_report_sees_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        Row("MPSColour", ("red",), "red"),
        Row("MPSCNNConvolution", ("-x",), "MPSCNNConvolution(device=, colour=)"),
        Row("MPSCNNConvolution", ("colour",), "colour"),
        Row("MPSCNNConvolution", ("groups", "setGroups:"), "groups"),
        Row("MPSCNNConvolution", ("-groups",), "groups()"),
        Row("MPSImage", ("readBytes",), "read_bytes"),
        Row("MPSImage", ("+width",), "width()"),
        Row("MPSCNNLossType", ("x",), "HUBER", 0),
        Row("MPSCNNLossType", ("x",), "COLOUR", 0),
        Row("MPSCNNConvolutionDataSource", ("-x",), "descriptor(colour)"),
    ]
    assert [row for row in rows if is_here(row)] == []
    assert is_here(Row("MPSCNNConvolution", ("-x",), "MPSCNNConvolution(device=, weights=)"))
    monkeypatch.delattr(mps, "MPSCNNAdd")
    monkeypatch.delattr(mps.MPSImage, "width")
    monkeypatch.delattr(mps.MPSCNNDropout, "keep_probability")  # of a description
    _, absent, missing = report()
    assert "MPSCNNAdd" in absent
    found = {str(row) for row in missing}
    assert {"MPSImage: width", "MPSCNNDropout: keep_probability"} <= found
    with pytest.raises(AssertionError, match="missing: keep_probability"):
        test_what_is_missing_has_a_reason()
