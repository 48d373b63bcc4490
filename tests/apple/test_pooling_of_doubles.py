"""Pooling of the doubles where it can be read in several ways: equal values, NaN, dilation, parts.

What the doubles say there is what `traingraph.mps` computes, which is asked as well.
"""

from typing import Any

import numpy as np
import pytest
from kernel_pairs import run_pair, set_all
from mps_session import Session, session, values
from objective_c import Object, Runtime
from reference_pairs import DEVICE, run_pair_by_mps

from traingraph import mps

ZERO, CLAMP = 0, 1
EDGES = {ZERO: "zero", CLAMP: "clamp"}
NAN = np.nan
PLAIN = "initWithDevice:kernelWidth:kernelHeight:strideInPixelsX:strideInPixelsY:"
DILATED = (
    "initWithDevice:kernelWidth:kernelHeight:dilationRateX:dilationRateY:"
    "strideInPixelsX:strideInPixelsY:"
)


def made(s: Session, kind: str, case: dict) -> tuple[Object, Object]:
    """The kernel and its gradient kernel with the properties of a case."""
    name = "MPSCNNDilatedPoolingMax" if "dilation" in case else f"MPSCNNPooling{kind}"
    form = DILATED if "dilation" in case else PLAIN
    sizes = (*case["kernel"], *case.get("dilation", ()), *case["stride"])
    kernel, gradient = s.kernel(name, form, *sizes), s.kernel(f"{name}Gradient", form, *sizes)
    offset, edge = (*case["offset"], 0), case["edge"]
    set_all(kernel, offset=offset, edgeMode=edge)
    set_all(gradient, secondaryOffset=offset, primaryEdgeMode=edge, secondaryEdgeMode=edge)
    for each in (kernel, gradient):
        if "zero_pad" in case:
            set_all(each, zeroPadSizeX=case["zero_pad"][0], zeroPadSizeY=case["zero_pad"][1])
    return kernel, gradient


def made_by_mps(kind: str, case: dict) -> tuple[Any, Any]:
    """The same two kernels of traingraph.mps."""
    name = "MPSCNNDilatedPoolingMax" if "dilation" in case else f"MPSCNNPooling{kind}"
    given = {}
    for what, pair in (("kernel", ("width", "height")), ("stride_in_pixels", "xy"),
                       ("dilation_rate", "xy")):  # fmt: skip
        sizes = case.get(what.partition("_")[0], ())
        given |= {f"{what}_{axis}": size for axis, size in zip(pair, sizes, strict=False)}
    kernel = getattr(mps, name)(device=DEVICE, **given)
    gradient = getattr(mps, f"{name}Gradient")(device=DEVICE, **given)
    kernel.offset, kernel.edge_mode = case["offset"], EDGES[case["edge"]]
    gradient.secondary_offset, gradient.secondary_edge_mode = case["offset"], EDGES[case["edge"]]
    for each in (kernel, gradient):
        if "zero_pad" in case:
            each.zero_pad_size_x, each.zero_pad_size_y = case["zero_pad"]
    return kernel, gradient


