"""Writes docs/mps_classes.md: the classes of traingraph.mps, and what of Apple's is missing.

python tools/mps_classes.py

Both come from tests/mps: inventory.tsv has Apple's names, missing_names.txt the missing ones.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / folder) for folder in ("tests", "tests/mps")]

from test_mps_coverage import MISSING_NAMES, TABLE, is_here, offered  # noqa: E402

from traingraph import mps  # noqa: E402

PAGE = ROOT / "docs/mps_classes.md"
# The first pattern that a name matches decides.
GROUPS = {
    "device, command buffers": "MTLDevice|create_|MTLCommand|MPSCommand|MTLBuffer|Predicate",
    "data sources, archives": "DataSource|Archiver|Unarchiver",
    "descriptors": "Descriptor$",
    "states": r"State$|StateBatch|state_batch|LossLabels$",
    "images, vectors, regions": "Image(Batch)?$|image_batch|Vector|^MTL(Origin|Region|Size)$",
    "optimizers": "MPSNNOptimizer",
    "convolution": "Convolution|FullyConnected",
    "neurons": "Neuron",
    "pooling": "Pooling",
    "normalization": "Normalization",
    "softmax": "SoftMax",
    "losses": "Loss|InitialGradient",
    "dropout": "Dropout",
    "resizing, moving": "Upsampling|Resize|Reshape|Pad|Slice|Scale|Concatenation",
    "reductions": "Reduc|Gram",
    "arithmetic": "Arithmetic|Add|Subtract|Multipl|Divi|Compar",
    "bases, graphs of nodes": "Kernel$|Node$|Graph$",
}
VARIANTS = ("GradientNode", "Gradient", "Node")
TEXT = """# Classes of `traingraph.mps`

`python tools/mps_classes.py` writes this page from the package and from the lists of Apple's names
in `tests/mps`. [The MPS training layer](mps.md) explains the classes.

## What is there

{names} names. A plus sign stands for classes of the same name with the ending: there are
`MPSCNNPoolingMax` and `MPSCNNPoolingMaxGradient`. Of a class with a number in brackets some of
Apple's members are missing.

| group | names |
|---|---|
{there}
## What is not there

Apple's list is that of MPS for networks and matrices: {classes} classes, protocols and
enumerations. Image filters and ray tracing are not in it, and `MPSGraph` is another framework.
{members} of its {all_members} members exist. These are missing; `*` stands for any letters, and
names after a colon are members in Objective-C's spelling.

| why | missing |
|---|---|
{missing}"""


def group_of(name: str) -> str:
    if isinstance(getattr(mps, name), type) and hasattr(getattr(mps, name), "__members__"):
        return "enumerations"
    return next(group for group, pattern in GROUPS.items() if re.search(pattern, name))


def shown(name: str) -> str:
    rows = offered(name) if name in TABLE else []
    here = sum(map(is_here, rows))
    return f"`{name}`" + (f" ({here} of {len(rows)})" if here < len(rows) else "")


def there() -> str:
    bases: dict[str, list[str]] = {}
    for name in mps.__all__:
        found = [one for one in VARIANTS if name.removesuffix(one) in mps.__all__]
        ending = next((one for one in found if name.endswith(one)), "")
        complete = "(" not in shown(name)
        base = name.removesuffix(ending) if complete else name
        bases.setdefault(base, []).extend([ending] if base != name else [])
    rows: dict[str, list[str]] = {group: [] for group in [*GROUPS, "enumerations"]}
    for base, endings in sorted(bases.items()):
        also = f" + {', '.join(sorted(endings))}" if endings else ""
        rows[group_of(base)].append(shown(base) + also)
    return "".join(f"| {group} | {'; '.join(names)} |\n" for group, names in rows.items())


def missing() -> str:
    text = ""
    for block in MISSING_NAMES.strip().split("\n\n")[1:]:  # the first one says what the file is
        why, *lines = block.splitlines()
        names = []
        for line in lines:
            owner, *members = line.split()
            names.append(f"`{owner}`" + (f": `{' '.join(members)}`" if members else ""))
        text += f"| {why} | {'; '.join(names)} |\n"
    return text


def page() -> str:
    rows = [row for owner in TABLE for row in offered(owner)]
    return TEXT.format(
        names=len(mps.__all__),
        there=there(),
        classes=len(TABLE),
        members=sum(map(is_here, rows)),
        all_members=len(rows),
        missing=missing(),
    )


if __name__ == "__main__":
    PAGE.write_text(page())
