"""Loss scaling under MIXED_FLOAT16: skipped steps keep every bit, the scale moves by itself."""

from pathlib import Path

import numpy as np
import pytest

import traingraph as tg

START = 65536.0
OPTIMIZERS = {
    "sgd": lambda: tg.MLCSGDOptimizer(learning_rate=0.05, momentum_scale=0.9),
    "adam": lambda: tg.MLCAdamOptimizer(learning_rate=0.01),
    "rmsprop": lambda: tg.MLCRMSPropOptimizer(
        descriptor=tg.MLCOptimizerDescriptor(
            learning_rate=0.01,
            applies_gradient_clipping=True,
            gradient_clipping_type="by_global_norm",
        )
    ),
}


def dense(inputs, outputs, seed):
    weights = np.random.default_rng(seed).normal(size=(outputs, inputs)).astype(np.float32) * 0.3
    weights[0, 0] = -0.0  # has bits of its own to keep
    return tg.MLCFullyConnectedLayer(
        weights=tg.MLCTensor(data=weights),
        biases=tg.MLCTensor(data=np.full(outputs, -0.0, np.float32)),
        descriptor=tg.MLCConvolutionDescriptor(
            kernel_sizes=(1, 1),
            input_feature_channel_count=inputs,
            output_feature_channel_count=outputs,
        ),
    )


class Network:
    def __init__(self, optimizer="adam", precision="mixed_float16", micro=1, device="reference"):
        self.x = tg.MLCTensor(shape=[4, 6])
        self.y = tg.MLCTensor(shape=[4, 3])
        self.graph = tg.MLCGraph()
        self.layers = [dense(6, 8, 1), tg.MLCActivationLayer.relu(), dense(8, 3, 2)]
        self.result = tg.sequential(self.graph, self.x, self.layers)
        self.training = tg.MLCTrainingGraph(
            graph_objects=[self.graph],
            loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
            optimizer=OPTIMIZERS[optimizer]() if optimizer else None,
        )
        self.training.add_inputs({"x": self.x}, loss_labels={"y": self.y})
        self.training.micro_batches = micro
        if precision is not None:
            self.training.compile(device=device, precision=precision)

    def step(self, k, factor=1.0):
        """One execution; large labels make gradients overflow float16, factor 0 makes them 0."""
        rng = np.random.default_rng(k)
        return self.training.execute(
            inputs_data={"x": (rng.normal(size=(4, 6)) * (factor != 0)).astype(np.float32)},
            loss_labels_data={"y": (factor * rng.normal(size=(4, 3))).astype(np.float32)},
            options="synchronous",
        ).result

    def set_scale(self, scale, steps=0):
        state = self.training.state()
        state["state.loss_scale"][0] = scale
        state["state.good_steps"][0] = steps
        self.training.load_state(state)

    def forward(self, x, y):
        self.training.bind_and_write_data(
            {"x": x.astype(np.float32), "y": y.astype(np.float32)},
            for_inputs={"x": self.x, "y": self.y},
        )
        self.training.execute_forward(options="synchronous")

    def forward_and_gradient(self, x, y):
        self.forward(x, y)
        self.training.execute_gradient(options="synchronous")

    def first_gradient(self):
        layer = self.layers[0]
        return self.training.gradient_data(for_parameter=layer.weights, layer=layer).copy()

    def numbers(self):
        """What updates change."""
        return {k: v for k, v in self.training.state().items() if not k.startswith("state.")}

    def steps_since(self):
        return int(self.training.state()["state.good_steps"][0])


def bits(numbers):
    return {name: value.tobytes() for name, value in numbers.items()}


