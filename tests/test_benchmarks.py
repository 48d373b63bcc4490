"""The benchmarks run: tiny counts, small workloads, and what tables and bounds are made of."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import (  # noqa: E402
    bound,
    cores,
    gpu,
    mps_steps,
    ours,
    ours_mps,
    runner,
    sensitivity,
    table,
    worker,
)
from benchmarks import workloads as w  # noqa: E402
from benchmarks.worker import timed, timed_phases  # noqa: E402

PEERS = ["torch", "torch:tuned", "jax", "onnxruntime"]
MICROS = ("bn_micro", "conv_micro", "ce_micro")
# Small networks of the layers that sequences need.
SEQUENCES = {
    "lstm": ((3, 5, 4), (w.Lstm(4, 6, 2), w.Dense(6, 4))),
    "encoder": ((3, 5, 8), w._encoder(2, 8, 2)),
}


def run(*words: str, module: str = "benchmarks") -> subprocess.CompletedProcess[str]:
    paths = [str(ROOT), *(path for path in sys.path if path)]
    rounds = ["--rounds=1"] if module == "benchmarks" else []
    return subprocess.run(
        [sys.executable, "-m", module, *words, "--seconds=0.001", *rounds],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def needs(peer: str) -> None:
    library = peer.partition(":")[0]
    # onnxruntime's training imports PyTorch.
    for module in {"onnxruntime": ("onnxruntime", "onnx", "torch")}.get(library, (library,)):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed, which {peer} needs")


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


def test_precisions_beside_each_other() -> None:
    done = run("--workloads=mlp_small", "--threads=1", "--rounds=1", module="benchmarks.mixed")
    assert done.returncode == 0, done.stderr
    name, threads, *cells = done.stdout.splitlines()[1].replace("(", " ").replace(")", " ").split()
    assert (name, threads) == ("mlp_small", "1")
    times, ratios = ([float(cell) for cell in cells[k::2]] for k in (0, 1))
    assert ratios == pytest.approx([ms / times[0] for ms in times], rel=2e-3)


@pytest.mark.programs
@pytest.mark.parametrize("peer", PEERS)
def test_peers_compute_the_same(peer: str) -> None:
    needs(peer)
    plan = runner.Plan(["ours", peer], rounds=1, seconds=0.001)
    for workload in ("linreg", "policy", "mlp_small", "lenet_digits", "lstm", "transformer"):
        rows = runner.measure(workload, 1, plan)
        assert not any("error" in row for row in rows), rows
        # onnxruntime's SGD has no momentum, which moves losses from the third one on.
        assert not runner.differing(rows), (workload, [row["losses"] for row in rows])


@pytest.mark.programs
@pytest.mark.parametrize("peer", PEERS)
def test_peers_have_the_same_gradients(peer: str) -> None:
    needs(peer)
    plan = runner.Plan(["ours", peer], rounds=1, seconds=0.001)
    for workload in MICROS:
        rows = runner.measure(workload, 1, plan)
        if peer == "onnxruntime":
            assert f"{workload} is none" in rows[1]["error"]
        else:
            assert not any("error" in row for row in rows), rows
            assert not runner.differing(rows), (workload, [row["losses"] for row in rows])


@pytest.mark.parametrize("peer", ["torch", "jax", "onnxruntime"])
@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences_are_the_same_in_small(name: str, peer: str) -> None:
    needs(peer)
    source, layers = SEQUENCES[name]
    small = w.Workload(name, source, layers, w.Optimizer("adam"), 4)
    expected, found = (
        [session.loss() for _ in range(5)]
        for session in (worker.session_of(each, small, 1) for each in ("ours", peer))
    )
    assert found == pytest.approx(expected, rel=1e-4)
    assert expected[4] < expected[0]


@pytest.mark.parametrize("peer", ["torch", "torch:tuned", "jax"])
@pytest.mark.parametrize(
    ("source", "layers", "classes"),
    [
        ((4, 8, 6, 6), (w.BatchNorm(8),), 0),
        ((4, 8, 6, 6), (w.Convolution(8, 8),), 0),
        ((16, 10), (), 10),
    ],
)
def test_gradients_are_the_same_in_small(
    peer: str, source: tuple[int, ...], layers: tuple[w.Layer, ...], classes: int
) -> None:
    needs(peer)
    small = w.Workload("small", source, layers, w.Optimizer("none"), classes)
    sessions = [worker.session_of(each, small, 1) for each in ("ours", peer)]
    of_ours, of_peer = (worker.compared(session) for session in sessions)
    assert len(of_ours) == 1 + sum(1 for _ in w.parameters(small))
    assert of_ours == pytest.approx(of_peer, rel=1e-4)
    assert min(of_ours) > 0
    of_source, found = (session.gradients()[0] for session in sessions)
    if peer == "jax" and len(source) == 4:
        found = np.moveaxis(found, -1, 1)
    np.testing.assert_allclose(of_source, found, rtol=1e-3, atol=1e-5)


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
        *(w.Convolution(3, 16), w.BatchNorm(16), w.Relu()),
        *(w._block(16, 16, 1), w._block(16, 32, 2)),
        *(w.GlobalAverage(4), w.Dense(32, 10)),
    )
    rule = w.Optimizer("sgd", 0.01, 0.9, 5e-4)
    small = w.Workload("small", (4, 3, 8, 8), layers, rule, 10)
    expected = [session.loss() for session in [ours.Session(small, 1, "")] for _ in range(5)]
    for form in ("nodes", "hand"):
        session = ours_mps.Session(small, 1, form)
        assert [session.loss() for _ in range(5)] == pytest.approx(expected, rel=2e-5)
    assert expected[4] < expected[0]


def test_the_mps_layer_has_no_sequences() -> None:
    for form in ("nodes", "hand"):
        with pytest.raises(ValueError, match="not measured with Lstm"):
            worker.session_of(f"mps:{form}", w.WORKLOADS["lstm"], 1)
    with pytest.raises(ValueError, match="ce_micro is none"):
        worker.session_of("mps:nodes", w.WORKLOADS["ce_micro"], 1)


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
    for row in rows:
        row |= {"workload": "net", "peer": "jax"}
    assert runner.differing(rows) == "losses differ: net jax"
    rows[2]["variant"] = "SGD without momentum"
    assert runner.differing(rows) == ""


def test_losses_may_differ_as_far_as_rounding_moves_them() -> None:
    losses = [[2.0, 1.0, 0.5], [2.0, 1.04, 0.5], [2.0, 1.0, 0.515], [2.00002, 1.0, 0.5]]
    rows = [{"losses": each} for each in losses]
    runner._compare_losses(rows, (1e-6, 0.01, 0.005))
    assert [row["same_losses"] for row in rows] == [True, True, False, False]


@pytest.mark.parametrize("library", ["ours", "torch"])
def test_float64_and_neighbours_of_the_start(library: str) -> None:
    if library == "torch":
        needs(library)
    small = w.Workload("small", (4, 3, 8, 8), (w.Convolution(3, 4), w.BatchNorm(4), w.Relu(),
        w.GlobalAverage(8), w.Dense(4, 5)), w.Optimizer("sgd", 0.01, 0.9), 5)  # fmt: skip
    wide = sensitivity.losses(f"{library}:float64", small, 0, 1)
    assert sensitivity.losses(library, small, 0, 1) == pytest.approx(wide, rel=1e-5)
    other = sensitivity.losses(f"{library}:float64", small, 1, 1)
    assert other != wide
    assert other == pytest.approx(wide, rel=1e-5)
    if library == "torch":
        assert sensitivity.losses("ours:float64", small, 1, 1) == pytest.approx(other, rel=1e-12)


def test_sensitivity_prints_spreads() -> None:
    words = ("--workloads=mlp_small", "--threads=1", "--rounds=3", "--libraries=ours,ours:float64")
    done = run(*words, module="benchmarks.sensitivity")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[2] for line in lines if line.startswith("mlp_small")] == [
        "ours", "ours", "ours", "ours:float64"
    ]  # fmt: skip
    assert lines[3].startswith("ours: standard deviation / mean ")


def test_losses_on_a_gpu_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program itself, with the host in the place of the GPU and of one peer."""
    made = ours.Session

    def on_host(workload: w.Workload, threads: int, device: str, *more: object) -> ours.Session:
        assert (device, *more) == ("cuda", "tf32", None)
        return made(workload, threads, "cpu")

    class Peer(gpu.Ours):
        def __init__(self, workload: w.Workload, mode: str, precision: str) -> None:
            super().__init__(workload, precision)
            self.losses[2] += {"eager": 0.001, "captured": 0.1}[mode]

    monkeypatch.setattr(ours, "Session", on_host)
    monkeypatch.setattr(gpu, "_torch", lambda: types.SimpleNamespace(Session=Peer))
    rows = gpu.measure(w.of_batch(w.WORKLOADS["mlp_small"], 8), "tf32", ["eager", "captured"], 0)
    assert [(row["peer"], row["batch"], row["same_losses"]) for row in rows] == [
        ("traingraph", 8, True),
        ("torch eager", 8, True),
        ("torch captured", 8, False),
    ]


