"""The Metal backend on the doubles: what a run leaves behind, and encoders that were broken.

Its results are tested by the common suites: `pytest --device metal`. These tests need the library
that was built with TRAINGRAPH_APPLE_DOUBLES; those of broken encoders its build folder too, which
TRAINGRAPH_APPLE_BUILD names.
"""

import ctypes
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import traingraph as tg
from traingraph import _core

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "cpp/src/backends/metal"
PACKAGE = Path(_core.__file__).parent
DOUBLES = PACKAGE / "lib/libapple_doubles.so"
pytestmark = pytest.mark.skipif(
    not DOUBLES.exists(), reason="needs a build with TRAINGRAPH_APPLE_DOUBLES"
)


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


def live(of_class: str | None = None) -> int:
    doubles = ctypes.CDLL(str(DOUBLES))
    if of_class is None:
        doubles.apple_live_objects.restype = ctypes.c_int64
        return doubles.apple_live_objects()
    doubles.apple_live_objects_of.restype = ctypes.c_int64
    return doubles.apple_live_objects_of(of_class.encode())


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
    """What the table of docs/apple.md says."""
    script = "import test_metal; test_metal.step(test_metal.network())"
    done = run_script(script, PACKAGE.parent, TRAINGRAPH_VERBOSE="dispatch")
    assert done.returncode == 0, done.stderr
    refused = set(re.findall(r"metal refuses (\w+)", done.stderr))
    # Lists of scalar functions and what only moves elements are own shaders.
    assert refused <= {"elementwise", "reduce"}


# --- broken encoders -----------------------------------------------------------------------------


def run_script(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(folder), str(ROOT / "tests/apple")])
    return subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | environment | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def build() -> Path:
    folder = Path(os.environ.get("TRAINGRAPH_APPLE_BUILD", ROOT / "build/apple"))
    if not (folder / "build.ninja").exists():
        pytest.skip("needs the build folder of a build with TRAINGRAPH_APPLE_DOUBLES")
    return folder


def commands(build: Path, target: str) -> str:
    listed = subprocess.run(
        ["ninja", "-C", build, "-t", "commands", target], capture_output=True, text=True, check=True
    )
    return listed.stdout.splitlines()[-1]


def compiled(build: Path, folder: Path, source: str, old: str, new: str):
    """The object of a source with one place changed, and what the compiler said."""
    text = (SOURCES / source).read_text()
    assert text.count(old) == 1, old
    changed = folder / source
    changed.write_text(text.replace(old, new))
    name = f"cpp/CMakeFiles/traingraph_objects.dir/src/backends/metal/{source}.o"
    made = folder / f"{source}.o"
    command = commands(build, name).replace(str(SOURCES / source), str(changed))
    command = command.replace(f" -o {name} ", f" -o {made} ").replace(f"{name}.d", f"{made}.d")
    done = subprocess.run(shlex.split(command), cwd=build, capture_output=True, text=True)
    return name, made, done


# The source, what is changed in it, and what the double then says.
BROKEN = {
    "sums of the gradient left out": (
        "mps_batch_norm.mm",
        "[sums_.get() encodeBatchToCommandBuffer",
        "if (false) [sums_.get() encodeBatchToCommandBuffer",
        "the gradient before its statistics have seen all images",
    ),
    "statistics left out": (
        "mps_batch_norm.mm",
        "[of_batch_.get() encodeBatchToCommandBuffer",
        "if (false) [of_batch_.get() encodeBatchToCommandBuffer",
        "normalization before the statistics of its state",
    ),
    "images read more often than said": (
        "mps_batch_norm.mm",
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
        "mps_convolution.mm",
        "MPSStateBatchIncrementReadCount(both, 1);",
        "",
        "raised from 0, when its storage is gone",
    ),
    "an encoder left open": (
        "encoding.mm",
        "id<MTLCommandBuffer> command_buffer(Encoding& encoding) {\n  close(encoding.state());",
        "id<MTLCommandBuffer> command_buffer(Encoding& encoding) {",
        "encoded while another encoder is not ended",
    ),
    "a commit before the last encoder has ended": (
        "encoding.mm",
        "double Encoding::finish() {\n  close(state_);",
        "double Encoding::finish() {",
        "committed before its encoder was ended",
    ),
    "a result that nobody wrote": (
        "mps_convolution.mm",
        "[forward_.get() encodeBatchToCommandBuffer",
        "if (false) [forward_.get() encodeBatchToCommandBuffer",
        "released with reads left in its readCount",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_encoder_ends_the_program(build, tmp_path, name):
    *change, said = BROKEN[name]
    object_name, made, done = compiled(build, tmp_path, *change)
    assert done.returncode == 0, done.stderr
    package = tmp_path / "package/traingraph"
    shutil.copytree(PACKAGE, package)
    library = package / "lib/libtraingraph.so"
    link = commands(build, "lib/libtraingraph.so")
    link = link.replace(f" {object_name} ", f" {made} ")
    link = link.replace(" -o lib/libtraingraph.so ", f" -o {library} ")
    subprocess.run(link, cwd=build, shell=True, check=True)
    script = "import test_metal; test_metal.step(test_metal.network())"
    ended = run_script(script, package.parent)
    assert ended.returncode == -6, (ended.returncode, ended.stderr[-2000:])
    assert re.search(f"Apple double: .*{re.escape(said)}", ended.stderr)


@pytest.mark.parametrize(
    ("source", "old", "new", "said"),
    [
        ("mps_pooling.mm", "setSourceSize:", "setSourceSizes:", "setSourceSizes:"),
        (
            "mps_batch_norm.mm",
            "destinationImages:images.result(0)];",
            "destinationImage:images.result(0)];",
            "destinationImage:",
        ),
        (
            "mps_convolution.mm",
            "initWithDevice:device.objects().device.get()\n"
            "               weights:source_.get()]);\n    [forward_",
            "initWithDevice:device.objects().device.get()]);\n    [forward_",
            "unavailable",
        ),
    ],
)
def test_a_wrong_selector_does_not_compile(build, tmp_path, source, old, new, said):
    _, _, done = compiled(build, tmp_path, source, old, new)
    assert done.returncode != 0
    assert said in done.stderr
