"""Callbacks of a fit that goes on: what keeps state finds its own, the others come, go and move."""

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fit_to_kill import X, Y, model

import traingraph as tg

KEPT = {"epochs": 4, "validation": (X[70:], Y[70:]), "metrics": ["top_2"]}


def run(network: tg.MLCTrainingGraph, callbacks: list[Any], **given: Any) -> list[tg.Epoch]:
    return network.fit(X[:70], Y[:70], callbacks=callbacks, **KEPT, **given)


def stops() -> list[tg.EarlyStopping]:
    """The weights of the lowest loss stay."""
    watching = tg.EarlyStopping(patience=9, monitor="accuracy", restores_best=False)
    return [tg.EarlyStopping(patience=9), watching]


def noting(heard: list[str], name: str) -> Callable[[tg.Epoch], None]:
    def note(epoch: tg.Epoch) -> None:
        heard.append(f"{name} {epoch.number}")

    note.__qualname__ = name
    return note


def interrupting(epoch: tg.Epoch) -> None:
    if epoch.number == 2:
        raise KeyboardInterrupt


def interrupted(callbacks: list[Any], path: Path) -> tg.MLCTrainingGraph:
    """As the last of them hears of epoch 2."""
    network = model()
    with pytest.raises(KeyboardInterrupt):
        run(network, [*callbacks, interrupting])
    network.save(path)
    return network


def as_before(path: Path) -> None:
    """The file as it was when it had no kinds, but the count of those that have heard."""
    safetensors = pytest.importorskip("safetensors.numpy")
    entries = safetensors.load_file(path)
    heard = {name for name in entries if name.startswith("fit.heard.")}
    count = np.array(sum(int(entries[name]) for name in heard), np.int64)
    rest = {name: entries[name] for name in entries if name not in heard}
    safetensors.save_file(rest | {"fit.heard": count}, path)


