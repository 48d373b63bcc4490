"""LSTM layers in training: shared tensors, updates, dropout, precisions, numbers that are none."""

import itertools

import numpy as np
import pytest

import traingraph as tg
from harness import empty, everywhere, tensor
from lstm_net import Net, descriptor, filled, infer, layer_tensors, made


def squares(build, shape, rate=0.5, dtype="float32"):
    """Plain SGD over squares of what `build` gives, to be compiled; and the shape of that."""
    graph, source = tg.MLCGraph(), empty(shape, dtype)
    labels = build(graph, source).descriptor.shape
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=rate),
    )
    training.add_inputs({"x": source}, loss_labels={"y": empty(labels, dtype)})
    return training, labels, graph


def trained(build, x, tensors, steps=1, device="cpu", rate=0.5, dtype="float32"):
    """Losses of steps, and what the tensors are then."""
    training, shape, graph = squares(build, x.shape, rate, dtype)
    training.compile(device=device)
    data = {"inputs_data": {"x": x},
            "loss_labels_data": {"y": np.full(shape, 0.5, dtype)}}  # fmt: skip
    losses = [float(training.execute(**data, options="synchronous").result) for _ in range(steps)]
    training.synchronize_updates()
    return losses, [np.array(t.data) for t in tensors], graph


@everywhere
def test_one_tensor_many_times(device):
    """Its gradients are summed, and one update is made."""
    x = np.random.default_rng(2).uniform(-1, 1, (3, 4, 2)).astype(np.float32)
    start = np.random.default_rng(4).uniform(-1, 1, (2, 2)).astype(np.float32)
    bias = np.array([0.25, -0.5], np.float32)

    def run(shared):
        def copies(array, count):
            one = tensor(array, np.float32)
            return [one] * count if shared else [tensor(array, np.float32) for _ in range(count)]

        matrices, biases = copies(start, 8), copies(bias, 4)
        layer = tg.MLCLSTMLayer(
            descriptor=descriptor(2, 2), input_weights=matrices[:4], hidden_weights=matrices[4:],
            biases=biases,
        )  # fmt: skip
        tensors = list(dict.fromkeys(matrices + biases))
        return trained(lambda graph, s: graph.node(layer, source=s), x, tensors, device=device)

    (apart_loss,), apart, _ = run(False)
    (loss,), (matrix, offset), _ = run(True)
    assert loss == apart_loss
    np.testing.assert_allclose(matrix - start, sum(a - start for a in apart[:8]), atol=1e-6)
    np.testing.assert_allclose(offset - bias, sum(a - bias for a in apart[8:]), atol=1e-6)


def composed(tensors, steps):
    """The same LSTM of other layers, one step after another."""
    weights, u, biases = tensors[:4], tensors[4:8], tensors[8:12]

    def dense(inputs, given, bias=None):
        return tg.MLCFullyConnectedLayer(
            weights=given, biases=bias,
            descriptor=tg.MLCConvolutionDescriptor(
                kernel_sizes=(1, 1), input_feature_channel_count=inputs,
                output_feature_channel_count=2,
            ),
        )  # fmt: skip

    def act(name):
        return getattr(tg.MLCActivationLayer, name)()

    def build(graph, x):
        def arithmetic(name, *sources):
            return graph.node(tg.MLCArithmeticLayer(operation=name), sources=list(sources))

        of_x = [dense(3, w, b) for w, b in zip(weights, biases, strict=True)]
        of_h = [dense(2, w) for w in u]
        split = tg.MLCSplitLayer(split_count=steps, dimension=1)
        graph.node(split, source=x)
        h = c = None
        found = []
        for part in graph.result_tensors(split):
            sums = [graph.node(layer, source=part) for layer in of_x]
            if h is not None:
                sums = [arithmetic("add", s, graph.node(layer, source=h))
                        for s, layer in zip(sums, of_h, strict=True)]  # fmt: skip
            kinds = ("sigmoid", "sigmoid", "tanh", "sigmoid")
            i, f, g, o = (graph.node(act(k), source=s) for k, s in zip(kinds, sums, strict=True))
            moved = arithmetic("multiply", i, g)
            c = moved if c is None else arithmetic("add", moved, arithmetic("multiply", f, c))
            h = arithmetic("multiply", o, graph.node(act("tanh"), source=c))
            found.append(h)
        return graph.node(tg.MLCConcatenationLayer(dimension=1), sources=found)

    return build


