"""Normalizations by the statistics of a sample: of groups, of channels, of the last axes."""

import numpy as np
import pytest
from random_graphs.layer import Layer, Text, need, same, single, written
from random_graphs.normalizing import normalized as with_rounding
from random_graphs.normalizing import scaled

import traingraph as tg
from harness import Case, Inference, checks, empty, everywhere, node, tensor

GROUPS = tg.MLCGroupNormalizationLayer
INSTANCES = tg.MLCInstanceNormalizationLayer
LAST = tg.MLCLayerNormalizationLayer
MEAN = np.array([0.25, -1.5, 0.75, 2.0] * 5)
VARIANCE = np.array([0.5, 2.0, 1.0, 4.0] * 5)


def rows_normalized(rows, epsilon):
    """Over the last axis. The layer holds its epsilon in float32."""
    centered = rows - rows.mean(-1, keepdims=True)
    variance = np.square(centered).mean(-1, keepdims=True)
    return centered / np.sqrt(variance + float(np.float32(epsilon)))


def per_channel(values, x):
    return np.reshape(values, (1, -1) + (1,) * (x.ndim - 2))


def case(
    name, source, make, unit, parameter, gamma=True, beta=True, unit_in_training=None, step=1e-6
):
    """`unit` is the source normalized; the parameters have `parameter` as their shape."""
    channels_first = unit is not None and len(parameter) != 0 and parameter[0] == 1

    def keywords(parameters):
        names = ["gamma"] * gamma + ["beta"] * beta
        return dict(zip(names, parameters, strict=True))

    def scaled(of):
        def expected(x, *parameters):
            given = {
                name: per_channel(p, x) if channels_first else p
                for name, p in keywords(parameters).items()
            }
            return of(x) * given.get("gamma", 1) + given.get("beta", 0)

        return expected

    def build(graph, sources, parameters):
        kind = sources[0].descriptor.data_type.name.lower()
        return graph.node(make(kind, **keywords(parameters)), sources=sources)

    return Case(
        name,
        None,
        scaled(unit),
        [source],
        [parameter] * (gamma + beta),
        build=build,
        expected_training=None if unit_in_training is None else scaled(unit_in_training),
        rows=True,
        step=step,
    )


def of_groups(name, source, groups, epsilon=1e-5, **more):
    channels = source[1]

    def make(kind, **parameters):
        return GROUPS(
            feature_channel_count=channels,
            group_count=groups,
            variance_epsilon=epsilon,
            **parameters,
        )

    def unit(x):
        return rows_normalized(x.reshape(len(x), groups, -1), epsilon).reshape(x.shape)

    return case(f"groups: {name}", source, make, unit, (1, channels, 1, 1), **more)


def statistics(values, channels, kind):
    return tensor(values[:channels].reshape(1, channels, 1, 1), kind)


def of_instances(name, source, running=False, epsilon=1e-5, **more):
    channels = source[1]

    def make(kind, **parameters):
        if running:
            parameters["mean"] = statistics(MEAN, channels, kind)
            parameters["variance"] = statistics(VARIANCE, channels, kind)
        return INSTANCES(feature_channel_count=channels, variance_epsilon=epsilon, **parameters)

    def unit(x):
        return rows_normalized(x.reshape(*x.shape[:2], -1), epsilon).reshape(x.shape)

    def by_running(x):
        deviation = np.sqrt(per_channel(VARIANCE[:channels], x) + float(np.float32(epsilon)))
        return (x - per_channel(MEAN[:channels], x)) / deviation

    if running:
        more["unit_in_training"] = unit
    shown = by_running if running else unit
    return case(f"instances: {name}", source, make, shown, (1, channels, 1, 1), **more)


def of_last_axes(name, source, axes, epsilon=1e-5, **more):
    shape = tuple(source[-axes:])

    def make(kind, **parameters):
        return LAST(normalized_shape=list(shape), variance_epsilon=epsilon, **parameters)

    def unit(x):
        return rows_normalized(x.reshape(*x.shape[: x.ndim - axes], -1), epsilon).reshape(x.shape)

    return case(f"last axes: {name}", source, make, unit, shape, **more)


