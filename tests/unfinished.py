"""Rows that a backend does not hold yet, each with what it lacks.

They run, and one that passes turns red until it is taken out.
"""

NORM = "tests/layers/test_batch_norm_extremes.py::"

# Test, its rows, what is missing there.
UNFINISHED = (
    (
        NORM + "test_large_values",
        ("shape2-1e+20-metal", "shape2-1e+25-metal", "shape2-1e+37-metal"),
        "MPSCNNBatchNormalizationState has the variance in float32, and own shaders see no images",
    ),
    (
        NORM + "test_large_values_in_bfloat16",
        ("shape0-1e+30-cuda", "shape0-1e+37-cuda", "shape2-1e+30-cuda"),
        "the gradient's products leave float32's range before the deviation divides them; a kernel "
        "whose do not made a step of resnet50_224 4 % longer",
    ),
)
REASONS = {f"{test}[{row}]": why for test, rows, why in UNFINISHED for row in rows}


def why_unfinished(name: str) -> str:
    """What the backend of this row lacks; empty where it lacks nothing."""
    return REASONS.get(name, "")
