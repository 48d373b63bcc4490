"""Right gradients pass check_gradients, and nothing changes."""

import copy
import inspect
import pickle
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from checked_networks import (
    NETWORKS,
    Checked,
    attention,
    channels,
    convnet,
    large,
    looked_up,
    parts,
    shared,
)
from random_graphs import script
from random_graphs.drawing import draw
from random_graphs.layer import Invalid
from random_graphs.network import build, step_data
from random_graphs.numbers import numbers

import traingraph as tg
from harness import everywhere

each = pytest.mark.parametrize("build_net", NETWORKS, ids=lambda build_net: build_net.__name__)
MIXED = {"tf32": 5e-3, "mixed_float16": 1e-2, "mixed_bfloat16": 5e-2}


def bytes_of(net: Checked, path: Path) -> bytes:
    """Weights, the optimizer's buffers, running statistics, time step, random state, sums."""
    net.training.save(path)
    return path.read_bytes()


# --- right gradients -----------------------------------------------------------------------------


@each
def test_right_gradients_in_float64(build_net: Any) -> None:
    net = build_net(device="reference", dtype="float64")
    net.step()
    check = net.check()
    assert check.ok, str(check)
    assert {row.bound for row in check.rows} == {1e-7}
    assert sum(row.excluded for row in check.rows) == 0
    assert all(row.error <= row.bound for row in check.rows)


@each
@everywhere
def test_right_gradients_in_float32(build_net: Any, device: str) -> None:
    net = build_net(device=device)
    net.step()
    check = net.check()
    assert check.ok, str(check)
    assert {row.bound for row in check.rows} == {1e-4}


@pytest.mark.parametrize("precision", MIXED)
@everywhere
def test_right_gradients_in_mixed_precision(device: str, precision: str) -> None:
    for build_net in (convnet, shared, parts):
        check = build_net(device=device, precision=precision).check()
        assert check.ok, str(check)
        assert {row.bound for row in check.rows} == {MIXED[precision]}


@everywhere
def test_an_overflowing_scale_is_halved(device: str) -> None:
    """As steps do it: the graph's own scale stays."""
    net = shared(device=device, precision="mixed_float16")
    net.label_data["y"][:] = 100
    declared = {**net.inputs, **net.labels}
    net.training.bind_and_write_data({**net.data, **net.label_data}, for_inputs=declared)
    net.training.execute_forward(options="synchronous")
    net.training.execute_gradient(options="synchronous")
    first = net.graph.layers[0]
    assert not np.isfinite(net.training.gradient_data(first.weights, layer=first)).any()
    check = net.check()
    assert check.ok, str(check)
    assert net.training.loss_scale == 65536


def rows_of(check: Any) -> dict[tuple[str, str], Any]:
    return {(row.layer, row.parameter): row for row in check.rows}


def test_rows_name_what_is_trained() -> None:
    net = convnet(device="cpu")
    rows = rows_of(net.check())
    assert list(rows) == [
        ("first", "weights"), ("first", "biases"), ("BatchNormalization", "beta"),
        ("BatchNormalization", "gamma"), ("FullyConnected", "weights"),
        ("FullyConnected", "biases"),
    ]  # fmt: skip
    assert rows["first", "weights"].compared == 108
    index = rows["first", "weights"].worst_element
    assert np.empty((6, 2, 3, 3))[tuple(index)].shape == ()
    check = shared(device="cpu").check()
    assert [(row.layer, row.parameter) for row in check.rows] == [("FullyConnected", "weights")]
    net = NETWORKS[6](device="cpu")
    assert list(rows_of(net.check())) == [("MatMul", "factor")]


def test_frozen_parameters_have_no_row() -> None:
    net = Checked("cpu")
    net.graph.node(net.dense(3, 2), sources=[net.input(4, 3)], disable_update=True)
    last = net.dense(2, 2)
    last.biases_parameter.is_updatable = False
    net.add(last, to=net.graph.result_tensors(net.graph.layers[0])[0])
    net.label(4, 2)
    assert [row.parameter for row in net.compiled().check().rows] == ["weights"]


def test_large_parameters_are_sampled() -> None:
    check = large(device="reference", dtype="float64").check()
    assert [row.compared for row in check.rows] == [64 + 4, 50, 100, 2]


