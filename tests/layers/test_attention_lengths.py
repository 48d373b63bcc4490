"""Attention over sequences that end: keys and values behind the lengths are not read."""

import numpy as np
import pytest
from test_multihead_attention import D, M, Options, numbers

import traingraph as tg
from harness import empty, everywhere, node, tensor

LENGTHS = np.array([5, 2, 0, 1], np.int32)


class Net:
    """One layer with four weights and biases over sources that are trained, and its data."""

    def __init__(self, queries=None, causal=False, masks=(), device="reference", dtype="float64",
                 lengths=LENGTHS, declared=True):  # fmt: skip
        n, keys = len(LENGTHS), 5
        self.options = Options(masks, extents=(n, queries or keys, keys), model=6, causal=causal)
        self.is_self, self.dtype = queries is None, dtype
        arrays = self.options.sources[:1] if self.is_self else self.options.sources
        self.data = {f"s{k}": a.astype(dtype) for k, a in enumerate(arrays)}
        self.inputs = {name: empty(a.shape, dtype) for name, a in self.data.items()}
        self.parameters = [tensor(p, dtype) for p in self.options.parameters]
        given = list(self.inputs.values()) * (3 if self.is_self else 1)
        graph = tg.MLCGraph()
        if declared:
            self.inputs["lengths"] = empty((n,), "int32")
            self.data["lengths"] = np.asarray(lengths, np.int32)
        given.append(self.inputs["lengths"] if declared else tg.MLCTensor(data=lengths))
        given += [tensor(m, "bool" if m.dtype == bool else dtype) for m in self.options.masks]
        layer = self.options.layer(*self.parameters)
        self.result = graph.node(layer, sources=given)
        self.graph = graph
        self.device = device

    def training(self):
        training = tg.MLCTrainingGraph(graph_objects=[self.graph])
        training.add_inputs(self.inputs)
        self.dy = training.allocate_user_gradient(self.result)
        training.compile(options="compute_all_gradients", device=self.device)
        return training

    def run(self, data, dy=None):
        """The result, and gradients of sources and parameters."""
        training = self.training()
        training.bind_and_write_data(data, for_inputs=self.inputs)
        y = training.execute_forward(options="synchronous").result.copy()
        dy = np.ones(y.shape, self.dtype) if dy is None else dy.astype(self.dtype)
        training.bind_and_write_data({"dy": dy}, for_inputs={"dy": self.dy})
        training.execute_gradient(options="synchronous")
        gradients = {}
        for name, source in self.inputs.items():
            if name == "lengths":
                continue
            gradients[name] = np.empty(data[name].shape, self.dtype)
            training.gradient_tensor(for_input=source).copy_data_from_device_memory(gradients[name])
        layer = self.graph.layers[-1]
        own = [training.gradient_data(for_parameter=p.tensor, layer=layer)
               for p in (*layer.weights_parameters, *layer.biases_parameters)]  # fmt: skip
        return y, gradients, own


def behind(shape, lengths=LENGTHS):
    return np.arange(shape[1]) >= np.asarray(lengths)[:, None]


def filled(data, number):
    """With this number behind the ends."""
    made = {}
    for name, array in data.items():
        made[name] = array.copy()
        if array.ndim == 3 and array.shape[1] == 5:
            made[name][behind(array.shape)] = number
    return made


@everywhere
@pytest.mark.parametrize("masks", [(), ("shared",), ("numbers",)])
@pytest.mark.parametrize("causal", [False, True])
def test_self_attention(causal, masks, device):
    """As by a key mask, and zeros behind the ends, whose gradient goes nowhere."""
    dtype = "float64" if device == "reference" else "float32"
    bound = 1e-12 if dtype == "float64" else 1e-5
    net = Net(causal=causal, masks=masks, device=device, dtype=dtype)
    x = net.options.sources[0]
    ends = behind(x.shape)
    options = net.options
    options.masks.insert(0, ends)
    with np.errstate(invalid="ignore"):
        right = options.expected(x, x, x, *options.trained_masks, *options.parameters)
    right[ends] = 0
    dy = numbers(*x.shape, seed=8)
    y, dx, own = net.run(net.data, dy)
    np.testing.assert_allclose(y, right, rtol=0, atol=bound)
    assert not y[ends].any()
    assert not dx["s0"][ends].any()
    assert masks == ("shared",) or dx["s0"][~ends].any(-1).all()
    # Behind the ends there may be anything, and anything may come back.
    for number in (np.nan, np.inf, 7.0):
        dirty = dy.copy()
        dirty[ends] = number
        again = Net(causal=causal, masks=masks, device=device, dtype=dtype).run(
            filled(net.data, number), dirty
        )
        np.testing.assert_array_equal(again[0], y)
        np.testing.assert_array_equal(again[1]["s0"], dx["s0"])
        for one, first in zip(again[2], own, strict=True):
            np.testing.assert_array_equal(one, first)


