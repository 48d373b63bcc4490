"""Runs a process that may abort or hang, maybe beside others."""

import asyncio
import contextlib
import os
import signal
import subprocess
import tempfile


async def run(
    command: list[str], environment: dict[str, str], limit: float
) -> tuple[int, str, str]:
    """Its exit status, the same in words, and what it printed. Whatever it started ends with it."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        process = await asyncio.create_subprocess_exec(
            *command,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = await asyncio.wait_for(process.wait(), limit)
            ended = f"ended with exit status {status}"
            if status < 0:
                ended = f"ended by {signal.Signals(-status).name}"
        except TimeoutError:
            ended = f"did not end within {limit:g} s"
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        status = await process.wait()
        output.seek(0)
        return status, ended, output.read()
