"""One list of cases per layer drives its checks, through the public interface.

    CASES = [Case("name", layer, expected, sources=[(2, 3)]), …]
    test_forward, test_gradient, test_backends, test_same_bits, test_batch = checks(CASES)

* forward: the reference backend in float64 against NumPy;
* gradient: the reference backend in float64, of sources and parameters, against central differences
  of the NumPy function;
* backends: every other backend against NumPy, forward and gradient, within bounds per data type;
* same bits: the same graph twice, and another graph like it, give the same bits;
* batch: fewer rows than declared (cases with `rows=True`).

A gradient is what plain SGD subtracts, over its learning rate: sources become trainable tensors.
"""

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pytest

import traingraph as tg
from differences import Slopes, assert_near, is_zero

# The reference itself too, in float32; the option --device adds rows for the devices that it names.
everywhere = pytest.mark.parametrize("device", ["reference", "cpu"])
# What each data type may deviate by, relative to the largest value of an array.
BOUNDS = {"float32": 4e-6}


@dataclass
class Case:
    name: str
    # parameters as tensors -> a new layer
    layer: Callable[..., object]
    # sources, then parameters, as float64 arrays -> the result
    expected: Callable[..., np.ndarray]
    # arrays, or shapes to fill with numbers from -2 to 2
    sources: Sequence
    parameters: Sequence = ()
    # (graph, source tensors, parameter tensors) -> the result tensor; one node unless given
    build: Callable | None = None
    # expected in training where it differs from inference
    expected_training: Callable | None = None
    # how many times the usual bounds a data type needs, with a reason beside it
    slack: float = 1.0
    # of differences; larger ones have rounded less, where derivatives hardly change along them
    step: float = 1e-6
    # results of a batch are the results of its rows
    rows: bool = False
    arrays: list = field(init=False)

    def __post_init__(self):
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))

        def values(given):
            array = np.asarray(given)
            if array.ndim == 1 and array.dtype.kind == "i":
                array = rng.uniform(-2, 2, tuple(given))
            # Numbers that every data type holds exactly.
            return array.astype(np.float32).astype(np.float64)

        self.sources = [values(s) for s in self.sources]
        self.parameters = [values(p) for p in self.parameters]
        self.arrays = self.sources + self.parameters

    def node(self, graph, sources, parameters):
        if self.build is not None:
            return self.build(graph, sources, parameters)
        return graph.node(self.layer(*parameters), sources=sources)

    @cached_property
    def trained(self):
        """The result in training."""
        return (self.expected_training or self.expected)(*self.arrays)

    @cached_property
    def target(self):
        """Labels as far away as the result is large.

        A small difference of large numbers would show the rounding of the result many times over,
        and not that of the gradient.
        """
        rng = np.random.default_rng(self.trained.size)
        distance = max(1.0, np.abs(self.trained).max()) * rng.uniform(
            0.25, 0.75, self.trained.shape
        )
        return (self.trained - distance).astype(np.float32).astype(np.float64)

    @cached_property
    def reference(self):
        """The loss and the gradients of the reference in float64: one run for all checks."""
        return train(self, self.target)

    def __repr__(self):
        return self.name


def tensor(array, dtype):
    """A tensor with a copy of the array as its data."""
    return tg.MLCTensor(data=np.array(array, dtype))


def empty(shape, dtype):
    return tg.MLCTensor(shape=list(shape), data_type=dtype)


class Inference:
    """A compiled inference graph of a case; call it with arrays."""

    def __init__(self, case, device="reference", dtype="float64"):
        graph = tg.MLCGraph()
        sources = [empty(a.shape, dtype) for a in case.sources]
        case.node(graph, sources, [tensor(p, dtype) for p in case.parameters])
        self.dtype = dtype
        self.graph = tg.MLCInferenceGraph(graph_objects=[graph])
        self.graph.add_inputs({f"source {k}": t for k, t in enumerate(sources)})
        self.graph.compile(device=device)

    def __call__(self, *arrays, batch_size=0):
        data = {f"source {k}": a.astype(self.dtype) for k, a in enumerate(arrays)}
        return self.graph.execute(
            inputs_data=data, batch_size=batch_size, options="synchronous"
        ).result


