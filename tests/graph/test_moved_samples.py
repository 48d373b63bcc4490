"""Micro-batches of graphs that move or merge the axis of the samples, and their random numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import traingraph as tg

DEVICES = pytest.mark.parametrize("device", ["cpu", "reference"])
SYNCHRONOUS = {"options": "synchronous"}
Build = Callable[[tg.MLCGraph, tg.MLCTensor], tg.MLCTensor]


def cut(g: tg.MLCGraph, x: tg.MLCTensor) -> tg.MLCTensor:
    return g.split(x, split_count=2, dimension=0)[1]


def joined(g: tg.MLCGraph, x: tg.MLCTensor) -> tg.MLCTensor:
    return g.concatenate(list(g.split(x, split_count=2, dimension=0)), dimension=0)


def picked(g: tg.MLCGraph, x: tg.MLCTensor) -> tg.MLCTensor:
    rows = tg.MLCTensor(data=np.array([2, 0, 3], np.int32))
    return g.gather(0, source=x, indices=rows)


# Over x (4, 8): what has the samples elsewhere than on an axis of their own.
MOVES: dict[str, Build] = {
    "transposed": lambda g, x: g.transpose([1, 0], source=x),
    "folded": lambda g, x: g.reshape([8, 4], source=x),
    "flat": lambda g, x: g.reshape([1, 32], source=x),
    "cut": cut,
    "cut and joined": joined,
    "picked": picked,
    "back again": lambda g, x: g.reshape([4, 8], source=g.reshape([16, 2], source=x)),
}


def dropped(g: tg.MLCGraph, x: tg.MLCTensor) -> tg.MLCTensor:
    return g.node(tg.MLCDropoutLayer(rate=0.5, seed=5), source=x)


def attended(g: tg.MLCGraph, x: tg.MLCTensor) -> tg.MLCTensor:
    """Attention whose weights are dropped, over one sequence of four features."""
    features = 4
    layer = tg.MLCMultiheadAttentionLayer(
        descriptor=tg.MLCMultiheadAttentionDescriptor(
            model_dimension=features,
            key_dimension=features,
            value_dimension=features,
            head_count=1,
            dropout=0.5,
            has_biases=False,
        ),
        weights=[tg.MLCTensor(data=np.eye(features, dtype=np.float32)) for _ in range(4)],
    )
    steps = int(np.prod(x.descriptor.shape)) // features
    sequence = g.reshape([1, steps, features], source=x)
    return g.node(layer, sources=[sequence] * 3)


class Moved:
    """y = w * random(move(x)), towards 0, in steps of `micro` micro-batches."""

    def __init__(
        self, device: str, move: Build, random: Build = dropped, micro: int = 3, loss: str = "sum"
    ) -> None:
        tg.MLCPlatform.set_rng_seed_to(1)
        self.x, graph = tg.MLCTensor(shape=[4, 8]), tg.MLCGraph()
        self.random = random(graph, move(graph, self.x))
        self.w = tg.MLCTensor(data=np.ones([1] * len(self.random.descriptor.shape), np.float32))
        multiply = tg.MLCArithmeticLayer(operation="multiply")
        result = graph.node(multiply, sources=[self.random, self.w])
        self.y = tg.MLCTensor(shape=list(result.descriptor.shape))
        self.training = tg.MLCTrainingGraph(
            graph_objects=[graph],
            loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type=loss),
            optimizer=tg.MLCAdamOptimizer(learning_rate=0.0),
        )
        self.training.add_inputs({"x": self.x}, loss_labels={"y": self.y})
        self.training.set_training_tensor_parameters([tg.MLCTensorParameter(tensor=self.w)])
        self.training.add_outputs({"random": self.random})
        self.training.micro_batches = micro
        self.training.compile(device=device)
        self.data = {"x": np.arange(1, 33, dtype=np.float32).reshape(4, 8) / 64}
        self.labels = {"y": np.zeros(result.descriptor.shape, np.float32)}

    def draw(self) -> bytes:
        out = np.empty(self.random.descriptor.shape, np.float32)
        self.training.execute(
            inputs_data=self.data,
            loss_labels_data=self.labels,
            outputs_data={"random": out},
            **SYNCHRONOUS,
        )
        return out.tobytes()

    def draws(self, count: int) -> list[bytes]:
        return [self.draw() for _ in range(count)]

    def draws_apart(self, count: int) -> list[bytes]:
        """The same by separate calls."""
        found = []
        self.training.bind_and_write_data(
            self.data | self.labels, for_inputs={"x": self.x, "y": self.y}
        )
        for k in range(count):
            out = np.empty(self.random.descriptor.shape, np.float32)
            self.training.execute_forward(outputs_data={"random": out}, **SYNCHRONOUS)
            self.training.execute_gradient(**SYNCHRONOUS)
            if (k + 1) % self.training.micro_batches == 0:
                self.training.execute_optimizer_update(**SYNCHRONOUS)
            found.append(out.tobytes())
        return found


@DEVICES
@pytest.mark.parametrize("random", [dropped, attended])
@pytest.mark.parametrize("move", MOVES)
def test_each_micro_batch_draws_its_own_numbers(device: str, move: str, random: Build) -> None:
    found = Moved(device, MOVES[move], random).draws(9)
    assert len(set(found)) == 9
    assert Moved(device, MOVES[move], random).draws_apart(9) == found


@DEVICES
@pytest.mark.parametrize("move", MOVES)
def test_the_gradient_reads_the_mask_of_its_micro_batch(device: str, move: str) -> None:
    net = Moved(device, MOVES[move])
    expected = 0.0
    for out in net.draws_apart(2):
        expected += 2 * float((np.frombuffer(out, np.float32).astype(np.float64) ** 2).sum())
    state = net.training.state()
    (name,) = [name for name in state if name.startswith("state.gradient_sum")]
    np.testing.assert_allclose(float(state[name].sum()), expected, rtol=1e-5)


@DEVICES
@pytest.mark.parametrize("cut", [1, 2])
@pytest.mark.parametrize("move", MOVES)
def test_an_unfinished_step_goes_on_from_its_file(
    device: str, move: str, cut: int, tmp_path: Any
) -> None:
    whole, half, rest = (Moved(device, MOVES[move]) for _ in range(3))
    expected = whole.draws(8)
    assert half.draws(3 + cut) == expected[: 3 + cut]
    half.training.save(tmp_path / "file")
    state = half.training.state()
    assert int(state["state.summed_micro_batches"]) == cut
    rest.training.load(tmp_path / "file")
    assert [a.tobytes() for a in rest.training.state().values()] == [
        a.tobytes() for a in state.values()
    ]
    assert rest.draws(5 - cut) == expected[3 + cut :]
    other = Moved(device, MOVES[move])
    other.training.load_state(state)
    assert other.draws(5 - cut) == expected[3 + cut :]


@DEVICES
def test_rows_are_counted_where_there_are_some(device: str) -> None:
    for move, rows in (("folded", 0), ("cut and joined", 4)):
        net = Moved(device, MOVES[move])
        net.draw()
        state = net.training.state()
        assert int(state["state.summed_rows"]) == rows
        state["state.summed_rows"] = np.array(0 if rows else 4)
        expected = "1 to 9223372036854775807 but got 0" if rows else "0 but got 4"
        with pytest.raises(tg.InvalidArgument, match=f"'state.summed_rows': expected {expected}"):
            Moved(device, MOVES[move]).training.load_state(state)


@DEVICES
@pytest.mark.parametrize("move", MOVES)
def test_the_first_micro_batch_draws_what_a_whole_step_draws(device: str, move: str) -> None:
    parts, whole = Moved(device, MOVES[move], micro=2), Moved(device, MOVES[move], micro=1)
    assert parts.draws(6)[::2] == whole.draws(3)


def of_parameter(g: tg.MLCGraph, x: tg.MLCTensor) -> tg.MLCTensor:
    """x times a parameter of which some elements are dropped."""
    held = tg.MLCTensor(data=np.ones((1, x.descriptor.shape[-1]), np.float32))
    mask = g.node(tg.MLCDropoutLayer(rate=0.5, seed=5), source=held)
    return g.node(tg.MLCArithmeticLayer(operation="multiply"), sources=[x, mask])


@DEVICES
@pytest.mark.parametrize("move", [None, *MOVES])
def test_a_dropped_parameter_has_one_mask_in_a_step(device: str, move: str | None) -> None:
    """As in one batch of all rows."""
    build = MOVES[move] if move is not None else lambda g, x: x
    found = Moved(device, build, of_parameter).draws(6)
    assert [found.index(one) for one in found] == [0, 0, 0, 3, 3, 3]


@DEVICES
def test_gradients_are_checked_amid_such_a_step(device: str) -> None:
    net = Moved(device, MOVES["transposed"])
    for _ in range(4):
        check = tg.check_gradients(net.training, net.data, net.labels)
        assert check.ok, str(check)
        net.draw()
