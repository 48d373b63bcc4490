"""Max pooling of 16 bits in lanes and its gradient: the bits of float32, rounded once, and no
widened operand in a workspace."""

import numpy as np
import pytest
from cpu_ops import LAYOUTS, numbers
from test_cpu_halves import HALVES

from op_harness import cast, declare, testing
from traingraph import nn

WINDOWS = {
    "beside each other": ((2, 2), (2, 2), (0, 0)),
    "overlapping": ((3, 3), (2, 2), (1, 1)),
    "all rows": ((5, 1), (1, 1), (0, 0)),
}


def pooled(
    half: str, window: str, layout: str, channels: int, wide: bool
) -> tuple[list[np.ndarray], bool]:
    """Result and gradient of the source in float32, and whether the layout was kept. If `wide`, the
    operands of 16 bits are float32 for the op."""
    kernel, stride, padding = WINDOWS[window]
    shape = (3, channels, 9, 8)
    attributes = {"kind": 0, "kernel": kernel, "stride": stride}
    attributes |= {"padding_before": padding, "padding_after": padding, "with_index": True}
    size = [(shape[2 + a] + 2 * padding[a] - kernel[a]) // stride[a] + 1 for a in range(2)]
    arrays = [numbers(shape, seed=1), numbers((3, channels, *size), seed=2)]
    arrays[0][0, 0, :2, 0] = [np.nan, -np.inf]
    graph = testing.Graph()
    inputs = declare(graph, arrays)
    operands = []
    for value in inputs:
        value = cast(graph, value, half)
        if wide:
            value = cast(graph, value, "float32")
        if layout != "plain":
            value = graph.add_op("reorder", {}, [value])[0]
            testing.set_layout(graph, value, *LAYOUTS[layout])
        operands.append(value)
    y, index = graph.add_op("pooling", attributes, operands[:1])
    given = {**attributes, "source_shape": shape}
    found = [y, graph.add_op("pooling_gradient", given, [operands[1], index])[0]]
    kept = [cast(graph, cast(graph, v, half) if wide else v, "float32") for v in found]
    kept = [graph.add_op("reorder", {}, [v])[0] for v in kept]
    graph = testing.with_layouts(graph, "cpu")
    results = graph.run("cpu", dict(zip(inputs, arrays, strict=True)), kept)
    return results, testing.layout(graph, y) == testing.layout(graph, operands[0])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("half", HALVES)
def test_bits_are_those_of_float32(half: str, window: str, layout: str, threads: int) -> None:
    for channels in (16, 48, *([21, 3] if layout == "channels last" else [])):
        got, kept = pooled(half, window, layout, channels, wide=False)
        right, _ = pooled(half, window, layout, channels, wide=True)
        assert kept
        for a, b in zip(got, right, strict=True):
            np.testing.assert_array_equal(a, b)


def test_operands_are_not_widened_in_the_workspace() -> None:
    layers = [nn.conv2d(64, 3), "relu", nn.max_pool(2), nn.flatten(), nn.dense(10)]
    model = nn.model(layers, input=(16, 32, 32), batch_size=64, device="cpu")
    model.compile(device="cpu", precision="mixed_float16")
    entries = [e for e in model.memory_plan().entries if e.name.startswith("pooling")]
    assert entries
    assert all(e.kind != "workspace" for e in entries), entries
