"""The MPS training layer: kernels with gradients and states, recorded in command buffers.

A kernel encodes itself into an MTLCommandBuffer; commit() compiles what was recorded,
once, and runs it.
"""

from typing import TYPE_CHECKING

from traingraph import _core
from traingraph._missing_names import missing_name
from traingraph.mps.coding import MPSKeyedUnarchiver, NSKeyedArchiver
from traingraph.mps.data_sources import (
    MPSCNNBatchNormalizationDataSource,
    MPSCNNConvolutionDataSource,
    MPSCNNGroupNormalizationDataSource,
    MPSCNNInstanceNormalizationDataSource,
)
from traingraph.mps.padding import MPSNNDefaultPadding
from traingraph.mps.regions import MTLOrigin, MTLRegion, MTLSize

__all__ = [
    *_core._mps_names,
    "MPSCNNBatchNormalizationDataSource",
    "MPSCNNConvolutionDataSource",
    "MPSCNNGroupNormalizationDataSource",
    "MPSCNNInstanceNormalizationDataSource",
    "MPSKeyedUnarchiver",
    "MPSNNDefaultPadding",
    "MTLOrigin",
    "MTLRegion",
    "MTLSize",
    "NSKeyedArchiver",
]

globals().update({name: getattr(_core, name) for name in _core._mps_names})
if not TYPE_CHECKING:
    __getattr__ = missing_name(__name__, __all__, {"traingraph": _core.__all__})
