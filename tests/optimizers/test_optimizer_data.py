"""What an optimizer keeps per parameter, as the caller reads and sets it."""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from train_line import Line

import traingraph as tg

Bind = Callable[[Line, list], bool]


def by_tensor(line: Line, data: list) -> bool:
    return line.weight.bind_optimizer_data(data)


def by_graph(line: Line, data: list) -> bool:
    return line.training.bind_optimizer_data(data, device_data=None, tensor=line.weight)


BINDS = pytest.mark.parametrize("bind", [by_tensor, by_graph])
DEVICES = pytest.mark.parametrize("device", ["cpu", "reference"])


def momentum() -> tg.MLCOptimizer:
    return tg.MLCSGDOptimizer(learning_rate=0.01, momentum_scale=0.5)


def adam(**keywords: bool) -> tg.MLCOptimizer:
    return tg.MLCAdamOptimizer(descriptor=tg.MLCOptimizerDescriptor(learning_rate=0.01), **keywords)


def rmsprop(**keywords: object) -> tg.MLCOptimizer:
    return tg.MLCRMSPropOptimizer(
        descriptor=tg.MLCOptimizerDescriptor(learning_rate=0.01), **keywords
    )


@DEVICES
@pytest.mark.parametrize(
    ("optimizer", "count"),
    [
        (tg.MLCSGDOptimizer(learning_rate=0.01), 0),
        (momentum(), 1),
        (adam(), 2),
        (adam(uses_amsgrad=True), 3),
        (rmsprop(), 1),
        (rmsprop(is_centered=True), 2),
        (rmsprop(is_centered=True, momentum_scale=0.5), 3),
        (None, 0),
    ],
)
def test_buffers_per_parameter(optimizer: tg.MLCOptimizer, count: int, device: str) -> None:
    """One each, zero before the first update and none of them after it."""
    line = Line(optimizer, device)
    assert line.weight.optimizer_data == []
    assert line.weight.optimizer_device_data == []
    line.compile()
    buffers = line.weight.optimizer_data
    assert [buffer.tolist() for buffer in buffers] == [[[0.0]]] * count
    assert len(line.weight.optimizer_device_data) == count
    line.step()
    assert all(buffer.item() != 0 for buffer in line.weight.optimizer_data)
    # Copies: nothing that is written here reaches the optimizer.
    for buffer in buffers:
        buffer[:] = 99
    assert all(abs(buffer.item()) < 99 for buffer in line.weight.optimizer_data)


@DEVICES
@BINDS
@pytest.mark.parametrize("when", ["before compile", "after compile", "between steps"])
def test_bound_values_are_what_the_next_update_uses(when: str, bind: Bind, device: str) -> None:
    line = Line(momentum(), device)
    data = np.array([[3.0]], np.float32)
    if when == "before compile":
        assert bind(line, [data]) is True
        line.compile()
    else:
        line.compile()
        if when == "between steps":
            line.step()
        assert bind(line, [data]) is True
    assert line.weight.optimizer_data[0].item() == 3
    # It is a copy from the moment of the call.
    data[:] = 99
    assert line.weight.optimizer_data[0].item() == 3
    before, gradient = line.value(), line.gradient()
    line.step()
    velocity = 0.5 * 3 + 0.01 * gradient
    assert line.weight.optimizer_data[0].item() == pytest.approx(velocity, rel=1e-5)
    assert line.value() == pytest.approx(before - velocity, rel=1e-5)
    # Used once: the next update goes on from there.
    gradient = line.gradient()
    line.step()
    expected = 0.5 * velocity + 0.01 * gradient
    assert line.weight.optimizer_data[0].item() == pytest.approx(expected, rel=1e-5)


