"""One process of benchmarks.scaling, a rank or both threads: answers a question per line of JSON.

A rank's link is measured by plain sockets and `process_vm_readv` of its own, without the library.
"""

import ctypes
import json
import os
import select
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import traingraph as tg

from . import ours
from . import workloads as w
from .ranks import sample
from .scaling_model import buckets_of

PIECE = 4 << 20  # bytes of one message of the measured link
ROOM = 4 * PIECE  # more than a core's caches hold
libc = ctypes.CDLL(None, use_errno=True)


class Steps:
    """A session as benchmarks.ranks samples it."""

    def __init__(self, workload: w.Workload, threads: int, ranks: Any) -> None:
        self.session = ours.Session(workload, threads, "cpu", ranks=ranks)
        self.losses = [self.session.loss() for _ in range(3)]
        self.step = self.session.resident_step

    def finish(self) -> None:
        self.session.last.wait()


class Vector(ctypes.Structure):
    """iovec of the system."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class Process:
    def __init__(self) -> None:
        self.world = tg.distributed.world() if "RANK" in os.environ else None
        self.sent, self.room = (np.ones(ROOM, np.uint8) for _ in range(2))
        self.steps: dict[str, Steps] = {}
        self.listening = socket.socket()

    def begin(self, workload: str, batch: int | None) -> Any:
        """Sessions of all that is measured here."""
        chosen = w.WORKLOADS[workload]
        if batch:
            chosen = w.of_batch(chosen, batch)
        if self.world is None:
            doubled = w.of_batch(chosen, 2 * chosen.source[0])
            self.steps = {"threads": Steps(doubled, 2, None)}
            return {"version": tg.__version__}
        self.steps = {"alone": Steps(chosen, 1, None), "together": Steps(chosen, 1, self.world)}
        buckets = buckets_of(self.steps["together"].session.training.compiled_description())
        return {"buckets": buckets, "batch": chosen.source[0], "engine": self.world.engine}

    def time(self, session: str, count: int) -> list[float]:
        """Seconds of each of so many steps."""
        return [sample(self.steps[session], 1) / 1e3 for _ in range(count)]

    def copy(self) -> float:
        """Bytes copied per second."""
        return PIECE / _mean(lambda k: np.copyto(_piece(self.room, k), _piece(self.sent, k)))

    # --- the link ----------------------------------------------------------------------------

    def listen(self) -> int:
        self.listening.bind(("", 0))
        self.listening.listen(1)
        return int(self.listening.getsockname()[1])

    def connect(self, host: str | None, port: int) -> None:
        """`host`: of the other one, or None for the one that listens."""
        self.line = socket.create_connection((host, port)) if host else self.listening.accept()[0]
        self.line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.line.setblocking(False)
        self.poll = select.poll()

    def exchange(self, length: int, k: int) -> None:
        """Both ways at once, as the library does it: what goes at once, then a wait."""
        here = _piece(self.room, k).data[:length]
        there = _piece(self.sent, k).data[:length]
        while here or there:
            sent = _moved(self.line.send, there)
            received = _moved(self.line.recv_into, here)
            there, here = there[sent:], here[received:]
            if not sent and not received:
                events = (select.POLLIN if here else 0) | (select.POLLOUT if there else 0)
                self.poll.register(self.line, events)
                self.poll.poll(20)

    def short(self) -> tuple[float, float]:
        """Seconds of a short message, and those of them in which the processor works."""
        count = 200
        self.exchange(32, 0)
        wall, own = time.perf_counter(), time.process_time()
        for k in range(count):
            self.exchange(32, k)
        return (time.perf_counter() - wall) / count, (time.process_time() - own) / count

    def socket_rate(self) -> float:
        """Bytes per second each way."""
        return PIECE / _mean(lambda k: self.exchange(PIECE, k), self.write)

    def place(self) -> dict[str, int]:
        return {"process": os.getpid(), "address": self.sent.ctypes.data}

    def read_rate(self, process: int, address: int) -> float:
        """Bytes per second out of the other's memory, which reads this one's."""

        def read(k: int) -> None:
            piece = _piece(self.room, k)
            begin = address + k % (ROOM // PIECE) * PIECE
            here, there = Vector(piece.ctypes.data, PIECE), Vector(begin, PIECE)
            count = libc.process_vm_readv(
                process, ctypes.byref(here), 1, ctypes.byref(there), 1, ctypes.c_ulong(0)
            )
            if count != PIECE:
                raise OSError(ctypes.get_errno(), "process_vm_readv")

        return PIECE / _mean(read, self.write)

    def write(self, k: int) -> None:
        """What is sent next, as gradients are new in a core's caches; returns when both have."""
        _piece(self.sent, k).fill(k)
        self.exchange(32, k + 1)


def _moved(call: Callable[[memoryview], int], bytes_left: memoryview) -> int:
    """0 where nothing goes now."""
    if not bytes_left:
        return 0
    try:
        count = call(bytes_left)
    except BlockingIOError:
        return 0
    if count == 0:
        raise ConnectionError("the other rank has ended")
    return count


def _piece(room: np.ndarray[Any, Any], k: int) -> np.ndarray[Any, Any]:
    first = k % (ROOM // PIECE) * PIECE
    return room[first : first + PIECE]


def _mean(
    call: Callable[[int], None], before: Callable[[int], None] = lambda k: None, count: int = 8
) -> float:
    """Seconds, after one turn that is not counted."""
    taken = 0.0
    for k in range(count + 1):
        before(k)
        begun = time.perf_counter()
        call(k)
        taken += time.perf_counter() - begun if k else 0.0
    return taken / count


def main() -> None:
    process = Process()
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        print(json.dumps(getattr(process, name)(*arguments)), flush=True)


if __name__ == "__main__":
    main()
