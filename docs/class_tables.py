"""Writes the tables in docs/classes and docs/support.md, from the installed package.

python docs/class_tables.py

Between `<!-- arguments: NAME -->` and `<!-- end -->` stands what the constructor of a class takes;
between `<!-- support -->` and `<!-- end -->` in which types each device computes each layer, and
how, or why it does not. Of devices that are not there the table keeps what it says. Between
`<!-- layers -->` and `<!-- end -->` stands what that table says of float32, and between
`<!-- signatures -->` and `<!-- end -->` what the headers of traingraph::nn declare.
"""

import re
from pathlib import Path

from traingraph._core import stand_ins, why_unsupported

import traingraph

DOCS = Path(__file__).resolve().parent
PAGES = [*sorted((DOCS / "classes").glob("*.md")), DOCS / "cpp.md", DOCS / "support.md"]
LAYERS = "<!-- layers -->\n"
SIGNATURES = re.compile(r"(<!-- signatures -->\n)(.*?)(<!-- end -->\n)", re.DOTALL)
DECLARED = re.compile(r"^(?:struct \w+Options \{.*?^\};|TRAINGRAPH_API \w[^;]*;)", re.M | re.S)
# What a cell of that table may be beside a reason.
WORDS = ("runs", "composed", "runs by loops", "runs, in part by loops", "not run")
TABLE = re.compile(r"(<!-- (arguments: (\w+)|support) -->\n)(.*?)(<!-- end -->\n)", re.DOTALL)
FORM = re.compile(r"^(?:\d+\. )?__init__\(self, \*, (.*)\) -> None$", re.MULTILINE)
ARGUMENT = re.compile(r"(\w+): (.*?)(?: = (.*?))?(?=, \w+: |$)")
TEXT = re.compile(r"^\* (\w+): (.*)$", re.MULTILINE)
TYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "boolean")
DEVICES = ("reference", "cpu", "cuda", "metal", "bnns")


