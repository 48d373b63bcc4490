"""Whole networks train as PyTorch trains them, and learn a batch; most are a part of their own.

Each network is a module beside this one. Narrow ones have the same layers with fewer channels.
"""

import importlib

import pytest
from whole import Network

from traingraph import nn

torch = pytest.importorskip("torch")

# Steps of Adam after which the loss of the batch is below a tenth of the first one, on the cpu:
# narrow, wide. Half as many again may pass, for roundings differ.
STEPS = {
    "resnet": (14, 1),
    "mobilenet": (23, 5),
    "unet": (106, 23),
    "sequence_classifier": (22, 8),
    "transformer": (22, 9),
    "characters": (34, 23),
    "detector": (50, 13),
}
QUICK = ("unet", "characters")
BOUNDS = {"float32": 1e-4, "float64": 1e-9}
COMPARED = 10


def rows(*cases: tuple[object, ...]) -> list[object]:
    """Of each network; the first of the quick ones belong to the quick tier."""
    return [
        pytest.param(name, *case, marks=() if name in QUICK and k == 0 else pytest.mark.networks)
        for name in STEPS
        for k, case in enumerate(cases)
    ]


def made(name: str, size: str, dtype: str = "float32") -> Network:
    torch.manual_seed(0)
    return importlib.import_module(name).network(size == "narrow", dtype)


@pytest.mark.parametrize(
    ("name", "device", "size", "dtype"),
    rows(
        ("cpu", "narrow", "float32"),
        ("cpu", "narrow", "float64"),
        ("reference", "narrow", "float32"),
        ("reference", "narrow", "float64"),
        ("cpu", "wide", "float32"),
    ),
)
def test_losses_are_those_of_pytorch(name: str, device: str, size: str, dtype: str) -> None:
    """Of plain descent, from the same weights; PyTorch computes in float64."""
    if dtype == "float64" and device == "metal":
        pytest.skip("no float64")
    network = made(name, size, dtype)
    model = network.model(nn.sgd(network.rate), device)
    expected = network.losses_of_twin(model, COMPARED)
    assert expected[-1] < 0.99 * expected[0]
    assert network.losses(model, COMPARED) == pytest.approx(expected, rel=BOUNDS[dtype])


@pytest.mark.parametrize(
    ("name", "device", "size"), rows(("cpu", "narrow"), ("reference", "narrow"), ("cpu", "wide"))
)
def test_a_batch_is_learned(name: str, device: str, size: str) -> None:
    network = made(name, size)
    steps = STEPS[name][size == "wide"]
    model = network.model(nn.adam(network.adam_rate), device)
    first, *later = network.losses(model, steps + steps // 2 + 2)
    assert min(later) < first / 10
