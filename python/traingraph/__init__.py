"""Training engine for static graphs with the ML Compute interface.

Build an MLCGraph of layers, compile it once in an MLCTrainingGraph or MLCInferenceGraph, then run
its passes many times.
"""

from traingraph import _openmp  # noqa: F401  (first: it decides how the core is loaded)

# isort: split
from traingraph import _core
from traingraph import nn as nn
from traingraph._core import *  # noqa: F403

__all__ = list(_core.__all__)
__version__ = _core.version()
