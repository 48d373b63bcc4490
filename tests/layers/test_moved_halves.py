"""Numbers of 16 bits in graphs of layers that only move them, and beside layers that compute."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import traingraph as tg
from harness import empty, everywhere

TYPES = ["float16", "bfloat16"]
CONDITION = np.array([True, False, True, False])
INDICES = np.array([2, 0, 2, 2], np.int32)


def dtype_of(name: str) -> np.dtype:
    if name == "float16":
        return np.dtype(name)
    return np.dtype(pytest.importorskip("ml_dtypes").bfloat16)


def inference(x: tg.MLCTensor, graph: tg.MLCGraph, device: str, **more: Any) -> Callable[..., Any]:
    made = tg.MLCInferenceGraph(graph_objects=[graph])
    made.add_inputs({"x": x})
    made.compile(device=device, **more)
    return lambda data: made.execute(inputs_data={"x": data}, options="synchronous").result


@everywhere
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("options", ["none", "disable_layer_fusion", "debug_layers"])
def test_a_chain_keeps_all_bits(dtype: str, options: str, device: str) -> None:
    """Each pattern of 16 bits, through layers one behind the other."""
    kind = dtype_of(dtype)
    patterns = np.arange(1 << 16, dtype=np.uint16).reshape(256, 256)
    graph, x = tg.MLCGraph(), empty(patterns.shape, dtype)
    turned = graph.transpose([1, 0], source=x)
    first, second = graph.split(turned, split_count=2, dimension=1)
    joined = graph.concatenate([second, first], dimension=1)
    graph.reshape([64, 1024], source=joined)
    found = inference(x, graph, device, options=options)(patterns.view(kind))
    assert found.dtype == kind
    right = np.roll(patterns.T, 128, axis=1).reshape(64, 1024)
    np.testing.assert_array_equal(found.view(np.uint16), right)


@everywhere
@pytest.mark.parametrize("dtype", TYPES)
def test_what_computes_returns_float32(dtype: str, device: str) -> None:
    kind = dtype_of(dtype)
    data = np.linspace(-2, 2, 12).reshape(3, 4).astype(kind)
    for layer, expected in (
        (tg.MLCActivationLayer.relu(), np.maximum(data.astype(np.float32), 0)),
        (tg.MLCReductionLayer(reduction_type="max", dimension=1), None),
        (tg.MLCUpsampleLayer(shape=[9], sample_mode="linear"), None),
    ):
        graph, x = tg.MLCGraph(), empty(data.shape, dtype)
        result = graph.node(layer, source=graph.transpose([0, 1], source=x))
        assert result.descriptor.data_type is tg.MLCDataType.FLOAT32
        found = inference(x, graph, device)(data)
        assert found.dtype == np.float32
        if expected is not None:
            np.testing.assert_array_equal(found, expected)


@everywhere
@pytest.mark.parametrize("dtype", TYPES)
def test_scatter_adds_in_float32(dtype: str, device: str) -> None:
    kind = dtype_of(dtype)
    graph = tg.MLCGraph()
    sources = [empty((1, 4), dtype), empty((4,), "int32"), empty((1, 3), dtype)]
    result = graph.node(tg.MLCScatterLayer(dimension=1, reduction_type="sum"), sources=sources)
    assert result.descriptor.data_type is tg.MLCDataType.FLOAT32
    made = tg.MLCInferenceGraph(graph_objects=[graph])
    made.add_inputs(dict(zip("yix", sources, strict=True)))
    made.compile(device=device)
    y, x = np.full((1, 4), 1 / 256, kind), np.full((1, 3), 256, kind)
    found = made.execute(inputs_data={"y": y, "i": INDICES, "x": x}, options="synchronous").result
    np.testing.assert_array_equal(found, np.float32([[256 + 1 / 256, 256, 256 + 3 / 256]]))


@everywhere
@pytest.mark.parametrize("dtype", TYPES)
def test_beside_float32_they_are_widened(dtype: str, device: str) -> None:
    """As in a block whose layers' results are joined with what they read."""
    kind = dtype_of(dtype)
    data = np.linspace(-2, 2, 12).reshape(3, 4).astype(kind)
    graph, x = tg.MLCGraph(), empty(data.shape, dtype)
    result = graph.concatenate([x, graph.node(tg.MLCActivationLayer.relu(), source=x)], dimension=1)
    assert result.descriptor.data_type is tg.MLCDataType.FLOAT32
    wide = data.astype(np.float32)
    right = np.concatenate([wide, np.maximum(wide, 0)], 1)
    np.testing.assert_array_equal(inference(x, graph, device)(data), right)


