"""TensorBoard reads what a fit has written."""

import subprocess
import sys
from pathlib import Path

import pytest
from fit_to_kill import X, Y, model

import traingraph as tg
from traingraph.tensorboard import TensorBoardLog


def test_numbers_of_epochs_are_read_back(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX", reason="the extra that writes the files")
    reader = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator", reason="what reads them"
    )
    folder, path = tmp_path / "events", tmp_path / "run.safetensors"
    given = {"validation": (X[70:], Y[70:]), "metrics": ["top_2", "confusion_matrix"]}
    network = model()
    epochs = network.fit(X[:70], Y[:70], epochs=3, **given,
                         callbacks=[TensorBoardLog(folder), tg.Checkpoint(path=path)])  # fmt: skip

    def read() -> dict[str, list[tuple[int, float]]]:
        events = reader.EventAccumulator(str(folder))
        events.Reload()
        return {tag: [(event.step, event.value) for event in events.Scalars(tag)]
                for tag in events.Tags()["scalars"]}  # fmt: skip

    found = read()
    assert sorted(found) == ["learning_rate", "loss", "seconds", "validation/accuracy",
                             "validation/loss", "validation/top_2"]  # fmt: skip
    assert found["loss"] == [(e.number, pytest.approx(e.loss, rel=1e-6)) for e in epochs]
    assert found["validation/top_2"] == [
        (e.number, pytest.approx(e.validation.metrics["top_2"], rel=1e-6)) for e in epochs
    ]
    # One that goes on from the second epoch writes the third again.
    again = model()
    again.fit(X[:70], Y[:70], first_epoch=3, epochs=4, callbacks=[TensorBoardLog(folder)])
    assert [step for step, _ in read()["loss"]] == [1, 2, 3, 4]
    # And so does one that has heard of later epochs.
    log = TensorBoardLog(folder)
    for first, last in [(5, 7), (6, 8)]:
        again.fit(X[:70], Y[:70], first_epoch=first, epochs=last, callbacks=[log])
    assert [step for step, _ in read()["loss"]] == [1, 2, 3, 4, 5, 6, 7, 8]


LEFT = """
import sys, numpy as np
import traingraph as tg
from traingraph import nn
from traingraph.tensorboard import TensorBoardLog

x = np.zeros((8, 4), np.float32)
model, kept = nn.model([nn.dense(2)], input=4, device="cpu"), TensorBoardLog(sys.argv[1])
for log in (kept, kept, TensorBoardLog(sys.argv[1])):
    model.fit(x, np.zeros(8, np.int32), callbacks=[log])
del log
"""


def test_no_file_is_left_open(tmp_path: Path) -> None:
    """Neither where a log goes, nor where the process ends with one."""
    pytest.importorskip("tensorboardX", reason="the extra that writes the files")
    shown = ["-W", "ignore", "-W", "always::ResourceWarning"]
    run = subprocess.run([sys.executable, *shown, "-c", LEFT, str(tmp_path)], check=True,
                         capture_output=True, text=True)  # fmt: skip
    assert run.stderr == ""
    assert len(list(tmp_path.iterdir())) == 3


def test_it_says_what_it_needs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX.event_file_writer", None)
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ImportError) as error:
        TensorBoardLog(tmp_path)
    assert error.value.__notes__ == ["TensorBoardLog writes with it: pip install tensorboardX"]
