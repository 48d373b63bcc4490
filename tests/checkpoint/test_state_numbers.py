"""Numbers that stand in a file or a dictionary are checked as those of a program are."""

import re
from pathlib import Path

import numpy as np
import pytest
from checkpoint_network import Network, bits

import traingraph as tg

# A name, a value that no graph has, and how it is refused.
WRONG = [
    ("state.time_step", 0, "at least 1 but got 0"),
    ("state.time_step", -(2**63), f"at least 1 but got {-(2**63)}"),
    ("state.time_step", 2**63 - 1, f"at most {2**53} but got {2**63 - 1}"),
    ("state.time_step", 2**53 + 1, f"at most {2**53} but got {2**53 + 1}"),
    ("state.forward_count", -1, "at least 0 but got -1"),
    ("state.forward_count", 2**63 - 1, f"at most {2**53} but got {2**63 - 1}"),
    ("state.loss_scale", np.nan, "at least 1 but got nan"),
    ("state.loss_scale", -2, "at least 1 but got -2"),
    ("state.loss_scale", 0.5, "at least 1 but got 0.5"),
    ("state.loss_scale", 2.0**25, "at most 16777216 but got 33554432"),
    ("state.loss_scale", np.inf, "at most 16777216 but got inf"),
    ("state.good_steps", np.nan, "at least 0 but got nan"),
    ("state.good_steps", np.inf, "at most 1999 but got inf"),
    ("state.good_steps", -1, "at least 0 but got -1"),
    ("state.good_steps", 2000, "at most 1999 but got 2000"),
    ("state.good_steps", 0.5, "a whole number but got 0.5"),
]
RIGHT = [
    ("state.time_step", 2**53), ("state.forward_count", 2**53), ("state.forward_count", 0),
    ("state.random_seed", -(2**63)), ("state.loss_scale", 1), ("state.loss_scale", 2.0**24),
    ("state.good_steps", 1999), ("state.good_steps", 0),
]  # fmt: skip


@pytest.fixture(scope="module", params=["float32", "mixed_float16"])
def network(request: pytest.FixtureRequest) -> Network:
    network = Network(compile_now=False)
    network.training.compile(device="cpu", precision=request.param)
    network.steps(0, 2)
    return network


def with_number(network: Network, name: str, value: float) -> dict[str, np.ndarray]:
    state = network.training.state()
    of_scale = name in ("state.loss_scale", "state.good_steps")
    number = np.array([value], np.float32) if of_scale else np.array(value, np.int64)
    if of_scale:  # both, in a graph that scales nothing as well
        state = {"state.loss_scale": np.float32([4]), "state.good_steps": np.float32([0]), **state}
    return {**state, name: number}


def write(path: Path, state: dict[str, np.ndarray]) -> None:
    pytest.importorskip("safetensors.numpy").save_file(state, path)


@pytest.mark.parametrize(("name", "value", "text"), WRONG)
def test_a_number_that_no_graph_has_is_refused(
    tmp_path: Path, network: Network, name: str, value: float, text: str
) -> None:
    state = with_number(network, name, value)
    before = bits(network.training.state())
    with pytest.raises(tg.InvalidArgument) as raised:
        network.training.load_state(state)
    assert f"\n  '{name}': expected {text}" in str(raised.value)
    assert bits(network.training.state()) == before
    write(tmp_path / "file", state)
    with pytest.raises(tg.InvalidArgument) as raised:
        network.training.load(tmp_path / "file")
    assert f"\n  '{name}': expected {text}" in str(raised.value)
    assert bits(network.training.state()) == before


def optimizers() -> list[tg.MLCOptimizer]:
    rate = tg.MLCOptimizerDescriptor(learning_rate=0.01)
    return [
        tg.MLCAdamOptimizer(descriptor=rate, uses_amsgrad=True),
        tg.MLCRMSPropOptimizer(descriptor=rate),
    ]


@pytest.mark.parametrize("optimizer", [0, 1])
@pytest.mark.parametrize("data_type", ["float32", "float64"])
@pytest.mark.parametrize("value", [-1.0, -np.inf, -1e-30])
def test_means_of_squares_are_not_negative(
    tmp_path: Path, optimizer: int, data_type: str, value: float
) -> None:
    """The root of one would be NaN, and so the weights."""
    weights, biases = (tg.MLCTensor(data=np.ones(shape, data_type)) for shape in ((1, 2), (1, 1)))
    layer = tg.MLCFullyConnectedLayer(
        weights=weights,
        biases=biases,
        descriptor=tg.MLCConvolutionDescriptor(
            kernel_sizes=(1, 1), input_feature_channel_count=2, output_feature_channel_count=1
        ),
    )
    x, y = (tg.MLCTensor(shape=shape, data_type=data_type) for shape in ([3, 2], [3, 1]))
    graph = tg.MLCGraph()
    graph.node(layer, source=x)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
        optimizer=optimizers()[optimizer],
    )
    training.add_inputs({"x": x}, loss_labels={"y": y})
    state = training.state()
    squares = [name for name in state if name.endswith(("second_moment", "mean_square"))]
    assert len(squares) >= 2
    for name in squares:
        wrong = {**state, name: np.full_like(state[name], np.nan)}
        training.load_state(wrong)  # what a run that diverged has
        wrong[name].flat[-1] = value
        text = re.escape(f"'{name}': expected means of squares, at least 0, but got -")
        with pytest.raises(tg.InvalidArgument, match=text):
            training.load_state(wrong)
        write(tmp_path / "file", wrong)
        with pytest.raises(tg.InvalidArgument, match=text):
            training.load(tmp_path / "file")
        training.load_state(state)


@pytest.mark.parametrize(("name", "value"), RIGHT)
def test_the_ends_of_the_ranges_work(
    tmp_path: Path, network: Network, name: str, value: float
) -> None:
    """The next step counts on from there, and gives numbers."""
    state = network.training.state()
    write(tmp_path / "file", with_number(network, name, value))
    network.training.load(tmp_path / "file")
    assert np.isfinite(network.steps(0, 2)).all()
    after = network.training.state()
    assert all(np.isfinite(array).all() for array in after.values())
    if value != 2**53:
        network.training.load_state(after)
    network.training.load_state(state)


@pytest.mark.parametrize("name", ["state.time_step", "state.forward_count"])
def test_what_a_step_makes_of_the_most_is_loaded_again(network: Network, name: str) -> None:
    network.training.load_state(with_number(network, name, 2**53))
    for _ in range(2):
        network.steps(0, 1)
        state = network.training.state()
        network.training.load_state(state)
        assert bits(network.training.state()) == bits(state)
