"""How much of ML Compute's surface is here: n of n rows, and what is left out with its reason."""

import re

import pytest
from surface import (
    CLASSES,
    ENUMS,
    KINDS,
    OURS,
    TABLE,
    is_there,
    rows,
    why_left_out,
)

import traingraph
from inventory import Row


def report() -> tuple[str, set[Row]]:
    """One line per owner and a sum; the rows that are not here."""
    absent = {row for row in rows(*KINDS) if not is_there(row)}
    lines = []
    for owner, members in TABLE.items():
        own = [row for row in members if row.kind in KINDS]
        lacking = [row for row in own if row in absent]
        lines.append(f"{owner}: {len(own) - len(lacking)} of {len(own)}")
        lines += [f"    missing: {row.spelling}" for row in lacking]
    total = len(list(rows(*KINDS)))
    lines.append(f"together: {total - len(absent)} of {total}")
    lines += [f"left out: {row}: {why_left_out(row)}" for row in rows("left out")]
    return "\n".join(lines), absent


def test_every_row_is_here() -> None:
    text, absent = report()
    print(text)  # pytest -s shows it
    assert absent == set(), text


def test_the_report_sees_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = [
        Row("MLCTensor", ("colour",), "colour"),
        Row("MLCTensor", ("label",), "label()"),
        Row("MLCTensor", ("-copy",), "copy(colour)"),
        Row("MLCTensor", ("+copy",), "copy()"),
        Row("MLCTensor", ("+colour",), "MLCTensor(colour=)"),
        Row("MLCDataType", ("MLCDataTypeInvalid",), "INVALID", 0),
        Row("MLCDataType", ("MLCDataTypeFloat32",), "FLOAT32", 2),
        Row("MLCColour", ("MLCColourRed",), "RED", 0),
    ]
    assert [row for row in missing if is_there(row)] == []
    assert is_there(Row("MLCTensor", ("-copyWithZone:",), "copy()"))
    monkeypatch.delattr(traingraph, "MLCPlatform")
    monkeypatch.delattr(traingraph.MLCTensor, "label")
    monkeypatch.delattr(traingraph.MLCDropoutLayer, "rate")  # of a description
    text, absent = report()
    assert {str(row) for row in absent} == {
        "MLCPlatform: set_rng_seed_to(seed)", "MLCPlatform: get_rng_seed()", "MLCTensor: label",
        "MLCDropoutLayer: rate",
    }  # fmt: skip
    with pytest.raises(AssertionError, match="missing: rate"):
        test_every_row_is_here()
    assert re.search(r"^MLCPlatform: 0 of 2$", text, re.MULTILINE)
    assert re.search(r"^    missing: label$", text, re.MULTILINE)


def test_the_table_has_lost_no_line() -> None:
    """A line of what is here could else go, and nothing would be missing."""
    every = [row for members in TABLE.values() for row in members]
    assert len(set(every)) == len(every)
    assert (len(TABLE), len(ENUMS), len(every)) == (75, 19, 663)


def test_every_class_is_apples_or_ours() -> None:
    exported = {name for name in traingraph.__all__ if name.startswith("MLC")}
    assert set(TABLE) | set(OURS) == exported
    assert not set(OURS) & set(TABLE)


def left_out(reason: str) -> list[str]:
    return sorted({row.owner for row in rows("left out") if why_left_out(row) == reason})


@pytest.mark.parametrize("owner", left_out("unavailable in Apple's own headers"))
def test_empty_objects_are_refused(owner: str) -> None:
    """`init` and `new` without arguments."""
    cls = getattr(traingraph, owner)
    assert not hasattr(cls, "new")
    if owner != "MLCMatMulDescriptor":  # a matrix product has a default for everything
        with pytest.raises(TypeError):
            cls()


@pytest.mark.parametrize("owner", left_out("Objective-C spelling of another initialiser"))
def test_other_spellings_of_initialisers_are_missing(owner: str) -> None:
    """They would be static methods, as class methods with a spelling are."""
    static = [
        n
        for n, value in vars(getattr(traingraph, owner)).items()
        if isinstance(value, staticmethod)
    ]
    assert static == [row.name for row in CLASSES[owner] if row.kind == "static"]


@pytest.mark.parametrize("owner", left_out("the case 0 that Swift does not name"))
def test_a_case_without_a_name_is_missing(owner: str) -> None:
    assert 0 not in map(int, getattr(traingraph, owner))