CASES = [
    of_groups("images", (3, 4, 3, 5), 2),
    of_groups("all in one", (2, 6, 2, 2), 1),
    of_groups("features", (4, 6), 2),
    of_groups("sequences", (3, 8, 7), 4, gamma=False),
    of_groups("rows of 2", (3, 4), 2, epsilon=0.5),
    of_groups("longer rows", (2, 2, 9, 13), 2, beta=False, step=1e-5),
    of_groups("neither", (2, 4, 3, 3), 2, beta=False, gamma=False),
    of_groups("large epsilon", (2, 4, 3, 3), 4, epsilon=0.5),
    of_instances("images", (3, 4, 3, 5)),
    of_instances("running numbers", (3, 4, 3, 5), running=True),
    of_instances("running numbers of sequences", (4, 5, 6), running=True, gamma=False),
    of_instances("one channel", (2, 1, 17, 3), beta=False),
    of_instances("neither, by running numbers", (2, 3, 4, 2), True, beta=False, gamma=False),
    of_last_axes("one", (4, 3, 5), 1),
    of_last_axes("two", (3, 2, 4, 5), 2),
    of_last_axes("three", (3, 2, 4, 5), 3),
    of_last_axes("features", (5, 33), 1),
    of_last_axes("beyond a vector's width", (2, 3, 129), 1, gamma=False, step=1e-5),
    of_last_axes("one element of 4", (3, 1, 1, 4), 1, beta=False),
    of_last_axes("neither", (3, 7), 1, beta=False, gamma=False),
]

test_forward, test_gradient, test_backends, test_same_bits, test_batch = checks(CASES)


def made(kind, **more):
    """A layer over (N, 4, H, W) whose rows are one channel, and what it is called."""
    if kind == "groups":
        return GROUPS(feature_channel_count=4, group_count=4, **more)
    if kind == "instances":
        return INSTANCES(feature_channel_count=4, **more)
    return LAST(normalized_shape=[2, 2], **more)


KINDS = pytest.mark.parametrize("kind", ["groups", "instances", "last axes"])


@KINDS
@everywhere
def test_measured_values(kind, device):
    x = np.arange(1, 5).reshape(1, 1, 2, 2) * np.ones((1, 4, 1, 1))
    found = Inference(Case("", lambda: made(kind), None, [x]), device, "float32")(x)
    expected = np.tile([-1.341635, -0.4472118, 0.4472118, 1.341635], 4)
    np.testing.assert_allclose(found.ravel(), expected, rtol=1e-6)


def step(layer, x, device, dtype="float32", disable_update=False):
    """The result of a training step over a trained source, and what plain SGD moved it by."""
    graph = tg.MLCGraph()
    source = tensor(x, dtype)
    result = graph.node(layer, sources=[source], disable_update=disable_update)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="sum"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=1.0),
    )
    training.set_training_tensor_parameters([tg.MLCTensorParameter(tensor=source)])
    training.add_inputs({}, loss_labels={"y": empty(x.shape, dtype)})
    training.add_outputs({"result": result})
    training.compile(device=device)
    labels = np.random.default_rng(1).normal(size=x.shape).astype(dtype)
    training.execute(inputs_data={}, loss_labels_data={"y": labels}, options="synchronous")
    training.synchronize_updates()
    value = np.empty(x.shape, dtype)
    result.copy_data_from_device_memory(value)
    return value, x - np.array(source.data)


@KINDS
@everywhere
def test_rows_of_equal_numbers(kind, device):
    """Their variance is 0; the numbers are far from 0, and no rounding of a mean shows."""
    x = np.full((2, 4, 2, 2), 12345.678, np.float32)
    result, moved = step(made(kind), x, device)
    np.testing.assert_array_equal(result, 0)
    assert np.isfinite(moved).all()


@KINDS
@pytest.mark.parametrize("size", [1e15, 1e-15])
@everywhere
def test_large_and_small_numbers(kind, size, device):
    """Squares that float32 has not: results are those of numbers around 1."""
    x = np.random.default_rng(2).normal(size=(2, 4, 2, 2)).astype(np.float32)
    layer = made(kind, variance_epsilon=0.0)
    right = rows_normalized(x.astype(np.float64).reshape(2, 4, 4), 0).reshape(x.shape)
    case = Case("", lambda: layer, None, [x])
    found = Inference(case, device, "float32")(x * np.float32(size))
    np.testing.assert_allclose(found, right, rtol=4e-6)


@KINDS
@everywhere
def test_nan_stays_in_its_row(kind, device):
    x = np.random.default_rng(3).normal(size=(2, 4, 2, 2)).astype(np.float32)
    x[1, 2, 0, 1] = np.nan
    found = Inference(Case("", lambda: made(kind), None, [x]), device, "float32")(x)
    expected = np.zeros(x.shape, bool)
    expected[1, 2] = True
    np.testing.assert_array_equal(np.isnan(found), expected)


