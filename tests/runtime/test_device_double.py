"""What the core does for a device with memory of its own, on a double of one.

The double is a plugin over the reference implementation whose addresses the host cannot use:
whatever touches them without the backend crashes. Suites run on it in a process of their own.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import traingraph

ROOT = Path(__file__).parents[2]
# What counts a GPU's kernels, or says what NVIDIA's driver says.
OF_A_GPU = "not one_kernel and not recorded_step and not out_of_memory"


def link(source: str, target: str) -> None:
    if Path(target).exists():  # both folders are one
        return
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy(source, target)


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package whose GPU is the double; the folder it is in."""
    compiled = Path(traingraph._core.__file__).parent
    if not (compiled / "lib" / "libtraingraph_double.so").exists():
        pytest.skip("built without TRAINGRAPH_TESTING")
    folder = tmp_path_factory.mktemp("double")
    for source in (Path(traingraph.__file__).parent, compiled):
        shutil.copytree(source, folder / "traingraph", copy_function=link, dirs_exist_ok=True)
    libraries = folder / "traingraph" / "lib"
    (libraries / "libtraingraph_cuda.so").unlink(missing_ok=True)
    (libraries / "libtraingraph_double.so").rename(libraries / "libtraingraph_cuda.so")
    return folder


@pytest.mark.parametrize(
    "suites",
    [
        ["tests/graph", "tests/layers/test_embedding.py"],
        ["tests/mps"],
        ["tests/train", "tests/checkpoint"],
        ["tests/runtime/test_cuda.py", "tests/passes/test_memory_plan.py", "-k", OF_A_GPU],
    ],
    ids=lambda suites: suites[0],
)
def test_suites_pass_on_it(package: Path, suites: list[str]) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "--only-device",
            "cuda",
            "-p",
            "no:cacheprovider",
            *suites,
        ],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert " passed" in done.stdout


def test_a_plugin_says_what_it_has_code_for(package: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "traingraph", "info", "--json"],
        env=os.environ | {"PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["gpu_architectures"] == ["90a-real", "host"]


STEPS_AFTER_A_FAILURE = """
import numpy as np
import pytest
import traingraph as tg

def trained(device, steps):
    x, y = tg.MLCTensor(shape=[4, 3]), tg.MLCTensor(shape=[4], data_type="int64")
    weights = tg.MLCTensor(data=np.ones((2, 3), "f4"))
    layer = tg.MLCFullyConnectedLayer(
        weights=weights,
        descriptor=tg.MLCConvolutionDescriptor(
            kernel_sizes=(1, 1), input_feature_channel_count=3, output_feature_channel_count=2
        ),
    )
    graph = tg.MLCGraph()
    graph.node(layer, source=x)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.softmax_cross_entropy(reduction_type="mean"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=0.5),
    )
    training.add_inputs({"x": x}, loss_labels={"y": y})
    training.compile(device=device)
    arguments = {
        "inputs_data": {"x": np.arange(12, dtype="f4").reshape(4, 3)},
        "loss_labels_data": {"y": np.array([0, 1, 1, 1])},
        "options": tg.MLCExecutionOptions.SYNCHRONOUS,
    }
    if device == "cuda":
        with pytest.raises(tg.DeviceError, match="a run that fails"):
            training.execute(**arguments)
    for _ in range(steps):
        training.execute(**arguments)
    return {name: np.array(value) for name, value in training.state().items()}

on_double, expected = trained("cuda", 2), trained("reference", 2)
for name in (name for name, value in expected.items() if value.ndim == 2):
    assert not (expected[name] == 1).any()
    np.testing.assert_array_equal(on_double[name], expected[name])
"""


def test_numbers_of_a_step_come_after_a_run_that_failed_with_them(package: Path) -> None:
    """The learning rate is sent once: with the first run, which fails, and then again."""
    done = subprocess.run(
        [sys.executable, "-c", STEPS_AFTER_A_FAILURE],
        env=os.environ | {"PYTHONPATH": str(package), "TRAINGRAPH_DOUBLE_FAILS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
