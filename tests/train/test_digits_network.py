"""The network of examples/digits.py, step by step beside PyTorch and from first to last image."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import traingraph as tg

torch = pytest.importorskip("torch")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "digits.py"
RATE = {"sgd": 0.05, "adam": 1e-3}
STEPS = 10


@pytest.fixture(scope="module")
def digits() -> ModuleType:
    pytest.importorskip("sklearn")
    spec = importlib.util.spec_from_file_location("digits", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Adam:
    """Adam as the guide writes it: epsilon is not corrected, as it is in torch.optim.Adam."""

    def __init__(self, parameters: list, rate: float) -> None:
        self.parameters, self.rate, self.step = parameters, rate, 0
        self.moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in parameters]

    def update(self) -> None:
        self.step += 1
        rate = self.rate * (1 - 0.999**self.step) ** 0.5 / (1 - 0.9**self.step)
        with torch.no_grad():
            for parameter, (first, second) in zip(self.parameters, self.moments, strict=True):
                first.mul_(0.9).add_(0.1 * parameter.grad)
                second.mul_(0.999).add_(0.001 * parameter.grad**2)
                parameter -= rate * first / (second.sqrt() + 1e-8)


class Descent:
    def __init__(self, parameters: list, rate: float) -> None:
        self.parameters, self.rate = parameters, rate

    def update(self) -> None:
        with torch.no_grad():
            for parameter in self.parameters:
                parameter -= self.rate * parameter.grad


def peer() -> "torch.nn.Module":
    """The same network in float64."""
    nn = torch.nn
    # A momentum of 0.9 keeps 0.9 here and 0.1 there.
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding="same"),
        nn.BatchNorm2d(32, momentum=0.1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, padding="same"),
        nn.BatchNorm2d(64, momentum=0.1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(1024, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    ).double()


def take_parameters(theirs: "torch.nn.Module", ours: tg.MLCTrainingGraph) -> float:
    """Copies this network's parameters to the peer's; how far apart all were, in norm."""
    apart = 0.0
    ours.synchronize_updates()
    layers = [
        layer
        for layer in ours.layers
        if getattr(layer, "weights", None) or getattr(layer, "gamma", None)
    ]
    modules = [module for module in theirs if list(module.parameters())]
    with torch.no_grad():
        for module, layer in zip(modules, layers, strict=True):
            if isinstance(module, torch.nn.BatchNorm2d):
                tensors = (layer.gamma, layer.beta)
            else:
                tensors = (layer.weights, layer.biases)
            for parameter, tensor in zip((module.weight, module.bias), tensors, strict=True):
                values = torch.tensor(np.array(tensor.data, np.float64)).reshape(parameter.shape)
                apart += torch.sum((parameter - values) ** 2).item()
                parameter.copy_(values)
    return apart**0.5


def network(digits: ModuleType, rule: str, batch_size: int, device: str) -> tg.MLCTrainingGraph:
    tg.MLCPlatform.set_rng_seed_to(0)
    optimizer = {"sgd": tg.MLCSGDOptimizer, "adam": tg.MLCAdamOptimizer}[rule]
    return digits.network(8, 8, batch_size, optimizer(learning_rate=RATE[rule]), device)


@pytest.mark.parametrize("rule", ["sgd", "adam"])
@pytest.mark.parametrize(("device", "batch_size"), [("cpu", 64), ("reference", 8)])
def test_losses_are_those_of_pytorch(
    digits: ModuleType, rule: str, device: str, batch_size: int
) -> None:
    ours = network(digits, rule, batch_size, device)
    theirs = peer()
    optimizer = {"sgd": Descent, "adam": Adam}[rule](list(theirs.parameters()), RATE[rule])
    train, test = digits.load(None, 0)
    # Blank pixels would have windows of equal numbers, of which rounding chooses the largest.
    noise = np.random.default_rng(0).uniform(-0.01, 0.01, train.images.shape)
    train = digits.Split((train.images + noise).astype(np.float32), train.labels)
    batches = [
        digits.Split(
            train.images[first : first + batch_size], train.labels[first : first + batch_size]
        )
        for first in range(0, STEPS * batch_size, batch_size)
    ]

    losses, expected, apart = [], [], []
    take_parameters(theirs, ours)
    theirs.train()
    for batch in batches:
        step = ours.execute(
            inputs_data={"x": batch.images}, loss_labels_data={"y": batch.labels},
            options="synchronous",
        )  # fmt: skip
        losses.append(float(step.result))
        loss = torch.nn.functional.cross_entropy(
            theirs(torch.tensor(batch.images).double()),
            torch.tensor(batch.labels).long(),
            label_smoothing=0.1,
        )
        theirs.zero_grad()
        loss.backward()
        before = [parameter.detach().clone() for parameter in theirs.parameters()]
        optimizer.update()
        expected.append(loss.item())
        moved = sum(
            torch.sum((b - p) ** 2) for b, p in zip(before, theirs.parameters(), strict=True)
        )
        # Each step from the same parameters: where a maximum or a ReLU is decided by rounding, one
        # gradient jumps, and at these rates ten steps make a hundredth of that.
        apart.append(take_parameters(theirs, ours) / moved.item() ** 0.5)
    assert expected[-1] < expected[0]  # it learns
    np.testing.assert_allclose(losses, expected, rtol=2e-6)
    # A jump of one gradient, or Adam where it divides rounding errors by their own size because a
    # gradient is 0, as that of a bias before a normalization.
    assert np.median(apart) < {"sgd": 1e-5, "adam": 1e-2}[rule]
    assert max(apart) < {"sgd": 1e-3, "adam": 1e-2}[rule]

    # Inference reads the running statistics. PyTorch keeps the unbiased variance, which is the
    # biased one times n / (n - 1); both started from 1.
    start = 0.9**STEPS
    for normalization, size in zip(
        [m for m in theirs if isinstance(m, torch.nn.BatchNorm2d)], (64, 64), strict=True
    ):
        n = batch_size * size
        variance = normalization.running_var
        variance.copy_((variance - start) * (n - 1) / n + start)
    theirs.eval()
    some = digits.Split(test.images[:20], test.labels[:20])
    with torch.no_grad():
        logits = theirs(torch.tensor(some.images).double()).numpy()
    np.testing.assert_allclose(ours.predict(some.images), logits, atol=1e-5 * np.abs(logits).max())


def test_last_partial_batch_counts_by_its_own_rows(digits: ModuleType) -> None:
    """Predictions do not depend on how the images are cut into batches."""
    _, test = digits.load(None, 0)
    some = digits.Split(test.images[:37], test.labels[:37])
    results = []
    for batch_size in (16, 37):
        results.append(network(digits, "adam", batch_size, "cpu").predict(some.images))
    assert results[0].shape == (37, 10)
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=1e-5)


def test_same_seed_same_bits(digits: ModuleType) -> None:
    train, _ = digits.load(None, 0)
    runs = []
    for _ in range(2):
        ours = network(digits, "adam", 32, "cpu")
        epochs = ours.fit(train.images, train.labels, epochs=2)
        runs.append([epoch.loss for epoch in epochs])
    assert runs[0] == runs[1]