def row(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', 'or') for cell in cells)} |\n"


def rows_of(name: str) -> dict[str, str]:
    """A row per argument of any form of the constructor."""
    document = getattr(traingraph, name).__init__.__doc__
    texts = dict(TEXT.findall(document))
    found: dict[str, str] = {}
    for form in FORM.findall(document):
        for argument, kind, default in ARGUMENT.findall(form):
            code = f"`{default}`" if default else ""
            found.setdefault(argument, row(f"`{argument}`", kind, code, texts[argument]))
    return found


def arguments(name: str) -> str:
    """What the constructor takes; what all optimizers share stands with their descriptor."""
    found = rows_of(name)
    if issubclass(getattr(traingraph, name), traingraph.MLCOptimizer):
        shared = rows_of("MLCOptimizerDescriptor")
        found = {key: text for key, text in found.items() if shared.get(key) != text}
        found["…"] = row("…", "", "", "Without `descriptor`: arguments of MLCOptimizerDescriptor.")
    return row(name, "type", "default", "") + "|---|---|---|---|\n" + "".join(found.values())


def layers() -> list[type]:
    classes = [getattr(traingraph, name) for name in traingraph.__all__]
    base = traingraph.MLCLayer
    return [cls for cls in classes if isinstance(cls, type) and issubclass(cls, base)][1:]


def shortened(why: str) -> str:
    """Without what differs between types and runs: types can share a row then."""
    if why.startswith("["):  # refused by the layer, or by an op that it emits
        return re.sub(r"^\[.*?\] | at layer \d+ '.*'| but got \w+", "", why)
    ops = re.findall(r"(?:^|; )(\w+): ", why)
    return f"no kernel of {', '.join(ops)}"


def cell(layer: str, data_type: str, device: str) -> str | None:
    """None where the device is not there."""
    refused = why_unsupported(layer, data_type, on="reference") or ""
    if refused.startswith("["):  # by the layer, whatever the device
        return shortened(refused)
    try:
        why = why_unsupported(layer, data_type, on=device)
    except (traingraph.DeviceError, traingraph.InvalidArgument):  # of another build
        return None
    if why is not None:
        return shortened(why)
    ways = stand_ins(layer, data_type, on=device)
    if ways["composed"]:
        return "composed"
    if ways["looped"]:
        return "runs, in part by loops" if ways["own"] else "runs by loops"
    return "runs"


Cells = dict[tuple[str, str], list[str]]


def cells(table: str) -> Cells:
    """What a table says, by layer and type."""
    rows = [line[2:-2].split(" | ") for line in table.splitlines()[2:]]
    return {(r[0], one): r[2:] for r in rows for one in r[1].split(", ")}


def support(before: str) -> str:
    """A row per layer and types that have one answer, a column per device."""
    known, text = cells(before), row("layer", "types", *DEVICES)
    text += "|---" * (len(DEVICES) + 2) + "|\n"
    for layer in layers():
        same: dict[tuple[str, ...], list[str]] = {}
        for data_type in TYPES:
            old = known.get((layer.__name__, data_type), ["not run"] * len(DEVICES))
            found = [cell(layer.__name__, data_type, device) for device in DEVICES]
            pairs = zip(found, old, strict=True)
            answers = tuple(new if new is not None else kept for new, kept in pairs)
            same.setdefault(answers, []).append(data_type)
        for answers, data_types in same.items():
            text += row(layer.__name__, ", ".join(data_types), *answers)
    return text


def signatures() -> str:
    """Functions of traingraph::nn and the structs that they take."""
    folder = DOCS.parent / "cpp/include/traingraph"
    headers = [folder / name for name in ("nn.h", "nn/value.h", "nn/initializer.h")]
    found = [text for path in headers for text in DECLARED.findall(path.read_text())]
    lines = [
        re.sub(r"\n {2,}(?=\S)", " ", text) if "struct" not in text else text for text in found
    ]
    return "```text\n" + "\n".join(lines).replace("TRAINGRAPH_API ", "") + "\n```\n"


def updated(page: str) -> str:
    """The text of a page with its tables as they are now."""

    def table(found: re.Match[str]) -> str:
        begin, _, name, before, end = found.groups()
        return begin + (arguments(name) if name else support(before)) + end

    page = TABLE.sub(table, page)
    page = SIGNATURES.sub(lambda found: found[1] + signatures() + found[3], page)
    return with_layers(page) if LAYERS in page else page


def listed(words: list[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)


def with_layers(page: str) -> str:
    """The page with what its table says of float32: a sentence and the exceptions."""
    before, rest = page.split(LAYERS)
    rest = rest.split("<!-- end -->\n", 1)[1]
    lines = [line.strip("| ").split(" | ") for line in rest.splitlines()]
    rows = {cells[0]: cells[2:] for cells in lines if cells[1:] and "float32" in cells[1]}
    others = [k for k in range(len(DEVICES)) if any(row[k] != "runs" for row in rows.values())]
    whole = [f"*{device}*" for k, device in enumerate(DEVICES) if k not in others]
    text = f"All {len(rows)} layers run on {listed(whole)}"
    if not others:
        text += ".\n"
    else:
        names = [DEVICES[k] for k in others]
        devices = listed([f"*{name}*" for name in names])
        text += f". On {devices} some layers lack kernels of their own:\n\n"
        text += row("layers", *names) + "|---" * (len(names) + 1) + "|\n"
        same: dict[tuple[str, ...], list[str]] = {}
        for name, cells in rows.items():
            # A reason is longer than a cell; the table has it.
            found = tuple(cells[k] if cells[k] in WORDS else "no" for k in others)
            same.setdefault(found, []).append(name.removeprefix("MLC").removesuffix("Layer"))
        for found, layers in same.items():
            if set(found) != {"runs"}:
                text += row(", ".join(layers), *found)
    return before + LAYERS + text + "<!-- end -->\n" + rest


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(updated(path.read_text()))
