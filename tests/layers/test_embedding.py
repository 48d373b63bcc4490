"""Rows of a table by index."""

import numpy as np
import pytest
from random_graphs.layer import Layer, Text, need, written

import traingraph as tg
from harness import Case, checks, empty, everywhere, tensor

RNG = np.random.default_rng(4)
COUNT, DIMENSION = 7, 3


def layer(weights, count=COUNT, dimension=DIMENSION, **options):
    descriptor = tg.MLCEmbeddingDescriptor(
        embedding_count=count, embedding_dimension=dimension, **options
    )
    return tg.MLCEmbeddingLayer(descriptor=descriptor, weights=weights)


def normed(table, picks, maximum=None, order=2.0, padding=None):
    """The table as the layer leaves it."""
    table = table.copy()
    if padding is not None:
        table[padding] = 0
    if maximum is not None:
        for row in np.unique(picks):
            norm = np.linalg.norm(table[row], order)
            table[row] *= maximum / (norm + 1e-7) if norm > maximum else 1
    return table


def case(name, indices, count=COUNT, dimension=DIMENSION, **options):
    """Indices are data of the graph; what flows is the table."""
    indices = np.asarray(indices)

    def build(graph, _, parameters):
        (weights,) = parameters
        picks = tg.MLCTensor(data=indices)
        return graph.node(layer(weights, count, dimension, **options), source=picks)

    return Case(name, None, lambda w: w[indices], [], [(count, dimension)], build=build)


CASES = [
    case("one axis", [3, 0, 3]),
    case("two axes", RNG.integers(0, COUNT, (2, 5)).astype(np.int32)),
    case("three axes", RNG.integers(0, COUNT, (2, 1, 4))),
    case("wide rows", RNG.integers(0, 40, (3, 8)), 40, 65),
    case("one row", [[0], [0]], 1, 1),
]

test_forward, test_gradient, test_backends, test_same_bits, _ = checks(CASES)


class Trained:
    """A graph of one embedding over declared indices, trained on the squares of its results."""

    def __init__(
        self, weights, device="reference", shape=(2, 3), rate=0.5, optimizer=None, **options
    ):
        self.weights = weights
        self.indices = empty(shape, "int32")
        self.layer = layer(weights, **options)
        graph = tg.MLCGraph()
        self.result = graph.node(self.layer, source=self.indices)
        kind = weights.descriptor.data_type
        self.labels = empty(self.result.descriptor.shape, kind)
        self.training = tg.MLCTrainingGraph(
            graph_objects=[graph],
            loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="sum"),
            optimizer=optimizer or tg.MLCSGDOptimizer(learning_rate=rate),
        )
        self.training.add_inputs({"ids": self.indices}, loss_labels={"label": self.labels})
        self.training.compile(device=device)
        self.label = np.zeros(self.labels.descriptor.shape, kind.name.lower())

    def step(self, picks, options="synchronous"):
        return self.training.execute(
            inputs_data={"ids": np.asarray(picks, np.int32)},
            loss_labels_data={"label": self.label[: len(picks)]},
            batch_size=len(picks),
            options=options,
        )

    def forward(self, picks):
        self.training.bind_and_write_data(
            {"ids": np.int32(picks), "label": self.label},
            for_inputs={"ids": self.indices, "label": self.labels},
        )
        self.training.execute_forward(options="synchronous")

    def table(self):
        self.training.synchronize_updates()
        return np.array(self.weights.data)


def start():
    return RNG.normal(0, 1, (COUNT, DIMENSION))


OPTIONS = [
    {},
    {"padding_index": 2},
    {"scales_gradient_by_frequency": True},
    {"maximum_norm": 1.0},
    {"maximum_norm": 1.5, "p_norm": 1.0, "padding_index": 0},
    {"maximum_norm": 0.5, "p_norm": float("inf"), "scales_gradient_by_frequency": True},
    {"maximum_norm": 0.7, "p_norm": 3.5, "padding_index": 6, "scales_gradient_by_frequency": True},
]  # fmt: skip


