"""Short forms of ML Compute's classes, by the names that Keras and PyTorch have for them.

model([flatten(), dense(64), "relu", dense(10)], input=(1, 8, 8)) is a compiled MLCTrainingGraph.
"""

from typing import TYPE_CHECKING

from traingraph import _core
from traingraph._missing_names import missing_name

__all__ = list(_core._nn_names)

globals().update({name: getattr(_core, name) for name in __all__})
if not TYPE_CHECKING:
    __getattr__ = missing_name(__name__, __all__, {"traingraph": _core.__all__})
