"""Whether the cores that two threads run on are near each other, as measured by cores.c.

The host of a virtual machine moves its processors. For seconds at a time they may lie on cores
without a common cache, or be two threads of one core, and a step on two threads then takes twice as
long, in any library.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")
TRIES = 6  # for one that has near cores before and after
FAR = 2.0  # times the shortest round trip of a cache line
SHARED = 0.75  # of the rate that a core has alone


class Cores:
    """Of these processes; without a C compiler, or with one core, nothing is known."""

    def __init__(self, realtime: bool = False) -> None:
        self.shortest = float("inf")
        self.command: list[str] = []
        compiler = shutil.which("cc")
        if compiler is None:
            return
        self.folder = tempfile.TemporaryDirectory()
        program = str(Path(self.folder.name) / "cores")
        source = str(Path(__file__).with_name("cores.c"))
        flags = ["-O3", "-march=native", "-ffp-contract=fast", "-pthread"]
        if subprocess.run([compiler, *flags, source, "-o", program], check=False).returncode == 0:
            self.command = ["chrt", "--fifo", "1", program] if realtime else [program]
            for _ in range(20):
                self.near()

    def near(self) -> bool:
        """Now; true where nothing is known."""
        if not self.command:
            return True
        answer = subprocess.run(self.command, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            return True
        trip, share = map(float, answer.stdout.split())
        self.shortest = min(self.shortest, trip)
        return trip < FAR * self.shortest and share > SHARED

    def sampled(self, sample: Callable[[], Result]) -> tuple[Result, bool]:
        """A sample during which they were near, if one of a few is; and whether it is."""
        for _ in range(TRIES):
            before = self.near()
            taken = sample()
            if before and self.near():
                return taken, True
        return taken, False
