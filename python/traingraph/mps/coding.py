"""Kernels as bytes: archivers with Foundation's names, and the coders that they hand to kernels."""

import json
from collections.abc import Iterable
from typing import Any, TypeVar

from traingraph import _core
from traingraph._core import DataTypeError, InvalidArgument, MTLDevice

T = TypeVar("T")


class NSKeyedArchiver:
    """A coder that a kernel writes its properties into, one key each."""

    def __init__(self) -> None:
        """Empty."""
        self._values: dict[str, Any] = {}

    def encode(self, value: Any, *, for_key: str) -> None:
        """Keeps a number, a text, None, or a list or dictionary of these."""
        self._values[for_key] = value

    @staticmethod
    def archived_data(*, with_root_object: Any, requiring_secure_coding: bool = True) -> bytes:
        """The object as bytes. Errors: a class without encode_with_coder."""
        name = type(with_root_object).__name__
        if not hasattr(with_root_object, "encode_with_coder"):
            text = f"expected an object that can be coded but got {name}"
            raise DataTypeError(f"[NSKeyedArchiver] {text}")
        coder = NSKeyedArchiver()
        with_root_object.encode_with_coder(coder)
        return json.dumps({"class": name, "values": coder._values}, allow_nan=True).encode()


class MPSKeyedUnarchiver:
    """A coder that a kernel reads its properties from, and that provides the device."""

    def __init__(self, *, for_reading_from: bytes, device: Any) -> None:
        """Errors: bytes that no archiver has written."""
        self._device = MTLDevice(device=device)
        try:
            content = json.loads(for_reading_from)
            self._class, self._values = str(content["class"]), dict(content["values"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            text = f"expected an archive but got {len(for_reading_from)} other bytes"
            raise InvalidArgument(f"[MPSKeyedUnarchiver] {text}") from error

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
        coder = cls(for_reading_from=from_data, device=device)
        names = [one.__name__ for one in classes]
        if coder._class not in names:
            raise DataTypeError(
                f"[MPSKeyedUnarchiver] expected {' or '.join(names)} but got {coder._class}"
            )
        made: T = getattr(_core, coder._class)(coder=coder)
        return made
