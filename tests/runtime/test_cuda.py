"""What a step costs on a GPU: launches, copies, allocations; that it trains as the reference does.

Runs with --device only.
"""

from typing import Any

import numpy as np
import pytest

import traingraph as tg

_testing = pytest.importorskip("traingraph._testing", reason="built with TRAINGRAPH_TESTING")
SKIP = tg.MLCExecutionOptions.SYNCHRONOUS | (
    tg.MLCExecutionOptions.SKIP_WRITING_INPUT_DATA_TO_DEVICE
)
RNG = np.random.default_rng(5)
ROWS, INPUTS, HIDDEN, CLASSES = 16, 12, 24, 5


def uniform(*shape: int) -> np.ndarray:
    return RNG.uniform(-1, 1, shape).astype(np.float32)


WEIGHTS = {
    (HIDDEN, INPUTS): (uniform(HIDDEN, INPUTS), uniform(HIDDEN)),
    (CLASSES, HIDDEN): (uniform(CLASSES, HIDDEN), uniform(CLASSES)),
}
DATA = [(uniform(ROWS, INPUTS), RNG.integers(0, CLASSES, ROWS)) for _ in range(4)]


def dense(outputs: int, inputs: int, dtype: str) -> tg.MLCFullyConnectedLayer:
    weights, biases = WEIGHTS[outputs, inputs]
    return tg.MLCFullyConnectedLayer(
        weights=tg.MLCTensor(data=weights.astype(dtype)),
        biases=tg.MLCTensor(data=biases.astype(dtype)),
        descriptor=tg.MLCConvolutionDescriptor(
            kernel_sizes=(1, 1),
            input_feature_channel_count=inputs,
            output_feature_channel_count=outputs,
        ),
    )


class Classifier:
    """A perceptron over classes."""

    def __init__(self, device: str, dtype: str = "float32", optimizer: Any = None, dropout=0.0):
        self.dtype = dtype
        self.x = tg.MLCTensor(shape=[ROWS, INPUTS], data_type=dtype)
        self.labels = tg.MLCTensor(shape=[ROWS], data_type="int64")
        self.layers = [dense(HIDDEN, INPUTS, dtype), dense(CLASSES, HIDDEN, dtype)]
        self.graph = tg.MLCGraph()
        h = self.graph.node(self.layers[0], source=self.x)
        h = self.graph.node(tg.MLCActivationLayer.relu(), source=h)
        if dropout:
            h = self.graph.node(tg.MLCDropoutLayer(rate=dropout, seed=7), source=h)
        self.result = self.graph.node(self.layers[1], source=h)
        self.training = tg.MLCTrainingGraph(
            graph_objects=[self.graph],
            loss_layer=tg.MLCLossLayer.softmax_cross_entropy(
                reduction_type="mean", class_count=CLASSES
            ),
            optimizer=optimizer or tg.MLCSGDOptimizer(learning_rate=0.1),
        )
        self.training.add_inputs({"x": self.x}, loss_labels={"labels": self.labels})
        self.training.compile(device=device)

    def arguments(self, which: int) -> dict[str, Any]:
        x, labels = DATA[which % len(DATA)]
        return {
            "inputs_data": {"x": x.astype(self.dtype)},
            "loss_labels_data": {"labels": labels},
        }

    def step(self, which: int = 0, options: Any = "synchronous") -> Any:
        return self.training.execute(**self.arguments(which), options=options).result

    def parameters(self) -> list[np.ndarray]:
        self.training.synchronize_updates()
        return [
            np.array(tensor.data)
            for layer in self.layers
            for tensor in (layer.weights, layer.biases)
        ]


class Counted:
    """What the device was asked to do inside the block."""

    def __init__(self, device: str):
        self.device = device

    def __enter__(self) -> "Counted":
        self.before = _testing.device_counters(self.device)
        return self

    def __exit__(self, *_: object) -> None:
        after = _testing.device_counters(self.device)
        self.counts = {name: after[name] - self.before[name] for name in after}


