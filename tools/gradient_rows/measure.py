"""The errors of a row: its cases, in each type, on each device."""

import importlib.util
import math
import time
from dataclasses import asdict, dataclass, field, replace
from random import Random
from typing import Any

import numpy as np
from random_graphs.layer import Invalid

from .beside_torch import judged
from .graphs import Graph
from .pairs import every_pair
from .quotients import Quotients, scale_of
from .sample import WHOLE, Data, Row, Sample, data_of

BOUNDS = {"float64": 1e-7, "float32": 1e-4, "tf32": 5e-3, "float16": 1e-2, "bfloat16": 5e-2}
BOUNDS |= dict.fromkeys(WHOLE, 0.0)
# Half the distance of 1 and the next number.
UNITS = {"float32": 2.0**-24, "tf32": 2.0**-11, "float16": 2.0**-11, "bfloat16": 2.0**-8}
LARGE = 2**16  # elements
# Numbers are drawn again, so often, where gradients move by more than this under a rounding.
DRAWS = 12
CANCELLATION = BOUNDS["bfloat16"] / 3
HAS_TORCH = importlib.util.find_spec("torch") is not None


@dataclass
class Cell:
    """What was found of a row in a type on a device: the largest errors, and where they were."""

    layer: str
    row: str
    data_type: str
    device: str
    bound: float
    expects_gradient: bool = True
    cases: int = 0
    forward: float | None = None
    gradient: float | None = None  # beside the float64 reference; of float64, beside differences
    torch: float | None = None  # value and gradients beside PyTorch, in float64 alone
    kinks: int = 0
    quotients: int = 0
    worst: dict[str, str] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)  # cases that raised, or had nothing but kinks

    def take(self, what: str, error: float, case: str) -> None:
        error = np.inf if np.isnan(error) else error
        known = getattr(self, what)
        if known is None or not error <= known:
            setattr(self, what, float(error))
            self.worst[what] = case

    @property
    def is_held(self) -> bool:
        """Whether all was compared that has to be, and nothing is above the bound."""
        found = [e for e in (self.forward, self.gradient, self.torch) if e is not None]
        whole = self.cases > 0 and (self.gradient is not None or not self.expects_gradient)
        return whole and not self.errors and all(e <= self.bound for e in found)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "held": self.is_held}


def choices_of(row: Row, quick: bool) -> tuple[list[dict[str, Any]], int]:
    """The options of each case, and how many pairs cannot be."""

    def fits(choice: dict[str, Any]) -> bool:
        try:
            made = row.make(choice)
            shapes = [*made.shapes, *(shape for shape, _, _ in made.parameters().values())]
        except Invalid:
            return False
        return choice.get("size") != "large" or max(map(math.prod, shapes)) >= LARGE

    small = {
        name: [v for v in values if not (name == "size" and v == "large")]
        for name, values in row.factors.items()
    }
    found, impossible = every_pair(small, fits)
    if quick:  # those first that differences can judge
        return sorted(found, key=lambda choice: bool(row.make(choice).no_differences))[:2], 0
    if "large" in row.factors.get("size", ()):
        random = Random(row.label)
        for _ in range(1000):
            chosen = {name: random.choice(list(v)) for name, v in row.factors.items()}
            if fits(chosen | {"size": "large"}):
                found.append(chosen | {"size": "large"})
                break
        else:
            raise AssertionError(f"{row.label}: nothing fits the size large")
    return found, len(impossible)


def far(got: np.ndarray, want: np.ndarray, beside: float) -> float:
    """The largest error, relative to the largest entry."""
    if got.shape != want.shape or not np.isfinite(got).all():
        return np.inf
    return float(np.abs(got - want).max(initial=0)) / scale_of(want, beside)


def starts_of(values: list[np.ndarray], sample: Sample) -> list[np.ndarray]:
    """What gradients start from: of losses 1, as a step does."""
    random = np.random.default_rng(7)
    if sample.is_loss:
        return [np.ones_like(v) for v in values]
    # Exact in 16 bits.
    return [random.integers(-16, 17, v.shape) / 16.0 for v in values]


