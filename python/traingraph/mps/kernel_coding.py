"""What of copying and coding is Python's: data sources' own copies, values of a graph's nodes.

Of what each class of kernels consists is described in the core, which copies and codes them.
"""

import copy as copies
from typing import Any

from traingraph._core import InvalidArgument


def copied_source(source: Any, device: Any) -> Any:
    """A data source by its own copy(device=), by Python's copy protocol, or the same again."""
    if hasattr(source, "copy"):
        return source.copy(device=device)
    return copies.copy(source) if hasattr(source, "__copy__") else source


def plain(value: Any) -> Any:
    """Numbers, texts, None, lists and dictionaries of these."""
    if hasattr(value, "_coded"):  # a descriptor
        return value._coded()
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    return value


# What damaged archives raise.
DAMAGES = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


def other_archive(kind: str, error: Exception) -> InvalidArgument:
    text = "expected what an object of this class has encoded but got something else"
    reason, *rest = str(error).splitlines() or [type(error).__name__]
    if rest and "incompatible function arguments" in reason:
        reason = "a value of another type"
    return InvalidArgument(f"[{kind}] {text}: {reason[:300]}")


def device_for(coder: Any, device: Any) -> Any:
    """This device, or the coder's. Errors: neither."""
    if device is not None:
        return device
    if hasattr(coder, "mps_mtl_device"):
        return coder.mps_mtl_device()
    raise InvalidArgument(
        "[MPSKernel] expected a device, or a coder that provides one by mps_mtl_device(), "
        "but got neither"
    )