def test_a_step_is_one_launch(gpu: str) -> None:
    network = Classifier(gpu)
    for k in range(2):  # launched one by one, then captured
        network.step(k)
    with Counted(gpu) as device:
        for k in range(5):
            network.step(k)
    assert device.counts == {
        "launches": 5,
        "captured": 0,
        "warpgroups": 0,
        "allocations": 0,
        "allocated_bytes": 0,
        "copies_in": 10,  # x and labels, once each
        "copies_out": 5,  # the loss
        "copies_within": 0,
    }


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "RMSProp"])
def test_a_small_step_is_one_kernel(gpu: str, optimizer: str) -> None:
    """Its ops are a megakernel; dropout is one of them. Beside it the loss travels with the
    run, and numbers that change from step to step."""
    made = getattr(tg, f"MLC{optimizer}Optimizer")(learning_rate=0.01)
    network = Classifier(gpu, optimizer=made, dropout=0.5)
    with Counted(gpu) as device:
        for k in range(3):
            network.step(k)
    assert device.counts["captured"] == 3


def test_a_recorded_step_alone(gpu: str) -> None:
    network = Classifier(gpu, optimizer=tg.MLCSGDOptimizer(learning_rate=0.0))
    before = [network.step() for _ in range(3)]
    assert 0 < _testing.repeat_last_run(gpu, 10) < 1
    assert network.step() == before[0]


def test_each_phase_is_one_launch(gpu: str) -> None:
    network = Classifier(gpu)
    phases = (
        lambda _: network.training.execute_forward(options="synchronous"),
        lambda _: network.training.execute_gradient(options="synchronous"),
        lambda _: network.training.execute_optimizer_update(options="synchronous"),
    )
    x, labels = DATA[0]
    network.training.bind_and_write_data(
        {"x": x, "labels": labels}, for_inputs={"x": network.x, "labels": network.labels}
    )
    for k in range(2):
        for phase in phases:
            phase(k)
    for phase in phases:
        with Counted(gpu) as device:
            phase(2)
        assert device.counts["copies_in"] == 0
        assert device.counts["launches"] == 1
        assert device.counts["allocations"] == 0


def test_nothing_is_copied_when_the_write_is_skipped(gpu: str) -> None:
    network, other = Classifier(gpu), Classifier("reference")
    for k in range(2):
        assert network.step(k) == pytest.approx(other.step(k), rel=1e-5)
    with Counted(gpu) as device:
        loss = network.training.execute(inputs_data={}, options=SKIP).result
    assert loss == pytest.approx(
        other.training.execute(inputs_data={}, options=SKIP).result, rel=1e-5
    )
    assert device.counts["copies_in"] == 0
    # One array new, the other bound once.
    labels = network.arguments(2)["loss_labels_data"]
    for each in (network, other):
        each.training.bind_and_write_data(labels, for_inputs={"labels": each.labels})
        arguments = {"inputs_data": each.arguments(2)["inputs_data"]}
        each.training.execute(**arguments, options="synchronous")
    with Counted(gpu) as device:
        arguments = {"inputs_data": network.arguments(3)["inputs_data"]}
        loss = network.training.execute(**arguments, options="synchronous").result
    assert device.counts["copies_in"] == 1
    arguments = {"inputs_data": other.arguments(3)["inputs_data"]}
    assert loss == pytest.approx(
        other.training.execute(**arguments, options="synchronous").result, rel=1e-5
    )


def test_a_learning_rate_is_written_when_it_changes(gpu: str) -> None:
    optimizer = tg.MLCSGDOptimizer(learning_rate=0.1)
    network = Classifier(gpu, optimizer=optimizer)
    for _ in range(2):
        network.step()
    before = network.parameters()
    optimizer.learning_rate = 0.0
    with Counted(gpu) as device:
        network.step()
    assert device.counts["copies_in"] == 3
    assert device.counts["launches"] == 1
    for a, b in zip(before, network.parameters(), strict=True):
        np.testing.assert_array_equal(a, b)
    with Counted(gpu) as device:
        network.step()
    assert device.counts["copies_in"] == 2


