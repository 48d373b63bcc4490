"""Rows that a backend does not hold yet, each with what it lacks.

They run, and one that passes turns red until it is taken out.
"""

NORM = "tests/layers/test_batch_norm_extremes.py::"
LIMITS = "tests/reference/test_scalar_limits.py::test_"
LAYER_LIMITS = "tests/layers/test_limits.py::test_"
SLOPE = "the framework's neuron multiplies what is below 0 by its slope, infinity by 0"

# Test, its rows, what is missing there.
UNFINISHED = (
    (
        NORM + "test_large_values",
        (*("shape2-1e+20-metal", "shape2-1e+25-metal", "shape2-1e+37-metal"),),
        "sums of batch norm that float32 cannot hold are not added again",
    ),
    *(
        (LIMITS + what, ("relu-0-0-metal-float32", "leaky_relu-0-0-metal-float32"), SLOPE)
        for what in ("value", "derivative")
    ),
    (LAYER_LIMITS + "activation", ("relu-leaky_relu-0-0-metal-float32",), SLOPE),
    (
        LAYER_LIMITS + "a_chain_is_what_its_parts_are",
        ("convolution-relu-leaky_relu-0-0-metal-float32",),
        SLOPE,
    ),
)
REASONS = {f"{test}[{row}]": why for test, rows, why in UNFINISHED for row in rows}


def why_unfinished(name: str) -> str:
    """What the backend of this row lacks; empty where it lacks nothing."""
    return REASONS.get(name, "")
