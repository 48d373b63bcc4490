"""Split, gather, scatter, selection."""

import numpy as np
import pytest

import traingraph as tg
from harness import Case, Inference, checks, empty, everywhere, node


def constant(array):
    return tg.MLCTensor(data=np.array(array))


def split(arguments, use):
    """`use` makes one tensor of the parts."""
    return lambda graph, s, _: use(graph, graph.split(s[0], **arguments))


def backwards(axis):
    return lambda graph, parts: graph.concatenate(parts[::-1], dimension=axis)


def pick(axis, indices):
    return lambda graph, s, _: graph.gather(axis, source=s[0], indices=constant(indices))


def picked(x, axis, indices):
    indices = np.asarray(indices)
    if indices.ndim == 1 and x.ndim != 1:
        return np.take(x, indices, axis)
    cut = tuple(
        slice(None) if k == axis else slice(extent) for k, extent in enumerate(indices.shape)
    )
    return np.take_along_axis(x[cut], indices, axis)


def gather(name, shape, axis, indices, **options):
    return Case(
        f"gather {name}",
        None,
        lambda x: picked(x, axis, indices),
        [shape],
        build=pick(axis, indices),
        **options,
    )


def places(shape, axis, indices, values_shape):
    """Where each value goes, in row-major order."""
    indices = np.asarray(indices)
    slices = indices.ndim == 1 and len(shape) != 1
    for at in np.ndindex(*values_shape):
        to = list(at)
        to[axis] = indices[at[axis]] if slices else indices[at]
        yield at, tuple(to)


def scattered(values, x, axis, indices, reduction):
    y = x.copy()
    for at, to in places(x.shape, axis, indices, values.shape):
        y[to] = values[at] + (y[to] if reduction == "sum" else 0)
    return y


def scatter(name, values, shape, axis, indices):
    return [
        Case(
            f"scatter {reduction} {name}",
            None,
            lambda v, x, r=reduction: scattered(v, x, axis, indices, r),
            [values, shape],
            build=lambda graph, s, _, r=reduction: graph.scatter(
                axis,
                source=s[0],
                indices=constant(indices),
                copy_from=s[1],
                reduction_type=r,
            ),
        )
        for reduction in ("none", "sum")
    ]


def selection(name, condition, x, y, **options):
    return Case(
        f"select {name}",
        None,
        lambda a, b: np.where(condition, a, b),
        [x, y],
        build=lambda graph, s, _: graph.select(sources=s, condition=constant(condition)),
        **options,
    )


RNG = np.random.default_rng(5)
CASES = [
    Case(
        "split by count",
        None,
        lambda x: np.concatenate([x[:, 4:], x[:, 2:4], x[:, :2]], 1),
        [(2, 5)],
        build=split({"split_count": 3, "dimension": 1}, backwards(1)),
        rows=True,
    ),
    Case(
        "split by lengths",
        None,
        lambda x: np.concatenate([x[:, :, 1:], x[:, :, :1]], 2),
        [(2, 3, 4)],
        build=split({"split_section_lengths": [1, 3], "dimension": 2}, backwards(2)),
        rows=True,
    ),
    Case(
        "split into one",
        None,
        lambda x: x,
        [(2, 3)],
        build=split({"split_count": 1, "dimension": 1}, lambda graph, parts: parts[0]),
        rows=True,
    ),
    Case(
        "split the batch",
        None,
        lambda x: np.concatenate([x[2:], x[:2]], 0),
        [(4, 3)],
        build=split({"split_count": 2, "dimension": 0}, backwards(0)),
    ),
    Case(
        "one part of a split",
        None,
        lambda x: 2 * x[:, 1:3],
        [(2, 4)],
        build=split(
            {"split_section_lengths": [1, 2, 1], "dimension": 1},
            lambda graph, parts: graph.node(
                tg.MLCArithmeticLayer(operation="add"), sources=[parts[1], parts[1]]
            ),
        ),
        rows=True,
    ),
    gather("slices", (2, 5), 1, [3, 0, 3, 3], rows=True),
    gather("slices of the batch", (4, 3), 0, [3, 0, 3]),
    gather("slices of images", (2, 3, 4, 5), 3, np.array([4, 1], np.int32), rows=True),
    gather("from one axis", (5,), 0, [4, 4, 0]),
    gather("elements", (2, 5), 1, [[3, 0, 3], [1, 1, 4]]),
    gather("elements of axis 0", (3, 4), 0, RNG.integers(0, 3, (5, 4), np.int32)),
    gather("elements of few rows", (3, 4, 2), 1, RNG.integers(0, 4, (2, 6, 1))),
    *scatter("slices", (2, 3), (2, 5), 1, [4, 0, 4]),
    *scatter("slices of axis 0", (3, 2), (4, 2), 0, np.array([1, 1, 3], np.int32)),
    *scatter("elements", (2, 4), (2, 3), 1, [[2, 0, 2, 2], [1, 1, 0, 1]]),
    *scatter("elements of few rows", (2, 3, 1), (3, 4, 2), 1, RNG.integers(0, 4, (2, 3, 1))),
    *scatter("elements of axis 0", (3, 4), (2, 5), 0, RNG.integers(0, 2, (3, 4))),
    selection("", RNG.integers(0, 2, (3, 4)) > 0, (3, 4), (3, 4)),
    selection("rows", RNG.integers(0, 2, (4,)) > 0, (3, 4), (3, 4), rows=True),
    selection("columns", np.array([[True], [False], [True]]), (3, 4), (3, 4)),
    selection("broadcast", RNG.integers(0, 2, (2, 3, 4)) > 0, (3, 1), (2, 1, 4)),
    selection("all", np.ones((3, 4), bool), (3, 4), (3, 4)),
]

