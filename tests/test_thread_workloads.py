"""The benchmarks' workloads train to the same bits with every number of threads."""

import hashlib
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks import ours
from benchmarks import workloads as w

import traingraph as tg

THREADS = (1, 2, 3, 4, 8)
STEPS = 100
# Batch and steps of the quick tier.
SHORT = {
    "linreg": (4, 20),
    "policy": (1, 20),
    "mlp_small": (32, 20),
    "mlp_large": (4, 2),
    "lenet_digits": (17, 3),
    "resnet18_cifar": (5, 1),
    "lstm": (5, 2),
    "transformer": (1, 1),
    "bn_micro": (5, 1),
    "conv_micro": (3, 1),
    "ce_micro": (700, 1),
}


def digest(workload: w.Workload, threads: int, steps: int) -> str:
    found = hashlib.sha256()
    before = tg.get_num_threads()
    try:
        if workload.trained:
            session = ours.Session(workload, threads, "cpu")
            for _ in range(steps):
                session.step()
            session.training.synchronize_updates()
            arrays = [p.data for p in session.training.named_parameters().values()]
        else:
            arrays = ours.Gradients(workload, threads, "cpu").gradients()
    finally:
        tg.set_num_threads(before)
    for array in arrays:
        assert np.isfinite(array).all()
        found.update(np.array(array).tobytes())
    return found.hexdigest()


def check(workload: w.Workload, steps: int) -> None:
    digests = {threads: digest(workload, threads, steps) for threads in THREADS}
    assert len(set(digests.values())) == 1, digests


@pytest.mark.parametrize("name", SHORT)
def test_few_steps(name: str) -> None:
    batch, steps = SHORT[name]
    check(w.of_batch(w.WORKLOADS[name], batch), steps)


@pytest.mark.threads
@pytest.mark.parametrize("name", w.ON_CPU)
def test_a_hundred_steps(name: str) -> None:
    check(w.WORKLOADS[name], STEPS)


def forward(layers: tuple[w.Layer, ...], x: np.ndarray) -> np.ndarray:
    network = ours.Network(w.Workload("rows", x.shape, layers, w.Optimizer("none"), 0))
    inference = tg.MLCInferenceGraph(graph_objects=[network.graph])
    inference.add_inputs({"x": network.x})
    inference.compile(device="cpu")
    return np.array(inference.execute(inputs_data={"x": x}, options="synchronous").result)


ROWS = {
    name: (w.WORKLOADS[name].layers, batch)
    for name, batch in {"mlp_small": 33, "lenet_digits": 37, "resnet18_cifar": 11,
                        "lstm": 19, "transformer": 3}.items()
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_a_sample_has_its_bits_in_every_row(name: str) -> None:
    layers, batch = ROWS[name]
    x = w.data(w.of_batch(w.WORKLOADS[name], batch))[0]
    order = np.random.default_rng(2).permutation(batch)
    right = forward(layers, x)
    assert forward(layers, x[order]).tobytes() == right[order].tobytes()
