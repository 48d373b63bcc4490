"""The Metal backend on the doubles: what a run leaves behind, and encoders that were broken.

Its results are tested by the common suites: `pytest --device metal`. These tests need the library
that was built with TRAINGRAPH_APPLE_DOUBLES; those of broken encoders its build folder too, which
TRAINGRAPH_APPLE_BUILD names.
"""

import re

import metal_package
import numpy as np
import pytest
from metal_package import live

import traingraph as tg

pytestmark = metal_package.needs_doubles


def test_doubles_are_there_once(doubles):
    """The package has brought its own before those of the tests are asked for."""
    done = metal_package.run_script(
        f"""
from pathlib import Path
import traingraph
from objective_c import Runtime
Runtime(Path({str(doubles)!r})).MPSImage
maps = Path("/proc/self/maps").read_text().split()
print(len({{name for name in maps if name.endswith("libapple_doubles.so")}}))
"""
    )
    assert done.stdout.split() == ["1"], done.stderr


def network() -> tg.MLCTrainingGraph:
    """Images through convolution, batch normalization and an average, to a loss."""

    def window(size, inputs, outputs):
        return tg.MLCConvolutionDescriptor(
            kernel_sizes=(size, size),
            input_feature_channel_count=inputs,
            output_feature_channel_count=outputs,
        )

    x = tg.MLCTensor(shape=[4, 3, 6, 6])
    graph = tg.MLCGraph()
    average = tg.MLCPoolingDescriptor(
        type=tg.MLCPoolingType.AVERAGE, kernel_sizes=(2, 2), strides=(2, 2)
    )
    layers = [
        tg.MLCConvolutionLayer(descriptor=window(3, 3, 5)),
        tg.MLCBatchNormalizationLayer(feature_channel_count=5),
        tg.MLCConvolutionLayer(descriptor=window(3, 5, 4)),
        tg.MLCPoolingLayer(descriptor=average),
        tg.MLCReshapeLayer(shape=[4, 36]),
        tg.MLCFullyConnectedLayer(descriptor=window(1, 36, 3)),
        tg.MLCSoftmaxLayer(operation="softmax"),
    ]
    tg.sequential(graph, x, layers)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
        optimizer=tg.MLCAdamOptimizer(learning_rate=0.01),
    )
    training.add_inputs({"x": x}, loss_labels={"y": tg.MLCTensor(shape=[4, 3])})
    training.compile(device="metal")
    return training


def step(training: tg.MLCTrainingGraph) -> float:
    rng = np.random.default_rng(5)
    done = training.execute(
        inputs_data={"x": rng.normal(size=(4, 3, 6, 6)).astype(np.float32)},
        loss_labels_data={"y": rng.normal(size=(4, 3)).astype(np.float32)},
        options="synchronous",
    )
    return float(done.result)


# --- what a run leaves behind --------------------------------------------------------------------


def test_a_run_leaves_no_object_behind():
    training = network()
    first = step(training)
    before = live()
    assert before > 0
    assert step(training) < first
    assert live() == before
    for name in ("MPSTemporaryImage", "MPSCNNConvolutionGradientState"):
        assert live(name) == 0


def test_a_graph_gives_its_objects_back():
    def train():
        training = network()
        step(training)

    train()
    before = live()
    train()
    assert live() == before


def test_which_kernels_are_apples():
    """What the table of docs/backends/metal.md says."""
    script = "import test_metal; test_metal.step(test_metal.network())"
    done = metal_package.run_script(script, TRAINGRAPH_VERBOSE="dispatch")
    assert done.returncode == 0, done.stderr
    refused = set(re.findall(r"metal refuses (\w+)", done.stderr))
    # Lists of scalar functions and what only moves elements are hand-written shaders.
    assert refused <= {"elementwise", "reduce"}


# --- broken encoders -----------------------------------------------------------------------------


# The source, what is changed in it, and what the double then says.
BROKEN = {
    "sums of the gradient left out": (
        "normalization.mm",
        "[sums.get() encodeBatchToCommandBuffer",
        "if (false) [sums.get() encodeBatchToCommandBuffer",
        "the gradient before its statistics have seen all images",
    ),
    "statistics left out": (
        "normalization.mm",
        "[of_batch.get() encodeBatchToCommandBuffer",
        "if (false) [of_batch.get() encodeBatchToCommandBuffer",
        "normalization before the statistics of its state",
    ),
    "images read more often than said": (
        "normalization.mm",
        "{node.inputs[1], 3}",
        "{node.inputs[1], 2}",
        "read more often than its readCount says",
    ),
    "images read less often than said": (
        "image_plan.cpp",
        "use.reads + (to_memory ? 1 : 0)",
        "use.reads + (to_memory ? 2 : 0)",
        "released with reads left in its readCount",
    ),
    "a state that is read after its last read": (
        "states.mm",
        "kReads = 1 << 20",
        "kReads = 1",
        "a temporary state is used after its last read",
    ),
    "an encoder left open": (
        "encoding.mm",
        "id<MTLCommandBuffer> command_buffer(Encoding& encoding) {\n  close(encoding.state());",
        "id<MTLCommandBuffer> command_buffer(Encoding& encoding) {",
        "encoded while another encoder is not ended",
    ),
    "a commit before the last encoder has ended": (
        "encoding.mm",
        "void Encoding::commit() {\n  close(state_);",
        "void Encoding::commit() {",
        "committed before its encoder was ended",
    ),
    "a result that nobody wrote": (
        "convolution.mm",
        "[kernel.get() encodeBatchToCommandBuffer:command_buffer(encoding)\n"
        "                                    sourceImages:",
        "if (false) [kernel.get() encodeBatchToCommandBuffer:command_buffer(encoding)\n"
        "                                    sourceImages:",
        "released with reads left in its readCount",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_encoder_ends_the_program(metal_build, tmp_path, name):
    *change, said = BROKEN[name]
    script = "import test_metal; test_metal.step(test_metal.network())"
    ended = metal_package.run_changed(metal_build, tmp_path, change, script)
    assert ended.returncode == -6, (ended.returncode, ended.stderr[-2000:])
    assert re.search(f"Apple double: .*{re.escape(said)}", ended.stderr)


@pytest.mark.parametrize(
    ("source", "old", "new", "said"),
    [
        ("pooling.mm", "setEdgeMode:", "setEdgeModes:", "setEdgeModes:"),
        (
            "normalization.mm",
            "batchNormalizationState:state\n"
            "                                 destinationImages:images.result(0)];",
            "batchNormalizationState:state\n"
            "                                 destinationImage:images.result(0)];",
            "destinationImage:",
        ),
        (
            "convolution.mm",
            "weights.kernel<K>(device);",
            "Ref<K*>::own([[K alloc] initWithDevice:device.objects().device.get()]);",
            "unavailable",
        ),
    ],
)
def test_a_wrong_selector_does_not_compile(metal_build, tmp_path, source, old, new, said):
    _, _, done = metal_package.compiled(metal_build, tmp_path, source, old, new)
    assert done.returncode != 0
    assert said in done.stderr
