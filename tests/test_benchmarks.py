"""The benchmarks run: tiny counts, small workloads, and what tables and bounds are made of."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import bound, mps_steps, ours, ours_mps, runner, table, workloads  # noqa: E402
from benchmarks.worker import timed, timed_phases  # noqa: E402


def run(*words: str) -> subprocess.CompletedProcess[str]:
    paths = [str(ROOT), *(path for path in sys.path if path)]
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *words, "--rounds=1", "--seconds=0.001"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def test_ours_alone(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    done = run("--workloads=linreg,mlp_small", "--peers=", "--threads=1", f"--json={file}")
    assert done.returncode == 0, done.stderr
    written = json.loads(file.read_text())
    assert {"date", "processor", "versions", "ceilings"} <= written["about"].keys()
    assert [row["workload"] for row in written["rows"]] == ["linreg", "mlp_small"]
    for row in written["rows"]:
        assert row["threads"] == 1
        assert 0 < row["wall_ms"]["p10"] <= row["wall_ms"]["median"] <= row["wall_ms"]["p90"]
        assert row["cpu_ms"]["median"] > 0
        assert row["peak_mib"] > 0
        assert row["losses"][2] < row["losses"][0]
        assert list(row["phases"]) == ["forward", "gradient", "update"]
    assert "mlp_small" in done.stdout


@pytest.mark.programs
@pytest.mark.parametrize("peer", ["torch", "torch:tuned", "jax", "onnxruntime"])
def test_peers_compute_the_same(peer: str) -> None:
    if importlib.util.find_spec(peer.partition(":")[0]) is None:
        pytest.skip(f"{peer} is not installed")
    plan = runner.Plan(["ours", peer], rounds=1, seconds=0.001)
    for workload in ("linreg", "policy", "mlp_small", "lenet_digits"):
        for row in runner.measure(workload, 1, plan):
            assert "error" not in row, row
            # onnxruntime's SGD has no momentum, which moves losses from the third one on.
            same = row["same_losses"] or row["variant"] == "SGD without momentum"
            assert same, (workload, row["losses"])


@pytest.mark.parametrize("workload", ["linreg", "mlp_small", "lenet_digits"])
def test_the_mps_layer_computes_the_same(workload: str) -> None:
    rows = runner.measure(workload, 1, runner.Plan(mps_steps.FORMS, rounds=1, seconds=0.001))
    assert [row.get("error") for row in rows] == [None] * 3
    assert all(row["same_losses"] for row in rows), [row["losses"] for row in rows]
    assert mps_steps.ratios(rows).startswith("nodes / ML Compute ")


@pytest.mark.programs
def test_residual_networks_of_the_mps_layer() -> None:
    """Sums, their gradients, strides, and an average: what resnet18_cifar has, in small."""
    layers = (
        *(workloads.Convolution(3, 16), workloads.BatchNorm(16), workloads.Relu()),
        *(workloads._block(16, 16, 1), workloads._block(16, 32, 2)),
        *(workloads.GlobalAverage(4), workloads.Dense(32, 10)),
    )
    rule = workloads.Optimizer("sgd", 0.01, 0.9, 5e-4)
    small = workloads.Workload("small", (4, 3, 8, 8), layers, rule, 10)
    expected = [session.loss() for session in [ours.Session(small, 1, "")] for _ in range(5)]
    for form in ("nodes", "hand"):
        session = ours_mps.Session(small, 1, form)
        assert [session.loss() for _ in range(5)] == pytest.approx(expected, rel=2e-5)
    assert expected[4] < expected[0]


def test_a_peer_that_fails_is_told_and_skipped() -> None:
    rows = runner.measure("linreg", 1, runner.Plan(["ours", "ours:nowhere"], 1, 0.001))
    assert "wall_ms" in rows[0]
    assert "nowhere" in rows[1]["error"]
    assert "nowhere" in table.table(rows)


def test_wrong_workload() -> None:
    done = run("--workloads=resnet")
    assert done.returncode == 2
    assert "linreg" in done.stderr


def test_losses_are_compared() -> None:
    rows = [{"losses": [2.0, 1.0, 0.5]}, {"losses": [2.0, 1.001, 0.5]}, {"losses": [2.0, 1.1, 0.5]}]
    runner._compare_losses(rows)
    assert [row["same_losses"] for row in rows] == [True, True, False]


def test_quantiles() -> None:
    assert runner.quantiles(range(11)) == {"p10": 1, "median": 5, "p90": 9}
    assert runner.quantiles([3.0]) == {"p10": 3.0, "median": 3.0, "p90": 3.0}


def test_timing_counts_calls() -> None:
    calls = []
    assert len(timed(lambda: calls.append(1), 0)) == 1
    assert calls
    samples = timed_phases(dict.fromkeys(["forward", "gradient", "update"], calls.clear), 0)
    assert {name: len(each) for name, each in samples.items()} == {
        "forward": 1,
        "gradient": 1,
        "update": 1,
    }


@pytest.mark.programs
def test_tables_are_the_same_each_time() -> None:
    for workload in workloads.WORKLOADS.values():
        first, second = (list(workloads.parameters(workload)) for _ in range(2))
        assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
        x, labels = workloads.data(workload)
        assert x.shape == workload.source
        assert len(labels) == workload.source[0]


def test_work_of_known_networks() -> None:
    small = bound.work(workloads.WORKLOADS["mlp_small"])
    products = 64 * 128 + 128 * 64 + 64 * 10
    assert small.operations == 2 * 32 * (3 * products - 64 * 128)
    assert small.parameters == products + 128 + 64 + 10
    resnet = bound.work(workloads.WORKLOADS["resnet18_cifar"])
    assert resnet.parameters == 11_173_962  # as published for ten classes
    assert resnet.operations == pytest.approx(213e9, abs=0.5e9)


def test_traffic_only_beyond_the_cache() -> None:
    large = workloads.WORKLOADS["mlp_large"]
    assert bound.traffic(large, cache=1 << 30) == 0
    assert bound.traffic(large, cache=1 << 20) == 4 * 7 * bound.work(large).parameters


def test_the_step_from_cxx_compiles() -> None:
    """Against the public headers: what it uses is what a program may use."""
    source = ROOT / "benchmarks/step.cpp"
    command = ["c++", "-std=c++20", "-fsyntax-only", "-I", ROOT / "cpp/include", source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
