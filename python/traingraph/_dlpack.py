"""The type of what offers its memory by DLPack, such as an array of PyTorch or CuPy."""

from typing import Any, Protocol


class SupportsDLPack(Protocol):
    def __dlpack__(self, *, stream: Any = ...) -> Any: ...
