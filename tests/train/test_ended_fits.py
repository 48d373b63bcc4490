"""What a fit that goes on says of the one before: who ended it, and other micro-batches."""

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fit_to_kill import X, Y, model

import traingraph as tg
from op_harness import testing


def stops(epoch: tg.Epoch) -> bool:
    return epoch.number < 2


def enough(epoch: tg.Epoch) -> bool:
    return epoch.number < 2


@pytest.mark.parametrize(
    ("callbacks", "by"),
    [
        ([stops], "stops"),
        ([stops, enough], "stops, enough"),
        ([tg.EarlyStopping(patience=1, min_delta=1e9)],
         "EarlyStopping(monitor='loss', min_delta=1e+09)"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("how", ["file", "graph", "loaded"])
def test_a_fit_that_a_callback_has_ended_says_so(
    callbacks: list[Any], by: str, how: str, tmp_path: Path
) -> None:
    path, network = tmp_path / "run.safetensors", model()
    # Without it in the second run: what keeps no state may go.
    file = tg.Checkpoint(path=path)
    assert len(network.fit(X, Y, epochs=9, callbacks=[*callbacks, file])) == 2
    ended = network.state()
    if how != "graph":
        network = model(seed=8)
    if how == "loaded":
        network.load(path)
    text = (
        f"[fit] expected epochs to train but {by} has ended the fit to go on with after epoch 2; "
        "without resume, first_epoch=3 trains further epochs"
    )
    resume = path if how == "file" else True
    given = {"epochs": 9, "callbacks": callbacks, "resume": resume}
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match=f"^{re.escape(text)}$"):
            assert network.fit(X, Y, **given) == []
    for name, values in ended.items():
        np.testing.assert_array_equal(values, network.state()[name], err_msg=name)
    more = network.fit(X, Y, epochs=3, first_epoch=3)
    assert [epoch.number for epoch in more] == [3]


def test_programs_in_cpp_are_told_who_has_ended_a_fit() -> None:
    found = "EarlyStopping(monitor='loss', min_delta=1e+09) after 2"
    assert testing.ends_of_fits() == [found, found]


def test_a_file_that_does_not_tell_who_ended_the_fit(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.numpy")
    path = tmp_path / "run.safetensors"
    model().fit(X, Y, epochs=9, callbacks=[stops, tg.Checkpoint(path=path)])
    file = safetensors.load_file(path)
    assert file["fit.ended_by.1.stops"] == 1
    assert file["fit.micro_batches"] == 1
    new = ("fit.ended_by.1.stops", "fit.micro_batches")
    safetensors.save_file({k: v for k, v in file.items() if k not in new}, path)
    with pytest.warns(RuntimeWarning, match="but a callback has ended the fit"):
        assert model().fit(X, Y, epochs=9, resume=path) == []


def test_a_fit_whose_epochs_are_done_says_nothing(tmp_path: Path) -> None:
    path, network = tmp_path / "run.safetensors", model()
    network.fit(X, Y, epochs=2, callbacks=[tg.Checkpoint(path=path)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert network.fit(X, Y, epochs=2, resume=True) == []
        assert model().fit(X, Y, epochs=2, resume=path) == []


def raises(epoch: tg.Epoch) -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize("every", [0, 1])
@pytest.mark.parametrize(("before", "now"), [(2, 4), (1, 3), (4, 1)])
def test_other_micro_batches_are_named(every: int, before: int, now: int, tmp_path: Path) -> None:
    path, network = tmp_path / "run.safetensors", model()
    network.micro_batches = before
    file = tg.Checkpoint(path=path, every_steps=every)
    with pytest.raises(ZeroDivisionError):
        network.fit(X, Y, epochs=4, callbacks=[file, raises])
    network.save(path)
    text = f"[fit] expected micro_batches={before}, as the fit to go on with has, but got {now}"
    other = model()
    other.micro_batches = before
    other.load(path)
    for one, resume in ((network, True), (model(), path), (other, True)):
        one.micro_batches = now
        with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
            one.fit(X, Y, epochs=4, resume=resume)
        if resume is True and before == 4:
            continue  # it stands in a step, whose sums another number has dropped
        one.micro_batches = before
        assert one.fit(X, Y, epochs=4, resume=resume)[-1].number == 4
