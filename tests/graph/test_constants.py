"""Compiling with constants: they are folded, frozen and readable."""

import numpy as np
import pytest
from networks import array, read

import traingraph as tg


def graph(dtype: str = "float64") -> tuple:
    """y = x * tanh(c * c)"""
    c = tg.MLCTensor(shape=[1, 3], data_type=dtype)
    x = tg.MLCTensor(shape=[2, 3], data_type=dtype)
    g = tg.MLCGraph()
    square = g.node(tg.MLCArithmeticLayer(operation="multiply"), sources=[c, c])
    scale = g.node(tg.MLCActivationLayer.tanh(), source=square)
    y = g.node(tg.MLCArithmeticLayer(operation="multiply"), sources=[x, scale])
    inference = tg.MLCInferenceGraph(graph_objects=[g])
    inference.add_inputs({"x": x})
    return inference, c, x, scale, y


@pytest.mark.parametrize(("device", "dtype"), [("reference", "float64"), ("cpu", "float32")])
def test_constants_are_folded(device: str, dtype: str) -> None:
    inference, c, _, _, _ = graph(dtype)
    constant = array((1, 3), 1, dtype)
    given = constant.copy()
    inference.compile(device=device, input_tensors={"c": c}, input_tensors_data={"c": given})
    given[:] = 99  # the library has its own copy
    text = inference.compiled_description()
    assert text.count("elementwise") == 1
    assert "tanh" not in text
    x = array((2, 3), 2, dtype)
    got = inference.execute(inputs_data={"x": x}, options="synchronous").result
    np.testing.assert_allclose(got, x * np.tanh(constant * constant), rtol=1e-6)


def test_without_constants_nothing_is_folded() -> None:
    inference, c, *_ = graph()
    inference.add_inputs({"c": c})
    inference.compile(device="reference")
    assert "tanh" in inference.compiled_description()


def test_folded_results_stay_readable() -> None:
    inference, c, x, scale, _ = graph()
    constant = array((1, 3), 1)
    inference.add_outputs({"scale": scale})
    inference.compile(
        device="reference", input_tensors={"c": c}, input_tensors_data={"c": constant}
    )
    out = np.zeros((1, 3))
    inference.execute(
        inputs_data={"x": array(tuple(x.descriptor.shape), 2)},
        outputs_data={"scale": out},
        options="synchronous",
    )
    np.testing.assert_allclose(out, np.tanh(constant**2), atol=1e-14)
    np.testing.assert_array_equal(read(scale), out)


def test_compiling_again_takes_new_data() -> None:
    inference, c, *_ = graph()
    x = array((2, 3), 2)
    for seed in (1, 5):
        constant = array((1, 3), seed)
        inference.compile(
            device="reference", input_tensors={"c": c}, input_tensors_data={"c": constant}
        )
        got = inference.execute(inputs_data={"x": x}, options="synchronous").result
        np.testing.assert_allclose(got, x * np.tanh(constant**2), atol=1e-14)


def test_mistakes() -> None:
    inference, c, x, _, _ = graph()
    with pytest.raises(ValueError, match="expected data for constant 'c' but got none"):
        inference.compile(device="reference", input_tensors={"c": c})
    with pytest.raises(ValueError, match="'k' but got"):
        inference.compile(device="reference", input_tensors={"k": tg.MLCTensor(shape=[1])})
    constant = array((1, 3), 1)
    inference.compile(
        device="reference",
        input_tensors={"c": c, "x": x},
        input_tensors_data={"c": constant, "x": array((2, 3), 2)},
    )
    with pytest.raises(ValueError, match="expected no data for inputs 'x'"):
        inference.execute(inputs_data={"x": array((2, 3), 2)}, options="synchronous")


def test_constant_parameters_are_not_updated() -> None:
    weights = tg.MLCTensor(data=array((3, 3), 1))
    x = tg.MLCTensor(shape=[2, 3], data_type="float64")
    y = tg.MLCTensor(shape=[2, 3], data_type="float64")
    layer = tg.MLCFullyConnectedLayer(
        weights=weights,
        descriptor=tg.MLCConvolutionDescriptor(
            kernel_sizes=(3, 3), input_feature_channel_count=3, output_feature_channel_count=3
        ),
    )
    scale = tg.MLCTensor(data=np.ones((1, 3)))
    g = tg.MLCGraph()
    h = g.node(layer, source=x)
    g.node(tg.MLCArithmeticLayer(operation="multiply"), sources=[h, scale])
    training = tg.MLCTrainingGraph(
        graph_objects=[g],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=0.1),
    )
    training.add_inputs({"x": x}, loss_labels={"y": y})
    training.compile(device="reference", input_tensors={"w": weights})
    before = np.array(weights.data)
    for _ in range(3):
        training.execute(
            inputs_data={"x": array((2, 3), 5)},
            loss_labels_data={"y": array((2, 3), 6)},
            options="synchronous",
        )
    training.synchronize_updates()
    np.testing.assert_array_equal(weights.data, before)
