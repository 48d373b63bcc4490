"""Every function of the scalar table at the ends of its operands' range: value and derivative."""

import numpy as np
import pytest
from test_scalar_table import derivative, evaluate, everywhere

from limits import assert_equals, at_once, limit, pairs, points
from op_harness import testing
from scalar_formulas import FUNCTIONS

TABLE = testing.scalar_table()
# What derivatives are made of is tested as such: their operands are a gradient and a result, which
# have no ends of their own.
PARTS = {name for name in TABLE if name.endswith("_gradient")} | {"constant"}
CASES = [(name, *pq) for name, f in FUNCTIONS.items() for pq in f.parameters]


def test_every_row_is_covered():
    assert set(FUNCTIONS) == set(TABLE) - PARTS


def operands(name, dtype):
    """As many columns as its arity, in a length that fills no vectors."""
    columns = [points(dtype)] if TABLE[name][0] == 1 else pairs(dtype)
    columns = [np.tile(a, 4)[: 4 * len(a) - 3] for a in columns]
    if name == "huber":  # where the distance itself is too large for the type it is infinite
        with np.errstate(all="ignore"):
            keep = np.isfinite(columns[0] - columns[1]) | np.isinf(columns).any(axis=0)
        columns = [a[keep] for a in columns]
    return columns


def expected(name, p, q, formula, arrays):
    f = FUNCTIONS[name]

    def over(*given):
        return formula(*[*given, None][:2], p, q)

    return at_once(over, arrays) if f.chooses else limit(over, arrays, f.held)


@everywhere
@pytest.mark.parametrize(("name", "p", "q"), CASES)
def test_value(name, p, q, device, dtype):
    arrays = operands(name, dtype)
    found = evaluate(name, arrays, p, q, device)
    assert_equals(found, expected(name, p, q, FUNCTIONS[name].value, arrays), *arrays)


@everywhere
@pytest.mark.parametrize(("name", "p", "q"), [c for c in CASES if any(TABLE[c[0]][1:])])
def test_derivative(name, p, q, device, dtype):
    arrays = operands(name, dtype)
    wanted = [k for k, has in enumerate(TABLE[name][1:]) if has]
    assert len(wanted) == len(FUNCTIONS[name].slopes)
    for k in wanted:
        found = derivative(name, arrays, p, q, operand=k, device=device)
        assert_equals(found, expected(name, p, q, FUNCTIONS[name].slopes[k], arrays), *arrays)
