"""What updates change and what they leave: frozen layers, trained inputs, other batch sizes."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
from linear_regression import LABELS, POINTS, LinearRegression

import traingraph as tg

BATCH = 4
DEVICES = pytest.mark.parametrize("device", ["cpu", "reference"])


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def convolution(inputs: int, outputs: int, seed: int, label: str) -> tg.MLCConvolutionLayer:
    layer = tg.MLCConvolutionLayer(
        weights=tg.MLCTensor(data=numbers(1, inputs * outputs, 3, 3, seed=seed)),
        biases=tg.MLCTensor(data=numbers(1, outputs, 1, 1, seed=seed + 1)),
        descriptor=tg.MLCConvolutionDescriptor(
            kernel_sizes=(3, 3),
            input_feature_channel_count=inputs,
            output_feature_channel_count=outputs,
        ),
    )
    layer.label = label
    layer.weights.label = f"{label} weights"
    layer.biases.label = f"{label} biases"
    return layer


class Network:
    """first → norm → middle → last, of which some are frozen one way or the other."""

    def __init__(self, device: str, frozen: str = "", how: str = "parameter") -> None:
        self.x = tg.MLCTensor(shape=[BATCH, 2, 8, 8])
        self.y = tg.MLCTensor(shape=[BATCH, 2, 8, 8])
        self.norm = tg.MLCBatchNormalizationLayer(feature_channel_count=3)
        self.norm.label = "norm"
        for name in ("mean", "variance", "beta", "gamma"):
            getattr(self.norm, name).label = f"norm {name}"
        self.layers = {
            "first": convolution(2, 3, 1, "first"),
            "norm": self.norm,
            "middle": convolution(3, 3, 3, "middle"),
            "last": convolution(3, 2, 5, "last"),
        }
        graph = tg.MLCGraph()
        result = self.x
        for name, layer in self.layers.items():
            disable = name in frozen.split() and how == "layer"
            result = graph.node(layer, sources=[result], disable_update=disable)
        for name in frozen.split():
            if how == "parameter":
                for parameter in self.parameters(name):
                    parameter.is_updatable = False
        self.training = tg.MLCTrainingGraph(
            graph_objects=[graph],
            loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
            optimizer=tg.MLCAdamOptimizer(learning_rate=0.1),
        )
        self.training.add_inputs({"x": self.x}, loss_labels={"y": self.y})
        self.training.compile(device=device)

    def parameters(self, name: str) -> list[tg.MLCTensorParameter]:
        layer = self.layers[name]
        if layer is self.norm:
            return [layer.beta_parameter, layer.gamma_parameter]
        return [layer.weights_parameter, layer.biases_parameter]

    def step(self) -> None:
        self.training.execute(
            inputs_data={"x": numbers(BATCH, 2, 8, 8, seed=7)},
            loss_labels_data={"y": numbers(BATCH, 2, 8, 8, seed=8)},
            options="synchronous",
        )

    def changed(self) -> set[str]:
        """Labels of the tensors that a step changes."""
        named = self.training.named_parameters()
        before = {t.label: t.data.copy() for t in named.values()}
        self.step()
        self.training.synchronize_updates()
        return {t.label for t in named.values() if not np.array_equal(t.data, before[t.label])}

    def ops(self, phase: str) -> list[str]:
        text = self.training.compiled_description()
        (section,) = re.findall(rf"^{phase}:\n((?:  .*\n)*)", text, re.MULTILINE)
        return section.splitlines()

    def updates(self) -> list[str]:
        """One per parameter. Before it its gradient may be brought into its layout, which depends
        on the processor.
        """
        return [op for op in self.ops("update") if " = reorder(" not in op]

    def entries(self, kind: str) -> list[str]:
        return [e.name for e in self.training.memory_plan().entries if e.kind == kind]


EVERYTHING = {
    f"{layer} {what}" for layer in ("first", "middle", "last") for what in ("weights", "biases")
} | {"norm beta", "norm gamma"}
RUNNING = {"norm mean", "norm variance"}


@DEVICES
def test_nothing_frozen(device: str) -> None:
    """What the tests below would see if a frozen layer cost something."""
    network = Network(device)
    for label in ("first", "norm", "middle", "last"):
        assert any(op.endswith(f"'{label}'") for op in network.ops("gradient")), label
    assert set(network.entries("gradient")) == {f"gradient of {name}" for name in EVERYTHING}
    assert len(network.updates()) == len(EVERYTHING)
    moments = [name for name in network.entries("persistent") if name.endswith("_moment")]
    assert len(moments) == 2 * len(EVERYTHING)
    assert network.changed() == EVERYTHING | RUNNING


@DEVICES
@pytest.mark.parametrize("how", ["parameter", "layer"])
def test_frozen_layers_before_the_trained_ones_cost_nothing(device: str, how: str) -> None:
    free, network = Network(device), Network(device, "first norm middle", how)
    gradient = network.ops("gradient")
    assert gradient
    for label in ("first", "norm", "middle"):
        assert not any(f"'{label}'" in op for op in gradient), gradient
    assert set(network.entries("gradient")) == {
        "gradient of last weights",
        "gradient of last biases",
    }
    assert len(network.updates()) == 2
    moments = [name for name in network.entries("persistent") if name.endswith("_moment")]
    assert len(moments) == 4
    # Nothing that they compute is kept for a gradient, but the source of the trained layer.
    saved = network.entries("saved")
    assert not any("'first'" in name or "'norm'" in name for name in saved), saved
    assert len(saved) < len(free.entries("saved"))
    plans = [each.training.memory_plan() for each in (network, free)]
    assert plans[0].arena_bytes < plans[1].arena_bytes
    assert plans[0].persistent_bytes < plans[1].persistent_bytes
    assert network.training.device_memory_size < free.training.device_memory_size
    # A layer that is frozen as a whole keeps its running numbers, too.
    moved = set() if how == "layer" else RUNNING
    assert network.changed() == {"last weights", "last biases"} | moved


@DEVICES
@pytest.mark.parametrize("how", ["parameter", "layer"])
def test_a_frozen_layer_in_between_lets_the_gradient_through(device: str, how: str) -> None:
    network = Network(device, "middle", how)
    kinds = [op.split(" = ")[1].split("(")[0] for op in network.ops("gradient") if "'middle'" in op]
    assert any("convolution" in kind for kind in kinds)
    assert not any("weights" in kind for kind in kinds), kinds
    assert "gradient of middle weights" not in network.entries("gradient")
    assert "gradient of middle biases" not in network.entries("gradient")
    assert network.changed() == (EVERYTHING - {"middle weights", "middle biases"}) | RUNNING
    # The others' updates are those of the network in which nothing is frozen.
    free = Network(device)
    free.step()
    free.training.synchronize_updates()
    for name in ("first", "last"):
        np.testing.assert_allclose(
            network.layers[name].weights.data, free.layers[name].weights.data, rtol=1e-5
        )
    network.training.bind_and_write_data(
        {"x": numbers(BATCH, 2, 8, 8), "y": numbers(BATCH, 2, 8, 8)},
        for_inputs={"x": network.x, "y": network.y},
    )
    network.training.execute_forward()
    network.training.execute_gradient().wait()
    with pytest.raises(ValueError, match="frozen"):
        network.training.gradient_data(
            for_parameter=network.layers["middle"].weights, layer=network.layers["middle"]
        )


@DEVICES
def test_one_parameter_of_a_layer(device: str) -> None:
    network = Network(device)
    network.layers["first"].weights_parameter.is_updatable = False
    network.training.compile(device=device)
    ops = [op for op in network.ops("gradient") if "'first'" in op]
    assert ops
    assert not any("weights" in op for op in ops)
    assert network.changed() == (EVERYTHING - {"first weights"}) | RUNNING
    # Moments come and go with the flag, and keep their values.
    before = network.layers["last"].weights.optimizer_data[0]
    network.layers["first"].weights_parameter.is_updatable = True
    network.training.compile(device=device)
    np.testing.assert_array_equal(network.layers["last"].weights.optimizer_data[0], before)
    assert network.changed() == EVERYTHING | RUNNING


# --- trained inputs ------------------------------------------------------------------------------


def offset(device: str, trained: bool = True, declared: bool = False) -> tuple:
    """y = x + z with a mean squared error; z is an input that nobody feeds."""
    x, y = tg.MLCTensor(shape=[2, 3]), tg.MLCTensor(shape=[2, 3])
    z = tg.MLCTensor(data=np.ones((2, 3), np.float32))
    z.label = "z"
    graph = tg.MLCGraph()
    graph.node(tg.MLCArithmeticLayer(operation="add"), sources=[x, z])
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="sum"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=0.25, momentum_scale=0.5),
    )
    training.add_inputs({"x": x} | ({"z": z} if declared else {}), loss_labels={"y": y})
    parameter = tg.MLCTensorParameter(tensor=z)
    parameter.is_updatable = trained
    training.set_training_tensor_parameters([parameter])
    return training, z


@DEVICES
def test_input_tensors_are_trained(device: str) -> None:
    training, z = offset(device)
    training.compile(device=device)
    data = {"inputs_data": {"x": np.zeros((2, 3), np.float32)}}
    data["loss_labels_data"] = {"y": np.full((2, 3), 3, np.float32)}
    value, velocity = 1.0, 0.0
    for _ in range(5):
        training.execute(options="synchronous", **data)
        velocity = 0.5 * velocity + 0.25 * 2 * (value - 3)
        value -= velocity
        training.synchronize_updates()
        np.testing.assert_allclose(z.data, np.full((2, 3), value), rtol=1e-5)
        np.testing.assert_allclose(z.optimizer_data[0], velocity, rtol=1e-5, atol=1e-6)
    state = training.state()
    np.testing.assert_array_equal(state["tensor.z"], z.data)
    assert "optimizer.tensor.z.momentum" in state


@DEVICES
def test_a_frozen_input_is_a_constant(device: str) -> None:
    training, z = offset(device, trained=False)
    training.compile(device=device)
    zeros = np.zeros((2, 3), np.float32)
    training.execute(inputs_data={"x": zeros}, loss_labels_data={"y": zeros}, options="synchronous")
    training.synchronize_updates()
    np.testing.assert_array_equal(z.data, np.ones((2, 3), np.float32))
    assert z.optimizer_data == []
    assert "gradient" not in {entry.kind for entry in training.memory_plan().entries}
    assert "update:" not in training.compiled_description()


def test_what_cannot_be_trained_is_refused() -> None:
    training, _ = offset("cpu", declared=True)
    with pytest.raises(ValueError, match=r"tensor 'z' .*declared by add_inputs"):
        training.compile(device="cpu")
    training, z = offset("cpu")
    unused = tg.MLCTensor(shape=[1], fill_with_data=0.0)
    unused.label = "unused"
    training.set_training_tensor_parameters([tg.MLCTensorParameter(tensor=unused)])
    with pytest.raises(ValueError, match=r"tensor 'unused' .*no layer reads"):
        training.compile(device="cpu")
    training.set_training_tensor_parameters([tg.MLCTensorParameter(tensor=z)])
    assert training.compile(device="cpu") is True


# --- batches of other sizes ----------------------------------------------------------------------

ROWS = [[0, 1, 2, 3], [1], [2, 3], [0, 1, 2, 3], [3], [0, 2], [1, 2, 3], [0, 1, 2, 3]]


@pytest.mark.parametrize(
    ("device", "dtype", "bound"), [("reference", "float64", 1e-10), ("cpu", "float32", 1e-5)]
)
def test_sizes_share_weights_and_optimizer_state(device: str, dtype: str, bound: float) -> None:
    optimizer = tg.MLCSGDOptimizer(learning_rate=0.05, momentum_scale=0.9)
    network = LinearRegression(optimizer, device, dtype)
    values, velocity = np.zeros(2), np.zeros(2)
    # Settings are float32.
    rate, momentum = float(np.float32(0.05)), float(np.float32(0.9))
    for rows in ROWS:
        x, y = POINTS[rows], LABELS[rows]
        error = x * values[0] + values[1] - y
        assert network.step(rows) == pytest.approx((error**2).mean(), rel=10 * bound)
        gradient = np.array([(2 * error * x).mean(), (2 * error).mean()])
        velocity = momentum * velocity + rate * gradient
        values = values - velocity
        np.testing.assert_allclose(network.parameters(), values, rtol=bound)
        (first,) = network.layer.weights.optimizer_data
        assert first.item() == pytest.approx(velocity[0], rel=10 * bound)
    assert network.training.state()["state.time_step"] == len(ROWS) + 1


SIZES = [8, 4, 8, 2, 4, 2, 8, 5]
COUNTING = f"""
import sys
import numpy as np
import traingraph as tg