@everywhere
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: ", ".join(o) or "plain")
def test_as_torch(options, dtype, device):
    torch = pytest.importorskip("torch")
    if dtype == "float64" and device == "metal":
        pytest.skip("no float64")
    before = start().astype(dtype)
    ours = Trained(tensor(before, dtype), device, **options)
    theirs = torch.tensor(before, requires_grad=True)
    if "padding_index" in options:
        with torch.no_grad():
            theirs[options["padding_index"]] = 0
    for _ in range(4):
        picks = RNG.integers(0, COUNT, (2, 3))
        found = torch.nn.functional.embedding(
            torch.tensor(picks), theirs, options.get("padding_index"), options.get("maximum_norm"),
            options.get("p_norm", 2.0), options.get("scales_gradient_by_frequency", False),
        )  # fmt: skip
        ours.label = RNG.normal(size=ours.label.shape).astype(dtype)
        loss = ((found - torch.tensor(ours.label)) ** 2).sum()
        (slope,) = torch.autograd.grad(loss, theirs)
        with torch.no_grad():
            theirs -= 0.5 * slope
        assert ours.step(picks).result == pytest.approx(loss.item(), rel=1e-5, abs=1e-6)
        bound = (
            {"rtol": 1e-12, "atol": 1e-14} if dtype == "float64" else {"rtol": 2e-5, "atol": 1e-6}
        )
        np.testing.assert_allclose(ours.table(), theirs.detach().numpy(), **bound)


@everywhere
@pytest.mark.parametrize("phases", [False, True])
def test_a_limit_and_an_update_of_one_table(device, phases):
    """The update is of the table that the forward pass has left."""
    before = np.float32([[3, 4, 0], [0, 0, 2], [0.1, 0, 0], *[[1, 1, 1]] * 4])
    net = Trained(tensor(before, "float32"), device, (1, 3), 0.25, maximum_norm=1.0)
    picks = [[0, 2, 0]]
    if phases:
        net.forward(picks)
        np.testing.assert_allclose(net.table()[0], [0.6, 0.8, 0], rtol=1e-6)
        net.training.execute_gradient(options="synchronous")
        net.training.execute_optimizer_update(options="synchronous")
    else:
        net.step(picks)
    right = before.copy()
    right[0] = [0.6, 0.8, 0]
    slopes = np.zeros_like(right)
    slopes[0], slopes[2] = 4 * right[0], 2 * right[2]
    np.testing.assert_allclose(net.table(), right - 0.25 * slopes, rtol=1e-6, atol=1e-7)


@everywhere
def test_inference_limits_the_table_too(device):
    weights = tensor([[3.0, 4.0], [30.0, 40.0]], "float32")
    picks = empty((2,), "int32")
    graph = tg.MLCGraph()
    graph.node(layer(weights, 2, 2, maximum_norm=1.0), source=picks)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"ids": picks})
    inference.compile(device=device)
    result = inference.execute(inputs_data={"ids": np.int32([0, 0])}, options="synchronous").result
    np.testing.assert_allclose(result, [[0.6, 0.8]] * 2, rtol=1e-6)
    weights.synchronize_data()
    np.testing.assert_allclose(weights.data, [[0.6, 0.8], [30, 40]], rtol=1e-6)


