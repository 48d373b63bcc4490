"""The workloads as data: every library builds its network by walking the same table."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Dense:
    """(N, inputs) to (N, outputs), with a bias."""

    inputs: int
    outputs: int


@dataclass(frozen=True)
class Convolution:
    """(N, inputs, H, W) to (N, outputs, H / stride, W / stride): odd square kernel, no bias."""

    inputs: int
    outputs: int
    kernel: int = 3
    stride: int = 1


@dataclass(frozen=True)
class BatchNorm:
    channels: int


@dataclass(frozen=True)
class Relu:
    pass


@dataclass(frozen=True)
class MaxPool:
    """Square windows; without a stride beside each other."""

    size: int
    stride: int = 0
    padding: int = 0


@dataclass(frozen=True)
class Flatten:
    pass


@dataclass(frozen=True)
class GlobalAverage:
    """(N, C, H, W) to (N, C)."""

    size: int


@dataclass(frozen=True)
class Residual:
    """relu(body(x) + shortcut(x)); an empty shortcut is x itself."""

    body: tuple["Layer", ...]
    shortcut: tuple["Layer", ...]


Layer = Dense | Convolution | BatchNorm | Relu | MaxPool | Flatten | GlobalAverage | Residual


@dataclass(frozen=True)
class Optimizer:
    name: str  # adam or sgd
    rate: float = 1e-3
    momentum: float = 0.0
    decay: float = 0.0


@dataclass(frozen=True)
class Workload:
    name: str
    source: tuple[int, ...]  # with the batch
    layers: tuple[Layer, ...]
    optimizer: Optimizer
    classes: int  # 0: mean squared error

    @property
    def images(self) -> bool:
        return len(self.source) == 4


def _perceptron(*widths: int) -> tuple[Layer, ...]:
    layers: list[Layer] = []
    for inputs, outputs in pairwise(widths):
        layers += [Dense(inputs, outputs), Relu()]
    return tuple(layers[:-1])


def _block(inputs: int, outputs: int, stride: int) -> Residual:
    shortcut: tuple[Layer, ...] = ()
    if stride > 1 or inputs != outputs:
        shortcut = (Convolution(inputs, outputs, 1, stride), BatchNorm(outputs))
    body = (
        *(Convolution(inputs, outputs, 3, stride), BatchNorm(outputs), Relu()),
        *(Convolution(outputs, outputs), BatchNorm(outputs)),
    )
    return Residual(body, shortcut)


def _resnet18() -> tuple[Layer, ...]:
    layers: list[Layer] = [Convolution(3, 64), BatchNorm(64), Relu()]
    inputs = 64
    for outputs in (64, 128, 256, 512):
        layers += [_block(inputs, outputs, 1 if inputs == outputs else 2)]
        layers += [_block(outputs, outputs, 1)]
        inputs = outputs
    return (*layers, GlobalAverage(4), Dense(512, 10))


def _bottleneck(inputs: int, middle: int, stride: int) -> Residual:
    outputs = 4 * middle
    shortcut: tuple[Layer, ...] = ()
    if stride > 1 or inputs != outputs:
        shortcut = (Convolution(inputs, outputs, 1, stride), BatchNorm(outputs))
    body = (
        *(Convolution(inputs, middle, 1), BatchNorm(middle), Relu()),
        *(Convolution(middle, middle, 3, stride), BatchNorm(middle), Relu()),
        *(Convolution(middle, outputs, 1), BatchNorm(outputs)),
    )
    return Residual(body, shortcut)


def _resnet50() -> tuple[Layer, ...]:
    layers: list[Layer] = [Convolution(3, 64, 7, 2), BatchNorm(64), Relu(), MaxPool(3, 2, 1)]
    inputs = 64
    for middle, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for k in range(count):
            layers.append(_bottleneck(inputs, middle, stride if k == 0 else 1))
            inputs = 4 * middle
    return (*layers, GlobalAverage(7), Dense(2048, 1000))


_LENET = (
    *(Convolution(1, 32), BatchNorm(32), Relu(), Convolution(32, 64), BatchNorm(64), Relu()),
    *(MaxPool(2), Flatten(), *_perceptron(1024, 128, 10)),
)
_ADAM = Optimizer("adam")

WORKLOADS = {
    w.name: w
    for w in (
        Workload("linreg", (4, 1), (Dense(1, 1),), _ADAM, 0),
        Workload("policy", (1, 2), _perceptron(2, 100, 4), _ADAM, 4),
        Workload(
            "mlp_small", (32, 64), _perceptron(64, 128, 64, 10), Optimizer("sgd", 0.01, 0.9), 10
        ),
        Workload("mlp_large", (256, 784), _perceptron(784, 2048, 2048, 10), _ADAM, 10),
        Workload("lenet_digits", (64, 1, 8, 8), _LENET, _ADAM, 10),
        Workload(
            *("resnet18_cifar", (64, 3, 32, 32), _resnet18()), Optimizer("sgd", 0.01, 0.9, 5e-4), 10
        ),
        Workload(
            *("resnet50_224", (8, 3, 224, 224), _resnet50()),
            Optimizer("sgd", 0.01, 0.9, 1e-4),
            1000,
        ),
    )
}


# What a GPU is given at once.
GPU_BATCHES = {"resnet18_cifar": 256, "resnet50_224": 128}


def for_gpu(workload: Workload) -> Workload:
    batch = GPU_BATCHES.get(workload.name, workload.source[0])
    return replace(workload, source=(batch, *workload.source[1:]))


def walk(layers: tuple[Layer, ...]) -> Iterator[Layer]:
    """Layers in order: a block's body, its shortcut, then the block itself."""
    for layer in layers:
        if isinstance(layer, Residual):
            yield from walk(layer.body)
            yield from walk(layer.shortcut)
        yield layer


def parameters(workload: Workload) -> Iterator[Array]:
    """What each layer of walk() starts from: weights and biases, or gamma and beta."""
    random = np.random.default_rng(0)
    for layer in walk(workload.layers):
        if isinstance(layer, Dense):
            scale = np.sqrt(layer.inputs)
            yield (random.standard_normal((layer.outputs, layer.inputs)) / scale).astype("f")
            yield np.zeros(layer.outputs, "f")
        elif isinstance(layer, Convolution):
            shape = (layer.outputs, layer.inputs, layer.kernel, layer.kernel)
            scale = np.sqrt(layer.inputs * layer.kernel**2)
            yield (random.standard_normal(shape) / scale).astype("f")
        elif isinstance(layer, BatchNorm):
            yield np.ones(layer.channels, "f")
            yield np.zeros(layer.channels, "f")


def data(workload: Workload) -> tuple[Array, npt.NDArray[np.float32 | np.int32]]:
    """A source and its labels: classes, or numbers of the result's shape."""
    random = np.random.default_rng(1)
    x = random.standard_normal(workload.source).astype("f")
    if workload.classes == 0:
        return x, 2 * x + 5
    return x, random.integers(0, workload.classes, len(x)).astype(np.int32)
