"""Ranks that mpirun starts: of Open MPI or MPICH, whichever PATH has. Those of four are a part."""

import re
import shutil
import subprocess
import time
from typing import Any

import numpy as np
import pytest

import launch

MPIRUN = shutil.which("mpirun")
FOUR = pytest.param(4, marks=pytest.mark.mpi)
pytestmark = pytest.mark.skipif(MPIRUN is None, reason="no mpirun in PATH")


def run(
    scenario: str,
    count: int,
    options: launch.Result,
    for_mpich: tuple[str, ...] = (),
    **variables: str,
) -> Any:
    assert MPIRUN is not None
    told = subprocess.run([MPIRUN, "--version"], capture_output=True, text=True, check=False).stdout
    is_open = "Open MPI" in told or "prte" in told.lower()
    for_open = ("--allow-run-as-root", "--oversubscribe", "--bind-to", "none")
    own = for_open if is_open else for_mpich
    return subprocess.run(
        [MPIRUN, *own, "-n", str(count), *launch.command(scenario, options)],
        env={**launch.clean(), **variables},
        capture_output=True,
        text=True,
        timeout=launch.LIMIT,
    )


def ranks(scenario: str, count: int, **options: Any) -> list[launch.Result]:
    done = run(scenario, count, options)
    assert done.returncode == 0, done.stderr
    return launch.printed(done.stdout, count)


@pytest.mark.parametrize("count", [2, FOUR])
@pytest.mark.parametrize("net", ["dropout", "wide"])
def test_mpi_gives_the_bits_of_sockets(net, count):
    options = {"net": net, "steps": 5}
    over_mpi = ranks("steps", count, **options)
    assert "MPI" in over_mpi[0]["engine"]
    over_sockets = launch.ranks("steps", count, **options)
    assert {result["digest"] for result in over_mpi + over_sockets} == {over_mpi[0]["digest"]}
    for one, other in zip(over_mpi, over_sockets, strict=True):
        assert one["losses"] == other["losses"]


def test_fit_over_mpi():
    options = {"net": "mlp", "type": "float64"}
    alone = launch.one("fit", **options)
    for result in ranks("fit", 2, **options):
        assert np.allclose(result["losses"], alone["losses"], rtol=1e-9, atol=0)


def test_a_launcher_that_path_does_not_have():
    """The library beside it is found all the same."""
    done = run("steps", 2, {"net": "mlp", "steps": 1}, PATH="/usr/bin:/bin")
    assert done.returncode == 0, done.stderr
    assert all("MPI" in result["engine"] for result in launch.printed(done.stdout, 2))


def test_a_forked_child_ends_nothing():
    for result in ranks("fails", 2, net="mlp", steps=8, of_last={"forks_at": 4}):
        assert "error" not in result


@pytest.mark.parametrize("count", [2, FOUR])
@pytest.mark.parametrize("for_mpich", [(), ("-disable-auto-cleanup",)])
def test_all_end_where_a_rank_is_killed(for_mpich, count):
    begun = time.monotonic()
    options = {"net": "mlp", "of_last": {"ends_at": 5}}
    done = run("fails", count, options, for_mpich, TRAINGRAPH_DISTRIBUTED_LIMIT="10")
    assert time.monotonic() - begun < 30
    # Open MPI names the process by job and rank. MPICH says nothing, and gives the status of that
    # rank or of one that it has killed, unless it lets the others speak.
    assert done.returncode in (3, 9)
    last = count - 1
    named = rf"@\d+,{last}\]|rank {last} has (ended|been silent)"
    is_silenced = not for_mpich and not done.stderr
    assert is_silenced or re.search(named, done.stdout + done.stderr)


def test_all_end_where_a_rank_raises():
    """Its traceback is shown, and nobody waits for the limit."""
    begun = time.monotonic()
    done = run("fails", 2, {"net": "mlp", "of_last": {"raises_at": 5}})
    assert time.monotonic() - begun < 20
    assert "RuntimeError: of the program" in done.stderr
    assert done.returncode != 0


@pytest.mark.parametrize("count", [2, FOUR])
def test_all_end_where_a_rank_leaves(count):
    begun = time.monotonic()
    done = run("fails", count, {"net": "mlp", "of_last": {"leaves_at": 5}})
    assert time.monotonic() - begun < 20
    assert f"rank {count - 1} has ended" in done.stdout + done.stderr
    assert done.returncode != 0


@pytest.mark.mpi
def test_shards_and_synchronized_statistics_over_mpi():
    options = {"net": "lenet", "synchronized": True, "shard": True, "steps": 5}
    over_mpi = ranks("steps", 4, **options)
    over_sockets = launch.ranks("steps", 4, **options)
    assert {result["digest"] for result in over_mpi + over_sockets} == {over_mpi[0]["digest"]}


@pytest.mark.mpi
@pytest.mark.parametrize("colors", [1, 2])
def test_communicators_of_mpi4py(colors):
    """One for all ranks, or two halves that train on their own."""
    pytest.importorskip("mpi4py", exc_type=ImportError)
    options = {"net": "mlp", "steps": 5}
    results = ranks("steps", 4, colors=colors, **options)
    assert {result["size"] for result in results} == {4 // colors}
    expected = launch.ranks("steps", 4 // colors, **options)[0]["digest"]
    assert {result["digest"] for result in results} == {expected}


def test_other_communicators_are_refused():
    pytest.importorskip("mpi4py", exc_type=ImportError)
    done = run("steps", 1, {"net": "mlp", "colors": 0})
    assert "expected a communicator of mpi4py but got str" in done.stderr


@pytest.mark.parametrize("count", [2, 3])
def test_all_end_where_a_rank_is_silent(count):
    """None of the others is taken for it."""
    begun = time.monotonic()
    options = {"net": "mlp", "of_last": {"sleeps_at": 5, "seconds": 100}}
    done = run("fails", count, options, TRAINGRAPH_DISTRIBUTED_LIMIT="3")
    assert time.monotonic() - begun < 60
    named = re.findall(r"but (rank .*? silent for 3 s) \(\w+\) \(end", done.stdout + done.stderr)
    assert set(named) == {f"rank {count - 1} has been silent for 3 s"}
    assert done.returncode != 0


def test_another_library_is_refused(tmp_path):
    (tmp_path / "none.so").write_bytes(b"no library")
    path = str(tmp_path / "none.so")
    done = run("fails", 2, {"net": "mlp"}, TRAINGRAPH_MPI_LIBRARY=path)
    assert done.returncode != 0
    assert "expected the library of TRAINGRAPH_MPI_LIBRARY but got" in done.stderr