@everywhere
def test_rows_of_one_number(device):
    """What is left is beta, and no gradient."""
    x = np.random.default_rng(4).normal(size=(3, 4)).astype(np.float32)
    beta = tensor([[1.0, 2.0, 3.0, 4.0]], "float32")
    one = tensor([5.0], "float32")
    for layer, shape, left in [
        (INSTANCES(feature_channel_count=4, beta=beta), (3, 4), [[1, 2, 3, 4]] * 3),
        (LAST(normalized_shape=[1], beta=one), (12, 1), [[5]] * 12),
    ]:
        result, moved = step(layer, x.reshape(shape), device)
        np.testing.assert_array_equal(moved, 0)
        np.testing.assert_array_equal(result, left)


@everywhere
@pytest.mark.parametrize("frozen", [False, True])
def test_running_statistics(device, frozen):
    """They move by the mean over the samples; frozen ones are what training normalizes by."""
    x = np.random.default_rng(5).normal(2, 3, (5, 4, 3, 2)).astype(np.float32)
    layer = INSTANCES(
        feature_channel_count=4,
        mean=statistics(MEAN, 4, "float32"),
        variance=statistics(VARIANCE, 4, "float32"),
        momentum=0.75,
    )
    result, _ = step(layer, x, device, disable_update=frozen)
    rows = x.astype(np.float64).reshape(5, 4, -1)
    for held, before, now in [
        (layer.mean, MEAN[:4], rows.mean(-1).mean(0)),
        (layer.variance, VARIANCE[:4], rows.var(-1).mean(0)),
    ]:
        held.synchronize_data()
        expected = before if frozen else 0.75 * before + 0.25 * now
        np.testing.assert_allclose(np.ravel(held.data), expected, rtol=1e-5)
    if frozen:
        deviation = np.sqrt(per_channel(VARIANCE[:4], x) + 1e-5)
        expected = (x - per_channel(MEAN[:4], x)) / deviation
    else:
        expected = rows_normalized(rows, 1e-5).reshape(x.shape)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def torch_layer(torch, kind, epsilon):
    if kind == "groups":
        return torch.nn.GroupNorm(4, 4, epsilon)
    if kind == "instances":
        return torch.nn.InstanceNorm2d(4, epsilon, affine=True)
    return torch.nn.LayerNorm([2, 2], epsilon)


@KINDS
def test_as_pytorch(kind):
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(6).normal(size=(3, 4, 2, 2))
    shape = (2, 2) if kind == "last axes" else (4,)
    gamma, beta = np.random.default_rng(7).normal(size=(2, *shape))
    theirs = torch_layer(torch, kind, 1e-3).double()
    with torch.no_grad():
        theirs.weight.copy_(torch.from_numpy(gamma))
        theirs.bias.copy_(torch.from_numpy(beta))
    given = torch.from_numpy(x).requires_grad_()
    labels = torch.from_numpy(np.random.default_rng(1).normal(size=x.shape))
    expected = theirs(given)
    (expected - labels).square().sum().backward()
    layer = made(
        kind,
        gamma=tensor(gamma, "float64"),
        beta=tensor(beta, "float64"),
        variance_epsilon=1e-3,
    )
    result, moved = step(layer, x, "reference", "float64")
    np.testing.assert_allclose(result, expected.detach().numpy(), rtol=1e-6, atol=1e-9)
    right = given.grad.numpy()
    np.testing.assert_allclose(moved, right, rtol=1e-6, atol=1e-6 * np.abs(right).max())
    layer.gamma.synchronize_data()
    layer.beta.synchronize_data()
    for before, held, slope in [
        (gamma, layer.gamma, theirs.weight.grad),
        (beta, layer.beta, theirs.bias.grad),
    ]:
        np.testing.assert_allclose(before - held.data, slope.numpy(), rtol=1e-6)


