"""Which form a call that no form takes is compared with, and what it is told to write."""

from collections.abc import Callable

import numpy as np
import pytest

from traingraph import (
    MLCAdamOptimizer,
    MLCConvolutionDescriptor,
    MLCGraph,
    MLCTensor,
    MLCTrainingGraph,
    mps,
)


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(TypeError) as raised:
        call()
    return str(raised.value)


@pytest.mark.parametrize(
    ("call", "nearest"),
    [
        (lambda: mps.MPSCNNPoolingMax(device="cpu", kernel_size=2), "*, device, kernel_width"),
        (lambda: mps.MPSCNNDropout(device="cpu", rate=0.5), "*, device, keep_probability"),
        (lambda: mps.MPSCNNUpsamplingBilinear(device="cpu", scale=2), "*, device, integer_scale"),
    ],
)
def test_a_coder_is_meant_where_it_is_given(call: Callable[[], object], nearest: str) -> None:
    text = refusal(call)
    assert nearest in text
    assert "coder" not in text
    with pytest.raises(TypeError, match=r"the nearest is \w+\(\*, coder"):
        mps.MPSCNNDropout(coder=None, rate=0.5)


@pytest.mark.parametrize("given", [{}, {"size": [2, 3]}])
def test_forms_that_are_as_near_are_all_shown(given: dict[str, list[int]]) -> None:
    text = refusal(lambda: MLCTensor(**given))
    for form in ("(*, descriptor)", "(*, shape, ", "(*, data, "):
        assert f"MLCTensor{form}" in text
    assert "missing: descriptor or shape or data" in text
    text = refusal(MLCAdamOptimizer)
    assert "(*, descriptor, " in text
    assert "(*, learning_rate, " in text


def test_an_array_by_position_is_data() -> None:
    assert refusal(lambda: MLCTensor(np.zeros(2))).endswith(
        "write MLCTensor(*, data, data_type=None)"
    )
    descriptor = MLCTensor(shape=[2]).descriptor
    assert refusal(lambda: MLCTensor(descriptor)).endswith("write MLCTensor(*, descriptor)")


def test_advice_is_given_where_it_works() -> None:
    x, graph = MLCTensor(shape=[2, 2]), MLCGraph()
    text = refusal(lambda: graph.concatenate(source=x, dimension=0))
    assert text.endswith("write sources=[source]")
    assert text.count("MLCGraph.concatenate(") == 1
    training = MLCTrainingGraph(graph_objects=[graph])
    text = refusal(lambda: training.compile(device="cpu", option="debug_layers"))
    assert "did you mean options?" in text
    assert "write" not in text
    channels = {"input_feature_channel_count": 1, "output_feature_channel_count": 1}
    text = refusal(lambda: MLCConvolutionDescriptor(kernel_size=(1, 1), **channels))
    assert "did you mean kernel_sizes?" in text
    assert "write" not in text
