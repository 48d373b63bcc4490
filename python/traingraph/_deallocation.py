"""Memory that is given back by a function of the program's own."""

import collections.abc
import typing


class Deallocation:
    """Holds bytes, and calls the deallocator when it goes: an object whose references Python's
    collector sees, and which it finalises before it takes anything apart."""

    __slots__ = ("bytes", "deallocator", "length")

    def __init__(
        self,
        bytes: typing.Any,
        length: int,
        deallocator: collections.abc.Callable[[typing.Any, int], None],
    ) -> None:
        self.bytes = bytes
        self.length = length
        self.deallocator = deallocator

    def __del__(self) -> None:
        self.deallocator(self.bytes, self.length)
