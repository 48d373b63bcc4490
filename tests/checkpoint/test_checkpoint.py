"""Checkpoints: save, load, state, load_state and named_parameters."""

import inspect
import os
import re
import struct
from pathlib import Path

import numpy as np
import pytest
from checkpoint_network import BATCH, SYNCHRONOUS, Network, bits, filled, optimizers

import traingraph as tg
from metadata import beside

PARAMETERS = [
    "1.conv.weights",
    "1.conv.biases",
    "2.BatchNormalization.mean",
    "2.BatchNormalization.variance",
    "2.BatchNormalization.beta",
    "2.BatchNormalization.gamma",
    "6.FullyConnected.weights",
    "6.FullyConnected.biases",
]
UPDATED = [name for name in PARAMETERS if not name.endswith(("mean", "variance"))]
NUMBERS = ["state.time_step", "state.forward_count", "state.random_seed"]


def expected_names(slots: list[str]) -> list[str]:
    moments = [f"optimizer.{name}.{slot}" for name in UPDATED for slot in slots]
    return [*PARAMETERS, *moments, *NUMBERS]


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("optimizer", "slots"),
    [
        ("adam", ["first_moment", "second_moment"]),
        ("amsgrad", ["first_moment", "second_moment", "maximum_second_moment"]),
        ("momentum", ["momentum"]),
    ],
)
def test_names(optimizer: str, slots: list[str]) -> None:
    network = Network(optimizers()[optimizer], others=3)
    assert list(network.training.named_parameters()) == PARAMETERS
    assert list(network.training.state()) == expected_names(slots)
    assert list(network.inference().state()) == PARAMETERS
    named = network.training.named_parameters()
    assert named["1.conv.weights"] is network.convolution.weights
    assert named["2.BatchNormalization.variance"] is network.norm.variance


def test_without_slots_and_without_an_optimizer() -> None:
    plain = Network(tg.MLCSGDOptimizer(learning_rate=0.1))
    assert list(plain.training.state()) == PARAMETERS + NUMBERS
    none = tg.MLCTrainingGraph(graph_objects=[plain.graph])
    none.add_inputs({"x": plain.x})
    assert list(none.state()) == PARAMETERS + NUMBERS[1:]


def full(weights: tg.MLCTensor, biases: tg.MLCTensor | None = None) -> tg.MLCFullyConnectedLayer:
    layer = tg.MLCFullyConnectedLayer(
        weights=weights,
        biases=biases,
        descriptor=tg.MLCConvolutionDescriptor(
            kernel_sizes=(1, 1), input_feature_channel_count=2, output_feature_channel_count=2
        ),
    )
    layer.label = "same"
    return layer


def test_shared_tensors_equal_labels_and_trained_inputs() -> None:
    shared = filled(2, 2, seed=1)
    layers = [
        full(shared, filled(1, 2, seed=2)),
        full(shared, filled(1, 2, seed=3)),
        full(filled(2, 2, seed=4)),
    ]
    layers[2].label = 'a.b "c"\n\\ä'
    x = tg.MLCTensor(shape=[3, 2])
    y = tg.MLCTensor(shape=[3, 2])
    one, two, three, four = (filled(3, 2, seed=k) for k in range(5, 9))
    one.label = two.label = "offset"
    graph = tg.MLCGraph()
    result = tg.sequential(graph, x, layers)
    # Twice in the graph, once in the checkpoint.
    result = graph.node(layers[2], source=result)
    for tensor in (one, two, three, four, one):
        result = graph.node(tg.MLCArithmeticLayer(operation="add"), sources=[result, tensor])
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=0.1, momentum_scale=0.9),
    )
    training.add_inputs({"x": x}, loss_labels={"y": y})
    training.set_training_tensor_parameters(
        [tg.MLCTensorParameter(tensor=t) for t in (one, two, three, four, shared)]
    )
    names = {
        "1.same.weights": shared,
        "1.same.biases": layers[0].biases,
        "2.same.biases": layers[1].biases,
        '3.a.b "c"\n\\ä.weights': layers[2].weights,
        "tensor.offset": one,
        "tensor.offset.2": two,
        "tensor.data": three,
        "tensor.data.2": four,
    }
    assert training.named_parameters() == names
    assert list(training.state()) == [*names, *(f"optimizer.{n}.momentum" for n in names), *NUMBERS]


