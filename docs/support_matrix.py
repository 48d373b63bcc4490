"""Writes the table of ops and backends in README.md from cpp/src/ops.def.

python docs/support_matrix.py
"""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- support matrix: docs/support_matrix.py -->\n", "<!-- end -->\n"
LINE = re.compile(r"^TRAINGRAPH_OP\((\w+), \w+, (true|false)\)", re.MULTILINE)


def table(definitions: str) -> str:
    """The table as Markdown, one row per op of the text of ops.def."""
    rows = ["| op | reference | cpu |\n|---|---|---|\n"]
    for name, native in LINE.findall(definitions):
        if name == "reshape":
            cells = "view | view"
        else:
            cells = f"yes | {'native' if native == 'true' else 'reference loop'}"
        rows.append(f"| {name.replace('_', ' ')} | {cells} |\n")
    return "".join(rows)


def updated(readme: str, definitions: str) -> str:
    """The text of the README with this table between its two marks."""
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + table(definitions) + END + after


if __name__ == "__main__":
    path = ROOT / "README.md"
    path.write_text(updated(path.read_text(), (ROOT / "cpp/src/ops.def").read_text()))
