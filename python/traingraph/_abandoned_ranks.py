"""What ranks need of the interpreter: its uncaught exceptions, and the handles of mpi4py."""

import sys
from types import TracebackType

from traingraph._core import Communicator

_hooked: list[Communicator] = []


def abandon_on_errors(ranks: Communicator) -> None:
    """Where an exception ends the program, the other ranks need not wait for their limit."""
    if ranks in _hooked:
        return
    _hooked.append(ranks)
    if len(_hooked) > 1:
        return
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        # Shown first: a launcher may kill this process as soon as others end.
        try:
            before(kind, error, trace)
        finally:
            for one in _hooked:
                one.abandon()

    sys.excepthook = hook


def handle_of(communicator: object) -> int:
    """That of MPI, of a communicator of mpi4py."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is None or not isinstance(communicator, mpi.Comm):
        kind = type(communicator).__name__
        raise TypeError(f"[from_mpi] expected a communicator of mpi4py but got {kind}")
    return int(mpi._handleof(communicator)) & (2**64 - 1)  # MPICH has negative ones
