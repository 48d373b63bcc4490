"""The files of the repository, for tests that read them."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE_FILES = (".cpp", ".h", ".def", ".cu", ".mm", ".metal")


def tracked() -> list[Path]:
    """Every file of the repository; of an unpacked archive, what lies in its folders."""
    listing = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"],
        capture_output=True,
        text=True,
    )
    if listing.returncode == 0:
        found = [ROOT / line for line in listing.stdout.splitlines()]
    else:
        names = ["cpp", "docs", "examples", "benchmarks", "python", "tests", "third_party"]
        found = [path for name in names for path in (ROOT / name).rglob("*")]
    return [path for path in found if path.is_file() and "__pycache__" not in path.parts]


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
