"""User gradients: results consumed outside the graph, gradients made by the caller."""

from typing import Any

import numpy as np
import pytest
from networks import Network, array, dense, read

import traingraph as tg


def split_network(dtype: str, device: str, optimizer: Any) -> tuple[Network, Any, Any]:
    """The network without a loss, which is left to the caller."""
    network = Network(dtype)
    training = tg.MLCTrainingGraph(graph_objects=[network.graph], optimizer=optimizer)
    training.add_inputs({"x": network.x})
    gradient = training.allocate_user_gradient(network.result)
    training.compile(device=device)
    return network, training, gradient


@pytest.mark.parametrize(
    ("device", "dtype", "bound"), [("reference", "float64", 1e-13), ("cpu", "float32", 1e-6)]
)
def test_a_loss_in_numpy_trains_as_one_inside(device: str, dtype: str, bound: float) -> None:
    whole = Network(dtype)
    inside = whole.training(tg.MLCSGDOptimizer(learning_rate=0.5))
    inside.compile(device=device)
    outside, training, gradient = split_network(
        dtype, device, tg.MLCSGDOptimizer(learning_rate=0.5)
    )
    assert gradient.descriptor.shape == outside.result.descriptor.shape
    for _ in range(5):
        inside.execute(inputs_data=whole.data, loss_labels_data=whole.labels, options="synchronous")
        training.bind_and_write_data(outside.data, for_inputs={"x": outside.x})
        training.execute_forward(options="synchronous")
        difference = read(outside.result) - outside.labels["y"]
        training.bind_and_write_data(
            {"g": (2 * difference / difference.size).astype(dtype)}, for_inputs={"g": gradient}
        )
        training.execute_gradient(options="synchronous")
        training.execute_optimizer_update(options="synchronous")
    inside.synchronize_updates()
    training.synchronize_updates()
    for mine, theirs in zip(outside.parameters(), whole.parameters(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=bound)


def test_it_adds_to_the_gradient_from_inside() -> None:
    network = Network()
    training = network.training()
    gradient = training.allocate_user_gradient(network.h2)
    training.compile(device="reference")
    network.feed(training)
    training.execute_forward(options="synchronous")
    outside = array((6, 4), 20)
    gradient.bind_and_write_data(outside)  # the tensor's own call serves as well
    training.execute_gradient(options="synchronous")
    d_h1 = (network.gradients()["h2"] + outside) * (1 - read(network.h2) ** 2)
    np.testing.assert_allclose(
        training.gradient_data(for_parameter=network.fc1.weights, layer=network.fc1),
        d_h1.T @ network.data["x"],
        atol=1e-12,
    )


def test_one_slot_per_tensor() -> None:
    network = Network()
    training = network.training()
    gradient = training.allocate_user_gradient(network.h2)
    assert training.allocate_user_gradient(network.h2) == gradient
    assert training.allocate_user_gradient(network.h1) != gradient


def test_after_compile_the_graph_compiles_again() -> None:
    network = Network()
    training = network.training()
    training.compile(device="reference")
    training.execute(
        inputs_data=network.data, loss_labels_data=network.labels, options="synchronous"
    )
    gradient = training.allocate_user_gradient(network.result)
    network_gradient = np.zeros((6, 3))
    with pytest.raises(ValueError, match="expected execute_forward and execute_gradient"):
        training.execute(
            inputs_data=network.data, loss_labels_data=network.labels, options="synchronous"
        )
    network.feed(training)
    training.execute_forward(options="synchronous")
    training.bind_and_write_data({"g": network_gradient}, for_inputs={"g": gradient})
    training.execute_gradient(options="synchronous")


def test_it_must_be_written_since_the_last_forward() -> None:
    network, training, gradient = split_network("float64", "reference", None)
    training.bind_and_write_data(network.data, for_inputs={"x": network.x})
    training.execute_forward(options="synchronous")
    missing = r"expected user gradient of '.*result' to be written since the last execute_forward"
    with pytest.raises(ValueError, match=missing):
        training.execute_gradient(options="synchronous")
    training.bind_and_write_data({"g": np.ones((6, 3))}, for_inputs={"g": gradient})
    training.execute_gradient(options="synchronous")
    training.execute_gradient(options="synchronous")  # the same forward pass again
    training.execute_forward(options="synchronous")
    with pytest.raises(ValueError, match=missing):
        training.execute_gradient(options="synchronous")


def test_wrong_gradients() -> None:
    _, training, gradient = split_network("float64", "reference", None)
    with pytest.raises(ValueError, match=r"expected shape \(6, 3\) but got \(3, 6\)"):
        training.bind_and_write_data({"g": np.ones((3, 6))}, for_inputs={"g": gradient})
    with pytest.raises(ValueError, match="of this graph but got tensor"):
        training.bind_and_write_data(
            {"g": np.ones(2)}, for_inputs={"g": tg.MLCTensor(shape=[2], data_type="float64")}
        )


def test_only_results_have_one() -> None:
    network = Network()
    training = network.training()
    with pytest.raises(ValueError, match="expected a tensor that a layer of this graph computes"):
        training.allocate_user_gradient(network.x)


def test_steps_in_flight_keep_their_own_gradients() -> None:
    """Written again before an earlier step has run, each step sees its own."""
    expected = None
    for options in ("synchronous", "none"):
        network, training, gradient = split_network(
            "float64", "reference", tg.MLCSGDOptimizer(learning_rate=0.1)
        )
        last = None
        for k in range(8):
            training.bind_and_write_data({"x": array((6, 5), 30 + k)}, for_inputs={"x": network.x})
            training.execute_forward(options=options)
            training.bind_and_write_data({"g": array((6, 3), 50 + k)}, for_inputs={"g": gradient})
            training.execute_gradient(options=options)
            last = training.execute_optimizer_update(options=options)
        last.wait()
        training.synchronize_updates()
        if expected is None:
            expected = network.parameters()
        for mine, theirs in zip(network.parameters(), expected, strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_of_a_vector_that_has_no_batch() -> None:
    """Axis 0 of the vector is its one feature, and not a batch of one."""
    x, weights = tg.MLCTensor(shape=[1], data_type="float64"), array((3, 1), 21)
    descriptor = tg.MLCConvolutionDescriptor(
        kernel_sizes=(1, 1), input_feature_channel_count=1, output_feature_channel_count=3
    )
    layer = tg.MLCFullyConnectedLayer(weights=tg.MLCTensor(data=weights), descriptor=descriptor)
    graph = tg.MLCGraph()
    result = graph.node(layer, source=x)
    training = tg.MLCTrainingGraph(graph_objects=[graph])
    training.add_inputs({"x": x})
    gradient = training.allocate_user_gradient(result)
    training.compile(device="reference")
    training.bind_and_write_data({"x": np.ones(1)}, for_inputs={"x": x})
    training.execute_forward(options="synchronous")
    outside = array((3,), 22)
    training.bind_and_write_data({"g": outside}, for_inputs={"g": gradient})
    training.execute_gradient(options="synchronous")
    found = training.gradient_data(for_parameter=layer.weights, layer=layer)
    np.testing.assert_allclose(found.ravel(), outside, atol=1e-12)


def lstm_with_states(dtype: str, device: str) -> tuple[Any, ...]:
    """x (4, 6, 3) to an output (4, 6, 5) and states (1, 1, 4, 5), and the same of each."""
    gates = [
        [tg.MLCTensor(data=array(shape, seed + k, dtype)) for k in range(4)]
        for seed, shape in ((1, (5, 3)), (5, (5, 5)), (9, (5,)))
    ]
    descriptor = tg.MLCLSTMDescriptor(input_size=3, hidden_size=5, result_mode="output_and_states")
    layer = tg.MLCLSTMLayer(
        descriptor=descriptor, input_weights=gates[0], hidden_weights=gates[1], biases=gates[2]
    )
    x, graph = tg.MLCTensor(shape=[4, 6, 3], data_type=dtype), tg.MLCGraph()
    graph.node(layer, source=x)
    training = tg.MLCTrainingGraph(graph_objects=[graph])
    training.add_inputs({"x": x})
    slots = [training.allocate_user_gradient(t) for t in graph.result_tensors(layer)]
    training.compile(device=device)
    return x, gates[0][0], layer, training, slots


@pytest.mark.parametrize(("device", "dtype"), [("reference", "float64"), ("cpu", "float32")])
@pytest.mark.parametrize("size", [0, 4], ids=["of the arrays", "given"])
def test_gradients_of_other_extents_are_bound_in_one_call(
    device: str, dtype: str, size: int
) -> None:
    """They add up as one after another."""
    x, weights, layer, training, slots = lstm_with_states(dtype, device)
    data = array((4, 6, 3), 20, dtype)
    given = [array(tuple(slot.descriptor.shape), 30 + k, dtype) for k, slot in enumerate(slots)]
    total = np.zeros(weights.descriptor.shape)
    for k in (0, 1, 2, None):
        training.bind_and_write_data({"x": data}, for_inputs={"x": x})
        training.execute_forward(options="synchronous")
        arrays = {
            f"g{j}": array_ if k in (j, None) else np.zeros_like(array_)
            for j, array_ in enumerate(given)
        }
        tensors = {f"g{j}": slot for j, slot in enumerate(slots)}
        training.bind_and_write_data(arrays, for_inputs=tensors, batch_size=size)
        training.execute_gradient(options="synchronous")
        found = training.gradient_data(for_parameter=weights, layer=layer)
        if k is not None:
            total += found
    assert np.abs(total).max() > 0.1
    np.testing.assert_allclose(found, total, rtol=1e-4 if dtype == "float32" else 1e-12)
    # Beside the next input, too, and none is taken for another.
    training.bind_and_write_data({"x": data, **arrays}, for_inputs={"x": x, **tensors})
    swapped = {"g0": slots[1], "g1": slots[0]}
    with pytest.raises(tg.ShapeError, match=r"'g0'\] expected shape \(1, 1, 4, 5\) but got \(4, 6"):
        training.bind_and_write_data({"g0": given[0], "g1": given[1]}, for_inputs=swapped)


@pytest.mark.parametrize("device", ["reference", "cpu"])
@pytest.mark.parametrize("together", [False, True])
def test_of_the_parts_of_a_batch(device: str, together: bool) -> None:
    """A split on axis 0 fixes the batch, and its parts have fewer rows."""
    x, graph = tg.MLCTensor(shape=[4, 3]), tg.MLCGraph()
    layer = dense(2, 3, 1, "float32")
    parts = graph.split(graph.node(layer, source=x), split_section_lengths=[1, 3], dimension=0)
    training = tg.MLCTrainingGraph(graph_objects=[graph])
    training.add_inputs({"x": x})
    slots = [training.allocate_user_gradient(part) for part in parts]
    training.compile(device=device)
    data = array((4, 3), 20, "float32")
    outside = [array((1, 2), 21, "float32"), array((3, 2), 22, "float32")]
    training.bind_and_write_data({"x": data}, for_inputs={"x": x})
    training.execute_forward(options="synchronous")
    arrays, tensors = dict(zip("ab", outside, strict=True)), dict(zip("ab", slots, strict=True))
    if together:
        training.bind_and_write_data(arrays | {"x": data}, for_inputs=tensors | {"x": x})
    else:
        for name in "ab":
            training.bind_and_write_data({name: arrays[name]}, for_inputs={name: tensors[name]})
    training.execute_gradient(options="synchronous")
    np.testing.assert_allclose(
        training.gradient_data(for_parameter=layer.weights, layer=layer),
        np.concatenate(outside).T @ data, rtol=1e-5, atol=1e-6,
    )  # fmt: skip
    with pytest.raises(tg.ShapeError, match=r"'b'\] expected shape \(3, 2\) but got \(2, 2\)"):
        training.bind_and_write_data({"b": outside[1][:2]}, for_inputs={"b": tensors["b"]})
    training.bind_and_write_data({"x": data[:3]}, for_inputs={"x": x})
    with pytest.raises(tg.InvalidArgument, match=r"batch size 4, which layer \d+ 'Split' fixes"):
        training.execute_forward(options="synchronous")


def test_a_gradient_has_the_rows_of_its_forward_pass() -> None:
    """Of the tensor before any, and whatever input is bound beside it."""
    network, training, gradient = split_network("float64", "reference", None)
    for rows in (6, 2, 9):
        x, outside = array((rows, 5), 40, "float64"), array((rows, 3), 41, "float64")
        training.bind_and_write_data({"x": x}, for_inputs={"x": network.x})
        training.execute_forward(options="synchronous")
        other = array((4, 5), 42, "float64")
        training.bind_and_write_data(
            {"x": other, "g": outside}, for_inputs={"x": network.x, "g": gradient}
        )
        training.execute_gradient(options="synchronous")
        h1 = np.tanh(x @ network.fc1.weights.data.T + network.fc1.biases.data)
        np.testing.assert_allclose(
            training.gradient_data(for_parameter=network.fc2.weights, layer=network.fc2),
            outside.T @ h1, atol=1e-12,
        )  # fmt: skip
        with pytest.raises(tg.ShapeError, match=rf"'g'\] expected shape \({rows}, 3\) but got"):
            training.bind_and_write_data({"g": np.ones((3, 3))}, for_inputs={"g": gradient})
