"""Lists of scalar functions over tensors so large that a GPU compiles a kernel for each.

Operands are dense, one number, one number per channel, per row or in between; extents are even and
odd; elements have 32, 64 or 16 bits. What is expected is the reference backend's result.
"""

import numpy as np
import pytest

from differences import assert_near
from harness import everywhere
from op_harness import forward, in_half, testing

ARITIES = {name: row[0] for name, row in testing.scalar_table().items()}
# Of finite results everywhere, and without jumps that rounding would show.
FUNCTIONS = [
    ("add", 0, 0), ("subtract", 0, 0), ("multiply", 0, 0), ("affine", 0.5, -0.25),
    ("multiply_add", 0.75, -0.5), ("sigmoid", 0, 0), ("exp", 0, 0), ("scale", 0.1, 0),
    ("erf", 0, 0), ("gelu_gradient", 0, 0), ("sin", 0, 0), ("maximum", 0, 0), ("square", 0, 0),
    ("log", 0, 0), ("clip", -3, 3), ("rsqrt", 0, 0), ("power", 1.5, 0), ("tanh", 0, 0),
]  # fmt: skip
POSITIVE = {"log", "rsqrt", "power"}  # these read the sigmoid of their operand

SHAPES = {
    "packs": (48, 64, 64),
    "odd rows": (33, 63, 71),
    "a channel": (7, 19, 1024),
    "one axis": (200_001,),
    "few packs": (513, 2, 130),
}


def sources(shape, rng):
    """Shapes of operands: dense, one number, and each axis alone or left out."""
    rank = len(shape)
    each = [shape, (1,) * rank, shape]
    for axis in range(rank):
        each.append(tuple(e if k == axis else 1 for k, e in enumerate(shape)))
        each.append(tuple(1 if k == axis else e for k, e in enumerate(shape)))
    return [np.asarray(rng.uniform(-1.5, 1.5, s), np.float32) for s in each]


def drawn_list(inputs, rng):
    """Every operand is read; the last step and one before it are results."""
    code, unread = [], list(range(inputs))
    for _ in range(3 * inputs):
        name, p, q = FUNCTIONS[rng.integers(len(FUNCTIONS))]
        registers = inputs + len(code)
        x = unread.pop() if unread else int(rng.integers(registers))
        if name in POSITIVE:
            code.append(("sigmoid", x, -1, 0.0, 0.0))
            x = registers
            registers += 1
        y = int(rng.integers(registers)) if ARITIES[name] == 2 else -1
        code.append((name, x, y, float(p), float(q)))
        # Values stay small.
        code.append(("tanh", registers, -1, 0.0, 0.0))
    last = inputs + len(code) - 1
    return {"list": {"inputs": inputs, "code": code, "results": [last, last - 2]}}


@everywhere
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", SHAPES)
def test_lists_over_large_tensors(name, dtype, seed, device):
    if device == "metal" and dtype == "float64":
        pytest.skip("Metal has no float64")
    rng = np.random.default_rng([seed, *SHAPES[name]])
    arrays = sources(SHAPES[name], rng)
    attributes = drawn_list(len(arrays), rng)
    if dtype in ("float16", "bfloat16"):
        attributes["result_types"] = [dtype, "float32"]
        kept = (0, 3)
        (got, types), (expected, _) = (
            in_half("elementwise", attributes, arrays, dtype, kept, backend)
            for backend in (device, "reference")
        )
        assert types == [dtype, "float32"]
        bounds = [2e-3 if dtype == "float16" else 1e-2, 1e-4]
    else:
        arrays = [a.astype(dtype) for a in arrays]
        got, expected = (
            forward("elementwise", attributes, arrays, b) for b in (device, "reference")
        )
        bounds = [2e-5 if dtype == "float32" else 1e-13] * 2
    for found, right, bound in zip(got, expected, bounds, strict=True):
        assert np.isfinite(right).all()
        assert_near(found, right, bound)
