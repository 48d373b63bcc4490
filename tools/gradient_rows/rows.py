"""All rows of the table. What no family names is drawn as the fuzz draws it."""

from random_graphs.table import LAYERS

from . import drawn, elementwise, losses, reductions, sequences
from .sample import Row

ROWS: list[Row] = [
    row for family in (elementwise, reductions, drawn, sequences, losses) for row in family.ROWS
]
ROWS += [drawn.row(kind, 24) for kind in LAYERS.keys() - {row.kind for row in ROWS}]
ROWS.sort(key=lambda row: row.kind)  # kinds of one class stay in their order
