"""Batches smaller than the compiled one run in a program of its size: ANY_BATCH_SIZE."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from networks import ROWS as ROWS_OF_NETWORK
from networks import Network, read

import traingraph as tg
from traingraph import nn

DEVICES = ["reference", "cpu"]
ANY = tg.MLCGraphCompilationOptions.ANY_BATCH_SIZE
NONE = tg.MLCGraphCompilationOptions.NONE
ROWS = 12
SIZES = (5, 12, 1, 7, 11, 3)

Arrays = dict[str, np.ndarray]
Make = Callable[..., tg.MLCTrainingGraph]


def stack(blocks: list[Any], shape: Any, **options: Any) -> Make:
    def make(**more: Any) -> tg.MLCTrainingGraph:
        tg.MLCPlatform.set_rng_seed_to(3)
        return nn.model(blocks, input=shape, batch_size=ROWS, **options, **more)

    return make


def ppo(**more: Any) -> tg.MLCTrainingGraph:
    """The loss of reinforcement learning, with a mean over the batch inside it."""
    tg.MLCPlatform.set_rng_seed_to(3)
    x, action, gain = (
        nn.Input(6),
        nn.Input(1, name="action", data_type="int32"),
        nn.Input(1, name="gain"),
    )
    logits = nn.dense(3)(nn.dense(8, activation="tanh")(x))
    logs = nn.activation("log_softmax")(logits)
    centred = gain - nn.mean(gain, axis=0)
    loss = -nn.gather(logs, action) * centred + 0.01 * nn.sum(nn.exp(logs) * logs, axis=1)
    return nn.model(inputs=x, outputs=logits, loss=loss, batch_size=ROWS, **more)


CLASSES: dict[str, Make] = {
    "dense": stack([nn.dense(16), "relu", nn.dense(4)], 6),
    "weights": stack([nn.dense(4)], 6, weights=True),
    "dropout": stack([nn.dense(16), nn.dropout(0.4), "tanh", nn.dense(4)], 6),
    "convolution": stack(
        [nn.conv2d(4, 3), "gelu", nn.max_pool(2), nn.flatten(), nn.dense(4)], (2, 8, 8)),
    "batch norm": stack(
        [nn.conv2d(4, 3), nn.batch_norm(), "relu", nn.average_pool(2), nn.flatten(), nn.dense(4)],
        (2, 8, 8),
    ),
    "batch norm of vectors": stack([nn.dense(8), nn.batch_norm(), "relu", nn.dense(4)], 6),
    "group norm": stack([nn.conv2d(4, 3), nn.group_norm(2), nn.flatten(), nn.dense(4)], (2, 8, 8)),
    "lstm": stack([nn.lstm(8), nn.dense(4)], (7, 6)),
    "gru": stack([nn.gru(8), nn.dense(4)], (7, 6)),
    "attention": stack(
        [nn.embedding(20, 8), nn.positional_embedding(),
         nn.residual([nn.layer_norm(), nn.attention(2)]), nn.flatten(), nn.dense(4)], 7),
    "causal attention": stack(
        [nn.attention(2, causal=True, dropout=0.2), nn.flatten(), nn.dense(4)], (7, 6)),
}  # fmt: skip


def data_of(name: str, rows: int, seed: int) -> tuple[Arrays, Arrays, Arrays]:
    rng = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {
        "convolution": (2, 8, 8), "batch norm": (2, 8, 8), "group norm": (2, 8, 8),
        "lstm": (7, 6), "gru": (7, 6), "attention": (7,), "causal attention": (7, 6),
    }  # fmt: skip
    shape = (rows, *shapes.get(name, (6,)))
    x = rng.normal(size=shape).astype(np.float32)
    if name == "attention":
        x = rng.integers(0, 20, shape).astype(np.int32)
    if name == "ppo":
        labels = {"action": rng.integers(0, 3, (rows, 1)).astype(np.int32),
                  "gain": rng.normal(size=(rows, 1)).astype(np.float32)}  # fmt: skip
    else:
        labels = {"y": rng.integers(0, 4, rows).astype(np.int32)}
    weights = {"w": rng.uniform(0, 2, rows).astype(np.float32)} if name == "weights" else {}
    return {"x": x}, labels, weights


def steps(
    name: str, device: str, sizes: tuple[int, ...], **more: Any
) -> tuple[list[float], Arrays]:
    """The losses, and all that has been trained, running statistics too."""
    model = {**CLASSES, "ppo": ppo}[name](
        optimizer=nn.sgd(0.1, momentum=0.9), device=device, **more
    )
    losses = []
    for k, rows in enumerate(sizes):
        inputs, labels, weights = data_of(name, rows, k)
        result = model.execute(
            inputs_data=inputs, loss_labels_data=labels, loss_label_weights_data=weights or None,
            options="synchronous",
        ).result  # fmt: skip
        losses.append(float(result))
    return losses, model.state()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", [*CLASSES, "ppo"])
def test_steps_are_those_of_a_program_of_each_size(name: str, device: str) -> None:
    losses, state = steps(name, device, SIZES, any_batch_size=True)
    expected, right = steps(name, device, SIZES)
    # Losses are sums of terms of about 1, of either sign.
    np.testing.assert_allclose(losses, expected, rtol=2e-6, atol=2e-7)
    for key, array in right.items():
        np.testing.assert_allclose(state[key], array, rtol=1e-4, atol=3e-6, err_msg=key)
    if device == "reference":
        assert losses == expected
        assert all(state[key].tobytes() == array.tobytes() for key, array in right.items())


def mean_squares(
    dtype: str, device: str, options: Any, reduction: str = "mean", **more: Any
) -> Any:
    """The network of networks.py, with readable gradients and weights of its loss."""
    network: Any = Network(dtype, more.pop("dropout", 0.0))
    network.weights = tg.MLCTensor(shape=[ROWS_OF_NETWORK, 3], data_type=dtype)
    training = tg.MLCTrainingGraph(
        graph_objects=[network.graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type=reduction),
        optimizer=tg.MLCSGDOptimizer(learning_rate=0.1),
    )
    training.add_inputs(
        {"x": network.x}, loss_labels={"y": network.y}, loss_label_weights={"w": network.weights}
    )
    training.add_outputs({"h1": network.h1, "dh2": training.gradient_tensor(network.h2)})
    training.micro_batches = more.pop("micro_batches", 1)
    both = options | tg.MLCGraphCompilationOptions.COMPUTE_ALL_GRADIENTS
    training.compile(options=both, device=device)
    return network, training


def given(network: Any, first: int, rows: int) -> dict[str, Any]:
    part = slice(first, first + rows)
    scale = np.linspace(0, 2, 3 * rows, dtype=network.dtype).reshape(rows, 3)
    return {
        "inputs_data": {"x": network.data["x"][part]},
        "loss_labels_data": {"y": network.labels["y"][part]},
        "loss_label_weights_data": {"w": scale},
        "options": "synchronous",
    }


def forward(network: Any, training: Any, data: dict[str, Any], **outputs: Any) -> Any:
    rows = len(data["inputs_data"]["x"])
    training.bind_and_write_data(
        data["inputs_data"] | data["loss_labels_data"] | data["loss_label_weights_data"],
        for_inputs={"x": network.x, "y": network.y, "w": network.weights},
        batch_size=rows,
    )
    return training.execute_forward(outputs_data=outputs, batch_size=rows, options="synchronous")


def wide(device: str) -> tuple[str, float]:
    """The widest type that a device computes in, and what its results may deviate by."""
    return ("float32", 4e-6) if device == "metal" else ("float64", 1e-12)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    ("device", "dtype", "bound"),
    [("reference", "float64", 1e-12), ("cpu", "float64", 1e-12), ("cpu", "float32", 2e-6)],
)
def test_what_is_read_has_the_rows_of_the_call(
    device: str, dtype: str, bound: float, reduction: str
) -> None:
    if device == "metal":
        dtype, bound = wide(device)
    runs = [mean_squares(dtype, device, options, reduction) for options in (ANY, NONE)]
    for rows in (4, 1, 5, 6, 2):
        found = []
        for network, training in runs:
            h1, dh2 = np.zeros((2, rows, 4), dtype)
            data = given(network, 6 - rows, rows)
            loss = forward(network, training, data, h1=h1).result
            training.execute_gradient(outputs_data={"dh2": dh2}, options="synchronous")
            of_x = read(training.gradient_tensor(network.x))[:rows]
            seen = read(network.result)[:rows]
            if device in DEVICES:
                view = np.from_dlpack(network.result.device_data())
                np.testing.assert_array_equal(view, seen)
            training.execute_optimizer_update(options="synchronous")
            whole = training.execute(**data)
            training.synchronize_updates()
            found.append([loss, h1, seen, dh2, of_x, whole.result, *network.parameters()])
        for mine, theirs in zip(*found, strict=True):
            assert np.shape(mine) == np.shape(theirs)
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=bound)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_micro_batches_of_different_sizes(device: str, reduction: str) -> None:
    dtype, bound = wide(device)
    runs = [
        mean_squares(dtype, device, options, reduction, micro_batches=3, dropout=0.4)
        for options in (ANY, NONE)
    ]
    for sizes in ((2, 3, 1), (6, 6, 6), (1, 1, 4)):
        for network, training in runs:
            for rows in sizes:
                training.execute(**given(network, 0, rows))
            training.synchronize_updates()
        for mine, theirs in zip(runs[0][0].parameters(), runs[1][0].parameters(), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=bound)


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_from_outside(device: str) -> None:
    found = []
    dtype, bound = wide(device)
    for options in (ANY, NONE):
        network = Network(dtype)
        training = tg.MLCTrainingGraph(
            graph_objects=[network.graph], optimizer=tg.MLCSGDOptimizer(learning_rate=0.5)
        )
        training.add_inputs({"x": network.x})
        gradient = training.allocate_user_gradient(network.result)
        training.compile(options=options, device=device)
        for rows in (4, 6, 1, 3):
            training.bind_and_write_data(
                {"x": network.data["x"][:rows]}, for_inputs={"x": network.x}, batch_size=rows
            )
            training.execute_forward(options="synchronous", batch_size=rows)
            out = read(network.result)[:rows]
            training.bind_and_write_data({"g": 2 * out - 1}, for_inputs={"g": gradient})
            training.execute_gradient(options="synchronous")
            training.execute_optimizer_update(options="synchronous")
        training.synchronize_updates()
        found.append(network.parameters())
    for mine, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=bound)


def test_gradients_of_another_number_of_rows_are_refused() -> None:
    network, training = mean_squares("float64", "cpu", ANY)
    data = given(network, 0, 4)
    forward(network, training, data)
    with pytest.raises(ValueError, match="expected batch size 4 as in the call before but got 5"):
        training.execute_gradient(batch_size=5, options="synchronous")
    data["inputs_data"]["x"] = network.data["x"][:3]
    with pytest.raises(ValueError, match="rows as in the arrays before"):
        training.execute(**data)


@pytest.mark.parametrize("device", DEVICES)
def test_rows_that_the_call_has_not_brought_may_be_anything_finite(device: str) -> None:
    """The logarithm of 0 and a division by 0 do not come from them."""
    x, y = nn.Input(4), nn.Input(1)
    prediction = nn.dense(1)(nn.log(x) + 1 / x)
    models = [
        nn.model(inputs=x, outputs=prediction, loss=nn.square(prediction - y), batch_size=8,
                 device=device, any_batch_size=any_size, optimizer=nn.sgd(0.01))
        for any_size in (True, False)
    ]  # fmt: skip
    models[1].load_state(models[0].state())
    rng = np.random.default_rng(0)
    for rows in (3, 8, 1):
        data = rng.uniform(0.5, 2, (rows, 4)).astype(np.float32)
        for model in models:
            model.execute(
                inputs_data={"x": data}, loss_labels_data={"y": data[:, :1]}, options="synchronous"
            )
    for key, array in models[1].state().items():
        np.testing.assert_allclose(models[0].state()[key], array, rtol=1e-5, err_msg=key)


def test_predict_and_evaluate_take_any_number() -> None:
    arrays = data_of("batch norm", 31, 5)
    models = [CLASSES["batch norm"](device="cpu", any_batch_size=some) for some in (True, False)]
    for batch in (12, 5, 1):
        first, second = (m.predict(arrays[0], batch_size=batch) for m in models)
        np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-6)
        scores = [m.evaluate(arrays[0], arrays[1], batch_size=batch) for m in models]
        np.testing.assert_allclose(scores[0].loss, scores[1].loss, rtol=1e-5)
        assert scores[0].accuracy == scores[1].accuracy


def test_fit_has_its_last_batch_smaller() -> None:
    inputs, labels, _ = data_of("batch norm", 31, 5)
    found = []
    for some in (True, False):
        optimizer = nn.sgd(0.1)
        model = CLASSES["batch norm"](device="cpu", any_batch_size=some, optimizer=optimizer)
        epochs = model.fit(inputs, labels, epochs=3, shuffle_seed=4)
        found.append(([e.loss for e in epochs], model.state()))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-5)
    for key, array in found[1][1].items():
        np.testing.assert_allclose(found[0][1][key], array, rtol=1e-3, atol=1e-5, err_msg=key)


def test_arrays_of_calls_in_flight_stay_apart() -> None:
    runs = [mean_squares("float64", "cpu", options) for options in (ANY, NONE)]
    for k in range(40):
        handles = []
        for network, training in runs:
            data = given(network, k % 3, 1 + k % 4)
            data["options"] = "none"
            handles.append(training.execute(**data))
        losses = [float(h.result) for h in handles] if k % 8 == 7 else []
        assert not losses or abs(losses[0] - losses[1]) < 1e-12
    for _, training in runs:
        training.synchronize_updates()
    for mine, theirs in zip(runs[0][0].parameters(), runs[1][0].parameters(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-12)


class Source:
    """Arrays in the memory of the device, by an inference graph that copies."""

    def __init__(self, device: str, rows: int) -> None:
        self.x = tg.MLCTensor(shape=[rows, 6])
        graph = tg.MLCGraph()
        self.y = graph.node(tg.MLCActivationLayer.relu(), source=self.x)
        self.inference = tg.MLCInferenceGraph(graph_objects=[graph])
        self.inference.add_inputs({"x": self.x})
        self.inference.add_outputs({"y": self.y})
        self.inference.compile(device=device)

    def __call__(self, values: np.ndarray) -> Any:
        self.inference.execute(inputs_data={"x": values}, options="synchronous")
        return self.y.device_data()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shuffle", [False, True])
def test_arrays_in_the_memory_of_the_device(device: str, shuffle: bool) -> None:
    values = np.random.default_rng(1).uniform(0, 1, (31, 6)).astype(np.float32)
    labels = np.arange(31, dtype=np.int32) % 4
    found = []
    for some in (True, False):
        sources = [Source(device, rows) for rows in (31, 5, 5, 12, 1)]
        model = CLASSES["dense"](device=device, any_batch_size=some, optimizer=nn.sgd(0.1))
        model.fit(sources[0](values), labels, epochs=2, shuffle=shuffle)
        for source in sources[1:]:
            rows = source.x.descriptor.shape[0]
            model.execute(
                inputs_data={"x": source(values[:rows])}, loss_labels_data={"y": labels[:rows]},
                options="synchronous",
            )  # fmt: skip
        found.append(model.state())
    for key, array in found[1].items():
        np.testing.assert_allclose(found[0][key], array, rtol=1e-4, atol=1e-6, err_msg=key)


# Every compilation prints that a kernel of the cpu refuses integers.
COUNTING = """
import sys
import numpy as np
import traingraph as tg
from traingraph import nn

