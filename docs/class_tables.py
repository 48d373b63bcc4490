"""Writes the tables in docs/classes, from the documents of the installed package.

python docs/class_tables.py

Between `<!-- arguments: NAME -->` and `<!-- end -->` stands what the constructor of a class takes;
between `<!-- support -->` and `<!-- end -->` in which types each device computes each layer. Of
devices that are not there the table keeps what it says.
"""

import re
from pathlib import Path

import traingraph

PAGES = Path(__file__).resolve().parent / "classes"
TABLE = re.compile(r"(<!-- (arguments: (\w+)|support) -->\n)(.*?)(<!-- end -->\n)", re.DOTALL)
FORM = re.compile(r"^(?:\d+\. )?__init__\(self, \*, (.*)\) -> None$", re.MULTILINE)
ARGUMENT = re.compile(r"(\w+): (.*?)(?: = (.*?))?(?=, \w+: |$)")
TEXT = re.compile(r"^\* (\w+): (.*)$", re.MULTILINE)
TYPES = ("float32", "float64", "float16", "bfloat16")
DEVICES = ("reference", "cpu", "cuda", "metal", "bnns")


def row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', 'or') for cell in cells)} |\n"


def arguments(name: str) -> str:
    """One row per argument of any form of the constructor."""
    document = getattr(traingraph, name).__init__.__doc__
    texts = dict(TEXT.findall(document))
    found = {}
    for form in FORM.findall(document):
        for argument, kind, default in ARGUMENT.findall(form):
            code = f"`{default}`" if default else ""
            found.setdefault(argument, row(f"`{argument}`", kind, code, texts[argument]))
    return row(name, "type", "default", "") + "|---|---|---|---|\n" + "".join(found.values())


def layers() -> list[type]:
    classes = [getattr(traingraph, name) for name in traingraph.__all__]
    base = traingraph.MLCLayer
    return [cls for cls in classes if isinstance(cls, type) and issubclass(cls, base)][1:]


def cell(layer: type, device: str) -> str | None:
    """Types as a text; None where the device is not there."""
    try:
        there = [kind for kind in TYPES if layer.supports_data_type(kind, on=device)]
    except (traingraph.DeviceError, traingraph.InvalidArgument):  # of another build
        return None
    return "all" if len(there) == len(TYPES) else ", ".join(there)


def support(before: str) -> str:
    """One row per layer, one column per device."""
    known = {line.split(" | ")[0][2:]: line[2:-2].split(" | ")[1:] for line in before.splitlines()}
    text = row("layer", *DEVICES) + "|---" * (len(DEVICES) + 1) + "|\n"
    for layer in layers():
        cells = [cell(layer, device) for device in DEVICES]
        kept = known.get(layer.__name__, ["not run"] * len(DEVICES))
        pairs = zip(cells, kept, strict=True)
        text += row(layer.__name__, *(new if new is not None else old for new, old in pairs))
    return text


def updated(page: str) -> str:
    """The text of a page with its tables as they are now."""

    def table(found: re.Match[str]) -> str:
        begin, _, name, before, end = found.groups()
        return begin + (arguments(name) if name else support(before)) + end

    return TABLE.sub(table, page)


if __name__ == "__main__":
    for path in sorted(PAGES.glob("*.md")):
        path.write_text(updated(path.read_text()))
