"""Convolutions for tests of the doubles: arrays, kernels, and what numpy says of them."""

import numpy as np
from mps_session import Session, values
from objective_c import Object

# kernel, stride, dilation, offset, groups, source size
CASES = [
    (3, 1, 1, 0, 1, 6),
    (3, 1, 1, 1, 1, 6),
    (3, 2, 1, 1, 1, 7),
    (2, 1, 1, 0, 1, 5),
    (2, 2, 1, 1, 1, 6),
    (2, 1, 3, 2, 1, 8),
    (5, 3, 1, 2, 1, 11),
    (3, 1, 2, 2, 1, 8),
    (3, 1, 1, 1, 2, 5),
    (1, 2, 1, 0, 1, 5),
    (3, 2, 1, 1, "depthwise", 6),
]


class Convolution:
    """A case: its arrays, and what numpy says of it."""

    def __init__(self, case: tuple[int, int, int, int, int | str, int]) -> None:
        self.k, self.stride, self.dilation, self.offset, groups, self.size = case
        self.depthwise = groups == "depthwise"
        self.inputs = 8
        self.groups = self.inputs if self.depthwise else int(groups)
        self.outputs = self.inputs if self.depthwise else 4 * self.groups
        self.reach = (self.k - 1) * self.dilation + 1
        self.first = self.offset - self.reach // 2
        self.result = 3
        self.x = values(2, self.inputs, self.size, self.size + 1)
        self.w = values(self.outputs, self.k, self.k, self.inputs // self.groups)
        self.b = values(self.outputs)
        self.gradient = values(2, self.outputs, self.result, self.result)

    def taps(self):
        """Places in the source, for each result and tap: all reads that lie inside."""
        for i, j, q, p in np.ndindex(self.result, self.result, self.k, self.k):
            y = self.first + i * self.stride + q * self.dilation
            x = self.first + j * self.stride + p * self.dilation
            if 0 <= y < self.x.shape[2] and 0 <= x < self.x.shape[3]:
                yield i, j, q, p, y, x

    def split(self, array: np.ndarray) -> np.ndarray:
        """Channels (axis 1) as groups."""
        return array.reshape(array.shape[0], self.groups, -1, *array.shape[2:]).astype(np.float64)

    def expected(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The result and the gradients of source, weights and biases."""
        x, e = self.split(self.x), self.split(self.gradient)
        w = self.w.reshape(self.groups, -1, *self.w.shape[1:]).astype(np.float64)
        y, dx, dw = np.zeros_like(e), np.zeros_like(x), np.zeros_like(w)
        for i, j, q, p, row, column in self.taps():
            tap = w[:, :, q, p]
            y[..., i, j] += np.einsum("ngc,gkc->ngk", x[..., row, column], tap)
            dx[..., row, column] += np.einsum("ngk,gkc->ngc", e[..., i, j], tap)
            dw[:, :, q, p] += np.einsum("ngk,ngc->gkc", e[..., i, j], x[..., row, column])
        y = y.reshape(self.gradient.shape) + self.b[None, :, None, None]
        return y, dx.reshape(self.x.shape), dw.reshape(self.w.shape), self.gradient.sum((0, 2, 3))

    def source(self, s: Session) -> Object:
        name = (
            "MPSCNNDepthWiseConvolutionDescriptor"
            if self.depthwise
            else "MPSCNNConvolutionDescriptor"
        )
        descriptor = getattr(s.runtime, name).send(
            "cnnConvolutionDescriptorWithKernelWidth:kernelHeight:inputFeatureChannels:"
            "outputFeatureChannels:",
            self.k, self.k, self.inputs, self.outputs,
        )  # fmt: skip
        for axis in "XY":
            descriptor.send(f"setStrideInPixels{axis}:", self.stride)
            descriptor.send(f"setDilationRate{axis}:", self.dilation)
        descriptor.send("setGroups:", 1 if self.depthwise else self.groups)
        return s.make(
            "CheckWeights", "initWithDescriptor:weights:count:biases:",
            descriptor, self.w, self.w.size, self.b,
        )  # fmt: skip

    def forward(self, s: Session) -> Object:
        kernel = s.kernel("MPSCNNConvolution", "initWithDevice:weights:", self.source(s))
        kernel.send("setOffset:", (self.offset, self.offset, 0))
        return kernel

    def backward(self, s: Session) -> Object:
        kernel = s.kernel("MPSCNNConvolutionGradient", "initWithDevice:weights:", self.source(s))
        even = 1 - self.reach % 2
        kernel.send("setKernelOffsetX:", even - self.offset)
        kernel.send("setKernelOffsetY:", even - self.offset)
        kernel.send("setSecondaryOffset:", (self.first, self.first, 0))
        return kernel
