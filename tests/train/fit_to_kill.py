"""Kills a training at drawn places, lets it go on from its checkpoint, and writes what came of it.

python fit_to_kill.py FOLDER PLACES TIMES: line 0 of FOLDER/found.jsonl is that of the training that
was not killed. So many that were killed at a moment of the fit follow, then so many that were
killed after some time, mostly as they wrote a checkpoint.
"""

import csv
import json
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import traingraph as tg
from traingraph import nn

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 5)).astype(np.float32)
Y = (X[:, 0] + 0.5 * X[:, 1] > 0).astype(np.int32) + (X[:, 2] > 1)


def model(seed: int = 3) -> tg.MLCTrainingGraph:
    tg.MLCPlatform.set_rng_seed_to(seed)
    layers = [nn.dense(16), nn.batch_norm(), "relu", nn.dropout(0.2), nn.dense(3)]
    return nn.model(layers, input=5, batch_size=16, optimizer=nn.adam(0.02), device="cpu")


class Moments:
    """Counts what a fit asks, and does something at one of those moments."""

    def __init__(self, at: int = 0, action: Any = None) -> None:
        self.count, self.at, self.action = 0, at, action

    def __call__(self) -> None:
        self.count += 1
        if self.count == self.at:
            self.action()


def fit(network: tg.MLCTrainingGraph, moment: Moments, folder: Path, **given: Any) -> Any:
    """A training that stops by itself: its early stopping."""
    rates = tg.RateSchedule.one_cycle(0.3, steps=60)
    stop = tg.EarlyStopping(patience=3)

    def rate(step: int) -> float:
        moment()
        return rates(step)

    callbacks = [lambda epoch: moment(), stop, tg.CSVLog(path=folder / "log.csv"),
                 lambda epoch: moment(), *given.pop("callbacks", [])]  # fmt: skip
    network.fit(X[:70], Y[:70], epochs=40, validation=(X[70:], Y[70:]), schedule=rate,
                callbacks=callbacks, on_epoch=lambda epoch: moment(), **given)  # fmt: skip
    return stop


def outcome(network: tg.MLCTrainingGraph, stop: tg.EarlyStopping, folder: Path) -> dict[str, Any]:
    network.save(folder / "end.safetensors")
    with (folder / "log.csv").open(newline="") as file:
        rows = [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]
    state = (folder / "end.safetensors").read_bytes().hex()
    return {"state": state, "best": stop.best, "epoch": stop.best_epoch, "rows": rows}


def in_child(
    folder: Path, kill_at: int, every_steps: int, seconds: float | None = None
) -> tuple[bool, int]:
    """Whether it was killed, and how many moments there were."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        moment = Moments(kill_at, lambda: os.kill(os.getpid(), signal.SIGKILL))
        file = folder / "run.safetensors"
        network = model()
        stop = fit(network, moment, folder, resume=file,
                   callbacks=[tg.Checkpoint(path=file, every_steps=every_steps)])  # fmt: skip
        (folder / "end.json").write_text(json.dumps(outcome(network, stop, folder)))
        os.write(writing, str(moment.count).encode())
        os._exit(0)
    os.close(writing)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    count = os.read(reading, 100)
    os.close(reading)
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status), int(count or 0)


def main() -> None:
    folder, (places, times) = Path(sys.argv[1]), map(int, sys.argv[2:])
    draw = random.Random(1)
    moments, whole = 0, 0.0
    for k in range(1 + places + times):
        for file in [*folder.glob("*.*"), *folder.glob(".*")]:
            if file.name != "found.jsonl":
                file.unlink()
        if k <= places:
            kill_at = draw.randrange(1, moments) if k else 0
            begin = time.perf_counter()
            killed, count = in_child(folder, kill_at, draw.choice([0, 1, 2, 3]))
            whole = time.perf_counter() - begin if k == 0 else whole
            moments = moments or count
        else:
            killed, _ = in_child(folder, 0, 1, draw.uniform(0.1, 1) * whole)
        if k:
            assert killed or k > places, kill_at
            assert not in_child(folder, 0, 2)[0]
        with (folder / "found.jsonl").open("a") as found:
            found.write((folder / "end.json").read_text() + "\n")


if __name__ == "__main__":
    main()
