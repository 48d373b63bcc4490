"""The workloads in PyTorch. Variants: channels_last, fused, compile, tuned, float64, joined by +.

tuned is channels last for images and the fused optimizer, in a process with the settings of
runner.TUNED.
"""

import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from . import workloads as w

torch: Any = importlib.import_module("torch")
nn: Any = torch.nn
functional: Any = torch.nn.functional


class Block(nn.Module):  # type: ignore[misc]
    """body(x) + shortcut(x), then ReLU unless it is linear."""

    def __init__(self, body: Any, shortcut: Any, linear: bool) -> None:
        super().__init__()
        self.body, self.shortcut, self.linear = body, shortcut, linear

    def forward(self, x: Any) -> Any:
        joined = self.body(x) + self.shortcut(x)
        return joined if self.linear else functional.relu(joined, inplace=True)


class LastOfLstm(nn.Module):  # type: ignore[misc]
    """With one bias per gate, as elsewhere: the second one stays zero."""

    def __init__(self, inputs: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, hidden, layers, batch_first=True)
        for name, parameter in self.lstm.named_parameters():
            if name.startswith("bias_hh"):
                nn.init.zeros_(parameter.requires_grad_(False))

    def forward(self, x: Any) -> Any:
        return self.lstm(x)[0][:, -1]


class Attention(nn.Module):  # type: ignore[misc]
    """Between two projections by the kernel that PyTorch chooses."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.projection, self.result = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        split = self.projection(x).unflatten(-1, (3, self.heads, -1))
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)
        attended = functional.scaled_dot_product_attention(query, key, value)
        return self.result(attended.transpose(1, 2).flatten(2))


class TokenMean(nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return x.mean(1)


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
        case w.Residual(body, shortcut, linear):
            return Block(module(body), module(shortcut) if shortcut else nn.Identity(), linear)
        case w.Lstm(inputs, hidden, layers):
            return LastOfLstm(inputs, hidden, layers)
        case w.LayerNorm(width):
            return nn.LayerNorm(width)
        case w.Gelu():
            return nn.GELU(approximate="tanh")
        case w.Attention(width, heads):
            return Attention(width, heads)
        case w.TokenMean():
            return TokenMean()


def trained(model: Any) -> list[Any]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def model_of(workload: w.Workload) -> Any:
    """With the parameters that every library starts from."""
    model = module(workload.layers)
    with torch.no_grad():
        for parameter, start in zip(trained(model), w.parameters(workload), strict=True):
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


def _wanted(workload: w.Workload, variant: str) -> set[str]:
    wanted = set(variant.split("+")) - {""}
    if unknown := wanted - {"channels_last", "fused", "compile", "tuned", "float64"}:
        raise ValueError(f"no torch variant {sorted(unknown)}")
    if "tuned" in wanted:
        wanted |= {"channels_last", "fused"} if workload.images else {"fused"}
    return wanted


def _placed(workload: w.Workload, wanted: set[str]) -> tuple[Any, Any, Any]:
    """The model, its source, and the labels or the result's gradient."""
    model = model_of(workload)
    x, y = (torch.from_numpy(array) for array in w.data(workload))
    if "float64" in wanted:
        model, x = model.double(), x.double()
        y = y.double() if y.is_floating_point() else y
    if "channels_last" in wanted:
        model, x = (z.to(memory_format=torch.channels_last) for z in (model, x))
        y = y.to(memory_format=torch.channels_last) if y.dim() == 4 else y
    return model, x, y.long() if workload.classes else y


def _stepper(workload: w.Workload, variant: str) -> Callable[[], Any]:
    wanted = _wanted(workload, variant)
    model, x, label = _placed(workload, wanted)
    kind = {"fused": True} if "fused" in wanted else {}  # without: what the library chooses
    numbers = workload.optimizer
    if "float64" in wanted:  # this library's are float32
        rounded = {k: float(np.float32(getattr(numbers, k))) for k in ("rate", "momentum", "decay")}
        numbers = replace(numbers, **rounded)
    optimizer = optimizer_of(numbers, trained(model), **kind)
    update = optimizer.step
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


class _Session:
    def __init__(self, workload: w.Workload, threads: int, variant: str) -> None:
        torch.set_num_threads(threads)
        torch.manual_seed(0)
        self.version: str = torch.__version__
        self.variant = variant
        self.phases: dict[str, Callable[[], Any]] = {}
        self.start(workload, variant)


class Session(_Session):
    def start(self, workload: w.Workload, variant: str) -> None:
        self.step = _stepper(workload, variant)

    def loss(self) -> float:
        return float(self.step().item())


class Gradients(_Session):
    """Forward and gradient, that of the source too."""

    def start(self, workload: w.Workload, variant: str) -> None:
        wanted = _wanted(workload, variant)
        model, x, y = _placed(workload, wanted)
        self.arrays = [x.requires_grad_(), *trained(model)]

        def forward(x: Any) -> Any:
            return functional.cross_entropy(model(x), y) if workload.classes else model(x)

        self.forward = torch.compile(forward) if "compile" in wanted else forward
        self.given = () if workload.classes else (y,)

    def step(self) -> None:
        for array in self.arrays:
            array.grad = None
        self.forward(self.arrays[0]).backward(*self.given)

    def gradients(self) -> list[w.Array]:
        self.step()
        return [array.grad.numpy() for array in self.arrays]