def test_both_types_of_16_bits_meet_in_float32() -> None:
    graph = tg.MLCGraph()
    result = graph.concatenate([empty((2, 3), t) for t in TYPES], dimension=1)
    assert result.descriptor.data_type is tg.MLCDataType.FLOAT32


# What moves x (3, 4), and the gradient that dy of its result's shape has at x.
def back_by_index(dy: np.ndarray) -> np.ndarray:
    dx = np.zeros((3, 4))
    np.add.at(dx, (slice(None), INDICES), dy)
    return dx


MOVES: dict[str, tuple[Callable[[Any, Any], Any], Callable[[np.ndarray], np.ndarray]]] = {
    "transpose": (lambda g, x: g.transpose([1, 0], source=x), lambda dy: dy.T),
    "reshape": (lambda g, x: g.reshape([3, 2, 2], source=x), lambda dy: dy.reshape(3, 4)),
    "concatenation": (
        lambda g, x: g.concatenate([x, x], dimension=1),
        lambda dy: dy[:, :4] + dy[:, 4:],
    ),
    "slice": (
        lambda g, x: g.node(tg.MLCSliceLayer(start=[0, 1], end=[3, 3]), source=x),
        lambda dy: np.pad(dy, [(0, 0), (1, 1)]),
    ),
    "gather": (
        lambda g, x: g.node(
            tg.MLCGatherLayer(dimension=1), sources=[x, tg.MLCTensor(data=INDICES)]
        ),
        back_by_index,
    ),
    "selection": (
        lambda g, x: g.select([x, g.reshape([3, 4], source=x)],
                              condition=tg.MLCTensor(data=np.tile(CONDITION, (3, 1)))),
        lambda dy: dy,
    ),
    "padding": (
        lambda g, x: g.reshape([3, 6], source=g.node(
            tg.MLCPaddingLayer(zero_padding=[0, 0, 1, 1]), source=g.reshape([1, 3, 4], source=x)
        )),
        lambda dy: dy[:, 1:-1],
    ),
    "upsampling": (
        lambda g, x: g.node(tg.MLCUpsampleLayer(shape=[8]), source=x),
        lambda dy: dy.reshape(3, 4, 2).sum(-1),
    ),
}  # fmt: skip


def read(graph: tg.MLCTrainingGraph, tensor: tg.MLCTensor, kind: np.dtype) -> np.ndarray:
    handle = graph.gradient_tensor(for_input=tensor)
    bits = np.empty(tuple(tensor.descriptor.shape), f"u{kind.itemsize}")
    assert handle.descriptor.data_type is tensor.descriptor.data_type
    handle.copy_data_from_device_memory(bits, synchronize_with_device=False)
    return bits.view(kind)


@everywhere
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", MOVES)
def test_gradients_have_the_type_and_are_rounded_once(name: str, dtype: str, device: str) -> None:
    """Of a loss: computed in float32. Of a user's gradient: moved, and added in float32."""
    kind = dtype_of(dtype)
    build, back = MOVES[name]
    rng = np.random.default_rng(4)
    data = rng.normal(size=(3, 4)).astype(kind)

    graph, x = tg.MLCGraph(), empty((3, 4), dtype)
    moved = build(graph, x)
    assert moved.descriptor.data_type is x.descriptor.data_type
    training = tg.MLCTrainingGraph(graph_objects=[graph])
    training.add_inputs({"x": x})
    dy = training.allocate_user_gradient(moved)
    training.compile(device=device, options="compute_all_gradients")
    given = rng.normal(size=tuple(moved.descriptor.shape)).astype(kind)
    training.bind_and_write_data({"x": data}, for_inputs={"x": x})
    result = training.execute_forward(options="synchronous").result
    assert result.dtype == kind
    training.bind_and_write_data({"dy": given}, for_inputs={"dy": dy})
    training.execute_gradient(options="synchronous")
    right = back(given.astype(np.float64)).astype(np.float32).astype(kind)
    np.testing.assert_array_equal(read(training, x, kind), right)

    graph, x = tg.MLCGraph(), empty((3, 4), dtype)
    moved = build(graph, x)
    label = empty(moved.descriptor.shape, "float32")
    training = tg.MLCTrainingGraph(
        graph_objects=[graph], loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="sum")
    )
    training.add_inputs({"x": x}, loss_labels={"t": label})
    training.compile(device=device, options="compute_all_gradients")
    labels = rng.normal(size=tuple(moved.descriptor.shape)).astype(np.float32)
    training.execute(inputs_data={"x": data}, loss_labels_data={"t": labels}, options="synchronous")
    slopes = 2 * (result.astype(np.float32) - labels).astype(np.float64)
    got, right = read(training, x, kind).astype(np.float64), back(slopes)
    unit = 2.0**-11 if dtype == "float16" else 2.0**-8
    assert (np.abs(got - right) <= unit * np.abs(right) + 1e-6).all()


