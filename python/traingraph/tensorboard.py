"""What a fit tells TensorBoard of its epochs, written by tensorboardX."""

import errno
import os
import time
import weakref
from typing import Any

from traingraph import _core
from traingraph._whole_import import whole_import


def _imported(name: str) -> Any:
    return whole_import(f"tensorboardX.{name}", "tensorboardX", "TensorBoardLog writes with it")


class TensorBoardLog:
    """A callback: fit(…, callbacks=[TensorBoardLog(folder)]) writes the numbers of each epoch.

    They are loss, learning_rate and seconds, and behind validation/ the loss, the accuracy and each
    metric of one number; the step is the epoch's number. What it has heard of is in the file. A fit
    that goes on replaces what is there of its epochs. The folder is made at once: OSError where it
    cannot be, or cannot be written. The file is closed with the log.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        # Without SummaryWriter's thread, whose queue no flush waits for.
        self._files = _imported("event_file_writer")
        self._events = _imported("proto.event_pb2")
        self._folder = os.fspath(folder)
        os.makedirs(self._folder, exist_ok=True)
        if not os.access(self._folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), self._folder)
        self._file: Any = None
        self._close: Any = None
        self._last = 0

    def __repr__(self) -> str:
        return f"<TensorBoardLog folder={self._folder!r}>"

    def __call__(self, epoch: _core.Epoch) -> None:
        if epoch.number <= self._last or self._file is None:  # of another fit than before
            self._begin(epoch.number)
        self._last = epoch.number
        numbers = {
            "loss": epoch.loss,
            "learning_rate": epoch.learning_rate,
            "seconds": epoch.seconds,
        }
        if epoch.validation is not None:
            of = epoch.validation
            for name, value in {"loss": of.loss, "accuracy": of.accuracy, **of.metrics}.items():
                if isinstance(value, float):
                    numbers[f"validation/{name}"] = value
        event = self._events.Event(wall_time=time.time(), step=epoch.number)
        for name, value in numbers.items():
            event.summary.value.add(tag=name, simple_value=value)
        self._file.write_event(event)
        self._file.flush()

    def _begin(self, first: int) -> None:
        os.makedirs(self._folder, exist_ok=True)  # it may have been removed since
        # Files are read in the order of their names, which else have whole seconds alone.
        prefix = os.path.join(self._folder, "events")
        if self._close is not None:
            self._close()
        self._file = self._files.EventsWriter(prefix, filename_suffix=f".{time.time_ns()}")
        self._close = weakref.finalize(self, self._file.close)
        start = self._events.SessionLog(status=self._events.SessionLog.START)
        self._file.write_event(
            self._events.Event(wall_time=time.time(), step=first, session_log=start)
        )