@everywhere
def test_a_table_that_another_graph_holds_in_another_shape(device):
    weights = tensor([[[[3.0]], [[4.0]]], [[[30.0]], [[40.0]]], [[[0.6]], [[0.8]]]], "float32")
    x = empty((1, 2, 1, 1), "float32")
    convolution = tg.MLCConvolutionDescriptor(
        kernel_sizes=(1, 1), input_feature_channel_count=2, output_feature_channel_count=3
    )
    graph = tg.MLCGraph()
    graph.node(tg.MLCConvolutionLayer(weights=weights, descriptor=convolution), source=x)
    scoring = tg.MLCInferenceGraph(graph_objects=[graph])
    scoring.add_inputs({"x": x})
    scoring.compile(device=device)
    picks = empty((2,), "int32")
    graph = tg.MLCGraph()
    graph.node(layer(weights, 3, 2, maximum_norm=1.0), source=picks)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"ids": picks})
    inference.compile(device=device)
    inference.execute(inputs_data={"ids": np.int32([0, 2])}, options="synchronous")
    ones = {"x": np.ones((1, 2, 1, 1), np.float32)}
    scores = scoring.execute(inputs_data=ones, options="synchronous").result
    np.testing.assert_allclose(scores.ravel(), [1.4, 70, 1.4], rtol=1e-6)


@everywhere
def test_a_frozen_layer_keeps_its_bits(device):
    before = start().astype(np.float32)
    weights, picks = tensor(before, "float32"), empty((2, 3), "int32")
    graph = tg.MLCGraph()
    graph.node(layer(weights, maximum_norm=0.5), sources=[picks], disable_update=True)
    training = tg.MLCTrainingGraph(graph_objects=[graph])
    training.add_inputs({"ids": picks})
    training.compile(device=device)
    ids = np.int32([[0, 1, 2], [2, 1, 0]])
    training.bind_and_write_data({"ids": ids}, for_inputs={"ids": picks})
    result = training.execute_forward(options="synchronous").result
    np.testing.assert_allclose(result, normed(before, ids, 0.5)[ids], rtol=1e-5)
    training.synchronize_updates()
    assert np.asarray(weights.data).tobytes() == before.tobytes()


@everywhere
def test_two_layers_over_one_table(device):
    """Both limit it, and their gradients are summed."""
    torch = pytest.importorskip("torch")
    before = start().astype(np.float32)
    weights = tensor(before, "float32")
    first, second = empty((2, 2), "int32"), empty((2, 2), "int64")
    graph = tg.MLCGraph()
    parts = [
        graph.node(layer(weights, maximum_norm=1.0), source=first),
        graph.node(layer(weights, maximum_norm=0.5), source=second),
    ]
    joined = graph.concatenate(parts, dimension=1)
    label = empty(joined.descriptor.shape, "float32")
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="sum"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=0.125),
    )
    training.add_inputs({"a": first, "b": second}, loss_labels={"label": label})
    training.compile(device=device)
    theirs = torch.tensor(before, requires_grad=True)
    for _ in range(3):
        a, b = RNG.integers(0, COUNT, (2, 2, 2))
        data = {"a": a.astype(np.int32), "b": b}
        zeros = {"label": np.zeros(label.descriptor.shape, np.float32)}
        training.execute(inputs_data=data, loss_labels_data=zeros, options="synchronous")
        # In place twice, of which autograd keeps no values.
        found = [
            torch.nn.functional.embedding(torch.tensor(k), theirs, max_norm=m)
            for k, m in ((a, 1.0), (b, 0.5))
        ]
        (slope,) = torch.autograd.grad((torch.cat(found, 1) ** 2).sum(), theirs)
        with torch.no_grad():
            theirs -= 0.125 * slope
        training.synchronize_updates()
        np.testing.assert_allclose(weights.data, theirs.detach(), rtol=1e-5, atol=1e-6)


