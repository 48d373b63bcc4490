"""What stands beside the tests of one class, for those tests that are about every class."""

import importlib
import re
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent


def beside(folder: str, table: str) -> dict[str, Any]:
    """The entries of this table in the files of a folder of tests; most files have none."""
    found: dict[str, Any] = {}
    for path in sorted((TESTS / folder).glob("test_*.py")):
        if not re.search(rf"^{table}\b.* = ", path.read_text(), re.MULTILINE):
            continue
        if str(path.parent) not in sys.path:
            sys.path.append(str(path.parent))
        entries = getattr(importlib.import_module(path.stem), table)
        assert not set(entries) & set(found), f"{path.name}: {set(entries) & set(found)}"
        found |= entries
    return found
