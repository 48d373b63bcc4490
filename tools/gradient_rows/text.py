"""The table as text: a section for each device, in Markdown that is aligned."""

from collections.abc import Iterable
from typing import Any

from .measure import BOUNDS
from .sample import WHOLE

Found = dict[str, Any]
TYPES = ("float64", "float32", "tf32", "float16", "bfloat16")


def number(error: float | None) -> str:
    return "" if error is None else f"{error:.1e}"


def of_type(cell: Found | None, dtype: str) -> list[str]:
    """The columns of a type: of float64 beside differences and PyTorch, else beside float64."""
    if cell is None:
        return ["no"] * (3 if dtype == "float64" else 2)
    found = [number(cell["forward"]), number(cell["gradient"])]
    if dtype == "float64":
        found = [found[1], number(cell["torch"]), found[0]]
    return [f"**{one}**" if not cell["held"] else one for one in found]


def header(types: Iterable[str]) -> tuple[list[str], list[str]]:
    names, bounds = ["layer", "cases", "kinks"], ["bound", "", ""]
    for dtype in types:
        bound = f"{BOUNDS[dtype]:.0e}"
        if dtype == "float64":
            names += ["float64: differences", "PyTorch", "reference"]
            bounds += [bound] * 3
        else:
            names += [f"{dtype}: value", "gradient"]
            bounds += [bound] * 2
    return [*names, "whole numbers"], [*bounds, "0"]


def table_of(mine: list[Found]) -> str:
    """The cells of one device."""
    types = [dtype for dtype in TYPES if any(cell["data_type"] == dtype for cell in mine)]
    lines = list(header(types))
    for row in dict.fromkeys(cell["row"] for cell in mine):
        by_type = {cell["data_type"]: cell for cell in mine if cell["row"] == row}
        first = next(iter(by_type.values()))
        kinks = sum(cell["kinks"] for cell in by_type.values())
        line = [row.removeprefix("MLC"), str(first["cases"]), str(kinks)]
        for dtype in types:
            line += of_type(by_type.get(dtype), dtype)
        whole = [cell for name, cell in by_type.items() if name in WHOLE]
        line.append(number(max(c["forward"] or 0.0 for c in whole)) if whole else "no")
        lines.append(line)
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]

    def text(line: list[str]) -> str:
        pairs = zip(line, widths, strict=True)
        return "| " + " | ".join(cell.ljust(width) for cell, width in pairs) + " |\n"

    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|\n"
    return text(lines[0]) + rule + "".join(map(text, lines[1:]))


def table(cells: list[Found]) -> str:
    devices = dict.fromkeys(cell["device"] for cell in cells)
    return "\n".join(
        f"{device}\n\n{table_of([cell for cell in cells if cell['device'] == device])}"
        for device in devices
    )


def failures(cells: list[Found]) -> list[str]:
    """A line for each cell that is above its bound, and for what raised."""
    found = []
    for cell in cells:
        if cell["held"]:
            continue
        place = f"{cell['row']} in {cell['data_type']} on {cell['device']}"
        for what in ("forward", "gradient", "torch"):
            error = cell[what]
            if error is not None and not error <= cell["bound"]:
                at = cell["worst"][what]
                found.append(f"{place}: {what} {error:.1e} above {cell['bound']:.0e}: {at}")
        found += [f"{place}: {error}" for error in cell["errors"]]
        if not found or not found[-1].startswith(place):
            found.append(f"{place}: nothing was compared")
    return found
