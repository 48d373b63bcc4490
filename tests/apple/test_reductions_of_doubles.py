"""Reductions of the doubles against numpy: arguments, weights, rectangles and NaN."""

from collections.abc import Callable

import numpy as np
import pytest
from kernel_pairs import run_forward, set_all
from mps_session import Session, broken, session, values
from objective_c import Object, Runtime

AXES = {"FeatureChannels": 1, "Column": 2, "Row": 3}
REDUCTIONS = {
    "Sum": np.sum,
    "Mean": np.mean,
    "Min": np.min,
    "Max": np.max,
    "ArgumentMin": np.argmin,
    "ArgumentMax": np.argmax,
}
CASES = [
    (axis, kind)
    for axis in AXES
    for kind in REDUCTIONS
    if axis == "FeatureChannels" or not kind.startswith("Argument")
]
# Width and height from a column and a row on.
CLIP = ((1, 2, 0), (3, 1, 1))


@pytest.mark.parametrize(("axis", "kind"), CASES)
@pytest.mark.parametrize("special", ["", "ties", "NaN"])
@pytest.mark.parametrize("clipped", [False, True])
def test_reduction(runtime: Runtime, axis: str, kind: str, special: str, clipped: bool) -> None:
    x = values(2, 5, 4, 6)
    if special == "ties":
        x = np.round(x).astype(np.float32)
    if special == "NaN":
        x[:, 1:3, 2, 3] = np.nan
    read = x[:, :, 2:3, 1:4] if clipped else x
    function: Callable = REDUCTIONS[kind]
    expected = function(read.astype(np.float64), axis=AXES[axis], keepdims=True)
    with session(runtime) as s:
        kernel = s.kernel(f"MPSNNReduce{axis}{kind}")
        if clipped:
            set_all(kernel, clipRectSource=CLIP)
        y = run_forward(s, kernel, x, expected.shape)
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


def test_the_weight_of_a_sum(runtime: Runtime) -> None:
    x = values(2, 5, 2, 3)
    with session(runtime) as s:
        kernel = s.kernel("MPSNNReduceFeatureChannelsSum")
        set_all(kernel, weight=0.25)
        y = run_forward(s, kernel, x, (2, 1, 2, 3))
    np.testing.assert_allclose(y, 0.25 * x.sum(1, keepdims=True), rtol=1e-5, atol=1e-6)


def weighted(s: Session, kernel: Object, x: np.ndarray, w: np.ndarray, size: tuple[int, int]):
    results = s.blank_batch(len(x), 1, *size)
    kernel.send(
        "encodeBatchToCommandBuffer:primaryImages:secondaryImages:destinationImages:",
        s.commands, s.batch(x), s.batch(w), results,
    )  # fmt: skip
    s.run()
    return s.read_batch(results)


def sum_kernel(s: Session, by_non_zero: bool) -> Object:
    form = "initWithDevice:doWeightedSumByNonZeroWeights:"
    return s.kernel("MPSNNReduceFeatureChannelsAndWeightsSum", form, by_non_zero)


# Kernels, and what their sums are divided by where that many weights are not 0.
WEIGHTED = {
    "sum": (lambda s: sum_kernel(s, False), lambda count: 1),
    "non-zero": (lambda s: sum_kernel(s, True), lambda count: np.maximum(count, 1)),
    "mean": (lambda s: s.kernel("MPSNNReduceFeatureChannelsAndWeightsMean"), lambda count: 5),
}


@pytest.mark.parametrize("kind", WEIGHTED)
@pytest.mark.parametrize("clipped", [False, True])
def test_weighted_channels(runtime: Runtime, kind: str, clipped: bool) -> None:
    make, divisor = WEIGHTED[kind]
    x, w = values(2, 5, 4, 6), np.round(values(2, 5, 4, 6), 1)
    w[:, :2, 2, 1], w[0, :, 2, 3] = 0, 0
    place = (slice(None), slice(None), slice(2, 3), slice(1, 4))
    expected_x, expected_w = (x[place], w[place]) if clipped else (x, w)
    count = (expected_w != 0).sum(1, keepdims=True)
    expected = (expected_x * expected_w).sum(1, keepdims=True) / divisor(count)
    with session(runtime) as s:
        kernel = make(s)
        if clipped:
            set_all(kernel, primarySourceClipRect=CLIP, secondarySourceClipRect=CLIP)
        y = weighted(s, kernel, x, w, expected.shape[2:])
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)


def test_weights_have_the_size_of_the_source(runtime: Runtime) -> None:
    def other(s: Session) -> None:
        weighted(s, sum_kernel(s, True), values(1, 5, 2, 2), values(1, 4, 2, 2), (2, 2))

    assert "weights have not the size of the source" in broken(runtime, other)


def test_a_rectangle_lies_in_the_source(runtime: Runtime) -> None:
    def beyond(s: Session) -> None:
        kernel = s.kernel("MPSNNReduceRowSum")
        set_all(kernel, clipRectSource=((3, 0, 0), (1, 1, 1)))
        run_forward(s, kernel, values(1, 1, 2, 3), (1, 1, 1, 1))

    assert "its rectangle of the source is empty" in broken(runtime, beyond)
