"""The ranks of a program that mpirun, srun or torchrun has started several times.

training.compile(device="cpu", distributed=traingraph.distributed.world()) trains with all of them.
"""

from typing import TYPE_CHECKING

from traingraph import _core
from traingraph._core import Communicator as Communicator
from traingraph._core import from_mpi as from_mpi
from traingraph._core import world as world
from traingraph._missing_names import missing_name

__all__ = ["Communicator", "from_mpi", "world"]

if not TYPE_CHECKING:
    __getattr__ = missing_name(__name__, __all__, {"traingraph": _core.__all__})