test_forward, test_gradient, test_backends, test_same_bits, test_batch = checks(CASES)


def test_parts():
    """Equal chunks of ceil(extent / count), parts of 1 when there are more parts than elements."""

    def extents(extent, **arguments):
        source = empty((2, extent), "float32")
        return [part.descriptor.shape[1] for part in tg.MLCGraph().split(source, **arguments)]

    for extent, count, expected in [
        (5, 3, [2, 2, 1]),
        (3, 2, [2, 1]),
        (2, 3, [1, 1]),
        (6, 3, [2] * 3),
    ]:
        assert extents(extent, split_count=count, dimension=1) == expected
    assert extents(5, split_section_lengths=[1, 4], dimension=1) == [1, 4]
    with pytest.raises(tg.ShapeError, match=r"expected 4 parts but .* 5 elements into 3 at layer"):
        extents(5, split_count=4, dimension=1)
    with pytest.raises(tg.ShapeError, match=r"sum 3, .* but got \(1, 5\) with the sum 6 at layer"):
        extents(3, split_section_lengths=[1, 5], dimension=1)
    with pytest.raises(tg.ShapeError, match=r"dimension below the rank of \(2, 5\) but got 2"):
        extents(5, split_count=2, dimension=2)
    for lengths in ([], [0, 5], [-1, 6]):
        with pytest.raises(ValueError, match="lengths of at least 1"):
            extents(5, split_section_lengths=lengths, dimension=1)
    with pytest.raises(ValueError, match="at least 1 part but got 0"):
        extents(5, split_count=0, dimension=1)


def test_layers_know_their_arguments():
    by_count = tg.MLCSplitLayer(split_count=2, dimension=0)
    assert (by_count.split_count, by_count.dimension) == (2, 0)
    assert by_count.split_section_lengths is None
    by_lengths = tg.MLCSplitLayer(split_section_lengths=[1, 2])
    assert (by_lengths.split_count, by_lengths.dimension) == (2, 1)
    assert by_lengths.split_section_lengths == [1, 2]
    assert tg.MLCGatherLayer(dimension=2).dimension == 2
    scatter = tg.MLCScatterLayer(dimension=2, reduction_type="sum")
    assert (scatter.dimension, scatter.reduction_type) == (2, tg.MLCReductionType.SUM)
    for layer in (by_count, by_lengths, scatter, tg.MLCSelectionLayer()):
        assert layer.label == type(layer).__name__[3:-5]
        assert "\n" not in repr(layer)


def test_layers_take_their_sources_in_order():
    """Gather (x, indices); scatter (values, indices, x); selection (condition, x, y)."""
    node(tg.MLCGatherLayer(dimension=1), (2, 3), (4,), dtypes=["float32", "int32"])
    node(
        tg.MLCScatterLayer(dimension=1, reduction_type="none"),
        (2, 4), (4,), (2, 3), dtypes=["float32", "int64", "float32"],
    )  # fmt: skip
    node(tg.MLCSelectionLayer(), (2, 1), (2, 3), (3,), dtypes=["bool", "float32", "float32"])
    with pytest.raises(ValueError, match="expected 2 sources, x and y, but got 1"):
        tg.MLCGraph().select([empty((2,), "float32")], condition=empty((2,), "bool"))


@pytest.mark.parametrize("kind", list(tg.MLCReductionType))
def test_other_reductions_are_refused(kind):
    if kind.name in ("NONE", "SUM"):
        return
    with pytest.raises(ValueError, match="expected NONE, which overwrites, or SUM, which adds"):
        tg.MLCScatterLayer(dimension=1, reduction_type=kind)


