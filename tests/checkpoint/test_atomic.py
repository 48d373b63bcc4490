"""A file is the old one or the new one, whatever happens to the process that writes it."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from checkpoint_network import Network, bits

import traingraph as tg

SCRIPT = Path(__file__).with_name("killed_while_saving.py")


@pytest.mark.parametrize("times", [40, pytest.param(200, marks=pytest.mark.kills)])
def test_killed_over_and_over(tmp_path: Path, times: int) -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, tmp_path, str(times)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["killed"] == found["old"] + found["new"] == times
    # Enough of them died in the middle of a file.
    assert found["partial"] >= times // 10, found


def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    """The partial file grows past what the process may write."""
    resource = pytest.importorskip("resource")
    network = Network()
    path = tmp_path / "file"
    network.training.save(path)
    before = path.read_bytes()
    network.steps(0, 1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal = pytest.importorskip("signal")
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
        with pytest.raises(OSError, match="write failed: File too large"):
            network.training.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["file"]
    network.training.save(path)
    assert path.read_bytes() != before


def test_threads_that_save_to_one_file_wait_for_each_other(tmp_path: Path) -> None:
    networks = [Network(seed=10 * k) for k in range(3)]
    states = [bits(network.training.state()) for network in networks]
    path = tmp_path / "file"
    networks[0].training.save(path)
    wrong = []
    reader = Network()

    def write(network: Network) -> None:
        for _ in range(20):
            network.training.save(path)

    threads = [threading.Thread(target=write, args=[network]) for network in networks]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        reader.training.load(path)
        if bits(reader.training.state()) not in states:
            wrong.append(1)
    for thread in threads:
        thread.join()
    assert not wrong
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("length", [0, 100, 100_000])
def test_a_partial_file_of_a_killed_process_leaves_nothing(tmp_path: Path, length: int) -> None:
    """Whether it is shorter or longer than what is saved."""
    network = Network()
    clean, path = tmp_path / "clean", tmp_path / "file"
    network.training.save(clean)
    assert 100 < clean.stat().st_size < 100_000
    (tmp_path / ".file.partial").write_bytes(b"x" * length)
    network.training.save(path)
    assert path.read_bytes() == clean.read_bytes()
    network.training.load(path)
    assert sorted(os.listdir(tmp_path)) == ["clean", "file"]


def test_a_link_in_place_of_the_partial_file_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / ".file.partial").symlink_to(victim)
    with pytest.raises(tg.FileError, match="open failed"):
        Network().training.save(tmp_path / "file")
    assert victim.read_text() == "mine"
    assert not (tmp_path / "file").exists()
