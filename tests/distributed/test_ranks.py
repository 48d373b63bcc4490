"""Ranks over sockets, beside one rank that has the rows of all of them."""

import subprocess

import numpy as np
import pytest

import launch


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


def test_without_threads_the_sums_are_made_by_who_waits():
    """Stacks of 128 TiB, which no thread gets."""
    without = ("sh", "-c", 'ulimit -s 137438953472 && exec "$0" "$@"')
    options = {"net": "deep", "optimizer": "sgd", "steps": 3, "synchronous": True}
    results = launch.started("steps", 2, options, within=without)
    assert all(result["status"] == 0 for result in results), results
    assert_alike(results + launch.ranks("steps", **options))