def test_a_gradient_of_nothing_is_measured_by_the_others() -> None:
    """The bias of attention's keys."""
    net = attention(device="cpu")
    row = next(row for row in net.check().rows if abs(row.difference) < 1e-9)
    assert row.ok
    assert row.error <= 1e-6


# --- kinks ---------------------------------------------------------------------------------------


@everywhere
def test_ties_of_a_maximum_are_excluded(device: str) -> None:
    """The two windows: four equal numbers, and four that differ."""
    net = Checked(device)
    image = tg.MLCTensor(data=np.array([[[[2, 2, 1, 3], [2, 2, 4, 5]]]], np.float32))
    net.trained = [image]
    halved = tg.MLCPoolingDescriptor(type="max", kernel_sizes=(2, 2), strides=(2, 2))
    net.add(tg.MLCPoolingLayer(descriptor=halved), to=image)
    net.label(1, 1, 1, 2)
    (row,) = net.compiled().check().rows
    assert (row.ok, row.compared, row.excluded) == (True, 4, 4)


# --- what stays as it is -------------------------------------------------------------------------


@each
@everywhere
def test_every_byte_stays(build_net: Any, device: str, tmp_path: Path) -> None:
    net = build_net(device=device)
    for _ in range(net.micro_batches + 1):  # in the middle of a step, where it has parts
        net.step()
    seed = tg.MLCPlatform.get_rng_seed()
    before = bytes_of(net, tmp_path / "state")
    net.check()
    assert bytes_of(net, tmp_path / "state") == before
    assert tg.MLCPlatform.get_rng_seed() == seed


@everywhere
def test_a_training_goes_on_as_without_it(device: str, tmp_path: Path) -> None:
    def run(checks: bool) -> tuple[bytes, list[float]]:
        tg.MLCPlatform.set_rng_seed_to(5)
        net = convnet(device=device)
        losses = []
        for k in range(5):
            if checks:
                assert net.check().ok
            if k % 2:
                losses.append(float(net.step().result))
                continue
            declared = {**net.inputs, **net.labels}
            net.training.bind_and_write_data({**net.data, **net.label_data}, for_inputs=declared)
            for call in ("forward", "gradient", "optimizer_update"):
                getattr(net.training, f"execute_{call}")(options="synchronous")
                if checks:
                    assert net.check().ok
        return bytes_of(net, tmp_path / "state"), losses

    assert run(True) == run(False)


@everywhere
def test_what_was_read_can_be_read(device: str) -> None:
    """Results and gradients of the graph's own last pass."""
    net = parts(device=device)
    result = net.graph.result_tensors(net.graph.layers[-1])[0]
    declared = {**net.inputs, **net.labels}
    net.training.bind_and_write_data({**net.data, **net.label_data}, for_inputs=declared)
    net.training.execute_forward(options="synchronous")
    net.training.execute_gradient(options="synchronous")
    first = net.graph.layers[0]

    def seen() -> tuple[bytes, bytes]:
        out = np.empty((4, 2), np.float32)
        result.copy_data_from_device_memory(out)
        return out.tobytes(), net.training.gradient_data(first.weights, layer=first).tobytes()

    before = seen()
    net.data["x"] = net.data["x"] * 2
    assert net.check().ok
    assert seen() == before


@everywhere
def test_it_waits_for_what_is_in_flight(device: str, tmp_path: Path) -> None:
    apart, together = convnet(device=device), convnet(device=device)
    for _ in range(10):
        apart.step()
    for _ in range(10):
        together.step(options="none")
    check = together.check()
    assert str(check) == str(apart.check())
    assert bytes_of(together, tmp_path / "a") == bytes_of(apart, tmp_path / "b")


def test_another_thread_may_train_meanwhile() -> None:
    net, steps = large(device="cpu"), []

    def train() -> None:
        for _ in range(20):
            steps.append(float(net.step().result))

    with ThreadPoolExecutor() as pool:
        training = pool.submit(train)
        checks = [net.check() for _ in range(5)]
        training.result()
    assert all(check.ok for check in checks), str(checks[0])
    assert len(steps) == 20
    assert steps[-1] < steps[0]


