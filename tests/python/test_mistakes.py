"""What a mistake is answered with, in Python and in C++: a table of whole messages."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import traingraph as tg
from op_harness import testing
from traingraph import nn


def objects() -> dict[str, Any]:
    """What the mistakes are made with."""
    tensor, graph = tg.MLCTensor(shape=[4, 8]), tg.MLCGraph()
    descriptor = tg.MLCConvolutionDescriptor(
        kernel_sizes=(1, 1), input_feature_channel_count=8, output_feature_channel_count=3
    )
    tg.sequential(graph, tensor, [tg.MLCFullyConnectedLayer(descriptor=descriptor)])
    return {
        "np": np, "nn": nn, "tg": tg, "graph": graph, "tensor": tensor,
        "model": nn.model([nn.dense(4), "relu", nn.dense(3)], input=8),
        "training": tg.MLCTrainingGraph(graph_objects=[graph]),
        "x": np.zeros((32, 8), np.float32), "y": np.zeros(32, np.int32),
    }  # fmt: skip


def answer(error: BaseException) -> str:
    """Its class and text; layers are numbered through the whole process."""
    text = re.sub(r"(?<=at layer )\d+|(?<=\[tensor ')\d+", "N", str(error))
    return f"{type(error).__name__}: {text}"


# The error and its message, by what is written.
MISTAKES = {}
for block in (Path(__file__).parent / "mistakes.txt").read_text().split("\n\n")[1:]:
    code, *lines = block.rstrip("\n").split("\n")
    MISTAKES[code] = "\n".join(line.removeprefix("    ") for line in lines)


@pytest.mark.parametrize("code", MISTAKES)
def test_a_mistake_is_answered_with_what_to_do(code: str) -> None:
    given = objects()
    with pytest.raises((ValueError, TypeError, RuntimeError, OSError, AttributeError)) as raised:
        eval(code, given)
    assert answer(raised.value) == MISTAKES[code]


def test_the_table_has_what_people_do_wrong() -> None:
    assert len(MISTAKES) >= 40
    assert set(testing.mistakes()) <= set(MISTAKES)


@pytest.mark.parametrize("code", testing.mistakes())
def test_programs_in_cpp_read_the_same(code: str) -> None:
    with pytest.raises((ValueError, RuntimeError)) as raised:
        testing.make_mistake(code)
    assert answer(raised.value).partition(": ")[2] == MISTAKES[code].partition(": ")[2]
