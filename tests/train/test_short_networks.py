"""Programs over traingraph.nn, as short as newcomers expect, and how they train by default."""

import runpy
from pathlib import Path

import pytest

import traingraph as tg

PROGRAMS = Path(__file__).parent
LINES = {"short_mlp": (12, 0.95), "short_cnn": (22, 0.98)}
everyone = pytest.mark.parametrize("name", LINES)


@everyone
@pytest.mark.parametrize("seed", range(3))
def test_accuracy_on_held_back_data(name: str, seed: int) -> None:
    pytest.importorskip("sklearn")
    tg.MLCPlatform.set_rng_seed_to(seed)
    assert runpy.run_path(str(PROGRAMS / f"{name}.py"))["accuracy"] >= LINES[name][1]


@everyone
def test_lines_that_are_not_blank(name: str) -> None:
    """As `ruff format` writes them, which test_quality asks of every file."""
    text = (PROGRAMS / f"{name}.py").read_text()
    lines = [line for line in text.splitlines() if line.strip()]
    assert len(lines) <= LINES[name][0]
    assert ";" not in text
