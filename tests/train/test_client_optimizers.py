"""What clients rely on about optimizers."""

import pytest
from client_networks import sgd
from linear_regression import LABELS, POINTS, LinearRegression

import traingraph as tg


def test_row_04_the_learning_rate_may_change() -> None:
    optimizer = sgd(0.05)
    network = LinearRegression(optimizer)
    network.step()
    before = network.training.compiled_description()
    optimizer.learning_rate = 0.0
    assert network.step() == pytest.approx(25.62875)
    assert network.parameters() == pytest.approx((1.45, 0.8))
    optimizer.learning_rate = 0.05
    network.step()
    assert network.parameters() == pytest.approx((2.2725, 1.3025))
    assert network.training.compiled_description() == before
    # What is already submitted keeps its rate.
    network.training.execute(**network.arguments())
    optimizer.learning_rate = 1e9
    with_old_rate = LinearRegression(sgd(0.05))
    for _ in range(3):
        with_old_rate.step()
    assert network.parameters() == pytest.approx(with_old_rate.parameters(), rel=1e-6)


def test_row_13_regularization_scale_without_a_type_is_ignored() -> None:
    plain = LinearRegression(sgd(0.05))
    ignored = LinearRegression(
        sgd(0.05, regularization_type=tg.MLCRegularizationType.NONE, regularization_scale=7.0)
    )
    applied = LinearRegression(sgd(0.05, regularization_type="L2", regularization_scale=7.0))
    for network in (plain, ignored, applied):
        network.step()
        network.step()
    assert ignored.parameters() == plain.parameters() != applied.parameters()


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_row_17_negative_rates_and_scales(device: str) -> None:
    """p -= lr (g + s p) with lr and s below zero."""
    dtype = "float64" if device == "reference" else "float32"
    network = LinearRegression(
        sgd(-0.01, regularization_type="L2", regularization_scale=-0.5), device, dtype
    )
    weight, bias = 0.0, 0.0
    for _ in range(3):
        network.step()
        error = weight * POINTS + bias - LABELS
        weight, bias = (
            weight + 0.01 * (float((2 * error * POINTS).mean()) - 0.5 * weight),
            bias + 0.01 * (float((2 * error).mean()) - 0.5 * bias),
        )
    assert network.parameters() == pytest.approx((weight, bias), rel=1e-6)


def test_row_21_one_optimizer_for_several_graphs() -> None:
    """time_step is the optimizer's: it counts the updates of all graphs that share it."""
    optimizer = tg.MLCAdamOptimizer(learning_rate=0.3)
    first, second = LinearRegression(optimizer), LinearRegression(optimizer)
    assert optimizer.time_step == 1
    for k in range(1, 4):
        first.step()
        second.step()
        assert optimizer.time_step == 2 * k + 1
    # The moments are each parameter's own: with the steps it counted, a lone graph does the same.
    alone = LinearRegression(tg.MLCAdamOptimizer(learning_rate=0.3))
    for step in (1, 3, 5):
        weight, bias = alone.parameters()
        fresh = tg.MLCAdamOptimizer(learning_rate=0.3, time_step=step)
        alone.training.compile_optimizer(fresh)
        alone.step()
    assert first.parameters() == pytest.approx(alone.parameters(), rel=1e-9)
    assert (weight, bias) != alone.parameters()
