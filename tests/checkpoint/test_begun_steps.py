"""Checkpoints between the micro-batches of a step, and between its phases."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import traingraph as tg

DEVICES = pytest.mark.parametrize("device", ["cpu", "reference"])


def filled(*shape: int, seed: int) -> tg.MLCTensor:
    return tg.MLCTensor(data=np.random.default_rng(seed).normal(size=shape).astype(np.float32))


class Network:
    """Batch norm, dropout and a full layer: everything that a step moves. Steps of 3 by default."""

    def __init__(
        self,
        device: str,
        seed: int = 1,
        micro: int = 3,
        optimizer: Any = None,
        compiled: bool = True,
    ) -> None:
        tg.MLCPlatform.set_rng_seed_to(seed)
        self.x, self.y = tg.MLCTensor(shape=[4, 5]), tg.MLCTensor(shape=[4, 2])
        self.layer = tg.MLCFullyConnectedLayer(
            weights=filled(2, 5, seed=seed),
            biases=filled(1, 2, seed=seed + 1),
            descriptor=tg.MLCConvolutionDescriptor(
                kernel_sizes=(1, 1), input_feature_channel_count=5, output_feature_channel_count=2
            ),
        )
        self.layer.label = "last"
        self.norm = tg.MLCBatchNormalizationLayer(feature_channel_count=5)
        self.graph = graph = tg.MLCGraph()
        self.middle = graph.node(self.norm, source=self.x)
        tg.sequential(graph, self.middle, [tg.MLCDropoutLayer(rate=0.4, seed=0), self.layer])
        self.training = tg.MLCTrainingGraph(
            graph_objects=[graph],
            loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
            optimizer=optimizer or tg.MLCAdamOptimizer(learning_rate=0.1),
        )
        self.training.add_inputs({"x": self.x}, loss_labels={"y": self.y})
        self.training.micro_batches = micro
        self.device = device
        if compiled:
            self.training.compile(device=device)

    def run(self, k: int, **keywords: Any) -> tg.MLCExecution:
        """Micro-batch number k, with 2 to 4 rows."""
        numbers, rows = np.random.default_rng(k), 2 + k % 3
        return self.training.execute(
            inputs_data={"x": numbers.normal(size=(rows, 5)).astype(np.float32)},
            loss_labels_data={"y": numbers.normal(size=(rows, 2)).astype(np.float32)},
            batch_size=rows,
            **keywords,
        )

    def runs(self, first: int, last: int) -> list[float]:
        return [float(self.run(k).result) for k in range(first, last)]

    def bits(self) -> dict[str, bytes]:
        return {name: array.tobytes() for name, array in self.training.state().items()}


@DEVICES
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("cut", [1, 2, 3, 4, 5])
def test_a_step_goes_on_in_its_middle(
    tmp_path: Path, device: str, cut: int, compiled: bool
) -> None:
    one = Network(device)
    one.runs(0, cut)
    one.training.save(tmp_path / "cut")
    two = Network(device, seed=9, compiled=compiled)
    two.training.load(tmp_path / "cut")
    # A checkpoint of what was loaded, before and after the compile.
    assert two.bits() == one.bits()
    if not compiled:
        two.training.compile(device=device)
        assert two.bits() == one.bits()
    assert two.runs(cut, 9) == one.runs(cut, 9)
    assert two.bits() == one.bits()


@DEVICES
def test_names_of_a_step_that_has_begun(device: str) -> None:
    network = Network(device)
    whole = list(network.training.state())
    network.runs(0, 2)
    state = network.training.state()
    assert [name for name in state if name not in whole] == [
        "state.micro_batches",
        "state.summed_micro_batches",
        "state.summed_rows",
        "state.gradient_sum.1.BatchNormalization.beta",
        "state.gradient_sum.1.BatchNormalization.gamma",
        "state.gradient_sum.3.last.weights",
        "state.gradient_sum.3.last.biases",
    ]
    assert [int(state[name]) for name in list(state)[len(whole) :][:3]] == [3, 2, 2 + 3]
    network.runs(2, 3)
    assert list(network.training.state()) == whole


@DEVICES
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("weights_alone", [True, False])
def test_a_load_gives_up_the_step_that_has_begun(
    device: str, seed: int, weights_alone: bool
) -> None:
    """Whatever the seed in the file: another one compiles again."""
    saved = Network(device).training.state()
    if weights_alone:
        saved = {n: a for n, a in saved.items() if not n.startswith(("optimizer.", "state."))}
    one, two = Network(device, seed), Network(device, seed)
    one.training.load_state(saved)
    two.runs(20, 21)
    two.training.load_state(saved)
    assert "state.summed_micro_batches" not in two.training.state()
    one.runs(0, 3)
    two.runs(0, 3)
    if not weights_alone:  # then the counter of masks goes on, too
        assert two.bits() == one.bits()
    # The step is whole with the third micro-batch after the load, not with the second.
    assert "state.summed_micro_batches" not in two.training.state()
    assert int(two.training.state()["state.time_step"]) == 2


@DEVICES
def test_phases_after_a_load_begin_with_a_forward_pass(device: str) -> None:
    network = Network(device, micro=1)
    saved = network.training.state()
    x, y = np.ones((4, 5), np.float32), np.ones((4, 2), np.float32)
    arrays = {"x": x, "y": y}, {"x": network.x, "y": network.y}
    network.training.bind_and_write_data(arrays[0], for_inputs=arrays[1])
    network.training.execute_forward(options="synchronous")
    network.training.load_state(saved)
    with pytest.raises(ValueError, match="expected execute_forward before it"):
        network.training.execute_gradient(options="synchronous")
    network.training.bind_and_write_data(arrays[0], for_inputs=arrays[1])
    network.training.execute_forward(options="synchronous")
    network.training.execute_gradient(options="synchronous")
    network.training.load_state(saved)
    with pytest.raises(ValueError, match="expected execute_gradient before it"):
        network.training.execute_optimizer_update(options="synchronous")
    # What passes have left is in no checkpoint; what they have moved is.
    state = network.training.state()
    assert {name: a.tobytes() for name, a in state.items()} == {
        name: a.tobytes() for name, a in saved.items()
    }


@DEVICES
def test_phases_of_a_resumed_step(device: str) -> None:
    """Forward passes of micro-batches share the masks of their step, also behind a load."""
    one, two = Network(device), Network(device, seed=5)
    one.runs(0, 1)
    two.training.load_state(one.training.state())
    for network in (one, two):
        for k in (1, 2):
            numbers = np.random.default_rng(k)
            arrays = {
                "x": numbers.normal(size=(4, 5)).astype(np.float32),
                "y": numbers.normal(size=(4, 2)).astype(np.float32),
            }
            network.training.bind_and_write_data(
                arrays, for_inputs={"x": network.x, "y": network.y}
            )
            network.training.execute_forward(options="synchronous")
            network.training.execute_gradient(options="synchronous")
        network.training.execute_optimizer_update(options="synchronous")
    assert two.bits() == one.bits()


@DEVICES
def test_what_compiles_again_drops_what_was_loaded_as_well(device: str) -> None:
    def go_on(network: Network, how: str) -> dict[str, bytes]:
        if how == "output":
            network.training.add_outputs({"middle": network.middle})
        elif how == "freeze":
            network.layer.biases_parameter.is_updatable = False
        elif how == "compile":
            network.training.compile(device=device)
        else:
            network.training.micro_batches = 2
        network.runs(1, 5)
        return network.bits()

    for how in ("output", "freeze", "compile", "micro-batches"):
        one, two = Network(device), Network(device)
        one.runs(0, 1)
        two.training.load_state(one.training.state())
        assert go_on(two, how) == go_on(one, how), how


@DEVICES
def test_another_parameter_in_place_of_a_frozen_one_drops_the_step(device: str) -> None:
    """There are as many sums as before, but of others."""
    network, resumed = Network(device), Network(device, seed=9)
    for one in (network, resumed):
        one.layer.biases_parameter.is_updatable = False
    network.run(0).wait()
    resumed.training.load_state(network.training.state())
    for one in (network, resumed):
        one.layer.biases_parameter.is_updatable = True
        one.norm.beta_parameter.is_updatable = False
        assert "state.micro_batches" not in one.training.state()


@DEVICES
@pytest.mark.parametrize("loaded", [True, False])
def test_a_change_that_is_taken_back_drops_the_step(device: str, loaded: bool) -> None:
    """Whether something looked at the graph between both changes or not."""
    network, other = Network(device), Network(device)
    network.run(0).wait()
    if loaded:
        other.training.load_state(network.training.state())
        network = other
    assert "state.micro_batches" in network.training.state()
    network.layer.biases_parameter.is_updatable = False
    network.layer.biases_parameter.is_updatable = True
    network.layer.biases_parameter.is_updatable = True
    assert "state.micro_batches" not in network.training.state()
    network.runs(1, 3)
    assert int(network.training.state()["state.summed_micro_batches"]) == 2
    network.run(3).wait()
    network.layer.biases_parameter.is_updatable = True  # no change
    assert network.training.optimizer.time_step == 2


def test_a_handler_saves_and_loads_inside_a_step() -> None:
    found: dict[int, dict[str, bytes]] = {}
    expected = []
    one, two = Network("cpu"), Network("cpu")
    for k in range(6):
        one.run(k).wait()
        expected.append(one.bits())

    def handler(k: int):
        return lambda result, error, seconds: found.update({k: two.bits()})

    handles = [two.run(k, completion_handler=handler(k)) for k in range(6)]
    for handle in handles:
        handle.wait()
    assert [found[k] for k in range(6)] == expected


def test_a_load_by_a_handler_ends_the_step_in_flight() -> None:
    """The micro-batches that were submitted already do not mix with other weights."""
    one, two = Network("cpu", micro=2), Network("cpu", micro=2)
    saved = one.training.state()
    begun = Network("cpu", micro=2)
    begun.runs(0, 1)
    inside = begun.training.state()
    two.runs(0, 12)  # what compiles waits for what is in flight
    refused = []

    def handler(result: object, error: object, seconds: float) -> None:
        try:
            two.training.load_state(inside)
        except ValueError as caught:
            refused.append(str(caught))
        two.training.load_state(saved)

    def hold(result: object, error: object, seconds: float) -> None:
        time.sleep(0.2)

    two.run(7, completion_handler=hold)
    two.run(8, completion_handler=handler)
    rest = [two.run(k) for k in range(4)]  # steps of their own: these start from what is loaded
    for handle in rest:
        handle.wait()
    assert len(refused) == 1
    assert "later step in flight" in refused[0]
    first = two.run(9, completion_handler=lambda *_: (hold(*_), two.training.load_state(saved)))
    second = two.run(10)
    first.wait()
    with pytest.raises(ValueError, match=r"was given up, because .* other state was loaded"):
        second.wait()
    two.runs(0, 2)
    assert "state.summed_micro_batches" not in two.training.state()


def test_a_failure_in_flight_gives_up_its_whole_step() -> None:
    """The second micro-batch, submitted before the first one failed, does not update alone."""
    network = Network("cpu", micro=2)
    network.runs(0, 12)
    network.run(0)
    network.run(1, completion_handler=lambda *_: time.sleep(0.2))  # holds the queue
    failing = network.training.execute(
        inputs_data={"x": np.full((4, 5), np.nan, np.float32)},
        loss_labels_data={"y": np.zeros((4, 2), np.float32)},
        options="check_numerics",
    )
    second = network.run(3)
    with pytest.raises(tg.NumericError):
        failing.wait()
    with pytest.raises(ValueError, match="was given up, because a call of it has failed"):
        second.wait()
    expected = network.bits()
    network.runs(20, 21)
    assert network.bits()["3.last.weights"] == expected["3.last.weights"]
    network.runs(21, 22)
    assert network.bits()["3.last.weights"] != expected["3.last.weights"]


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    one = Network("cpu")
    one.runs(0, 2)
    one.training.save(tmp_path / "begun.safetensors")
    for other in (1, 4):
        text = f"'state.micro_batches': expected {other}, the graph's micro_batches, but got 3"
        with pytest.raises(ValueError, match=text):
            Network("cpu", micro=other).training.load(tmp_path / "begun.safetensors")
    state = one.training.state()
    four = Network("cpu", micro=4)
    with pytest.raises(ValueError, match=r"'state.micro_batches': expected 4, .* but got 3"):
        four.training.load_state(state)
    with pytest.raises(ValueError, match=r"'state.micro_batches': expected 1, .* but got 3"):
        Network("cpu", micro=1).training.load_state(state)
    for name, value in (
        ("summed_micro_batches", 3),
        ("summed_micro_batches", 0),
        ("summed_rows", 0),
    ):
        wrong = {**state, f"state.{name}": np.int64(value)}
        with pytest.raises(ValueError, match=rf"'state.{name}': expected 1 to .* but got {value}"):
            Network("cpu").training.load_state(wrong)
    del state["state.gradient_sum.3.last.biases"]
    with pytest.raises(ValueError, match=r"missing: 'state.gradient_sum.3.last.biases'"):
        Network("cpu").training.load_state(state)
    del state["state.summed_micro_batches"]
    with pytest.raises(ValueError, match=r"unexpected: 'state.summed_rows'"):
        Network("cpu").training.load_state(state)


def test_the_weights_of_a_begun_step_fit_an_inference_graph() -> None:
    one = Network("cpu")
    one.runs(0, 2)
    two = Network("cpu", seed=4)
    inference = tg.MLCInferenceGraph(graph_objects=[two.graph])
    inference.add_inputs({"x": two.x})
    inference.load_state(one.training.state())
    np.testing.assert_array_equal(
        inference.state()["3.last.weights"], one.training.state()["3.last.weights"]
    )
