"""Linear regression step by step, with numbers worked out by hand in float64.

Adam hides a wrong scale of the gradient, so the same network also goes by plain descent, momentum
and RMSProp.
"""

import numpy as np
import pytest
from linear_regression import LinearRegression

import traingraph as tg

# After so many updates: the loss of the next forward pass, weight, bias.
TABLES = {
    "adam": {
        0: (69, 0, 0),
        1: (56.17500, 0.300000, 0.300000),
        2: (44.74454, 0.598703, 0.598870),
        10: (1.855536, 2.755492, 2.798082),
        100: (6.21973e-4, 1.983794, 5.007171),
    },
    "sgd": {
        1: (25.62875, 1.45, 0.8),
        2: (10.9086969, 2.2725, 1.3025),
        10: (2.20277558, 3.13869737, 2.52907391),
        100: (9.60051878e-3, 2.07620341, 4.83730254),
    },
    "momentum": {
        1: (58.48915, 0.29, 0.16),
        2: (41.7462244, 0.8159, 0.4521),
        10: (23.8556635, 5.24392891, 3.40547026),
        100: (4.00609301e-4, 2.01341547, 4.99312975),
    },
    "nesterov": {
        1: (49.8145315, 0.551, 0.304),
        2: (30.2593864, 1.246289, 0.694641),
        10: (11.5750416, 4.50588908, 3.1713714),
    },
    "rmsprop": {
        2: (17.1174025, 1.54995355, 1.56846216),
        10: (1.32427192, 2.72078531, 3.09732487),
    },
}


def optimizer(name: str) -> tg.MLCOptimizer:
    return {
        "adam": lambda: tg.MLCAdamOptimizer(learning_rate=0.3),
        "sgd": lambda: tg.MLCSGDOptimizer(learning_rate=0.05),
        "momentum": lambda: tg.MLCSGDOptimizer(learning_rate=0.01, momentum_scale=0.9),
        "nesterov": lambda: tg.MLCSGDOptimizer(
            learning_rate=0.01, momentum_scale=0.9, uses_nesterov_momentum=True
        ),
        "rmsprop": lambda: tg.MLCRMSPropOptimizer(learning_rate=0.1),
    }[name]()


every_precision = pytest.mark.parametrize(
    ("device", "dtype", "relative", "absolute"),
    [
        # The table's own digits, and hyper-parameters that are float32 as ML Compute's are.
        ("reference", "float64", 2e-6, 0),
        ("reference", "float32", 1e-4, 2e-5),
        ("cpu", "float32", 1e-4, 2e-5),
    ],
)


def follow(name: str, device: str, dtype: str, relative: float, absolute: float) -> None:
    network = LinearRegression(optimizer(name), device, dtype)
    table = TABLES[name]
    for updates in range(max(table) + 1):
        weight, bias = network.parameters()
        loss = float(network.step())
        if updates in table:
            expected = pytest.approx(table[updates], rel=relative, abs=absolute)
            assert (loss, weight, bias) == expected, f"after {updates} updates"


@every_precision
def test_program_1_linear_regression_by_adam(
    device: str, dtype: str, relative: float, absolute: float
) -> None:
    follow("adam", device, dtype, relative, absolute)


@pytest.mark.parametrize("name", [name for name in TABLES if name != "adam"])
@every_precision
def test_program_3_linear_regression_by_other_rules(
    name: str, device: str, dtype: str, relative: float, absolute: float
) -> None:
    follow(name, device, dtype, relative, absolute)


@pytest.mark.parametrize("name", TABLES)
def test_separate_passes_give_the_same_bits(name: str) -> None:
    whole, split = LinearRegression(optimizer(name)), LinearRegression(optimizer(name))
    data = whole.arguments()
    for _ in range(5):
        loss = whole.step()
        split.training.bind_and_write_data(data["inputs_data"], for_inputs={"x": split.x})
        split.training.bind_and_write_data(data["loss_labels_data"], for_inputs={"y": split.y})
        assert split.training.execute_forward(options="synchronous").result == loss
        split.training.execute_gradient(options="synchronous")
        split.training.execute_optimizer_update(options="synchronous")
        assert split.parameters() == whole.parameters()


def test_program_2_adam_arrives() -> None:
    network = LinearRegression(tg.MLCAdamOptimizer(learning_rate=0.3), "cpu", "float32")
    for _ in range(500):
        network.step()
    assert network.parameters() == pytest.approx((2, 5), abs=1e-6)


def test_gradients_of_the_separate_pass() -> None:
    """d/dw mean (w x + b - y)² = -2 mean x y, d/db = -2 mean y at 0."""
    network = LinearRegression(None)
    data = network.arguments()
    for values, tensors in (
        (data["inputs_data"], {"x": network.x}),
        (data["loss_labels_data"], {"y": network.y}),
    ):
        network.training.bind_and_write_data(values, for_inputs=tensors)
    network.training.execute_forward(options="synchronous")
    for _ in range(2):  # overwritten by each call, never added up
        network.training.execute_gradient(options="synchronous")
        gradients = [
            network.training.gradient_data(for_parameter=tensor, layer=network.layer)
            for tensor in (network.layer.weights, network.layer.biases)
        ]
        np.testing.assert_allclose(np.ravel(gradients), [-29, -16], rtol=1e-12)


def test_different_batch_sizes_share_weights_and_moments() -> None:
    """Momentum over batches of 4, 3, 1 and 4 rows against the same updates written out."""
    network = LinearRegression(tg.MLCSGDOptimizer(learning_rate=0.01, momentum_scale=0.9))
    parameters, velocity = np.zeros(2), np.zeros(2)
    for rows in ([0, 1, 2, 3], [3, 1, 0], [2], [1, 0, 3, 2]):
        inputs = np.stack([np.array(rows, float), np.ones(len(rows))])
        error = parameters @ inputs - (2 * inputs[0] + 5)
        assert float(network.step(rows)) == pytest.approx((error**2).mean(), rel=1e-6)
        velocity = 0.9 * velocity + 0.01 * 2 * (inputs * error).mean(axis=1)
        parameters = parameters - velocity
        assert network.parameters() == pytest.approx(tuple(parameters), rel=1e-6)
