"""Comparisons and logical operations: every type, every pair of shapes that broadcast, and NaN."""

import numpy as np
import pytest

import traingraph as tg
from harness import empty, everywhere, node
from limits import pairs

RELATIONS = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "greater": np.greater,
    "less_or_equal": np.less_equal,
    "greater_or_equal": np.greater_equal,
}
LOGICAL = {
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_nand": lambda x, y: ~(x & y),
    "logical_nor": lambda x, y: ~(x | y),
    "logical_xor": np.logical_xor,
}
SHAPES = [
    ((4, 3), (4, 3)),
    ((2, 3, 4, 5), (2, 3, 4, 5)),
    ((2, 3), (3,)),
    ((2, 1), (1, 3)),
    ((3, 1, 5), (3, 4, 1)),
    ((2, 3, 7, 5), (1, 3, 1, 1)),
    ((2, 3, 4), (1,)),
    ((37, 131), (37, 131)),
    ((1025,), (1,)),
]
TYPES = ["float32", "float64", "int8", "uint8", "int32", "int64", "bool"]


def compare(operation, arrays, device):
    """The result of a layer over arrays."""
    graph = tg.MLCGraph()
    sources = [empty(a.shape, a.dtype.name) for a in arrays]
    result = graph.node(tg.MLCComparisonLayer(operation=operation), sources=sources)
    assert result.descriptor.data_type == tg.MLCDataType.BOOLEAN
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({f"x{k}": t for k, t in enumerate(sources)})
    inference.compile(device=device)
    data = {f"x{k}": a for k, a in enumerate(arrays)}
    found = inference.execute(inputs_data=data, options="synchronous").result
    assert found.dtype == np.bool_
    return found


def few(shape, dtype, seed):
    """Numbers of which many are equal."""
    numbers = np.random.default_rng(seed).integers(0, 3, shape)
    return numbers.astype(dtype)


def half(array, dtype):
    """Numbers of few bits in a type that NumPy may not have: its bytes."""
    if dtype == "float16":
        return array.astype(np.float16)
    return (array.view(np.uint32) >> 16).astype(np.uint16).tobytes()


def test_every_operation_is_covered():
    names = {one.name.lower() for one in tg.MLCComparisonOperation}
    assert names == {*RELATIONS, *LOGICAL, "logical_not"}


@everywhere
@pytest.mark.parametrize("operation", RELATIONS)
@pytest.mark.parametrize("dtype", TYPES)
def test_relations(operation, dtype, device):
    for a, b in SHAPES:
        x, y = few(a, dtype, 1), few(b, dtype, 2)
        np.testing.assert_array_equal(
            compare(operation, [x, y], device), RELATIONS[operation](x, y)
        )


@everywhere
@pytest.mark.parametrize("operation", RELATIONS)
def test_infinities_and_nan(operation, device):
    x, y = (np.append(a, np.float32([np.nan, np.nan, 1])) for a in pairs("float32"))
    y[-1] = np.nan
    np.testing.assert_array_equal(compare(operation, [x, y], device), RELATIONS[operation](x, y))


@everywhere
@pytest.mark.parametrize("operation", RELATIONS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_numbers_of_16_bits(operation, dtype, device):
    wide = [few((4, 3), "float32", seed) for seed in (1, 2)]
    x, y = (half(a, dtype) for a in wide)
    graph = tg.MLCGraph()
    sources = [empty((4, 3), dtype) for _ in range(2)]
    graph.node(tg.MLCComparisonLayer(operation=operation), sources=sources)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": sources[0], "y": sources[1]})
    inference.compile(device=device)
    found = inference.execute(inputs_data={"x": x, "y": y}, options="synchronous").result
    np.testing.assert_array_equal(found, RELATIONS[operation](*wide))


@everywhere
@pytest.mark.parametrize("operation", LOGICAL)
def test_logical_operations(operation, device):
    for a, b in SHAPES:
        x, y = few(a, bool, 1), few(b, bool, 2)
        np.testing.assert_array_equal(compare(operation, [x, y], device), LOGICAL[operation](x, y))


@everywhere
def test_logical_not(device):
    for shape, _ in SHAPES:
        x = few(shape, bool, 1)
        np.testing.assert_array_equal(compare("logical_not", [x], device), ~x)


@everywhere
def test_a_smaller_batch(device):
    graph, x = tg.MLCGraph(), empty((4, 3), "float32")
    limit = tg.MLCTensor(data=np.float32([0.5]))
    graph.node(tg.MLCComparisonLayer(operation="greater"), sources=[x, limit])
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    inference.compile(device=device)
    data = np.random.default_rng(3).uniform(0, 1, (4, 3)).astype(np.float32)
    for rows in (4, 1, 3):
        found = inference.execute(
            inputs_data={"x": data[:rows]}, batch_size=rows, options="synchronous"
        ).result
        np.testing.assert_array_equal(found, data[:rows] > 0.5)


@everywhere
def test_what_chooses_in_a_network_gets_no_gradient(device):
    """max(x, 0) by a comparison and a selection: the gradient goes through the selection alone."""
    x = np.float32([[-1, 2], [3, -4]])
    graph, source = tg.MLCGraph(), tg.MLCTensor(data=x.copy())
    zero = tg.MLCTensor(data=np.zeros((1, 1), np.float32))
    above = graph.node(tg.MLCComparisonLayer(operation="greater"), sources=[source, zero])
    graph.select(sources=[source, zero], condition=above)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="sum"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=0.25),
    )
    training.set_training_tensor_parameters([tg.MLCTensorParameter(tensor=source)])
    label = empty((2, 2), "float32")
    training.add_inputs({}, loss_labels={"t": label})
    training.compile(device=device)
    training.execute(
        inputs_data={}, loss_labels_data={"t": np.zeros((2, 2), np.float32)}, options="synchronous"
    )
    training.synchronize_updates()
    np.testing.assert_array_equal(source.data, [[-1, 1], [1.5, -4]])


def test_wrong_sources():
    layer = tg.MLCComparisonLayer
    with pytest.raises(ValueError, match=r"\(2, 3\) and \(2, 4\) at layer"):
        node(layer(operation="less"), (2, 3), (2, 4))
    with pytest.raises(TypeError, match="one type but got float32 and int32 at layer"):
        node(layer(operation="equal"), (2, 3), (2, 3), dtypes=["float32", "int32"])
    for operation in [*LOGICAL, "logical_not"]:
        count = 1 if operation == "logical_not" else 2
        with pytest.raises(
            TypeError, match=r"\[Compare Logical .*of bool but got float32 at layer"
        ):
            node(layer(operation=operation), *[(2, 3)] * count)
    with pytest.raises(TypeError, match="one type but got bool and int8"):
        node(layer(operation="logical_or"), (2, 3), (2, 3), dtypes=["bool", "int8"])
    with pytest.raises(ValueError, match="expected 2 sources but got 1"):
        node(layer(operation="equal"), (2, 3))
    with pytest.raises(ValueError, match="expected 1 source but got 2"):
        node(layer(operation="logical_not"), (2, 3), (2, 3), dtype="bool")
    with pytest.raises(ValueError, match='"not_equal"'):
        layer(operation="same")
