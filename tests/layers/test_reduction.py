"""Reductions over one axis and several, and Gram matrices."""

import itertools

import numpy as np
import pytest
from test_limits import differentiate

import traingraph as tg
from harness import Case, checks, empty, everywhere, node

R = tg.MLCReductionLayer
SHAPES = [
    ((4, 3), [(0,), (1,), (0, 1)]),
    ((5,), [(0,)]),
    ((2, 3, 4), [(2, 0), (1,)]),
    ((2, 3, 5, 7), [(1,), (2, 3), (3,), (0, 2), (1, 3)]),
    ((2, 2, 3, 2), [(0, 1, 2, 3)]),
    ((3, 20, 9), [(1,), (2,)]),
]
FUNCTIONS = {
    "sum": np.sum,
    "mean": np.mean,
    "max": np.max,
    "min": np.min,
    "l1_norm": lambda x, axis, keepdims: np.abs(x).sum(axis=axis, keepdims=keepdims),
}


def apart(shape, seed=1):
    """Numbers of both signs: no two are closer than a step of differences, nor is one to 0."""
    count = int(np.prod(shape))
    rng = np.random.default_rng(seed)
    numbers = (rng.permutation(count) + 0.5 + 0.25 * rng.uniform(size=count)) / count - 0.5
    return np.copysign(0.25 + 4 * np.abs(numbers), numbers).reshape(shape)


def layer(kind, axes):
    return lambda: R(reduction_type=kind, dimensions=list(axes))


CASES = [
    Case(
        f"{kind} {shape} over {axes}",
        layer(kind, axes),
        lambda x, f=function, axes=axes: f(x, axis=axes, keepdims=True),
        [apart(shape)],
        rows=0 not in axes,
    )
    for kind, function in FUNCTIONS.items()
    for shape, several in SHAPES
    for axes in several
]


def gram(x):
    rows = x.reshape(*x.shape[:2], -1)
    return 0.25 * np.einsum("ncp,nfp->ncf", rows, rows)[:, :, None]


CASES += [
    Case(f"gram {shape}", lambda: tg.MLCGramMatrixLayer(scale=0.25), gram, [shape], rows=True)
    for shape in [(4, 1, 1, 1), (2, 3, 4, 5), (3, 2, 1, 7)]
]

test_forward, test_gradient, test_backends, test_same_bits, test_batch = checks(CASES)


def run(made, x, device, dtype=None):
    graph, source = tg.MLCGraph(), empty(x.shape, dtype or x.dtype.name)
    graph.node(made, source=source)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": source})
    inference.compile(device=device)
    return inference.execute(inputs_data={"x": x}, options="synchronous").result


@everywhere
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_places_are_numbers_of_float32(device, dtype):
    """Of equals the first one, at all extents around vectors."""
    rng = np.random.default_rng(4)
    shapes = [(3, n) for n in (1, 2, 15, 16, 17, 31, 32, 33, 47, 64, 100, 1000)]
    shapes += [(2, 3, 5), (2, 17, 3), (4, 2, 3, 33), (1, 70, 130), (65, 3, 1)]
    for shape in shapes:
        x = rng.integers(-3, 3, shape).astype(dtype)
        for axis, (kind, function) in itertools.product(
            range(len(shape)), [("arg_max", np.argmax), ("arg_min", np.argmin)]
        ):
            found = run(R(reduction_type=kind, dimension=axis), x, device)
            assert found.dtype == np.float32
            np.testing.assert_array_equal(found, np.expand_dims(function(x, axis), axis))


@everywhere
def test_measured_values(device):
    x = np.float32([[1, 2], [3, 4]])
    for kind, value in (("mean", [[1.5], [3.5]]), ("arg_max", [[1], [1]])):
        made = R(reduction_type=kind, dimension=1)
        np.testing.assert_array_equal(run(made, x, device), value)
    image = np.float32([1, 2, 3, 4]).reshape(1, 1, 2, 2)
    assert run(tg.MLCGramMatrixLayer(scale=2.0), image, device).ravel() == [60]


@everywhere
def test_nan_counts_before_numbers(device):
    for length, place in [(5, 2), (40, 37), (64, 17), (100, 0)]:
        x = np.arange(2 * length, dtype=np.float32).reshape(2, length)
        x[1, [place, length - 1]] = np.nan
        for kind in ("max", "min"):
            found = run(R(reduction_type=kind, dimension=1), x, device)
            assert np.isnan(found[1, 0])
            assert found[0, 0] == (length - 1 if kind == "max" else 0)
        for kind in ("arg_max", "arg_min"):
            assert run(R(reduction_type=kind, dimension=1), x, device)[1, 0] == place
            assert run(R(reduction_type=kind, dimension=0), x, device)[0, place] == 1
        infinite = np.full((1, length), -np.inf, np.float32)
        assert run(R(reduction_type="max", dimension=1), infinite, device) == -np.inf
        assert run(R(reduction_type="arg_max", dimension=1), infinite, device) == 0