@pytest.mark.parametrize("device", ["reference", "cpu"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_an_overflow_skips_the_step_bit_for_bit_and_halves_the_scale(optimizer, device):
    network = Network(optimizer, device=device)
    assert network.training.loss_scale == START
    network.step(0)
    network.step(1)
    assert network.steps_since() == 2
    before = network.numbers()
    loss = network.step(2, factor=1e4)
    assert np.isfinite(loss)
    assert bits(network.numbers()) == bits(before)
    assert network.training.loss_scale == START / 2
    assert network.steps_since() == 0
    network.step(3)
    after = network.numbers()
    assert all(after[name].tobytes() != value.tobytes() for name, value in before.items())
    assert all(np.isfinite(value).all() for value in after.values())
    assert network.training.loss_scale == START / 2
    assert network.steps_since() == 1


def test_minus_zero_is_kept_too():
    network = Network("sgd")
    network.step(0, factor=1e4)
    assert network.training.loss_scale == START / 2
    weights = network.layers[0].weights
    network.training.synchronize_updates()
    assert weights.data[0, 0] == 0
    assert np.signbit(weights.data[0, 0])


def test_steps_go_on_until_the_scale_fits():
    network = Network("sgd")
    for _ in range(40):
        network.step(5, factor=3e3)
        if network.steps_since():
            break
    assert 1 <= network.training.loss_scale < START
    assert network.steps_since() == 1


def test_the_scale_stays_within_its_limits():
    network = Network("sgd")
    for scale, factor, expected in ((1.0, 1e38, 1.0), (2.0**24, 0, 2.0**24)):
        network.set_scale(scale, 1999)
        network.step(0, factor)
        assert network.training.loss_scale == expected
        assert network.steps_since() == 0


def test_two_thousand_good_steps_double_it():
    network = Network("sgd")
    network.set_scale(128, 1998)
    network.step(0)
    assert (network.training.loss_scale, network.steps_since()) == (128, 1999)
    network.step(1)
    assert (network.training.loss_scale, network.steps_since()) == (256, 0)
    network.step(2)
    assert (network.training.loss_scale, network.steps_since()) == (256, 1)


def gradients(precision, scale=None, micro=1):
    """Of the first layer's weights: what is read, which is not scaled."""
    network = Network("sgd", precision, micro)
    if scale is not None:
        network.set_scale(scale)
    rng = np.random.default_rng(9)
    for _ in range(micro):
        network.forward_and_gradient(rng.normal(size=(4, 6)), rng.normal(size=(4, 3)))
    return network.first_gradient()


@pytest.mark.parametrize("micro", [1, 3])
def test_gradients_are_read_without_the_scale(micro):
    exact = gradients("float32", micro=micro)
    got = gradients("mixed_float16", micro=micro)
    np.testing.assert_allclose(got, exact, rtol=0, atol=2.0**-8 * np.abs(exact).max())
    # A power of two costs no bits, as long as nothing leaves float16's range.
    assert gradients("mixed_float16", 1024, micro).tobytes() == got.tobytes()


def test_small_gradients_survive():
    """Labels so near that float16 would round the gradients in between to zero."""
    network = Network("sgd")
    x = np.random.default_rng(1).normal(size=(4, 6)).astype(np.float32)
    zeros = np.zeros((4, 3), np.float32)
    network.forward_and_gradient(x, zeros)
    y = np.empty((4, 3), np.float32)
    network.result.copy_data_from_device_memory(y, synchronize_with_device=False)
    network.forward_and_gradient(x, y + np.float32(1e-7))
    got = np.abs(network.first_gradient())
    assert 0 < got.max() < 2.0**-24


def test_micro_batches_skip_as_one_step():
    network = Network("adam", micro=3)
    for k in range(3):
        network.step(k)
    assert network.steps_since() == 1
    before = network.numbers()
    for k, factor in enumerate((1, 1e4, 1)):
        network.step(k, factor)
    assert bits(network.numbers()) == bits(before)
    assert network.training.loss_scale == START / 2
    for k in range(3):
        network.step(k)
    assert bits(network.numbers()) != bits(before)


def test_user_gradients_are_scaled():
    def weights_after(precision):
        network = Network("sgd", precision)
        training = network.training
        slot = training.allocate_user_gradient(network.result)
        if training.loss_scale is not None:
            network.set_scale(256)
        rng = np.random.default_rng(4)
        network.forward(rng.normal(size=(4, 6)), rng.normal(size=(4, 3)))
        gradient = {"g": rng.normal(size=(4, 3)).astype(np.float32)}
        training.bind_and_write_data(gradient, for_inputs={"g": slot})
        training.execute_gradient(options="synchronous")
        training.execute_optimizer_update(options="synchronous")
        return network.numbers(), network

    exact, _ = weights_after("float32")
    got, network = weights_after("mixed_float16")
    for name, value in exact.items():
        np.testing.assert_allclose(got[name], value, rtol=0, atol=2.0**-8 * np.abs(value).max())
    assert network.steps_since() == 1


@pytest.mark.parametrize("scale", [256, START])
def test_a_user_gradient_may_overflow_too(scale):
    network = Network("sgd")
    slot = network.training.allocate_user_gradient(network.result)
    network.set_scale(scale)
    network.forward(np.ones((4, 6)), np.zeros((4, 3)))
    ones = {"g": np.full((4, 3), 100, np.float32)}
    network.training.bind_and_write_data(ones, for_inputs={"g": slot})
    network.training.execute_gradient(options="synchronous")
    network.training.execute_optimizer_update(options="synchronous")
    assert network.training.loss_scale == (scale if scale == 256 else START / 2)


@pytest.mark.parametrize("loads_first", [False, True])
def test_a_checkpoint_goes_on_bit_for_bit(tmp_path: Path, loads_first: bool):
    straight = Network()
    for k in range(3):
        straight.step(k, 1e4 if k == 1 else 1)
    path = str(tmp_path / "half.safetensors")
    straight.training.save(path)
    for k in range(3, 6):
        straight.step(k, 1e4 if k == 4 else 1)
    resumed = Network(precision=None if loads_first else "mixed_float16")
    if not loads_first:
        resumed.step(20)
    resumed.training.load(path)
    if loads_first:
        resumed.training.compile(device="reference", precision="mixed_float16")
    assert resumed.training.loss_scale == START / 2
    assert resumed.steps_since() == 1
    for k in range(3, 6):
        resumed.step(k, 1e4 if k == 4 else 1)
    assert bits(resumed.training.state()) == bits(straight.training.state())
    assert resumed.training.loss_scale == START / 4


def test_checkpoints_of_other_precisions_fit():
    mixed, exact = Network(), Network(precision="float32")
    mixed.step(0, 1e4)
    exact.step(0)
    assert "state.loss_scale" not in exact.training.state()
    exact.training.load_state(mixed.training.state())
    assert exact.training.loss_scale is None
    exact.training.compile(device="reference", precision="mixed_float16")
    assert exact.training.loss_scale == START / 2
    mixed.training.load_state(Network(precision="float32").training.state())
    assert mixed.training.loss_scale == START
    state = mixed.training.state()
    state["state.loss_scale"] = np.zeros(2, np.float32)
    with pytest.raises(ValueError, match=r"state.loss_scale.*expected shape \(1,\)"):
        mixed.training.load_state(state)


@pytest.mark.parametrize("precision", ["float32", "tf32", "mixed_bfloat16"])
def test_other_precisions_have_no_scale(precision):
    network = Network(precision=precision)
    network.step(0)
    assert network.training.loss_scale is None
    assert "loss scale" not in network.training.compiled_description()


def test_without_an_optimizer_the_scale_stays():
    network = Network(None)
    network.step(0, 1e4)
    assert network.training.loss_scale == START
