"""Numbers that stand in a file or a dictionary are checked as those of a program are."""

from pathlib import Path

import numpy as np
import pytest
from checkpoint_network import Network, bits

import traingraph as tg

# A name, a value that no graph has, and how it is refused.
WRONG = [
    ("state.time_step", 0, "at least 1 but got 0"),
    ("state.time_step", -(2**63), f"at least 1 but got {-(2**63)}"),
    ("state.time_step", 2**63 - 1, f"at most {2**53} but got {2**63 - 1}"),
    ("state.time_step", 2**53 + 1, f"at most {2**53} but got {2**53 + 1}"),
    ("state.forward_count", -1, "at least 0 but got -1"),
    ("state.forward_count", 2**63 - 1, f"at most {2**53} but got {2**63 - 1}"),
    ("state.loss_scale", np.nan, "at least 1 but got nan"),
    ("state.loss_scale", -2, "at least 1 but got -2"),
    ("state.loss_scale", 0.5, "at least 1 but got 0.5"),
    ("state.loss_scale", 2.0**25, "at most 16777216 but got 33554432"),
    ("state.loss_scale", np.inf, "at most 16777216 but got inf"),
    ("state.good_steps", np.nan, "at least 0 but got nan"),
    ("state.good_steps", np.inf, "at most 1999 but got inf"),
    ("state.good_steps", -1, "at least 0 but got -1"),
    ("state.good_steps", 2000, "at most 1999 but got 2000"),
    ("state.good_steps", 0.5, "a whole number but got 0.5"),
]
RIGHT = [
    ("state.time_step", 2**53), ("state.forward_count", 2**53), ("state.forward_count", 0),
    ("state.random_seed", -(2**63)), ("state.loss_scale", 1), ("state.loss_scale", 2.0**24),
    ("state.good_steps", 1999), ("state.good_steps", 0),
]  # fmt: skip


@pytest.fixture(scope="module", params=["float32", "mixed_float16"])
def network(request: pytest.FixtureRequest) -> Network:
    network = Network(compile_now=False)
    network.training.compile(device="cpu", precision=request.param)
    network.steps(0, 2)
    return network


def with_number(network: Network, name: str, value: float) -> dict[str, np.ndarray]:
    state = network.training.state()
    of_scale = name in ("state.loss_scale", "state.good_steps")
    number = np.array([value], np.float32) if of_scale else np.array(value, np.int64)
    if of_scale:  # both, in a graph that scales nothing as well
        state = {"state.loss_scale": np.float32([4]), "state.good_steps": np.float32([0]), **state}
    return {**state, name: number}


def write(path: Path, state: dict[str, np.ndarray]) -> None:
    pytest.importorskip("safetensors.numpy").save_file(state, path)


@pytest.mark.parametrize(("name", "value", "text"), WRONG)
def test_a_number_that_no_graph_has_is_refused(
    tmp_path: Path, network: Network, name: str, value: float, text: str
) -> None:
    state = with_number(network, name, value)
    before = bits(network.training.state())
    with pytest.raises(tg.InvalidArgument) as raised:
        network.training.load_state(state)
    assert f"\n  '{name}': expected {text}" in str(raised.value)
    assert bits(network.training.state()) == before
    write(tmp_path / "file", state)
    with pytest.raises(tg.InvalidArgument) as raised:
        network.training.load(tmp_path / "file")
    assert f"\n  '{name}': expected {text}" in str(raised.value)
    assert bits(network.training.state()) == before


@pytest.mark.parametrize(("name", "value"), RIGHT)
def test_the_ends_of_the_ranges_work(
    tmp_path: Path, network: Network, name: str, value: float
) -> None:
    """The next step counts on from there, and gives numbers."""
    state = network.training.state()
    write(tmp_path / "file", with_number(network, name, value))
    network.training.load(tmp_path / "file")
    assert np.isfinite(network.steps(0, 2)).all()
    after = network.training.state()
    assert all(np.isfinite(array).all() for array in after.values())
    if value != 2**53:
        network.training.load_state(after)
    network.training.load_state(state)