def rate_for(arrays, gradients):
    """A power of 2 that makes every update about as large as its array, or larger.

    What is left of an array in float32 has then lost no more of the gradient than its last bit.
    """
    ratios = [
        np.abs(a).max() / np.abs(g).max()
        for a, g in zip(arrays, gradients, strict=True)
        if a.any() and not is_zero(g, gradients)
    ]
    return 2.0 ** np.ceil(np.log2(max([1.0, *ratios])))


def train(case, target, device="reference", dtype="float64", rate=1.0):
    """One step over sum((result - target)²): the loss, and the gradient of every array."""
    graph = tg.MLCGraph()
    sources = [tensor(a, dtype) for a in case.sources]
    parameters = [tensor(p, dtype) for p in case.parameters]
    result = case.node(graph, sources, parameters)
    label = empty(result.descriptor.shape, dtype)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="sum"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=rate),
    )
    training.set_training_tensor_parameters([tg.MLCTensorParameter(tensor=t) for t in sources])
    training.add_inputs({}, loss_labels={"label": label})
    training.compile(device=device)
    kept = training.named_parameters().values()
    assert set(sources + parameters) <= set(kept), "a layer does not name all that it keeps"
    loss = training.execute(
        inputs_data={}, loss_labels_data={"label": target.astype(dtype)}, options="synchronous"
    ).result
    training.synchronize_updates()
    gradients = [
        (a.astype(dtype) - t.data) / rate
        for a, t in zip(case.arrays, sources + parameters, strict=True)
    ]
    return loss, gradients


def assert_all_near(got, expected, bound):
    """Each of the gradients of a case."""
    for one, right in zip(got, expected, strict=True):
        assert_near(one.astype(np.float64), right, bound, expected)


def check_forward(case):
    result = Inference(case)(*case.sources)
    assert result.dtype == np.float64
    assert_near(result, case.expected(*case.arrays), 1e-12)


def check_gradient(case, elements=False):
    expected = case.expected_training or case.expected
    loss, gradients = case.reference
    error = case.trained - case.target
    np.testing.assert_allclose(loss, np.sum(error**2), rtol=1e-10)
    arrays = [a.copy() for a in case.arrays]
    for at, gradient in zip(arrays, gradients, strict=True):
        slopes = Slopes(
            lambda _: expected(*arrays), at, 2 * error, step=case.step, elements=elements
        )
        slopes.assert_near(gradient, 2e-8, gradients)


def check_backend(case, device, dtype):
    bound = BOUNDS[dtype] * case.slack
    result = Inference(case, device, dtype)(*case.sources)
    assert result.dtype == dtype
    assert_near(result.astype(np.float64), case.expected(*case.arrays), bound)
    reference_loss, reference = case.reference
    loss, gradients = train(case, case.target, device, dtype, rate_for(case.arrays, reference))
    np.testing.assert_allclose(loss, reference_loss, rtol=10 * bound)
    assert_all_near(gradients, reference, 4 * bound)


def check_same_bits(case, device):
    first, second = Inference(case, device, "float32"), Inference(case, device, "float32")
    bits = [run(*case.sources).tobytes() for run in (first, first, second)]
    assert bits[0] == bits[1] == bits[2]
    runs = [train(case, case.target, device, "float32") for _ in range(2)]
    for a, b in zip(runs[0][1], runs[1][1], strict=True):
        assert a.tobytes() == b.tobytes()


