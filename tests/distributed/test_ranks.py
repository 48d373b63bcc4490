"""Ranks over sockets, beside one rank that has the rows of all of them."""

import re
import socket
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest

import launch

CLASSES = 5  # of the networks


def mean_losses(results: list[launch.Result]) -> np.ndarray:
    return np.mean([result["losses"] for result in results], axis=0)


def assert_alike(results: list[launch.Result]) -> None:
    assert len({result["digest"] for result in results}) == 1


def assert_as_one(tolerances: list[tuple[int, float]], **options: object) -> None:
    """Of so many first losses, the relative error."""
    alone = np.array(launch.one("steps", **options)["losses"])
    results = launch.ranks("steps", **options)
    assert_alike(results)
    errors = np.abs(mean_losses(results) - alone) / np.abs(alone)
    for count, tolerance in tolerances:
        assert errors[:count].max() < tolerance, (options, count, errors)


def assert_trains_as_one(**options: object) -> None:
    for data_type, tolerances in (
        ("float64", [(50, 1e-9)]),
        ("float32", [(10, 1e-4), (50, 1e-2)]),
    ):
        assert_as_one(tolerances, **options, type=data_type, synchronized=True)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("net", ["mlp", "lstm", "dropout", "lenet"])
def test_two_ranks_train_as_one(net, optimizer):
    """lenet has batch norm and dropout."""
    assert_trains_as_one(net=net, optimizer=optimizer)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize(("net", "count"), [("mlp", 4), ("lenet", 11)])
def test_first_gradients(net, count, reduction):
    options = {"net": net, "reduction": reduction, "synchronized": True}
    alone = launch.one("gradients", **options)["gradients"]
    assert len(alone) == count
    for result in launch.ranks("gradients", **options):
        for found, expected in zip(result["gradients"], alone, strict=True):
            error = np.abs(np.subtract(found, expected)).max()
            assert error <= 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize(
    "options",
    [
        {"expression": True, "loss": "rows"},
        {"expression": True, "loss": "means"},
        {"expression": True, "loss": "rows and means"},
        {"loss": "none, mean"},
        {"loss": "none, sum"},
    ],
)
def test_losses_of_a_program(options):
    alone = launch.one("losses", **options)["state"]
    for result in launch.ranks("losses", **options):
        for found, expected in zip(result["state"], alone, strict=True):
            assert np.allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        *(
            {"expression": True, "loss": loss}
            for loss in ("sum", "root", "product", "centred", "most")
        ),
        {"loss": "mean and sum"},
        {"loss": "softmax over rows"},
    ],
)
def test_losses_that_take_rows_together_are_refused(options):
    assert "state" in launch.one("losses", **options)
    for result in launch.ranks("losses", **options):
        assert "a mean of something of each row, or a sum of means, but got rows" in result["error"]


def test_calls_come_behind_queued_steps():
    """Of this graph and of others: evaluation, fit and compile begin by messages of their own."""
    for result in launch.ranks("queues", net="wide", steps=3):
        assert np.isfinite(result["losses"]).all()


@pytest.mark.parametrize("count", [2, 3])
def test_large_buckets(count):
    """Parts of different sizes, arrays that lie in two of them, several buckets."""
    options = {"net": "wide", "optimizer": "sgd", "steps": 4, "type": "float64"}
    alone = launch.one("steps", **options)
    results = launch.ranks("steps", count, **options)
    assert_alike(results)
    assert np.allclose(mean_losses(results), alone["losses"], rtol=1e-9, atol=0)


def test_long_messages_between_machines():
    """Ranks that do not see one another's processes send what others read from memory."""
    alone = ("unshare", "--pid", "--fork", "--kill-child")
    if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this user may not have processes that others do not see")
    options = {"net": "wide", "optimizer": "sgd", "steps": 4}
    apart = launch.started("steps", 3, options, within=alone)
    assert all(result["status"] == 0 for result in apart), apart
    assert_alike(apart + launch.ranks("steps", 3, **options))


