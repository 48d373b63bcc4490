"""What docs/checkpoints.md says is what happens."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs/checkpoints.md"


def test_examples_print_what_they_say(tmp_path: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    script = tmp_path / "example.py"
    script.write_text("\n".join(blocks))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    stated = re.findall(r"^# (.*)$", blocks[1], re.MULTILINE)
    assert done.stdout.splitlines() == stated
    assert len(stated) == 9


def test_every_buffer_is_in_the_table() -> None:
    sources = PAGE.parents[1] / "cpp/src/optimizers"
    used = {
        name
        for path in sources.glob("*.cpp")
        for name in re.findall(r'slot\("(\w+)"', path.read_text())
    }
    (row,) = (line for line in PAGE.read_text().splitlines() if line.startswith("| `optimizer."))
    assert used == set(re.findall(r"`(\w+)`", row))
