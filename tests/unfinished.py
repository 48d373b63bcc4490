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

LAYERS, OPS = "tests/layers/test_", "tests/reference/test_"
OTHER_TYPES = "(float64|u?int8|int32|int64|bool)"
# Rows of Metal, by a pattern: what has no kernels there yet.
WITHOUT_KERNELS = (
    (LAYERS + r"comparison_layer\.py::.*\bmetal\b.*", "compare"),
    (OPS + r"choosing_ops\.py::.*\bmetal\b.*", "compare, extremum, one_hot, constant"),
    (OPS + r"lstm_op\.py::.*\bmetal\b.*", "lstm"),
    (
        LAYERS + r"lstm(_training|_against_torch)?\.py::"
        r"(?!test_wrong_lengths\[.*-False-metal\]).*\bmetal\b.*",
        "lstm",
    ),
    (LAYERS + r"losses\.py::test_backends\[metal-.*shares by class.*", "one_hot"),
    (LAYERS + r"reduction\.py::test_(backends|same_bits|batch)\[metal-.*(max|min) .*", "extremum"),
    (
        LAYERS
        + r"reduction\.py::test_(places|measured|nan|the_first|any_and|no_gradient).*metal\]",
        "extremum",
    ),
    (
        LAYERS + rf"moved_types\.py::test_every.*\[(?!reshape).*-{OTHER_TYPES}-metal\]",
        "other types",
    ),
    (LAYERS + r"yolo_loss\.py::.*\bmetal\b.*", "compare, extremum, constant"),
    (r"tests/train/test_yolo_network\.py::.*\bmetal\b.*", "compare, extremum, constant"),
    (LAYERS + r"transposed_convolution\.py::test_float64\[metal-.*", "other types"),
    (LAYERS + rf"moved_types\.py::test_margins.*-{OTHER_TYPES}-metal\]", "other types"),
    (LAYERS + rf"moved_types\.py::test_scatter.*\[{OTHER_TYPES}-metal\]", "other types"),
    (LAYERS + r"moved_types\.py::test_what_says_so_is_what_runs\[metal\]", "other types"),
    (
        LAYERS + r"sample_normalization\.py::(?!test_batch\[metal-instances: .*running)"
        r"(?!test_running_statistics\[True).*\bmetal\b.*",
        "row_norm",
    ),
    (OPS + r"row_norm\.py::.*\bmetal\b.*", "row_norm"),
    (LAYERS + r"embedding\.py::.*\bmetal\b.*", "embedding, limit_rows, check_indices"),
    (OPS + r"embedding_op\.py::.*\bmetal\b.*", "embedding, limit_rows, check_indices"),
    (LAYERS + r"reduction\.py::test_any_and_all.*\[metal-.*", "extremum"),
    (
        r"tests/train/test_calculators\.py::.*\[MLC(Comparison|Embedding|(Group|Instance|Layer)"
        r"Normalization|LSTM|MultiheadAttention)Layer.*-metal\]",
        "compare, embedding, row_norm, lstm, attention",
    ),
    (
        r"tests/train/test_calculators\.py::.*"
        r"\[MLCReductionLayer ((arg_)?(max|min)|any|all)-metal\]",
        "extremum",
    ),
    (LAYERS + r"multihead_attention\.py::.*\bmetal\b.*", "attention"),
    (OPS + r"attention\.py::.*\bmetal\b.*", "attention"),
    (
        r"tests/graph/test_check_gradients\.py::.*\[metal-(lstm|attention|rescored|looked_up)\]",
        "lstm, attention, embedding; compare, extremum, constant",
    ),
    (LAYERS + r"mixed_families\.py::.*\[metal-multi-head attention.*", "attention"),
)


def why_unfinished(name: str) -> str:
    """What the backend of this row lacks; empty where it lacks nothing."""
    kernels = (what for rows, what in WITHOUT_KERNELS if re.fullmatch(rows, name))
    return REASONS.get(name) or next((f"no kernels: {what}" for what in kernels), "")