def tied(device, maximum_norm, turned=False):
    """The table looks rows up, and scores the results."""
    weights = tensor(start(), "float32")
    picks = empty((4,), "int32")
    graph = tg.MLCGraph()
    x = tensor(np.ones((4, DIMENSION)), "float32")
    full = tg.MLCFullyConnectedLayer(
        weights=weights,
        descriptor=tg.MLCConvolutionDescriptor(
            kernel_sizes=(1, 1),
            input_feature_channel_count=DIMENSION,
            output_feature_channel_count=COUNT,
        ),
    )
    if turned:
        graph.node(full, source=x)
    rows = graph.node(layer(weights, maximum_norm=maximum_norm), source=picks)
    if not turned:
        graph.node(full, source=rows)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="sum"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=0.125),
    )
    label = empty((4, DIMENSION if turned else COUNT), "float32")
    training.add_inputs({"ids": picks}, loss_labels={"label": label})
    training.compile(device=device)
    return weights, training


@everywhere
@pytest.mark.parametrize("maximum_norm", [None, 0.5])
def test_a_tied_table(device, maximum_norm):
    weights, training = tied(device, maximum_norm)
    before = np.array(weights.data, np.float64)
    ids = np.array([1, 5, 1, 0])
    zeros = np.zeros((4, COUNT), np.float32)
    training.execute(
        inputs_data={"ids": ids.astype(np.int32)}, loss_labels_data={"label": zeros},
        options="synchronous",
    )  # fmt: skip
    table = normed(before, ids, maximum_norm)
    rows = table[ids]
    error = 2 * rows @ table.T
    slopes = error.T @ rows
    np.add.at(slopes, ids, error @ table)
    training.synchronize_updates()
    np.testing.assert_allclose(weights.data, table - 0.125 * slopes, rtol=1e-4, atol=1e-5)


def test_a_table_that_a_layer_before_reads_has_no_limit():
    with pytest.raises(
        ValueError, match=r"a tensor that no layer before reads.* at layer \d+ 'Emb"
    ):
        tied("cpu", 0.5, turned=True)


@everywhere
@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw", "rmsprop"])
def test_the_padding_row_stays(device, optimizer):
    """Under decay, momentum and a maximum norm."""
    numbers = {"learning_rate": 0.1, "regularization_type": "l2", "regularization_scale": 0.1}
    descriptor = tg.MLCOptimizerDescriptor(gradient_rescale=1, **numbers)
    made = {
        "sgd": lambda: tg.MLCSGDOptimizer(descriptor=descriptor, momentum_scale=0.9),
        "adam": lambda: tg.MLCAdamOptimizer(descriptor=descriptor),
        "adamw": lambda: tg.MLCAdamWOptimizer(descriptor=descriptor),
        "rmsprop": lambda: tg.MLCRMSPropOptimizer(descriptor=descriptor),
    }[optimizer]()
    weights = tensor(start(), "float32")
    net = Trained(weights, device, optimizer=made, padding_index=3, maximum_norm=2.0)
    net.label = np.ones_like(net.label)  # not what the row holds: it is pulled there
    for _ in range(4):
        net.step([[3, 0, 3], [1, 3, 3]])
    assert not net.table()[3].any()
    assert net.table()[0].any()


def test_the_layer_clears_the_padding_row():
    data = start().astype(np.float32)
    weights = tg.MLCTensor(data=data)
    layer(weights, padding_index=5)
    assert not np.asarray(weights.data)[5].any()
    assert np.asarray(weights.data)[[0, 1, 2, 3, 4, 6]].all()
    # Of memory that is not to be written the tensor has a copy.
    data = start().astype(np.float32)
    data.flags.writeable = False
    weights = tg.MLCTensor(data=data)
    layer(weights, padding_index=0)
    assert not np.asarray(weights.data)[0].any()
    assert data[0].all()
    layer(empty((COUNT, DIMENSION), "float32"), padding_index=0)  # without data


def test_a_row_that_a_graph_has_moved_is_cleared():
    """What the device has is newer than the host's copy."""
    net = Trained(tensor(start(), "float32"), "cpu", rate=0.25)
    net.step([[0, 1, 2], [3, 4, 5]])
    layer(net.weights, padding_index=1)
    after = np.array(net.weights.data)
    assert not after[1].any()
    assert after[0].any()
    net.step([[0, 0, 0], [0, 0, 0]])
    assert not net.table()[1].any()


