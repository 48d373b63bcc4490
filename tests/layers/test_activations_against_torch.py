"""The activations that PyTorch has and ML Compute has not, value and gradient beside PyTorch's."""

import numpy as np
import pytest

import traingraph as tg

torch = pytest.importorskip("torch")
NAMES = {"silu": "silu", "gelu_erf": "gelu", "mish": "mish"}
ENDS = [np.inf, -np.inf, np.nan, 1e30, -1e30, 0.0]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("device", "dtype", "bound"),
    [("reference", "float64", 1e-13), ("reference", "float32", 2e-6), ("cpu", "float32", 2e-6)],
)
def test_values_and_gradients(name, device, dtype, bound):
    x = np.append(np.linspace(-110, 110, 4401), ENDS).astype(dtype)[:, None]
    tensor = tg.MLCTensor(shape=list(x.shape), data_type=dtype)
    graph = tg.MLCGraph()
    y = graph.node(getattr(tg.MLCActivationLayer, name)(), source=tensor)
    training = tg.MLCTrainingGraph(graph_objects=[graph])
    training.add_inputs({"x": tensor})
    flow = training.allocate_user_gradient(y)
    training.compile(options="compute_all_gradients", device=device)
    training.bind_and_write_data({"x": x}, for_inputs={"x": tensor})
    training.execute_forward(options="synchronous")
    value, slope = np.empty_like(x), np.empty_like(x)
    y.copy_data_from_device_memory(value)
    flow.bind_and_write_data(np.ones_like(x))
    training.execute_gradient(options="synchronous")
    training.gradient_tensor(for_input=tensor).copy_data_from_device_memory(slope)

    wide = torch.tensor(x[: -len(ENDS)].astype(np.float64), requires_grad=True)
    right = getattr(torch.nn.functional, NAMES[name])(wide)
    right.sum().backward()
    near = {"rtol": bound, "atol": bound}
    np.testing.assert_allclose(value[: -len(ENDS)], right.detach().numpy(), **near)
    np.testing.assert_allclose(slope[: -len(ENDS)], wide.grad.numpy(), **near)
    # PyTorch's own give NaN at infinity.
    large = x[-len(ENDS) + 3, 0]
    np.testing.assert_array_equal(value[-len(ENDS) :, 0], [np.inf, 0, np.nan, large, 0, 0])
    np.testing.assert_allclose(slope[-len(ENDS) :, 0], [1, 0, np.nan, 1, 0, slope[-1, 0]])
