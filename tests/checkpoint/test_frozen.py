"""Freezing and thawing: when it takes effect, and what checkpoints keep of a frozen layer."""

from typing import Any

import numpy as np
import pytest

import traingraph as tg

DEVICES = pytest.mark.parametrize("device", ["cpu", "reference"])
OPTIMIZERS = {
    "momentum": lambda: tg.MLCSGDOptimizer(learning_rate=0.1, momentum_scale=0.9),
    "adam": lambda: tg.MLCAdamOptimizer(learning_rate=0.05),
    "rmsprop": lambda: tg.MLCRMSPropOptimizer(learning_rate=0.01, is_centered=True),
}
Bits = dict[str, bytes]


class Chain:
    """Two full layers, and a trained input beside the second."""

    def __init__(
        self, device: str, optimizer: str = "adam", seed: int = 1, compiled: bool = True
    ) -> None:
        self.x, self.y = tg.MLCTensor(shape=[4, 3]), tg.MLCTensor(shape=[4, 3])
        numbers = np.random.default_rng(seed)

        def drawn(*shape: int) -> tg.MLCTensor:
            return tg.MLCTensor(data=numbers.normal(size=shape).astype(np.float32))

        self.layers = [
            tg.MLCFullyConnectedLayer(
                weights=drawn(3, 3),
                biases=drawn(1, 3),
                descriptor=tg.MLCConvolutionDescriptor(
                    kernel_sizes=(1, 1),
                    input_feature_channel_count=3,
                    output_feature_channel_count=3,
                ),
            )
            for _ in range(2)
        ]
        self.first, self.last = (layer.weights_parameter for layer in self.layers)
        graph = tg.MLCGraph()
        tg.sequential(graph, self.x, self.layers)
        self.training = tg.MLCTrainingGraph(
            graph_objects=[graph],
            loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
            optimizer=OPTIMIZERS[optimizer](),
        )
        self.training.add_inputs({"x": self.x}, loss_labels={"y": self.y})
        self.device = device
        if compiled:
            self.training.compile(device=device)

    def run(self, k: int, rows: int = 4) -> None:
        numbers = np.random.default_rng(k)
        self.training.execute(
            inputs_data={"x": numbers.normal(size=(rows, 3)).astype(np.float32)},
            loss_labels_data={"y": numbers.normal(size=(rows, 3)).astype(np.float32)},
            batch_size=rows,
            options="synchronous",
        )

    def weights(self) -> list[bytes]:
        state = self.training.state()
        return [state[f"{k}.FullyConnected.weights"].tobytes() for k in (1, 2)]

    def bits(self) -> Bits:
        return {name: array.tobytes() for name, array in self.training.state().items()}


def moments_of_first(state: dict[str, Any]) -> list[str]:
    return [name for name in state if name.startswith("optimizer.1.FullyConnected.weights.")]


@DEVICES
@pytest.mark.parametrize("compiles", [True, False])
def test_a_flag_holds_from_the_next_execution_on(device: str, compiles: bool) -> None:
    """For every batch size, whether its program exists or not."""
    network = Chain(device)
    network.run(0, 4)
    network.run(1, 2)
    network.first.is_updatable = False
    if compiles:
        network.training.compile(device=device)
    for rows in (4, 2, 3, 4):
        first, last = network.weights()
        network.run(rows, rows)
        now = network.weights()
        assert now[0] == first
        assert now[1] != last
    network.first.is_updatable = True
    for rows in (3, 1, 4):
        first, last = network.weights()
        network.run(rows, rows)
        assert network.weights()[0] != first