@everywhere
def test_batches_of_fewer_rows(device):
    net = Trained(tensor(start(), "float32"), device, (4, 2), rate=0)
    table = net.table().astype(np.float64)
    for rows in (4, 1, 3):
        picks = RNG.integers(0, COUNT, (rows, 2))
        assert net.step(picks).result == pytest.approx((table[picks] ** 2).sum(), rel=1e-5)


@everywhere
def test_indices_outside(device):
    net = Trained(tensor(start(), "float32"), device)
    before = net.table().tobytes()
    for wrong in (-1, COUNT, 2**31 - 1):
        message = (
            rf"\[indices 'ids'\] expected an index from 0 to 6 but got {wrong} at \(1, 2\) "
            r"at layer \d+ 'Embedding'"
        )
        for options in ("synchronous", "none"):
            with pytest.raises(ValueError, match=message):
                net.step([[0, 1, 2], [3, 4, wrong]], options)
    assert net.table().tobytes() == before


@everywhere
@pytest.mark.parametrize("wrong", [-1, COUNT])
def test_computed_indices_outside(device, wrong):
    """Nobody can look at them before; memory is read nowhere else."""
    both = empty((2, 4), "int32")
    weights = tensor(start(), "float32")
    graph = tg.MLCGraph()
    _, ids = graph.split(both, split_count=2, dimension=1)
    ids.label = "right half"
    graph.node(layer(weights), source=ids)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"both": both})
    inference.compile(device=device)
    picks = np.int32([[99, -99, 1, 2], [5, 5, 3, 4]])
    for _ in range(2):
        found = inference.execute(inputs_data={"both": picks}, options="synchronous").result
        np.testing.assert_array_equal(found, np.asarray(weights.data)[picks[:, 2:]])
        bad = picks.copy()
        bad[1, 2] = wrong
        message = rf"'right half'\] .* 0 to 6 but got {wrong} at \(1, 0\) at layer \d+ 'Embedding'"
        with pytest.raises(ValueError, match=message):
            inference.execute(inputs_data={"both": bad}, options="synchronous")
        handle = inference.execute(inputs_data={"both": bad}, options="none")
        with pytest.raises(ValueError, match=message):
            handle.wait()


@everywhere
@pytest.mark.parametrize("wrong", [-1, COUNT])
def test_indices_in_the_devices_memory(device, wrong):
    """On a GPU the step itself looks at them, and its result says so."""
    both, ids = empty((4,), "int32"), empty((2,), "int32")
    graph = tg.MLCGraph()
    first, _ = graph.split(both, split_count=2, dimension=0)
    halves = tg.MLCInferenceGraph(graph_objects=[graph])
    halves.add_inputs({"both": both})
    halves.add_outputs({"first": first})
    halves.compile(device=device)
    weights = tensor(start(), "float32")
    graph = tg.MLCGraph()
    graph.node(layer(weights), source=ids)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"ids": ids})
    inference.compile(device=device)

    def run(picks, options):
        halves.execute(inputs_data={"both": np.int32([*picks, 0, 0])}, options="synchronous")
        data = {"ids": first.device_data()}
        return inference.execute(inputs_data=data, options=options)

    for options in ("synchronous", "none", "none"):
        found = run([2, 6], options).result
        np.testing.assert_array_equal(found, np.asarray(weights.data)[[2, 6]])
        message = rf"'ids'\] .* 0 to 6 but got {wrong} at \(1,?\) at layer \d+ 'Embedding'"
        with pytest.raises(ValueError, match=message):
            assert run([2, wrong], options).result


