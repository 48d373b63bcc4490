"""A YOLO network learns, and goes on bit for bit in a new process with what it has exported."""

import subprocess
import sys
from pathlib import Path

import numpy as np
from yolo_network import IMAGES, Network

from harness import everywhere

SCRIPT = Path(__file__).with_name("yolo_network.py")


@everywhere
def test_exported_weights_and_moments_go_on_in_a_new_process(tmp_path: Path, device: str) -> None:
    straight = Network(seed=1, device=device)
    straight.compile()
    first = straight.steps(0, 4)
    assert first.shape == (4, IMAGES)
    exported = straight.export()
    assert sum("." in name for name in exported) == 2 * (2 * 9 + 2 * 8)
    np.savez(tmp_path / "half.npz", **exported)
    last = straight.steps(4, 7)
    done = subprocess.run(
        [sys.executable, SCRIPT, device, "4", "7", tmp_path / "half.npz", tmp_path / "last.npz"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    expected = straight.export() | {"losses": last}
    with np.load(tmp_path / "last.npz") as file:
        assert set(file) == set(expected)
        for name, array in expected.items():
            assert file[name].tobytes() == array.tobytes(), name


def test_it_learns_its_boxes() -> None:
    network = Network(seed=1, device="cpu", rescores=False)  # rescored losses end above 0
    network.compile()
    losses = network.steps(0, 60, batches=2).sum(axis=1)
    assert losses[-2:].mean() < 0.25 * losses[:2].mean()
