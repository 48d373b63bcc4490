"""Loads the core with OpenMP threads that give their core away soon.

libgomp's threads spin for milliseconds where they wait for each other. On a machine whose cores
other programs use too, that spinning takes the very core that the awaited thread needs, and a step
can take ten times as long as on one thread. The runtime reads how long to spin once, when it is
loaded, and has no call to change it.
"""

import os

_SPINS = "GOMP_SPINCOUNT"

# Some twenty microseconds: longer than the gaps between the parallel parts of a step.
if _SPINS in os.environ or "OMP_WAIT_POLICY" in os.environ:
    from traingraph import _core
else:
    os.environ[_SPINS] = "2000"
    try:
        from traingraph import _core
    finally:
        del os.environ[_SPINS]

__all__ = ["_core"]