@everywhere
def test_training_as_of_other_layers(device):
    """Several updates; afterwards an inference graph and another training graph see the weights."""
    one = Net()
    first, second = filled(one.shapes()), filled(one.shapes())
    x = np.random.default_rng(9).uniform(-1, 1, (3, 3, 3)).astype(np.float32)
    layer = one.layer(first)
    losses, tensors, graph = trained(
        lambda g, s: g.node(layer, source=s), x, first, 5, device
    )  # fmt: skip
    right, others, _ = trained(composed(second, 3), x, second, 5, device)
    assert losses[0] > losses[-1]
    np.testing.assert_allclose(losses, right, rtol=1e-5)
    for a, b in zip(tensors, others, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": graph.source_tensors(layer)[0]})
    inference.compile(device=device)
    found = inference.execute(inputs_data={"x": x}, options="synchronous").result
    np.testing.assert_allclose(found, one.expected(x, *tensors), atol=2e-6)
    again = one.layer(first)
    more, _, _ = trained(lambda g, s: g.node(again, source=s), x, first, 1, device)
    error = one.expected(x, *tensors) - 0.5
    np.testing.assert_allclose(more[0], np.mean(error**2), rtol=1e-5)


@everywhere
def test_long_raw_data(device):
    one = Net()
    arrays = [np.random.default_rng(1).uniform(-1, 1, s).astype(np.float32) for s in one.shapes()]
    tensors = [
        tg.MLCTensor(
            shape=list(a.shape), data_type="float32",
            data=tg.MLCTensorData(bytes_no_copy=bytearray(a.tobytes() + b"\x7f" * 64)),
        )
        for a in arrays
    ]  # fmt: skip
    x = np.random.default_rng(6).uniform(-1, 1, (3, 4, 3)).astype(np.float32)
    (found,) = infer(one.layer(tensors), x, device=device)
    np.testing.assert_allclose(found, one.expected(x, *arrays), atol=2e-6)


@everywhere
def test_dropout_between_layers(device):
    """While training alone, between layers alone, every time other elements."""
    x = np.random.default_rng(8).uniform(-1, 1, (4, 3, 3)).astype(np.float32)
    losses = {}
    for layers, rate in itertools.product((1, 2), (0.0, 0.5)):
        one = Net(hidden=8, layers=layers, dropout=rate)
        tensors = filled(one.shapes())
        layer = one.layer(tensors)
        found, _, graph = trained(
            lambda g, s, layer=layer: g.node(layer, source=s), x, tensors, 3, device, rate=0.0
        )
        losses[layers, rate] = found
        inference = tg.MLCInferenceGraph(graph_objects=[graph])
        inference.add_inputs({"x": graph.source_tensors(layer)[0]})
        inference.compile(device=device)
        result = inference.execute(inputs_data={"x": x}, options="synchronous").result
        expected = one.expected(x, *[t.data for t in tensors])
        np.testing.assert_allclose(result, expected, atol=2e-6)
    assert losses[1, 0.0] == losses[1, 0.5]
    assert len(set(losses[2, 0.0])) == 1
    assert len({*losses[2, 0.0], *losses[2, 0.5]}) == 4


@everywhere
def test_every_pair_of_layers_drops_others(device):
    """Layers that give their source: a quarter of all is left behind two masks."""
    one = Net(4, 4, layers=3, dropout=0.5)
    ones, nothing, unit = np.full((1, 4, 1, 1), 1000.0), np.zeros((1, 16, 1, 1)), np.eye(4)
    lists = {
        "input_weights": [nothing, nothing, unit, nothing] * 3,
        "hidden_weights": [nothing] * 12,
        "biases": [ones, -ones, 0 * ones, ones] * 3,
    }
    none = tg.MLCActivationDescriptor(type="none")
    gates = [tg.MLCActivationDescriptor(type="sigmoid")] * 4
    gates[2] = none
    layer = tg.MLCLSTMLayer(
        descriptor=one.descriptor, gate_activations=gates, output_result_activation=none,
        **{name: [tensor(a, np.float32) for a in found] for name, found in lists.items()},
    )  # fmt: skip
    graph, source = tg.MLCGraph(), empty((64, 2, 4), "float32")
    result = graph.node(layer, source=source)
    training = tg.MLCTrainingGraph(graph_objects=[graph])
    training.add_inputs({"x": source})
    training.add_outputs({"y": result})
    training.compile(device=device)
    found = np.empty((64, 2, 4), np.float32)
    training.execute(
        inputs_data={"x": np.ones((64, 2, 4), np.float32)}, outputs_data={"y": found},
        options="synchronous",
    )  # fmt: skip
    assert set(found.ravel()) == {0.0, 4.0}
    assert 0.17 < (found != 0).mean() < 0.33


@everywhere
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sources_of_16_bits(dtype, device):
    """Beside parameters of float32, in which the layer computes."""
    one = Net(is_bidirectional=True)
    layer, _ = made(one)
    graph, source = tg.MLCGraph(), tg.MLCTensor(shape=[3, 4, 3], data_type=dtype)
    graph.node(layer, source=source)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": source})
    inference.compile(device=device)
    x = np.random.default_rng(2).integers(-4, 4, (3, 4, 3)).astype(np.float32) / 4
    bits = x.astype(np.float16) if dtype == "float16" else (x.view(np.uint32) >> 16).astype("u2")
    found = inference.execute(
        inputs_data={"x": tg.MLCTensorData(bytes_no_copy=bytearray(bits.tobytes()))},
        options="synchronous",
    ).result
    expected = one.expected(x, *[t.data for t in layer_tensors(layer)])
    np.testing.assert_allclose(np.asarray(found, np.float32), expected, atol=2e-6)


@everywhere
@pytest.mark.parametrize("precision", ["tf32", "mixed_bfloat16", "mixed_float16"])
def test_precisions(precision, device):
    """Losses of some steps are those of float32, but for what products round."""
    x = np.random.default_rng(1).uniform(-1, 1, (4, 5, 3)).astype(np.float32)

    def losses(chosen):
        one = Net(3, 8, layers=2, is_bidirectional=True)
        layer = one.layer(filled(one.shapes()))
        training, shape, _ = squares(lambda graph, s: graph.node(layer, source=s), x.shape)
        training.compile(device=device, precision=chosen)
        y = np.full(shape, 0.25, np.float32)
        return [
            float(
                training.execute(
                    inputs_data={"x": x}, loss_labels_data={"y": y}, options="synchronous"
                ).result
            )
            for _ in range(8)
        ]

    exact = losses("float32")
    assert exact[-1] < 0.9 * exact[0]
    np.testing.assert_allclose(losses(precision), exact, rtol=0.02)


@everywhere
def test_micro_batches(device):
    """Two of two sequences are one step over four."""
    x = np.random.default_rng(1).uniform(-1, 1, (4, 3, 3)).astype(np.float32)
    after = []
    for parts in (1, 2):
        one = Net(layers=2, is_bidirectional=True)
        tensors = filled(one.shapes())
        layer = one.layer(tensors)
        training, shape, _ = squares(
            lambda graph, s, layer=layer: graph.node(layer, source=s), (4 // parts, 3, 3)
        )
        training.micro_batches = parts
        training.compile(device=device)
        for part in np.split(x, parts):
            labels = {"y": np.zeros(shape, np.float32)}
            training.execute(
                inputs_data={"x": part}, loss_labels_data=labels, options="synchronous"
            )
        training.synchronize_updates()
        after.append([np.array(t.data) for t in tensors])
    for a, b in zip(*after, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


@everywhere
def test_states_fix_the_batch(device):
    """They have it in their third axis."""
    one = Net(states=True, result_mode="output_and_states")
    layer, _ = made(one)
    graph = tg.MLCGraph()
    sources = [empty(shape, "float32") for shape in one.sources(3, 4)]
    graph.node(layer, sources=sources)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": sources[0]})
    for at, state in enumerate(sources[1:]):
        state.bind_and_write_data(np.full(state.descriptor.shape, at, np.float32), to="cpu")
    inference.compile(device=device)
    with pytest.raises(ValueError, match=r"batch size 3, which layer \d+ 'LSTM' fixes, but got 2"):
        inference.execute(
            inputs_data={"x": np.zeros((2, 4, 3), np.float32)}, batch_size=2, options="synchronous"
        )


@everywhere
def test_peepholes_of_four(device):
    """The third is zero, and nothing trains it."""
    three, four = Net(peepholes=3), Net(peepholes=4)
    x = np.random.default_rng(8).uniform(-1, 1, (3, 4, 3)).astype(np.float32)
    tensors = filled(three.shapes())
    zero = tensor(np.array([[[[0.0]], [[-0.0]]]]), np.float32)
    more = filled(three.shapes())
    more.insert(10, zero)
    losses, _, _ = trained(
        lambda g, s: g.node(three.layer(tensors), source=s), x, tensors, 3, device
    )
    same, after, _ = trained(lambda g, s: g.node(four.layer(more), source=s), x, more, 3, device)
    assert losses == same
    assert not after[10].any()
    layer = four.layer(more)
    assert len(layer.peephole_weights) == len(layer.peephole_weights_parameters) == 4
    more[10] = tensor(np.ones((1, 2, 1, 1)), np.float32)
    with pytest.raises(ValueError, match="expected zeros as the peephole weights of the cell gate"):
        four.layer(more)


@everywhere
def test_infinity_stays_in_its_sequence(device):
    one = Net(is_bidirectional=True)
    tensors = filled(one.shapes())
    x = np.random.default_rng(3).uniform(-1, 1, (3, 4, 3)).astype(np.float32)
    (clean,) = infer(one.layer(tensors), x, device=device)
    x[1, 2, 0] = np.nan
    (found,) = infer(one.layer(tensors), x, device=device)
    np.testing.assert_array_equal(found[[0, 2]], clean[[0, 2]])
    np.testing.assert_array_equal(found[1, :2, :2], clean[1, :2, :2])
    assert np.isnan(found[1, 2:, :2]).all()
    assert np.isnan(found[1, :3, 2:]).all()
    np.testing.assert_array_equal(found[1, 3, 2:], clean[1, 3, 2:])
    x[1, 2, 0] = np.inf
    (found,) = infer(one.layer(tensors), x, device=device)
    assert np.isfinite(found).all()


@everywhere
def test_padding_is_not_read(device):
    """Not even NaN there reaches a result, a loss or a gradient."""
    one = Net(lengths=[4, 2, 0], layers=2)
    x = np.random.default_rng(3).uniform(-1, 1, (3, 4, 3)).astype(np.float32)
    lengths = tg.MLCTensor(data=np.array([4, 2, 0], np.int32))

    def run(x):
        tensors = filled(one.shapes())
        layer = one.layer(tensors)
        return trained(
            lambda g, s: g.node(layer, sources=[s, lengths]), x, tensors, 2, device
        )[:2]  # fmt: skip

    losses, after = run(x)
    x[1, 2:], x[2] = np.nan, np.inf
    same, found = run(x)
    assert losses == same
    for a, b in zip(after, found, strict=True):
        np.testing.assert_array_equal(a, b)