def test_frozen_parameters_have_no_moments() -> None:
    network = Network(compile_now=False)
    network.convolution.weights_parameter.is_updatable = False
    network.training.compile(device="cpu")
    names = list(network.training.state())
    assert "1.conv.weights" in names
    assert "optimizer.1.conv.biases.first_moment" in names
    assert not any(name.startswith("optimizer.1.conv.weights") for name in names)


# What stands behind each property that is a tensor, so that a new layer cannot be forgotten.
def layers_with_tensors() -> dict[str, tg.MLCLayer]:
    network = Network()
    return {
        "MLCConvolutionLayer": network.convolution,
        "MLCFullyConnectedLayer": network.full,
        "MLCBatchNormalizationLayer": network.norm,
    }


def tensor_properties(cls: type) -> list[str]:
    return [
        name
        for name, member in inspect.getmembers(cls, lambda m: isinstance(m, property))
        if re.search(r"-> (list\[)?MLCTensor\]?( \| None)?\n", member.fget.__doc__ or "")
    ]


def test_every_tensor_of_every_layer_is_named() -> None:
    samples = layers_with_tensors()
    classes = [cls for cls in vars(tg).values() if inspect.isclass(cls)]
    found = {
        cls.__name__: properties
        for cls in classes
        if issubclass(cls, tg.MLCLayer)
        and not issubclass(cls, tg.MLCLossLayer)  # whose factors are constants of the program
        and (properties := tensor_properties(cls))
    }
    # Those with a file of their own: harness.train asks there whether all that is kept is named.
    for name, layer in beside("layers", "DRAWN").items():
        assert (found.pop(name, None) is not None) == layer.has_parameters, name
    assert set(found) == set(samples)
    named = Network().training.named_parameters()
    for cls, properties in found.items():
        kept = {name.rpartition(".")[2] for name in named if cls[3:-5] in name or "conv" in name}
        assert set(properties) <= kept, cls


# --- round trips ---------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("compiled", [True, False])
def test_round_trip(tmp_path: Path, device: str, compiled: bool) -> None:
    one = Network(device=device)
    one.steps(0, 3)
    path = tmp_path / "one.safetensors"
    one.training.save(path)
    assert os.listdir(tmp_path) == ["one.safetensors"]
    two = Network(device=device, seed=50, compile_now=compiled)
    assert two.training.load(str(path)) == {}  # no metadata
    assert bits(two.training.state()) == bits(one.training.state())
    if not compiled:
        two.training.compile(device=device)
        assert bits(two.training.state()) == bits(one.training.state())
    assert two.steps(3, 6) == one.steps(3, 6)
    # Over a network that has already moved.
    two.training.load(path)
    assert two.optimizer.time_step == 4
    two.training.save(tmp_path / "two.safetensors")
    assert (tmp_path / "two.safetensors").read_bytes() == path.read_bytes()


def test_from_one_device_to_the_other(tmp_path: Path) -> None:
    path = tmp_path / "one.safetensors"
    one = Network(device="cpu")
    one.steps(0, 3)
    one.training.save(path)
    two = Network(device="reference")
    two.training.load(path)
    np.testing.assert_allclose(two.steps(3, 6), one.steps(3, 6), rtol=1e-4)


def test_inference_takes_the_weights_of_a_training_file(tmp_path: Path) -> None:
    one = Network()
    one.steps(0, 3)
    one.training.save(tmp_path / "one.safetensors")
    x = {"x": np.random.default_rng(0).normal(size=(BATCH, 3, 6, 6)).astype(np.float32)}
    expected = one.inference().execute(inputs_data=x).result
    two = Network(seed=50)
    inference = two.inference()
    assert not np.array_equal(inference.execute(inputs_data=x).result, expected)
    inference.load(tmp_path / "one.safetensors")
    np.testing.assert_array_equal(inference.execute(inputs_data=x).result, expected)
    # The file of an inference graph holds the weights alone, and a training graph takes those.
    inference.save(tmp_path / "weights.safetensors")
    three = Network(seed=60)
    three.steps(0, 2)
    before = three.training.state()
    three.training.load(tmp_path / "weights.safetensors")
    after = three.training.state()
    for name, array in after.items():
        source = one.training.state() if name in PARAMETERS else before
        np.testing.assert_array_equal(array, source[name])


