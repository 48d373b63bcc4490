"""Tensors of 16 bits that the caller brings: widened to float32 where they come in."""

import numpy as np
import pytest

import traingraph as tg


def fully_connected(weights, **more):
    outputs, inputs = weights.shape
    return tg.MLCFullyConnectedLayer(
        weights=tg.MLCTensor(data=weights),
        descriptor=tg.MLCConvolutionDescriptor(
            kernel_sizes=(1, 1),
            input_feature_channel_count=inputs,
            output_feature_channel_count=outputs,
        ),
        **more,
    )


def dense(inputs, outputs, seed=1):
    weights = np.random.default_rng(seed).normal(size=(outputs, inputs)).astype(np.float32)
    return fully_connected(weights, biases=tg.MLCTensor(data=np.zeros(outputs, np.float32)))


class Network:
    def __init__(self, x_type, y_type, precision="float32", options="none", device="reference"):
        self.x = tg.MLCTensor(shape=[4, 6], data_type=x_type)
        self.y = tg.MLCTensor(shape=[4, 3], data_type=y_type)
        self.weights = tg.MLCTensor(shape=[4, 3], data_type=y_type)
        graph = tg.MLCGraph()
        self.layer = dense(6, 3)
        result = graph.node(self.layer, source=self.x)
        assert result.descriptor.data_type is tg.MLCDataType.FLOAT32
        self.training = tg.MLCTrainingGraph(
            graph_objects=[graph],
            loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
            optimizer=tg.MLCSGDOptimizer(learning_rate=0.1),
        )
        self.training.add_inputs(
            {"x": self.x}, loss_labels={"y": self.y}, loss_label_weights={"w": self.weights}
        )
        self.training.compile(options=options, device=device, precision=precision)

    def step(self, data, options="synchronous"):
        x, y, w = data
        return self.training.execute(
            inputs_data={"x": x},
            loss_labels_data={"y": y},
            loss_label_weights_data={"w": w},
            options=options,
        ).result


def arrays(dtype):
    rng = np.random.default_rng(0)
    shapes = [(4, 6), (4, 3), (4, 3)]
    return [np.abs(rng.normal(size=s)).astype(np.float16).astype(dtype) for s in shapes]


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_results_are_those_of_the_same_numbers_in_float32(device):
    half, full = (
        Network("float16", "float16", device=device),
        Network("float32", "float32", device=device),
    )
    for _ in range(2):
        a, b = half.step(arrays(np.float16)), full.step(arrays(np.float32))
        assert a.dtype == np.float32
        assert a.tobytes() == b.tobytes()
    assert half.layer.weights.data.tobytes() == full.layer.weights.data.tobytes()


def test_types_may_differ_between_inputs():
    network = Network("float16", "float32")
    x, y, w = arrays(np.float32)
    expected = Network("float32", "float32").step([x, y, w])
    assert network.step([x.astype(np.float16), y, w]).tobytes() == expected.tobytes()


def test_bfloat16_comes_in_too():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x, y, w = (a.astype(ml_dtypes.bfloat16) for a in arrays(np.float32))
    expected = Network("float32", "float32").step([a.astype(np.float32) for a in (x, y, w)])
    assert Network("bfloat16", "bfloat16").step([x, y, w]).tobytes() == expected.tobytes()


def test_the_same_16_bits_need_no_cast():
    def narrowing(x_type):
        network = Network(x_type, "float32", "mixed_float16")
        x = next(
            line
            for line in network.training.compiled_description().splitlines()
            if line.startswith("bound") and "'x'" in line
        ).split()[1]
        (product,) = [
            line
            for line in network.training.compiled_description().splitlines()
            if "= matmul(" in line and f"({x}," in line
        ] or [""]
        return network, product

    assert narrowing("float16")[1]
    assert not narrowing("float32")[1]


