"""The table of gradients: how far each layer is off, in each type and on each device.

python tools/gradient_table.py [--quick] [--json FILE] [--device NAME …] [--row TEXT] [--write]

Options are drawn as the fuzz draws them, or so that every pair of values occurs. Errors are
relative to the largest entry of what is compared: in float64 gradients beside differences of the
reference (the rule of kinks is in tools/gradient_rows/quotients.py), values and gradients beside
PyTorch; in other types both beside the reference in float64, over numbers that the type holds.
Exits with 1 where one is above the bound of its type, where a layer runs by `supports_data_type`
and has no row, and where a class of layers is missing. --write puts the table into
docs/gradients.md.
"""

import argparse
import json
import multiprocessing
import os
import runpy
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
# What rows share with the fuzz and the tests of layers.
sys.path[:0] = [str(ROOT / folder) for folder in ("tools", "tests", "tests/fuzz", "tests/layers")]
# One process per core computes; threads within it would only wait for each other.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

from gradient_rows.measure import measured  # noqa: E402
from gradient_rows.page import updated  # noqa: E402
from gradient_rows.rows import ROWS  # noqa: E402
from gradient_rows.sample import WHOLE, Row  # noqa: E402
from gradient_rows.text import failures, table  # noqa: E402

import traingraph  # noqa: E402

FLOATS = ("float64", "float32", "float16", "bfloat16")
DEVICES = ["reference", "cpu"]  # of every build
PRECISE = ("cuda",)  # devices with units for TF32


def types_of(row: Row, device: str) -> list[str]:
    """What the layer's class says that it runs there."""
    cls = getattr(traingraph, row.kind)
    found = [one for one in (*FLOATS, *WHOLE) if cls.supports_data_type(one, on=device)]
    if row.name.startswith("logical") or not row.moves:
        found = [one for one in found if one not in WHOLE]
    if device in PRECISE and "float32" in found:
        found.insert(found.index("float32") + 1, "tf32")
    return found


def work(number: int, cells: list[tuple[str, str]], quick: bool) -> list[dict[str, Any]]:
    return measured(ROWS[number], cells, quick)


def missing(rows: list[Row], cells: list[dict[str, Any]], devices: list[str]) -> list[str]:
    """Classes without a row, and what runs and was not measured."""
    layers = runpy.run_path(str(ROOT / "docs/class_tables.py"))["layers"]()
    found = []
    for layer in layers:
        mine = [row for row in rows if row.kind == layer.__name__]
        if not mine:
            found.append(f"{layer.__name__} is no row of the table")
        for device in devices:
            for one in (*FLOATS, *WHOLE):
                runs = layer.supports_data_type(one, on=device)
                has = any(
                    cell["layer"] == layer.__name__ and cell["data_type"] == one
                    and cell["device"] == device and cell["cases"]
                    for cell in cells
                )  # fmt: skip
                if runs and not has:
                    found.append(f"{layer.__name__} runs {one} on {device} and has no row")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two cases of each row")
    parser.add_argument("--json", type=Path, metavar="FILE", help="writes all cells")
    parser.add_argument("--device", action="append", default=[], help="beside reference and cpu")
    parser.add_argument("--row", default="", help="only rows whose name has this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--write", action="store_true", help="writes docs/gradients.md")
    given = parser.parse_args()
    if given.write and (given.row or given.quick):
        parser.error("the page has all rows, with all cases: write it without --row and --quick")
    devices = [*DEVICES, *given.device]
    for device in given.device:
        try:
            traingraph.MLCLayer.supports_data_type("float32", on=device)
        except (traingraph.DeviceError, traingraph.InvalidArgument) as error:
            parser.error(str(error))
    begun = time.monotonic()
    numbers = [k for k, row in enumerate(ROWS) if given.row in row.label]
    tasks = [
        (k, [(device, dtype) for device in devices for dtype in types_of(ROWS[k], device)])
        for k in numbers
    ]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(given.jobs, mp_context=context) as pool:
        # Those of many options have the most cases and come first, or one process ends alone.
        first = sorted(tasks, key=lambda task: -len(ROWS[task[0]].factors))
        waiting = {k: pool.submit(work, k, cells, given.quick) for k, cells in first}
        cells = [cell for k in numbers for cell in waiting[k].result()]
    print(table(cells))
    wrong = failures(cells)
    if not given.row:
        wrong += missing(ROWS, cells, devices)
    if given.write:
        path = ROOT / "docs/gradients.md"
        path.write_text(updated(path.read_text(), cells))
    if given.json:
        given.json.write_text(json.dumps(cells, indent=1))
    seconds = time.monotonic() - begun
    print(f"{len(cells)} cells, {sum(c['cases'] for c in cells)} cases, {seconds:.0f} s")
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