@everywhere
@pytest.mark.parametrize("kind", ["max", "min"])
def test_the_first_of_equals_gets_the_gradient(kind, device):
    """In row-major order, also over several axes."""
    x = np.zeros((2, 3, 4, 5), np.float32)
    for axes in [(1,), (3,), (2, 3), (3, 1), (0, 1, 2, 3)]:

        def build(graph, source, axes=axes):
            return graph.node(layer(kind, axes)(), source=source)

        value, (slope,) = differentiate(build, [x], "float32", device)
        assert (value == 0).all()
        right = np.zeros(x.shape)
        right[tuple(slice(0, 1) if k in axes else slice(None) for k in range(4))] = 1
        np.testing.assert_array_equal(slope, right)


@everywhere
@pytest.mark.parametrize("dtype", ["float32", "float64", "bool"])
def test_any_and_all(dtype, device):
    rng = np.random.default_rng(6)
    for shape, axes in [((4, 3), (1,)), ((2, 3, 4, 5), (1, 3)), ((33, 70), (0,)), ((6,), (0,))]:
        x = (rng.uniform(size=shape) < 0.4).astype(dtype)
        if dtype != "bool":
            x = np.where(x, rng.choice([-2, 0.5, np.nan, np.inf], shape), 0).astype(dtype)
        for kind, function in (("any", np.any), ("all", np.all)):
            found = run(R(reduction_type=kind, dimensions=list(axes)), x, device)
            assert found.dtype == x.dtype
            right = function(x != 0, axis=axes, keepdims=True)
            np.testing.assert_array_equal(found, right.astype(dtype))


@everywhere
@pytest.mark.parametrize("kind", ["any", "all", "arg_max", "arg_min"])
def test_no_gradient_flows(kind, device):
    def build(graph, source):
        return graph.node(R(reduction_type=kind, dimension=1), source=source)

    x = apart((4, 3)).astype(np.float32)
    if kind.startswith("arg"):
        with pytest.raises(ValueError, match="nothing flows there"):
            differentiate(build, [x], "float32", device)
        return
    _, (slope,) = differentiate(build, [x], "float32", device)
    np.testing.assert_array_equal(slope, np.zeros((4, 3)))


def test_properties():
    made = R(reduction_type="sum", dimensions=[2, 0])
    assert (made.reduction_type.name, made.dimension, made.dimensions) == ("SUM", 2, [2, 0])
    assert R(reduction_type="max", dimension=1).dimensions == [1]
    assert tg.MLCGramMatrixLayer(scale=0.5).scale == 0.5


def test_wrong_arguments():
    with pytest.raises(ValueError, match=r'of "sum", .* but got "none"$'):
        R(reduction_type="none", dimension=0)
    for wrong in ([1, 1], [], [-1]):
        with pytest.raises(ValueError, match="expected different dimensions of at least 0 but got"):
            R(reduction_type="sum", dimensions=wrong)
    for kind in ("arg_max", "arg_min"):
        with pytest.raises(ValueError, match=r"one dimension for places but got \(0, 1\)"):
            R(reduction_type=kind, dimensions=[0, 1])
    with pytest.raises(ValueError, match=r"below the rank of \(2, 3\) but got \(2,?\) at layer"):
        node(R(reduction_type="sum", dimension=2), (2, 3))
    with pytest.raises(TypeError, match="floating-point numbers but got int32 at layer"):
        node(R(reduction_type="sum", dimension=1), (2, 3), dtype="int32")
    with pytest.raises(TypeError, match="floating-point numbers but got bool at layer"):
        node(R(reduction_type="max", dimension=1), (2, 3), dtype="bool")
    with pytest.raises(ValueError, match="expected 1 source but got 2"):
        node(R(reduction_type="sum", dimension=1), (2, 3), (2, 3))
    gram_layer = tg.MLCGramMatrixLayer(scale=1.0)
    with pytest.raises(ValueError, match=r"\(N, C, H, W\) but got \(2, 3\) at layer"):
        node(gram_layer, (2, 3))
    with pytest.raises(TypeError, match="floating-point numbers but got int8 at layer"):
        node(tg.MLCGramMatrixLayer(scale=1.0), (2, 3, 1, 1), dtype="int8")


@pytest.mark.parametrize("dimension", [2, 2**31, 2**32, 2**63 - 1])
def test_a_dimension_beyond_the_rank_is_refused(dimension):
    with pytest.raises(ValueError, match="expected dimensions below the rank"):
        tg.MLCGraph().node(
            tg.MLCReductionLayer(reduction_type="any", dimension=dimension),
            source=empty((2, 3), "float32"),
        )


@pytest.mark.parametrize("precision", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("kind", ["any", "all"])
@everywhere
def test_any_and_all_between_products_of_16_bits(device, kind, precision):
    """The numbers 0 and 1 that they choose from are of 16 bits there."""
    x = np.float32([[0, 2, 0], [1, 3, 0]])
    eye = tg.MLCTensor(data=np.eye(3, dtype=np.float32))

    def product(graph, source):
        layer = tg.MLCMatMulLayer(descriptor=tg.MLCMatMulDescriptor())
        return graph.node(layer, sources=[source, eye])

    graph, source = tg.MLCGraph(), empty(x.shape, "float32")
    product(graph, graph.node(R(reduction_type=kind, dimension=0), source=product(graph, source)))
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": source})
    inference.compile(device=device, precision=precision)
    found = inference.execute(inputs_data={"x": x}, options="synchronous").result
    np.testing.assert_array_equal(found, [getattr(np, kind)(x, axis=0)])
