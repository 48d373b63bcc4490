"""Batches for fit(batches=…) whose order and random changes follow from a seed.

    batches = Batches(images, labels, batch_size=64, seed=1, transforms=[scale(), flip(), shift(2)])
    model.fit(batches=batches, epochs=10)

A batch is a function of seed, epoch and number, so a fit that goes on has the batches that it would
have had, with the same version of NumPy. A transform is a function of an array, samples on axis 0,
and a numpy.random.Generator.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from traingraph._missing_names import missing_name

Array: TypeAlias = npt.NDArray[Any]
Samples: TypeAlias = Array | Sequence[Any]
Transform: TypeAlias = Callable[[Array, np.random.Generator], Array]

__all__ = ["Batches", "flip", "noise", "scale", "shift"]
if not TYPE_CHECKING:
    __getattr__ = missing_name(__name__, __all__)


class _Made:
    """A transform that says what it is."""

    def __init__(self, text: str, change: Transform) -> None:
        self._text, self._change, self.__name__ = text, change, change.__name__

    def __call__(self, x: Array, rng: np.random.Generator) -> Array:
        return self._change(x, rng)

    def __repr__(self) -> str:
        return f"<augment.{self._text}>"


def scale(factor: float = 1 / 255, offset: float = 0.0) -> Transform:
    """x * factor + offset in float32: of uint8 images what lies between 0 and 1."""
    _expect_number("scale", "factor", factor)
    _expect_number("scale", "offset", offset)
    _expect(np.isfinite([factor, offset]).all(), "scale", "finite numbers", (factor, offset))

    def scaled(x: Array, _: np.random.Generator) -> Array:
        return x * np.float32(factor) + np.float32(offset)

    return _Made(f"scale({factor:g}, {offset:g})", scaled)


def flip(probability: float = 0.5, axis: int = -1) -> Transform:
    """Turns some samples around along an axis of theirs; -1: left and right of images."""
    _expect_number("flip", "probability", probability)
    _expect(0 <= probability <= 1, "flip", "probability from 0 to 1", probability)
    _expect_whole("flip", "axis", axis)
    _expect(axis != 0, "flip", "an axis behind that of the samples", axis)

    def flipped(x: Array, rng: np.random.Generator) -> Array:
        place = axis if axis > 0 else axis + x.ndim
        _expect(
            0 < place < x.ndim, "flip", f"samples with an axis {axis}, behind the batch", x.shape
        )
        some = rng.random(len(x)) < probability
        turned: Array = np.where(some.reshape(-1, *[1] * (x.ndim - 1)), np.flip(x, axis), x)
        return turned

    return _Made(f"flip({probability:g}, {axis})", flipped)


def shift(most: int) -> Transform:
    """Moves each image (N, ..., H, W) by up to so many pixels on both axes; zeros come in."""
    _expect_whole("shift", "most", most)
    _expect(most >= 0, "shift", "most of at least 0", most)

    def shifted(x: Array, rng: np.random.Generator) -> Array:
        _expect(x.ndim >= 3, "shift", "images (N, ..., H, W)", x.shape)
        sides = [(0, 0)] * (x.ndim - 2) + [(most, most)] * 2
        windows: Array = np.lib.stride_tricks.sliding_window_view(
            np.pad(x, sides), x.shape[-2:], axis=(-2, -1)
        )
        down, right = rng.integers(0, 2 * most + 1, (2, len(x)))
        moved: Array = np.moveaxis(windows, (-4, -3), (1, 2))[np.arange(len(x)), down, right]
        return moved

    return _Made(f"shift({most})", shifted)


def noise(deviation: float) -> Transform:
    """Adds normal noise of this standard deviation, in float32."""
    _expect_number("noise", "deviation", deviation)
    _expect(deviation >= 0, "noise", "deviation of at least 0", deviation)
    _expect(np.isfinite(deviation), "noise", "a finite deviation", deviation)

    def noisy(x: Array, rng: np.random.Generator) -> Array:
        noised: Array = x + np.float32(deviation) * rng.standard_normal(x.shape, np.float32)
        return noised

    return _Made(f"noise({deviation:g})", noisy)


class Batches:
    """Arrays by batches: the iterable that fit(batches=…) takes, one epoch for each iter().

    inputs: an array or a list, or some by name; then transforms are lists by name. The last batch
    may be smaller.
    """

    def __init__(
        self,
        inputs: Samples | Mapping[str, Samples],
        labels: Samples | Mapping[str, Samples],
        *,
        batch_size: int,
        seed: int = 0,
        shuffle: bool = True,
        transforms: Sequence[Transform] | Mapping[str, Sequence[Transform]] = (),
        label_weights: Samples | Mapping[str, Samples] | None = None,
    ) -> None:
        _expect_whole("Batches", "batch_size", batch_size)
        _expect(batch_size >= 1, "Batches", "batch_size of at least 1", batch_size)
        _expect_whole("Batches", "seed", seed)
        _expect(seed >= 0, "Batches", "seed of at least 0", seed)
        _expect_type(isinstance(shuffle, bool | np.bool_), "Batches", "shuffle: bool", shuffle)
        parts = {"inputs": inputs, "labels": labels, "label_weights": label_weights}
        self._parts = [_arrays(name, part) for name, part in parts.items()
                       if part is not None or name == "inputs"]  # fmt: skip
        counts = {len(array) for part in self._parts for array in _each_of(part)}
        _expect(len(counts) == 1, "Batches", "one number of samples", sorted(counts))
        (self._count,) = counts
        _expect(self._count > 0, "Batches", "samples", "none")
        self._transforms = _transforms(inputs, transforms)
        self._size, self._seed, self._shuffle = batch_size, seed, shuffle
        self._epoch = 1

    def __repr__(self) -> str:
        of = f"batch_size={self._size} seed={self._seed} shuffle={bool(self._shuffle)}"
        return f"<Batches of {self._count} samples {of} transforms={self._transforms}>"

    def __len__(self) -> int:
        """Batches of an epoch."""
        return -(-self._count // self._size)

    def set_epoch(self, epoch: int) -> None:
        """Of the next iter(); fit calls it with the number of its epoch."""
        self._epoch = epoch

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """The batches of an epoch; the next iter() is the next epoch."""
        epoch, self._epoch = self._epoch, self._epoch + 1
        order = np.arange(self._count)
        if self._shuffle:
            order = np.random.default_rng([self._seed, epoch, 0]).permutation(self._count)
        for number in range(len(self)):
            yield self._batch(epoch, number, order)

    def _batch(self, epoch: int, number: int, order: npt.NDArray[np.int64]) -> tuple[Any, ...]:
        rows = order[number * self._size : (number + 1) * self._size]
        rng = np.random.default_rng([self._seed, epoch, number + 1])
        inputs, *others = (_each(part, lambda _, x: x[rows]) for part in self._parts)
        return (_each(inputs, lambda name, x: self._changed(name, x, rng)), *others)

    def _changed(self, name: str, x: Array, rng: np.random.Generator) -> Array:
        of = self._transforms
        for transform in of.get(name, ()) if isinstance(of, Mapping) else of:
            count, x = len(x), transform(x, rng)
            got = f"an array {x.shape}" if _has_rows(x) else f"'{type(x).__name__}'"
            _expect(_has_rows(x) and len(x) == count, "Batches",
                    f"an array of {count} samples from {_name(transform)}", got)  # fmt: skip
        return x


def _transforms(
    inputs: Any, given: Sequence[Transform] | Mapping[str, Sequence[Transform]]
) -> Sequence[Transform] | Mapping[str, Sequence[Transform]]:
    """The transforms, each of which can be called."""
    by_name = given if isinstance(given, Mapping) else {"": given}
    for name, items in by_name.items():
        place = f"transforms['{name}']" if name else "transforms"
        _expect_type(isinstance(items, Sequence) and not isinstance(items, str), "Batches",
                     f"{place}: a list of functions", items)  # fmt: skip
        for k, item in enumerate(items):
            # A maker that was not called takes no array.
            made = callable(item) and not _is_maker(item)
            _expect_type(made, "Batches", f"{place}[{k}]: a function of an array and a Generator",
                         item)  # fmt: skip
    is_named = isinstance(inputs, Mapping)
    _expect(is_named == isinstance(given, Mapping) or not given, "Batches",
            "transforms by the names of inputs" if is_named else "a list of transforms",
            "a list of them" if is_named else "some by name")  # fmt: skip
    if isinstance(given, Mapping) and is_named:
        _expect(set(given) <= set(inputs), "Batches",
                f"transforms of {', '.join(inputs)}", ", ".join(given))  # fmt: skip
    return given


def _arrays(name: str, part: Any) -> Any:
    """An array, or arrays by name, with samples on axis 0."""
    if isinstance(part, Mapping):
        _expect(part, "Batches", f"{name} with an array", "none")
        return {key: _arrays(f"{name}['{key}']", one) for key, one in part.items()}
    array = _array(name, part) if isinstance(part, list | tuple) else part
    _expect_type(_has_rows(array), "Batches", f"{name}: an array with samples on axis 0", part)
    return array


def _array(name: str, samples: Sequence[Any]) -> Array:
    """A list of numbers, of lists or of arrays of one shape."""
    try:
        return np.asarray(samples)
    except ValueError:
        shapes = sorted({np.shape(sample) for sample in samples if hasattr(sample, "shape")})
        got = f"arrays {', '.join(map(str, shapes))}" if shapes else "lists of several lengths"
        text = f"[augment.Batches] expected {name}: samples of one shape but got {got}"
        raise ValueError(text) from None


def _has_rows(array: Any) -> bool:
    return len(getattr(array, "shape", ())) > 0


def _each_of(part: Array | Mapping[str, Array]) -> list[Array]:
    return list(part.values()) if isinstance(part, Mapping) else [part]


def _each(part: Any, change: Callable[[str, Array], Array]) -> Any:
    if not isinstance(part, Mapping):
        return change("", part)
    return {name: change(name, array) for name, array in part.items()}


def _is_maker(value: object) -> bool:
    return any(value is maker for maker in (scale, flip, shift, noise))


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _expect_number(subject: str, name: str, value: object) -> None:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    _expect_type(is_number, subject, f"{name}: float", value)


def _expect_whole(subject: str, name: str, value: object) -> None:
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    _expect_type(is_whole, subject, f"{name}: int", value)


def _expect_type(holds: bool, subject: str, expected: str, got: object) -> None:
    if not holds:
        asks = f"the function {_name(got)}; did you mean {_name(got)}()?"
        shown = asks if _is_maker(got) else f"'{type(got).__name__}'"
        raise TypeError(f"[augment.{subject}] expected {expected} but got {shown}")


def _expect(holds: Any, subject: str, expected: str, got: object) -> None:
    if not holds:
        raise ValueError(f"[augment.{subject}] expected {expected} but got {got}")
