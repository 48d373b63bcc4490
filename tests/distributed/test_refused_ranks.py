"""Ranks that differ, and calls that one of them cannot make."""

import pytest
from test_ranks import assert_alike

import launch

CLASSES = 5  # of the networks


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


def test_other_calls_are_named():
    for result in launch.ranks("fails", net="mlp", of_last={"evaluates_at": 5}):
        assert result["error"] == "DistributedError"
        assert "a step (all_reduce" in result["text"]
        assert "the beginning of compile, fit or evaluate (begin" in result["text"]
        assert "make the same calls in the same order" in result["text"]
