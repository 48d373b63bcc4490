"""Optimizer buffers that ranks share, and gradients that travel in 16 bits."""

import sys

import numpy as np
import pytest

import launch


@pytest.mark.parametrize(("net", "count"), [("lenet", 2), ("mlp", 3), ("lstm", 4)])
@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_shards_train_to_the_same_bits(net, count, optimizer):
    """Parts that have the same elements, and parts that are filled up."""
    options = {"net": net, "optimizer": optimizer, "steps": 6}
    whole = launch.ranks("steps", count, **options)
    parts = launch.ranks("steps", count, shard=True, **options)
    assert {result["digest"] for result in parts} == {whole[0]["digest"]}
    for one, other in zip(parts, whole, strict=True):
        assert one["losses"] == other["losses"]


@pytest.mark.parametrize("count", [2, 4])
def test_each_rank_keeps_its_part(count):
    options = {"net": "wide", "steps": 2}
    whole = launch.ranks("steps", count, **options)[0]
    buffers = whole["buffer_bytes"]
    assert buffers > 2 * 4 * 1500 * 1500
    for result in launch.ranks("steps", count, shard=True, **options):
        assert result["digest"] == whole["digest"]
        assert buffers / count <= result["buffer_bytes"] < 1.001 * buffers / count
        # What joins the parts costs less than that saves.
        assert result["all_bytes"] < whole["all_bytes"] - buffers * (1 - 1 / count) / 2


@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted by /proc")
@pytest.mark.parametrize("shard", [False, True])
def test_nobody_needs_room_for_the_whole_state(tmp_path, shard):
    """Ranks begin with that of rank 0 by one tensor after another; it alone keeps one to write."""
    options = {"net": "deep", "file": str(tmp_path / "file")}
    for result in launch.ranks("peaks", 3, shard=shard, **options):
        assert result["state"] > 80e6
        assert result["compile"] < result["state"] / 2
        if shard and result["rank"] != 0:
            assert result["save"] < result["state"] / 2


def test_shards_with_micro_batches():
    options = {"net": "dropout", "micro_batches": 2, "steps": 4}
    whole = launch.ranks("steps", **options)
    parts = launch.ranks("steps", shard=True, **options)
    assert {result["digest"] for result in parts} == {whole[0]["digest"]}


@pytest.mark.parametrize("shard", [False, True])
def test_a_fit_goes_on_with_fewer_ranks(tmp_path, shard):
    """Its files are written amid epochs too, and callbacks of rank 0 copy the state."""
    options = {"net": "dropout", "type": "float64"}
    alone = launch.one("resumes", epochs=6, file=str(tmp_path / "alone"), **options)
    losses = []
    options["file"] = str(tmp_path / "file")
    for count, epochs in ((4, 2), (2, 4), (1, 6)):
        if count == 1:
            results = [launch.one("resumes", epochs=epochs, **options)]
        else:
            results = launch.ranks("resumes", count, epochs=epochs, shard=shard, **options)
        for result in results:
            assert result["losses"] == results[0]["losses"]
            assert result["saved"] == (alone["saved"][:2] if result["rank"] == 0 else [])
            assert result["same"]
            assert "open failed" in result["error"] or "rank 0, which writes" in result["error"]
        losses += results[0]["losses"]
    assert np.allclose(losses, alone["losses"], rtol=1e-9, atol=0)


def test_gradients_of_16_bits():
    """Each rank rounds to 8 bits, and so does the sum: by up to 2**-8 of a number each."""
    options = {"net": "mlp", "reduction": "mean"}
    own = [launch.one("gradients", part=[rank, 3], **options)["gradients"] for rank in range(3)]
    results = launch.ranks("gradients", 3, exchange="bfloat16", **options)
    for result in results:
        assert result["gradients"] == results[0]["gradients"]
    for k, found in enumerate(results[0]["gradients"]):
        parts = np.array([gradients[k] for gradients in own]) / 3
        error = np.abs(found - parts.sum(0))
        bound = 2.0**-8 * (np.abs(parts).sum(0) + np.abs(found)) + 1e-6 * np.abs(parts).max()
        assert (error <= bound).all()
        bits = np.array(found, np.float32).view(np.uint32)
        assert (bits & 0xFFFF == 0).all()


def test_training_with_gradients_of_16_bits():
    options = {"net": "wide", "optimizer": "sgd", "steps": 8}
    exact = launch.ranks("steps", **options)
    results = launch.ranks("steps", exchange="bfloat16", shard=True, **options)
    again = launch.ranks("steps", exchange="bfloat16", **options)
    assert len({result["digest"] for result in results + again}) == 1
    assert results[0]["digest"] != exact[0]["digest"]
    assert np.allclose(results[0]["losses"], exact[0]["losses"], rtol=2e-2, atol=0)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"exchange": "float16"}, "a gradient_exchange of bfloat16, or none, but got float16"),
        ({"exchange": "bfloat16", "type": "float64"}, "expected float32 tensors for a gradient"),
        ({"of_last": {"shard": True}}, "one shard_optimizer on all ranks but got 'false'"),
        ({"of_last": {"exchange": "bfloat16"}}, "one gradient_exchange on all ranks but got"),
    ],
)
def test_wrong_options_are_refused(options, text):
    for result in launch.ranks("fails", net="mlp", **options):
        assert result["error"] == "InvalidArgument"
        assert text in result["text"]