@everywhere
@pytest.mark.parametrize("dtype", TYPES)
def test_a_users_gradient_of_a_part_keeps_its_bits(dtype: str, device: str) -> None:
    """One part of a split has it, the other one has a loss."""
    kind = dtype_of(dtype)
    graph, x = tg.MLCGraph(), empty((2, 4), dtype)
    first, second = graph.split(x, split_count=2, dimension=1)
    target = empty((2, 2), "float32")
    graph.node(tg.MLCLossLayer.mean_squared_error(reduction_type="sum"), sources=[second, target])
    training = tg.MLCTrainingGraph(graph_objects=[graph])
    training.add_inputs({"x": x}, loss_labels={"t": target})
    dy = training.allocate_user_gradient(first)
    training.compile(device=device, options="compute_all_gradients")
    data = np.arange(8).reshape(2, 4).astype(kind)
    zeros = np.zeros((2, 2), np.float32)
    training.bind_and_write_data({"x": data, "t": zeros}, for_inputs={"x": x, "t": target})
    training.execute_forward(options="synchronous")
    given = np.array([[1 / 3, -0.0], [65000.0, 2.0**-20]]).astype(kind)
    training.bind_and_write_data({"dy": given}, for_inputs={"dy": dy})
    training.execute_gradient(options="synchronous")
    found = read(training, x, kind)
    np.testing.assert_array_equal(found[:, :2], given)
    np.testing.assert_array_equal(found[:, 2:], 2 * data[:, 2:])


@everywhere
@pytest.mark.parametrize("precision", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("dtype", TYPES)
def test_mixed_precision_computes_what_it_did(dtype: str, precision: str, device: str) -> None:
    """Moving first and widening then is widening first: products see the same numbers."""
    kind = dtype_of(dtype)
    rng = np.random.default_rng(9)
    weights = rng.normal(size=(3, 4)).astype(np.float32)
    data = rng.normal(size=(5, 4)).astype(kind)

    def step(given: np.ndarray, moves: bool) -> tuple[float, bytes, np.ndarray]:
        graph, x = tg.MLCGraph(), empty((5, 4), dtype if moves else "float32")
        h = graph.concatenate(graph.split(x, split_count=2, dimension=1)[::-1], dimension=1)
        layer = tg.MLCFullyConnectedLayer(
            weights=tg.MLCTensor(data=weights.copy()),
            descriptor=tg.MLCConvolutionDescriptor(
                kernel_sizes=(1, 1), input_feature_channel_count=4, output_feature_channel_count=3
            ),
        )
        graph.node(layer, source=h)
        training = tg.MLCTrainingGraph(
            graph_objects=[graph],
            loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
            optimizer=tg.MLCSGDOptimizer(learning_rate=0.1),
        )
        target = empty((5, 3), "float32")
        training.add_inputs({"x": x}, loss_labels={"t": target})
        training.compile(device=device, precision=precision, options="compute_all_gradients")
        loss = training.execute(
            inputs_data={"x": given}, loss_labels_data={"t": np.ones((5, 3), np.float32)},
            options="synchronous",
        ).result  # fmt: skip
        gradient = read(training, x, kind if moves else np.dtype(np.float32))
        return float(np.asarray(loss).ravel()[0]), layer.weights.data.tobytes(), gradient

    narrow, wide = step(data, True), step(data.astype(np.float32), False)
    assert narrow[:2] == wide[:2]
    np.testing.assert_array_equal(narrow[2], wide[2].astype(kind))