def check_batch(case, device):
    run = Inference(case, device, "float32")
    full = case.sources[0].shape[0]
    for batch in (full - 1, full, 1):
        sources = [s[:batch] for s in case.sources]
        result = run(*sources, batch_size=batch)
        expected = case.expected(*sources, *case.parameters)
        assert_near(result.astype(np.float64), expected, BOUNDS["float32"] * case.slack)


def read_rows(result, count):
    """The first rows of what the last pass has left."""
    descriptor = result.descriptor
    values = np.zeros(descriptor.shape, descriptor.data_type.name.lower())
    result.copy_data_from_device_memory(values)
    return values[:count]


def steps_of_rows(case, device, dtype, batches, options):
    """Losses, gradients of the sources, and what the parameters are after steps of so many rows."""
    graph = tg.MLCGraph()
    sources = [empty(a.shape, dtype) for a in case.sources]
    parameters = [tensor(p, dtype) for p in case.parameters]
    result = case.node(graph, sources, parameters)
    label = empty(case.trained.shape, dtype)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(),
        optimizer=tg.MLCSGDOptimizer(learning_rate=0.01),
    )
    inputs = {f"source {k}": t for k, t in enumerate(sources)}
    training.add_inputs(inputs, loss_labels={"label": label})
    training.compile(options=options, device=device)
    found = []
    for batch in batches:
        arrays = {n: a[:batch].astype(dtype) for n, a in zip(inputs, case.sources, strict=True)}
        arrays["label"] = case.target[:batch].astype(dtype)
        training.bind_and_write_data(
            arrays, for_inputs={**inputs, "label": label}, batch_size=batch
        )
        loss = training.execute_forward(batch_size=batch, options="synchronous").result
        seen = [read_rows(result, batch)]
        training.execute_gradient(options="synchronous")
        seen += [read_rows(training.gradient_tensor(source), batch) for source in sources]
        training.execute_optimizer_update(options="synchronous")
        training.synchronize_updates()
        found += [loss, *seen, *training.state().values()]
    return found


def check_any_batch(case, device, dtype, bound):
    """Steps in a program for more rows against those in programs for these rows."""
    every = tg.MLCGraphCompilationOptions.COMPUTE_ALL_GRADIENTS
    shared = every | tg.MLCGraphCompilationOptions.ANY_BATCH_SIZE
    full = case.sources[0].shape[0]
    batches = (full - 1, full, 1) if full > 1 else (1,)
    got, expected = (steps_of_rows(case, device, dtype, batches, o) for o in (shared, every))
    for mine, theirs in zip(got, expected, strict=True):
        assert np.shape(mine) == np.shape(theirs)
        np.testing.assert_allclose(mine, theirs, rtol=bound, atol=bound * np.abs(theirs).max())


def checks(cases):
    """The five tests over a list of cases."""

    def each(of=cases):
        return pytest.mark.parametrize("case", of, ids=repr)

    @each()
    def test_forward(case):
        check_forward(case)

    @each()
    def test_gradient(case):
        check_gradient(case, elements=case is cases[0])

    @each()
    @pytest.mark.parametrize("dtype", BOUNDS)
    @everywhere
    def test_backends(case, device, dtype):
        check_backend(case, device, dtype)

    @each()
    @everywhere
    def test_same_bits(case, device):
        check_same_bits(case, device)

    @each([c for c in cases if c.rows])
    @everywhere
    def test_batch(case, device):
        check_batch(case, device)
        if device != "metal":  # which has no float64
            check_any_batch(case, device, "float64", 1e-10)
        check_any_batch(case, device, "float32", 10 * BOUNDS["float32"] * case.slack)

    return test_forward, test_gradient, test_backends, test_same_bits, test_batch


def node(layer, *shapes, dtype="float32", dtypes=None):
    """Adds the layer to a new graph over empty tensors: where wrong shapes are refused."""
    sources = [empty(s, d) for s, d in zip(shapes, dtypes or [dtype] * len(shapes), strict=True)]
    return tg.MLCGraph().node(layer, sources=sources)