class Case:
    """The reference's numbers of one choice of options, and the quotients that judge gradients."""

    def __init__(self, sample: Sample, name: str, exact: str, differences: bool) -> None:
        self.sample, self.name = sample, name
        graph = self.draw(exact, 0)
        # Ties are what such numbers are for.
        tries = 0 if sample.coarse else DRAWS
        for k in range(1, tries):
            if self.cancellation() <= CANCELLATION:
                break
            graph = self.draw(exact, k)
        self.quotients: dict[int, Quotients] = {}
        if differences and not sample.no_differences:
            altogether = sum(a.size for a in self.data.arrays)
            for at in self.gradients:
                self.quotients[at] = Quotients(
                    self.data.arrays[at].copy(), lambda a, at=at: graph.move(at, a),
                    graph.values, self.starts, altogether, self.beside,
                )  # fmt: skip

    def draw(self, exact: str, number: int) -> Graph:
        """The reference for numbers that are drawn."""
        label = f"{self.name} {number}" if number else self.name
        self.data: Data = data_of(self.sample, label, exact)
        self.graph = graph = Graph(self.sample, self.data, "reference", "float64")
        self.values = graph.values()
        self.starts = starts_of(self.values, self.sample)
        self.gradients = graph.gradients(self.starts)
        arrays = [*self.gradients.values(), *self.starts]
        self.beside = max([float(np.abs(a).max(initial=0)) for a in arrays] or [1.0])
        return graph

    def cancellation(self) -> float:
        """How far a gradient moves, in norm, where all numbers move by a rounding to bfloat16.

        Where it is large, terms of a gradient cancel almost wholly, and what is left of them in any
        type is rounding.
        """
        random = np.random.default_rng(11)
        home = {at: self.data.arrays[at] for at in self.gradients}
        for at, array in home.items():
            self.graph.move(
                at, array * (1 + UNITS["bfloat16"] * random.choice([-1, 1], array.shape))
            )
        self.graph.values()
        moved = self.graph.gradients(self.starts)
        for at, array in home.items():
            self.graph.move(at, array)
        found = [0.0]
        for at, gradient in self.gradients.items():
            norm = float(np.linalg.norm(gradient))
            if np.abs(gradient).max(initial=0) > 1e-10 * self.beside:
                found.append(float(np.linalg.norm(moved[at] - gradient)) / norm)
        return max(found)

    def run(self, device: str, dtype: str) -> tuple[list[np.ndarray], dict[int, np.ndarray]]:
        if (device, dtype) == ("reference", "float64"):
            return self.values, self.gradients
        graph = Graph(self.sample, self.data, device, dtype)
        values = graph.values()
        return values, graph.gradients(self.starts)

    def moved(self, by: float) -> dict[int, np.ndarray]:
        """The reference's gradients where all numbers of sources are moved, relative to them."""
        pairs = list(enumerate(zip(self.sample.sources, self.data.sources, strict=True)))
        floats = [(at, array) for at, (values, array) in pairs if values.has_gradient]
        for at, array in floats:
            self.graph.move(at, array + by * np.maximum(1, np.abs(array)))
        self.graph.values()
        found = self.graph.gradients(self.starts)
        for at, array in floats:
            self.graph.move(at, array)
        return found

    def take_gradients(self, cell: Cell, gradients: dict[int, np.ndarray]) -> None:
        """Beside the reference. Where its own gradient jumps within the type's rounding is a kink:
        by more than the bound, g(x + d) - 2 g(x) + g(x - d), with d of 4 units. There the gradient
        is held to lie between the three, and it counts as excluded.
        """
        step = 4 * UNITS[cell.data_type]
        up, down = self.moved(step), self.moved(-step)
        for at, want in self.gradients.items():
            got, name = gradients[at], f"{self.name} #{at}"
            if got.shape != want.shape or not np.isfinite(got).all():
                cell.take("gradient", np.inf, name)
                continue
            scale = scale_of(want, self.beside)
            kinks = np.abs(up[at] - 2 * want + down[at]) > cell.bound * scale
            three = np.stack([up[at], want, down[at]])
            outside = np.maximum(three.min(0) - got, got - three.max(0)).clip(min=0)
            errors = np.where(kinks, outside, np.abs(got - want))
            cell.take("gradient", float(errors.max(initial=0)) / scale, name)
            cell.kinks += int(kinks.sum())
            cell.quotients += kinks.size

    def measure(self, cell: Cell) -> None:
        values, gradients = self.run(cell.device, cell.data_type)
        cell.cases += 1
        if cell.data_type != "float64" or cell.device != "reference":
            for got, want in zip(values, self.values, strict=True):
                cell.take("forward", far(got, want, 1.0), self.name)
        if sorted(gradients) != sorted(self.gradients):
            cell.errors.append(f"{self.name}: gradients of {sorted(gradients)}")
            return
        if cell.data_type != "float64":
            self.take_gradients(cell, gradients)
            return
        for at, found in self.quotients.items():
            cell.take("gradient", found.error(gradients[at]), f"{self.name} #{at}")
            cell.kinks += found.kinks
            cell.quotients += len(found.found)
            if found.kinks == len(found.found):
                cell.errors.append(f"{self.name}: nothing but kinks in array {at}")
        if HAS_TORCH and not self.sample.is_random:
            torch_values, torch_gradients = judged(self.sample, self.data, self.starts)
            for got, want in zip(values, torch_values, strict=True):
                cell.take("torch", far(got, want.reshape(got.shape), 1.0), self.name)
            for at, want in torch_gradients.items():
                if at in gradients:
                    error = far(gradients[at], want, self.beside)
                    cell.take("torch", error, f"{self.name} #{at}")