@DEVICES
def test_a_flag_between_phases_starts_the_step_anew(device: str) -> None:
    network = Chain(device)
    arrays = {name: np.ones((4, 3), np.float32) for name in "xy"}

    def feed() -> None:
        network.training.bind_and_write_data(arrays, for_inputs={"x": network.x, "y": network.y})

    feed()
    network.training.execute_forward(options="synchronous")
    network.first.is_updatable = False
    with pytest.raises(ValueError, match="expected execute_forward before it"):
        network.training.execute_gradient(options="synchronous")
    feed()
    network.training.execute_forward(options="synchronous")
    network.training.execute_gradient(options="synchronous")
    network.first.is_updatable = True
    with pytest.raises(ValueError, match="expected execute_gradient before it"):
        network.training.execute_optimizer_update(options="synchronous")
    # There and back is a change, whether a save has looked between or not.
    feed()
    network.training.execute_forward(options="synchronous")
    network.first.is_updatable = False
    network.first.is_updatable = True
    with pytest.raises(ValueError, match="expected execute_forward before it"):
        network.training.execute_gradient(options="synchronous")
    # The same value again is none.
    feed()
    network.training.execute_forward(options="synchronous")
    network.first.is_updatable = True
    network.training.execute_gradient(options="synchronous")
    network.training.execute_optimizer_update(options="synchronous")


@DEVICES
def test_a_flag_between_micro_batches_drops_the_sum(device: str) -> None:
    one, two = Chain(device), Chain(device)
    for network in (one, two):
        network.training.micro_batches = 2
    one.run(9)
    for network in (one, two):
        network.first.is_updatable = False
        network.run(1)
        network.run(2)
    for name in ("weights", "biases"):
        name = f"2.FullyConnected.{name}"
        np.testing.assert_array_equal(one.training.state()[name], two.training.state()[name])


@DEVICES
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("order", ["freeze, load", "load, freeze", "load, compile, freeze"])
def test_resumed_and_thawed_is_the_uninterrupted_run(
    device: str, optimizer: str, order: str
) -> None:
    one = Chain(device, optimizer)
    for k in range(3):
        one.run(k)
    one.first.is_updatable = False
    one.run(3)
    saved = one.training.state()
    assert moments_of_first(saved)
    two = Chain(device, optimizer, seed=7, compiled="compile" not in order)
    if order == "freeze, load":
        two.first.is_updatable = False
    two.training.load_state(saved)
    if "compile" in order:
        two.training.compile(device=device)
    two.first.is_updatable = False
    assert two.bits() == one.bits()
    for network in (one, two):
        network.run(4)
        network.first.is_updatable = True
        network.run(5)
        network.run(6)
    assert two.bits() == one.bits()


@DEVICES
def test_a_load_while_frozen_leaves_nothing_of_an_abandoned_future(device: str) -> None:
    one = Chain(device)
    one.first.is_updatable = False
    one.run(0)
    never = one.training.state()  # the first layer was never trained: no moments
    one.run(1)
    assert not moments_of_first(never) or not any(
        never[name].any() for name in moments_of_first(never)
    )
    two = Chain(device)
    for k in range(4):
        two.run(k)
    two.first.is_updatable = False
    two.training.load_state(never)
    one.training.load_state(never)
    for network in (one, two):
        network.first.is_updatable = True
        network.run(5)
    assert two.weights() == one.weights()


def test_a_frozen_file_meets_a_graph_that_trains() -> None:
    one = Chain("cpu", compiled=False)
    one.first.is_updatable = False
    one.training.compile(device="cpu")
    one.run(0)
    state = one.training.state()
    assert not moments_of_first(state)
    two = Chain("cpu")
    with pytest.raises(
        ValueError,
        match=r"missing: 'optimizer.1.FullyConnected.weights.first_moment': frozen when saved\?",
    ):
        two.training.load_state(state)
    two.first.is_updatable = False
    two.training.load_state(state)
    two.first.is_updatable = True
    two.run(1)
    one.first.is_updatable = True
    one.run(1)
    assert two.bits() == one.bits()


def test_moments_of_what_has_none_are_refused() -> None:
    network = Chain("cpu")
    state = network.training.state()
    del state["optimizer.1.FullyConnected.weights.second_moment"]
    network.first.is_updatable = False
    with pytest.raises(ValueError, match=r"missing: 'optimizer.1.FullyConnected.weights.second"):
        network.training.load_state(state)
    state["optimizer.1.FullyConnected.weights.second_moment"] = np.zeros(2, np.float32)
    with pytest.raises(ValueError, match=r"weights.second_moment': expected shape"):
        network.training.load_state(state)
