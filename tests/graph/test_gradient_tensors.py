"""Handles of gradients: gradient_tensor, source_gradient_tensors, result_gradient_tensors,
and COMPUTE_ALL_GRADIENTS."""

import networks
import numpy as np
import pytest
from networks import Network, read

import traingraph as tg
from harness import assert_near

DEVICES = [("reference", "float64", 1e-12), ("cpu", "float32", 2e-6)]


@pytest.mark.parametrize(("device", "dtype", "bound"), DEVICES)
def test_gradients_of_inputs_need_the_option(device: str, dtype: str, bound: float) -> None:
    network = Network(dtype)
    training = network.training()
    training.compile(options="compute_all_gradients", device=device)
    gradient = training.gradient_tensor(for_input=network.x)
    assert gradient == training.gradient_tensor(network.x)
    assert gradient.descriptor.shape == network.x.descriptor.shape
    network.feed(training)
    training.execute_forward(options="synchronous")
    with pytest.raises(ValueError, match="expected a gradient pass"):
        read(gradient)
    training.execute_gradient(options="synchronous")
    assert_near(read(gradient), network.gradients()["x"], bound)
    gradient.synchronize_data()
    np.testing.assert_array_equal(gradient.data, read(gradient))


def test_without_the_option_there_is_none() -> None:
    network = Network()
    training = network.training()
    training.compile(device="reference")
    network.feed(training)
    training.execute_forward(options="synchronous")
    training.execute_gradient(options="synchronous")
    assert "gradient of 'x'" not in str(training.memory_plan())
    with pytest.raises(ValueError, match="COMPUTE_ALL_GRADIENTS"):
        read(training.gradient_tensor(for_input=network.x))


@pytest.mark.parametrize(("device", "dtype", "bound"), DEVICES)
def test_gradients_of_layers_as_outputs(device: str, dtype: str, bound: float) -> None:
    network = Network(dtype)
    training = network.training(tg.MLCSGDOptimizer(learning_rate=0.0))
    (d_h1,) = training.source_gradient_tensors(network.tanh)
    (d_h2,) = training.result_gradient_tensors(network.tanh)
    training.add_outputs({"d_h1": d_h1, "d_h2": d_h2, "h1": network.h1})
    training.compile(device=device)
    expected = network.gradients()
    outputs = {"d_h1": np.zeros((6, 4), dtype), "d_h2": np.zeros((6, 4), dtype)}
    network.feed(training)
    training.execute_forward(options="synchronous", outputs_data={"h1": np.zeros((6, 4), dtype)})
    training.execute_gradient(options="synchronous", outputs_data=outputs)
    for name, key in (("d_h1", "h1"), ("d_h2", "h2")):
        assert_near(outputs[name], expected[key], bound)
        outputs[name][:] = 0
    # A full step writes forward results and gradients alike.
    training.execute(
        inputs_data=network.data,
        loss_labels_data=network.labels,
        outputs_data=outputs,
        options="synchronous",
    )
    for name, key in (("d_h1", "h1"), ("d_h2", "h2")):
        assert_near(outputs[name], expected[key], bound)
        assert_near(read(d_h1), expected["h1"], bound)


def test_outputs_of_another_pass_list_the_right_ones() -> None:
    network = Network()
    training = network.training()
    training.add_outputs({"dx": training.gradient_tensor(network.h1), "result": network.result})
    training.compile(device="reference")
    network.feed(training)
    room = np.zeros((6, 4))
    with pytest.raises(ValueError, match="expected outputs of 'result' but got 'dx'"):
        training.execute_forward(options="synchronous", outputs_data={"dx": room})
    training.execute_forward(options="synchronous")
    with pytest.raises(ValueError, match="expected outputs of 'dx' but got 'result'"):
        training.execute_gradient(options="synchronous", outputs_data={"result": np.zeros((6, 3))})
    training.execute_gradient(options="synchronous", outputs_data={"dx": room})
    assert_near(room, network.gradients()["h1"], 1e-12)


def test_debugged_layers_keep_results_and_gradients() -> None:
    network = Network("float32")
    network.tanh.is_debugging_enabled = True
    training = network.training(tg.MLCSGDOptimizer(learning_rate=0.0))
    training.compile(options="debug_layers", device="cpu")
    training.execute(
        inputs_data=network.data, loss_labels_data=network.labels, options="synchronous"
    )
    expected = network.gradients()
    assert_near(read(training.source_gradient_tensors(network.tanh)[0]), expected["h1"], 2e-6)
    assert_near(read(training.result_gradient_tensors(network.tanh)[0]), expected["h2"], 2e-6)
    x, w1, b1 = network.data["x"], *network.parameters()[:2]
    assert_near(read(network.h2), np.tanh(x @ w1.T + b1), 2e-6)
    with pytest.raises(ValueError, match="is not computed"):
        read(training.source_gradient_tensors(network.fc1)[0])


