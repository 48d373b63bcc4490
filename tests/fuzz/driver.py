"""Runs fuzz targets for a while each, every one in a process of its own.

usage: python tests/fuzz/driver.py [--seconds 120] [--seed N] TARGET.py...
       python tests/fuzz/driver.py TARGET.py --file INPUT
       python tests/fuzz/driver.py TARGET.py --show INPUT

A target is a Python file with `corpus`, the folder of inputs that are tried first, `make(random)`,
which gives an input, and `run(content)`, which gives a word for what came of it and raises for what
must not be; maybe `show(content)`, an input as text that can be pasted, and `smaller(content)`,
inputs like it that are less. An input that ends the process, takes longer than LIMIT seconds or
raises is made as small as it may be and kept in a file, and the command that tries it again is
printed.
"""

import argparse
import collections
import contextlib
import json
import os
import re
import runpy
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

LIMIT = 60
"""Seconds for an input and what judges it."""
SHRINKING = 60
"""Seconds that a failing input may be made smaller for."""
TESTS = Path(__file__).resolve().parents[1]
# What targets share with the tests.
sys.path[:0] = [str(TESTS / folder) for folder in ("fuzz", "mps", "checkpoint", "python", "")]


def work(target: Path, seconds: float, seed: int, kept: Path) -> None:
    """In the process of a target: the corpus, then inputs until the time is over."""
    module = runpy.run_path(str(target))
    inputs = [path.read_bytes() for path in sorted(module["corpus"].iterdir())]
    outcomes: collections.Counter[str] = collections.Counter()
    end, number = time.monotonic() + seconds, 0
    while number < len(inputs) or time.monotonic() < end:
        random = Random(f"{seed} {number}")
        content = inputs[number] if number < len(inputs) else module["make"](random)
        kept.write_bytes(content)
        # Its default is the end of the process, whatever that is doing.
        signal.alarm(LIMIT)
        outcomes[module["run"](content)] += 1
        signal.alarm(0)
        number += 1
    kept.unlink()
    print(json.dumps({"inputs": number, **dict(outcomes.most_common())}))


def outcome(module: dict[str, Any], content: bytes) -> str:
    """What an input does to a process of its own: nothing, or the kind of its failure."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            signal.alarm(LIMIT)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            try:
                module["run"](content)
            except Exception as error:
                words = re.sub(r"[^a-z ]", "", str(error).split("'")[0])
                os.write(writing, f"{type(error).__name__} {words[:40]}".encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    return text or (str(status) if status else "")


def shrink(module: dict[str, Any], kept: Path) -> None:
    """As long as a smaller input fails in the same way; nothing is run in this process itself."""
    end = time.monotonic() + SHRINKING
    kind = outcome(module, kept.read_bytes())
    found = bool(kind)
    while found and time.monotonic() < end:
        found = False
        for content in module["smaller"](kept.read_bytes()):
            if time.monotonic() > end:
                break
            if outcome(module, content) == kind:
                kept.write_bytes(content)
                found = True
                break


def fuzz(target: Path, seconds: float, seed: int) -> bool:
    folder = Path(tempfile.mkdtemp(prefix="traingraph-fuzz-"))
    kept = folder / "input"
    own = [sys.executable, __file__, "--child", str(kept), "--seconds", str(seconds)]
    done = subprocess.run([*own, "--seed", str(seed), str(target)], capture_output=True, text=True)
    print(f"{target.stem}: seed {seed}: {done.stdout.strip()}", flush=True)
    if done.returncode == 0 and not kept.exists():
        folder.rmdir()
        return True
    why = f"longer than {LIMIT} s" if done.returncode == -signal.SIGALRM else done.returncode
    print(done.stderr[-6000:])
    if kept.exists():
        shown = subprocess.run([sys.executable, __file__, str(target), "--show", str(kept)],
                               capture_output=True, text=True)  # fmt: skip
        print(shown.stdout)
    print(f"{target.stem}: {why}; again: {sys.executable} {__file__} {target} --file {kept}")
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="+", type=Path)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(2**32))
    parser.add_argument("--file", type=Path, help="try this input alone")
    parser.add_argument("--show", type=Path, help="make this input small, and print it")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is not None:
        work(given.targets[0], given.seconds, given.seed, given.child)
        return 0
    if given.file is not None:
        print(runpy.run_path(str(given.targets[0]))["run"](given.file.read_bytes()))
        return 0
    if given.show is not None:
        module = runpy.run_path(str(given.targets[0]))
        if "smaller" in module:
            shrink(module, given.show)
        if "show" in module:
            print(module["show"](given.show.read_bytes()))
        return 0
    held = [fuzz(target, given.seconds, given.seed) for target in given.targets]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