x, y = tg.MLCTensor(shape=[8, 6]), tg.MLCTensor(shape=[8], data_type="int64")
graph = tg.MLCGraph()
graph.node(
    tg.MLCFullyConnectedLayer(
        descriptor=tg.MLCConvolutionDescriptor(
            kernel_sizes=(1, 1), input_feature_channel_count=6, output_feature_channel_count=3
        )
    ),
    source=x,
)
training = tg.MLCTrainingGraph(
    graph_objects=[graph],
    loss_layer=tg.MLCLossLayer.softmax_cross_entropy(reduction_type="mean"),
    optimizer=tg.MLCAdamOptimizer(learning_rate=0.1),
)
training.add_inputs({{"x": x}}, loss_labels={{"y": y}})
training.compile(device="cpu")
for n in {SIZES}:
    print("size", n, file=sys.stderr, flush=True)
    training.execute(
        inputs_data={{"x": np.ones((n, 6), np.float32)}},
        loss_labels_data={{"y": np.zeros(n, np.int64)}},
        batch_size=n,
        options="synchronous",
    )
"""


def test_a_size_is_planned_once() -> None:
    """Each compilation says that the CPU backend has no kernel that views integer labels."""
    done = subprocess.run(
        [sys.executable, "-c", COUNTING],
        capture_output=True,
        text=True,
        env={**os.environ, "TRAINGRAPH_VERBOSE": "dispatch", "PYTHONPATH": ":".join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    first, *parts = re.split(r"^size \d+\n", done.stderr, flags=re.MULTILINE)
    assert first.count("refuses") > 0, "nothing is refused any more: count something else"
    seen = {8}
    for size, part in zip(SIZES, parts, strict=True):
        assert (part.count("refuses") > 0) == (size not in seen), (size, part)
        seen.add(size)


def test_a_checkpoint_knows_no_batch_size() -> None:
    def steps(network: LinearRegression, batches: list) -> None:
        for rows in batches:
            network.step(rows)

    def make() -> LinearRegression:
        return LinearRegression(tg.MLCAdamOptimizer(learning_rate=0.1), "cpu", "float32")

    one, two = make(), make()
    steps(one, ROWS)
    steps(two, ROWS[:3])
    three = make()
    three.training.load_state(two.training.state())
    steps(three, ROWS[3:])
    assert three.parameters() == one.parameters()
