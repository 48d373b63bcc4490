"""Every layer that a program may have.

A new class of layers has its entry beside its tests: `DRAWN` of a file of tests/layers. Families
have theirs in files of this folder.
"""

from metadata import beside

from . import activations, elementwise, indexing, movement, weighted, windows
from .layer import Layer

LAYERS: dict[str, Layer] = {
    name: layer
    for family in (activations, elementwise, indexing, movement, weighted, windows)
    for name, layer in family.LAYERS.items()
} | beside("layers", "DRAWN")
# Public classes that are no entries.
ELSEWHERE = {
    "MLCLayer": "what all layers derive from",
    "MLCComparisonLayer": "its results are booleans, which carry no gradient on",
    "MLCLossLayer": "losses.py draws losses: they end a program",
    "MLCYOLOLossLayer": "a loss whose labels are boxes; its tests draw them",
}
