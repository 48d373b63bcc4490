"""A new process that loads a checkpoint goes on bit for bit."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from checkpoint_network import Network, bits, optimizers

import traingraph as tg

SCRIPT = Path(__file__).with_name("checkpoint_network.py")


def process(
    device: str, first: int, last: int, load: object, save: Path, others: int, seed: int
) -> str:
    save.mkdir()
    done = subprocess.run(
        [sys.executable, SCRIPT, *map(str, (device, first, last, load, save, others, seed))],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_ten_steps_and_ten_in_another_process_are_twenty(tmp_path: Path, device: str) -> None:
    straight = process(device, 0, 20, "", tmp_path / "straight", 0, 7)
    process(device, 0, 10, "", tmp_path / "half", 0, 7)
    # The second process made other layers before, starts from other weights and has another seed.
    resumed = process(device, 10, 20, tmp_path / "half", tmp_path / "resumed", 5, 8)
    assert resumed == straight
    files = sorted(path.name for path in (tmp_path / "straight").iterdir())
    assert len(files) == len(optimizers())
    for name in files:
        expected = (tmp_path / "straight" / name).read_bytes()
        assert (tmp_path / "resumed" / name).read_bytes() == expected
        assert (tmp_path / "half" / name).read_bytes() != expected


@pytest.mark.parametrize("missing", ["optimizer.", "state.forward_count", "state.time_step", "2."])
def test_each_part_of_the_state_matters(missing: str) -> None:
    """The comparison above would see it if one part were not restored."""
    first = Network()
    first.steps(0, 3)
    state = first.training.state()
    second = Network()
    fresh = second.training.state()
    assert any(name.startswith(missing) for name in state)
    partly = {
        name: fresh[name] if name.startswith(missing) else array for name, array in state.items()
    }
    second.training.load_state(partly)
    first.steps(3, 5)
    second.steps(3, 5)
    assert bits(second.training.state()) != bits(first.training.state())


def test_a_graph_keeps_the_seed_it_was_made_with() -> None:
    before = tg.MLCPlatform.get_rng_seed()
    try:
        tg.MLCPlatform.set_rng_seed_to(3)
        one, two = Network(), Network()
        tg.MLCPlatform.set_rng_seed_to(4)
        three = Network()
        assert one.training.state()["state.random_seed"] == 3
        # Compiled after the platform's seed changed: another batch size, another device.
        two.training.compile(device="cpu")
        assert two.steps(0, 3) == one.steps(0, 3)
        assert three.steps(0, 3) != one.steps(0, 3)
        # A restored seed compiles the masks again.
        three.training.load_state(one.training.state())
        assert three.steps(3, 6) == one.steps(3, 6)
        # All of its bits.
        tg.MLCPlatform.set_rng_seed_to(2**63 - 1)
        assert Network().training.state()["state.random_seed"] == 2**63 - 1
    finally:
        tg.MLCPlatform.set_rng_seed_to(before or 0)


def test_adding_an_output_does_not_repeat_masks() -> None:
    """Compiling again is no restart: the counter belongs to the graph."""
    one, two = Network(), Network()
    one.steps(0, 2)
    two.steps(0, 2)
    one.training.add_outputs({"result": one.result})
    assert one.steps(2, 4) == two.steps(2, 4)
    assert one.training.state()["state.forward_count"] == 4


def test_steps_in_flight_belong_to_the_checkpoint(tmp_path: Path) -> None:
    one, two = Network(), Network()
    one.steps(0, 6)
    for k in range(6):
        two.step(k)
    two.training.save(tmp_path / "two.safetensors")
    one.training.save(tmp_path / "one.safetensors")
    expected = (tmp_path / "one.safetensors").read_bytes()
    assert (tmp_path / "two.safetensors").read_bytes() == expected


def test_a_handler_saves_the_state_after_its_step() -> None:
    """Steps that are still to come do not show, nor do their time steps."""
    expected = []
    one = Network()
    for k in range(6):
        one.steps(k, k + 1)
        expected.append(bits(one.training.state()))
    two = Network()
    found: dict[int, dict[str, bytes]] = {}

    def handler(k: int):
        return lambda result, error, seconds: found.update({k: bits(two.training.state())})

    handles = [two.step(k, completion_handler=handler(k)) for k in range(6)]
    for handle in handles:
        handle.wait()
    assert [found[k] for k in range(6)] == expected
    assert expected[0]["state.time_step"] == np.int64(2).tobytes()


def test_a_handler_loads_between_two_steps() -> None:
    # Adam's rate of a step that is submitted already follows from the time step it had then.
    one, two = (Network(optimizers()["momentum"]) for _ in range(2))
    state = one.training.state()
    one.steps(0, 1)
    first = two.step(
        5, completion_handler=lambda result, error, seconds: two.training.load_state(state)
    )
    second = two.step(0)
    first.wait()
    second.wait()
    assert bits(two.training.state()) == bits(one.training.state())


def test_loading_waits_for_steps_in_flight() -> None:
    one, two = Network(), Network()
    one.steps(0, 3)
    state = one.training.state()
    for k in range(5, 11):
        two.step(k)
    two.training.load_state(state)
    assert bits(two.training.state()) == bits(state)
    assert two.steps(3, 6) == one.steps(3, 6)
    assert two.optimizer.time_step == one.optimizer.time_step == 7