def test_the_callers_memory_is_written() -> None:
    array = np.zeros((1, 5, 1, 1), np.float32)
    network = Network()
    network.full.biases.bind_and_write_data(array)
    state = network.training.state()
    state["6.FullyConnected.biases"] = np.arange(5, dtype=np.float32).reshape(1, 5, 1, 1)
    network.training.load_state(state)
    assert array.ravel().tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(network.full.biases.data, array)


def test_state_is_a_copy_and_may_alias() -> None:
    network = Network()
    network.steps(0, 1)
    state = network.training.state()
    kept = bits(state)
    network.steps(1, 2)
    assert bits(state) == kept
    # Beta and gamma change places: each is the other's source.
    network.training.synchronize_updates()
    beta, gamma = network.norm.beta.data.copy(), network.norm.gamma.data.copy()
    assert not np.array_equal(beta, gamma)
    weights = {name: t.data for name, t in network.training.named_parameters().items()}
    names = ["2.BatchNormalization.beta", "2.BatchNormalization.gamma"]
    weights[names[0]], weights[names[1]] = weights[names[1]], weights[names[0]]
    network.training.load_state(weights)
    np.testing.assert_array_equal(network.norm.beta.data, gamma)
    np.testing.assert_array_equal(network.norm.gamma.data, beta)


def test_load_state_takes_any_memory_of_the_type() -> None:
    network = Network()
    state = network.training.state()
    weights = state["1.conv.weights"]
    state["1.conv.weights"] = np.repeat(weights, 2, axis=1)[:, ::2].astype(">f4")
    state["state.time_step"] = 9
    network.training.load_state(state)
    np.testing.assert_array_equal(network.training.state()["1.conv.weights"], weights)
    assert network.optimizer.time_step == 9
    for values, name in (({3: weights}, "'int'"), ([1], "'list'"), (None, "NoneType")):
        with pytest.raises(TypeError, match=name):
            network.training.load_state(values)
    with pytest.raises(TypeError, match="complex64"):
        network.training.load_state({"1.conv.weights": weights.astype(np.complex64)})


def test_load_state_widens_floats_of_16_bits_and_converts_nothing_else() -> None:
    network = Network()
    name = "1.conv.weights"
    weights = network.training.state()[name]
    halves = weights.astype(np.float16)
    for given in (halves, halves.astype(">f2"), np.repeat(halves, 2, axis=1)[:, ::2]):
        network.training.load_state(network.training.state() | {name: np.zeros_like(weights)})
        network.training.load_state(network.training.state() | {name: given})
        np.testing.assert_array_equal(network.training.state()[name], halves.astype(np.float32))
    for other in (np.float64, np.int32, np.uint8, bool):
        with pytest.raises(tg.InvalidArgument, match=f"expected float32 but got {other.__name__}"):
            network.training.load_state(network.training.state() | {name: weights.astype(other)})


# --- errors --------------------------------------------------------------------------------------


def test_every_difference_is_listed_and_nothing_changes(tmp_path: Path) -> None:
    one = Network()
    one.steps(0, 2)
    state = one.training.state()
    state["7.gone.weights"] = np.zeros(3, np.float32)
    del state["1.conv.biases"]
    state["2.BatchNormalization.mean"] = np.zeros((4,), np.float32)
    state["6.FullyConnected.biases"] = np.zeros((1, 5, 1, 1), np.float64)
    state["optimizer.1.conv.weights.first_moment"] = np.zeros((1, 12, 3), np.int32)
    state["state.time_step"] = 0
    two = Network(seed=50)
    two.steps(0, 1)
    before = bits(two.training.state())
    with pytest.raises(tg.InvalidArgument) as raised:
        two.training.load_state(state)
    text = str(raised.value)
    lines = text.splitlines()
    assert "differs in 7 places" in lines[0]
    assert sorted(lines[1:]) == sorted(
        [
            "  missing: '1.conv.biases'",
            "  unexpected: '7.gone.weights'",
            "  '2.BatchNormalization.mean': expected shape (1, 4, 1, 1) but got (4,)",
            "  '6.FullyConnected.biases': expected float32 but got float64",
            "  'optimizer.1.conv.weights.first_moment': expected float32 but got int32",
            "  'optimizer.1.conv.weights.first_moment': expected shape (1, 12, 3, 3) but got "
            "(1, 12, 3)",
            "  'state.time_step': expected at least 1 but got 0",
        ]
    )
    assert bits(two.training.state()) == before
    two.steps(1, 2)


