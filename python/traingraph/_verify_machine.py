"""What a report of `verify` says of the machine that it was made on."""

import asyncio
import os
import platform
import subprocess
import sys

from traingraph._verify_process import run

MAKES_THE_DEVICE = "import sys, traingraph; print(traingraph._core.verification_note(sys.argv[1]))"
SECONDS = 120.0
# Commands of a Mac, by what they tell.
COMMANDS = {
    "processor": ["sysctl", "-n", "machdep.cpu.brand_string"],
    "memory_bytes": ["sysctl", "-n", "hw.memsize"],
    "xcode": ["xcodebuild", "-version"],
    "command_line_tools": ["pkgutil", "--pkg-info=com.apple.pkg.CLTools_Executables"],
    "compiler": ["c++", "--version"],
    "graphics": ["system_profiler", "SPDisplaysDataType"],
}


def says(command: list[str]) -> str:
    """What a command prints, or why it prints nothing."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return (done.stdout.strip() or done.stderr.strip())[:2000]


def describe_machine() -> dict[str, str]:
    """Its system, processor, graphics (with the Metal family) and developer tools, as text."""
    commands = COMMANDS if sys.platform == "darwin" else {"compiler": COMMANDS["compiler"]}
    return {
        "system": platform.platform(),
        "macos": platform.mac_ver()[0],
        "python": platform.python_version(),
        **{name: says(command) for name, command in commands.items()},
    }


def describe_device(device: str) -> tuple[str, str]:
    """How notes call the device, and why there is none: asked for in a process that it may end."""
    command = [sys.executable, "-c", MAKES_THE_DEVICE, device]
    status, ended, output = asyncio.run(run(command, dict(os.environ), SECONDS))
    if status == 0:
        return output.strip(), ""
    return "", f"{ended}: {output.strip()[-4000:]}"
