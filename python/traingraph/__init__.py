"""Training engine for static graphs with the ML Compute interface.

Build an MLCGraph of layers, compile it once in an MLCTrainingGraph or MLCInferenceGraph, then run
its passes many times.
"""

from typing import TYPE_CHECKING

from traingraph import _openmp  # noqa: F401  (first: it decides how the core is loaded)

# isort: split
from traingraph import _core
from traingraph import distributed as distributed
from traingraph import nn as nn
from traingraph._core import *  # noqa: F403
from traingraph._missing_names import (
    answer_calls_and_settings,
    answer_settings,
    answer_words,
    missing_name,
)

__all__ = list(_core.__all__)
__version__ = _core.version()
_GRAPHS = (_core.MLCTrainingGraph, _core.MLCInferenceGraph)
answer_words(*_GRAPHS, _core.MLCExecution, _core.MLCTensor, _core.MLCOptimizer)
answer_calls_and_settings(*_GRAPHS)
answer_settings(_core.MLCLayer)
if not TYPE_CHECKING:
    __getattr__ = missing_name(
        __name__,
        [*__all__, "distributed", "nn", "mps", "augment", "tensorboard"],
        {"nn": nn.__all__},
    )
