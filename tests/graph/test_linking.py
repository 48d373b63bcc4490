"""Linked graphs: tensors pass over, gradients pass back."""

from typing import Any

import numpy as np
import pytest
from networks import Network, array, dense

import traingraph as tg


class Linked:
    """x → fc1 → tanh in one graph, fc2 → loss in another."""

    def __init__(
        self,
        dtype: str = "float64",
        device: str = "reference",
        when: str = "before",
        precision: str = "float32",
    ):
        self.x = tg.MLCTensor(shape=[6, 5], data_type=dtype)
        self.y = tg.MLCTensor(shape=[6, 3], data_type=dtype)
        self.fc1, self.fc2 = dense(4, 5, 1, dtype), dense(3, 4, 3, dtype)
        first, second = self.first_nodes, self.second_nodes = tg.MLCGraph(), tg.MLCGraph()
        self.h2 = tg.sequential(first, self.x, [self.fc1, tg.MLCActivationLayer.tanh()])
        self.result = second.node(self.fc2, source=self.h2)
        sgd = tg.MLCSGDOptimizer
        self.first = tg.MLCTrainingGraph(graph_objects=[first], optimizer=sgd(learning_rate=0.5))
        self.second = tg.MLCTrainingGraph(
            graph_objects=[second],
            loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
            optimizer=sgd(learning_rate=0.5),
        )
        self.first.add_inputs({"x": self.x})
        self.second.add_inputs({}, loss_labels={"y": self.y})
        if when == "before":
            self.first.link([self.second])
        for graph in (self.first, self.second):
            graph.compile(options="link_graphs", device=device, precision=precision)
        if when == "after":
            self.first.link([self.second])

    def step(self, x: np.ndarray, y: np.ndarray, options: str = "synchronous") -> Any:
        rows = {"batch_size": len(x), "options": options}
        self.first.bind_and_write_data({"x": x}, for_inputs={"x": self.x}, batch_size=len(x))
        self.second.bind_and_write_data({"y": y}, for_inputs={"y": self.y}, batch_size=len(x))
        self.first.execute_forward(**rows)
        loss = self.second.execute_forward(**rows)
        self.second.execute_gradient(**rows)
        self.first.execute_gradient(**rows)
        self.second.execute_optimizer_update(options=options)
        self.first.execute_optimizer_update(options=options)
        return loss

    def parameters(self) -> list[np.ndarray]:
        for graph in (self.first, self.second):
            graph.synchronize_updates()
        layers = (self.fc1, self.fc2)
        return [np.array(p.data) for layer in layers for p in (layer.weights, layer.biases)]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("device", "dtype", "bound"), [("reference", "float64", 1e-13), ("cpu", "float32", 1e-6)]
)
def test_linked_graphs_train_as_one(device: str, dtype: str, bound: float, when: str) -> None:
    whole = Network(dtype)
    training = whole.training(tg.MLCSGDOptimizer(learning_rate=0.5))
    training.compile(device=device)
    linked = Linked(dtype, device, when)
    for rows in (6, 6, 4, 6):  # a smaller batch in between
        x, y = whole.data["x"][:rows], whole.labels["y"][:rows]
        expected = training.execute(
            inputs_data={"x": x}, loss_labels_data={"y": y}, batch_size=rows, options="synchronous"
        )
        loss = linked.step(x, y)
        np.testing.assert_allclose(loss.result, expected.result, rtol=1e-6)
    training.synchronize_updates()
    for mine, theirs in zip(linked.parameters(), whole.parameters(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=bound)


def test_asynchronous_steps_stay_in_order() -> None:
    results = []
    for options in ("synchronous", "none"):
        linked = Linked()
        for k in range(5):
            linked.step(array((6, 5), k), array((6, 3), 100 + k), options)
        results.append(linked.parameters())
    for mine, theirs in zip(*results, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_order_is_checked() -> None:
    linked = Linked()
    x, y = array((6, 5), 1), array((6, 3), 2)
    linked.second.bind_and_write_data({"y": y}, for_inputs={"y": linked.y})
    with pytest.raises(ValueError, match=r"from a linked graph.*execute it first"):
        linked.second.execute_forward(options="synchronous")
    linked.first.bind_and_write_data({"x": x}, for_inputs={"x": linked.x})
    linked.first.execute_forward(options="synchronous")
    with pytest.raises(ValueError, match=r"the gradient of tensor .* from a linked graph"):
        linked.first.execute_gradient(options="synchronous")
    linked.second.execute_forward(options="synchronous")
    linked.second.execute_gradient(options="synchronous")
    linked.first.execute_gradient(options="synchronous")
    linked.first.execute_forward(options="synchronous")
    with pytest.raises(ValueError, match=r"the gradient of tensor .* from a linked graph"):
        linked.first.execute_gradient(options="synchronous")
    with pytest.raises(ValueError, match="linked graphs send gradients"):
        linked.first.execute(inputs_data={"x": x}, options="synchronous")


def test_batches_must_agree() -> None:
    linked = Linked()
    linked.first.bind_and_write_data(
        {"x": array((3, 5), 1)}, for_inputs={"x": linked.x}, batch_size=3
    )
    linked.first.execute_forward(batch_size=3, options="synchronous")
    linked.second.bind_and_write_data({"y": array((6, 3), 2)}, for_inputs={"y": linked.y})
    with pytest.raises(ValueError, match="for batch size 6 but it was executed with 3"):
        linked.second.execute_forward(options="synchronous")


def test_the_option_is_needed() -> None:
    network, other = Network(), Network()
    training, second = network.training(), other.training()
    training.compile(device="reference")
    with pytest.raises(ValueError, match="LINK_GRAPHS"):
        training.link([second])
    training = network.training()
    training.link([second])
    with pytest.raises(ValueError, match="LINK_GRAPHS"):
        training.compile(device="reference")
    assert training.compile(options="link_graphs", device="reference")


def test_nothing_and_itself() -> None:
    training = Network().training()
    assert training.link([])
    assert training.link([training])
    training.compile(device="reference")


def test_stopped_at_the_border() -> None:
    """A reader that stops the gradient sends none, and the first graph does not wait for it."""
    linked = Linked()
    linked.second.stop_gradient([linked.h2])
    linked.first.bind_and_write_data({"x": array((6, 5), 1)}, for_inputs={"x": linked.x})
    linked.second.bind_and_write_data({"y": array((6, 3), 2)}, for_inputs={"y": linked.y})
    linked.first.execute_forward(options="synchronous")
    linked.second.execute_forward(options="synchronous")
    linked.second.execute_gradient(options="synchronous")
    before = linked.parameters()
    linked.first.execute_gradient(options="synchronous")
    linked.first.execute_optimizer_update(options="synchronous")
    np.testing.assert_array_equal(linked.parameters()[0], before[0])


def test_linked_inference() -> None:
    x = tg.MLCTensor(shape=[2, 5], data_type="float64")
    fc1, fc2 = dense(4, 5, 1, "float64"), dense(3, 4, 3, "float64")
    first, second = tg.MLCGraph(), tg.MLCGraph()
    hidden = first.node(fc1, source=x)
    second.node(fc2, source=hidden)
    one = tg.MLCInferenceGraph(graph_objects=[first])
    two = tg.MLCInferenceGraph(graph_objects=[second])
    one.add_inputs({"x": x})
    one.link([two])
    for graph in (one, two):
        graph.compile(options="link_graphs", device="reference")
    data = array((2, 5), 9)
    one.execute(inputs_data={"x": data}, options="synchronous")
    got = two.execute(inputs_data={}, options="synchronous").result
    w1, b1, w2, b2 = (np.array(p.data) for f in (fc1, fc2) for p in (f.weights, f.biases))
    np.testing.assert_allclose(got, (data @ w1.T + b1) @ w2.T + b2, atol=1e-13)


def test_exchanged_memory_is_in_the_plan() -> None:
    linked = Linked()
    linked.step(array((6, 5), 1), array((6, 3), 2))
    value, gradient = linked.first.memory_plan(), linked.second.memory_plan()
    assert value.exchange_bytes == gradient.exchange_bytes == 6 * 4 * 8
    assert [e.kind for e in value.entries].count("exchange") == 1


def test_a_released_graph_leaves_the_others() -> None:
    linked = Linked()
    linked.step(array((6, 5), 1), array((6, 3), 2))
    del linked.second
    linked.first.bind_and_write_data({"x": array((6, 5), 1)}, for_inputs={"x": linked.x})
    linked.first.execute_forward(options="synchronous")


@pytest.mark.parametrize(
    ("precision", "bound"), [("mixed_bfloat16", 2**-6), ("mixed_float16", 2**-9)]
)
def test_what_passes_over_is_float32_and_not_scaled(precision: str, bound: float) -> None:
    """Each graph scales by a number of its own, which the other one does not know."""
    exact, mixed = Linked("float32"), Linked("float32", precision=precision)
    if precision == "mixed_float16":
        state = mixed.first.state()
        state["state.loss_scale"][0] = 512
        mixed.first.load_state(state)
    data = Network("float32")
    for linked in (exact, mixed):
        linked.step(data.data["x"], data.labels["y"])
    for got, expected in zip(mixed.parameters(), exact.parameters(), strict=True):
        np.testing.assert_allclose(got, expected, rtol=0, atol=bound)
    assert mixed.first.loss_scale == (512 if precision == "mixed_float16" else None)


def test_an_overflow_skips_the_step_of_both() -> None:
    linked = Linked("float32", precision="mixed_float16")
    data = Network("float32")
    before = linked.parameters()
    linked.step(data.data["x"], data.labels["y"] * np.float32(1e4))
    for got, expected in zip(linked.parameters(), before, strict=True):
        assert got.tobytes() == expected.tobytes()
    assert linked.first.loss_scale == linked.second.loss_scale == 2**15


def handed_over(name: str, one: tg.MLCGraph, x: tg.MLCTensor) -> tg.MLCTensor:
    """What a graph over x (1, 3) gives."""
    row = tg.MLCTensor(data=array((1, 3), 4, "float32"))
    if name == "made of constants":
        return tg.sequential(one, row, [tg.MLCActivationLayer.tanh()])
    if name == "made of x":
        return tg.sequential(one, x, [tg.MLCActivationLayer.tanh()])
    rows = tg.MLCTensor(data=array((5, 3), 4, "float32"))
    return one.node(tg.MLCArithmeticLayer(operation="add"), sources=[x, rows])


@pytest.mark.parametrize("name", ["made of constants", "made of x", "one row over many"])
def test_what_follows_the_batch_follows_it_over_the_border(name: str) -> None:
    x, z = tg.MLCTensor(shape=[1, 3]), tg.MLCTensor(shape=[1, 3])
    one, other = tg.MLCGraph(), tg.MLCGraph()
    handed = handed_over(name, one, x)
    one.node(tg.MLCActivationLayer.relu(), source=x)
    sum_of = tg.MLCArithmeticLayer(operation="add")
    other.node(sum_of, sources=[z, handed])
    first = tg.MLCInferenceGraph(graph_objects=[one])
    second = tg.MLCInferenceGraph(graph_objects=[other])
    first.add_inputs({"x": x})
    second.add_inputs({"z": z})
    first.link([second])
    for graph in (first, second):
        graph.compile(options="link_graphs", device="cpu")
    for rows in (1, 4):
        data = array((rows, 3), rows, "float32")
        options = {"batch_size": rows, "options": "synchronous"}
        if name == "one row over many" and rows != 1:
            with pytest.raises(ValueError, match=r"expected batch size 1, which layer .* fixes"):
                first.execute(inputs_data={"x": data}, **options)
            continue
        first.execute(inputs_data={"x": data}, **options)
        found = second.execute(inputs_data={"z": data}, **options).result
        term = array((1, 3), 4, "float32")
        expected = data + np.tanh(data if name == "made of x" else term)
        if name == "one row over many":
            expected = data + data + array((5, 3), 4, "float32")
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_graph_without_a_batch_hands_over_what_has_the_shape() -> None:
    x, mask, z = (tg.MLCTensor(shape=shape) for shape in ([2, 3], [3], [2, 3]))
    one, other = tg.MLCGraph(), tg.MLCGraph()
    multiply, add = (tg.MLCArithmeticLayer(operation=name) for name in ("multiply", "add"))
    masked = one.node(multiply, sources=[x, mask])
    other.node(add, sources=[z, masked])
    first = tg.MLCInferenceGraph(graph_objects=[one])
    second = tg.MLCInferenceGraph(graph_objects=[other])
    first.add_inputs({"x": x, "mask": mask})
    second.add_inputs({"z": z})
    first.link([second])
    for graph in (first, second):
        graph.compile(options="link_graphs", device="cpu")
    data, kept = array((4, 3), 1, "float32"), array((3,), 2, "float32")
    first.execute(inputs_data={"x": data[:2], "mask": kept}, options="synchronous")
    found = second.execute(inputs_data={"z": data[:2]}, options="synchronous").result
    np.testing.assert_allclose(found, data[:2] + data[:2] * kept, rtol=1e-6)
    with pytest.raises(tg.ShapeError, match=r"graph of shape \(4, 3\) but got \(2, 3\)"):
        second.execute(inputs_data={"z": data}, batch_size=4, options="synchronous")


@pytest.mark.parametrize("device", ["cpu"])
@pytest.mark.parametrize("training", [True, False])
def test_a_declared_tensor_is_given_or_linked(device: str, training: bool) -> None:
    """What a linked graph computes, declared as an input of its reader: the later one is read."""
    linked = Linked("float32", device)
    front, back = linked.first, linked.second
    if not training:
        front, back = (
            tg.MLCInferenceGraph(graph_objects=[nodes])
            for nodes in (linked.first_nodes, linked.second_nodes)
        )
        front.add_inputs({"x": linked.x})
        front.link([back])
    back.add_inputs({"h2": linked.h2})
    for graph in (front, back):
        graph.compile(options="link_graphs", device=device)
    x, given = array((6, 5), 4, "float32"), array((6, 4), 5, "float32")
    front.bind_and_write_data({"x": x}, for_inputs={"x": linked.x})
    if training:
        labels = {"y": array((6, 3), 6, "float32")}
        back.bind_and_write_data(labels, for_inputs={"y": linked.y})

    def forward(graph: Any, data: Any = None) -> None:
        if training:
            graph.execute_forward(options="synchronous")
        else:
            graph.execute(inputs_data=data or {}, options="synchronous")

    def check(hidden: np.ndarray, data: Any = None) -> None:
        forward(back, data)
        result = np.empty((6, 3), np.float32)
        linked.result.copy_data_from_device_memory(result)
        expected = hidden @ linked.fc2.weights.data.T + linked.fc2.biases.data
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)

    def bind(data: np.ndarray) -> None:
        back.bind_and_write_data({"h2": data}, for_inputs={"h2": linked.h2})

    with pytest.raises(tg.InvalidArgument, match="has not been executed"):
        forward(back)
    bind(given)
    check(given)
    computed = np.tanh(x @ linked.fc1.weights.data.T + linked.fc1.biases.data)
    forward(front, {"x": x})
    check(computed)
    if not training:
        check(given, {"h2": given})
        check(computed)
        return
    bind(given[::-1].copy())
    check(given[::-1])
    forward(front)
    check(computed)
    before = np.array(linked.fc1.weights.data)
    for graph in (back, front):
        graph.execute_gradient()
    for graph in (back, front):
        graph.execute_optimizer_update()
    linked.parameters()
    assert not np.array_equal(before, linked.fc1.weights.data)


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("how", ["execute_forward", "predict"])
def test_a_value_that_was_computed_again_is_not_trained_on(device: str, how: str) -> None:
    """The gradient pass would read it for the one of its forward pass."""
    networks = [Linked("float32", device) for _ in range(2)]
    x, y = array((6, 5), 1, "float32"), array((6, 3), 2, "float32")
    if how == "predict":  # which a graph that is trained itself refuses there
        for net in networks:
            for parameter in (net.fc1.weights_parameter, net.fc1.biases_parameter):
                parameter.is_updatable = False
            net.second.stop_gradient([net.h2])

    def forward(net: Linked) -> None:
        net.first.bind_and_write_data({"x": x}, for_inputs={"x": net.x})
        net.second.bind_and_write_data({"y": y}, for_inputs={"y": net.y})
        net.first.execute_forward(options="synchronous")
        net.second.execute_forward(options="synchronous")

    def back(net: Linked) -> None:
        net.second.execute_gradient(options="synchronous")
        net.second.execute_optimizer_update(options="synchronous")

    for net in networks:
        forward(net)
    back(networks[0])
    net = networks[1]
    if how == "predict":
        net.first.predict(3 * x)
    else:
        net.first.bind_and_write_data({"x": 3 * x}, for_inputs={"x": net.x})
        net.first.execute_forward(options="synchronous")
    with pytest.raises(
        tg.InvalidArgument,
        match=r"\[execute_gradient\] expected tensor '.*' from a linked graph as execute_forward "
        r"has read it, but that graph was executed since; start again with execute_forward",
    ):
        net.second.execute_gradient(options="synchronous")
    forward(net)
    back(net)
    for mine, theirs in zip(net.parameters(), networks[0].parameters(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
