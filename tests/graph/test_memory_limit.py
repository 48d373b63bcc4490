"""A memory limit: less is kept, the gradient pass computes it again, and no bit changes."""

import re

import numpy as np
import pytest

import traingraph as tg
from device_rows import APPLE
from small_layers import convolution, dense, halving, regression

BATCH, CHANNELS, SIDE = 24, 16, 12  # results that a GPU plans like large ones, in 16 bits too
NOW = "synchronous"


class Residual:
    """Two blocks of convolutions with batch norm, a residual sum in each."""

    def __init__(self, device, precision="float32", memory_limit=None):
        tg.MLCPlatform.set_rng_seed_to(11)
        self.graph = tg.MLCGraph()
        self.layers = []
        self.x = tg.MLCTensor(shape=[BATCH, 3, SIDE, SIDE])
        h = self.bent(self.normalized(self.x, 3))
        for _ in range(2):
            inner = self.normalized(self.bent(self.normalized(h)))
            total = tg.MLCArithmeticLayer(operation="add")
            h = self.bent(self.graph.node(total, sources=[inner, h]))
        h = self.graph.node(halving("average"), source=h)
        h = self.graph.reshape(shape=[BATCH, CHANNELS * SIDE * SIDE // 4], source=h)
        self.head = dense(CHANNELS * SIDE * SIDE // 4, 5)
        h = self.graph.node(self.head, source=h)
        self.training = regression(self.graph, self.x, h)
        self.options = {"device": device, "precision": precision}
        self.training.compile(**self.options, memory_limit=memory_limit)
        rng = np.random.default_rng(2)
        self.data = {
            "inputs_data": {"x": rng.normal(size=(BATCH, 3, SIDE, SIDE)).astype("f4")},
            "loss_labels_data": {"y": rng.normal(size=(BATCH, 5)).astype("f4")},
        }

    def normalized(self, source, channels=CHANNELS):
        layer = convolution(channels, CHANNELS)
        normalization = tg.MLCBatchNormalizationLayer(feature_channel_count=CHANNELS)
        self.layers += [layer, normalization]
        return self.graph.node(normalization, source=self.graph.node(layer, source=source))

    def bent(self, source):
        return self.graph.node(tg.MLCActivationLayer.relu(), source=source)

    def step(self, options=NOW):
        return self.training.execute(**self.data, options=options).result.tobytes()

    def phases(self):
        """With the data of a step before: the loss, and gradients of weights."""
        loss = self.training.execute_forward(options=NOW).result.tobytes()
        self.training.execute_gradient(options=NOW)
        layers = [*self.layers[::2], self.head]
        gradients = [self.training.gradient_data(la.weights, layer=la).tobytes() for la in layers]
        self.training.execute_optimizer_update(options=NOW)
        return [loss, *gradients]

    def parameters(self):
        """With running statistics, which change once a step."""
        self.training.synchronize_updates()
        return {name: np.asarray(value).tobytes() for name, value in self.training.state().items()}

    def plan(self):
        return self.training.memory_plan()

    def description(self):
        """Without the numbers of layers and tensors."""
        text = self.training.compiled_description()
        return re.sub(r"(layer |'data|')\d+", r"\1", text)

    def batch_norms(self, phase):
        text = self.training.compiled_description() + "\nend:"
        block = re.search(rf"^{phase}:\n(.*?)^\w+:", text, re.S | re.M).group(1)
        return len(re.findall(r" = batch_norm\(", block))


def least(error):
    """The least limit that could be kept, as the error of a smaller one tells it."""
    return int(re.search(r"and (\d+) with \d+ values rematerialized", str(error.value)).group(1))


def tightest(device, precision="float32"):
    with pytest.raises(MemoryError) as caught:
        Residual(device, precision, memory_limit=1)
    return least(caught)


def tightest_for_phases(device, precision):
    network = Residual(device, precision, memory_limit=tightest(device, precision))
    network.step()
    with pytest.raises(MemoryError) as caught:
        network.phases()
    return least(caught)


@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_steps_and_phases_give_the_same_bits(device, precision):
    if device in APPLE and precision != "float32":
        pytest.skip(f"{device} computes in float32")
    free = Residual(device, precision)
    limit = tightest(device, precision)
    assert limit < free.plan().total_bytes
    kept = Residual(device, precision, memory_limit=limit)
    assert kept.plan().total_bytes <= limit
    assert kept.plan().recomputed
    steps = 3 if precision == "float32" else 1
    assert [kept.step() for _ in range(steps)] == [free.step() for _ in range(steps)]
    # Values live longer where phases are run apart.
    kept = Residual(device, precision, memory_limit=tightest_for_phases(device, precision))
    for _ in range(steps):
        kept.step()
    assert kept.phases() == free.phases()
    assert kept.plan().total_bytes < free.plan().total_bytes
    assert kept.parameters() == free.parameters()


@pytest.mark.parametrize("device", ["cpu", "null"])
def test_the_arena_is_as_small_as_the_plan_says(device):
    free, limit = Residual(device), tightest(device)
    kept = Residual(device, memory_limit=limit)
    assert kept.training.memory_limit == limit
    assert free.training.memory_limit is None
    before, after = free.plan(), kept.plan()
    assert kept.training.device_memory_size == after.arena_bytes < before.arena_bytes
    assert after.total_bytes <= limit < before.total_bytes
    assert after.persistent_bytes == before.persistent_bytes
    assert before.recomputed == []
    large = BATCH * CHANNELS * SIDE * SIDE * 4
    # Where a relu is no epilogue, the batch norm before it frees nothing by itself.
    assert {large} <= {entry.bytes for entry in after.recomputed} <= {0, large}
    assert "recomputed" in str(after)
    assert after.recomputed[0].name in str(after)


@pytest.mark.parametrize("device", ["cpu", "reference", "null"])
def test_copies_run_where_they_are_asked_for_and_nowhere_else(device):
    free = Residual(device)
    assert free.batch_norms("gradient") == 0
    total, tight = free.plan().total_bytes, tightest(device)
    counts = []
    for limit in (total, total - 1, (total + tight) // 2, tight):
        kept = Residual(device, memory_limit=limit)
        assert kept.plan().total_bytes <= limit
        assert kept.batch_norms("forward") == free.batch_norms("forward") == 5
        again = [e for e in kept.plan().recomputed if e.name.startswith("batch_norm")]
        assert kept.batch_norms("gradient") == len(again)
        # Whose kernels have no use for coefficients finds the statistics once more.
        handed = kept.description().count("coefficients=given")
        assert kept.description().count("coefficients=result") == handed
        if device in ("cpu", "null"):
            assert handed == len(again)
        counts.append(len(kept.plan().recomputed))
    assert counts[0] == 0
    assert counts[1] >= 1
    assert counts == sorted(counts)
    assert Residual(device, memory_limit=total).description() == free.description()


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_a_program_for_phases_apart_takes_the_place_of_one_for_steps(device):
    """Which keep values for whole phases and need more: the first such call compiles again."""
    free = Residual(device)
    free.step()
    free.phases()
    for_phases = free.plan().total_bytes
    network = Residual(device, memory_limit=for_phases - 1)
    expected = Residual(device)
    assert network.plan().recomputed == []  # a step needs no more than that
    assert network.step() == expected.step()
    assert network.phases() == expected.phases()
    assert network.plan().recomputed
    assert network.plan().total_bytes < for_phases
    assert network.step() == expected.step()
    assert network.parameters() == expected.parameters()


@pytest.mark.parametrize("device", ["cpu"])
def test_micro_batches_and_checked_steps_run_within_it(device):
    """Both run their phases apart."""
    free, network = Residual(device), Residual(device)
    for training in (free.training, network.training):
        training.micro_batches = 2
    with pytest.raises(MemoryError) as caught:
        network.training.compile(**network.options, memory_limit=1)
    network.training.compile(**network.options, memory_limit=least(caught))
    checked = f"{NOW}|check_numerics"
    for options in (NOW, NOW, checked, checked):
        assert network.step(options) == free.step(options)
    assert network.plan().recomputed
    assert network.plan().total_bytes < free.plan().total_bytes
    assert network.parameters() == free.parameters()


@pytest.mark.parametrize("device", ["cpu"])
def test_phases_that_cannot_keep_to_the_limit_leave_steps_as_they_are(device):
    limit = tightest(device)
    kept, free = Residual(device, memory_limit=limit), Residual(device)
    assert kept.step() == free.step()
    with pytest.raises(MemoryError, match=f"at most {limit} bytes, .* for phases run apart"):
        kept.training.execute_forward(options=NOW)
    assert kept.step() == free.step()


@pytest.mark.parametrize("device", ["cpu"])
def test_a_step_whose_parameters_have_moved_needs_no_more_than_a_step(device):
    """A handler moves them before a step that was submitted: it is compiled again, as one call."""
    limit = tightest(device)
    kept, free = Residual(device, memory_limit=limit), Residual(device)
    with pytest.raises(MemoryError, match="for phases run apart"):
        kept.training.execute_forward(options=NOW)

    def move(*_):
        inference = tg.MLCInferenceGraph(graph_objects=[kept.graph])
        inference.add_inputs({"x": kept.x})
        inference.compile(device="reference")

    first = kept.training.execute(**kept.data, completion_handler=move)
    second = kept.training.execute(**kept.data)
    assert [first.result.tobytes(), second.result.tobytes()] == [free.step(), free.step()]
    assert kept.step() == free.step()


@pytest.mark.parametrize("device", ["cpu", "reference", "null"])
def test_a_limit_that_cannot_be_kept_lists_what_there_is(device):
    network = Residual(device)
    with pytest.raises(MemoryError) as caught:
        network.training.compile(**network.options, memory_limit=1000)
    text = str(caught.value)
    assert text.startswith("[compile] expected a memory plan of at most 1000 bytes, the ")
    assert f"but got {network.plan().total_bytes}, and " in text
    assert "largest entries of this graph's memory plan" in text
    assert f"{network.plan().arena_bytes} bytes, arena" in text
    # The graph stays as it was.
    assert network.training.memory_limit is None
    if device != "null":
        network.step()


@pytest.mark.parametrize("limit", [0, -1, -(1 << 40)])
def test_limits_are_positive(limit):
    network = Residual("null")
    with pytest.raises(ValueError, match=f"memory_limit of at least 1 byte but got {limit}"):
        network.training.compile(**network.options, memory_limit=limit)


@pytest.mark.parametrize("limit", [1.5, "1000", [1000]])
def test_limits_are_whole_numbers(limit):
    network = Residual("null")
    with pytest.raises(TypeError, match="memory_limit"):
        network.training.compile(**network.options, memory_limit=limit)


def test_each_compile_chooses_anew():
    network = Residual("cpu", memory_limit=tightest("cpu"))
    network.training.compile(**network.options)
    assert network.training.memory_limit is None
    assert network.plan().recomputed == []


@pytest.mark.parametrize("device", ["cpu"])
def test_checkpoints_pass_between_graphs_with_and_without_a_limit(device, tmp_path):
    free, kept = Residual(device), Residual(device, memory_limit=tightest(device))
    free.step()
    free.training.save(tmp_path / "state.safetensors")
    kept.training.load(tmp_path / "state.safetensors")
    assert kept.parameters() == free.parameters()
    assert kept.step() == free.step()


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_smaller_batch_keeps_to_the_limit_of_a_larger_one(device, rows):
    """Of a few elements, where each result takes 64 bytes; with one row, some are views."""
    if device == "cuda":
        pytest.skip("small results have places of their own")
    graph = tg.MLCGraph()
    x, labels = tg.MLCTensor(shape=[4]), tg.MLCTensor(shape=[4])
    h = x
    for kind in ("hard_shrink", "soft_shrink"):
        h = graph.node(
            tg.MLCActivationLayer(descriptor=tg.MLCActivationDescriptor(type=kind)), source=h
        )
    loss = tg.MLCLossDescriptor(type="mean_squared_error", reduction_type="sum")
    graph.node(tg.MLCLossLayer(descriptor=loss), sources=[h], loss_labels=[labels])
    training = tg.MLCTrainingGraph(graph_objects=[graph])
    training.add_inputs({"x": x}, loss_labels={"y": labels})
    every = tg.MLCGraphCompilationOptions.COMPUTE_ALL_GRADIENTS
    training.compile(options=every, device=device)
    limit = training.memory_plan().total_bytes - 1
    training.compile(options=every, device=device, memory_limit=limit)
    rng = np.random.default_rng(3)
    given = {name: rng.normal(size=rows).astype("f4") for name in ("x", "y")}
    training.execute(
        inputs_data={"x": given["x"]}, loss_labels_data={"y": given["y"]}, batch_size=rows,
        options=NOW,
    )  # fmt: skip
    assert training.memory_plan().total_bytes <= limit


@pytest.mark.parametrize("device", ["cpu"])
def test_inference_has_nothing_to_compute_again(device):
    network = Residual(device)
    inference = tg.MLCInferenceGraph(graph_objects=[network.graph])
    inference.add_inputs({"x": network.x})
    inference.compile(device=device)
    needed = inference.memory_plan().total_bytes
    inference.compile(device=device, memory_limit=needed)
    with pytest.raises(MemoryError, match=r"with 0 values rematerialized"):
        inference.compile(device=device, memory_limit=needed - 1)


class Widening(Residual):
    """Convolutions with batch norm and relu, the first two of a quarter of the channels."""

    def __init__(self, device, memory_limit=None):
        self.graph, h = tg.MLCGraph(), tg.MLCTensor(shape=[BATCH, 3, SIDE, SIDE])
        self.x, before = h, 3
        for channels in (4, 4, CHANNELS, CHANNELS, CHANNELS):
            h = self.graph.node(convolution(before, channels), source=h)
            normalization = tg.MLCBatchNormalizationLayer(feature_channel_count=channels)
            h = self.bent(self.graph.node(normalization, source=h))
            before = channels
        h = self.graph.reshape(shape=[BATCH, CHANNELS * SIDE * SIDE], source=h)
        h = self.graph.node(dense(CHANNELS * SIDE * SIDE, 5), source=h)
        self.training = regression(self.graph, self.x, h)
        self.training.compile(device=device, memory_limit=memory_limit)


def test_the_smallest_that_is_enough_is_computed_again():
    wide = 4 * BATCH * CHANNELS * SIDE * SIDE
    total = Widening("cpu").plan().total_bytes
    for less, expected in ((1000, [wide // 4]), (wide // 4 + 1000, [wide])):
        plan = Widening("cpu", memory_limit=total - less).plan()
        assert plan.total_bytes <= total - less
        assert [entry.bytes for entry in plan.recomputed] == expected