def test_a_smaller_batch_fills_the_first_rows() -> None:
    network = Network()
    training = network.training()
    training.compile(options="compute_all_gradients", device="reference")
    training.bind_and_write_data(
        {"x": network.data["x"][:2], "y": network.labels["y"][:2]},
        for_inputs={"x": network.x, "y": network.y},
        batch_size=2,
    )
    training.execute_forward(batch_size=2, options="synchronous")
    training.execute_gradient(batch_size=2, options="synchronous")
    got = np.full((6, 5), 9.0)
    training.gradient_tensor(network.x).copy_data_from_device_memory(got)
    network.data = {"x": network.data["x"][:2]}
    network.labels = {"y": network.labels["y"][:2]}
    assert_near(got[:2], network.gradients()["x"], 1e-12)
    np.testing.assert_array_equal(got[2:], 9.0)


def test_stopped_gradients_are_not_computed() -> None:
    network = Network()
    training = network.training()
    training.stop_gradient([network.h2])
    training.compile(device="reference")
    network.feed(training)
    training.execute_forward(options="synchronous")
    training.execute_gradient(options="synchronous")
    with pytest.raises(ValueError, match="is not computed"):
        training.gradient_data(for_parameter=network.fc1.weights, layer=network.fc1)
    assert training.gradient_data(for_parameter=network.fc2.weights, layer=network.fc2).any()


def test_an_output_that_no_gradient_reaches() -> None:
    network = Network()
    training = network.training()
    training.stop_gradient([network.h2])
    training.add_outputs({"d_h1": training.gradient_tensor(network.h1)})
    with pytest.raises(ValueError, match=r"'d_h1'.*nothing flows"):
        training.compile(device="reference")


def test_stopping_at_a_foreign_tensor() -> None:
    network = Network()
    training = network.training()
    training.stop_gradient([tg.MLCTensor(shape=[2])])
    with pytest.raises(ValueError, match=r"\[stop_gradient\] expected a tensor of this graph"):
        training.compile(device="reference")


def test_foreign_tensors_and_layers() -> None:
    network = Network()
    training = network.training()
    with pytest.raises(ValueError, match="expected a tensor of this graph"):
        training.gradient_tensor(for_input=tg.MLCTensor(shape=[2]))
    assert training.source_gradient_tensors(tg.MLCActivationLayer.relu()) == []
    assert training.result_gradient_tensors(tg.MLCActivationLayer.relu()) == []


def test_gradients_through_a_tensor_read_twice() -> None:
    network = Network()
    total = network.graph.node(
        tg.MLCArithmeticLayer(operation="add"), sources=[network.result, network.result]
    )
    training = network.training()
    training.add_outputs({"d": training.gradient_tensor(network.result)})
    training.compile(device="reference")
    network.feed(training)
    training.execute_forward(options="synchronous")
    got = np.zeros((networks.ROWS, networks.OUTPUTS))
    training.execute_gradient(options="synchronous", outputs_data={"d": got})
    expected = 2 * 2 * (read(total) - network.labels["y"]) / got.size
    assert_near(got, expected, 1e-12)


def repeated(device: str, dtype: str, times: int) -> list[np.ndarray]:
    """What that many gradient passes after one forward pass give, and the weights after an update.

    Of layers that are so large that the memory of values may be used again.
    """
    x, y = (tg.MLCTensor(shape=[16, 64], data_type=dtype) for _ in range(2))
    weights, stack = [], []
    for k in range(4):
        full = networks.dense(64, 64, 2 * k, dtype)
        weights += [full.weights, full.biases]
        stack += [full, tg.MLCActivationLayer.tanh(), tg.MLCDropoutLayer(rate=0.25, seed=k)]
    graph = tg.MLCGraph()
    tg.sequential(graph, x, stack)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="sum"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=0.125),
    )
    training.add_inputs({"x": x}, loss_labels={"y": y})
    training.compile(options="compute_all_gradients", device=device)
    data = {name: networks.array((16, 64), seed, dtype) for name, seed in (("x", 20), ("y", 21))}
    training.bind_and_write_data(data, for_inputs={"x": x, "y": y})
    training.execute_forward(options="synchronous")
    for _ in range(times):
        training.execute_gradient(options="synchronous")
    found = [read(training.gradient_tensor(x))]
    training.execute_optimizer_update(options="synchronous")
    training.synchronize_updates()
    return found + [np.array(weight.data) for weight in weights]


@pytest.mark.parametrize(("device", "dtype"), [row[:2] for row in DEVICES])
def test_gradients_may_be_computed_again(device: str, dtype: str) -> None:
    """The forward pass and its masks stay, and nothing is added up."""
    once = repeated(device, dtype, 1)
    for times in (2, 3):
        for one, again in zip(once, repeated(device, dtype, times), strict=True):
            np.testing.assert_array_equal(again, one)