@everywhere
def test_other_queries(device):
    """Of queries that are no keys all have results; a sample of no keys gives its bias."""
    dtype = "float64" if device == "reference" else "float32"
    net = Net(queries=3, device=device, dtype=dtype)
    y, slopes, own = net.run(net.data)
    ends = behind((4, 5))
    options = net.options
    options.masks.insert(0, ends)
    with np.errstate(invalid="ignore"):
        right = options.expected(*options.sources, *options.parameters)
    right[2] = options.given[3]
    np.testing.assert_allclose(y, right, rtol=0, atol=1e-12 if dtype == "float64" else 1e-5)
    for name in ("s1", "s2"):
        assert not slopes[name][ends].any()
    assert slopes["s2"][~ends].any(-1).all()
    for number in (np.nan, np.inf):
        again = Net(queries=3, device=device, dtype=dtype).run(filled(net.data, number))
        np.testing.assert_array_equal(again[0], y)
        for name, slope in slopes.items():
            np.testing.assert_array_equal(again[1][name], slope)
        for one, first in zip(again[2], own, strict=True):
            np.testing.assert_array_equal(one, first)


@pytest.mark.parametrize("causal", [False, True])
def test_gradient_against_differences(causal):
    """Of the sources, and of all weights and biases, in float64."""
    net = Net(causal=causal)
    x = net.options.sources[0]
    dy = numbers(*x.shape, seed=8)
    _, dx, own = net.run(net.data, dy)
    arrays = [x, *net.options.parameters]
    ends = behind(x.shape)
    net.options.masks.insert(0, ends)

    def value(*given):
        with np.errstate(invalid="ignore"):
            y = net.options.expected(*given[:1] * 3, *given[1:])
        return (dy * y)[~ends].sum()

    rng = np.random.default_rng(0)
    for k, slope in enumerate([dx["s0"], *own]):
        direction = rng.normal(size=arrays[k].shape)
        moved = [[*arrays[:k], arrays[k] + step * direction, *arrays[k + 1 :]]
                 for step in (1e-6, -1e-6)]  # fmt: skip
        difference = (value(*moved[0]) - value(*moved[1])) / 2e-6
        found = (slope.reshape(direction.shape) * direction).sum()
        np.testing.assert_allclose(found, difference, rtol=1e-6, atol=1e-8)


@everywhere
def test_lengths_need_no_order_and_follow_the_batch(device):
    net = Net(device=device, dtype="float32")
    inference = tg.MLCInferenceGraph(graph_objects=[net.graph])
    inference.add_inputs(net.inputs)
    inference.compile(device=device)
    whole = inference.execute(inputs_data=net.data, options="synchronous").result.copy()
    order = [2, 1, 3, 0]
    moved = {name: a[order] for name, a in net.data.items()}
    found = inference.execute(inputs_data=moved, options="synchronous").result
    np.testing.assert_allclose(found, whole[order], rtol=1e-5, atol=1e-6)
    for count in (1, 3):
        few = {name: a[:count] for name, a in net.data.items()}
        found = inference.execute(inputs_data=few, batch_size=count, options="synchronous").result
        np.testing.assert_allclose(found, whole[:count], rtol=1e-5, atol=1e-6)
    inference.compile(options="any_batch_size", device=device)
    few = {name: a[:3] for name, a in net.data.items()}
    found = inference.execute(inputs_data=few, batch_size=3, options="synchronous").result
    np.testing.assert_allclose(found, whole[:3], rtol=1e-5, atol=1e-6)


@everywhere
def test_constant_lengths(device):
    declared, constant = (Net(device=device, dtype="float32", declared=d) for d in (True, False))
    y = declared.run(declared.data)[0]
    np.testing.assert_array_equal(constant.run(constant.data)[0], y)


@everywhere
@pytest.mark.parametrize("number", [6, -1])
def test_lengths_out_of_range(number, device):
    lengths = LENGTHS.copy()
    lengths[1] = number
    net = Net(device=device, dtype="float32", lengths=lengths)
    with pytest.raises(
        tg.InvalidArgument,
        match=rf"\[lengths 'lengths'\] expected a length from 0 to 5 but got {number} at",
    ):
        net.run(net.data)


@pytest.mark.parametrize(
    ("shape", "dtype", "error", "text"),
    [
        ((3,), "int32", tg.ShapeError, r"expected 2 lengths, one per sequence, but got \(3"),
        ((2, 5), "int32", tg.ShapeError, r"expected 2 lengths, one per sequence, but got \(2, 5"),
        ((2,), "int64", TypeError, "a key mask of bool, or lengths of int32, but got int64"),
        ((2,), "float32", TypeError, "a key mask of bool, or lengths of int32, but got float32"),
    ],
)
def test_wrong_lengths(shape, dtype, error, text):
    layer = M(descriptor=D(model_dimension=4, head_count=2))
    rows = (2, 5, 4)
    with pytest.raises(error, match=text):
        node(layer, rows, rows, rows, shape, dtypes=[*["float32"] * 3, dtype])