def test_numbers_of_a_step_reach_whichever_run_comes_next(gpu: str) -> None:
    """They travel with recorded runs, of the step and of phases in turn."""

    def made() -> Any:
        return tg.MLCAdamOptimizer(learning_rate=0.01)

    optimizers = made(), made()
    network, reference = (
        Classifier(device, optimizer=optimizer, dropout=0.3)
        for device, optimizer in zip((gpu, "reference"), optimizers, strict=True)
    )
    x, labels = DATA[0]
    for each in (network, reference):
        each.training.bind_and_write_data(
            {"x": x, "labels": labels}, for_inputs={"x": each.x, "labels": each.labels}
        )
    for k in range(16):
        losses = []
        for each, optimizer in zip((network, reference), optimizers, strict=True):
            if k == 8:
                optimizer.learning_rate = 0.002
            training = each.training
            if k % 4 < 2:
                losses.append(training.execute(inputs_data={}, options=SKIP).result)
                continue
            losses.append(training.execute_forward(options="synchronous").result)
            training.execute_gradient(options="synchronous")
            training.execute_optimizer_update(options="synchronous")
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for a, b in zip(network.parameters(), reference.parameters(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_the_plan_is_what_is_allocated(gpu: str) -> None:
    planned, allocated = _testing.planned_and_allocated(gpu)
    assert planned == allocated


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "RMSProp"])
@pytest.mark.parametrize("options", ["synchronous", "none"])
def test_trains_as_the_reference(gpu: str, optimizer: str, options: str) -> None:
    def made() -> Any:
        return getattr(tg, f"MLC{optimizer}Optimizer")(learning_rate=0.01)

    network = Classifier(gpu, optimizer=made())
    reference = Classifier("reference", "float64", optimizer=made())
    handles = []
    for k in range(20):
        handles.append(network.training.execute(**network.arguments(k), options=options))
        expected = reference.step(k)
        if options == "synchronous":
            assert handles[-1].result == pytest.approx(expected, rel=1e-5)
    assert handles[-1].result == pytest.approx(expected, rel=1e-5)
    for got, wanted in zip(network.parameters(), reference.parameters(), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-4)


def test_smaller_batches_and_back(gpu: str) -> None:
    network, reference = Classifier(gpu), Classifier("reference")
    for rows in (ROWS, 3, ROWS, 7, 3, 3, 3, ROWS):
        losses = []
        for graph in (network, reference):
            x, labels = DATA[rows % 4]
            losses.append(
                graph.training.execute(
                    inputs_data={"x": x[:rows]},
                    loss_labels_data={"labels": labels[:rows]},
                    batch_size=rows,
                    options="synchronous",
                ).result
            )
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_dropout_draws_the_numbers_of_the_reference(gpu: str) -> None:
    network, reference = Classifier(gpu, dropout=0.5), Classifier("reference", dropout=0.5)
    for k in range(5):
        assert network.step(k) == pytest.approx(reference.step(k), rel=1e-5)


def test_the_same_bits_in_every_run(gpu: str) -> None:
    runs = []
    for _ in range(2):
        network = Classifier(gpu, dropout=0.2)
        losses = [network.step(k).tobytes() for k in range(5)]
        runs.append((losses, [p.tobytes() for p in network.parameters()]))
    assert runs[0] == runs[1]


def test_a_recorded_run_gives_the_bits_of_single_launches(gpu: str) -> None:
    """Recorded kernels wait only for what they need; a profiled run is launched one by one."""
    runs = []
    for options in ("synchronous", "synchronous|per_layer_profiling"):
        network = Classifier(gpu, optimizer=tg.MLCAdamOptimizer(learning_rate=0.01), dropout=0.2)
        losses = [network.step(k, options).tobytes() for k in range(30)]
        runs.append((losses, [p.tobytes() for p in network.parameters()]))
    assert runs[0] == runs[1]