def test_wrong_sources():
    gather = tg.MLCGatherLayer
    with pytest.raises(TypeError, match="expected indices of int32 or int64 but got float32"):
        node(gather(dimension=1), (2, 3), (2,))
    with pytest.raises(ValueError, match=r"dimension below the rank of \(2, 3\) but got 2"):
        node(gather(dimension=2), (2, 3), (2,), dtypes=["float32", "int32"])
    for indices in ((3, 1), (2, 3, 1)):
        with pytest.raises(ValueError, match=r"no larger but in axis 1, but got .* at layer"):
            node(gather(dimension=1), (2, 3), indices, dtypes=["float32", "int32"])
    layer = tg.MLCScatterLayer(dimension=1, reduction_type="sum")
    with pytest.raises(TypeError, match="copy_from of type int8 but got float32 at layer"):
        node(layer, (2, 2), (2,), (2, 5), dtypes=["int8", "int64", "float32"])
    scatter = ["float32", "int64", "float32"]
    for values, indices in (((2, 4), (3,)), ((2, 2), (2, 3)), ((3, 3), (2, 3))):
        layer = tg.MLCScatterLayer(dimension=1, reduction_type="sum")
        with pytest.raises(ValueError, match=r"expected values of shape .* but got .* at layer"):
            node(layer, values, indices, (2, 5), dtypes=scatter)
    with pytest.raises(TypeError, match="expected a condition of bool but got float32"):
        node(tg.MLCSelectionLayer(), (2, 3), (2, 3), (2, 3))
    with pytest.raises(TypeError, match="a third source of type float32 but got float64 at"):
        node(tg.MLCSelectionLayer(), (2,), (2,), (2,), dtypes=["bool", "float32", "float64"])
    with pytest.raises(ValueError, match=r"expected shapes that broadcast .* at layer"):
        node(tg.MLCSelectionLayer(), (2,), (2,), (3,), dtypes=["bool", "float32", "float32"])
    for make in (gather, lambda dimension: tg.MLCSplitLayer(split_count=1, dimension=dimension)):
        with pytest.raises(ValueError, match="dimension of at least 0 but got -1"):
            make(dimension=-1)


@pytest.mark.parametrize(
    "name", ["split the batch", "gather slices of the batch", "gather elements", "select all"]
)
def test_other_batch_is_refused(name):
    case = next(c for c in CASES if c.name == name)
    run = Inference(case, "reference", "float32")
    full = case.sources[0].shape[0]
    with pytest.raises(ValueError, match=rf"expected batch size {full}, .*layer \d+ '\w+'"):
        run(*[s[:1] for s in case.sources], batch_size=1)
    assert run(*case.sources).shape == case.expected(*case.sources).shape


def compiled(build, device="reference", **inputs):
    """An inference graph over declared inputs of these (shape, dtype); call it with arrays."""
    tensors = {name: empty(*given) for name, given in inputs.items()}
    graph = tg.MLCGraph()
    build(graph, **tensors)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs(tensors)
    inference.compile(device=device)

    def run(batch_size=0, **data):
        return inference.execute(
            inputs_data=data, batch_size=batch_size, options="synchronous"
        ).result

    run.inference = inference
    run.tensors = tensors
    return run


def gather_elements(graph, x, indices):
    graph.gather(1, source=x, indices=indices)


@everywhere
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_indices_are_inputs(device, dtype):
    run = compiled(gather_elements, device, x=((3, 4), "float32"), indices=((3, 2), dtype))
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for batch in (3, 2, 1):
        indices = RNG.integers(0, 4, (batch, 2)).astype(dtype)
        found = run(x=x[:batch], indices=indices, batch_size=batch)
        np.testing.assert_array_equal(found, np.take_along_axis(x[:batch], indices, 1))


@everywhere
def test_rows_of_a_table_by_a_batch_of_indices(device):
    """A constant table is no batch: any number of its rows may be picked."""
    table = np.arange(10, dtype=np.float32).reshape(5, 2)
    run = compiled(
        lambda graph, indices: graph.gather(0, source=constant(table), indices=indices),
        device,
        indices=((4,), "int32"),
    )
    for rows in ([4, 0, 4, 1], [2]):
        indices = np.array(rows, np.int32)
        np.testing.assert_array_equal(run(indices=indices, batch_size=len(rows)), table[rows])


@everywhere
def test_conditions_are_inputs(device):
    run = compiled(
        lambda graph, c, x: graph.select([x, constant(np.zeros(1, np.float32))], condition=c),
        device,
        c=((3, 4), "bool"),
        x=((3, 4), "float32"),
    )
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    for batch in (3, 1):
        condition = RNG.integers(0, 2, (batch, 4)) > 0
        found = run(c=condition, x=x[:batch], batch_size=batch)
        np.testing.assert_array_equal(found, np.where(condition, x[:batch], 0))
    with pytest.raises(TypeError, match="expected bool for input 'c' but got int8"):
        run(c=np.ones((3, 4), np.int8), x=x)


