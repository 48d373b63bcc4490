"""The workloads in PyTorch. Variants: any of channels_last, fused, compile, tuned joined by +.

tuned is channels last for images and the fused optimizer, in a process with the settings of
runner.TUNED.
"""

import importlib
from collections.abc import Callable
from typing import Any

from . import workloads as w

torch: Any = importlib.import_module("torch")
nn: Any = torch.nn
functional: Any = torch.nn.functional


class Block(nn.Module):  # type: ignore[misc]
    """relu(body(x) + shortcut(x))."""

    def __init__(self, body: Any, shortcut: Any) -> None:
        super().__init__()
        self.body, self.shortcut = body, shortcut

    def forward(self, x: Any) -> Any:
        return functional.relu(self.body(x) + self.shortcut(x), inplace=True)


def module(layers: tuple[w.Layer, ...]) -> Any:
    return nn.Sequential(*(_layer(layer) for layer in layers))


def _layer(layer: w.Layer) -> Any:
    match layer:
        case w.Dense(inputs, outputs):
            return nn.Linear(inputs, outputs)
        case w.Convolution(inputs, outputs, kernel, stride):
            return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        case w.BatchNorm(channels):
            return nn.BatchNorm2d(channels)
        case w.Relu():
            return nn.ReLU(inplace=True)
        case w.MaxPool(size, stride, padding):
            return nn.MaxPool2d(size, stride or size, padding)
        case w.GlobalAverage(size):
            return nn.Sequential(nn.AvgPool2d(size), nn.Flatten())
        case w.Flatten():
            return nn.Flatten()
        case w.Residual(body, shortcut):
            return Block(module(body), module(shortcut) if shortcut else nn.Identity())


def model_of(workload: w.Workload) -> Any:
    """With the parameters that every library starts from."""
    model = module(workload.layers)
    with torch.no_grad():
        for parameter, start in zip(model.parameters(), w.parameters(workload), strict=True):
            parameter.copy_(torch.from_numpy(start))
    return model


def optimizer_of(o: w.Optimizer, parameters: Any, **keywords: bool) -> Any:
    if o.name == "adam":
        return torch.optim.Adam(parameters, lr=o.rate, **keywords)
    return torch.optim.SGD(
        parameters, lr=o.rate, momentum=o.momentum, weight_decay=o.decay, **keywords
    )


def criterion_of(workload: w.Workload) -> Any:
    return functional.cross_entropy if workload.classes else functional.mse_loss


def _stepper(workload: w.Workload, variant: str) -> Callable[[], Any]:
    wanted = set(variant.split("+")) - {""}
    if unknown := wanted - {"channels_last", "fused", "compile", "tuned"}:
        raise ValueError(f"no torch variant {sorted(unknown)}")
    if "tuned" in wanted:
        wanted |= {"channels_last", "fused"} if workload.images else {"fused"}
    model = model_of(workload)
    x, y = (torch.from_numpy(array) for array in w.data(workload))
    if "channels_last" in wanted:
        model, x = (z.to(memory_format=torch.channels_last) for z in (model, x))
    kind = {"fused": True} if "fused" in wanted else {}  # without: what the library chooses
    optimizer = optimizer_of(workload.optimizer, model.parameters(), **kind)
    update = optimizer.step
    label = y.long() if workload.classes else y
    criterion = criterion_of(workload)

    def forward(x: Any, label: Any) -> Any:
        return criterion(model(x), label)

    if "compile" in wanted:
        forward = torch.compile(forward)
        update = update if "fused" in wanted else torch.compile(update)

    def step() -> Any:
        loss = forward(x, label)
        loss.backward()
        update()
        optimizer.zero_grad(set_to_none=True)
        return loss

    return step


class Session:
    def __init__(self, workload: w.Workload, threads: int, variant: str) -> None:
        torch.set_num_threads(threads)
        torch.manual_seed(0)
        self.version: str = torch.__version__
        self.variant = variant
        self.phases: dict[str, Callable[[], Any]] = {}
        self.step = _stepper(workload, variant)

    def loss(self) -> float:
        return float(self.step().item())