def test_workloads_of_a_gpu() -> None:
    assert all(w.WORKLOADS[name].trained for name in w.ON_GPU)
    assert set(gpu.AUTOTUNED) <= set(w.ON_GPU)
    assert w.of_batch(w.WORKLOADS["lenet_digits"], 8).source == (8, 1, 8, 8)
    done = run("--workloads=resnet", module="benchmarks.gpu")
    assert done.returncode == 2
    assert "lenet_digits" in done.stderr


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
    for workload in w.WORKLOADS.values():
        first, second = (list(w.parameters(workload)) for _ in range(2))
        assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
        x, labels = w.data(workload)
        assert x.shape == workload.source
        assert len(labels) == workload.source[0]
    assert set(w.ON_CPU) | set(w.ON_GPU) == set(w.WORKLOADS)


def test_work_of_known_networks() -> None:
    small = bound.work(w.WORKLOADS["mlp_small"])
    products = 64 * 128 + 128 * 64 + 64 * 10
    assert small.operations == 2 * 32 * (3 * products - 64 * 128)
    assert small.parameters == products + 128 + 64 + 10
    resnet = bound.work(w.WORKLOADS["resnet18_cifar"])
    assert resnet.parameters == 11_173_962  # as published for ten classes
    assert resnet.operations == pytest.approx(213e9, abs=0.5e9)


