"""The BNNS backend over the double of Accelerate. That its kernels compute what the reference does
is for the suites over backends; here is how it calls Accelerate, and what happens if that fails."""

import json
import os
import subprocess
import sys
from pathlib import Path

import accelerate_network
import numpy as np
import pytest

import traingraph as tg
from traingraph import _core

pytestmark = [
    pytest.mark.skipif("bnns" not in _core.backends(), reason="built without the BNNS backend"),
    pytest.mark.skipif(sys.platform == "darwin", reason="asks the double of Accelerate"),
]


def run(*program: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """A program of accelerate_network."""
    package = Path(tg.__file__).parents[1]
    folders = os.pathsep.join(map(str, [package, *Path(__file__).parents[:2]]))
    done = subprocess.run(
        [sys.executable, accelerate_network.__file__, *program],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": folders} | settings,
    )
    assert done.returncode == 0, done.stderr
    return done


def messages(*program: str, **settings: str) -> list[str]:
    """What it says on stderr."""
    return run(*program, **settings).stderr.splitlines()


def counted(steps: int) -> dict[str, int]:
    """Calls of Accelerate by name in a process that trains so many steps."""
    lines = messages("train", str(steps), TRAINGRAPH_ACCELERATE_COUNTS="1")
    words = [line.split() for line in lines if line.startswith("accelerate: ")]
    return {" ".join(line[1:-1]): int(line[-1]) for line in words}


def test_a_step_uses_accelerate_and_creates_nothing() -> None:
    few, many = counted(2), counted(6)
    created = ["BNNSFilterCreateLayerConvolution", "BNNSFilterCreateLayerPooling"]
    for name in [*created, "BNNSFilterDestroy"]:
        assert few[name] == many[name] > 0, name
    assert few["BNNSFilterDestroy"] == sum(few[name] for name in created)
    assert few["filters left"] == many["filters left"] == 0
    # Two convolutions, the first without a gradient of its source; two poolings; a dense layer.
    per_step = {
        "BNNSFilterApplyBatch": 2,
        "BNNSFilterApplyBackwardBatch": 3,
        "BNNSPoolingFilterApplyBatch": 2,
        "BNNSPoolingFilterApplyBackwardBatch": 2,
        "cblas_sgemm": 3,
    }
    for name, calls in per_step.items():
        assert many[name] - few[name] == 4 * calls, name


@pytest.mark.parametrize("adds", [False, True])
def test_training_is_as_on_reference(adds: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where BNNS adds gradients to what their memory holds, which Apple leaves open."""
    if adds:
        monkeypatch.setenv("TRAINGRAPH_ACCELERATE_READS", "adds")
    reference, network = (accelerate_network.Network(d) for d in ("reference", "bnns"))
    np.testing.assert_allclose(network.train(20), reference.train(20), rtol=2e-5)
    expected = reference.parameters()
    for name, values in network.parameters().items():
        np.testing.assert_allclose(values, expected[name], rtol=0, atol=2e-5, err_msg=name)


@pytest.mark.parametrize(
    ("call", "op", "reason"),
    [
        ("BNNSFilterCreateLayerConvolution", "convolution", "BNNS creates no such convolution"),
        ("BNNSFilterCreateLayerPooling", "pooling", "BNNS creates no such pooling"),
    ],
)
def test_what_bnns_creates_no_filter_for_has_other_loops(call: str, op: str, reason: str) -> None:
    done = run("train", "5", TRAINGRAPH_VERBOSE="dispatch", TRAINGRAPH_ACCELERATE_REFUSES=call)
    said = done.stderr.splitlines()
    assert any(f"bnns refuses {op} " in line and reason in line for line in said), said
    expected = accelerate_network.Network("reference").train(5)
    np.testing.assert_allclose(json.loads(done.stdout), expected, rtol=2e-5)


@pytest.mark.parametrize(
    "call",
    [
        "BNNSFilterApplyBatch",
        "BNNSFilterApplyBackwardBatch",
        "BNNSPoolingFilterApplyBatch",
        "BNNSPoolingFilterApplyBackwardBatch",
    ],
)
def test_a_failed_call_is_a_device_error(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = accelerate_network.Network("bnns")
    network.train(1)
    with monkeypatch.context() as changed:
        changed.setenv("TRAINGRAPH_ACCELERATE_REFUSES", call)
        with pytest.raises(tg.DeviceError, match=rf"^\[bnns\] {call} returned -1$"):
            network.train(1)
    assert np.isfinite(network.train(2)).all()  # and the graph goes on


@pytest.mark.parametrize(
    ("program", "op"),
    [
        ("train_maximum", "pooling"),
        ("train_maximum", "pooling_gradient"),
        ("padded_maximum", "pooling"),
    ],
)
def test_maxima_are_left_to_the_portable_loops(program: str, op: str) -> None:
    said = messages(program, TRAINGRAPH_VERBOSE="dispatch")
    assert any(f"bnns refuses {op} " in line and "BNNS: maxima" in line for line in said), said


def test_nothing_of_the_network_is_refused() -> None:
    said = messages("train", "1", TRAINGRAPH_VERBOSE="dispatch")
    assert [line for line in said if "bnns refuses" in line] == []


def test_the_ops_of_reference_loops_are_listed() -> None:
    listed = _core.looped_ops("bnns")
    assert not {"convolution", "matmul", "elementwise", "batch_norm", "dropout"} & set(listed)
    # A portable build has hand-written loops for small products, and none for convolutions.
    assert set(_core.looped_ops("cpu")) > set(listed)
    assert _core.looped_ops("metal") == []
