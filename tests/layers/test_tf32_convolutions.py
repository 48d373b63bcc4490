"""Convolutions that are large enough for tensor cores, in TF32: all three passes beside float32."""

from dataclasses import dataclass

import numpy as np
import pytest

import traingraph as tg
from small_layers import descriptor, regression

# TF32 keeps 11 significant bits. The tensor cores of a GPU cut the others off: an operand errs by
# up to 2^-10 and 0.36 of that in the mean, always towards 0, so the errors of both operands add up
# to 0.72 x 2^-10 and what varies cancels over many terms.
BOUND = 2.0**-10


@dataclass(frozen=True)
class Case:
    """At least 2^28 products: smaller convolutions stay exact on a GPU."""

    name: str
    source: tuple[int, int, int, int]
    outputs: int
    size: int = 3
    stride: int = 1
    padding: str | int = "same"
    groups: int = 1
    dilation: int = 1

    def layer(self):
        padding = self.padding
        if isinstance(padding, int):
            padding = tg.MLCPaddingPolicy.sized(y=padding, x=padding)
        return tg.MLCConvolutionLayer(
            descriptor=descriptor(
                self.source[1],
                self.outputs,
                self.size,
                strides=(self.stride, self.stride),
                padding_policy=padding,
                group_count=self.groups,
                dilation_rates=(self.dilation, self.dilation),
            )
        )


CASES = [
    Case("three by three", (8, 64, 32, 32), 64),
    Case("three by three without padding", (16, 64, 34, 34), 64, padding="valid"),
    Case("three by three, rows of 14", (64, 64, 14, 14), 64),
    Case("three by three, small images", (64, 128, 4, 4), 256),
    Case("one by one", (16, 128, 32, 32), 128, size=1),
    Case("a first layer", (32, 3, 64, 64), 64, size=7, stride=2, padding=3),
    Case("a first layer of many results", (16, 3, 64, 64), 128, size=7, stride=2, padding=3),
    Case("a first layer with odd positions", (32, 3, 62, 62), 64, size=7, stride=2, padding=3),
    Case("a first layer without a stride", (32, 3, 64, 64), 128),
    Case("another padding before than behind", (32, 64, 31, 32), 64, stride=2),
    Case("groups", (32, 64, 32, 32), 64, groups=2),
    Case("dilated", (8, 64, 32, 32), 64, dilation=2),
    Case("channels that fill no line", (16, 50, 32, 32), 70),
]


def passes(case, precision, device):
    """The result, and the gradients of the source and of the weights."""
    tg.MLCPlatform.set_rng_seed_to(4)
    graph = tg.MLCGraph()
    x = tg.MLCTensor(shape=list(case.source))
    layer = case.layer()
    result = graph.node(layer, source=x)
    training = regression(graph, x, result, rate=1.0)
    training.add_outputs({"result": result})
    training.compile(options="compute_all_gradients", device=device, precision=precision)
    rng = np.random.default_rng(8)
    data = rng.standard_normal(case.source, np.float32)
    labels = rng.standard_normal(result.descriptor.shape, np.float32)
    before = layer.weights.data.copy()
    training.execute(inputs_data={"x": data}, loss_labels_data={"y": labels}, options="synchronous")
    arrays = []
    for tensor in (result, training.gradient_tensor(for_input=x)):
        arrays.append(np.empty(tensor.descriptor.shape, np.float32))
        tensor.copy_data_from_device_memory(arrays[-1], synchronize_with_device=False)
    layer.weights.synchronize_data()
    return [*arrays, before - layer.weights.data]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("device", ["cpu"])
def test_all_passes_are_near_float32(device, case):
    exact = passes(case, "float32", "cpu")
    for found, expected in zip(passes(case, "tf32", device), exact, strict=True):
        found, expected = found.astype(np.float64), expected.astype(np.float64)
        assert np.linalg.norm(found - expected) < BOUND * np.linalg.norm(expected)
