"""All rows of the table. A new layer has its row in the file of its family, and its entry in
tests/fuzz/random_graphs or beside its tests, which says how it is written and computed.
"""

from . import elementwise, losses, movement, sequences, weighted

ROWS = [
    row
    for family in (elementwise, movement, weighted, sequences, losses)
    for row in family.ROWS
]  # fmt: skip
