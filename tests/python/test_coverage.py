"""How much of ML Compute's surface is here: n of n rows, and what is left out with its reason."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from surface import CLASSES, ENUMS, LEFT_OUT, Row, cases, is_there, rows

import traingraph

# Where the inventory that the table was made from lies, for those who have it.
INVENTORY = Path(__file__).resolve().parents[2] / "../shared/spec/mlcompute_api.json"
KINDS = ("properties", "statics", "methods", "constructors")
# Classes whose rows must all be here, whatever layers are still to come.
COMPLETE = {
    "MLCGraph", "MLCTrainingGraph", "MLCInferenceGraph", "MLCTensor", "MLCTensorData",
    "MLCTensorDescriptor", "MLCTensorParameter", "MLCTensorOptimizerDeviceData", "MLCDevice",
    "MLCPlatform", "MLCLayer", "MLCOptimizer", "MLCSGDOptimizer", "MLCAdamOptimizer",
    "MLCAdamWOptimizer", "MLCRMSPropOptimizer", "MLCOptimizerDescriptor", "MLCSplitLayer",
    "MLCGatherLayer", "MLCScatterLayer", "MLCSelectionLayer",
}  # fmt: skip


def report() -> tuple[str, set[Row]]:
    """One line per owner and a sum; the rows that are not here."""
    every = [*rows(*KINDS), *cases()]
    absent = {row for row in every if not is_there(row)}
    lines = []
    for owner in [*CLASSES, *ENUMS]:
        own = [row for row in every if row.owner == owner]
        lacking = [row for row in own if row in absent]
        names = "".join(f"\n    missing: {row}" for row in lacking)
        lines.append(f"{owner}: {len(own) - len(lacking)} of {len(own)}{names}")
    lines.append(f"together: {len(every) - len(absent)} of {len(every)}")
    for reason, owners in LEFT_OUT.items():
        lines.append(f"left out, {reason}:")
        lines += [f"    {owner} {', '.join(names)}" for owner, names in owners.items()]
    return "\n".join(lines), absent


def test_every_row_is_here() -> None:
    text, absent = report()
    print(text)  # pytest -s shows it
    assert absent == set(), text


def test_the_report_sees_what_is_missing() -> None:
    missing = [
        Row("MLCTensor", "properties", ("colour",)),
        Row("MLCTensor", "methods", ("copy", "colour")),
        Row("MLCTensor", "statics", ("copy",)),
        Row("MLCTensor", "constructors", ("colour",)),
        Row("MLCDataType", "cases", ("INVALID",)),
        Row("MLCColour", "cases", ("RED",)),
    ]
    assert not any(is_there(row) for row in missing)
    assert is_there(Row("MLCTensor", "methods", ("copy",)))
    text, _ = report()
    assert re.search(r"^together: \d+ of \d+$", text, re.MULTILINE)
    assert re.search(r"^MLCPlatform: 2 of 2$", text, re.MULTILINE)


def test_the_table_has_the_classes_and_all_enums() -> None:
    assert set(CLASSES) >= COMPLETE
    exported = {
        name for name in traingraph.__all__ if name.startswith("MLC") and name != "MLCExecution"
    }
    assert set(CLASSES) | set(ENUMS) == exported


UNAVAILABLE = LEFT_OUT["unavailable in Apple's own headers"]


# A matrix product has a default for everything.
@pytest.mark.parametrize("owner", sorted(set(UNAVAILABLE) - {"MLCMatMulDescriptor"}))
def test_empty_objects_are_refused(owner: str) -> None:
    """What Apple marks as unavailable: `init` and `new` without arguments."""
    cls = getattr(traingraph, owner)
    with pytest.raises(TypeError):
        cls()
    assert not hasattr(cls, "new")


def spelled(owner: str, text: str) -> tuple[str, ...]:
    """("copy",) of "copy()"; the arguments alone for a constructor."""
    found = re.fullmatch(r"(\w+)(?:\((.*)\))?", text)
    assert found is not None, text
    arguments = re.findall(r"(\w+)(?:=[^,]*)?", re.sub(r"=[^,)]*", "", found[2] or ""))
    return tuple(arguments) if found[1] == owner else (found[1], *arguments)


@pytest.fixture(scope="module")
def inventory() -> Any:
    if not INVENTORY.exists():
        pytest.skip("the inventory is not beside the repository")
    return json.loads(INVENTORY.read_text())


def test_the_table_has_lost_no_row(inventory: Any) -> None:
    known = {(row.owner, row.words) for row in rows(*KINDS)}
    left_out = {
        (owner, name)
        for owners in LEFT_OUT.values()
        for owner, names in owners.items()
        for name in names
    }
    compared = 0
    for cls in inventory["classes"]:
        owner = cls["name"]
        if owner not in CLASSES:
            continue
        for member in cls["members"]:
            if member["python"] is None:
                assert (owner, member["selector"]) in left_out
            else:
                assert (owner, spelled(owner, member["python"])) in known
            compared += 1
    assert compared > 300
    for enum in inventory["enums"]:
        owner = enum["name"]
        for case in enum["cases"]:
            if case["python"] is None:
                assert (owner, case["name"]) in left_out
            else:
                assert ENUMS[owner]["cases"][case["python"]][0] == case["value"]
