"""Every node that a program may have.

A new class of nodes has its entry beside its tests: `DRAWN` of a file of tests/mps. Families have
theirs in files of this folder.
"""

from random_graphs.layer import Layer

from metadata import beside

from . import joining, movement, neurons, normalizations, windows

NODES: dict[str, Layer] = {
    name: layer
    for family in (joining, movement, neurons, normalizations, windows)
    for name, layer in family.NODES.items()
} | beside("mps", "DRAWN")
# Public classes that are no entries.
ELSEWHERE = {
    "MPSNNImageNode": "an image",
    "MPSNNLabelsNode": "made by a loss",
    "MPSNNFilterNode": "what all nodes derive from",
    "MPSCNNPoolingNode": "what poolings derive from",
    "MPSCNNNormalizationNode": "what local normalizations derive from",
    "MPSNNUnaryReductionNode": "what reductions derive from",
    "MPSNNBinaryArithmeticNode": "what arithmetic derives from",
    "MPSNNScaleNode": "what MPSNNBilinearScaleNode derives from",
    "MPSCNNLossNode": "losses.py draws losses: they end a program",
    "MPSNNForwardLossNode": "losses.py draws losses: they end a program",
    "MPSNNInitialGradientNode": "losses.py writes it behind MPSNNForwardLossNode",
}
# Gradient nodes are made by the training graph, and state nodes by their forward nodes.
MADE = ("GradientNode", "GradientFilterNode", "StateNode")
