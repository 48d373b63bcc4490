"""What of copying and coding is Python's: data sources' own copies, values of a graph's nodes.

Of what each class of kernels consists is described in the core, which copies and codes them.
"""

import copy as copies
from typing import Any


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
