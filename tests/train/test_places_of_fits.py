"""Where a graph stands in a fit: the rate it goes on with, and what a later fit does to it."""

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fit_to_kill import X, Y, model

import traingraph as tg

VALIDATION = (X[70:], Y[70:])


def end_in_second(epoch: tg.Epoch) -> None:
    if epoch.number == 2:
        raise KeyboardInterrupt


def stopped(**given: Any) -> tg.MLCTrainingGraph:
    """Behind the second of 4 epochs."""
    network = model()
    with pytest.raises(KeyboardInterrupt):
        network.fit(X, Y, epochs=4, on_epoch=end_in_second, **given)
    return network


def same(a: tg.MLCTrainingGraph, b: tg.MLCTrainingGraph) -> bool:
    first, second = a.state(), b.state()
    assert first.keys() == second.keys()
    return all(np.array_equal(first[name], second[name]) for name in first)


# --- the rate ------------------------------------------------------------------------------------


def test_a_rate_that_was_lowered_behind_a_fit_is_that_of_the_rest() -> None:
    network = stopped()
    network.optimizer.learning_rate = 0.001
    rest = network.fit(X, Y, epochs=4, resume=True)
    assert [epoch.number for epoch in rest] == [2, 3, 4]
    assert [epoch.learning_rate for epoch in rest[1:]] == [pytest.approx(0.001)] * 2
    assert network.optimizer.learning_rate == pytest.approx(0.001)


def test_a_file_keeps_the_rate_that_was_set_before_it_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    network = stopped()
    network.optimizer.learning_rate = 0.001
    network.save(path)
    network.optimizer.learning_rate = 0.5
    other = model(seed=8)
    for one in (network, other):  # the file's, whatever the graph has
        assert one.fit(X, Y, epochs=4, resume=path)[-1].learning_rate == pytest.approx(0.001)
    assert same(network, other)


