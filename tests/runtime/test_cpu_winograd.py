"""3 x 3 convolutions of the CPU backend by Winograd's method: results and gradients beside float64,
bits that depend neither on the number of threads nor on where a sample lies, and the switch."""

import os
import subprocess
import sys

import numpy as np
import pytest
from cpu_ops import numbers, on_cpu, scalars

from op_harness import testing

THREADS = [1, 2, 3, 4, 8]
# Of the largest result.
BOUND = 1e-5


def problem(n, c, o, size, before=(1, 1), after=(1, 1)):
    attributes = {"kernel": (3, 3), "padding_before": before, "padding_after": after}
    return numbers((n, c, *size)), numbers((o, c, 3, 3), seed=1), attributes


# Blocks that one thread computes and blocks that all share, several of them and slices of columns,
# panels of one vector, tiles that reach beyond the image, and shapes that oneDNN keeps.
PROBLEMS = {
    "many blocks": (24, 64, 64, (16, 16)),
    "many blocks, odd": (23, 32, 48, (13, 18)),
    "many blocks, no padding": (20, 64, 32, (14, 15), (0, 0), (0, 0)),
    "many blocks, paddings": (20, 48, 64, (14, 15), (2, 0), (1, 2)),
    "shared": (12, 64, 112, (14, 14)),
    "shared, odd": (14, 48, 80, (17, 9), (0, 2), (2, 0)),
    "one image": (1, 96, 64, (28, 28)),
    "several shared blocks": (40, 256, 160, (16, 16)),
    "slices": (34, 512, 272, (4, 4)),
    "no multiple of a vector": (8, 30, 33, (12, 12)),
    "few channels": (8, 3, 64, (12, 12)),
    "small images": (64, 64, 64, (2, 2)),
}
REFUSED = {
    "no multiple of a vector": "takes multiples of",
    "few channels": "takes multiples of",
    "small images": "about as fast",
}


def windows(x, attributes):
    """(N, C, P, Q, 3, 3) of x in float64, padded with zeros."""
    pairs = zip(attributes["padding_before"], attributes["padding_after"], strict=True)
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *pairs])
    return np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))


def exact(x, weights, attributes):
    product = np.tensordot(
        windows(x, attributes), weights.astype(np.float64), [(1, 4, 5), (1, 2, 3)]
    )
    return product.transpose(0, 3, 1, 2)


def exact_gradients(dy, x, weights, attributes):
    """Of x and of the weights."""
    around = {
        key: tuple(2 - p for p in attributes[key]) for key in ("padding_before", "padding_after")
    }
    turned = weights[:, :, ::-1, ::-1].swapaxes(0, 1)
    dw = np.tensordot(dy.astype(np.float64), windows(x, attributes), [(0, 2, 3), (0, 2, 3)])
    return exact(dy, turned, around), dw


def near(got, expected):
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, expected, rtol=0, atol=BOUND * np.abs(expected).max())


def computed(x, weights, attributes, dy):
    """Result, gradient of x, gradient of the weights."""
    y = on_cpu("convolution", attributes, [x, weights])[0][0]
    to_x = {**attributes, "result_shape": x.shape}
    dx = on_cpu("convolution_gradient_data", to_x, [dy, weights])[0][0]
    to_weights = {**attributes, "result_shape": weights.shape}
    return y, dx, on_cpu("convolution_gradient_weights", to_weights, [dy, x])[0][0]


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("low", [-1.0, 0.0])
def test_results_and_gradients(name, low, threads):
    x, weights, attributes = problem(*PROBLEMS[name])
    x = np.maximum(x, np.float32(low))
    y = exact(x, weights, attributes)
    dy = numbers(y.shape, seed=2)
    found = computed(x, weights, attributes, dy)
    for got, expected in zip(found, (y, *exact_gradients(dy, x, weights, attributes)), strict=True):
        near(got, expected)


@pytest.mark.parametrize("name", PROBLEMS)
def test_bits_for_any_number_of_threads(name):
    x, weights, attributes = problem(*PROBLEMS[name])
    dy = numbers(exact(x, weights, attributes).shape, seed=2)
    found = set()
    for count in THREADS:
        testing.set_thread_count(count)
        found.add(tuple(part.tobytes() for part in computed(x, weights, attributes, dy)))
    testing.set_thread_count(1)
    assert len(found) == 1


