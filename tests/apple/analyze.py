"""Runs clang's analyzer over all Objective-C++; a finding is an error. Called by check.sh."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from apple_build import COMPILER, HERE, build, compile_options

ROOT = HERE.parents[1]
FOLDERS = ("cpp/src/backends/metal", "cpp/src/backends/bnns", "tests/apple/doubles")


def findings(source: Path, built: Path) -> str:
    """What the analyzer says of one file."""
    command = [
        COMPILER,
        "--analyze",
        "--analyzer-output",
        "text",
        "-Xclang",
        "-analyzer-checker=osx.cocoa",
        "-DTRAINGRAPH_APPLE_DOUBLES",
        *compile_options(built),
        f"-I{built / 'generated' / 'doubles'}",
        f"-I{ROOT / 'cpp' / 'include'}",
        f"-I{ROOT / 'cpp' / 'src'}",
        source,
    ]
    return subprocess.run(command, capture_output=True, text=True).stderr


def main() -> int:
    built = build(ROOT / "build" / "apple-checks")
    sources = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.mm"))]
    with ThreadPoolExecutor(2) as pool:
        said = "".join(pool.map(lambda source: findings(source, built), sources))
    print(said, f"{len(sources)} files analyzed", sep="")
    return 1 if "warning:" in said or "error:" in said else 0


if __name__ == "__main__":
    sys.exit(main())