@DEVICES
def test_order_of_buffers(device: str) -> None:
    """First moment, second moment, running maximum."""
    line = Line(adam(uses_amsgrad=True), device).compile()
    numbers = [np.full((1, 1), value, np.float32) for value in (0.5, 4.0, 9.0)]
    by_tensor(line, numbers)
    assert [buffer.item() for buffer in line.weight.optimizer_data] == [0.5, 4, 9]
    gradient = line.gradient()
    line.step()
    first, second = 0.9 * 0.5 + 0.1 * gradient, 0.999 * 4 + 0.001 * gradient**2
    found = [buffer.item() for buffer in line.weight.optimizer_data]
    assert found == pytest.approx([first, second, max(9, second)], rel=1e-5)


def test_a_parameter_takes_data_for_its_tensor() -> None:
    line = Line(momentum())
    tg.MLCTensorParameter(tensor=line.weight, optimizer_data=[np.array([[2.0]], np.float32)])
    assert [buffer.item() for buffer in line.weight.optimizer_data] == [2]
    line.compile()
    assert [buffer.item() for buffer in line.weight.optimizer_data] == [2]


@BINDS
def test_the_number_of_arrays_is_checked(bind: Bind) -> None:
    line = Line(adam()).compile()
    line.step()
    before = line.value()
    bind(line, [np.zeros((1, 1), np.float32)])
    with pytest.raises(ValueError, match=r"'w'\] expected optimizer data for 2 buffers"):
        line.step()
    assert line.value() == before
    bind(line, [np.zeros((1, 1), np.float32)] * 2)
    line.step()
    assert line.value() != before
    for wrong, error in (
        (np.zeros((2, 1), np.float32), ValueError),
        (np.zeros((1, 1), np.complex64), TypeError),
    ):
        with pytest.raises(error, match="'w'"):
            bind(line, [wrong, wrong])
    line.step()


def test_another_optimizer_has_buffers_of_its_own() -> None:
    line = Line(momentum()).compile()
    line.step()
    line.training.compile_optimizer(adam())
    # Bound between attaching and the execution that compiles.
    by_tensor(line, [np.full((1, 1), value, np.float32) for value in (0.25, 0.5)])
    gradient = line.gradient()
    line.step()
    found = [buffer.item() for buffer in line.weight.optimizer_data]
    expected = [0.9 * 0.25 + 0.1 * gradient, 0.999 * 0.5 + 0.001 * gradient**2]
    assert found == pytest.approx(expected, rel=1e-5)


def test_two_graphs_with_different_optimizers_over_one_tensor() -> None:
    one = Line(momentum())
    two = Line(adam(), parameter=one)
    one.compile().step()
    two.compile()
    by_graph(one, [np.array([[3.0]], np.float32)])
    gradient = one.gradient()
    one.step()
    velocity = 0.5 * 3 + 0.01 * gradient
    state = one.training.state()
    assert state["optimizer.1.FullyConnected.weights.momentum"].item() == pytest.approx(velocity)
    moments = two.training.state()
    assert moments["optimizer.1.FullyConnected.weights.first_moment"].item() == 0


def test_moments_move_with_the_parameter_to_another_device() -> None:
    line, stays = Line(adam()).compile(), Line(adam()).compile()
    for each in (line, stays):
        each.step()
        each.step()
    before = [buffer.item() for buffer in line.weight.optimizer_data]
    line.training.compile(device="reference")
    assert [buffer.item() for buffer in line.weight.optimizer_data] == before
    line.step()
    stays.step()
    assert line.value() == pytest.approx(stays.value(), rel=1e-6)


def test_copies_take_the_host_copy() -> None:
    line = Line(momentum()).compile()
    line.step()
    assert line.weight.copy().optimizer_data == []
    assert line.weight.synchronize_optimizer_data() is True
    (copied,) = line.weight.copy().optimizer_data
    assert copied.item() == line.weight.optimizer_data[0].item() != 0