def measured(row: Row, cells: list[tuple[str, str]], quick: bool) -> list[dict[str, Any]]:
    """Of (device, type), each once."""
    begun = time.monotonic()
    choices, impossible = choices_of(row, quick)
    found = {
        (device, one): Cell(row.kind, row.label, one, device, BOUNDS[one],
                            row.has_gradient and one not in WHOLE)
        for device, one in cells
    }  # fmt: skip
    for choice in choices:
        sample = row.make(choice)
        sample.has_gradient = row.has_gradient
        name = f"{row.label} " + ", ".join(f"{k} {v}" for k, v in choice.items())
        for exact, types in (
            ("float32", ("float64", "float32", "tf32")),
            ("bfloat16", ("float16", "bfloat16")),
        ):
            wanted = [cell for (_, dtype), cell in found.items() if dtype in types]
            if wanted:
                take_case(sample, name, exact, wanted)
        for (_, dtype), cell in found.items():
            if dtype in WHOLE:
                measure_whole(sample, name, dtype, cell)
    of_row = {"impossible_pairs": impossible, "row_seconds": time.monotonic() - begun}
    return [cell.as_dict() | of_row for cell in found.values()]


def take_case(sample: Sample, name: str, exact: str, cells: list[Cell]) -> None:
    """A case that raises is a line of what failed, and not the end of the table."""
    try:
        case = Case(sample, name, exact, "float64" in [cell.data_type for cell in cells])
    except Exception as error:
        for cell in cells:
            cell.errors.append(f"{name}: {type(error).__name__}: {error}")
        return
    for cell in cells:
        try:
            case.measure(cell)
        except Exception as error:
            cell.errors.append(f"{name}: {type(error).__name__}: {error}")


def measure_whole(sample: Sample, name: str, dtype: str, cell: Cell) -> None:
    """Whole numbers are moved bit for bit."""
    data = data_of(sample, name, "float32")
    low, high = (0 if dtype in ("uint8", "boolean") else -6), (2 if dtype == "boolean" else 7)
    random = np.random.default_rng(3)
    data.sources = [
        random.integers(low, high, a.shape).astype(np.float64)
        if values.is_float else a
        for a, values in zip(data.sources, sample.sources, strict=True)
    ]  # fmt: skip
    sample = replace(sample, has_gradient=False)
    try:
        want = Graph(sample, data, "reference", "float64").values()
        got = Graph(sample, data, cell.device, "float32", dtype).values()
    except Exception as error:
        cell.errors.append(f"{name}: {type(error).__name__}: {error}")
        return
    cell.cases += 1
    for a, b in zip(got, want, strict=True):
        # A sum of booleans is whether one of them is true.
        cell.take("forward", far(a, (b != 0) * 1.0 if dtype == "boolean" else b, 1.0), name)