def test_the_same_bits_from_run_to_run():
    options = {"net": "dropout", "steps": 10}
    first, again = launch.ranks("steps", 4, **options), launch.ranks("steps", 4, **options)
    assert_alike(first + again)
    assert [result["losses"] for result in first] == [result["losses"] for result in again]


def test_micro_batches_exchange_once():
    options = {"net": "dropout", "micro_batches": 2, "steps": 10, "type": "float64"}
    alone = launch.one("steps", **options)
    results = launch.ranks("steps", **options)
    assert_alike(results)
    assert np.allclose(mean_losses(results), alone["losses"], rtol=1e-9, atol=0)


def test_synchronized_statistics_of_uneven_rows():
    """In programs that take fewer rows than their batch, too."""
    options = {"net": "lenet", "type": "float64", "synchronized": True, "any_batch_size": True}
    alone = launch.one("fit", **options)
    for result in launch.ranks("fit", 3, **options):
        for name in ("losses", "validations", "loss"):
            assert np.allclose(result[name], alone[name], rtol=1e-9, atol=0), name


def test_running_statistics_are_the_same_on_all_ranks():
    assert_alike(launch.ranks("steps", net="batch_norm", steps=5))


@pytest.mark.parametrize("net", ["dropout", "lenet"])
@pytest.mark.parametrize("options", [{}, {"iterates": "all"}, {"samples": 3 * 24 + 1}])
def test_fit_shards_batches(net, options):
    """One rank of two has no row of a last batch of one; of five one has a row more."""
    options = {"net": net, "type": "float64", "synchronized": True, **options}
    alone = launch.one("fit", **options)
    results = launch.ranks("fit", **options)
    assert_alike(results)
    assert results[0]["asked"] == [1, 2, 3, 4]
    assert results[1]["asked"] == []
    for result in results:
        for name in ("losses", "validations", "loss", "accuracy"):
            assert np.allclose(result[name], alone[name], rtol=1e-9, atol=0), name
        assert result["confusion"] == alone["confusion"]


@pytest.mark.parametrize("samples", [3 * 24 + 1, 3 * 24 + 3])
def test_a_rank_with_one_row(samples):
    """Its program has the sums of the others, in their order."""
    options = {"net": "biases", "type": "float64", "synchronized": True, "samples": samples}
    alone = launch.one("fit", **options)
    results = launch.ranks("fit", **options)
    assert_alike(results)
    for result in results:
        assert np.allclose(result["losses"], alone["losses"], rtol=1e-9, atol=0)


@pytest.mark.parametrize("count", [2, 3])
def test_fit_reads_the_rows_of_its_own_rank_alone(count):
    """Those of others need not be prepared."""
    options = {"net": "mlp", "type": "float64", "samples": 3 * 24}
    whole = launch.ranks("fit", count, iterates="all", **options)
    own = launch.ranks("fit", count, iterates="own", **options)
    assert_alike(whole + own)
    assert np.isfinite(own[0]["losses"]).all()
    assert whole[0]["losses"] == own[0]["losses"]


def test_all_ranks_stop_together(tmp_path):
    options = {"net": "mlp", "optimizer": "sgd", "patience": 1, "epochs": 60}
    alone = launch.one("fit", **options)
    results = launch.ranks("fit", **options)
    assert_alike(results)
    assert {len(result["losses"]) for result in results} == {len(alone["losses"])}
    assert len(alone["losses"]) < 60
    file = tmp_path / "log.csv"
    launch.ranks("fit", net="mlp", file=str(file))
    assert len(file.read_text().splitlines()) == 1 + 4


