"""The tables of docs/gradients.md, each with what it was computed by."""

import datetime
import importlib.metadata
import platform
from typing import Any

import numpy as np

from traingraph import _core

from .text import table_of

BEGIN, END = "<!-- gradients -->\n", "<!-- end -->\n"


def version_of(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def circumstances(cells: list[dict[str, Any]]) -> str:
    versions = {
        "traingraph": f"{_core.version()} ({_core.instruction_set()})",
        "oneDNN": _core.onednn_version(),
        "NumPy": np.__version__,
        "PyTorch": version_of("torch"),
        "Python": platform.python_version(),
    }
    text = ", ".join(f"{name} {version}" for name, version in versions.items())
    cases = sum(cell["cases"] for cell in cells)
    return f"{datetime.date.today():%-d %B %Y}, {cases} runs of cases, {text}"


def updated(page: str, cells: list[dict[str, Any]]) -> str:
    """The page with these tables between its two marks; those of other devices stay."""
    before, rest = page.split(BEGIN)
    old, after = rest.split(END)
    sections = {text.split("\n")[0]: text for text in old.split("\n## ")[1:]}
    for device in dict.fromkeys(cell["device"] for cell in cells):
        mine = [cell for cell in cells if cell["device"] == device]
        sections[device] = f"{device}\n\n{circumstances(mine)}\n\n{table_of(mine)}"
    return before + BEGIN + "".join(f"\n## {text}" for text in sections.values()) + END + after
