"""Dropout: masks by seed, step and position, the same on every backend, and their gradient."""

import numpy as np
import pytest

import traingraph as tg
from harness import Case, checks, empty, everywhere, node, tensor


def layer(rate, seed=7):
    return lambda: tg.MLCDropoutLayer(rate=rate, seed=seed)


CASES = [
    Case("rate 0", layer(0.0), lambda x: x, [(4, 3)], rows=True),
    Case("an image, rate 0", layer(0.0), lambda x: x, [(2, 3, 2, 2)], rows=True),
]

test_forward, test_gradient, test_backends, test_same_bits, test_batch = checks(CASES)


class Training:
    """sum((dropout(x) - 0)²) over a trainable x; forward passes count from 1."""

    def __init__(self, x, rate, seed=7, device="reference", dtype="float64", learning_rate=1.0):
        graph = tg.MLCGraph()
        self.x = tensor(x, dtype)
        self.before = np.array(x, dtype)
        self.out = graph.node(tg.MLCDropoutLayer(rate=rate, seed=seed), source=self.x)
        self.labels = np.zeros(x.shape, dtype)
        self.graph = tg.MLCTrainingGraph(
            graph_objects=[graph],
            loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="sum"),
            optimizer=tg.MLCSGDOptimizer(learning_rate=learning_rate),
        )
        self.graph.set_training_tensor_parameters([tg.MLCTensorParameter(tensor=self.x)])
        self.graph.add_inputs({}, loss_labels={"labels": empty(x.shape, dtype)})
        self.graph.add_outputs({"out": self.out})
        self.graph.compile(device=device)

    def step(self, options="synchronous"):
        """What the layer gave."""
        out = np.empty(self.before.shape, self.before.dtype)
        self.graph.execute(
            inputs_data={},
            loss_labels_data={"labels": self.labels},
            outputs_data={"out": out},
            options=options,
        )
        return out

    def gradient(self):
        self.graph.synchronize_updates()
        return self.before - self.x.data


@everywhere
def test_inference_is_the_identity(device):
    graph = tg.MLCGraph()
    x = empty((4, 3), "float32")
    graph.node(tg.MLCDropoutLayer(rate=0.5, seed=1), source=x)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    inference.compile(device=device)
    data = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    found = inference.execute(inputs_data={"x": data}, options="synchronous").result
    np.testing.assert_array_equal(found, data)


@everywhere
def test_forward_for_inference_is_the_identity(device):
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    training = Training(x, 0.5, device=device, dtype="float32")
    out = training.step(
        tg.MLCExecutionOptions.SYNCHRONOUS | tg.MLCExecutionOptions.FORWARD_FOR_INFERENCE
    )
    np.testing.assert_array_equal(out, x)


@everywhere
@pytest.mark.parametrize("rate", [0.1, 0.5, 0.8])
def test_survivors_are_scaled_and_alone_get_a_gradient(device, rate):
    x = np.random.default_rng(1).uniform(1, 2, (64, 33)).astype(np.float32)
    training = Training(x, rate, device=device, dtype="float32")
    out = training.step()
    kept = out != 0
    np.testing.assert_allclose(out[kept], (x / (1 - rate))[kept], rtol=1e-6)
    assert abs(kept.mean() - (1 - rate)) < 4 * np.sqrt(rate * (1 - rate) / x.size)
    expected = np.where(kept, 2 * x / (1 - rate) ** 2, 0)
    np.testing.assert_allclose(training.gradient(), expected, rtol=1e-5, atol=0)


def test_gradient_in_float64():
    x = np.random.default_rng(2).uniform(1, 2, (8, 5))
    training = Training(x, 0.25)
    kept = training.step() != 0
    expected = np.where(kept, 2 * x / 0.75**2, 0)
    np.testing.assert_allclose(training.gradient(), expected, rtol=1e-12)


@everywhere
def test_each_step_has_a_mask_of_its_own(device):
    x = np.ones((50, 40), np.float32)

    def masks(seed):
        training = Training(x, 0.5, seed, device, "float32", learning_rate=0.0)
        return [training.step() != 0 for _ in range(3)]

    first, again, other = masks(7), masks(7), masks(8)
    np.testing.assert_array_equal(first, again)
    for a, b in [(0, 1), (1, 2), (0, 2)]:
        assert 0.45 < (first[a] != first[b]).mean() < 0.55  # four standard errors
    assert 0.45 < (first[0] != other[0]).mean() < 0.55


@pytest.mark.parametrize("device", ["cpu"])
def test_masks_are_the_same_on_every_backend(device):
    x = np.ones((5, 3, 7, 6), np.float32)
    found = [Training(x, 0.3, 11, b, "float32").step() for b in ("reference", device)]
    np.testing.assert_array_equal(found[0], found[1])


def test_seed_0_follows_the_platform_and_the_position():
    before = tg.MLCPlatform.get_rng_seed()
    x = np.ones((40, 40), np.float32)
    try:
        tg.MLCPlatform.set_rng_seed_to(3)
        first, again = Training(x, 0.5, 0).step(), Training(x, 0.5, 0).step()
        tg.MLCPlatform.set_rng_seed_to(4)
        other = Training(x, 0.5, 0).step()
    finally:
        tg.MLCPlatform.set_rng_seed_to(before or 0)
    np.testing.assert_array_equal(first, again)
    assert (first != other).mean() > 0.45  # four standard errors

    graph = tg.MLCGraph()
    t = tensor(x, "float32")
    outs = [graph.node(tg.MLCDropoutLayer(rate=0.5, seed=0), source=t) for _ in range(2)]
    both = graph.concatenate(outs, dimension=1)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="none"),
    )
    label = empty(both.descriptor.shape, "float32")
    training.add_inputs({}, loss_labels={"label": label})
    training.compile(device="reference")
    loss = training.execute(
        inputs_data={},
        loss_labels_data={"label": np.zeros((40, 80), np.float32)},
        options="synchronous",
    ).result
    assert (loss[:, :40] != loss[:, 40:]).mean() > 0.45


def test_wrong_arguments():
    for rate in (-0.1, 1.0, 1.5, float("nan")):
        with pytest.raises(ValueError, match="rate of at least 0 and below 1"):
            tg.MLCDropoutLayer(rate=rate, seed=0)
    with pytest.raises(ValueError, match="expected 1 source but got 2"):
        node(layer(0.5)(), (2, 3), (2, 3))


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.parametrize("shared", [False, True])
def test_every_application_draws_its_own_mask(device, seed, shared):
    """Two layers with one seed, or one layer twice, over the same source."""
    graph, x = tg.MLCGraph(), tg.MLCTensor(shape=[4, 64])
    layers = [tg.MLCDropoutLayer(rate=0.5, seed=seed) for _ in range(2)]
    results = [graph.node(layers[0 if shared else k], source=x) for k in range(2)]
    training = tg.MLCTrainingGraph(graph_objects=[graph])
    training.add_inputs({"x": x})
    training.add_outputs({"a": results[0], "b": results[1]})
    training.compile(device=device)
    got = {name: np.empty((4, 64), np.float32) for name in "ab"}
    masks = []
    for _ in range(2):
        training.execute(inputs_data={"x": np.ones((4, 64), np.float32)}, outputs_data=got,
                         options="synchronous")  # fmt: skip
        masks += [(array > 0).tobytes() for array in got.values()]
    assert len(set(masks)) == 4
