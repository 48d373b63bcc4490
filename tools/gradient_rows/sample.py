"""A layer with options, the numbers that it reads, and how the rows of the table make them."""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from random_graphs.layer import Layer, Options, Shape
from random_graphs.numbers import numbers

# What every device type but float64 is computed beside: the same numbers, which it holds exactly.
FLOATS = ("float64", "float32", "tf32", "float16", "bfloat16")
WHOLE = ("int8", "uint8", "int32", "int64", "boolean")
# Odd, with extents of 1, across the width of vectors, with many equal numbers, and large.
SHAPES: dict[str, Shape] = {
    "odd": [3, 5, 7], "ones": [1, 6, 1, 1], "vector": [2, 33], "ties": [4, 9],
    "large": [64, 4, 16, 16],
}  # fmt: skip
SIZES = ["odd", "ones", "vector", "large"]
TIES = [*SIZES[:3], "ties", "large"]
COARSE = 0.5


def coarse(choice: Options) -> float:
    return COARSE if choice["size"] == "ties" else 0.0


@dataclass(frozen=True)
class Values:
    """Numbers that are drawn; those of `kind` "float" get a gradient."""

    shape: Sequence[int]
    low: float = -2.0
    high: float = 2.0
    kind: str = "float"  # or signed: from low to high, of both signs; index, class, boolean; label
    below: int = 1
    dtype: str = ""  # of whole numbers
    array: Any = None  # given, not drawn

    @property
    def is_float(self) -> bool:
        return self.kind in ("float", "signed", "label")

    @property
    def has_gradient(self) -> bool:
        return self.kind in ("float", "signed")

    def drawn(self, random: np.random.Generator) -> np.ndarray:
        shape = tuple(self.shape)
        if self.array is not None:
            return np.asarray(self.array)
        if self.kind == "index":
            return random.integers(0, self.below, shape).astype(self.dtype or "int32")
        if self.kind == "class":  # -1 is a row that is ignored
            return random.integers(-1, self.below, shape).astype(self.dtype or "int32")
        if self.kind == "boolean":
            return random.random(shape) < 0.5
        found = random.uniform(self.low, self.high, shape)
        return found * random.choice([-1, 1], shape) if self.kind == "signed" else found


@dataclass
class Sample:
    """What one case of a row is made of."""

    layer: Layer  # how the class is written and computed: an entry of tests/fuzz/random_graphs
    options: Options
    sources: list[Values]
    frozen: bool = False
    # Its masks are drawn in each forward pass, so PyTorch cannot have the same.
    is_random: bool = False
    # By definition the gradient is not that of the value, and no difference can judge it: why.
    no_differences: str = ""
    coarse: float = 0.0  # numbers are multiples of this: ties, zeros and kinks
    has_gradient: bool = True
    is_loss: bool = False
    weights: str = ""  # of a loss: "", "tensor" or "fed"
    # What else the text of the layer names.
    namespace: Options = field(default_factory=dict)
    # Numbers of parameters by role, where the entry's own would not do.
    own: dict[str, Values] = field(default_factory=dict)

    @property
    def shapes(self) -> list[Shape]:
        return [list(source.shape) for source in self.sources]

    def parameters(self) -> dict[str, tuple[Shape, str, float]]:
        return self.layer.parameters(self.options, self.shapes)


def to_bfloat16(array: np.ndarray) -> np.ndarray:
    """The nearest number of 8 significant bits: float16 holds those of this size too."""
    bits = array.astype(np.float32).view(np.uint32)
    return ((bits + np.uint32(0x8000)) & np.uint32(0xFFFF0000)).view(np.float32).astype(np.float64)


@dataclass
class Data:
    """The numbers of a case, in float64, and exact in the types that they are for."""

    sources: list[np.ndarray]
    parameters: dict[str, np.ndarray]
    exact: str

    @property
    def arrays(self) -> list[np.ndarray]:
        return [*self.sources, *self.parameters.values()]


def data_of(sample: Sample, name: str, exact: str) -> Data:
    """`exact`: the type that holds them, float32 or bfloat16."""
    random = np.random.default_rng(zlib.crc32(name.encode()))

    def rounded(array: np.ndarray) -> np.ndarray:
        if array.dtype.kind != "f":
            return array
        array = array.astype(np.float32).astype(np.float64)
        return to_bfloat16(array) if exact == "bfloat16" else array

    sources = [values.drawn(random) for values in sample.sources]
    if sample.coarse:
        sources = [
            np.round(a / sample.coarse) * sample.coarse if v.is_float else a
            for a, v in zip(sources, sample.sources, strict=True)
        ]
    kept = {}
    for role, (shape, kind, scale) in sample.parameters().items():
        if role in sample.own:
            kept[role] = sample.own[role].drawn(random)
            continue
        if kind == "ones":  # running variances, which are not all 1 in a network
            kind = "positive"
        if kind == "zeros":
            kind = "normal"
        kept[role] = np.asarray(numbers(zlib.crc32(name.encode()), role, 0, shape, kind, scale))
    kept = {role: rounded(array) for role, array in kept.items()}
    return Data([rounded(array) for array in sources], kept, exact)


@dataclass(frozen=True)
class Row:
    """A row of the table: a layer, or one kind of a layer of many."""

    kind: str  # the class
    name: str  # of the kind, or empty
    factors: dict[str, Sequence[Any]]  # options, each with the values that it takes
    make: Callable[[dict[str, Any]], Sample]  # raises Invalid for values that do not fit together
    moves: bool = False  # takes every type, bit for bit
    has_gradient: bool = True

    @property
    def label(self) -> str:
        return f"{self.kind} {self.name}".strip()
