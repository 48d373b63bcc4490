"""Two tables that are kept whole: ops.def, and the behaviours of clients."""

import re

from tracked_files import ROOT, relative


def ops() -> list[tuple[str, str]]:
    text = (ROOT / "cpp/src/ops.def").read_text()
    return re.findall(r"^TRAINGRAPH_OP\((\w+), \w+, (true|false)\)", text, re.MULTILINE)


def test_every_op_has_a_definition_and_a_loop() -> None:
    """A change of an op touches its family's file in ops/ and in backends/reference/."""
    assert len(ops()) > 10
    rules = "".join(path.read_text() for path in (ROOT / "cpp/src/ops").glob("*.cpp"))
    loops = "".join(
        path.read_text() for path in (ROOT / "cpp/src/backends/reference").glob("*.cpp")
    )
    for name, _ in ops():
        assert f"Definition {name}_definition" in rules, name
        instantiations = (
            f"template void {name}<double>(const Call&)", f"TRAINGRAPH_FOR_ANY_TYPE({name})",
        )  # fmt: skip
        assert any(text in loops for text in instantiations), name


# --- the table of client behaviours --------------------------------------------------------------

BEHAVIOUR = re.compile(r"^\| (\d+) \| .+ \| (.+) \|$", re.MULTILINE)
MPS = "MPS interface: not there yet"


def untested(table: str, kind: str, tests: dict[str, str]) -> list[str]:
    """Rows whose file has no test of their number, by the text of each file of tests."""
    wrong = []
    for number, place in BEHAVIOUR.findall(table):
        name = f"test_{kind}_{int(number):02}_" if kind == "row" else f"test_{kind}_{number}_"
        if place != MPS and f"def {name}" not in tests.get(place.strip("`"), ""):
            wrong.append(f"{name} in {place}")
    return wrong


def test_every_client_behaviour_has_a_test() -> None:
    rows, programs = (ROOT / "docs/client_behaviours.md").read_text().split("Programs whose")
    tests = {relative(path): path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    assert [int(number) for number, _ in BEHAVIOUR.findall(rows)] == list(range(1, 25))
    assert [int(number) for number, _ in BEHAVIOUR.findall(programs)] == [1, 2, 3, 4]
    assert untested(rows, "row", tests) == []
    assert untested(programs, "program", tests) == []
    # And no test claims a row that the page does not place in its file.
    stated = {(f"{int(number):02}", place.strip("`")) for number, place in BEHAVIOUR.findall(rows)}
    claimed = {
        (number, name)
        for name, text in tests.items()
        for number in re.findall(r"^def test_row_(\d\d)_", text, re.MULTILINE)
    }
    assert claimed - stated == set()


def test_an_untested_behaviour_is_found() -> None:
    table = "| 7 | order | `tests/a.py` |\n| 16 | nil | " + MPS + " |\n"
    test = "def test_row_" + "07_order() -> None:"
    assert untested(table, "row", {"tests/a.py": test}) == []
    assert untested(table, "row", {"tests/a.py": test.replace("07", "08")})
    assert untested(table, "row", {"tests/b.py": test})
