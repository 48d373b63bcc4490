"""Sends Objective-C messages to the doubles from Python: types are read from the runtime.

`classes.MPSImage.send("alloc")` gives an `Object`; its `send` takes the selector and the arguments:
objects, numbers, `None` for nil, structures as nested tuples, arrays as pointers to their bytes.
"""

import ctypes
import re
from pathlib import Path
from typing import Any

import numpy as np

SCALARS: dict[str, Any] = {
    "c": ctypes.c_int8,
    "C": ctypes.c_uint8,
    "B": ctypes.c_bool,
    "s": ctypes.c_int16,
    "S": ctypes.c_uint16,
    "i": ctypes.c_int32,
    "I": ctypes.c_uint32,
    "l": ctypes.c_int64,
    "L": ctypes.c_uint64,
    "q": ctypes.c_int64,
    "Q": ctypes.c_uint64,
    "f": ctypes.c_float,
    "d": ctypes.c_double,
    "@": ctypes.c_void_p,
    "#": ctypes.c_void_p,
    ":": ctypes.c_void_p,
    "*": ctypes.c_char_p,
    "v": None,
}
STRUCTURES: dict[str, type[ctypes.Structure]] = {}


def closing(text: str) -> int:
    """The index behind the brace that closes the one at 0."""
    depth = 0
    for index, character in enumerate(text):
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return index + 1
    raise ValueError(text)


def structure(inner: str) -> type[ctypes.Structure]:
    if inner not in STRUCTURES:
        rest, fields = inner.partition("=")[2], []
        while rest:
            kind, rest = parse(rest)
            fields.append((f"field_{len(fields)}", kind))
        STRUCTURES[inner] = type("Structure", (ctypes.Structure,), {"_fields_": fields})
    return STRUCTURES[inner]


def parse(encoding: str) -> tuple[Any, str]:
    """The first type of an encoding, and the rest."""
    encoding = re.sub(r"^(?:[rnNoORV]|\"[^\"]*\")+", "", encoding)
    if encoding.startswith("{"):
        end = closing(encoding)
        return structure(encoding[1 : end - 1]), encoding[end:]
    if encoding.startswith("^"):
        inner = encoding[1:].lstrip("rnNoORV")
        if inner[0] == "?":
            return ctypes.c_void_p, inner[1:]
        return ctypes.c_void_p, parse(inner)[1]
    if encoding.startswith("@?"):
        return ctypes.c_void_p, encoding[2:]
    return SCALARS[encoding[0]], encoding[1:]


def types(encoding: str) -> list[Any]:
    """The result's and the arguments' types of a method, whose places stand between them."""
    found = []
    while encoding:
        kind, encoding = parse(encoding)
        found.append(kind)
        encoding = re.sub(r"^[+-]?\d+", "", encoding)
    return found


def filled(kind: Any, value: Any) -> Any:
    """The argument as its type; structures from nested tuples."""
    if isinstance(value, Object):
        return value.address
    if isinstance(value, np.ndarray):
        return value.ctypes.data
    if isinstance(value, tuple):
        fields = [field[1] for field in kind._fields_]
        return kind(*(filled(inner, part) for inner, part in zip(fields, value, strict=True)))
    return value


class Runtime:
    """GCC's Objective-C runtime, and the doubles in it."""

    def __init__(self, folder: Path) -> None:
        self.library = ctypes.CDLL(str(folder / "libapple_check_classes.so"), ctypes.RTLD_GLOBAL)
        # It has brought its doubles, unless a package over doubles had brought its own before: by
        # their name whichever are there, because a second copy of a class would end the process.
        self.doubles = ctypes.CDLL("libapple_doubles.so", ctypes.RTLD_GLOBAL)
        for name, result, arguments in (
            ("objc_lookUpClass", "p", "s"),
            ("sel_registerName", "p", "s"),
            ("class_getInstanceMethod", "p", "pp"),
            ("class_getClassMethod", "p", "pp"),
            ("method_getTypeEncoding", "s", "p"),
            ("method_getName", "p", "p"),
            ("sel_getName", "s", "p"),
            ("class_getName", "s", "p"),
            ("class_getSuperclass", "p", "p"),
            ("objc_msg_lookup", "p", "pp"),
        ):
            kinds = {"p": ctypes.c_void_p, "s": ctypes.c_char_p}
            function = getattr(self.doubles, name)
            function.restype = kinds[result]
            function.argtypes = [kinds[argument] for argument in arguments]
        self.doubles.apple_live_objects.restype = ctypes.c_int64

    def __getattr__(self, name: str) -> "Object":
        found = self.doubles.objc_lookUpClass(name.encode())
        if found is None:
            raise AttributeError(f"there is no class {name}")
        return Object(self, found)

    def live_objects(self) -> int:
        return int(self.doubles.apple_live_objects())

    def device(self) -> "Object":
        self.doubles.MTLCreateSystemDefaultDevice.restype = ctypes.c_void_p
        return Object(self, self.doubles.MTLCreateSystemDefaultDevice()).send("autorelease")

    def array(self, objects: list["Object"]) -> "Object":
        addresses = (ctypes.c_void_p * len(objects))(*(item.address for item in objects))
        made = self.NSArray.send(
            "arrayWithObjects:count:", ctypes.addressof(addresses), len(objects)
        )
        assert isinstance(made, Object)
        return made


class Object:
    """An object or a class, not retained."""

    def __init__(self, runtime: Runtime, address: int) -> None:
        self.runtime = runtime
        self.address = address

    def send(self, selector: str, *arguments: Any) -> Any:
        doubles = self.runtime.doubles
        name = doubles.sel_registerName(selector.encode())
        # The first word of an object is its class; a class is an object of its metaclass,
        # whose instance methods are the class's.
        kind = ctypes.c_void_p.from_address(self.address).value
        method = doubles.class_getInstanceMethod(kind, name)
        if method is None:
            raise AttributeError(f"{doubles.class_getName(kind).decode()} has no {selector}")
        encoding = doubles.method_getTypeEncoding(method).decode()
        result, *kinds = types(encoding)
        given = [filled(kind, value) for kind, value in zip(kinds[2:], arguments, strict=True)]
        call = ctypes.CFUNCTYPE(result, *kinds)(doubles.objc_msg_lookup(self.address, name))
        returned = call(self.address, name, *given)
        is_object = re.match(r"[rnNoORV]*[@#]", encoding) is not None
        if not is_object:
            return returned
        return Object(self.runtime, returned) if returned else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Object) and other.address == self.address

    def __hash__(self) -> int:
        return hash(self.address)
