"""Values that stay images between the ops of a run of the Metal backend: how many copies between
buffers and images are left, who finds the bytes that are needed, and read counts that are wrong.
"""

import re

import metal_package
import numpy as np
import pytest
from metal_package import work_of

import traingraph as tg

pytestmark = metal_package.needs_doubles

STEP = "synchronous"
# An op at a time: each brings its operands from memory, and takes its results there.
ALONE = "synchronous|per_layer_profiling"


def values(*shape: int, scale: float = 1) -> np.ndarray:
    return np.random.default_rng(shape[0]).normal(scale=scale, size=shape).astype(np.float32)


def convolution(inputs: int, outputs: int, with_biases: bool = False) -> tg.MLCConvolutionLayer:
    descriptor = tg.MLCConvolutionDescriptor(
        kernel_sizes=(3, 3),
        input_feature_channel_count=inputs,
        output_feature_channel_count=outputs,
    )
    biases = tg.MLCTensor(data=values(outputs)) if with_biases else None
    weights = tg.MLCTensor(data=values(outputs, inputs, 3, 3, scale=0.2))
    return tg.MLCConvolutionLayer(weights=weights, biases=biases, descriptor=descriptor)


def halves() -> tg.MLCPoolingLayer:
    average = tg.MLCPoolingDescriptor(
        type=tg.MLCPoolingType.AVERAGE, kernel_sizes=(2, 2), strides=(2, 2)
    )
    return tg.MLCPoolingLayer(descriptor=average)


def training_of(graph: tg.MLCGraph, optimizer: tg.MLCOptimizer | None) -> tg.MLCTrainingGraph:
    loss = tg.MLCLossLayer.mean_squared_error(reduction_type="mean")
    return tg.MLCTrainingGraph(graph_objects=[graph], loss_layer=loss, optimizer=optimizer)


def read(tensor: tg.MLCTensor) -> np.ndarray:
    tensor.synchronize_data()
    return np.array(tensor.data)


X, Y = values(4, 3, 8, 8), values(4, 4, 4, 4)


class Network:
    """Convolution, batch normalization, ReLU, average pooling, convolution."""

    def __init__(self, device: str = "metal", outputs=(), with_biases=False, **options) -> None:
        self.layers = [
            convolution(3, 5, with_biases),
            tg.MLCBatchNormalizationLayer(feature_channel_count=5),
            tg.MLCActivationLayer.relu(),
            halves(),
            convolution(5, 4, with_biases),
        ]
        self.x, self.label = tg.MLCTensor(shape=X.shape), tg.MLCTensor(shape=Y.shape)
        graph = tg.MLCGraph()
        self.results = [self.x]
        for layer in self.layers:
            self.results.append(graph.node(layer, source=self.results[-1]))
        self.training = training_of(graph, tg.MLCSGDOptimizer(learning_rate=0.1))
        self.training.add_inputs({"x": self.x}, loss_labels={"y": self.label})
        if outputs:
            self.training.add_outputs({str(at): self.results[at] for at in outputs})
        self.training.compile(device=device, **options)

    def step(self, options: str = STEP) -> None:
        self.training.execute(inputs_data={"x": X}, loss_labels_data={"y": Y}, options=options)

    def forward(self) -> None:
        self.training.bind_and_write_data(
            {"x": X, "y": Y}, for_inputs={"x": self.x, "y": self.label}
        )
        self.training.execute_forward(options="synchronous")

    def gradient_and_update(self) -> None:
        self.training.execute_gradient(options="synchronous")
        self.training.execute_optimizer_update(options="synchronous")

    def phases(self) -> None:
        """The three calls, each a run of its own."""
        self.forward()
        self.gradient_and_update()

    def weights(self) -> list[np.ndarray]:
        return [read(self.layers[k].weights) for k in (0, 4)]


def copies(work) -> tuple[int, int]:
    """Of batches to images, and to buffers, that this encodes."""

    def now() -> np.ndarray:
        names = ("MPSMatrixCopyToImage", "MPSImageCopyToMatrix")
        return np.array([work_of(name) for name in names])

    before = now()
    work()
    to_images, to_buffers = now() - before
    return int(to_images), int(to_buffers)


# The table of docs/backends/metal.md.
@pytest.mark.parametrize(
    ("with_biases", "alone", "phases", "step"),
    [(False, (12, 7), (6, 5), (3, 3)), (True, (12, 7), (6, 6), (3, 4))],
)
def test_copies_that_are_left(with_biases, alone, phases, step):
    network = Network(with_biases=with_biases)
    assert copies(lambda: network.step(ALONE)) == alone
    assert copies(network.phases) == phases
    assert copies(network.step) == step
    assert copies(network.step) == step


@pytest.mark.parametrize(("options", "over_images"), [(STEP, True), (ALONE, False)])
def test_a_neuron_is_over_images_where_others_are(options, over_images):
    network = Network()
    before = work_of("MPSCNNNeuron")
    network.step(options)
    assert (work_of("MPSCNNNeuron") > before) == over_images


@pytest.mark.parametrize("precision", ["float32", "mixed_float16"])
@pytest.mark.parametrize("with_biases", [False, True])
def test_bits_are_those_of_ops_that_run_alone(with_biases, precision):
    networks = [Network(with_biases=with_biases, precision=precision) for _ in range(4)]
    for _ in range(3):
        networks[0].step(ALONE)
        networks[1].step(STEP)
        networks[2].phases()
        networks[3].step("synchronous|check_numerics")
    expected = networks[0].weights()
    for network in networks[1:]:
        for got, want in zip(network.weights(), expected, strict=True):
            np.testing.assert_array_equal(got, want)


