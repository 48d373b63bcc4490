"""Batch normalization: training, inference, running statistics and own parameters."""

import numpy as np
import pytest

import traingraph as tg
from harness import Case, Inference, checks, empty, everywhere, node, tensor

MEAN = np.array([0.25, -1.5, 0.75, 2.0] * 5)
VARIANCE = np.array([0.5, 2.0, 1.0, 4.0] * 5)


def per_channel(values, x):
    return np.reshape(values, (1, -1) + (1,) * (x.ndim - 2))


def normalized(x, mean, variance, epsilon):
    # The layer holds its epsilon in float32.
    deviation = np.sqrt(per_channel(variance, x) + float(np.float32(epsilon)))
    return (x - per_channel(mean, x)) / deviation


def batch_statistics(x):
    axes = (0, *range(2, x.ndim))
    return x.mean(axes), x.var(axes)


def statistics(values, channels, dtype):
    return tensor(values[:channels].reshape(1, channels, 1, 1), dtype)


def normalization(name, source, gamma=True, beta=True, epsilon=1e-5, parameter_shape=None, **more):
    """A case over a source (N, C, …) with running statistics MEAN and VARIANCE."""
    channels = source[1]

    def build(graph, sources, parameters):
        kind = sources[0].descriptor.data_type.name.lower()
        left = list(parameters)
        layer = tg.MLCBatchNormalizationLayer(
            feature_channel_count=channels,
            mean=statistics(MEAN, channels, kind),
            variance=statistics(VARIANCE, channels, kind),
            gamma=left.pop(0) if gamma else None,
            beta=left.pop(0) if beta else None,
            variance_epsilon=epsilon,
        )
        return graph.node(layer, sources=sources)

    def scaled(z, parameters):
        left = list(parameters)
        if gamma:
            z = z * per_channel(left.pop(0), z)
        return z + per_channel(left.pop(0), z) if beta else z

    def expected(x, *parameters):
        mean, variance = MEAN[:channels], VARIANCE[:channels]
        return scaled(normalized(x, mean, variance, epsilon), parameters)

    def expected_training(x, *parameters):
        return scaled(normalized(x, *batch_statistics(x), epsilon), parameters)

    parameters = [parameter_shape or (1, channels, 1, 1)] * (gamma + beta)
    return Case(
        name,
        None,
        expected,
        [source],
        parameters,
        build=build,
        expected_training=expected_training,
        rows=True,
        **more,
    )


CASES = [
    normalization("images", (3, 4, 3, 5)),
    normalization("one channel", (4, 1, 2, 3)),
    normalization("one pixel", (5, 3, 1, 1)),
    normalization("features", (6, 4)),
    normalization("sequences", (3, 4, 5)),
    normalization("without gamma", (3, 2, 3, 2), gamma=False),
    normalization("without beta", (3, 2, 3, 2), beta=False),
    normalization("without gamma and beta", (3, 2, 3, 2), gamma=False, beta=False),
    normalization("flat parameters", (3, 4, 2, 2), parameter_shape=(4,)),
    normalization("large epsilon", (3, 2, 3, 3), epsilon=0.5),
    normalization("part of a block of channels", (2, 17, 3, 3)),
    normalization("whole blocks of channels", (2, 16, 2, 3)),
]

test_forward, test_gradient, test_backends, test_same_bits, test_batch = checks(CASES)

# Too many elements for finite differences; other backends are held against the reference.
LARGE = [
    normalization("the most elements of one block", (4, 3, 32, 32)),
    normalization("elements of several blocks", (9, 3, 23, 21)),
    normalization("elements of several blocks, in packs", (5, 2, 36, 28)),
]

test_large_backends, test_large_same_bits, test_large_batch = checks(LARGE)[2:]


def test_values_of_inference():
    layer = tg.MLCBatchNormalizationLayer(
        feature_channel_count=1,
        mean=tensor([[[[1.0]]]], "float32"),
        variance=tensor([[[[4.0]]]], "float32"),
        beta=tensor([[[[0.5]]]], "float32"),
        gamma=tensor([[[[2.0]]]], "float32"),
        variance_epsilon=1e-5,
    )
    x = np.array([[[[1.0, 2.0], [3.0, 4.0]]]])
    case = Case("measured", lambda: layer, None, [x])
    result = Inference(case, "reference", "float32")(x)
    np.testing.assert_allclose(np.ravel(result), [0.5, 1.499999, 2.499998, 3.499996], rtol=1e-6)


def trained(layer, x, device, steps, batch_size=0):
    """Runs training steps over a batch; the layer's running mean and variance."""
    graph = tg.MLCGraph()
    source, label = empty(x.shape, "float32"), empty(x.shape, "float32")
    graph.node(layer, sources=[source])
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=0.0),
    )
    training.add_inputs({"x": source}, loss_labels={"label": label})
    training.compile(device=device)
    rows = x[:batch_size] if batch_size else x
    for _ in range(steps):
        training.execute(
            inputs_data={"x": rows.astype("float32")},
            loss_labels_data={"label": np.zeros_like(rows, "float32")},
            batch_size=batch_size,
            options="synchronous",
        )
    training.synchronize_updates()
    for held in (layer.mean, layer.variance):
        held.synchronize_data()
    return np.ravel(layer.mean.data), np.ravel(layer.variance.data)