def scatter_elements(graph, x, indices):
    graph.scatter(
        1, source=constant(np.ones((3, 2), np.float32)), indices=indices, copy_from=x,
        reduction_type="sum",
    )  # fmt: skip


@everywhere
@pytest.mark.parametrize("build", [gather_elements, scatter_elements])
@pytest.mark.parametrize("value", [-1, 4, 2**31 + 1, 2**40 + 1, 1 - 2**40])
def test_indices_of_a_narrower_type(device, build, value):
    """Integers that fit are converted; no others become an index that they are not."""
    run = compiled(build, device, x=((3, 4), "float32"), indices=((3, 2), "int32"))
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    indices = np.array([[0, 1], [3, 2], [1, 0]])
    found = run(x=x, indices=indices)
    np.testing.assert_array_equal(found, run(x=x, indices=indices.astype(np.int32)))
    indices[1, 1] = value
    is_int32 = abs(value) < 2**31
    error, text = (ValueError, f"got {value} at") if is_int32 else (TypeError, "out of its range")
    with pytest.raises(error, match=text):
        run(x=x, indices=indices)


@everywhere
@pytest.mark.parametrize(
    ("at", "value"), [((0, 1), 4), ((2, 0), -1), ((1, 1), 2**40), ((0, 0), -(2**40))]
)
def test_indices_out_of_range(device, at, value):
    run = compiled(gather_elements, device, x=((3, 4), "float32"), indices=((3, 2), "int64"))
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    indices = np.zeros((3, 2), np.int64)
    wrong = indices.copy()
    wrong[at] = value
    message = (
        rf"\[indices 'indices'\] expected an index from 0 to 3 but got {value} "
        rf"at \({at[0]}, {at[1]}\)"
    )
    with pytest.raises(ValueError, match=message):
        run(x=x, indices=wrong)
    with pytest.raises(ValueError, match=message):
        run.inference.bind_and_write_data({"indices": wrong}, for_inputs=run.tensors)
    np.testing.assert_array_equal(run(x=x, indices=indices), x[:, [0, 0]])


def test_indices_that_are_the_tensors_own_data_are_checked():
    x, indices = empty((2, 3), "float32"), constant([0, 3])
    graph = tg.MLCGraph()
    graph.gather(1, source=x, indices=indices)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x, "i": indices})
    inference.compile(device="cpu")
    data = {"x": np.eye(2, 3, dtype=np.float32)}
    for _ in range(2):
        with pytest.raises(ValueError, match="index from 0 to 2 but got 3"):
            inference.execute(inputs_data=data, options="synchronous")
    data["i"] = np.array([0, 2])
    assert inference.execute(inputs_data=data, options="synchronous")


@everywhere
def test_constant_indices_out_of_range(device):
    indices = constant([0, 3])
    indices.label = "chosen"
    x = empty((2, 3), "float32")
    graph = tg.MLCGraph()
    graph.gather(1, source=x, indices=indices)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    for _ in range(2):
        with pytest.raises(
            ValueError, match=r"\[indices 'chosen'\] .* 0 to 2 but got 3 at \(1,?\)"
        ):
            inference.compile(device=device)
    indices.bind_and_write_data(np.array([2, 0]))
    inference.compile(device=device)
    data = {"x": np.array([[1, 2, 3], [4, 5, 6]], np.float32)}

    def run():
        return inference.execute(inputs_data=data, options="synchronous").result

    np.testing.assert_array_equal(run(), [[3, 1], [6, 4]])
    indices.bind_and_write_data(np.array([-1, 0]))
    for _ in range(2):
        with pytest.raises(ValueError, match=r"\[indices 'chosen'\] .* but got -1 at \(0,?\)"):
            run()
    indices.bind_and_write_data(np.array([1, 1]))
    np.testing.assert_array_equal(run(), [[2, 2], [5, 5]])


def test_the_smallest_range_counts():
    def build(graph, x, y, indices):
        joined = [
            graph.gather(1, source=x, indices=indices),
            graph.gather(1, source=y, indices=indices),
        ]
        graph.concatenate(joined, dimension=1)

    run = compiled(build, x=((2, 5), "float32"), y=((2, 3), "float32"), indices=((2, 2), "int32"))
    with pytest.raises(ValueError, match="index from 0 to 2 but got 3"):
        run(
            x=np.zeros((2, 5), np.float32),
            y=np.zeros((2, 3), np.float32),
            indices=np.full((2, 2), 3, np.int32),
        )
