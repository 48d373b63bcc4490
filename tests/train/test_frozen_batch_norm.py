"""A batch norm under disable_update: a fixed scale and shift, also while others are trained."""

from typing import Any

import numpy as np
import pytest

import traingraph as tg

DEVICES = pytest.mark.parametrize("device", ["cpu", "reference"])
C = 3


def numbers(*shape: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


class Network:
    """convolution → norm → convolution. Running numbers that are far from a batch's."""

    def __init__(self, device: str, disabled: bool, use_twice: bool = False) -> None:
        self.x, self.y = tg.MLCTensor(shape=[4, C, 4, 4]), tg.MLCTensor(shape=[4, C, 4, 4])
        self.norm = tg.MLCBatchNormalizationLayer(
            feature_channel_count=C,
            mean=tg.MLCTensor(data=numbers(1, C, 1, 1, seed=1)),
            variance=tg.MLCTensor(data=numbers(1, C, 1, 1, seed=2) ** 2 + 0.5),
            beta=tg.MLCTensor(data=numbers(1, C, 1, 1, seed=3)),
            gamma=tg.MLCTensor(data=numbers(1, C, 1, 1, seed=4)),
            variance_epsilon=0.01,
            momentum=0.5,
        )
        self.first, self.last = (
            tg.MLCConvolutionLayer(
                weights=tg.MLCTensor(data=numbers(1, C * C, 1, 1, seed=seed)),
                biases=tg.MLCTensor(data=numbers(1, C, 1, 1, seed=seed + 1)),
                descriptor=tg.MLCConvolutionDescriptor(
                    kernel_sizes=(1, 1),
                    input_feature_channel_count=C,
                    output_feature_channel_count=C,
                ),
            )
            for seed in (5, 7)
        )
        self.graph = tg.MLCGraph()
        middle = self.graph.node(self.first, source=self.x)
        if use_twice:
            middle = self.graph.node(self.norm, source=middle)
        self.middle = self.graph.node(self.norm, sources=[middle], disable_update=disabled)
        self.graph.node(self.last, source=self.middle)
        self.training = tg.MLCTrainingGraph(
            graph_objects=[self.graph],
            loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="sum"),
            optimizer=tg.MLCSGDOptimizer(learning_rate=0.01),
        )
        self.training.add_inputs({"x": self.x}, loss_labels={"y": self.y})
        self.training.compile(device=device)

    def run(self, rows: int = 4, **keywords: Any) -> float:
        data = numbers(rows, C, 4, 4, seed=11)
        keywords.setdefault("options", "synchronous")
        return float(
            self.training.execute(
                inputs_data={"x": data},
                loss_labels_data={"y": numbers(rows, C, 4, 4, seed=12)},
                batch_size=rows,
                **keywords,
            ).result
        )

    def state(self) -> dict[str, np.ndarray]:
        return {
            name: a
            for name, a in self.training.state().items()
            if not name.startswith(("optimizer.", "state."))
        }


def of_norm(state: dict[str, np.ndarray]) -> dict[str, bytes]:
    return {n: a.tobytes() for n, a in state.items() if "BatchNormalization" in n}


@DEVICES
@pytest.mark.parametrize("use_twice", [False, True])
@pytest.mark.parametrize("rows", [4, 1])
def test_everything_of_it_stays_and_is_used(device: str, use_twice: bool, rows: int) -> None:
    network = Network(device, disabled=True, use_twice=use_twice)
    before = network.state()
    loss = network.run(rows, options="synchronous|forward_for_inference")
    # The loss of a training step is that of inference: it normalizes by the running numbers.
    assert network.run(rows) == pytest.approx(loss, rel=1e-5)
    network.run(4)
    after = network.state()
    assert len(of_norm(before)) == 4
    assert of_norm(after) == of_norm(before)
    assert not np.array_equal(after["1.Convolution.weights"], before["1.Convolution.weights"])


@DEVICES
def test_the_gradient_passes_through_a_fixed_scale(device: str) -> None:
    """dx = dy · gamma / √(variance + ε), found from one step of plain SGD."""
    network = Network(device, disabled=True)
    state = network.state()

    def values(name: str) -> np.ndarray:
        return state[name].reshape(C, -1).astype(np.float64)

    x = numbers(4, C, 4, 4, seed=11).transpose(1, 0, 2, 3).reshape(C, -1).astype(np.float64)
    y = numbers(4, C, 4, 4, seed=12).transpose(1, 0, 2, 3).reshape(C, -1).astype(np.float64)
    norm = "2.BatchNormalization."
    scale = values(norm + "gamma") / np.sqrt(values(norm + "variance") + 0.01)
    w1, w2 = values("1.Convolution.weights"), values("3.Convolution.weights")
    hidden = w1 @ x + values("1.Convolution.biases")
    normal = (hidden - values(norm + "mean")) * scale + values(norm + "beta")
    gradient = 2 * (w2 @ normal + values("3.Convolution.biases") - y)
    hidden_gradient = (w2.T @ gradient) * scale
    network.run()
    after = network.state()
    np.testing.assert_allclose(
        after["1.Convolution.weights"].reshape(C, C), w1 - 0.01 * hidden_gradient @ x.T, rtol=2e-4
    )
    np.testing.assert_allclose(
        after["3.Convolution.weights"].reshape(C, C), w2 - 0.01 * gradient @ normal.T, rtol=2e-4
    )


@DEVICES
def test_flags_of_gamma_and_beta_freeze_these_alone(device: str) -> None:
    network = Network(device, disabled=False)
    network.norm.beta_parameter.is_updatable = False
    network.norm.gamma_parameter.is_updatable = False
    before = network.state()
    assert network.run() != pytest.approx(
        network.run(options="synchronous|forward_for_inference"), rel=1e-3
    )
    after = network.state()
    for name in ("beta", "gamma"):
        name = f"2.BatchNormalization.{name}"
        np.testing.assert_array_equal(before[name], after[name])
    for name in ("mean", "variance"):
        name = f"2.BatchNormalization.{name}"
        assert not np.array_equal(before[name], after[name])


@DEVICES
def test_it_may_be_the_last_layer_and_nothing_else_may_move(device: str) -> None:
    """Gradient of a frozen layer's source alone, in micro-batches, over two axes."""
    x, y = tg.MLCTensor(shape=[4, C]), tg.MLCTensor(shape=[4, C])
    offset = tg.MLCTensor(data=np.zeros((4, C), np.float32))
    norm = tg.MLCBatchNormalizationLayer(feature_channel_count=C, variance_epsilon=0.0)
    graph = tg.MLCGraph()
    source = graph.node(tg.MLCArithmeticLayer(operation="add"), sources=[x, offset])
    graph.node(norm, sources=[source], disable_update=True)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="sum"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=0.25),
    )
    training.add_inputs({"x": x}, loss_labels={"y": y})
    training.set_training_tensor_parameters([tg.MLCTensorParameter(tensor=offset)])
    training.micro_batches = 2
    training.compile(device=device)
    data = numbers(4, C, seed=1), numbers(4, C, seed=2)
    for _ in range(2):
        training.execute(inputs_data={"x": data[0]}, loss_labels_data={"y": data[1]})
    training.synchronize_updates()
    np.testing.assert_allclose(offset.data, -0.25 * 2 * 2 * (data[0] - data[1]), rtol=1e-5)
    np.testing.assert_array_equal(norm.mean.data.ravel(), np.zeros(C))
    np.testing.assert_array_equal(norm.variance.data.ravel(), np.ones(C))
