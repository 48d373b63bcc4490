"""The table of random graphs of MPS nodes has every node, and the check finds planted faults."""

import json
import sys
from pathlib import Path
from random import Random

import numpy as np
import pytest

from traingraph import mps

sys.path.insert(0, str(Path(__file__).parent))
import mps_graphs
from random_graphs import check as checks
from random_nodes import optimizers
from random_nodes.table import ELSEWHERE, MADE, NODES


def test_every_node_is_drawn() -> None:
    """A new class of nodes needs an entry in the table, or a reason."""
    known = set(NODES) | set(ELSEWHERE)
    public = {name for name in mps.__all__ if name.endswith("Node")}
    assert {name for name in public if name in known or not name.endswith(MADE)} == known
    programs = [json.loads(mps_graphs.make(Random(f"{k}"))) for k in range(1500)]
    nodes = [node for program in programs for node in program["nodes"].values()]
    assert {node["layer"] for node in nodes} == set(NODES)
    assert any("undoes" in node["options"] for node in nodes)
    uses = ("separate", "continues", "waits", "reloads", "inference", "outputs")
    assert {key for program in programs for key in uses if program[key]} == set(uses)
    assert {program["optimizer"]["kind"] for program in programs} == set(optimizers.CLASSES)
    kinds = {program["losses"][0].get("type", "seed").upper() for program in programs}
    assert kinds == {*mps.MPSCNNLossType.__members__, "SEED"}


@pytest.mark.parametrize("what", ["loss", "trained", "gradient", "statistics", "inference"])
def test_a_wrong_number_is_found(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """By ten times the bound; gamma and beta are float32 in any program, and have a wider one."""
    pytest.importorskip("torch")
    true, by = checks.run, 1e-5 if what == "trained" else 1e-8

    def wrong(program: dict, *seed: int) -> dict[str, np.ndarray]:
        found = true(program, *seed)
        for name, array in found.items():
            if name.startswith(what) and program["type"] == "float64":
                array *= 1 + by
        return found

    def is_found(content: bytes) -> bool:
        try:
            mps_graphs.run(content)
        except checks.Deviation as deviation:
            return what in str(deviation)
        return False

    monkeypatch.setattr(checks, "run", wrong)
    programs = (mps_graphs.make(Random(f"{k}")) for k in range(300))
    assert any(map(is_found, programs))
