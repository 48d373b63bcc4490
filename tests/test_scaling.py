"""The model of several ranks, its page, and the program that measures two of them."""

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import scaling_model as model  # noqa: E402

# Of the page, by hand: seconds, bytes per second.
LINK = model.Link(latency=12e-6, rate=1.6e9, read=10e9, message=5e-6)


def test_tables_and_example_of_the_page_are_those_of_the_model() -> None:
    page = (ROOT / "docs/scaling.md").read_text()
    for table in model.TABLES:
        assert "\n".join(table()) in page, "run python -m benchmarks.scaling_model"
    found = model.terms([(2048 * 2048 * 4,)], 2, LINK, 13e9)
    assert f'(2 * exchange + copies) * 1e3:.2f}} ms")  # {found.total * 1e3:.2f} ms' in page


def test_limits_are_those_of_the_library() -> None:
    for file, limit in (
        ("distributed/all_reduce.h", f"kWhole = {model.WHOLE};"),
        ("distributed/sockets.cpp", f"kLong = {model.LONG};"),
        ("backends/cuda/cuda.cpp", f".bucket_bytes = std::size_t{{{model.BUCKET >> 20}}} <<"),
    ):
        assert limit in (ROOT / "cpp/src" / file).read_text(), file


@pytest.mark.parametrize(
    ("bucket", "ranks", "exchanges", "copies"),
    [
        # As a whole, once, and added where it lies.
        ((8192,), 2, 12e-6 + 8192 / 1.6e9, 1.5 * 8192),
        ((8192,), 5, 12e-6 + 3 * 5e-6 + 4 * 8192 / 1.6e9, 3 * 8192),
        # By sockets: the half of it is short.
        ((65536,), 2, 2 * (12e-6 + 32768 / 1.6e9), 1.5 * 32768),
        # Two arrays are packed and unpacked; their halves are read.
        ((2**20, 2**20), 2, 2 * (24e-6 + 2**20 / 10e9), 2 * 2**21 + 1.5 * 2**20),
        ((3 * 2**20,), 3, 2 * (2 * (12e-6 + 5e-6) + 2 * 2**20 / 10e9), 2 * 2**20),
    ],
)
def test_the_time_of_a_bucket(
    bucket: tuple[int, ...], ranks: int, exchanges: float, copies: float
) -> None:
    found = model.terms([bucket], ranks, LINK, 13e9)
    assert found.exchanges == pytest.approx(exchanges)
    assert found.copies == pytest.approx(copies / 13e9)
    hidden = model.terms([bucket], ranks, LINK, 13e9, overlapped=0.25)
    assert hidden.total == pytest.approx(0.75 * exchanges + copies / 13e9)


def test_between_machines_no_memory_is_read() -> None:
    network = dataclasses.replace(LINK, read=0.0)
    assert model.exchange(network, 1, 2**20) == pytest.approx(12e-6 + 2**20 / 1.6e9)


def test_the_best_interval_loses_least() -> None:
    best = model.interval(12.0, 6 * 3600)
    assert best == pytest.approx((2 * 12 * 6 * 3600) ** 0.5)

    def lost(period: float) -> float:
        return 12 / period + period / 2 / (6 * 3600)

    assert lost(best) < min(lost(0.8 * best), lost(1.25 * best))
    assert model.lost(12.0, 6 * 3600, 300.0) == pytest.approx(lost(best) + 300 / (6 * 3600))


# --- the program ---------------------------------------------------------------------------------


def run(*words: str) -> subprocess.CompletedProcess[str]:
    paths = [str(ROOT), *(path for path in sys.path if path)]
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.scaling", *words],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def may_make_namespaces() -> bool:
    if not all(map(shutil.which, ("ip", "tc", "unshare"))) or os.geteuid() != 0:
        return False
    veth = ("link", "add", "cable1", "type", "veth", "peer", "name", "cable2")
    tried = ["unshare", "--net", "--pid", "--fork", "ip", *veth]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


@pytest.mark.linux
@pytest.mark.parametrize("place", ["machine", "network"])
def test_two_ranks_are_measured(place: str, tmp_path: Path) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core")
    if place == "network" and not may_make_namespaces():
        pytest.skip("this user may not make network namespaces")
    file = tmp_path / "figures.json"
    words = (f"--places={place}", "--link=1gbit", "--workloads=mlp_small", f"--json={file}")
    done = run(*words, "--rounds=2", "--seconds=0.001")
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(file.read_text())
    assert [sum(bucket) for bucket in row["buckets"]] == [68904]  # all gradients of mlp_small
    assert row["engine"] == "sockets"
    for name in ("alone", "together", "calculated", "threads", "exchanges", "copies", "memory"):
        assert 0 < row[name]["p10"] <= row[name]["median"] <= row[name]["p90"], name
    assert (row["read"]["median"] > 0) == (place == "machine")
    if place == "network":  # a bit less than a gigabit
        assert row["rate"]["median"] < 0.125e9
        listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
        assert not re.search(r"^scaling", listed.stdout, re.MULTILINE)
    assert "of two threads" in done.stdout


def test_wrong_places_are_refused() -> None:
    done = run("--places=moon")
    assert done.returncode == 2
    assert "expected some of machine,network but got moon" in done.stderr
