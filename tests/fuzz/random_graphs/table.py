"""Every layer that a program may have: a new class of layers adds an entry in its family's file."""

from . import activations, elementwise, indexing, movement, weighted, windows
from .layer import Layer

LAYERS: dict[str, Layer] = {
    name: layer
    for family in (activations, elementwise, indexing, movement, weighted, windows)
    for name, layer in family.LAYERS.items()
}
# Public classes that are no entries.
ELSEWHERE = {
    "MLCLayer": "what all layers derive from",
    "MLCComparisonLayer": "its results are booleans, which carry no gradient on",
    "MLCLossLayer": "losses.py draws losses: they end a program",
}
