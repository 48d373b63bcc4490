"""The workloads as data: every library builds its network by walking the same table."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Dense:
    """(…, inputs) to (…, outputs), with a bias."""

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
    """body(x) + shortcut(x), then ReLU unless it is linear; an empty shortcut is x itself."""

    body: tuple["Layer", ...]
    shortcut: tuple["Layer", ...] = ()
    linear: bool = False


@dataclass(frozen=True)
class Lstm:
    """(N, T, inputs) to (N, hidden), the last step of the last layer; one bias per gate."""

    inputs: int
    hidden: int
    layers: int

    def sources(self) -> Iterator[int]:
        """What each layer reads."""
        yield from [self.inputs] + [self.hidden] * (self.layers - 1)


@dataclass(frozen=True)
class LayerNorm:
    """Over the last axis."""

    width: int


@dataclass(frozen=True)
class Gelu:
    """In its form with tanh."""


@dataclass(frozen=True)
class Attention:
    """Of (N, T, width) to itself; projections of query, key, value and result have biases."""

    width: int
    heads: int


@dataclass(frozen=True)
class TokenMean:
    """(N, T, width) to (N, width)."""


Images = Convolution | BatchNorm | MaxPool | Flatten | GlobalAverage
Sequences = Lstm | LayerNorm | Gelu | Attention | TokenMean
Layer = Dense | Relu | Residual | Images | Sequences


@dataclass(frozen=True)
class Optimizer:
    name: str  # adam, sgd, or none
    rate: float = 1e-3
    momentum: float = 0.0
    decay: float = 0.0


@dataclass(frozen=True)
class Workload:
    name: str
    source: tuple[int, ...]  # with the batch
    layers: tuple[Layer, ...]
    optimizer: Optimizer
    classes: int  # 0: mean squared error; without an optimizer the result's gradient is given
    # Standard deviations of the first losses over their means, where a rounding of the start moves
    # them far: over such starts, libraries and numbers of threads (sensitivity.py).
    spread: tuple[float, ...] = ()
    neighbour: int = 0  # which one of the start, whose parameters are a rounding away; 0: itself

    @property
    def images(self) -> bool:
        return len(self.source) == 4

    @property
    def trained(self) -> bool:
        """Else a step is forward and gradient alone, that of the source too."""
        return self.optimizer.name != "none"


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


def _encoder(blocks: int, width: int, heads: int) -> tuple[Layer, ...]:
    attended = Residual((LayerNorm(width), Attention(width, heads)), linear=True)
    wide = 4 * width
    body = LayerNorm(width), Dense(width, wide), Gelu(), Dense(wide, width)
    block = attended, Residual(body, linear=True)
    return (*block * blocks, LayerNorm(width), TokenMean(), Dense(width, 10))


_LENET = (
    *(Convolution(1, 32), BatchNorm(32), Relu(), Convolution(32, 64), BatchNorm(64), Relu()),
    *(MaxPool(2), Flatten(), *_perceptron(1024, 128, 10)),
)
_ADAM = Optimizer("adam")
_SLOW = Optimizer("adam", 1e-4)  # so that twelve blocks train from the first step on
_NONE = Optimizer("none")

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
            (4.1e-6, 5.4e-3, 2.0e-2),
        ),
        Workload("lstm", (32, 64, 256), (Lstm(256, 256, 2), Dense(256, 10)), _ADAM, 10),
        Workload("transformer", (16, 128, 256), _encoder(4, 256, 8), _SLOW, 10),
        Workload("transformer_base", (16, 512, 768), _encoder(12, 768, 12), _SLOW, 10),
        Workload("bn_micro", (32, 64, 56, 56), (BatchNorm(64),), _NONE, 0),
        Workload("conv_micro", (16, 64, 56, 56), (Convolution(64, 64),), _NONE, 0),
        Workload("ce_micro", (4096, 1000), (), _NONE, 1000),
    )
}
ON_CPU = [name for name in WORKLOADS if name != "transformer_base"]
# What a GPU is given, and the batches there.
ON_GPU = {
    "mlp_small": (32,),
    "mlp_large": (256,),
    "lenet_digits": (1, 8, 64, 512),
    "resnet18_cifar": (256,),
    "resnet50_224": (128,),
    "lstm": (32,),
    "transformer": (16,),
    "transformer_base": (16,),
}


def of_batch(workload: Workload, batch: int) -> Workload:
    return replace(workload, source=(batch, *workload.source[1:]))


def walk(layers: tuple[Layer, ...]) -> Iterator[Layer]:
    """Layers in order: a block's body, its shortcut, then the block itself."""
    for layer in layers:
        if isinstance(layer, Residual):
            yield from walk(layer.body)
            yield from walk(layer.shortcut)
        yield layer


def parameters(workload: Workload) -> Iterator[Array]:
    """What each layer of walk() starts from, or a neighbour of it."""
    noise = np.random.default_rng(workload.neighbour)
    for start in _start(workload):
        if workload.neighbour:
            start *= 1 + 1e-7 * noise.standard_normal(start.shape)
        yield start


def _start(workload: Workload) -> Iterator[Array]:
    """Weights, then biases, or gamma and beta."""
    random = np.random.default_rng(0)

    def normal(inputs: int, *shape: int) -> Array:
        return (random.standard_normal(shape) / np.sqrt(inputs)).astype("f")

    for layer in walk(workload.layers):
        match layer:
            case Dense(inputs, outputs):
                yield normal(inputs, outputs, inputs)
                yield np.zeros(outputs, "f")
            case Convolution(inputs, outputs, kernel, _):
                yield normal(inputs * kernel**2, outputs, inputs, kernel, kernel)
            case BatchNorm(width) | LayerNorm(width):
                yield np.ones(width, "f")
                yield np.zeros(width, "f")
            case Attention(width, _):
                for results in (3 * width, width):  # of query, key and value; of the result
                    yield normal(width, results, width)
                    yield np.zeros(results, "f")
            case Lstm(_, hidden, _):
                for inputs in layer.sources():  # of the gates input, forget, cell, output
                    yield normal(inputs, 4 * hidden, inputs)
                    yield normal(hidden, 4 * hidden, hidden)
                    yield np.zeros(4 * hidden, "f")


def data(workload: Workload) -> tuple[Array, npt.NDArray[np.float32 | np.int32]]:
    """A source and its labels: classes, or numbers of the result's shape, or its gradient."""
    random = np.random.default_rng(1)
    x = random.standard_normal(workload.source).astype("f")
    if workload.classes:
        return x, random.integers(0, workload.classes, len(x)).astype(np.int32)
    if workload.trained:
        return x, 2 * x + 5
    return x, random.standard_normal(workload.source).astype("f")