def watched(net: Checked, threads: int) -> tuple[str, int]:
    """The table, and the most threads of the process while it is made."""
    tg.set_num_threads(threads)
    done, counts = threading.Event(), [0]

    def watch() -> None:
        while not done.wait(0.001):
            counts.append(len(list(Path("/proc/self/task").glob("*"))))

    with ThreadPoolExecutor() as pool:
        watching = pool.submit(watch)
        table = str(net.check())
        done.set()
        watching.result()
    return table, max(counts)


@pytest.mark.linux
def test_threads_change_nothing() -> None:
    """Of differences that are worth several of them: runs of a millisecond."""
    net = Checked("reference", dtype="float64")
    convolution = tg.MLCConvolutionLayer(
        weights=net.parameter(8, 4, 3, 3), biases=None, descriptor=channels(4, 8, 3)
    )
    net.add(convolution, tg.MLCActivationLayer.sigmoid(), to=net.input(4, 4, 12, 12))
    net.label(4, 8, 12, 12)
    net.compiled()
    before = tg.get_num_threads()
    try:
        (one, of_one), (four, of_four) = (watched(net, threads) for threads in (1, 4))
    finally:
        tg.set_num_threads(before)
    assert one == four
    assert of_four >= of_one + 3


def test_what_was_bound_is_used() -> None:
    net = shared(device="cpu")
    once = str(net.check())
    net.training.bind_and_write_data({"x": net.data["x"]}, for_inputs=net.inputs)
    net.data = {}
    assert str(net.check()) == once
    net.step()


# --- what is refused -----------------------------------------------------------------------------


def test_a_graph_that_was_not_compiled() -> None:
    net = Checked("cpu")
    net.add(net.dense(3, 2), to=net.input(4, 3))
    training = tg.MLCTrainingGraph(graph_objects=[net.graph])
    with pytest.raises(tg.InvalidArgument, match=r"\[check_gradients\] expected a compiled graph"):
        tg.check_gradients(training, {})


def test_wrong_arguments() -> None:
    net = shared(device="cpu")
    with pytest.raises(TypeError, match="expected graph: MLCTrainingGraph but got"):
        tg.check_gradients(tg.MLCInferenceGraph(graph_objects=[]), {})
    for data, error in (
        ({"x": net.data["x"][:, :2]}, tg.ShapeError),
        ({"z": net.data["x"]}, tg.InvalidArgument),
        ({"x": net.data["x"] + 1j}, TypeError),
        ({}, tg.InvalidArgument),
    ):
        with pytest.raises(error) as checked:
            tg.check_gradients(net.training, data, net.label_data)
        with pytest.raises(error) as executed:
            net.training.execute(
                inputs_data=data, loss_labels_data=net.label_data, options="synchronous"
            )
        names = ("check_gradients", "MLCTrainingGraph.execute")
        assert str(checked.value).replace(*names) == str(executed.value)
    assert net.check().ok


def test_means_over_picks_are_no_derivatives() -> None:
    net = looked_up(scales=True, device="cpu")
    with pytest.raises(NotImplementedError, match=r"means over the picks .* at layer \d+ 'Emb"):
        net.check()


def test_graphs_without_a_loss_of_their_own() -> None:
    net = Checked("cpu")
    result = net.add(net.dense(3, 2), to=net.input(4, 3))
    training = tg.MLCTrainingGraph(graph_objects=[net.graph])
    training.add_inputs(net.inputs)
    training.compile(device="cpu")
    with pytest.raises(tg.InvalidArgument, match="expected a graph with a loss"):
        tg.check_gradients(training, net.data)
    training.allocate_user_gradient(result)
    with pytest.raises(NotImplementedError, match="without user gradients but tensor"):
        tg.check_gradients(training, net.data)
    linked = tg.MLCTrainingGraph(graph_objects=[tg.MLCGraph()])
    other = tg.MLCTrainingGraph(graph_objects=[net.graph], loss_layer=net.loss)
    other.add_inputs(net.inputs)
    other.link([linked])
    other.compile(device="cpu", options="link_graphs")
    with pytest.raises(NotImplementedError, match="on its own but it is linked"):
        tg.check_gradients(other, net.data)


def test_nothing_to_check() -> None:
    net = Checked("cpu")
    net.add(tg.MLCActivationLayer.tanh(), to=net.input(4, 2))
    with pytest.raises(tg.InvalidArgument, match="expected loss labels"):
        net.compiled().check()
    net.label(4, 2)
    with pytest.raises(tg.InvalidArgument, match="a parameter that is trained but got none"):
        net.compiled().check()


