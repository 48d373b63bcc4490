"""Rows that a backend does not hold yet, each with what it lacks.

They run, and one that passes turns red until it is taken out.
"""

import re

NORM = "tests/layers/test_batch_norm_extremes.py::"

# Test, its rows, what is missing there.
UNFINISHED = (
    (
        NORM + "test_large_values",
        ("shape2-1e+20-metal", "shape2-1e+25-metal", "shape2-1e+37-metal"),
        "MPSCNNBatchNormalizationState has the variance in float32, and shaders see no images",
    ),
    (
        NORM + "test_large_values_in_bfloat16",
        ("shape0-1e+30-cuda", "shape0-1e+37-cuda", "shape2-1e+30-cuda"),
        "the gradient's products leave float32's range before the deviation divides them; a kernel "
        "whose do not made a step of resnet50_224 4 % longer",
    ),
)
REASONS = {f"{test}[{row}]": why for test, rows, why in UNFINISHED for row in rows}

LAYERS, OPS = "tests/layers/test_", "tests/reference/test_"
OTHER_TYPES = "(float64|u?int8|int32|int64|bool)"
# Rows of Metal, by a pattern: what has no kernels there yet, and no composition.
WITHOUT_KERNELS = (
    (
        OPS + r"choosing_ops\.py::test_compare\[\d-(float64|u?int8|int32|int64)-metal\]",
        "other types",
    ),
    (OPS + r"choosing_ops\.py::test_extremum\[(float64|int32)-.*metal\]", "other types"),
    (OPS + r"embedding_op\.py::test_check_of_indices\[.*metal\]", "check_indices"),
    (
        LAYERS + r"comparison_layer\.py::test_relations\[(float64|u?int8|int32|int64)-.*metal\]",
        "other types",
    ),
    (
        LAYERS + r"reduction\.py::test_(places_are_numbers|any_and_all).*\[float64-metal\]",
        "other types",
    ),
    (
        LAYERS + r"embedding\.py::test_(computed_indices_outside|indices_in_the_devices|"
        r"indices_by_a_table).*metal\]",
        "check_indices",
    ),
    (
        LAYERS + r"multihead_attention\.py::test_no_value_of_all_scores\[metal-.*",
        "attention, which is composed: scores are values",
    ),
    (
        LAYERS + rf"moved_types\.py::test_every.*\[(?!reshape).*-{OTHER_TYPES}-metal\]",
        "other types",
    ),
    (LAYERS + r"transposed_convolution\.py::test_float64\[metal-.*", "other types"),
    (LAYERS + rf"moved_types\.py::test_margins.*-{OTHER_TYPES}-metal\]", "other types"),
    (LAYERS + rf"moved_types\.py::test_scatter.*\[{OTHER_TYPES}-metal\]", "other types"),
    (LAYERS + r"moved_types\.py::test_what_says_so_is_what_runs\[metal\]", "other types"),
    (
        r"tests/mps/test_batches_of_states\.py::test_a_gradient_of_another_size_is_refused"
        r"\[metal-(convolution|transposed|fully connected)\]",
        "a data source's weights of float64",
    ),
)


def why_unfinished(name: str) -> str:
    """What the backend of this row lacks; empty where it lacks nothing."""
    kernels = (what for rows, what in WITHOUT_KERNELS if re.fullmatch(rows, name))
    return REASONS.get(name) or next((f"no kernels: {what}" for what in kernels), "")
