"""What Ctrl-C does to a call that takes a while."""

import signal
import threading
import time
from collections.abc import Callable

import pytest


def interrupted(call: Callable[[], object], after: float = 0.3) -> float:
    """Seconds until Ctrl-C, pressed after some, has ended the call."""
    done = threading.Event()

    def interrupt() -> None:
        if not done.wait(after):
            signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    start = time.monotonic()
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            call()
    finally:
        done.set()
        thread.join()
    return time.monotonic() - start