def test_part_of_the_training_state_is_not_enough() -> None:
    network = Network()
    state = network.training.state()
    network.training.load_state({name: state[name] for name in PARAMETERS})
    for dropped in ("state.random_seed", "optimizer.1.conv.biases.second_moment"):
        partly = {name: array for name, array in state.items() if name != dropped}
        with pytest.raises(ValueError, match=f"1 place:\n  missing: '{dropped}'"):
            network.training.load_state(partly)
    # Another optimizer's buffers are no buffers of this one.
    other = Network(optimizers()["momentum"])
    with pytest.raises(ValueError, match=r"unexpected: 'optimizer\..*first_moment'"):
        other.training.load_state(state)
    with pytest.raises(ValueError, match=r"missing: '2\.BatchNormalization\.mean'"):
        network.training.load_state({"1.conv.weights": state["1.conv.weights"]})


def test_a_loss_without_labels_is_named() -> None:
    network = Network()
    training = tg.MLCTrainingGraph(
        graph_objects=[network.graph],
        loss_layer=tg.MLCLossLayer.softmax_cross_entropy(reduction_type="mean"),
        optimizer=tg.MLCAdamOptimizer(learning_rate=0.1),
    )
    with pytest.raises(ValueError, match="loss labels"):
        training.state()


@pytest.mark.parametrize("length", [0, 7, 8, 20, 500, -1])
def test_truncated_files(tmp_path: Path, length: int) -> None:
    network = Network()
    path = tmp_path / "network.safetensors"
    network.training.save(path)
    path.write_bytes(path.read_bytes()[:length])
    before = bits(network.training.state())
    with pytest.raises(tg.InvalidArgument, match=r"network\.safetensors' is no safetensors file"):
        network.training.load(path)
    assert bits(network.training.state()) == before


def test_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    network = Network()
    with pytest.raises(OSError, match="absent") as raised:
        network.training.load(tmp_path / "absent")
    assert type(raised.value) is tg.FileError
    with pytest.raises(OSError, match="no regular file"):
        network.training.load(tmp_path)
    with pytest.raises(OSError, match="is a directory"):
        network.training.save(tmp_path)
    with pytest.raises(OSError, match="No such file"):
        network.training.save(tmp_path / "absent" / "file")
    with pytest.raises(TypeError):
        network.training.save(3)
    with pytest.raises(OSError, match=r"\\xff-absent"):
        network.training.load(os.fsencode(tmp_path) + b"/\xff-absent")
    foreign = tmp_path / "foreign"
    foreign.write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(ValueError, match="is no safetensors file"):
        network.training.load(foreign)


def test_links_and_modes_stay(tmp_path: Path) -> None:
    network = Network()
    (tmp_path / "folder").mkdir()
    target = tmp_path / "folder" / "file"
    network.training.save(target)
    target.chmod(0o600)
    link = tmp_path / "link"
    link.symlink_to(target)
    network.step(0, options=SYNCHRONOUS)
    network.training.save(link)
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o600
    network.training.load(target)
    # In the current directory, and with a name that is no UTF-8.
    before = Path.cwd()
    os.chdir(tmp_path)
    try:
        network.training.save("plain")
        network.training.load(b"plain")
        network.training.save(b"\xff")
        network.training.load(b"\xff")
    finally:
        os.chdir(before)
    assert sorted(os.listdir(os.fsencode(tmp_path))) == [b"folder", b"link", b"plain", b"\xff"]


def test_the_header_is_what_the_format_says(tmp_path: Path) -> None:
    network = Network()
    path = tmp_path / "network.safetensors"
    network.training.save(path)
    raw = path.read_bytes()
    (length,) = struct.unpack("<Q", raw[:8])
    assert length % 8 == 0
    assert raw[8:9] == b"{"
