"""Files of CSVLog: their columns, more rows, and what cannot be written."""

import csv
import re
from pathlib import Path
from typing import Any

import pytest
from fit_to_kill import X, Y, model

import traingraph as tg

VALIDATION = (X[70:], Y[70:])


def fit(network: tg.MLCTrainingGraph, *callbacks: Any, **given: Any) -> list[tg.Epoch]:
    return network.fit(X[:70], Y[:70], callbacks=list(callbacks), **given)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


PLAIN = "epoch,loss,seconds,learning_rate"
BESIDE = f"{PLAIN},validation_loss,validation_accuracy"


@pytest.mark.parametrize(
    ("given", "got"),
    [
        ({}, PLAIN),
        ({"validation": VALIDATION, "metrics": ["confusion_matrix", "accuracy"]}, BESIDE),
        ({"validation": VALIDATION, "metrics": ["top_2", "top_1"]},
         f"{BESIDE},validation_top_2,validation_top_1"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("resumes", [False, True])
def test_other_columns_are_refused_before_the_first_step(
    given: dict[str, Any], got: str, resumes: bool, tmp_path: Path
) -> None:
    path, saved = tmp_path / "log.csv", tmp_path / "run.safetensors"
    there = f"{BESIDE},validation_top_2"
    first = {"validation": VALIDATION, "metrics": ["top_2"]}
    network = model()
    fit(network, tg.CSVLog(path=path), tg.Checkpoint(path=saved), epochs=2, **first)
    before, state = path.read_text(), network.state()["state.forward_count"]
    assert before.splitlines()[0] == there
    text = f"[CSVLog] expected the columns of '{path}', {there}, but got {got}; pass another path"
    more = {"epochs": 3, "resume": saved} if resumes else {"epochs": 3, "first_epoch": 3}
    log = tg.CSVLog(path=path, appends=not resumes)
    with pytest.raises(ValueError, match=re.escape(text)):
        fit(network, log, **given, **more)
    assert path.read_text() == before
    assert network.state()["state.forward_count"] == state
    fit(network, log, **first, **more)
    assert [row["epoch"] for row in rows_of(path)] == ["1", "2", "3"]


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
def test_rows_follow_a_line_without_end(end: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(f"{PLAIN}\n1,0.5,0.1,0.01{end}".encode())
    fit(model(), tg.CSVLog(path=path, appends=True), first_epoch=2, epochs=3)
    assert [row["epoch"] for row in rows_of(path)] == ["1", "2", "3"]


def test_a_log_without_rows_to_keep_begins_the_file(tmp_path: Path) -> None:
    for text, name in [(None, "new.csv"), ("", "empty.csv")]:
        path = tmp_path / name
        if text is not None:
            path.write_text(text)
        log = tg.CSVLog(path=path, appends=True)
        fit(model(), log)
        fit(model(), log)  # the same object again
        assert [row["epoch"] for row in rows_of(path)] == ["1", "1"]
    replaced = tmp_path / "other.csv"
    replaced.write_text(f"{BESIDE}\n7,1,1,1,1,1\n")
    fit(model(), tg.CSVLog(path=replaced))
    assert [row["epoch"] for row in rows_of(replaced)] == ["1"]


def test_a_failed_fit_leaves_a_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    with pytest.raises(ValueError, match="expected a class from 0 to 2"):
        fit(model(), tg.CSVLog(path=path), validation=(X, Y + 5))
    assert not path.exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("first", [2, 3, 4, 9])
def test_a_first_epoch_replaces_the_rows_from_it_on(first: int, tmp_path: Path) -> None:
    path, network = tmp_path / "log.csv", model()
    fit(network, tg.CSVLog(path=path), epochs=3)
    before = path.read_text().splitlines()
    log = tg.CSVLog(path=path)
    fit(network, log, first_epoch=first, epochs=first + 1)
    kept = before[: min(first, 4)]
    assert path.read_text().splitlines()[: len(kept)] == kept
    numbers = [*range(1, min(first, 4)), first, first + 1]
    assert [int(row["epoch"]) for row in rows_of(path)] == numbers
    fit(network, log, epochs=1)  # from the first epoch on
    assert [row["epoch"] for row in rows_of(path)] == ["1"]


def test_a_first_epoch_without_rows_before_it(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    fit(model(), tg.CSVLog(path=path), first_epoch=3, epochs=4)
    assert [row["epoch"] for row in rows_of(path)] == ["3", "4"]


@pytest.mark.parametrize("there", [b"something else\n", bytes(range(128, 256)), b"\n1,2\n", b"\0"])
@pytest.mark.parametrize(("appends", "first"), [(False, 1), (False, 3), (True, 1)])
def test_a_file_that_is_no_log_stays(
    there: bytes, appends: bool, first: int, tmp_path: Path
) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(there)
    text = (
        f"[CSVLog] expected a file of its rows, or none, but got '{path}', a file that is no CSV "
        "log of this library; pass another path"
    )
    log = tg.CSVLog(path=path, appends=appends)
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        fit(model(), log, first_epoch=first, epochs=4)
    assert path.read_bytes() == there


def test_a_checkpoint_is_no_log(tmp_path: Path) -> None:
    path = tmp_path / "run.safetensors"
    model().save(path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="a file that is no CSV log of this library"):
        fit(model(), tg.CSVLog(path=path))
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("last", "kept"),
    [
        ("2,0.4,0.1,0.01", True),
        ("2,0.4", False),
        ("2,0.4,0.1,0.01\n", True),
        ("3,0.4,0.1,0", False),
    ],
)
@pytest.mark.parametrize("resumes", [False, True])
def test_a_last_row_without_end(last: str, kept: bool, resumes: bool, tmp_path: Path) -> None:
    """A whole one stays, and one that was cut off goes."""
    path, saved = tmp_path / "log.csv", tmp_path / "run.safetensors"
    log, given = tg.CSVLog(path=path), {"first_epoch": 3}
    if resumes:
        fit(model(), log, tg.Checkpoint(path=saved), epochs=2)
        given = {"resume": saved}
    path.write_text(f"{PLAIN}\n1,0.5,0.1,0.01\n{last}")
    fit(model(), log, epochs=3, **given)
    assert [row["epoch"] for row in rows_of(path)] == ["1", *(["2"] if kept else []), "3"]


def test_rows_before_a_first_epoch_stay_until_it_has_ended(tmp_path: Path) -> None:
    path, network = tmp_path / "log.csv", model()
    fit(network, tg.CSVLog(path=path), epochs=3)
    before = path.read_text()

    def fails(step: int) -> float:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        fit(network, tg.CSVLog(path=path), first_epoch=2, epochs=3, schedule=fails)
    assert path.read_text() == before
