"""Ranks that end, stop or do not come: the others say which."""

import re
import socket
import subprocess
import threading
from pathlib import Path

import pytest

import launch


def test_a_rank_that_ends_is_named():
    results = launch.started("fails", 3, {"net": "mlp", "of_last": {"ends_at": 5}})
    assert results[2]["status"] == 3
    for result in results[:2]:
        assert result["error"] == "DistributedError"
        assert "rank 2 has ended" in result["text"]
        assert result["seconds"] < 30


def test_a_rank_that_ends_in_a_fit_is_named_with_the_step():
    options = {"net": "mlp", "calls": "long epoch", "of_last": {"lives": 1}}
    first, last = launch.started("fails", 2, options)
    assert last["status"] == 3
    expected = r"but rank 1 has ended \(.*, from the last checkpoint\) in step \d+ of epoch 1$"
    assert re.search(expected, first["text"])


@pytest.mark.parametrize("seconds", [0.4, 0.47, 0.55, 0.66])
def test_a_rank_that_ends_leaves_the_parameters(seconds):
    """Wherever it is in a step of several buckets: those of the step before, on all others."""
    options = {"net": "deep", "optimizer": "sgd", "compares": True, "of_last": {"lives": seconds}}
    for result in launch.started("fails", 2, options)[:1]:
        assert "rank 1 has ended" in result["text"]
        assert result["kept"]


def test_a_silent_rank_is_named():
    results = launch.started(
        "fails",
        2,
        {"net": "mlp", "of_last": {"sleeps_at": 5, "seconds": 4}},
        TRAINGRAPH_DISTRIBUTED_LIMIT="2",
    )
    assert "rank 1 has been silent for 2 s" in results[0]["text"]
    assert 2 <= results[0]["seconds"] < 30


@pytest.mark.parametrize(("victim", "net"), [(0, "deep"), (1, "mlp"), (2, "wide"), (3, "deep")])
def test_a_stopped_rank_is_named(victim, net):
    """By all others, wherever it is in a step: none of those that wait for it themselves."""
    options = {"net": net, "optimizer": "sgd", "steps": 10**6}
    options["of_rank"] = {victim: {"stops": 2 + victim / 10}}
    results = launch.started("fails", 4, options, stopped=victim, TRAINGRAPH_DISTRIBUTED_LIMIT="2")
    for rank, result in enumerate(results):
        if rank == victim:
            continue
        assert result["error"] == "DistributedError"
        assert re.search(rf"rank {victim} has (been silent for 2 s|ended or)", result["text"])
        assert ", and so has" not in result["text"]


def test_a_forked_child_ends_nothing():
    options = {"net": "mlp", "steps": 8, "of_last": {"forks_at": 4}}
    for result in launch.ranks("fails", **options):
        assert "error" not in result


@pytest.mark.parametrize("missing", [1, 2])
def test_a_rank_that_does_not_come_is_named(missing):
    variables = {"WORLD_SIZE": "3", "TRAINGRAPH_DISTRIBUTED_LIMIT": "2"}
    of_last = {"RANK": str(3 - missing)}
    results = launch.started("fails", 2, {"net": "mlp"}, of_last=of_last, **variables)
    for result in results:
        assert result["status"] == 1
        assert "DistributedError" in result["output"]
        assert f"expected rank {missing} of 3 within 2 s" in result["output"]


def test_another_port_is_advised():
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        variables = {"MASTER_PORT": port, "TRAINGRAPH_DISTRIBUTED_LIMIT": "2"}
        first = launch.started("fails", 2, {"net": "mlp"}, **variables)[0]
    assert "Address already in use; choose another MASTER_PORT" in first["output"]


def test_a_name_that_comes_later(tmp_path):
    """As that of a pod, which has none before it begins: all ranks have a file of names alone."""
    names = tmp_path / "hosts"
    names.write_text("127.0.0.1 localhost\n")
    within = (
        *("unshare", "--mount", "sh", "-c"),
        *('mount --bind "$0" /etc/hosts && exec "$@"', str(names)),
    )
    if subprocess.run([*within, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this user may not have a file of names of its own")
    later = threading.Timer(2, known_as, (names, "rank0.test"))
    later.start()
    options = {"net": "mlp", "steps": 2}
    results = launch.started("steps", 2, options, within=within, MASTER_ADDR="rank0.test")
    later.join()
    assert all(result["status"] == 0 for result in results), results


def known_as(names: Path, name: str) -> None:
    with names.open("a") as file:  # the same file, which is mounted
        file.write(f"127.0.0.1 {name}\n")


def is_of_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        pytest.param("::1", marks=pytest.mark.skipif(not is_of_ipv6(), reason="no IPv6 here")),
    ],
)
def test_hosts_of_either_protocol(host):
    """Three ranks, of which the last one is told where the second one listens."""
    results = launch.started("steps", 3, {"net": "mlp", "steps": 2}, MASTER_ADDR=host)
    assert all(result["status"] == 0 for result in results), results


def test_a_name_that_never_comes():
    variables = {"MASTER_ADDR": "no-such-host.invalid", "TRAINGRAPH_DISTRIBUTED_LIMIT": "1"}
    first, last = launch.started("fails", 2, {"net": "mlp"}, **variables)
    assert "expected rank 1 of 2 within 1 s" in first["output"]
    assert "expected to find no-such-host.invalid:" in last["output"]
    assert "set MASTER_ADDR to the host of rank 0" in last["output"]


def test_another_world_size_is_refused():
    for result in launch.started("fails", 2, {"net": "mlp"}, of_last={"WORLD_SIZE": "3"}):
        assert result["status"] == 1
        assert "one version and one world but got WORLD_SIZE" in result["output"]


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({"RANK": "0", "WORLD_SIZE": "2"}, "but MASTER_ADDR is not set"),
        ({"RANK": "0"}, "RANK and WORLD_SIZE together but WORLD_SIZE is not set"),
        ({"WORLD_SIZE": "4"}, "RANK and WORLD_SIZE together but RANK is not set"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "RANK of 0 to 1 but got '2'"),
        ({"RANK": "0", "WORLD_SIZE": "two"}, "WORLD_SIZE of 1 to"),
    ],
)
def test_wrong_variables(variables, text):
    done = launch.run_alone("fails", {"net": "mlp"}, variables)
    assert done.returncode == 1
    assert "InvalidArgument" in done.stderr
    assert text in done.stderr


def test_one_rank_without_a_launcher():
    result = launch.one("steps", net="mlp", steps=1)
    assert (result["rank"], result["size"], result["engine"]) == (0, 1, "none")
