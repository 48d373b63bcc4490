"""The table of the random training graphs has every layer, and the check finds planted faults."""

import json
import sys
from pathlib import Path
from random import Random

import numpy as np
import pytest

import traingraph as tg

sys.path.insert(0, str(Path(__file__).parent))
import training_graphs
from random_graphs import check as checks
from random_graphs import optimizers
from random_graphs.table import ELSEWHERE, LAYERS


def public(base: type) -> set[str]:
    classes = {name: getattr(tg, name) for name in tg.__all__}
    return {n for n, cls in classes.items() if isinstance(cls, type) and issubclass(cls, base)}


def test_every_layer_and_every_optimizer_is_drawn() -> None:
    """A new class needs an entry in the table, or a reason."""
    assert public(tg.MLCLayer) == set(LAYERS) | set(ELSEWHERE)
    rules = [rule.name for rule in optimizers.RULES.values()]
    assert sorted(public(tg.MLCOptimizer)) == sorted(["MLCOptimizer", *rules])
    programs = [json.loads(training_graphs.make(Random(f"{k}"))) for k in range(400)]
    drawn = {node["layer"] for program in programs for node in program["nodes"].values()}
    assert drawn == set(LAYERS)
    assert {program["optimizer"]["kind"] for program in programs} == set(optimizers.RULES)
    uses = (
        "loss_layer",
        "split",
        "inner",
        "user",
        "buffers",
        "rebound",
        "handles",
        "inference",
        "any_batch",
    )
    assert {key for program in programs for key in uses if program[key]} == set(uses)
    assert any(node.get("stop") for program in programs for node in program["nodes"].values())


def outcome(content: bytes, name: str) -> str:
    try:
        return training_graphs.run(content)
    except checks.Deviation as deviation:
        return "deviation" if name in str(deviation) else str(deviation)


USES = ["loss", "trained", "running", "inner", "buffer", "handled", "inference"]


@pytest.mark.parametrize("what", USES)
def test_a_wrong_number_is_found(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """Of one entry, by ten times the bound."""
    pytest.importorskip("torch")
    true = checks.run

    def wrong(program: dict, *seed: int) -> dict[str, np.ndarray]:
        found = true(program, *seed)
        for name, array in found.items():
            if name.startswith(what) and program["device"] == "reference":
                array *= 1 + 1e-8
        return found

    monkeypatch.setattr(checks, "run", wrong)
    programs = (training_graphs.make(Random(f"{k}")) for k in range(300))
    held = (k for k, program in enumerate(programs) if "deviation" in outcome(program, what))
    assert next(held, None) is not None


def program_of_one_weight(scale: float) -> dict:
    """Its gradient, clipped to 0.1, is opposite to that of L1, which has this size."""
    common = {
        "learning_rate": 0.01, "regularization_type": "l1", "regularization_scale": scale,
        "applies_gradient_clipping": True, "gradient_clipping_type": "by_norm",
        "maximum_clipping_norm": 0.1,
    }  # fmt: skip
    own = {"momentum_scale": 0.0, "alpha": 0.9, "epsilon": 1e-8, "is_centered": False}
    options = {"count": 1, "weights": "matrix", "biases": None}
    loss = {"source": "n0_0", "type": "mean_squared_error", "reduction_type": "sum"}
    return {
        "seed": 6, "device": "cpu", "type": "float32", "batch": False,
        "values": {"v0": {"role": "input", "shape": [8, 1], "kind": "normal"}},
        "nodes": {"n0": {"layer": "MLCFullyConnectedLayer", "sources": ["v0"], "options": options}},
        "losses": [{**loss, "classes": False, "weighted": False}],
        "optimizer": {"kind": "rmsprop", "common": common, "own": own},
        "rows": [8], "micro": 1, "outputs": [], "input_gradients": False,
    }  # fmt: skip


def test_what_is_left_of_a_clipped_gradient_may_be_rounding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """RMSProp makes a whole step of it."""
    pytest.importorskip("torch")
    a_digit = checks.Rounding(clipped=6e-8, seed=9)
    monkeypatch.setattr(checks, "run", lambda program: checks.judge(program, a_digit, {}))
    assert checks.check(program_of_one_weight(0.1)) == checks.EXCUSED
    assert checks.check(program_of_one_weight(0.05)) == checks.HELD
    others = [r for r in checks.ROUNDINGS["float32"] if not r.clipped]
    monkeypatch.setitem(checks.ROUNDINGS, "float32", others)
    with pytest.raises(checks.Deviation, match="n0_weights"):
        checks.check(program_of_one_weight(0.1))
