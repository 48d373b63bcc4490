"""Values that a program may pass and that answer otherwise than their class promises."""

import mmap
from collections.abc import Callable
from typing import Any

import numpy as np

# Words of pybind11, of C++, and of Python where an error was left behind.
FOREIGN = [
    "incompatible function arguments", "incompatible constructor arguments", "Invoked with",
    "invalid or missing `self`", "No constructor defined", "Unable to cast", "Unable to convert",
    "Unregistered type", "non-held", "bad_weak_ptr", "std::", "basic_string", "error set",
]  # fmt: skip


class OddError(Exception):
    """What the code of these values raises."""


class Lying(np.ndarray):
    """An array whose class answers what the elements are not."""

    dtype = property(lambda _: "nonsense")  # type: ignore[assignment]
    shape = property(lambda _: (9, 9))  # type: ignore[assignment]
    size = property(lambda _: 3)  # type: ignore[assignment]
    flags = property(lambda _: None)  # type: ignore[assignment]

    def astype(self, *_: Any, **__: Any) -> Any:
        return np.zeros(1, np.float16)

    def view(self, *_: Any, **__: Any) -> Any:
        return b""

    def reshape(self, *_: Any, **__: Any) -> Any:
        return memoryview(b"")

    copy = min = max = __array__ = __dlpack__ = astype  # type: ignore[assignment]


def lying(values: Any) -> Any:
    return np.asarray(values).view(Lying)


class Text(str):
    """A text whose methods give no text."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, other)

    def encode(self, *_: Any) -> Any:
        return 3

    def lower(self) -> Any:
        return 3

    def __str__(self) -> str:
        raise OddError("no text")

    __repr__ = __str__


class Renamed(type):
    """Of a class with a name that is none."""

    __name__ = property(lambda _: 3)  # type: ignore[assignment]


class Nameless(metaclass=Renamed):
    pass


class Undecided:
    """It is called as a truth value of NumPy's, and is none."""

    def __bool__(self) -> bool:
        raise ValueError("neither")


Undecided.__name__ = "numpy.bool_"


class Changing:
    """An array that calls `change` while it is converted."""

    def __init__(self, values: Any, change: Callable[[], object]) -> None:
        self.values, self.change = np.asarray(values), change

    def __array__(self, *_: Any, **__: Any) -> np.ndarray:
        self.change()
        return self.values


class ChangingByDlpack(Changing):
    def __dlpack_device__(self) -> Any:
        return self.values.__dlpack_device__()

    def __dlpack__(self, **keywords: Any) -> Any:
        self.change()
        return self.values.__dlpack__(**keywords)


def emptied(container: Any) -> Callable[[], None]:
    """Empties a dictionary or list, and has its memory used again."""

    def change() -> None:
        container.clear()
        new = [f"{k}" + "z" * 48 for k in range(500)]
        if isinstance(container, dict):
            container.update(dict.fromkeys(new, 0))

    return change


def released() -> memoryview:
    view = memoryview(bytearray(32))
    view.release()
    return view


def closed() -> mmap.mmap:
    memory = mmap.mmap(-1, 4096)
    memory.close()
    return memory