def test_properties():
    layer = GROUPS(feature_channel_count=4, group_count=2)
    assert (layer.feature_channel_count, layer.group_count) == (4, 2)
    layers = [layer, INSTANCES(feature_channel_count=4), LAST(normalized_shape=[4])]
    for one in layers:
        assert one.variance_epsilon == np.float32(1e-5)
        parts = (one.beta, one.gamma, one.beta_parameter, one.gamma_parameter)
        assert parts == (None, None, None, None)
    assert layers[1].feature_channel_count == 4
    assert layers[1].momentum == np.float32(0.99)
    assert (layers[1].mean, layers[1].variance) == (None, None)
    assert layers[2].normalized_shape == [4]
    assert [one.label for one in layers] == ["GroupNorm", "InstanceNorm", "LayerNorm"]
    four = tensor(np.ones(4), "float32")
    for cls, more in [
        (GROUPS, {"feature_channel_count": 4, "group_count": 2}),
        (INSTANCES, {"feature_channel_count": 4, "momentum": 0.5}),
        (LAST, {"normalized_shape": [4]}),
    ]:
        one = cls(**more, beta=four, gamma=four, variance_epsilon=0.25)
        assert one.beta is four
        assert one.gamma is four
        assert one.beta_parameter.tensor is four
        assert one.gamma_parameter.is_updatable
        assert one.variance_epsilon == 0.25
    other = INSTANCES(feature_channel_count=4, mean=four, variance=four, momentum=0.5)
    assert other.mean is four
    assert other.variance is four
    assert other.momentum == 0.5


def test_a_frozen_gamma_stays():
    gamma = tensor(np.full((1, 4, 1, 1), 2.0), "float32")
    beta = tensor(np.zeros((1, 4, 1, 1)), "float32")
    layer = INSTANCES(feature_channel_count=4, gamma=gamma, beta=beta)
    layer.gamma_parameter.is_updatable = False
    step(layer, np.random.default_rng(8).normal(size=(2, 4, 3, 3)).astype(np.float32), "cpu")
    for one in (gamma, beta):
        one.synchronize_data()
    np.testing.assert_array_equal(gamma.data, 2)
    assert np.all(beta.data)


def test_wrong_arguments():
    two = tensor(np.ones(2), "float32")
    for cls, name, more in [
        (GROUPS, "GroupNorm", {"feature_channel_count": 4, "group_count": 2}),
        (INSTANCES, "InstanceNorm", {"feature_channel_count": 4}),
    ]:
        for role in ("beta", "gamma"):
            text = rf"\[{name}\] expected {role} with 4 elements.* but got \(2,?\)"
            with pytest.raises(tg.ShapeError, match=text):
                cls(**more, **{role: two})
        with pytest.raises(ValueError, match=rf"\[{name}\] expected 1 channel or more but got 0"):
            cls(**{**more, "feature_channel_count": 0})
        with pytest.raises(ValueError, match=rf"\[{name}\] .*epsilon of 0 or more but got -1"):
            cls(**more, variance_epsilon=-1.0)
    for groups in (0, 3, 8):
        with pytest.raises(ValueError, match=f"divides 4 channels but got {groups}"):
            GROUPS(feature_channel_count=4, group_count=groups)
    four = tensor(np.ones(4), "float32")
    with pytest.raises(tg.ShapeError, match="expected variance with 4 elements"):
        INSTANCES(feature_channel_count=4, mean=four, variance=two)
    with pytest.raises(ValueError, match="momentum from 0 to 1 but got 1"):
        INSTANCES(feature_channel_count=4, momentum=1.5)
    for shape in ([], [1, 2, 3, 4]):
        with pytest.raises(ValueError, match=r"\(W\), \(H, W\) or \(C, H, W\) but got"):
            LAST(normalized_shape=shape)
    with pytest.raises(ValueError, match=r"extents of 1 or more but got \(4, 0\)"):
        LAST(normalized_shape=[4, 0])
    image = tensor(np.ones((1, 4, 1, 1)), "float32")
    for role in ("beta", "gamma"):
        text = rf"\[LayerNorm\] expected {role} of the normalized shape \(4,?\) but got \(1, 4, 1"
        with pytest.raises(tg.ShapeError, match=text):
            LAST(normalized_shape=[4], **{role: image})


def test_wrong_shapes():
    for cls, more in [(GROUPS, {"group_count": 1}), (INSTANCES, {})]:
        for shape in [(2, 4, 3, 3), (3,), (2, 2)]:
            with pytest.raises(tg.ShapeError, match=r"source \(N, 3, …\) but got .* at layer"):
                node(cls(feature_channel_count=3, **more), shape)
        with pytest.raises(ValueError, match="expected 1 source but got 2"):
            node(cls(feature_channel_count=3, **more), (2, 3), (2, 3))
    for shape in [(2, 3), (3, 2, 3), (4,)]:
        with pytest.raises(tg.ShapeError, match=r"last axes are \(2, 4\) but got .* at layer"):
            node(LAST(normalized_shape=[2, 4]), shape)


# --- what the fuzz draws -------------------------------------------------------------------------


def draw_epsilon(drawing):
    return {"variance_epsilon": drawing.choice([1e-5, 1e-3, 0.1])}