def test_a_rate_set_behind_a_load_goes_first(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"

    def lower(epoch: tg.Epoch) -> None:
        network.optimizer.learning_rate = 0.01

    network = model()
    with pytest.raises(KeyboardInterrupt):
        network.fit(X, Y, epochs=4, callbacks=[lower, end_in_second])
    network.save(path)
    for set_to, expected in [(None, 0.01), (0.003, 0.003)]:
        loaded = model()
        loaded.load(path)
        if set_to is not None:
            loaded.optimizer.learning_rate = set_to
        done = loaded.fit(X, Y, epochs=4, resume=True)
        assert done[-1].learning_rate == pytest.approx(expected)


# --- a fit that trains nothing -------------------------------------------------------------------


def bad_shape() -> dict[str, Any]:
    return {"batches": [(X[:16, :4], Y[:16])]}


def bad_class() -> dict[str, Any]:
    return {"batches": [(X[:16], np.full(16, 7))], "schedule": tg.RateSchedule.constant(0.5)}


def bad_classes() -> dict[str, Any]:
    return {"inputs": X, "labels": np.full(90, 7), "schedule": tg.RateSchedule.constant(0.5)}


@pytest.mark.parametrize(("bad", "text"), [
    (bad_shape, "of epoch 1"), (bad_class, "in step 1 of epoch 1"), (bad_classes, "'Loss'$"),
])  # fmt: skip
def test_a_fit_that_is_refused_in_its_first_step_leaves_the_place(bad: Any, text: str) -> None:
    """Or before it."""
    whole, network = model(), stopped()
    whole.fit(X, Y, epochs=4)
    for _ in range(2):
        with pytest.raises(ValueError, match=text):
            network.fit(**bad())
    rest = network.fit(X, Y, epochs=4, resume=True)
    assert [epoch.number for epoch in rest] == [2, 3, 4]
    assert rest[-1].learning_rate == pytest.approx(0.02)
    assert same(whole, network)


def test_a_fit_that_has_trained_a_step_has_the_place() -> None:
    network = stopped()
    with pytest.raises(ValueError, match="in batch 2 of epoch 1"):
        network.fit(batches=[(X[:16], Y[:16]), (X[:16, :4], Y[:16])])
    with pytest.raises(ValueError, match="expected batches, as the fit to go on with has"):
        network.fit(X, Y, epochs=4, resume=True)


# --- more epochs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("stops", [False, True])
def test_more_epochs_behind_a_whole_fit(stops: bool, tmp_path: Path) -> None:
    def callbacks() -> list[Any]:
        stop = tg.EarlyStopping(patience=20, monitor="accuracy", restores_best=False)
        return [stop] if stops else []

    path = tmp_path / "run.safetensors"
    given: dict[str, Any] = {"validation": VALIDATION}
    whole, by_path, by_graph = model(), model(), model()
    whole.fit(X, Y, epochs=5, callbacks=callbacks(), **given)
    file = tg.Checkpoint(path=path)
    by_path.fit(X, Y, epochs=3, callbacks=[*callbacks(), file], **given)
    by_graph.fit(X, Y, epochs=3, callbacks=callbacks(), **given)
    for network, resume in [(by_path, path), (by_graph, True)]:
        done = network.fit(X, Y, epochs=5, callbacks=callbacks(), resume=resume, **given)
        assert [epoch.number for epoch in done] == [4, 5]
        assert same(network, whole)
    with pytest.raises(ValueError, match="expected samples: 90"):
        by_graph.fit(X[:60], Y[:60], epochs=6, callbacks=callbacks(), resume=True, **given)
    assert by_graph.fit(X, Y, epochs=6, callbacks=callbacks(), resume=True, **given)


def test_best_weights_that_were_put_back_are_none_to_go_on_from() -> None:
    network = model()
    given: dict[str, Any] = {
        "callbacks": [tg.EarlyStopping(patience=20)],
        "validation": VALIDATION,
    }
    network.fit(X, Y, epochs=2, **given)
    text = (
        "[fit] expected a graph with the last weights of the fit to go on with but other ones, as "
        "the best of an EarlyStopping, were put back when it ended after epoch 2; pass the path of "
        "its Checkpoint as resume, or, to train on from these weights, first_epoch=3 without resume"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        network.fit(X, Y, epochs=3, resume=True, **given)
    assert [epoch.number for epoch in network.fit(X, Y, epochs=3, first_epoch=3, **given)] == [3]


# --- what the call says --------------------------------------------------------------------------


def test_a_file_that_nobody_writes_is_missed(tmp_path: Path) -> None:
    file = tg.Checkpoint(path=tmp_path / "run.safetensors")
    text = f"begins anew: no file '{tmp_path / 'other.st'}' to resume, and the Checkpoint writes"
    with pytest.warns(RuntimeWarning, match=re.escape(text)):
        model().fit(X, Y, callbacks=[file], resume=tmp_path / "other.st")
    text = f"begins anew: no file '{tmp_path / 'nobody.st'}' to resume, and no Checkpoint writes it"
    for callbacks in ([], [tg.EarlyStopping(patience=1)]):
        with pytest.warns(RuntimeWarning, match=re.escape(text)):
            assert len(model().fit(X, Y, callbacks=callbacks, resume=tmp_path / "nobody.st")) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model().fit(X, Y, callbacks=[file], resume=tmp_path / "other.st" / ".." / "run.safetensors")
        Path(file.path).unlink()
        model().fit(X, Y, callbacks=[file], resume=file.path)


@pytest.mark.parametrize("validates", [True, False])
def test_an_early_stopping_goes_on_with_numbers_of_one_kind(
    validates: bool, tmp_path: Path
) -> None:
    path = tmp_path / "run.safetensors"

    def given(validates: bool) -> dict[str, Any]:
        more = {"validation": VALIDATION} if validates else {}
        return {"callbacks": [tg.EarlyStopping(patience=9)], "epochs": 4, **more}

    network = model()
    with pytest.raises(KeyboardInterrupt):
        network.fit(X, Y, on_epoch=end_in_second, **given(validates))
    network.save(path)
    which = "validation, whose loss EarlyStopping(monitor='loss') watches, as the fit to go on wi"
    text = f"[fit] expected {which}" if validates else f"[fit] expected no {which}"
    for resume in (True, path):
        with pytest.raises(ValueError, match=re.escape(text)):
            network.fit(X, Y, resume=resume, **given(not validates))
    other = given(validates)
    if validates:
        other["validation"] = (X[60:], Y[60:])
    assert network.fit(X, Y, resume=True, **other)


def test_a_fit_without_an_update_is_refused() -> None:
    network = model()
    network.micro_batches = 8
    before = network.state()
    text = "expected batches for an update, which takes micro_batches=8 of them, but got 6 in all"
    with pytest.raises(ValueError, match=text):
        network.fit(X, Y)
    with pytest.raises(ValueError, match=text):
        network.fit(batches=[(X[:16], Y[:16])] * 6)
    assert all(np.array_equal(before[name], values) for name, values in network.state().items())
    network.fit(X, Y, epochs=2)
    assert network.optimizer.time_step == 2
