"""Target: a program makes one object of extreme numbers and uses it, in a child of its own.

A child has 2 GiB of address space, but not under a sanitizer, and LIMIT seconds. Refusals are typed
errors of the package. Longer than that may be plain work alone, which is told by its size: what was
asked for, or what memory the child holds.
"""

import os
import resource
import select
import signal
import time
import traceback
import warnings
from pathlib import Path
from random import Random

import program_parts
from programs import PRELUDE, program

import traingraph as tg

corpus = Path(__file__).parent / "corpus" / "descriptors"
LIMIT = 5
SPACE = 2**31
PLAIN = 2**24
"""Elements, or bytes beyond what a child begins with, from which on work may be long."""
IS_SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")


def make(random: Random) -> bytes:
    return program(random).encode()


def word_of(content: str) -> str:
    """In the child."""
    try:
        with warnings.catch_warnings(action="ignore"):
            exec(compile(content, "program", "exec"), dict(vars(program_parts)))
    except program_parts.TooLargeError:
        return "more data than is given"
    except MemoryError as error:
        # NumPy's own, where it copies what a source gives.
        if type(error).__module__.startswith("numpy"):
            return "no memory for NumPy"
        if isinstance(error, tg.Error):
            return "refused: OutOfMemory"
        raise
    except tg.InternalError:
        raise
    except tg.Error as error:
        return f"refused: {type(error).__name__}"
    except TypeError as error:
        if "incompatible function" in str(error) or not str(error).startswith("["):
            raise
        return "refused: TypeError"
    return "ran"


def child(content: str, pipe: int, errors: int) -> None:
    if IS_SANITIZED:
        os.dup2(errors, 2)
    else:
        resource.setrlimit(resource.RLIMIT_AS, (SPACE, SPACE))
    signal.alarm(4 * LIMIT)
    try:
        word = word_of(content)
    except BaseException:
        word = "!" + traceback.format_exc()
    os.write(pipe, word.encode(errors="replace")[-4000:])
    os._exit(0)


def held(process: int) -> int:
    """Bytes that a process has touched."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * resource.getpagesize()


def run(content: bytes) -> str:
    text = content.decode()
    reading, writing = os.pipe()
    program_parts.asked(0)
    errors = os.memfd_create("errors")
    process = os.fork()
    if process == 0:
        child(text, writing, errors)
    os.close(writing)
    begin, size, got = time.monotonic(), 0, b""
    ready, _, _ = select.select([reading], [], [], LIMIT)
    if ready:
        got = os.read(reading, 65536)
    else:
        asked = int.from_bytes(program_parts.ASKED[:8], "little")
        size = max(asked, held(process) - held(os.getpid()))
        os.kill(process, signal.SIGKILL)
    os.close(reading)
    _, status = os.waitpid(process, 0)
    said = os.pread(errors, 1 << 20, 0).decode(errors="replace")
    os.close(errors)
    # Where C++ asks for too much, the sanitizer ends the process.
    if "AddressSanitizer: out-of-memory" in said or "allocation-size-too-big" in said:
        return "no memory for the sanitizer"
    if not ready and size >= PLAIN:
        return f"over {LIMIT} s: 2^{size.bit_length() - 1}"
    if not ready:
        why = f"longer than {LIMIT} s, of size {size}, after {time.monotonic() - begin:.1f} s"
    elif not got:
        why = (
            f"signal {os.WTERMSIG(status)}"
            if os.WIFSIGNALED(status)
            else f"exit of {status}\n{said}"
        )
    else:
        why = got.decode().removeprefix("!") if got.startswith(b"!") else ""
    assert not why, f"{PRELUDE}{text}\n{why}"
    return got.decode()