def test_layouts_other_than_the_tensors() -> None:
    """Moments are bound and read in the tensor's order, however a kernel keeps its weights."""
    numbers = np.random.default_rng(0)
    x = tg.MLCTensor(shape=[2, 32, 8, 8])
    y = tg.MLCTensor(shape=[2, 32, 8, 8])
    weights = tg.MLCTensor(data=numbers.normal(size=(1, 1024, 3, 3)).astype(np.float32))
    graph = tg.MLCGraph()
    graph.node(
        tg.MLCConvolutionLayer(
            weights=weights,
            descriptor=tg.MLCConvolutionDescriptor(
                kernel_sizes=(3, 3), input_feature_channel_count=32,
                output_feature_channel_count=32,
            ),
        ),
        source=x,
    )  # fmt: skip
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
        optimizer=adam(),
    )
    training.add_inputs({"x": x}, loss_labels={"y": y})
    moments = [numbers.uniform(size=(1, 1024, 3, 3)).astype(np.float32) for _ in range(2)]
    weights.bind_optimizer_data(moments)
    training.compile(device="cpu")
    for buffer, moment in zip(weights.optimizer_data, moments, strict=True):
        np.testing.assert_array_equal(buffer, moment)
    before = weights.data.copy()
    zeros = np.zeros((2, 32, 8, 8), np.float32)
    # Without a gradient the update is lr_t m / sqrt(v), element by element.
    training.execute(inputs_data={"x": zeros}, loss_labels_data={"y": zeros}, options="synchronous")
    training.synchronize_updates()
    first, second = 0.9 * moments[0], 0.999 * moments[1]
    rate = 0.01 * np.sqrt(1 - 0.999) / (1 - 0.9)
    np.testing.assert_allclose(
        weights.data, before - rate * first / np.sqrt(second), rtol=1e-4, atol=1e-6
    )
    for buffer, expected in zip(weights.optimizer_data, (first, second), strict=True):
        np.testing.assert_allclose(buffer, expected, rtol=1e-6)
    weights.bind_optimizer_data(moments)
    training.execute(inputs_data={"x": zeros}, loss_labels_data={"y": zeros}, options="synchronous")
    for buffer, expected in zip(weights.optimizer_data, (first, second), strict=True):
        np.testing.assert_allclose(buffer, expected, rtol=1e-6)


@DEVICES
@BINDS
@pytest.mark.parametrize(
    ("optimizer", "slots"),
    [
        (adam, ["first_moment", "second_moment"]),
        (
            partial(adam, uses_amsgrad=True),
            ["first_moment", "second_moment", "maximum_second_moment"],
        ),
        (rmsprop, ["mean_square"]),
    ],
)
def test_means_of_squares_below_0_are_refused(
    optimizer: Callable[[], tg.MLCOptimizer], slots: list[str], bind: Bind, device: str
) -> None:
    """Before anything trains or is saved with them: no load would take them."""
    for slot in slots:
        line = Line(optimizer(), device).compile()
        line.step()
        bind(line, [np.full((1, 1), -0.5 if name == slot else 1, "f4") for name in slots])
        if slot == "first_moment":  # which has a sign
            line.step()
            continue
        text = rf"means of squares, at least 0, but got -0.5 in its optimizer data '{slot}'"
        for call in (line.step, line.training.state):
            with pytest.raises(tg.InvalidArgument, match=text):
                call()


READING = """
from train_line import Line

import traingraph as tg

line = Line(tg.MLCSGDOptimizer(learning_rate=0.01, momentum_scale=0.5)).compile()
seen = []
for _ in range(50):
    line.start(completion_handler=lambda *result: seen.append(result))
    assert len(line.weight.optimizer_data) == 1
    assert len(line.weight.optimizer_device_data) == 1
    line.training.state()
assert len(seen) == 50
"""


def test_reading_while_steps_with_handlers_are_in_flight() -> None:
    """The handlers need the interpreter: a reader that held it would wait for ever."""
    done = subprocess.run(
        [sys.executable, "-c", READING],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