def test_a_loss_that_is_not_finite() -> None:
    net = shared(device="cpu")
    net.data["x"][0, 0] = np.nan
    with pytest.raises(FloatingPointError, match="expected a finite loss but got nan"):
        net.check()


# --- the record ----------------------------------------------------------------------------------


def test_the_table() -> None:
    check = convnet(device="cpu").check()
    lines = str(check).splitlines()
    assert lines[0].split() == [
        "layer", "parameter", "worst", "element", "gradient", "difference", "error", "bound",
        "compared", "excluded",
    ]  # fmt: skip
    assert len(lines) == 1 + len(check.rows)
    assert lines[1].startswith("first               weights    (")
    assert not any(line.endswith("wrong") for line in lines)
    assert repr(check) == "<GradientCheck of 6 parameters, ok>"
    assert repr(check.rows[0]) == "<GradientRow 'first' weights ok>"


def test_layers_of_one_label_are_told_apart() -> None:
    """By their positions, as in checkpoints."""
    x, y = tg.MLCTensor(shape=[2, 3]), tg.MLCTensor(shape=[2, 3])
    graph = tg.MLCGraph()
    descriptor = tg.MLCConvolutionDescriptor(
        kernel_sizes=(1, 1), input_feature_channel_count=3, output_feature_channel_count=3
    )
    first, last = (tg.MLCFullyConnectedLayer(descriptor=descriptor) for _ in range(2))
    tg.sequential(graph, x, [first, tg.MLCActivationLayer.tanh(), last, first])
    training = tg.MLCTrainingGraph(
        graph_objects=[graph], loss_layer=tg.MLCLossLayer.mean_squared_error("mean")
    )
    training.add_inputs({"x": x}, loss_labels={"y": y})
    training.compile(device="cpu")
    data = np.random.default_rng(1).normal(size=(2, 2, 3)).astype(np.float32)
    check = tg.check_gradients(training, {"x": data[0]}, {"y": data[1]})
    named = [f"{row.layer}.{row.parameter}" for row in check.rows]
    assert named == list(training.named_parameters())
    assert len(set(named)) == 4
    cells = [line.split()[:2] for line in str(check).splitlines()[1:]]
    assert cells == [name.rsplit(".", 1) for name in named]
    assert repr(check.rows[2]) == "<GradientRow '3.FullyConnected' weights ok>"


def test_records_can_be_copied() -> None:
    check = convnet(device="cpu").check()
    for other in (copy.copy(check), pickle.loads(pickle.dumps(check))):
        assert isinstance(other, tg.GradientCheck)
        assert str(other) == str(check)
    assert isinstance(check.rows[0], tg.GradientRow)
    with pytest.raises(AttributeError):
        check.ok = False


# --- drawn graphs --------------------------------------------------------------------------------


def checked(seed: int) -> Any:
    """Of a graph that the fuzz draws; None for one that trains nothing, or by no derivatives."""
    program = draw(Random(seed), ["reference"], True)
    program |= {"phases": False, "limit": False, "user": None, "inference": False}
    rows = next(v["shape"][0] for v in program["values"].values() if v["role"] == "input")
    lines = [f"SEED = {program['seed']}", *build(program), *script.compiling(program)]
    lines += [f"step, rows = 0, {rows}"]
    lines += [f"{part} = {{{', '.join(data)}}}" for part, data in step_data(program).items()]
    names: dict[str, Any] = {}
    text = script.HEAD + inspect.getsource(numbers) + "\n\n" + "\n".join(lines)
    exec(compile(text, f"graph {seed}", "exec"), names)
    try:
        return tg.check_gradients(
            names["training"], names["inputs"], names["labels"], names["weights"]
        )
    except (tg.InvalidArgument, NotImplementedError) as error:
        assert re.search("a parameter that is trained|means over the picks", str(error))  # noqa: PT017
        return None


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_drawn_graphs_in_float64(first: int) -> None:
    found = 0
    for seed in range(first, first + 25):
        try:
            check = checked(seed)
        except Invalid:
            continue
        if check is not None:
            found += 1
            assert check.ok, f"{seed}\n{check}"
    assert found > 5
