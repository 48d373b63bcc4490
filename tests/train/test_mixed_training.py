"""Whole networks in mixed precision: their losses beside those of float32."""

from types import SimpleNamespace

import numpy as np
import pytest

import traingraph as tg
from small_layers import convolution, dense, halving

STEPS = 30
# Of the loss, relative: each step's update differs by a rounding of its gradient, and these add up.
BOUNDS = {"mixed_bfloat16": 2.0**-5, "mixed_float16": 2.0**-8}


def lenet():
    return (8, 1, 8, 8), [
        convolution(1, 4),
        tg.MLCBatchNormalizationLayer(feature_channel_count=4),
        tg.MLCActivationLayer.relu(),
        halving("average"),
        convolution(4, 8),
        tg.MLCActivationLayer.tanh(),
        tg.MLCReshapeLayer(shape=[8, 128]),
        dense(128, 16),
        tg.MLCActivationLayer.relu(),
        dense(16, 4),
    ]


def mlp():
    return (16, 10), [
        dense(10, 32),
        tg.MLCActivationLayer.relu(),
        dense(32, 16),
        tg.MLCActivationLayer.gelu(),
        dense(16, 4),
    ]


def losses(make, precision, optimizer, steps=STEPS, device="reference"):
    tg.MLCPlatform.set_rng_seed_to(2)
    shape, layers = make()
    graph = tg.MLCGraph()
    x = tg.MLCTensor(shape=list(shape))
    tg.sequential(graph, x, layers)
    labels = tg.MLCTensor(shape=[shape[0]], data_type="int64")
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.softmax_cross_entropy(reduction_type="mean"),
        optimizer=optimizer(),
    )
    training.add_inputs({"x": x}, loss_labels={"y": labels})
    training.compile(device=device, precision=precision)
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 4, (4, shape[0]))
    data = rng.normal(size=(4, *shape)).astype(np.float32)
    data += classes.reshape(4, shape[0], *[1] * (len(shape) - 1)).astype(np.float32) / 2
    result = []
    for k in range(steps):
        handle = training.execute(
            inputs_data={"x": data[k % 4]},
            loss_labels_data={"y": classes[k % 4]},
            options="synchronous",
        )
        result.append(float(handle.result))
    return np.array(result), SimpleNamespace(
        training=training,
        feed=lambda k: {"x": data[k], "y": classes[k]},
        tensors={"x": x, "y": labels},
    )


def sgd():
    return tg.MLCSGDOptimizer(learning_rate=0.02, momentum_scale=0.9)


def adam():
    return tg.MLCAdamOptimizer(learning_rate=0.005)


@pytest.mark.parametrize("precision", BOUNDS)
@pytest.mark.parametrize("optimizer", [sgd, adam])
@pytest.mark.parametrize("make", [mlp, lenet])
@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_thirty_steps_lose_as_float32_does(device, make, optimizer, precision):
    exact, _ = losses(make, "float32", optimizer)
    got, _ = losses(make, precision, optimizer, device=device)
    assert exact[-4:].mean() < 0.7 * exact[:4].mean()
    assert (got != exact).any()
    # A gradient that is rounding alone (of a bias before batch normalization) moves its parameter
    # by Adam's whole rate. Sources that differ by 4e-6 move the reference's losses by 0.0095 too;
    # where sums are of float32, as on Apple's GPU, the given sources already do.
    slack = 4 if device == "metal" else 1
    bound = slack * BOUNDS[precision] * exact.max()
    np.testing.assert_allclose(got, exact, rtol=0, atol=bound)


@pytest.mark.parametrize("precision", BOUNDS)
@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_the_same_bits_twice(device, precision):
    first, _ = losses(lenet, precision, adam, 3, device)
    second, _ = losses(lenet, precision, adam, 3, device)
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize("precision", BOUNDS)
@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_separate_calls_give_the_bits_of_the_step(device, precision):
    whole, trained = losses(mlp, precision, adam, 2, device)
    _, half = losses(mlp, precision, adam, 1, device)
    again = half.training
    again.bind_and_write_data(half.feed(1), for_inputs=half.tensors)
    loss = again.execute_forward(options="synchronous").result
    again.execute_gradient(options="synchronous")
    again.execute_optimizer_update(options="synchronous")
    assert float(loss) == whole[1]
    state = again.state()
    for name, value in trained.training.state().items():
        assert state[name].tobytes() == value.tobytes(), name


@pytest.mark.parametrize("precision", BOUNDS)
def test_checked_runs_see_what_is_not_finite(precision):
    _, trained = losses(mlp, precision, sgd, 1)
    with pytest.raises(tg.NumericError, match="NaN"):
        trained.training.execute(
            inputs_data={"x": np.full((16, 10), np.nan, np.float32)},
            loss_labels_data={"y": np.zeros(16, np.int64)},
            options="synchronous|check_numerics",
        )


def test_half_the_bytes_between_layers():
    """Activations of 16 bits: what forward keeps for the gradient shrinks."""
    kept = {}
    for precision in ("float32", "mixed_bfloat16"):
        _, trained = losses(lenet, precision, sgd, 1)
        plan = trained.training.memory_plan()
        kept[precision] = sum(e.bytes for e in plan.entries if e.kind == "saved")
    assert kept["mixed_bfloat16"] < 0.8 * kept["float32"]