@pytest.mark.parametrize(
    ("of_last", "text"),
    [
        ({"seed": 8}, "one seed on all ranks but got '7' on rank 0 and '8' on rank 1"),
        ({"batch": 4}, "one batch size on all ranks but got '12' on rank 0 and '4' on rank 1"),
        ({"net": "wide"}, "one program on all ranks but got"),
        ({"optimizer": "sgd"}, "one optimizer on all ranks but got"),
        ({"synchronized": True}, "one synchronized_batch_norm on all ranks but got 'false'"),
        ({"net": "dropout"}, "one program on all ranks but got"),
    ],
)
def test_differences_are_refused(of_last, text):
    for result in launch.ranks("fails", net="mlp", of_last=of_last):
        assert result["error"] == "InvalidArgument"
        assert text in result["text"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"shuffle_seed": 2}, "shuffle_seed=1 on rank 0 and shuffle_seed=2 on rank 1"),
        ({"shuffle": False}, "shuffle_seed=1 on rank 0 and shuffle=False on rank 1"),
        ({"metrics": ["top_2"]}, "metrics=[accuracy] on rank 0 and metrics=[top_2] on rank 1"),
        ({"epochs": 3}, "epochs=2 on rank 0 and epochs=3 on rank 1"),
    ],
)
def test_other_arguments_of_a_fit_are_refused(arguments, text):
    given = {"epochs": 2, "shuffle_seed": 1, "metrics": ["accuracy"]}
    other = {**given, **arguments}
    if not other.get("shuffle", True):
        del other["shuffle_seed"]
    options = {"net": "mlp", "calls": "fit", "arguments": given}
    for result in launch.ranks("fails", of_last={"arguments": other}, **options):
        assert f"expected one fit on all ranks but got {text}" in result["text"]


@pytest.mark.parametrize("shard", [False, True])
def test_parameters_of_one_rank_are_refused(shard):
    options = {"net": "mlp", "calls": "parameters", "shard": shard}
    for result in launch.ranks("fails", 3, of_last={"more": 1e-3}, **options):
        assert result["error"] == "InvalidArgument"
        assert "one set of parameters on all ranks but got others on rank 2" in result["text"]
    assert all("error" not in result for result in launch.ranks("fails", **options))


def test_another_schedule_is_refused():
    """Of the same first steps."""
    options = {"net": "mlp", "calls": "schedule", "later": 0.01}
    for result in launch.ranks("fails", of_last={"later": 0.02}, **options):
        assert result["error"] == "InvalidArgument"
        assert "but got a schedule with the rates 0.1 of step 1, 0.1 of step 1, " in result["text"]
        assert "0.02 of step 3 on rank 1" in result["text"]
    assert all("error" not in result for result in launch.ranks("fails", **options))


def test_calls_that_one_rank_refuses():
    """The others hear of it at once, and all train on."""
    results = launch.ranks("refuses", 3, net="mlp")
    assert_alike(results)
    for result in results:
        assert result["seconds"] < 20
        assert result["losses"] == results[0]["losses"]
        for call, (error, text) in result["found"].items():
            name = "fit" if call == "validation" else call
            if call == "both":
                assert error == "InvalidArgument"
                assert "on all ranks but got fit on rank 0 and evaluate on rank 2" in text
            elif result["rank"] == 2:
                assert error == "InvalidArgument"
                assert "memory_limit" in text if call == "compile" else "class from 0 to 4" in text
            else:
                assert error == "DistributedError"
                assert f"[{name}] expected all ranks to begin but rank 2 refuses: [" in text
                assert "memory_limit" in text if call == "compile" else "class from 0 to 4" in text


def test_calls_that_all_ranks_refuse():
    results = launch.ranks("refuses", net="mlp", all=True)
    assert_alike(results)
    for result in results:
        assert {error for error, _ in result["found"].values()} == {"InvalidArgument"}


def test_an_error_of_one_rank_in_evaluate_reaches_the_others():
    """At once, though its process goes on."""
    options = {"net": "mlp", "calls": "evaluate", "of_last": {"label": CLASSES + 1, "waits": 8}}
    results = launch.ranks("fails", **options)
    assert results[1]["error"] == "InvalidArgument"
    assert "expected a class from 0 to 4" in results[1]["text"]
    assert results[0]["error"] == "DistributedError"
    assert "rank 1 refuses: [labels 'y'] expected a class from 0 to 4" in results[0]["text"]
    assert results[0]["seconds"] < 7