# Two roundings to float16 of float32's gradient, or four to the type of the mixed precision.
@pytest.mark.parametrize(
    ("precision", "bound"),
    [("float32", 2 * 2.0**-11), ("mixed_float16", 4 * 2.0**-11), ("mixed_bfloat16", 4 * 2.0**-8)],
)
def test_gradients_of_inputs_have_their_type(precision, bound):
    network = Network("float16", "float32", precision, options="compute_all_gradients")
    x, y, w = arrays(np.float32)
    network.step([x.astype(np.float16), y, w])
    handle = network.training.gradient_tensor(for_input=network.x)
    assert handle.descriptor.data_type is tg.MLCDataType.FLOAT16
    got = np.empty((4, 6), np.float16)
    handle.copy_data_from_device_memory(got, synchronize_with_device=False)
    exact = Network("float32", "float32", options="compute_all_gradients")
    exact.step([x, y, w])
    expected = np.empty((4, 6), np.float32)
    exact.training.gradient_tensor(for_input=exact.x).copy_data_from_device_memory(
        expected, synchronize_with_device=False
    )
    assert np.abs(got - expected).max() < bound * np.abs(expected).max()


def test_checked_runs_name_the_input():
    network = Network("float16", "float16")
    x, y, w = arrays(np.float16)
    x[1, 2] = np.inf
    with pytest.raises(tg.NumericError, match=r"'x', as it was given, has infinity at element 8"):
        network.step([x, y, w], "synchronous|check_numerics")


def test_constants_and_other_batches():
    graph = tg.MLCGraph()
    x = tg.MLCTensor(shape=[4, 6], data_type="float16")
    constant = tg.MLCTensor(data=np.arange(6, dtype=np.float16))
    summed = graph.node(tg.MLCArithmeticLayer(operation="add"), sources=[x, constant])
    graph.node(dense(6, 2), source=summed)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    inference.compile(device="reference")
    data = np.ones((2, 6), np.float16)
    result = inference.execute(inputs_data={"x": data}, batch_size=2, options="synchronous").result
    assert result.dtype == np.float32
    assert result.shape == (2, 2)


def test_evaluation_counts_labels_of_16_bits():
    def accuracy(dtype):
        network = Network(dtype, dtype)
        x, y, w = arrays(dtype)
        return network.training.evaluate({"x": x}, {"y": y}, label_weights={"w": w}, batch_size=4)

    assert accuracy("float16").loss == accuracy("float32").loss


def test_wrong_arrays_are_refused():
    network = Network("float16", "float16")
    x, y, w = arrays(np.float16)
    with pytest.raises(tg.DataTypeError, match="expected float16 for"):
        network.step([x.astype(np.complex64), y, w])
    with pytest.raises(tg.ShapeError, match=r"expected shape \(4, 6\)"):
        network.step([x[:, :5].copy(), y, w])


def with_weights(data_type, weights):
    graph = tg.MLCGraph()
    x = tg.MLCTensor(shape=[4, 6], data_type=data_type)
    graph.node(fully_connected(weights), source=x)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    return inference


def test_parameters_of_16_bits_are_refused():
    with pytest.raises(tg.DataTypeError, match=r"parameters of float32 or float64 .*float16"):
        with_weights("float32", np.zeros((3, 6), np.float16))


def test_float64_beside_16_bits_is_refused():
    with pytest.raises(tg.DataTypeError, match="one floating-point type"):
        with_weights("float16", np.zeros((3, 6)))


def test_fit_takes_them():
    def fitted(dtype):
        network = Network(dtype, dtype)
        x, y, w = (np.concatenate([a, a[::-1], a[:2]]) for a in arrays(dtype))
        network.training.fit(
            {"x": x}, {"y": y}, label_weights={"w": w}, epochs=2, batch_size=4, shuffle_seed=3
        )
        network.training.synchronize_updates()
        return network.layer.weights.data.tobytes()

    assert fitted("float16") == fitted("float32")
