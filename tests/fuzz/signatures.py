"""What the public classes and functions take, read from the signatures in their docstrings."""

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import traingraph as tg
from traingraph import mps

NUMBERS = {"int", "float", "SupportsInt", "SupportsFloat", "SupportsIndex"}
# Setters whose type says nothing, and what they take; the others of that kind take no numbers.
UNTYPED = {
    **dict.fromkeys(
        ["offset", "primary_offset", "secondary_offset", "source_size", "padding_size_before",
         "padding_size_after"], "tuple[int, int, int]"),
    **dict.fromkeys(
        ["clip_rect", "clip_rect_source", "primary_source_clip_rect", "secondary_source_clip_rect"],
        "tuple[tuple[int, ...], tuple[int, ...]]"),
}  # fmt: skip


@dataclass(frozen=True)
class Form:
    """One way to call: a constructor, a static method, a method, a setter or a function."""

    module: str
    owner: str
    kind: str
    name: str
    arguments: tuple[tuple[str, str, bool], ...]
    """Name, type and whether it may be left out."""
    keywords: int
    """How many of the last ones are given by name."""
    result: str

    def __str__(self) -> str:
        return f"{self.owner}.{self.name}({', '.join(name for name, _, _ in self.arguments)})"

    @property
    def takes_numbers(self) -> bool:
        return any(has_numbers(type) for _, type, _ in self.arguments)


def has_numbers(type: str) -> bool:
    return bool(NUMBERS & set(re.findall(r"\w+", type)))


def forms_of(value: Any, module: str, owner: str, kind: str, name: str) -> Iterator[Form]:
    for line in (value.__doc__ or "").splitlines():
        found = re.match(rf"(?:\d+\. )?(?:{name})?(\(.*\) -> .*)$", line)
        if not found:
            continue
        (function,) = ast.parse(f"def _{found[1]}: ...").body
        assert isinstance(function, ast.FunctionDef)
        given = function.args
        optional = len(given.args) - len(given.defaults)
        arguments = [
            *((one, k >= optional) for k, one in enumerate(given.args)),
            *((one, default is not None)
              for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)),
        ]  # fmt: skip
        if arguments and arguments[0][0].arg == "self":
            arguments = arguments[1:]
        listed = tuple(
            (one.arg, ast.unparse(one.annotation) if one.annotation else "typing.Any", may)
            for one, may in arguments
        )
        if kind == "setter" and name in UNTYPED:
            listed = (("value", UNTYPED[name], False),)
        result = ast.unparse(function.returns) if function.returns else ""
        yield Form(module, owner, kind, name, listed, len(given.kwonlyargs), result)


def members(cls: type, module: str) -> Iterator[Form]:
    for name in dir(cls):
        value = inspect.getattr_static(cls, name)
        if name == "__init__":
            yield from forms_of(value, module, cls.__name__, "constructor", name)
        elif name.startswith("_"):
            continue
        elif isinstance(value, property):
            if value.fset is not None:
                yield from forms_of(value.fset, module, cls.__name__, "setter", name)
        elif isinstance(value, staticmethod):
            yield from forms_of(value.__func__, module, cls.__name__, "static", name)
        elif callable(value):
            yield from forms_of(value, module, cls.__name__, "method", name)


def is_enum(cls: Any) -> bool:
    return hasattr(cls, "__members__")


def public() -> Iterator[tuple[str, str, Any]]:
    """Module, name and value of what is public, but for enums and exceptions."""
    for short, module in (("tg", tg), ("mps", mps)):
        for name in module.__all__:
            value = getattr(module, name)
            if not is_enum(value) and not (
                isinstance(value, type) and issubclass(value, Exception)
            ):
                yield short, name, value


FORMS: dict[str, list[Form]] = {
    name: list(
        members(value, short)
        if isinstance(value, type)
        else forms_of(value, short, name, "function", name)
    )
    for short, name, value in public()
}
"""All forms of every public class or function."""
