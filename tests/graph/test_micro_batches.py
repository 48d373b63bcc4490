"""Several executions that make one step: what they sum to, and when they update."""

from typing import Any

import numpy as np
import pytest
from networks import Network

import traingraph as tg

OPTIMIZERS = {
    "sgd": lambda: tg.MLCSGDOptimizer(learning_rate=0.02, momentum_scale=0.9),
    "adam": lambda: tg.MLCAdamOptimizer(learning_rate=0.01),
}


def rows(network: Network, first: int, count: int) -> dict[str, Any]:
    part = slice(first, first + count)
    return {
        "inputs_data": {"x": network.data["x"][part]},
        "loss_labels_data": {"y": network.labels["y"][part]},
        "batch_size": count,
        "options": "synchronous",
    }


def trained(
    device: str, dtype: str, optimizer: str, micro: int, reduction: str, dropout: float, calls: str
) -> tuple[list[np.ndarray], list[float]]:
    network = Network(dtype, dropout)
    training = network.training(OPTIMIZERS[optimizer](), reduction)
    training.micro_batches = micro
    training.compile(device=device)
    losses = []
    count = 6 // micro
    for _ in range(4):
        total = 0.0
        for k in range(micro):
            data = rows(network, k * count, count)
            if calls == "execute":
                total += float(training.execute(**data).result)
                continue
            arrays = {"x": data["inputs_data"]["x"], "y": data["loss_labels_data"]["y"]}
            training.bind_and_write_data(
                arrays, for_inputs={"x": network.x, "y": network.y}, batch_size=count
            )
            some = {"batch_size": count, "options": "synchronous"}
            total += float(training.execute_forward(**some).result)
            training.execute_gradient(**some)
        if calls != "execute":
            training.execute_optimizer_update(options="synchronous")
        losses.append(total / (micro if reduction == "mean" else 1))
    training.synchronize_updates()
    return network.parameters(), losses


@pytest.mark.parametrize("calls", ["execute", "separate"])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize(
    ("device", "dtype", "bound"), [("reference", "float64", 1e-13), ("cpu", "float32", 1e-6)]
)
def test_micro_batches_give_what_one_batch_gives(
    device: str, dtype: str, bound: float, optimizer: str, reduction: str, calls: str
) -> None:
    expected, losses = trained(device, dtype, optimizer, 1, reduction, 0.4, "execute")
    for micro in (2, 3):
        got, some = trained(device, dtype, optimizer, micro, reduction, 0.4, calls)
        np.testing.assert_allclose(some, losses, rtol=max(bound, 1e-12))
        for mine, theirs in zip(got, expected, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=bound * np.abs(theirs).max())


def test_weights_change_with_the_last_one_only() -> None:
    network = Network()
    training = network.training(tg.MLCSGDOptimizer(learning_rate=0.5))
    training.micro_batches = 3
    training.compile(device="reference")
    before = network.parameters()
    for k in range(3):
        training.execute(**rows(network, 2 * k, 2))
        training.synchronize_updates()
        same = np.array_equal(network.parameters()[0], before[0])
        assert same == (k < 2)
    assert training.micro_batches == 3


def test_adam_counts_steps_not_micro_batches() -> None:
    network = Network()
    optimizer = tg.MLCAdamOptimizer(learning_rate=0.01)
    training = network.training(optimizer)
    training.micro_batches = 2
    training.compile(device="reference")
    for k in range(4):
        training.execute(**rows(network, 3 * (k % 2), 3))
    assert optimizer.time_step == 3


def test_order_of_separate_calls() -> None:
    network = Network()
    training = network.training(tg.MLCSGDOptimizer(learning_rate=0.5))
    training.micro_batches = 2
    training.compile(device="reference")
    network.feed(training)
    training.execute_forward(options="synchronous")
    training.execute_gradient(options="synchronous")
    with pytest.raises(ValueError, match="expected 2 micro-batches before it but got 1"):
        training.execute_optimizer_update(options="synchronous")
    training.execute_forward(options="synchronous")
    training.execute_gradient(options="synchronous")
    with pytest.raises(ValueError, match="expected execute_optimizer_update after 2"):
        training.execute_forward(options="synchronous")
    training.execute_optimizer_update(options="synchronous")
    training.execute_forward(options="synchronous")


