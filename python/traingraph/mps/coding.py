"""Kernels as bytes: archivers with Foundation's names, and the coders that they hand to kernels."""

import errno
import os
import stat
from collections.abc import Iterable
from typing import Any, TypeVar, overload

from traingraph import _core
from traingraph._core import DataTypeError, FileError, InvalidArgument, MTLDevice

core: Any = _core  # what is private there is in no stub
T = TypeVar("T")


def _content(path: Any) -> bytes:
    """A regular file's bytes; of one that does not begin as an archive does, no more than that."""
    if not isinstance(path, str | os.PathLike):
        text = f"expected with_file: str | os.PathLike[str] but got '{type(path).__name__}'"
        raise TypeError(f"[MPSKeyedUnarchiver.unarchive_object] {text}")
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise FileError(errno.EINVAL, "is no regular file", path)
        start = file.read(64)
        return start + file.read() if start.lstrip().startswith(b"{") else start


def _shown(value: object) -> str:
    return f"'{type(value).__name__}'"


class NSKeyedArchiver:
    """A coder that a kernel writes its properties into, one key each."""

    def __init__(self) -> None:
        """Empty."""
        self._values: dict[str, Any] = {}

    def encode(self, value: Any, *, for_key: str) -> None:
        """Keeps a number, a text, None, or a list or dictionary of these."""
        key: object = for_key
        if not isinstance(key, str):
            text = f"expected for_key: str but got {_shown(key)}"
            raise TypeError(f"[NSKeyedArchiver.encode] {text}")
        self._values[key] = value

    @staticmethod
    def archived_data(*, with_root_object: Any, requiring_secure_coding: bool = True) -> bytes:
        """The object as bytes. Errors: a class without encode_with_coder."""
        name = type(with_root_object).__name__
        if not hasattr(with_root_object, "encode_with_coder"):
            text = f"expected an object that can be coded but got {name}"
            raise DataTypeError(f"[NSKeyedArchiver] {text}")
        coder = NSKeyedArchiver()
        with_root_object.encode_with_coder(coder)
        data: bytes = core._archive(name, coder._values)
        return data


class MPSKeyedUnarchiver:
    """A coder that a kernel reads its properties from, and that provides the device."""

    @overload
    def __init__(self, *, for_reading_from: bytes, device: Any) -> None: ...
    @overload
    def __init__(self, *, for_reading_with: bytes, device: Any) -> None: ...
    @overload
    def __init__(self, *, device: Any) -> None: ...
    def __init__(
        self,
        *,
        for_reading_from: bytes | None = None,
        for_reading_with: bytes | None = None,
        device: Any,
    ) -> None:
        """Of what an archiver has written, or of nothing; Apple deprecates all but the first form.

        Errors: bytes that no archiver has written.
        """
        self._device = MTLDevice(device=device)
        data = for_reading_with if for_reading_from is None else for_reading_from
        self._class, self._values = "nothing", dict[str, Any]()
        if data is None:
            return
        self._class, self._values = core._archived(data)

    def decode(self, *, for_key: str) -> Any:
        """What was encoded under this key. Errors: nothing was."""
        if for_key not in self._values:
            raise InvalidArgument(
                f"[MPSKeyedUnarchiver] expected a value for '{for_key}' of {self._class} "
                f"but got {', '.join(sorted(self._values))}"
            )
        return self._values[for_key]

    def mps_mtl_device(self) -> MTLDevice:
        """Where what is decoded will run."""
        return self._device

    @classmethod
    def unarchived_object_of_class(cls, wanted: type[T], *, from_data: bytes, device: Any) -> T:
        """The object, on this device. Errors: another class."""
        return cls.unarchived_object_of_classes([wanted], from_data=from_data, device=device)

    @classmethod
    def unarchived_object_of_classes(
        cls, classes: Iterable[type[T]], *, from_data: bytes, device: Any
    ) -> T:
        """The object, on this device. Errors: a class that is none of these."""
        if not isinstance(classes, Iterable):
            raise TypeError(f"[MPSKeyedUnarchiver] expected classes but got {_shown(classes)}")
        names: list[str] = []
        for one in classes:
            if not isinstance(one, type):
                raise TypeError(f"[MPSKeyedUnarchiver] expected a class but got {_shown(one)}")
            names.append(one.__name__)
        coder = cls(for_reading_from=from_data, device=device)
        if coder._class not in names:
            raise DataTypeError(
                f"[MPSKeyedUnarchiver] expected {' or '.join(names)} but got {coder._class}"
            )
        made: T = coder._object()
        return made

    @overload
    @classmethod
    def unarchive_object(cls, *, with_data: bytes, device: Any) -> Any: ...
    @overload
    @classmethod
    def unarchive_object(cls, *, with_file: str | os.PathLike[str], device: Any) -> Any: ...
    @classmethod
    def unarchive_object(
        cls,
        *,
        with_data: bytes | None = None,
        with_file: str | os.PathLike[str] | None = None,
        device: Any,
    ) -> Any:
        """The object of these bytes, or of a file's, whatever its class; deprecated by Apple.

        Errors: bytes that no archiver has written; a file that cannot be read.
        """
        if with_data is None:
            if with_file is None:
                raise TypeError("[MPSKeyedUnarchiver.unarchive_object] expected with_data")
            with_data = _content(with_file)
        return cls(for_reading_from=with_data, device=device)._object()

    @classmethod
    def unarchive_top_level_object(cls, *, with_data: bytes, device: Any) -> Any:
        """The object of these bytes, whatever its class; deprecated by Apple."""
        return cls.unarchive_object(with_data=with_data, device=device)

    def _object(self) -> Any:
        made_of = getattr(_core, self._class, None)
        if not hasattr(made_of, "encode_with_coder"):
            text = f"expected an object that can be decoded but got {self._class}"
            raise DataTypeError(f"[MPSKeyedUnarchiver] {text}")
        return made_of(coder=self)  # type: ignore[misc]
