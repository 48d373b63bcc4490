"""What Metal composes and what BNNS leaves to the reference implementation, by docs/support.md."""

import pytest

from traingraph import _core

pytestmark = pytest.mark.skipif(
    not {"metal", "bnns"} <= set(_core.backends()), reason="built without Apple's backends"
)

COMPOSED = {
    "MLCLayerNormalizationLayer": ["row_norm", "row_norm_gradient"],
    "MLCMultiheadAttentionLayer": ["attention", "attention_gradient"],
    "MLCLSTMLayer": ["compare", "lstm", "lstm_gradient"],
    "MLCEmbeddingLayer": ["embedding", "embedding_gradient", "limit_rows"],
    "MLCComparisonLayer": ["compare"],
    "MLCYOLOLossLayer": ["compare", "extremum"],
    "MLCConvolutionLayer": [],
    "MLCPaddingLayer": [],
}


@pytest.mark.parametrize("layer", COMPOSED)
def test_composed_on_metal(layer: str) -> None:
    for data_type in ("float32", "float16", "bfloat16"):
        assert _core.why_unsupported(layer, data_type, on="metal") is None
        found = _core.stand_ins(layer, data_type, on="metal")
        assert sorted(found["composed"]) == COMPOSED[layer]
        assert found["looped"] == []


def test_what_cannot_be_composed_keeps_its_name() -> None:
    for data_type in ("int32", "float64"):
        why = _core.why_unsupported("MLCComparisonLayer", data_type, on="metal")
        assert why is not None
        assert why.startswith("compare: ")


@pytest.mark.parametrize(
    "layer",
    [
        "MLCMatMulLayer", "MLCSoftmaxLayer", "MLCEmbeddingLayer", "MLCConvolutionLayer",
        "MLCConcatenationLayer", "MLCTransposeLayer", "MLCDropoutLayer",
    ],
)  # fmt: skip
def test_loops_of_bnns(layer: str) -> None:
    for data_type in ("float32", "float16", "bfloat16"):
        found = _core.stand_ins(layer, data_type, on="bnns")
        assert (found["composed"], found["looped"]) == ([], [])
    # Loops that move elements take every type; what computes takes float32 and 16 bits.
    moved = {"concatenate", "embedding", "embedding_gradient", "limit_rows", "slice", "transpose"}
    assert set(_core.stand_ins(layer, "float64", on="bnns")["own"]) <= moved
