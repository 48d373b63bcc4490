"""Imports of other packages that no Ctrl-C ends in the middle."""

import importlib
import signal
from typing import Any


def whole_import(name: str, package: str, use: str) -> Any:
    """The module. A Ctrl-C is raised behind it: amid it, the modules that are half made would stay.

    package is what pip installs, and use says what for, if it is not there.
    """
    pressed: list[object] = []
    before = signal.getsignal(signal.SIGINT)
    try:
        # None, of a handler that is no function of Python's, could not be set again.
        is_set = before is not None
        if is_set:
            signal.signal(signal.SIGINT, lambda *given: pressed.append(given))
    except ValueError:  # another thread, to which no Ctrl-C comes
        is_set = False
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        error.add_note(f"{use}: pip install {package}")
        raise
    finally:
        if is_set:
            signal.signal(signal.SIGINT, before)
    if pressed:
        signal.raise_signal(signal.SIGINT)
    return module
