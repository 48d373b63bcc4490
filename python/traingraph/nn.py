"""Short forms of ML Compute's classes, by the names that Keras and PyTorch have for them.

model([flatten(), dense(64), "relu", dense(10)], input=(1, 8, 8)) is a compiled MLCTrainingGraph.
"""

from traingraph import _core

__all__ = list(_core._nn_names)

globals().update({name: getattr(_core, name) for name in __all__})