def test_sums_are_readable_and_in_the_plan() -> None:
    network = Network()
    training = network.training()
    training.micro_batches = 2
    training.compile(device="reference")
    one = [e for e in training.memory_plan().entries if "gradient sum" in e.name]
    assert len(one) == 4
    assert all(e.kind == "persistent" for e in one)
    for k in range(4):  # without an optimizer a full sum is begun again
        training.execute(**rows(network, 3 * (k % 2), 3))
    got = training.gradient_data(for_parameter=network.fc1.weights, layer=network.fc1)
    np.testing.assert_allclose(got, network.gradients()["w1"], atol=1e-13)


def test_back_to_one() -> None:
    network = Network()
    training = network.training(tg.MLCSGDOptimizer(learning_rate=0.5))
    training.micro_batches = 2
    training.compile(device="reference")
    training.micro_batches = 1
    before = network.parameters()[0]
    training.execute(**rows(network, 0, 6))
    training.synchronize_updates()
    assert not np.array_equal(before, network.parameters()[0])
    with pytest.raises(ValueError, match="expected at least 1 but got 0"):
        training.micro_batches = 0


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_a_full_sum_that_no_update_can_follow_is_begun_again(device: str) -> None:
    """Other threads compile again, and the passes before are gone."""
    network, expected = Network("float32"), Network("float32")
    graphs = []
    for one in (network, expected):
        training = one.training(tg.MLCAdamOptimizer(learning_rate=0.1))
        training.micro_batches = 2
        training.compile(device=device)
        one.feed(training)
        graphs.append(training)

    def passes(training: Any) -> None:
        for _ in range(2):
            training.execute_forward(options="synchronous")
            training.execute_gradient(options="synchronous")

    before = tg.get_num_threads()
    passes(graphs[0])
    tg.set_num_threads(before + 1)
    try:
        with pytest.raises(tg.InvalidArgument, match="compiled again since the call before"):
            graphs[0].execute_optimizer_update(options="synchronous")
    finally:
        tg.set_num_threads(before)
    for training in graphs:
        passes(training)
        training.execute_optimizer_update(options="synchronous")
        training.synchronize_updates()
    for mine, theirs in zip(network.parameters(), expected.parameters(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert graphs[0].optimizer.time_step == 2


@pytest.mark.parametrize("kind", ["mean", "sum"])
def test_what_a_layer_makes_of_losses(kind: str) -> None:
    """A mean of the losses of each row counts as one, a sum in full."""
    values = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)

    def trained(micro: int) -> np.ndarray:
        rows = 6 // micro
        graph = tg.MLCGraph()
        x, y = (tg.MLCTensor(shape=[rows, count]) for count in (2, 1))
        weights = tg.MLCTensor(data=np.ones((1, 2), np.float32))
        layer = tg.MLCFullyConnectedLayer(
            weights=weights,
            descriptor=tg.MLCConvolutionDescriptor(
                kernel_sizes=(1, 1), input_feature_channel_count=2, output_feature_channel_count=1
            ),
        )
        each = tg.MLCLossLayer.mean_squared_error(reduction_type="none")
        losses = graph.node(each, sources=[graph.node(layer, source=x), y])
        reduction = tg.MLCReductionLayer(reduction_type=kind, dimensions=[0, 1])
        graph.node(reduction, source=losses)
        training = tg.MLCTrainingGraph(
            graph_objects=[graph], optimizer=tg.MLCSGDOptimizer(learning_rate=0.1)
        )
        training.micro_batches = micro
        training.add_inputs({"x": x}, loss_labels={"y": y})
        training.compile(device="cpu")
        for first in range(0, 6, rows):
            part = values[first : first + rows]
            data = {"inputs_data": {"x": part[:, :2]}, "loss_labels_data": {"y": part[:, 2:]}}
            training.execute(**data, options="synchronous")
        training.synchronize_updates()
        return np.asarray(weights.data)

    np.testing.assert_allclose(trained(3), trained(1), rtol=1e-5)