def largest(graph, x):
    most = graph.node(tg.MLCReductionLayer(reduction_type="max", dimension=0), source=x)
    return graph.node(tg.MLCArithmeticLayer(operation="add"), sources=[x, most])

layers = [nn.conv2d(4, 3), nn.batch_norm(), "relu", nn.flatten(), BLOCK, nn.dense(4)]
model = nn.model(layers, input=(2, 8, 8), batch_size=16, device="cpu", any_batch_size=ANY)
rng = np.random.default_rng(0)
for rows in [16, *rng.integers(2, 17, 200)]:
    print(f"rows {rows}", file=sys.stderr)
    model.execute(
        inputs_data={"x": rng.normal(size=(rows, 2, 8, 8)).astype(np.float32)},
        loss_labels_data={"y": np.zeros(rows, np.int32)}, options="synchronous")
"""


def compiled_sizes(block: str, any_size: bool) -> list[str]:
    """The calls that have compiled."""
    program = COUNTING.replace("BLOCK", block).replace("ANY", str(any_size))
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True,
        env={**os.environ, "TRAINGRAPH_VERBOSE": "dispatch"},
    )  # fmt: skip
    calls = run.stderr.split("rows ")
    assert len(calls) == 202
    assert calls[0], "a compilation prints nothing"
    return [call.split("\n")[0] for call in calls[1:] if call.count("\n") > 1]


def test_nothing_is_compiled_after_compile() -> None:
    assert compiled_sizes("nn.dense(8)", True) == []
    assert len(compiled_sizes("nn.dense(8)", False)) == 14


def test_a_graph_whose_rows_meet_compiles_for_each_size() -> None:
    assert len(compiled_sizes("largest", True)) == 14


def test_a_layer_that_fixes_the_batch_is_named() -> None:
    x, graph = tg.MLCTensor(shape=[6, 4]), tg.MLCGraph()
    graph.transpose([1, 0], source=x)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    inference.compile(options=ANY, device="cpu")
    assert inference.execute(inputs_data={"x": np.ones((6, 4), np.float32)}).result.shape == (4, 6)
    with pytest.raises(ValueError, match=r"expected batch size 6, which layer .* fixes, but got 5"):
        inference.execute(inputs_data={"x": np.ones((5, 4), np.float32)}, options="synchronous")


def test_batches_above_the_compiled_one_have_their_own_program() -> None:
    losses, _ = steps("dense", "cpu", (20, 5, 20, 13), any_batch_size=True)
    expected, _ = steps("dense", "cpu", (20, 5, 20, 13))
    np.testing.assert_allclose(losses, expected, rtol=2e-6)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("options", [ANY, NONE])
def test_a_handler_is_given_the_rows_of_the_call(device: str, options: Any) -> None:
    x, graph = tg.MLCTensor(shape=[6, 4]), tg.MLCGraph()
    result = graph.node(tg.MLCActivationLayer.relu(), source=x)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    inference.compile(options=options, device=device)
    seen: list[Any] = []

    def handler(tensor: Any, error: Any, seconds: float) -> None:
        seen.append((tensor, tensor.data.copy()))

    values = np.arange(1, 33, dtype=np.float32).reshape(8, 4)
    for rows in (6, 2, 5, 1, 8, 6):
        for synchronous in ("synchronous", "none"):
            handle = inference.execute(
                inputs_data={"x": rows * values[:rows]}, options=synchronous,
                completion_handler=handler,
            )  # fmt: skip
            np.testing.assert_array_equal(handle.result, rows * values[:rows])
            tensor, array = seen.pop()
            np.testing.assert_array_equal(array, rows * values[:rows])
            assert tensor.descriptor.shape == [rows, 4]
            assert tensor.label == result.label
            assert (tensor is result) == (rows == 6)


@pytest.mark.parametrize("options", [ANY, NONE])
def test_a_handler_is_given_losses_of_all_elements(options: Any) -> None:
    network, training = mean_squares("float64", "cpu", options, "none")
    seen: list[Any] = []
    for rows in (6, 4):
        handle = training.execute(
            **given(network, 0, rows), completion_handler=lambda *result: seen.append(result)
        )
        np.testing.assert_array_equal(seen.pop()[0].data, handle.result)


@pytest.mark.parametrize("options", [ANY, NONE])
def test_checked_numbers_are_named_with_the_rows_of_the_call(options: Any) -> None:
    network, training = mean_squares("float64", "cpu", options)
    for rows in (6, 4):
        data = given(network, 0, rows)
        data["inputs_data"]["x"] = data["inputs_data"]["x"].copy()
        data["inputs_data"]["x"][1, 2] = np.nan
        shape = data["inputs_data"]["x"].shape
        text = re.escape(f"has NaN at element {shape[1] + 2} of {shape} in the forward phase")
        with pytest.raises(tg.NumericError, match=text):
            training.execute(**data | {"options": "synchronous|check_numerics"})


@pytest.mark.parametrize("options", [ANY, NONE])
def test_a_call_brings_at_least_one_row(options: Any) -> None:
    network, training = mean_squares("float64", "cpu", options)
    width = network.data["x"].shape[1:]
    expected = (
        f"[tensor 'x'] expected at least one row and, behind axis 0, the shape of (6, {width[0]}"
    )
    none = given(network, 0, 0)
    with pytest.raises(tg.ShapeError, match=re.escape(expected)):
        training.execute(**none)
    with pytest.raises(tg.ShapeError, match=re.escape(expected)):
        training.bind_and_write_data(none["inputs_data"], for_inputs={"x": network.x})
    with pytest.raises(tg.ShapeError, match="expected at least one sample"):
        training.predict(none["inputs_data"])
    training.execute(**given(network, 0, 3))