@pytest.mark.parametrize("name", ["many blocks, odd", "shared", "slices"])
def test_a_sample_has_its_bits_wherever_it_lies(name, threads):
    x, weights, attributes = problem(*PROBLEMS[name])
    order = np.random.default_rng(3).permutation(len(x))
    straight = on_cpu("convolution", attributes, [x, weights])[0][0]
    moved = on_cpu("convolution", attributes, [np.ascontiguousarray(x[order]), weights])[0][0]
    np.testing.assert_array_equal(moved, straight[order])


ENDS = {
    "bias": [("add", 0, 1, 0, 0)],
    "relu": [("relu", 0, -1, 0, 0)],
    "bias, relu": [("add", 0, 1, 0, 0), ("relu", 2, -1, 0, 0)],
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", ["many blocks, odd", "shared", "slices"])
def test_epilogues(name, end):
    x, weights, attributes = problem(*PROBLEMS[name])
    bias = [numbers((1, weights.shape[0], 1, 1), seed=4)] if "bias" in end else []
    tail = scalars(1 + len(bias), ENDS[end])
    expected = exact(x, weights, attributes) + (bias[0] if bias else 0)
    if "relu" in end:
        expected = np.maximum(expected, 0)
    near(
        on_cpu("convolution", {**attributes, "epilogue": tail}, [x, weights, *bias])[0][0], expected
    )


def test_what_is_not_finite_stays_in_its_image_and_reaches_the_result():
    x, weights, attributes = problem(*PROBLEMS["many blocks"])
    x[3, 5, 6, 7] = np.nan
    x[9, 5, 6, 7] = np.inf
    tail = scalars(1, ENDS["relu"])
    y = on_cpu("convolution", {**attributes, "epilogue": tail}, [x, weights])[0][0]
    assert np.isnan(y[3, :, 5:8, 6:9]).all()
    assert not np.isfinite(y[9, :, 5:8, 6:9]).any()
    np.testing.assert_array_equal(
        np.isfinite(y).all(axis=(1, 2, 3)), ~np.isin(np.arange(24), [3, 9])
    )


def in_a_process(name, **environment):
    """A digest of the three results, and the reasons that the dispatch prints."""
    script = (
        "import hashlib, test_cpu_winograd as t\n"
        f"x, weights, attributes = t.problem(*t.PROBLEMS[{name!r}])\n"
        "dy = t.numbers(t.exact(x, weights, attributes).shape, seed=2)\n"
        "found = t.computed(x, weights, attributes, dy)\n"
        "for got, expected in zip(\n"
        "    found, (t.exact(x, weights, attributes),\n"
        "            *t.exact_gradients(dy, x, weights, attributes)), strict=True):\n"
        "    t.near(got, expected)\n"
        "print(hashlib.sha256(b''.join(part.tobytes() for part in found)).hexdigest())\n"
    )
    path = os.pathsep.join(p for p in [os.path.dirname(__file__), *sys.path] if p)
    variables = {**os.environ, "PYTHONPATH": path, "TRAINGRAPH_VERBOSE": "dispatch", **environment}
    done = subprocess.run(
        [sys.executable, "-c", script], env=variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.mark.parametrize("name", [name for name in PROBLEMS if name not in REFUSED])
def test_the_switch(name):
    on, reasons = in_a_process(name)
    if "no gain at level" in reasons:
        pytest.skip("a level without Winograd's method")
    assert "Winograd" not in reasons
    off, reasons = in_a_process(name, TRAINGRAPH_WINOGRAD="0")
    assert reasons.count("turned off (TRAINGRAPH_WINOGRAD)") >= 3
    assert on != off


@pytest.mark.parametrize(("name", "reason"), REFUSED.items())
def test_the_reason_of_a_refusal(name, reason):
    reasons = in_a_process(name)[1]
    assert "Winograd's method" in reasons
    assert reason in reasons or "no gain at level" in reasons