@everywhere
def test_indices_by_a_table_of_indices(device):
    """A gather of integers picks what an embedding looks up."""
    which, weights = empty((3,), "int64"), tensor(start(), "float32")
    table = tg.MLCTensor(data=np.int64([6, 0, 9, -5]))
    graph = tg.MLCGraph()
    ids = graph.gather(0, source=table, indices=which)
    graph.node(layer(weights), source=ids)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"which": which})
    inference.compile(device=device)

    def run(*picks):
        data = {"which": np.int64(picks)}
        return inference.execute(inputs_data=data, options="synchronous").result

    np.testing.assert_array_equal(run(1, 0, 1), np.asarray(weights.data)[[0, 6, 0]])
    with pytest.raises(ValueError, match=r"from 0 to 6 but got 9 at \(1,?\) at layer"):
        run(1, 2, 3)
    with pytest.raises(ValueError, match=r"'which'\] .* from 0 to 3 but got 4"):
        run(4, 0, 0)


def test_members():
    weights = tensor(start(), "float32")
    made = layer(weights, padding_index=1, maximum_norm=2.0, p_norm=3.0)
    assert made.weights is weights
    assert made.weights_parameter.tensor is weights
    d = made.descriptor
    assert (d.embedding_count, d.embedding_dimension) == (COUNT, DIMENSION)
    assert (d.padding_index, d.maximum_norm, d.p_norm) == (1, 2.0, 3.0)
    assert d.scales_gradient_by_frequency is False
    plain = tg.MLCEmbeddingDescriptor(embedding_count=2, embedding_dimension=5)
    assert plain.padding_index is None
    assert plain.maximum_norm is None
    assert plain.p_norm == 2
    assert plain.copy().embedding_dimension == 5
    none = tg.MLCEmbeddingDescriptor(
        embedding_count=2, embedding_dimension=5, padding_index=None, maximum_norm=None,
        p_norm=None, scales_gradient_by_frequency=True,
    )  # fmt: skip
    assert none.p_norm == 2
    assert none.scales_gradient_by_frequency
    assert made.label == "Embedding"


@everywhere
def test_gradient_data(device):
    net = Trained(tensor(np.ones((COUNT, DIMENSION)), "float32"), device)
    net.forward([[0, 0, 1], [1, 0, 6]])
    net.training.execute_gradient(options="synchronous")
    found = net.training.gradient_data(for_parameter=net.weights, layer=net.layer)
    times = np.float32([3, 2, 0, 0, 0, 0, 1])
    np.testing.assert_array_equal(found, 2 * times[:, None] * np.ones(DIMENSION, np.float32))


@everywhere
@pytest.mark.parametrize("padding", [0, 3, COUNT - 1])
@pytest.mark.parametrize("by_frequency", [False, True])
@pytest.mark.parametrize("shape", [(2, 3), (40, 30)])
def test_no_gradient_reaches_the_padding_row(shape, by_frequency, padding, device):
    """Wherever its picks are, and whatever the others get."""
    options = {"padding_index": padding, "scales_gradient_by_frequency": by_frequency}
    net = Trained(tensor(np.ones((COUNT, DIMENSION)), "float32"), device, shape, **options)
    picks = np.random.default_rng(1).integers(0, COUNT, shape)
    picks[0, 0] = picks[-1, -1] = padding
    net.label = np.full_like(net.label, -1)
    net.forward(picks)
    net.training.execute_gradient(options="synchronous")
    found = net.training.gradient_data(for_parameter=net.weights, layer=net.layer)
    times = np.bincount(picks.ravel(), minlength=COUNT)
    right = 4.0 * (np.minimum(times, 1) if by_frequency else times)
    right[padding] = 0
    np.testing.assert_array_equal(found, np.tile(right[:, None], DIMENSION))


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"embedding_count": 0}, "embedding_count to be 1 or more but got 0"),
        ({"embedding_dimension": -1}, "embedding_dimension to be 1 or more but got -1"),
        ({"padding_index": -1}, "padding_index to be 0 or more but got -1"),
        ({"padding_index": 2}, "padding_index to be below the embedding_count of 2 but got 2"),
        ({"maximum_norm": -0.5}, "maximum_norm to be 0 or more but got -0.5"),
        ({"maximum_norm": float("nan")}, "maximum_norm to be 0 or more but got nan"),
        ({"p_norm": 0.0}, "p_norm to be above 0 but got 0"),
        ({"p_norm": -2.0}, "p_norm to be above 0 but got -2"),
    ],
)
def test_wrong_numbers(numbers, message):
    with pytest.raises(ValueError, match=message):
        tg.MLCEmbeddingDescriptor(**{"embedding_count": 2, "embedding_dimension": 3, **numbers})