def test_states_amid_micro_batches_are_refused(tmp_path):
    options = {"net": "mlp", "micro_batches": 3, "batch": 4}
    for result in launch.ranks("fails", calls="state", **options):
        assert result["error"] == "InvalidArgument"
        assert "execute the rest of its micro-batches" in result["text"]
    options = {**options, "micro_batches": 2, "file": str(tmp_path / "file")}
    for result in launch.ranks("fails", calls="checkpoint", **options):
        assert result["error"] == "InvalidArgument"
        assert "whole groups of 2 micro-batches but got one behind an epoch of 3" in result["text"]
    assert not (tmp_path / "file").exists()


def test_a_fit_goes_on_with_its_global_batch_alone(tmp_path):
    options = {"net": "mlp", "file": str(tmp_path / "file")}
    launch.ranks("resumes", epochs=1, **options)
    for result in launch.ranks("fails", calls="resume", batch=6, **options):
        assert result["error"] == "InvalidArgument"
        assert "expected batch_size=24, as the fit to go on with has, but got 12" in result["text"]


def test_ranks_without_a_row():
    """Of two samples, which four ranks train on."""
    options = {"net": "mlp", "type": "float64", "samples": 2, "epochs": 2}
    results = launch.ranks("fit", 4, **options)
    assert_alike(results)
    for result in results:
        assert result["losses"] == results[0]["losses"]
        assert np.isfinite(result["losses"]).all()


def test_gradients_of_one_rank_are_checked_alone():
    options = {"net": "lenet", "synchronized": True}
    passed = launch.ranks("checks", **options)[0]["passed"]
    assert len(passed) == 11
    assert all(passed)
    for result in launch.ranks("checks", shard=True, **options):
        assert "compiled without shard_optimizer" in result["error"]


def test_other_rows_are_refused():
    for result in launch.ranks("fails", net="mlp", of_last={"rows": 4}):
        assert result["error"] == "DistributedError"
        assert "the same number of rows on all ranks but rank" in result["text"]


@pytest.mark.parametrize("net", ["mlp", "wide"])
@pytest.mark.parametrize("count", [2, 4])
def test_graphs_in_another_order_are_refused(net, count):
    """Of equal sizes: nobody adds the gradients of one to those of the other."""
    for result in launch.ranks("orders", count, net=net):
        own, other = (2, 1) if result["rank"] == count - 1 else (1, 2)
        expected = f"expected the sums of graph {own} of rank "
        assert result["texts"][0].startswith(f"[distributed] {expected}")
        assert f"but got those of graph {other}" in result["texts"][0]
        assert "execute graphs in the same order on all ranks" in result["texts"][0]
        assert "start all ranks again" in result["texts"][1]
        assert result["kept"] == [True, True]


def test_graphs_of_two_threads_are_refused():
    """Whichever comes first on each rank."""
    for result in launch.ranks("orders", net="mlp", threads=True):
        assert len(result["texts"]) == 2
        assert all("the sums of graph" in text for text in result["texts"])
        assert result["kept"] == [True, True]


def test_a_rank_that_ends_is_named():
    results = launch.started("fails", 3, {"net": "mlp", "of_last": {"ends_at": 5}})
    assert results[2]["status"] == 3
    for result in results[:2]:
        assert result["error"] == "DistributedError"
        assert "rank 2 has ended" in result["text"]
        assert result["seconds"] < 30


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


def test_without_threads_the_sums_are_made_by_who_waits():
    """Stacks of 128 TiB, which no thread gets."""
    without = ("sh", "-c", 'ulimit -s 137438953472 && exec "$0" "$@"')
    options = {"net": "deep", "optimizer": "sgd", "steps": 3, "synchronous": True}
    results = launch.started("steps", 2, options, within=without)
    assert all(result["status"] == 0 for result in results), results
    assert_alike(results + launch.ranks("steps", **options))


def test_other_calls_are_named():
    for result in launch.ranks("fails", net="mlp", of_last={"evaluates_at": 5}):
        assert result["error"] == "DistributedError"
        assert "a step (all_reduce" in result["text"]
        assert "the beginning of compile, fit or evaluate (begin" in result["text"]
        assert "make the same calls in the same order" in result["text"]


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