def test_work_of_sequences_and_gradients() -> None:
    lstm = bound.work(w.WORKLOADS["lstm"])
    tokens = 32 * 64
    product = 2 * tokens * 1024 * 256
    assert lstm.operations == product * (3 * 4 - 1) + 3 * 2 * 32 * 256 * 10
    encoder = bound.work(w.WORKLOADS["transformer"])
    products, scores = 16 * 128 * 12 * 256**2, 16 * 2 * 128 * 128 * 256
    assert encoder.operations == 3 * 2 * (4 * (products + scores) + 16 * 256 * 10)
    base = bound.work(w.WORKLOADS["transformer_base"])
    assert base.parameters == 12 * (12 * 768**2 + 13 * 768) + 2 * 768 + 7690
    assert bound.work(w.WORKLOADS["conv_micro"]).operations == 3 * 2 * 16 * 56**2 * 9 * 64**2
    images, scores = 32 * 64 * 56 * 56, 4096 * 1000
    assert bound.traffic(w.WORKLOADS["bn_micro"], 0) == 4 * 5 * images + 8 * 128
    assert bound.traffic(w.WORKLOADS["ce_micro"], 0) == 4 * 2 * scores
    assert bound.traffic(w.WORKLOADS["ce_micro"], 1 << 30) == 0


def test_traffic_only_beyond_the_cache() -> None:
    large = w.WORKLOADS["mlp_large"]
    assert bound.traffic(large, cache=1 << 30) == 0
    assert bound.traffic(large, cache=1 << 20) == 4 * 7 * bound.work(large).parameters


def test_the_step_from_cxx_compiles() -> None:
    """Against the public headers: what it uses is what a program may use."""
    source = ROOT / "benchmarks/step.cpp"
    command = ["c++", "-std=c++20", "-fsyntax-only", "-I", ROOT / "cpp/include", source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_sample_on_far_cores_is_taken_again(monkeypatch: pytest.MonkeyPatch) -> None:
    near = cores.Cores()
    samples = iter(range(100))
    for answers, taken in [
        ([True, True], (0, True)),
        ([False, True, False, True, True], (3, True)),  # before one, then after one
        ([False] * 20, (9, False)),
    ]:
        turns = iter(answers)
        monkeypatch.setattr(near, "near", lambda turns=turns: next(turns))
        assert near.sampled(lambda: next(samples)) == taken


@pytest.mark.skipif(sys.platform != "linux", reason="of Linux alone")
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_round_trip_between_cores_is_measured() -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core")
    found = cores.Cores()
    assert found.command
    assert 0 < found.shortest < 1e6