def check_training() -> None:
    metal, reference = Network("metal"), Network("reference")
    for network in (metal, reference):
        network.step()
        network.phases()
    for got, want in zip(metal.weights(), reference.weights(), strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5)


def test_training_is_that_of_the_reference():
    check_training()


def test_outputs_are_in_memory_although_kernels_want_images_alone():
    """Of the first convolution and of pooling; batch normalization and convolutions read them."""
    outputs = (1, 4)
    metal, reference = (Network(device, outputs) for device in ("metal", "reference"))
    for network in (metal, reference):
        network.step()
    for at in outputs:
        want = read(reference.results[at])
        np.testing.assert_allclose(read(metal.results[at]), want, rtol=0, atol=1e-5)


def gradient_of_a_summand(device: str) -> np.ndarray:
    """A trained tensor is added to a convolution's result. Its gradient is also what the gradient
    of the convolution reads, as images; without an optimizer nothing else does.
    """
    x, z = tg.MLCTensor(shape=X.shape), tg.MLCTensor(data=values(4, 5, 8, 8))
    label = tg.MLCTensor(shape=[4, 5, 4, 4])
    graph = tg.MLCGraph()
    first = graph.node(convolution(3, 5), source=x)
    both = graph.node(tg.MLCArithmeticLayer(operation="add"), sources=[first, z])
    graph.node(halves(), source=both)
    training = training_of(graph, optimizer=None)
    training.add_inputs({"x": x}, loss_labels={"y": label})
    training.set_training_tensor_parameters([tg.MLCTensorParameter(tensor=z)])
    training.compile(device=device)
    data = {"x": X, "y": values(4, 5, 4, 4)}
    training.bind_and_write_data(data, for_inputs={"x": x, "y": label})
    training.execute_forward(options="synchronous")
    training.execute_gradient(options="synchronous")
    return read(training.gradient_tensor(for_input=z))


def check_gradient_of_a_summand() -> None:
    expected = gradient_of_a_summand("reference")
    assert np.abs(expected).max() > 0
    np.testing.assert_allclose(gradient_of_a_summand("metal"), expected, rtol=0, atol=1e-6)


def test_a_gradient_that_the_caller_reads_is_in_memory():
    check_gradient_of_a_summand()


def test_no_image_is_left_behind():
    network = Network()
    runs = (network.step, network.phases, lambda: network.step(ALONE))
    for run in runs:
        run()
    before = metal_package.live()
    for run in runs:
        run()
        assert metal_package.live("MPSTemporaryImage") == 0
    assert metal_package.live() == before


# The source, what is changed in it, and what is then said.
BROKEN = {
    "a reading that is not counted": (
        "image_plan.cpp",
        "use.reads += source.reads;",
        "use.reads = source.reads;",
        "Apple double: .*read more often than its readCount says",
    ),
    "a reading too many": (
        "image_plan.cpp",
        "use.reads += source.reads;",
        "use.reads += source.reads + 1;",
        "Apple double: .*released with reads left in its readCount",
    ),
    "the copy to memory is not counted": (
        "image_plan.cpp",
        "use.reads + (to_memory ? 1 : 0)",
        "use.reads",
        "Apple double: .*(read more often|written after its last read)",
    ),
    "images of an earlier reader are made once more": (
        "image_plan.cpp",
        "const int reads = use.slot ? 0 : use.reads;",
        "const int reads = use.reads;",
        "Apple double: .*released with reads left in its readCount",
    ),
    "bytes that a hand-written shader reads are left out": (
        "image_plan.cpp",
        "return outside_[v] || operands_[v] > takers;",
        "return outside_[v] || operands_[v] > takers + 1;",
        "check_training.*Not equal to tolerance",
    ),
    "bytes that the caller reads are left out": (
        "image_plan.cpp",
        "outside_[v] = graph.values[v].keep ||",
        "outside_[v] =",
        "check_gradient_of_a_summand.*Not equal to tolerance",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plan_is_found_out(metal_build, tmp_path, name):
    *change, said = BROKEN[name]
    script = (
        "import test_images_between_ops as t; t.check_training(); t.check_gradient_of_a_summand()"
    )
    ended = metal_package.run_changed(metal_build, tmp_path, change, script)
    assert ended.returncode == (-6 if said.startswith("Apple") else 1), ended.stderr[-2000:]
    assert re.search(said, ended.stderr, re.DOTALL), ended.stderr[-2000:]


def branches(device: str) -> tuple[list[np.ndarray], int]:
    """Two convolutions of one source, concatenated and convolved; weights after a step, and how
    many parts were copied as images.
    """
    layers = [convolution(4, 8), convolution(4, 4), convolution(12, 4)]
    x, label = tg.MLCTensor(shape=[4, 4, 8, 8]), tg.MLCTensor(shape=[4, 4, 4, 4])
    graph = tg.MLCGraph()
    both = graph.concatenate([graph.node(layer, source=x) for layer in layers[:2]], dimension=1)
    graph.node(halves(), source=graph.node(layers[2], source=both))
    training = training_of(graph, tg.MLCSGDOptimizer(learning_rate=0.1))
    training.add_inputs({"x": x}, loss_labels={"y": label})
    training.compile(device=device)
    before = metal_package.doubles().apple_work_of(b"MPSCNNNeuron")
    data = {"x": values(4, 4, 8, 8)}, {"y": values(4, 4, 4, 4)}
    training.execute(inputs_data=data[0], loss_labels_data=data[1], options=STEP)
    weights = [read(layer.weights) for layer in layers]
    return weights, metal_package.doubles().apple_work_of(b"MPSCNNNeuron") - before


def test_branches_stay_images():
    """Forward two sources are put beside each other, and the gradient is cut in two."""
    (got, copied), (want, _) = branches("metal"), branches("reference")
    assert copied == 4 * (2 + 2)
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)