def check(runtime: Runtime, kind: str, case: dict, x: np.ndarray, e: np.ndarray) -> None:
    with session(runtime) as s:
        y, dx = run_pair(s, *made(s, kind, case), x, e)
    expected_y, expected_dx = run_pair_by_mps(*made_by_mps(kind, case), x, e)
    np.testing.assert_allclose(y, expected_y, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(dx, expected_dx, rtol=1e-5, atol=1e-6)


WINDOWS = [
    {"kernel": (2, 2), "stride": (2, 2), "offset": (1, 1)},
    {"kernel": (3, 2), "stride": (1, 2), "offset": (0, 1)},
    {"kernel": (3, 3), "stride": (2, 2), "offset": (-1, 2)},
]
# Apple's dilated pooling is that of maxima alone.
DILATED_WINDOWS = [
    {"kernel": (2, 3), "stride": (1, 1), "offset": (0, 0), "dilation": (3, 2)},
    {"kernel": (3, 2), "stride": (2, 1), "offset": (2, 1), "dilation": (2, 1)},
]


@pytest.mark.parametrize("edge", [ZERO, CLAMP])
@pytest.mark.parametrize(
    ("kind", "window"),
    [(kind, window) for kind in ("Max", "Average", "L2Norm") for window in WINDOWS]
    + [("Max", window) for window in DILATED_WINDOWS],
)
@pytest.mark.parametrize("special", ["", "ties", "NaN"])
def test_as_traingraph_mps(
    runtime: Runtime, kind: str, window: dict, edge: int, special: str
) -> None:
    x, e = values(2, 3, 6, 7), values(2, 3, 3, 3)
    if special == "ties":
        x = np.round(x).astype(np.float32)
    if special == "NaN":
        x[:, 1, 1:3, 2:4] = NAN
    check(runtime, kind, window | {"edge": edge}, x, e)


@pytest.mark.parametrize("zero_pad", [(0, 1), (1, 0), (2, 2)])
def test_zeros_that_an_average_counts(runtime: Runtime, zero_pad: tuple[int, int]) -> None:
    case = {"kernel": (3, 3), "stride": (2, 2), "offset": (0, 0), "edge": CLAMP}
    check(runtime, "Average", case | {"zero_pad": zero_pad}, values(2, 3, 6, 7), values(2, 3, 4, 4))


@pytest.mark.parametrize(
    ("edge", "x", "y", "dx"),
    [
        (CLAMP, [2, 5, 5, 1], 5, [0, 1, 0, 0]),  # the first of equals
        (CLAMP, [2, NAN, 5, NAN], NAN, [0, 1, 0, 0]),  # NaN before numbers, and the first one
        (CLAMP, [-2, -1, -3, -4], -1, [0, 1, 0, 0]),
        (ZERO, [-2, -1, -3, -4], 0, [0, 0, 0, 0]),  # a zero beyond the image is larger
        (ZERO, [-2, 0, -3, -4], 0, [0, 0, 0, 0]),  # and comes first among equals
    ],
)
def test_the_largest_of_a_window(runtime: Runtime, edge: int, x: list, y: float, dx: list) -> None:
    # The one window of 3 x 3 lies with its last 2 x 2 places on the image.
    case = {"kernel": (3, 3), "stride": (1, 1), "offset": (0, 0), "edge": edge}
    source = np.array(x, np.float32).reshape(1, 1, 2, 2)
    with session(runtime) as s:
        found = run_pair(s, *made(s, "Max", case), source, np.ones((1, 1, 1, 1), np.float32))
    np.testing.assert_array_equal(found[0].item(), y)
    np.testing.assert_array_equal(found[1].ravel(), dx)


def test_dilated_windows_reach_over_what_they_leave_out(runtime: Runtime) -> None:
    x = np.arange(5, dtype=np.float32).reshape(1, 1, 1, 5)
    case = {"kernel": (2, 1), "stride": (1, 1), "offset": (0, 0), "dilation": (3, 1)}
    with session(runtime) as s:
        # Two taps three apart reach 4 far: they lie at -2 and +1.
        y, dx = run_pair(s, *made(s, "Max", case | {"edge": CLAMP}), x, np.ones_like(x))
    np.testing.assert_array_equal(y.ravel(), [1, 2, 3, 4, 2])
    np.testing.assert_array_equal(dx.ravel(), [0, 1, 2, 1, 1])


def test_as_much_of_the_gradient_as_source_size_says(runtime: Runtime) -> None:
    case = {"kernel": (1, 1), "stride": (1, 1), "offset": (0, 0), "edge": ZERO}
    x, e = values(1, 1, 4, 5), values(1, 1, 4, 5)
    with session(runtime) as s:
        kernel, gradient = made(s, "Average", case)
        set_all(gradient, primaryOffset=(2, 1, 0), sourceSize=(2, 9, 1))
        _, dx = run_pair(s, kernel, gradient, x, e)
    expected = np.zeros_like(x)
    expected[..., :3, :2] = e[..., 1:, 2:4]
    np.testing.assert_array_equal(dx, expected)
