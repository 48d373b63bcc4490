"""The three phases under another library's differentiation: examples/foreign_autograd.py."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "foreign_autograd.py"
example = runpy.run_path(str(EXAMPLE))


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLE), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


class ByHand:
    """The same network with its gradient written out in float64."""

    def __init__(self, weights: list[np.ndarray]) -> None:
        self.w, self.b, self.v, self.c = (array.astype(np.float64) for array in weights)

    def forward(self, x: np.ndarray) -> np.ndarray:
        self.x, self.h = x, np.tanh(x @ self.w.T + self.b)
        return self.h @ self.v.T + self.c

    def gradient(self, incoming: np.ndarray) -> np.ndarray:
        hidden = (incoming @ self.v) * (1 - self.h**2)
        self.gradients = (hidden.T @ self.x, hidden.sum(0), incoming.T @ self.h, incoming.sum(0))
        return hidden @ self.w

    def update(self) -> None:
        for array, gradient in zip((self.w, self.b, self.v, self.c), self.gradients, strict=True):
            array -= example["RATE"] * gradient


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_network_is_the_one_written_out(device: str) -> None:
    rng = np.random.default_rng(1)
    weights = example["initial_weights"](rng)
    expected, network = ByHand(weights), example["Network"](weights, device)
    for x, target in example["batches"](rng, 5):
        result = network.forward(x)
        np.testing.assert_allclose(result, expected.forward(x), rtol=1e-4, atol=1e-5)
        _, incoming = example["log_cosh"](result, target)
        of_x = network.gradient(incoming)
        np.testing.assert_allclose(of_x, expected.gradient(incoming), rtol=1e-4, atol=1e-6)
        network.update()
        expected.update()
    network.training.synchronize_updates()
    for array, own in zip(weights, (expected.w, expected.b, expected.v, expected.c), strict=True):
        np.testing.assert_allclose(array, own, rtol=1e-4, atol=1e-5)


def test_the_gradient_of_the_loss_is_its_derivative() -> None:
    rng = np.random.default_rng(2)
    prediction, target = rng.normal(size=(2, 3, 2))
    _, gradient = example["log_cosh"](prediction, target)
    step = 1e-6
    for index in np.ndindex(prediction.shape):
        up, down = prediction.copy(), prediction.copy()
        up[index] += step
        down[index] -= step
        slope = (example["log_cosh"](up, target)[0] - example["log_cosh"](down, target)[0]) / (
            2 * step
        )
        assert gradient[index] == pytest.approx(slope, rel=1e-4, abs=1e-8)


def test_a_gradient_that_was_not_written_is_no_guess() -> None:
    rng = np.random.default_rng(3)
    network = example["Network"](example["initial_weights"](rng))
    ((x, target),) = example["batches"](rng, 1)
    network.forward(x)
    with pytest.raises(ValueError, match="gradient"):
        network.training.execute_gradient(options="synchronous")
    network.gradient(example["log_cosh"](network.forward(x), target)[1])
    network.forward(x)
    with pytest.raises(ValueError, match="gradient"):  # the one of the step before is old
        network.training.execute_gradient(options="synchronous")


@pytest.mark.programs
def test_numpy_program_learns() -> None:
    done = run("--json", "--steps", 300)
    assert done.returncode == 0, done.stderr
    losses = json.loads(done.stdout.splitlines()[-1])["numpy"]
    assert len(losses) == 300
    assert np.mean(losses[-20:]) < 0.7 * np.mean(losses[:20])


@pytest.mark.programs
def test_pytorch_around_the_network_is_pytorch_alone() -> None:
    pytest.importorskip("torch")
    done = run("--json", "--steps", 100)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    np.testing.assert_allclose(summary["mixed"], summary["pytorch"], rtol=1e-4, atol=1e-6)
    assert summary["mixed"][-1] < summary["mixed"][0]


def test_without_pytorch_it_says_so() -> None:
    hidden = "import runpy, sys; sys.modules['torch'] = None; sys.argv = sys.argv[1:]; "
    code = hidden + "runpy.run_path(sys.argv[0], run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", code, str(EXAMPLE), "--steps", "3"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "NumPy: loss" in done.stdout
    assert "PyTorch is not installed" in done.stdout


def test_wrong_options_end_in_one_line() -> None:
    done = run("--steps", 0)
    assert done.returncode == 2
    assert "expected a number of at least 1, not 0" in done.stderr