def test_wrong_tensors():
    with pytest.raises(ValueError, match=r"weights of 21 elements, \(7, 3\), but got \(7, 4\)"):
        layer(empty((7, 4), "float32"))
    graph = tg.MLCGraph()
    with pytest.raises(TypeError, match=r"Embedding\.weights', int32 at layer"):
        graph.node(layer(empty((7, 3), "int32")), source=empty((2,), "int32"))
    with pytest.raises(TypeError, match=r"indices of int32 or int64 but got float32 at layer \d+"):
        graph.node(layer(tensor(start(), "float32")), source=empty((2,), "float32"))
    with pytest.raises(ValueError, match=r"at most 3 axes but got \(1, 2, 1, 2\) at layer \d+"):
        graph.node(layer(tensor(start(), "float32")), source=empty((1, 2, 1, 2), "int32"))
    ids = empty((2,), "int32")
    with pytest.raises(ValueError, match="expected 1 source but got 2"):
        graph.node(layer(tensor(start(), "float32")), sources=[ids, ids])


# --- how the fuzz draws it


def draw(drawing, shape):
    need(drawing.batch)
    count = drawing.choice([1, 2, 5, 9])
    options = {"count": count, "dimension": drawing.choice([1, 3, 4, 8])}
    if drawing.chance(0.3):
        options["padding"] = drawing.random.randrange(count)
    if drawing.chance(0.4):
        options["maximum"] = drawing.choice([0.5, 1.0])
        options["order"] = drawing.choice([1.0, 2.0, 3.0])
    options["by_frequency"] = drawing.chance(0.3)
    kind = {"kind": "index", "below": count, "type": drawing.choice(["int32", "int64"])}
    picks = [drawing.rows, *[drawing.choice([1, 2, 3]) for _ in range(drawing.choice([0, 1, 2]))]]
    return {"options": options, "sources": [drawing.value("input", picks, **kind)]}


def results(options, shapes):
    need(len(shapes[0]) < 4)
    return [[*shapes[0], options["dimension"]]]


def roles(options, shapes):
    return {"weights": ([options["count"], options["dimension"]], "normal", 1.0)}


def expression(options, shapes, names):
    descriptor = written(
        "MLCEmbeddingDescriptor",
        embedding_count=options["count"],
        embedding_dimension=options["dimension"],
        padding_index=options.get("padding"),
        maximum_norm=options.get("maximum"),
        p_norm=Text(f"float('{options.get('order', 2.0)}')"),
        scales_gradient_by_frequency=options["by_frequency"],
    )
    return written("MLCEmbeddingLayer", descriptor=Text(descriptor), weights=Text(names["weights"]))


def compute(t, options, sources, at):
    weights, padding = at["weights"], options.get("padding")
    if padding is not None and not at.has_run:
        with t.no_grad():
            weights[padding] = 0
    at.has_run = True
    found = t.nn.functional.embedding(
        sources[0].long(), weights, padding, options.get("maximum"), options.get("order", 2.0),
        options["by_frequency"],
    )  # fmt: skip
    # Gradients of a frozen table's rows may be read all the same.
    return found if found.requires_grad else found.requires_grad_(True)


DRAWN = {"MLCEmbeddingLayer": Layer(draw, results, expression, compute, roles, reads_flow=False)}