def test_a_parameter_moves_between_devices(gpu: str) -> None:
    network, reference = Classifier(gpu), Classifier("cpu")
    for device in ("cpu", gpu, "reference", gpu):
        network.step()
        reference.step()
        network.training.compile(device=device)
    assert network.step() == pytest.approx(reference.step(), rel=1e-5)


def test_a_parameter_replaced_on_the_host_is_sent(gpu: str) -> None:
    network, reference = Classifier(gpu), Classifier("reference")
    for graph in (network, reference):
        graph.step()
        biases = graph.layers[1].biases
        biases.bind_and_write_data(np.full(CLASSES, 0.25, np.float32))
    assert network.step() == pytest.approx(reference.step(), rel=1e-5)


def test_not_a_number_is_found(gpu: str) -> None:
    network = Classifier(gpu)
    arguments = network.arguments(0)
    arguments["inputs_data"]["x"][3, 4] = np.nan
    options = tg.MLCExecutionOptions.SYNCHRONOUS | tg.MLCExecutionOptions.CHECK_NUMERICS
    with pytest.raises(FloatingPointError, match="'x', as it was given, has NaN at element 40"):
        network.training.execute(**arguments, options=options)
    network.step()


def test_linked_graphs_stay_on_one_device(gpu: str) -> None:
    x = tg.MLCTensor(shape=[2, 3])
    first, second = tg.MLCGraph(), tg.MLCGraph()
    y = first.node(tg.MLCActivationLayer.relu(), source=x)
    second.node(tg.MLCActivationLayer.tanh(), source=y)
    one = tg.MLCInferenceGraph(graph_objects=[first])
    one.add_inputs({"x": x})
    two = tg.MLCInferenceGraph(graph_objects=[second])
    data = {"x": uniform(2, 3)}
    one.link([two])
    for device in (gpu, "cpu"):
        two.compile(options="link_graphs", device=device)
        one.compile(options="link_graphs", device=gpu)
        one.execute(inputs_data=data, options="synchronous")
        if device == gpu:
            result = two.execute(inputs_data={}, options="synchronous").result
            np.testing.assert_allclose(result, np.tanh(np.maximum(data["x"], 0)), rtol=1e-6)
        else:
            with pytest.raises(NotImplementedError, match="linked graphs on one device"):
                two.execute(inputs_data={}, options="synchronous")


def test_profiling(gpu: str) -> None:
    network = Classifier(gpu)
    options = tg.MLCExecutionOptions.SYNCHRONOUS | tg.MLCExecutionOptions.PER_LAYER_PROFILING
    handle = network.training.execute(**network.arguments(0), options=options)
    profile = handle.profile
    assert {entry.phase for entry in profile.entries} == {"forward", "gradient", "update"}
    assert 0 < sum(entry.seconds for entry in profile.entries) < 60


def test_out_of_memory_says_what_is_there(gpu: str) -> None:
    x = tg.MLCTensor(shape=[1, 1 << 40])
    graph = tg.MLCGraph()
    graph.node(tg.MLCActivationLayer.relu(), source=x)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    with pytest.raises(MemoryError, match=r"expected \d+ bytes on GPU 0 but \d+ of \d+ are avail"):
        inference.compile(device=gpu)
    Classifier(gpu).step()


def test_devices(gpu: str) -> None:
    device = tg.MLCDevice.gpu()
    assert device.actual_device_type is tg.MLCDeviceType.GPU
    assert device.gpu_devices == [device]
    assert tg.MLCDevice(gpu_devices=[device]) == device == tg.MLCDevice(type="gpu")
    assert device != tg.MLCDevice.cpu()
    count = len(tg._core.gpus())
    with pytest.raises(tg.DeviceError, match=rf"a GPU from 0 to {count - 1} but got {count}"):
        tg.MLCDevice.gpu(count)
    assert tg.MLCDevice.gpu(0) == device
