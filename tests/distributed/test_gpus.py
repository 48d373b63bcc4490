"""Ranks that have a GPU each and add gradients by NCCL, beside one rank with the rows of both."""

import numpy as np
import pytest
from test_ranks import assert_alike, assert_as_one, assert_trains_as_one, mean_losses

import launch

pytestmark = pytest.mark.usefixtures("two_gpus")

GPUS: launch.Result = {"device": "cuda"}


@pytest.fixture(scope="module")
def two_gpus(gpu: str) -> None:
    from traingraph import _core

    if len(_core.gpus()) < 2:
        pytest.skip("needs two GPUs")


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("net", ["mlp", "lstm", "dropout", "lenet"])
def test_two_ranks_train_as_one(net, optimizer):
    # In float32 lenet at a larger rate triples what rounding moves in each step.
    rate = 0.25 if net == "lenet" else 1
    assert_trains_as_one(net=net, optimizer=optimizer, rate=rate, **GPUS)


@pytest.mark.parametrize("precision", ["float64", "float32", "tf32"])
@pytest.mark.parametrize("net", ["lenet_digits", "resnet18_cifar", "lstm_of_two"])
def test_networks_of_the_benchmarks_train_as_one(net, precision):
    tolerances = {
        "float64": [(50, 1e-9)],
        "float32": [(10, 1e-4), (50, 1e-2)],
        "tf32": [(50, 1e-2)],
    }
    data_type = "float64" if precision == "float64" else "float32"
    # At a larger rate the ResNet of 24 rows magnifies rounding: TF32's is 6e-3 of a loss at any.
    rate = 2e-4 if net == "resnet18_cifar" else 0.02
    options = {"net": net, "optimizer": "sgd", "rate": rate, "type": data_type, **GPUS}
    if precision == "tf32":
        options["precision"] = precision
    assert_as_one(tolerances[precision], synchronized=True, **options)


def test_several_buckets_and_the_same_bits_again():
    options = {"net": "wide", "optimizer": "sgd", "steps": 4, "type": "float64", **GPUS}
    alone = launch.one("steps", **options)
    first, again = launch.ranks("steps", **options), launch.ranks("steps", **options)
    assert_alike(first + again)
    assert np.allclose(mean_losses(first), alone["losses"], rtol=1e-9, atol=0)


def test_bfloat16():
    options = {"net": "wide", "optimizer": "sgd", "steps": 10, "precision": "mixed_bfloat16"}
    alone = launch.one("steps", **options, **GPUS)
    results = launch.ranks("steps", **options, **GPUS)
    assert_alike(results)
    assert np.allclose(mean_losses(results), alone["losses"], rtol=1e-2, atol=0)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_shards_have_the_same_bits(optimizer):
    options = {"net": "wide", "optimizer": optimizer, "steps": 4, **GPUS}
    whole, parts = launch.ranks("steps", **options), launch.ranks("steps", shard=True, **options)
    assert_alike(whole + parts)
    assert parts[0]["buffer_bytes"] < 0.6 * whole[0]["buffer_bytes"]


def test_gradients_travel_as_bfloat16():
    options = {"net": "wide", "optimizer": "sgd", "steps": 4, **GPUS}
    exact, results = (
        launch.ranks("steps", **options),
        launch.ranks("steps", exchange="bfloat16", **options),
    )
    assert_alike(results)
    assert results[0]["digest"] != exact[0]["digest"]
    assert np.allclose(mean_losses(results), mean_losses(exact), rtol=1e-2, atol=0)


def test_micro_batches_exchange_once():
    options = {"net": "dropout", "micro_batches": 2, "steps": 10, "type": "float64", **GPUS}
    results = launch.ranks("steps", **options)
    assert_alike(results)
    alone = launch.one("steps", **options)
    assert np.allclose(mean_losses(results), alone["losses"], rtol=1e-9, atol=0)


def test_a_step_is_one_launch():
    for result in launch.ranks("launches", net="wide", **GPUS):
        assert result["launches"] == [1, 1, 1]


def test_fit_shards_batches():
    options = {"net": "dropout", "type": "float64", **GPUS}
    alone = launch.one("fit", **options)
    results = launch.ranks("fit", **options)
    assert_alike(results)
    for result in results:
        for name in ("losses", "validations", "loss", "accuracy"):
            assert np.allclose(result[name], alone[name], rtol=1e-9, atol=0), name


@pytest.mark.parametrize("end", [{"ends_at": 5}, {"lives": 1}])
def test_a_rank_that_ends_is_named(end):
    """Between two steps, or in the middle of one."""
    options = {"net": "wide", "optimizer": "sgd", "steps": 10**7, "of_last": end, **GPUS}
    results = launch.started("fails", 2, options)
    assert results[1]["status"] == 3
    assert results[0]["error"] == "DistributedError"
    assert "rank 1 has ended" in results[0]["text"]
    assert results[0]["seconds"] < 30


def test_a_silent_rank_is_noticed():
    late = {"sleeps_at": 5, "seconds": 15}
    options = {"net": "mlp", "of_last": late, **GPUS}
    results = launch.started("fails", 2, options, TRAINGRAPH_DISTRIBUTED_LIMIT="5")
    assert results[0]["error"] == "DistributedError"
    assert "within 5 s" in results[0]["text"]


def test_other_rows_are_refused():
    results = launch.ranks("fails", net="mlp", of_last={"rows": 4}, **GPUS)
    for result in results:
        assert result["error"] == "DistributedError"
        assert "the same number of rows on all ranks" in result["text"]


def test_graphs_in_another_order_are_refused():
    """Behind the step: NCCL has added what it was given."""
    for result in launch.ranks("orders", net="mlp", **GPUS):
        own = 2 if result["rank"] == 1 else 1
        assert f"expected the sums of graph {own} on all ranks" in result["texts"][0]


def test_two_ranks_on_one_gpu_are_refused():
    for result in launch.ranks("fails", net="mlp", device="gpu:0"):
        assert result["error"] == "InvalidArgument"
        assert "a GPU for each rank but ranks 0 and 1 both have GPU-" in result["text"]
        assert "world.local_rank" in result["text"]