def draw_of_channels(drawing, shape):
    need(len(shape) > 1)
    options = draw_epsilon(drawing)
    options["group_count"] = drawing.choice([g for g in range(1, 9) if shape[1] % g == 0])
    return {"options": options}


def draw_of_instances(drawing, shape):
    need(len(shape) > 2)
    options = draw_epsilon(drawing) | {"momentum": drawing.choice([0.5, 0.9])}
    options["running"] = drawing.choice([False, True])
    return {"options": options}


def draw_of_last_axes(drawing, shape):
    need(len(shape) > 1)
    return {"options": draw_epsilon(drawing) | {"axes": drawing.choice([1, 2, 3])}}


def channels_fit(options, shapes):
    need(1 < len(shapes[0]) <= 4 and shapes[0][1] % options.get("group_count", 1) == 0)
    return same(options, shapes)


def last_axes_fit(options, shapes):
    need(options["axes"] < len(shapes[0]) <= 4)
    return same(options, shapes)


def beta_and_gamma(options, shape):
    roles = {"beta": (shape, "normal", 0.5), "gamma": (shape, "near 1", 0.5)}
    return {role: what for role, what in roles.items() if role not in options.get("left_out", ())}


def channel_parameters(options, shapes):
    shape = [1, shapes[0][1], 1, 1]
    roles = beta_and_gamma(options, shape)
    if options.get("running"):
        roles |= {"mean": (shape, "zeros", 0.5), "variance": (shape, "ones", 0.5)}
    return roles


def last_axes_parameters(options, shapes):
    return beta_and_gamma(options, shapes[0][-options["axes"] :])


def text_of(name, **more):
    """The call, with what `more` computes of options and shapes."""

    def expression(options, shapes, names):
        kept = {k: v for k, v in options.items() if k not in ("running", "axes", "left_out")}
        computed = {key: of(options, shapes) for key, of in more.items()}
        tensors = {role: Text(variable) for role, variable in names.items()}
        return written(name, **computed, **tensors, **kept)

    return expression


def computed(t, x, rows, options, at, shape):
    unit, mean, variance = with_rounding(t, rows, (-1,), single(options["variance_epsilon"]), at)
    return scaled(unit.reshape(x.shape), at, shape), mean, variance


def compute_groups(t, options, sources, at):
    x = sources[0]
    shape = [1, -1] + [1] * (x.dim() - 2)
    rows = x.reshape(x.shape[0], options["group_count"], -1)
    return computed(t, x, rows, options, at, shape)[0]


def compute_instances(t, options, sources, at):
    x = sources[0]
    shape = [1, -1] + [1] * (x.dim() - 2)
    if options["running"] and at.frozen:
        mean, variance = at["mean"].reshape(shape), at["variance"].reshape(shape)
        unit = (x - mean) / t.sqrt(variance + single(options["variance_epsilon"]))
        return scaled(unit, at, shape)
    rows = x.reshape(x.shape[0], x.shape[1], -1)
    result, mean, variance = computed(t, x, rows, options, at, shape)
    if options["running"]:
        kept = single(options["momentum"])
        for role, new in (("mean", mean), ("variance", variance)):
            moved = kept * at[role].reshape(-1) + (1 - kept) * new.detach().mean(0).reshape(-1)
            at[role] = moved.reshape(at[role].shape)
    return result


def compute_last_axes(t, options, sources, at):
    x = sources[0]
    shape = x.shape[-options["axes"] :]
    rows = x.reshape(*x.shape[: x.dim() - options["axes"]], -1)
    return computed(t, x, rows, options, at, shape)[0]


def channels_of(options, shapes):
    return shapes[0][1]


DRAWN = {
    "MLCGroupNormalizationLayer": Layer(
        draw_of_channels,
        channels_fit,
        text_of("MLCGroupNormalizationLayer", feature_channel_count=channels_of),
        compute_groups,
        channel_parameters,
    ),
    "MLCInstanceNormalizationLayer": Layer(
        draw_of_instances,
        channels_fit,
        text_of("MLCInstanceNormalizationLayer", feature_channel_count=channels_of),
        compute_instances,
        channel_parameters,
        running=("mean", "variance"),
    ),
    "MLCLayerNormalizationLayer": Layer(
        draw_of_last_axes,
        last_axes_fit,
        text_of(
            "MLCLayerNormalizationLayer",
            normalized_shape=lambda options, shapes: list(shapes[0][-options["axes"] :]),
        ),
        compute_last_axes,
        last_axes_parameters,
    ),
}
