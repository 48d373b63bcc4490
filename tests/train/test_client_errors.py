"""What clients rely on when a program cannot work: an error that names what is wrong."""

import numpy as np
import pytest
from client_networks import SYNCHRONOUS, descriptor, inference_of, sgd
from linear_regression import LABELS, POINTS, LinearRegression

import traingraph as tg


def test_row_24_label_data_too_short() -> None:
    network = LinearRegression(sgd())
    arguments = network.arguments()
    arguments["loss_labels_data"] = {"y": LABELS[:3]}
    with pytest.raises(ValueError, match=r"'y'.*4, 1.*3, 1"):
        network.training.execute(options=SYNCHRONOUS, **arguments)
    assert network.parameters() == (0, 0)
    assert network.step() == pytest.approx(69)  # usable after the mistake


@pytest.mark.parametrize("has_labels", [True, False])
def test_row_24_a_layer_that_is_no_loss(has_labels: bool) -> None:
    x, y = tg.MLCTensor(shape=[4, 1]), tg.MLCTensor(shape=[4, 1])
    graph = tg.MLCGraph()
    graph.node(tg.MLCActivationLayer.relu(), source=x)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph], loss_layer=tg.MLCActivationLayer.sigmoid(), optimizer=sgd()
    )
    training.add_inputs({"x": x}, loss_labels={"y": y} if has_labels else {})
    with pytest.raises(ValueError, match="expected a loss layer"):
        training.compile(options="none", device="cpu")


def test_row_24_an_empty_graph() -> None:
    for executable in (
        tg.MLCTrainingGraph(graph_objects=[tg.MLCGraph()]),
        tg.MLCInferenceGraph(graph_objects=[]),
    ):
        with pytest.raises(ValueError, match="at least one layer"):
            executable.compile(options="none", device="cpu")


def test_row_24_unknown_enum_values() -> None:
    with pytest.raises((ValueError, TypeError), match=r"(?i)mean"):
        tg.MLCLossLayer.mean_squared_error(reduction_type="average")
    with pytest.raises(ValueError, match="99"):
        tg.MLCActivationType(99)
    with pytest.raises((ValueError, TypeError), match=r"(?i)float32"):
        tg.MLCTensor(shape=[1], data_type="float31")
    network = LinearRegression(sgd())
    with pytest.raises(ValueError, match="reference"):
        network.training.compile(options="none", device="abacus")
    with pytest.raises((ValueError, TypeError), match=r"(?i)synchronous"):
        network.training.execute(options="asynchronously", **network.arguments())


def test_row_24_execution_before_any_data() -> None:
    network = LinearRegression(sgd())
    with pytest.raises(ValueError, match="'x', 'y'"):
        network.training.execute_forward(options=SYNCHRONOUS)
    with pytest.raises(ValueError, match="execute_forward"):
        network.training.execute_gradient(options=SYNCHRONOUS)
    with pytest.raises(ValueError, match="execute_gradient"):
        network.training.execute_optimizer_update(options=SYNCHRONOUS)


def test_row_24_label_bytes_too_short() -> None:
    """Never a read behind the end, whatever holds the bytes."""
    network = LinearRegression(sgd(), "cpu", "float32")
    short = LABELS.astype(np.float32).tobytes()[:-1]
    for raw in (short, bytearray(short), tg.MLCTensorData(immutable_bytes_no_copy=short)):
        arguments = network.arguments() | {"loss_labels_data": {"y": raw}}
        with pytest.raises(ValueError, match=r"'y'.*16.*15"):
            network.training.execute(options=SYNCHRONOUS, **arguments)
    assert network.step() == pytest.approx(69)


def test_row_24_data_that_a_call_leaves_out_is_not_that_of_the_call_before() -> None:
    network = LinearRegression(sgd(0.0))
    arguments = network.arguments()
    network.step()
    for missing in ("inputs_data", "loss_labels_data"):
        some = arguments | {missing: {}}
        with pytest.raises(ValueError, match="'x'" if missing == "inputs_data" else "'y'"):
            network.training.execute(options=SYNCHRONOUS, **some)
    del arguments["loss_labels_data"]
    with pytest.raises(ValueError, match="'y'"):
        network.training.execute(options="synchronous|forward_for_inference", **arguments)
    inference = inference_of(network.graph, x=network.x)
    inference.execute(inputs_data={"x": POINTS}, options=SYNCHRONOUS)
    with pytest.raises(ValueError, match="'x'"):
        inference.execute(inputs_data={}, options=SYNCHRONOUS)
    # What bind_and_write_data wrote stays until something else is given.
    network.training.bind_and_write_data({"y": LABELS + 1}, for_inputs={"y": network.y})
    for _ in range(2):
        loss = network.training.execute(options=SYNCHRONOUS, **arguments).result
        assert loss == pytest.approx(float(((LABELS + 1) ** 2).mean()))
    network.step()
    with pytest.raises(ValueError, match="'y'"):
        network.training.execute(options=SYNCHRONOUS, **arguments)


def test_row_24_unknown_names_and_layers_that_do_not_fit() -> None:
    network = LinearRegression(sgd())
    arguments = network.arguments()
    arguments["inputs_data"] = {"z": POINTS}
    with pytest.raises(ValueError, match=r"'x'.*'z'"):
        network.training.execute(options=SYNCHRONOUS, **arguments)
    graph = tg.MLCGraph()
    layer = tg.MLCConvolutionLayer(descriptor=descriptor(3, 8, (3, 3)))
    layer.label = "stem"
    with pytest.raises(ValueError, match=r"3.*4.*'stem'"):
        graph.node(layer, source=tg.MLCTensor(shape=[1, 4, 8, 8]))