@everywhere
@pytest.mark.parametrize("rows", [0, 3])
def test_running_statistics(device, rows):
    """running = momentum * running + (1 - momentum) * batch, biased, over the rows that ran."""
    x = np.random.default_rng(3).normal(2, 3, (5, 4, 3, 2))
    layer = tg.MLCBatchNormalizationLayer(
        feature_channel_count=4,
        mean=statistics(MEAN, 4, "float32"),
        variance=statistics(VARIANCE, 4, "float32"),
        momentum=0.75,
    )
    found = trained(layer, x, device, 3, rows)
    batch = batch_statistics(x[:rows] if rows else x)
    for got, first, last in zip(found, (MEAN[:4], VARIANCE[:4]), batch, strict=True):
        np.testing.assert_allclose(got, 0.75**3 * first + (1 - 0.75**3) * last, rtol=1e-5)


@everywhere
def test_the_variance_of_numbers_far_from_zero(device):
    x = 1e3 + np.random.default_rng(4).uniform(-1, 1, (4, 2, 8, 8))
    layer = tg.MLCBatchNormalizationLayer(feature_channel_count=2, momentum=0.0)
    found = trained(layer, x, device, 1)
    # Rounding x to float32 moves it by 3e-5 at most.
    np.testing.assert_allclose(found[1], batch_statistics(x)[1], rtol=1e-3)


def test_own_parameters():
    layer = tg.MLCBatchNormalizationLayer(feature_channel_count=3)
    for held, value in [(layer.mean, 0), (layer.variance, 1), (layer.beta, 0), (layer.gamma, 1)]:
        np.testing.assert_array_equal(held.data, np.full((1, 3, 1, 1), value))
    assert layer.momentum == np.float32(0.99)
    assert layer.variance_epsilon == np.float32(1e-5)


def layer_with(channels=3, **fields):
    ones = tensor(np.ones((1, 3, 1, 1)), "float32")
    return tg.MLCBatchNormalizationLayer(
        feature_channel_count=channels, **{"mean": ones, "variance": ones, **fields}
    )


def test_wrong_arguments():
    two = tensor(np.ones((1, 2, 1, 1)), "float32")
    for name in ("mean", "variance", "beta", "gamma"):
        with pytest.raises(ValueError, match=rf"{name} with 3 elements.* but got \(1, 2, 1, 1\)"):
            layer_with(**{name: two})
    for fields, text in [
        ({"channels": 0}, "1 channel or more but got 0"),
        ({"variance_epsilon": -1.0}, "epsilon of 0 or more but got -1"),
        ({"momentum": 1.5}, "momentum from 0 to 1 but got 1.5"),
    ]:
        with pytest.raises(ValueError, match=r"\[BatchNormalization\] expected .*" + text):
            layer_with(**fields)


def test_wrong_shapes():
    for shape in [(2, 4, 3, 3), (3,), (2, 2)]:
        with pytest.raises(ValueError, match=r"source \(N, 3, …\) but got .* at layer"):
            node(layer_with(), shape)
    with pytest.raises(ValueError, match="expected 1 source but got 2"):
        node(layer_with(), (2, 3), (2, 3))


@everywhere
def test_running_statistics_that_another_graph_holds_in_another_shape(device):
    """The first graph over a tensor settles in which shape it is held."""
    mean, variance = (
        tensor(np.zeros((1, 3, 1, 1)), "float32"),
        tensor(np.ones((1, 3, 1, 1)), "float32"),
    )
    x = empty((4, 3, 1, 1), "float32")
    for statistics in (mean, variance):
        graph = tg.MLCGraph()
        graph.node(tg.MLCArithmeticLayer(operation="add"), sources=[x, statistics])
        inference = tg.MLCInferenceGraph(graph_objects=[graph])
        inference.add_inputs({"x": x})
        inference.compile(device=device)
    graph = tg.MLCGraph()
    layer = tg.MLCBatchNormalizationLayer(
        feature_channel_count=3, mean=mean, variance=variance, beta=None, gamma=None, momentum=0.5
    )
    result = graph.node(layer, source=x)
    label = empty(result.descriptor.shape, "float32")
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=0.1),
    )
    training.add_inputs({"x": x}, loss_labels={"label": label})
    training.compile(device=device)
    data = np.arange(12, dtype=np.float32).reshape(4, 3, 1, 1)
    training.execute(
        inputs_data={"x": data},
        loss_labels_data={"label": np.zeros_like(data)},
        options="synchronous",
    )
    for statistics, right in ((mean, data.mean(0) / 2), (variance, (1 + data.var(0)) / 2)):
        statistics.synchronize_data()
        np.testing.assert_allclose(np.asarray(statistics.data).ravel(), right.ravel(), rtol=1e-6)
