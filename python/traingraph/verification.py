"""Whether a device of this machine computes what the reference loops compute.

A backend that its authors could not try on hardware warns at its first use. ``python -m traingraph
verify --device metal`` trains small networks on the device and on the reference loops, compares
them, and writes what it found into the user's cache folder. After a PASS the warning stays away,
and the device type ANY may choose the device.
"""

import json
import os
import platform
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from traingraph import _core

UNVERIFIED = ("metal", "bnns")
"""Backends that have run on doubles of Apple's frameworks alone."""

STEPS = 5
BOUND = 2e-4
"""How far losses and results may be apart after some steps in float32, of the largest one."""

Array = npt.NDArray[np.float32]
Network = Callable[[_core.MLCGraph, _core.MLCTensor], None]

# --- what is compared ----------------------------------------------------------------------------


def _window(size: int, inputs: int, outputs: int) -> _core.MLCConvolutionDescriptor:
    return _core.MLCConvolutionDescriptor(
        kernel_sizes=(size, size),
        input_feature_channel_count=inputs,
        output_feature_channel_count=outputs,
    )


def _dense(inputs: int, outputs: int) -> _core.MLCFullyConnectedLayer:
    return _core.MLCFullyConnectedLayer(descriptor=_window(1, inputs, outputs))


def _perceptron(graph: _core.MLCGraph, x: _core.MLCTensor) -> None:
    layers = [
        _core.MLCReshapeLayer(shape=[8, 192]),
        _dense(192, 32),
        _core.MLCActivationLayer.relu(),
        _core.MLCDropoutLayer(rate=0.25, seed=7),
        _dense(32, 10),
    ]
    _core.sequential(graph, x, layers)


def _convolutions(graph: _core.MLCGraph, x: _core.MLCTensor) -> None:
    def pooling(kind: _core.MLCPoolingType) -> _core.MLCPoolingLayer:
        return _core.MLCPoolingLayer(
            descriptor=_core.MLCPoolingDescriptor(type=kind, kernel_sizes=(2, 2), strides=(2, 2))
        )

    layers = [
        _core.MLCConvolutionLayer(descriptor=_window(3, 3, 8)),
        _core.MLCBatchNormalizationLayer(feature_channel_count=8),
        _core.MLCActivationLayer.relu(),
        pooling(_core.MLCPoolingType.MAX),
        _core.MLCConvolutionLayer(descriptor=_window(3, 8, 6)),
        _core.MLCActivationLayer.tanh(),
        pooling(_core.MLCPoolingType.AVERAGE),
        _core.MLCReshapeLayer(shape=[8, 24]),
        _dense(24, 10),
    ]
    _core.sequential(graph, x, layers)


NETWORKS: dict[str, Network] = {"perceptron": _perceptron, "convolutions": _convolutions}
OPTIMIZERS: dict[str, Callable[[], _core.MLCOptimizer]] = {
    "sgd": lambda: _core.MLCSGDOptimizer(learning_rate=0.05, momentum_scale=0.9),
    "adam": lambda: _core.MLCAdamOptimizer(learning_rate=0.01),
    "rmsprop": lambda: _core.MLCRMSPropOptimizer(learning_rate=0.01),
}


def _train(device: str, network: Network, optimizer: _core.MLCOptimizer) -> Array:
    """The losses of some steps, then what the network says of its training data."""
    _core.MLCPlatform.set_rng_seed_to(seed=1)
    rng = np.random.default_rng(0)
    images = rng.normal(size=(8, 3, 8, 8)).astype(np.float32)
    labels = rng.integers(0, 10, 8).astype(np.int32)
    x = _core.MLCTensor(shape=list(images.shape))
    label = _core.MLCTensor(shape=[8], data_type="int32")
    graph = _core.MLCGraph()
    network(graph, x)
    loss = _core.MLCLossLayer.softmax_cross_entropy(reduction_type="mean")
    training = _core.MLCTrainingGraph(graph_objects=[graph], loss_layer=loss, optimizer=optimizer)
    training.add_inputs({"x": x}, loss_labels={"label": label})
    training.compile(device=device)
    inference = _core.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    inference.compile(device=device)
    losses = [
        training.execute(
            inputs_data={"x": images}, loss_labels_data={"label": labels}, options="synchronous"
        ).result
        for _ in range(STEPS)
    ]
    said = inference.execute(inputs_data={"x": images}, options="synchronous").result
    return np.concatenate([np.ravel(losses), np.ravel(said)]).astype(np.float32)


def compare(device: str) -> Iterator[tuple[str, float]]:
    """Each network and optimizer, and how far the device is from the reference loops."""
    for network, build in NETWORKS.items():
        for optimizer, make in OPTIMIZERS.items():
            expected = _train("reference", build, make())
            got = _train(device, build, make())
            apart = np.abs(got - expected).max() / np.abs(expected).max()
            yield f"{network} with {optimizer}", float(apart)


# --- the report ----------------------------------------------------------------------------------


def report_path(device: str) -> Path:
    """Where the report of a device lies."""
    home = Path.home()
    if sys.platform == "darwin":
        cache = home / "Library/Caches"
    else:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return cache / "traingraph" / f"verified_{device}.json"


def _machine() -> dict[str, str]:
    """What a report holds for: another library or system has to be verified again."""
    return {
        "traingraph": _core.version(),
        "system": platform.platform(),
        "machine": platform.machine(),
    }


def verified(device: str) -> bool:
    """Whether the last report for this device, library and system says PASS."""
    try:
        report = json.loads(report_path(device).read_text())
    except (OSError, ValueError):
        return False
    return (
        isinstance(report, dict)
        and report.get("result") == "PASS"
        and (report.get("machine") == _machine())
    )


def verify(device: str, tests: Path | None = None) -> bool:
    """Compares, prints and writes the report; runs the suites in a folder of tests too."""
    if device not in _core.backends():
        raise _core.InvalidArgument(
            f"[verify] expected one of {', '.join(_core.backends())} but got '{device}'"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        found = dict(compare(device))
    passed = all(apart <= BOUND for apart in found.values())
    for name, apart in found.items():
        print(f"{'ok' if apart <= BOUND else 'FAILED':7} {name}: {apart:.1e} apart")
    if tests is not None:
        suites = [str(tests / name) for name in ("layers", "train", "graph", "optimizers")]
        command = [sys.executable, "-m", "pytest", "-q", "--device", device, *suites]
        passed = subprocess.run(command, cwd=tests.parent).returncode == 0 and passed
    report = {"result": "PASS" if passed else "FAIL", "machine": _machine(), "apart": found}
    report["tests"] = tests is not None
    path = report_path(device)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=2) + "\n")
    print(f"{report['result']}: written to {path}")
    return passed


# --- what follows from it ------------------------------------------------------------------------

_warned: set[str] = set()


def warn_unless_verified(device: str) -> None:
    """Warns once per process and device where nobody has verified it on this machine."""
    if device not in UNVERIFIED or device in _warned:
        return
    _warned.add(device)
    if not verified(device):
        warnings.warn(
            f"[device] {device} has never been verified on hardware by its authors; "
            f"run: python -m traingraph verify --device {device}",
            RuntimeWarning,
            stacklevel=2,
        )


def choose_any() -> None:
    """Lets the device type ANY mean this Mac's GPU once that is verified."""
    if "metal" in _core.backends() and verified("metal"):
        _core._set_any_device("metal")
