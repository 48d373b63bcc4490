"""Wrong gradients that check_gradients finds, beside kinks too: networks of the private module."""

import math
from typing import Any

import numpy as np
import pytest

from harness import everywhere

testing = pytest.importorskip("traingraph._testing", reason="built without TRAINGRAPH_TESTING")
MIXED = {"tf32": 5e-3, "mixed_float16": 1e-2, "mixed_bfloat16": 5e-2}
# ok, worst element, error, bound, compared, excluded
Row = tuple[bool, list[int] | None, float, float, int, int]


# --- wrong gradients -----------------------------------------------------------------------------


def wrong(
    device: str, weights: list[float], at: int, factor: float, precision: str = "float32"
) -> Row:
    """Of a network in which the gradient of the element `at` is wrong by the factor."""
    ok, rows = testing.wrong_scale(device, precision, weights, at, factor)
    layer, parameter, element, error, bound, compared, excluded, row_ok = rows[0]
    assert (layer, parameter, len(rows)) == ("scale", "weights", 1)
    assert ok == row_ok
    return ok, element, error, bound, compared, excluded


@everywhere
def test_a_right_one_beside_the_wrong_ones(device: str) -> None:
    ok, _, error, _, compared, excluded = wrong(device, [0.5, 0.25, 0.75, 0.5], 2, 1.0)
    assert (ok, compared, excluded) == (True, 4, 0)
    assert error < 1e-6


@pytest.mark.parametrize("factor", [0.0, -1.0, 1.001, 1.2, 2.0, 1e30])
@pytest.mark.parametrize("at", [0, 3])
@everywhere
def test_a_wrong_element_is_named(device: str, at: int, factor: float) -> None:
    ok, element, error, _, _, excluded = wrong(device, [0.5, 0.25, 0.75, 0.5], at, factor)
    assert (ok, element, excluded) == (False, [at], 0)
    assert error == pytest.approx(abs(factor - 1), rel=0.6)


@pytest.mark.parametrize("precision", MIXED)
@everywhere
def test_rounding_excuses_no_wrong_element(device: str, precision: str) -> None:
    ok, element, _, bound, _, excluded = wrong(device, [0.5, 0.25, 0.75, 0.5], 2, 1.2, precision)
    assert (ok, element, bound, excluded) == (False, [2], MIXED[precision], 0)


@everywhere
def test_a_wrong_element_of_many_is_found(device: str) -> None:
    """Where it is the largest it is compared itself; a small one shows along directions."""
    weights = list(np.random.default_rng(2).uniform(0.25, 1, 3000))
    ok, element, *_ = wrong(device, weights, 1234, 3.0)
    assert (ok, element) == (False, [1234])
    ok, element, error, bound, compared, _ = wrong(device, weights, 1234, 0.0)
    assert (ok, element, compared) == (False, None, 68)
    assert error > bound


@everywhere
def test_what_a_forward_pass_writes_is_what_is_checked(device: str) -> None:
    """A row cut to a limit, as tables of embeddings are: its gradient is that of the cut row."""
    ok, rows = testing.wrong_scale(device, "float32", [0.5, 0.25, 0.75, 0.5], 2, 1.0, limit=0.5)
    assert (ok, rows[0][5:7]) == (True, (4, 0))
    ok, rows = testing.wrong_scale(device, "float32", [0.5, 0.25, 0.75, 0.5], 2, 1.5, limit=0.5)
    assert (ok, rows[0][2]) == (False, [2])


# --- kinks ---------------------------------------------------------------------------------------


@everywhere
def test_relu_at_zero_is_excluded(device: str) -> None:
    ok, _, _, _, compared, excluded = wrong(device, [0.5, 0.0, 0.75, 0.0], 2, 1.0)
    assert (ok, compared, excluded) == (True, 2, 2)


@everywhere
def test_a_kink_hides_no_wrong_gradient_beside_it(device: str) -> None:
    ok, element, error, _, compared, excluded = wrong(device, [0.5, 0.0, 0.75, 0.0], 2, 1.01)
    assert (ok, element, compared, excluded) == (False, [2], 2, 2)
    assert error == pytest.approx(0.01, rel=1e-3)


@everywhere
def test_nothing_but_kinks_is_not_ok(device: str) -> None:
    ok, element, error, _, compared, excluded = wrong(device, [0.0] * 4, 1, 1.0)
    assert (ok, element, error, compared, excluded) == (False, None, math.inf, 0, 4)


def test_a_small_kink_excuses_little() -> None:
    """Of a slope of 1 that jumps by 2e-6: what is off by more than 64 times the doubt is wrong."""
    value, doubt = testing.best_slope(lambda t: t + 1e-6 * abs(t), 0)
    assert value == pytest.approx(1, abs=1e-9)
    assert 1e-6 < doubt < 3e-6


@pytest.mark.parametrize(
    ("function", "slope"),
    [
        (lambda t: math.sin(3 * t + 1), 3 * math.cos(1)),
        (lambda t: math.exp(5 * t), 5),
        (lambda t: 7.0, 0),
        (lambda t: max(0.0, t - 1e-4), 0),  # a kink between the steps
        (lambda t: abs(t + 3e-3), 1),
    ],
)
def test_slopes(function: Any, slope: float) -> None:
    value, doubt = testing.best_slope(function, 1e-16)
    assert value == pytest.approx(slope, abs=1e-9)
    assert doubt < 1e-8


@pytest.mark.parametrize(
    "function",
    [
        abs,
        lambda t: max(0.0, t),
        lambda t: float(t > 0),
        lambda t: abs(t - 1e-8),
        lambda t: math.sqrt(abs(t)),
        lambda t: math.nan,
    ],
)
def test_kinks_have_no_slope(function: Any) -> None:
    _, doubt = testing.best_slope(function, 1e-16)
    assert doubt > 0.5