@pytest.mark.parametrize("is_old", [False, True], ids=["file", "file without kinds"])
@pytest.mark.parametrize(
    "order",
    [
        lambda stop, watch, new, seen: [stop, watch],
        lambda stop, watch, new, seen: [new, stop, seen, watch],
        lambda stop, watch, new, seen: [seen, new, tg.CSVLog(path="log.csv"), stop, new, watch],
    ],
    ids=["go", "come", "move"],
)
def test_callbacks_without_state_come_go_and_move(
    order: Any, is_old: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    whole, expected = model(), stops()
    run(whole, list(expected))
    path, heard = tmp_path / "run.safetensors", list[str]()
    interrupted([noting([], "seen"), *stops(), noting([], "gone")], path)
    if is_old:
        as_before(path)
    network, found = model(seed=8), stops()
    epochs = run(network, order(*found, noting(heard, "new"), noting(heard, "seen")), resume=path)
    assert [epoch.number for epoch in epochs] == [2, 3, 4]
    assert [s.best for s in found] == [s.best for s in expected]
    assert [s.best_epoch for s in found] == [s.best_epoch for s in expected]
    for name, values in whole.state().items():
        np.testing.assert_array_equal(values, network.state()[name], err_msg=name)
    if not is_old:  # one that has heard of epoch 2 is known by its name
        assert "seen 2" not in heard
        assert ("new 2" in heard) == ("new 3" in heard)


def test_stoppings_that_change_places_keep_what_is_theirs(tmp_path: Path) -> None:
    whole, expected = model(), stops()
    run(whole, list(expected))
    interrupted(stops(), tmp_path / "run.safetensors")
    found = stops()
    run(model(seed=8), found[::-1], resume=tmp_path / "run.safetensors")
    assert [(s.best, s.best_epoch) for s in found] == [(s.best, s.best_epoch) for s in expected]


@pytest.mark.parametrize(
    ("monitors", "got"),
    [
        ([], "none"),
        (["accuracy"], "EarlyStopping(monitor='accuracy')"),
        (
            ["loss", "loss"],
            "EarlyStopping(monitor='loss'), EarlyStopping(monitor='loss', restores_best=False)",
        ),
        (
            ["loss", "top_2"],
            "EarlyStopping(monitor='loss'), EarlyStopping(monitor='top_2', restores_best=False)",
        ),
    ],
)
def test_other_callbacks_with_state_are_named(
    monitors: list[str], got: str, tmp_path: Path
) -> None:
    path, log = tmp_path / "run.safetensors", tmp_path / "log.csv"
    interrupted([tg.EarlyStopping(patience=9), tg.CSVLog(path=log)], path)
    text = (
        "[fit] expected callbacks that keep state: EarlyStopping(monitor='loss'), as the fit to go "
        f"on with has, but got {got}; pass the same, at any places among the others, or load the "
        "state and fit with first_epoch=2, which begins theirs anew"
    )
    callbacks = [
        tg.EarlyStopping(patience=9, monitor=monitor, restores_best=place == 0)
        for place, monitor in enumerate(monitors)
    ]
    rows = log.read_text()
    network = model()
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        run(network, [*callbacks, tg.CSVLog(path=log)], resume=path)
    assert log.read_text() == rows
    # What it says: the weights and the optimizer go on, and the callbacks begin.
    network.load(path)
    epochs = run(network, callbacks, first_epoch=2)
    assert [epoch.number for epoch in epochs] == [2, 3, 4]


def test_a_log_that_has_heard_of_an_epoch_writes_it_once(tmp_path: Path) -> None:
    path, log = tmp_path / "run.safetensors", tmp_path / "log.csv"
    interrupted([tg.CSVLog(path=log), *stops()], path)
    run(model(), [*stops(), noting([], "new"), tg.CSVLog(path=log)], resume=path)
    with log.open(newline="") as file:
        assert [row["epoch"] for row in csv.DictReader(file)] == ["1", "2", "3", "4"]


@pytest.mark.parametrize("name", ["fit.heard.x.mine", "fit.heard.0.mine", "fit.callbacks.9.best"])
def test_entries_of_no_callback_are_refused(name: str, tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "run.safetensors"
    interrupted(stops(), path)
    safetensors.save_file(safetensors.load_file(path) | {name: np.array(1)}, path)
    with pytest.raises(ValueError, match=re.escape(f"no '{name}' but got one")):
        model().load(path)


class Once:
    """Raises the first time that it is called."""

    def __init__(self) -> None:
        self.heard: list[int] = []

    def __call__(self, epoch: tg.Epoch) -> None:
        self.heard.append(epoch.number)
        if len(self.heard) == 1:
            raise KeyboardInterrupt


@pytest.mark.parametrize("by_path", [False, True])
def test_all_hear_of_the_epoch_that_ends_a_fit(by_path: bool, tmp_path: Path) -> None:
    once, table = Once(), tmp_path / "rows.csv"
    callbacks = [lambda _: False, once, tg.CSVLog(path=str(table))]
    network = model()
    with pytest.raises(KeyboardInterrupt):
        run(network, callbacks)
    if by_path:
        network.save(tmp_path / "kept")
        network = model()
    epochs = run(network, callbacks, resume=str(tmp_path / "kept") if by_path else True)
    assert [epoch.number for epoch in epochs] == [1]
    assert once.heard == [1, 1]
    assert [row["epoch"] for row in csv.DictReader(table.open())] == ["1"]
    assert run(network, [], first_epoch=4)[0].number == 4


def test_a_file_that_could_not_be_written_is_written_when_the_fit_goes_on(tmp_path: Path) -> None:
    folder, network = tmp_path / "files", model()
    folder.mkdir()
    callbacks = [tg.Checkpoint(path=str(folder / "kept"))]

    def removing(epoch: tg.Epoch) -> None:
        if epoch.number == 4:
            (folder / "kept").unlink()
            folder.rmdir()

    with pytest.raises(OSError, match="kept"):
        run(network, [removing, *callbacks])
    folder.mkdir()
    assert run(network, callbacks, resume=True) == []
    other = model()
    other.load(folder / "kept")
    kept = other.state()
    for name, value in network.state().items():
        np.testing.assert_array_equal(value, kept[name])


@pytest.mark.parametrize("other", [{"restores_best": False}, {"min_delta": 0.5}])
def test_an_early_stopping_of_other_settings_takes_nothing(
    other: dict[str, Any], tmp_path: Path
) -> None:
    network = interrupted([tg.EarlyStopping(patience=9)], tmp_path / "kept")
    text = re.escape("EarlyStopping(monitor='loss', ")
    with pytest.raises(ValueError, match=rf"EarlyStopping\(monitor='loss'\), as .* got {text}"):
        run(network, [tg.EarlyStopping(patience=9, **other)], resume=True)
    run(network, [tg.EarlyStopping(patience=3)], resume=True)  # how long it waits may change


@pytest.mark.parametrize("by_path", [False, True])
def test_an_epoch_keeps_its_rate_where_a_callback_has_changed_it(
    by_path: bool, tmp_path: Path
) -> None:
    def rates(interrupts: bool) -> list[float]:
        network, heard = model(), []

        def halving(_: tg.Epoch) -> None:
            network.optimizer.learning_rate /= 2

        def noting(epoch: tg.Epoch) -> None:
            heard.append(epoch.learning_rate)

        once = Once() if interrupts else (lambda _: None)
        try:
            run(network, [halving, once, noting])
        except KeyboardInterrupt:
            if by_path:
                network.save(tmp_path / "kept")
                network = model()
            run(
                network,
                [halving, once, noting],
                resume=str(tmp_path / "kept") if by_path else True,
            )
        return heard

    assert rates(True) == rates(False)
