"""Ctrl-C before the first step of a fit, also while it reads the file to go on from."""

import ctypes
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fit_to_kill import X, Y, model

import traingraph as tg


def pressing(*callbacks: Any) -> Iterator[Any]:
    """Presses Ctrl-C when the call reads its callbacks, behind which no Python code runs."""
    press = ctypes.pythonapi["PyErr_SetInterrupt"]
    press.argtypes, press.restype = [ctypes.py_object], None
    return itertools.filterfalse(press, callbacks)


def same(found: tg.MLCTrainingGraph, expected: dict[str, np.ndarray]) -> None:
    assert list(found.state()) == list(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(found.state()[name], values, err_msg=name)


def test_a_file_that_was_being_read_is_there_for_the_same_call(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    whole = model()
    whole.fit(X, Y, epochs=4)
    model().fit(X, Y, epochs=2, callbacks=[tg.Checkpoint(path=path)])
    file, network = path.read_bytes(), model(seed=8)
    before = network.state()
    text = f"before its first step; nothing of '{path}' was loaded, and no file was written: make "
    with pytest.raises(KeyboardInterrupt, match=re.escape(text + "the same call again")) as error:
        network.fit(X, Y, epochs=4, resume=str(path), callbacks=pressing(tg.Checkpoint(path=path)))
    assert error.value.epochs == []
    same(network, before)
    assert path.read_bytes() == file
    text = "stands in none; after a call that was interrupted before its first step, make that call"
    with pytest.raises(ValueError, match=text):
        network.fit(X, Y, epochs=4, resume=True)
    rest = network.fit(X, Y, epochs=4, resume=path, callbacks=[tg.Checkpoint(path=path)])
    assert [epoch.number for epoch in rest] == [3, 4]
    same(network, whole.state())


def test_a_position_stays_where_another_file_was_being_read(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    whole, network = model(), model()
    whole.fit(X, Y, epochs=4)
    model(seed=8).fit(X, Y, callbacks=[tg.Checkpoint(path=path)])

    def end(epoch: tg.Epoch) -> None:
        raise SystemExit

    with pytest.raises(SystemExit):
        network.fit(X, Y, epochs=4, callbacks=[end])
    with pytest.raises(KeyboardInterrupt, match="before its first step"):
        network.fit(X, Y, epochs=4, resume=str(path), callbacks=pressing(tg.Checkpoint(path=path)))
    network.fit(X, Y, epochs=4, resume=True)
    same(network, whole.state())


def test_a_fit_that_begins_says_that_nothing_has_changed(tmp_path: Path) -> None:
    other = tmp_path / "other.safetensors"
    network = model()
    network.save(other)  # which the fit reads, to know that it may replace it
    before = network.state()
    text = "before its first step; the graph is as it was: make the same call again"
    with pytest.raises(KeyboardInterrupt, match=text):
        network.fit(X, Y, callbacks=pressing(tg.Checkpoint(path=other)))
    same(network, before)
