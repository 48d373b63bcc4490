"""Convolutions large enough for tensor cores: all three passes beside NumPy in float64."""

from dataclasses import dataclass

import numpy as np
import pytest

import traingraph as tg
from small_layers import descriptor, regression
from windows import padding_of, windows

# Bounds are of the norm of the errors, relative to the norm of the result. Of n products added one
# after another in float32 the k-th sum is rounded, by 0.29 x 2^-23 of it in the mean, and grows as
# the root of k: together 0.2 x 2^-23 x the root of n.
FLOAT32 = 2.0**-22
PER_ROOT = 2.0**-25
# TF32 keeps 11 significant bits. The tensor cores of a GPU cut the others off: an operand errs by
# up to 2^-10 and 0.36 of that in the mean, always towards 0, so the errors of both operands add up
# to 0.72 x 2^-10 and what varies cancels over many terms.
TENSOR_CORES = {"cuda": {"float32": FLOAT32, "tf32": 2.0**-10}}
# Other devices compute the same in both precisions.
EXACT = {"tf32": FLOAT32}
# A power of 2: the update of a weight is as large as the weight, and its rounding as small.
RATE = 1024.0


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
    Case("three by three, few channels", (32, 32, 32, 32), 64),
    Case("three by three, few channels, small images", (160, 96, 8, 8), 64),
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
    """The data, labels and weights; the result, and the gradients of the source and weights."""
    tg.MLCPlatform.set_rng_seed_to(4)
    graph = tg.MLCGraph()
    x = tg.MLCTensor(shape=list(case.source))
    layer = case.layer()
    result = graph.node(layer, source=x)
    training = regression(graph, x, result, rate=RATE)
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
    return (data, labels, before), [*arrays, (before - layer.weights.data) / RATE]


def in_float64(case, x, labels, weights):
    """What `passes` finds, image by image: products of matrices (G, C k k, P Q) of all windows."""
    k, s, d, g = case.size, case.stride, case.dilation, case.groups
    padding = case.padding if isinstance(case.padding, str) else (case.padding,) * 2
    p, q = labels.shape[2:]
    pads = [padding_of(x.shape[2 + axis], k, s, d, padding, axis) for axis in (0, 1)]
    (top, _), (left, _) = pads
    w = weights.astype(np.float64).reshape(g, case.outputs // g, -1)
    y, dx, dw = np.empty(labels.shape), np.empty(x.shape), np.zeros_like(w)
    for at in range(len(x)):
        (found,) = windows(x[at : at + 1].astype(np.float64), (k, k), (s, s), (d, d), padding)
        columns = found.transpose(0, 3, 4, 1, 2).reshape(g, -1, p * q)
        one = w @ columns
        y[at] = one.reshape(y.shape[1:])
        dy = 2 * (one - labels[at].reshape(one.shape)) / labels.size
        dw += dy @ columns.transpose(0, 2, 1)
        by_tap = (w.transpose(0, 2, 1) @ dy).reshape(-1, k, k, p, q)
        padded = np.pad(np.zeros(x.shape[1:]), ((0, 0), *pads))
        for i, j in np.ndindex(k, k):
            rows, cells = (slice(t * d, t * d + (m - 1) * s + 1, s) for t, m in ((i, p), (j, q)))
            padded[:, rows, cells] += by_tap[:, i, j]
        dx[at] = padded[:, top : top + x.shape[2], left : left + x.shape[3]]
    return y, dx, dw.reshape(weights.shape)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("device", ["cpu"])
def test_all_passes_are_near_float64(device, case):
    n, c, *_ = case.source
    for precision, bound in TENSOR_CORES.get(device, EXACT).items():
        given, arrays = passes(case, precision, device)
        pixels, taps = np.prod(arrays[0].shape[2:]), case.size**2 / case.groups
        products = (c * taps, case.outputs * taps, n * pixels)
        exact = in_float64(case, *given)
        for found, right, count in zip(arrays, exact, products, strict=True):
            most = max(bound, FLOAT32 + PER_ROOT * np.sqrt(count))
            assert np.linalg.norm(found - right) < most * np.linalg.norm(right)
