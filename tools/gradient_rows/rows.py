"""All rows of the table. A new layer has its row beside its tests: `MEASURED` of a file of
tests/layers. Families have theirs in files of this folder.
"""

from beside import beside

from . import elementwise, losses, movement, sequences, weighted

ROWS = [
    *(
        row
        for family in (elementwise, movement, weighted, sequences, losses)
        for row in family.ROWS
    ),
    *beside("layers", "MEASURED").values(),
]
