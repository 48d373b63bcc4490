"""The layers of a table as MPS kernels that are encoded one by one."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from traingraph import mps

from . import mps_sources as begin
from . import workloads as w

Images = Sequence[mps.MPSImage]


class Kernels:
    """A layer by its kernels. What it makes is temporary and read as often as neighbours say."""

    reads = 2  # of the source image, in one step
    gradient_reads = 1  # of the gradient that comes in
    result_reads = 1  # by the layer behind
    source_gradient_reads = 1  # by the layer before

    def forward(self, buffer: mps.MTLCommandBuffer, x: Images) -> Images:
        raise NotImplementedError

    def gradient(self, buffer: mps.MTLCommandBuffer, dy: Images) -> Images:
        raise NotImplementedError

    def update(self, buffer: mps.MTLCommandBuffer) -> None:
        """Nothing to update."""


def _readable(images: Images, reads: int) -> Images:
    if reads > 1:
        mps.image_batch_increment_read_count(images, reads - 1)
    return images


class Filter(Kernels):
    """A kernel and its gradient kernel."""

    def __init__(self, forward: Any, gradient: Any) -> None:
        self.kernel, self.gradient_kernel = forward, gradient

    def forward(self, buffer: mps.MTLCommandBuffer, x: Images) -> Images:
        self.source = x
        result, self.states = self.kernel.encode_batch(
            buffer, source_images=x, destination_state_is_temporary=True
        )
        return _readable(result, self.result_reads)

    def gradient(self, buffer: mps.MTLCommandBuffer, dy: Images) -> Images:
        result = self.gradient_kernel.encode_batch(
            buffer, source_gradients=dy, source_images=self.source, gradient_states=self.states
        )
        return _readable(result, self.source_gradient_reads)


class Weighted(Filter):
    """A convolution or fully connected layer, whose gradient kernel has the forward weights."""

    def __init__(self, on: mps.MTLDevice, kind: str, data: begin.Weights) -> None:
        self.data = data
        super().__init__(
            getattr(mps, kind)(device=on, weights=data),
            getattr(mps, f"{kind}Gradient")(device=on, weights=data),
        )
        arrays = {"weights": data.values} | ({} if data.biases is None else {"biases": data.biases})
        self.state = mps.MPSCNNConvolutionWeightsAndBiasesState(
            **{k: mps.MTLBuffer(device=on, bytes=a.tobytes()) for k, a in arrays.items()}
        )

    def forward(self, buffer: mps.MTLCommandBuffer, x: Images) -> Images:
        result = super().forward(buffer, x)
        self.states[0].read_count = 2  # by the gradient kernel and by the optimizer
        return result

    def update(self, buffer: mps.MTLCommandBuffer) -> None:
        self.data.update(buffer, self.states[0], self.state)
        for kernel in (self.kernel, self.gradient_kernel):
            kernel.reload_weights_and_biases(buffer, state=self.state)


class Normalized(Kernels):
    """The four kernels of batch normalization over one state."""

    reads = 4
    gradient_reads = 2

    def __init__(self, on: mps.MTLDevice, data: begin.Normalization) -> None:
        self.data = data
        self.statistics: Any = mps.MPSCNNBatchNormalizationStatistics(device=on)
        self.kernel: Any = mps.MPSCNNBatchNormalization(device=on, data_source=data)
        self.statistics_gradient = mps.MPSCNNBatchNormalizationStatisticsGradient(device=on)
        self.gradient_kernel: Any = mps.MPSCNNBatchNormalizationGradient(device=on)

    def forward(self, buffer: mps.MTLCommandBuffer, x: Images) -> Images:
        self.source = x
        self.state = self.kernel.temporary_result_state_batch(buffer, source_image=x)[0]
        self.state.read_count = 5
        self.statistics.encode_batch(buffer, source_images=x, batch_normalization_state=self.state)
        whole = mps.MPSImageDescriptor.image_descriptor(
            with_channel_format="float32",
            width=x[0].width,
            height=x[0].height,
            feature_channels=x[0].feature_channels,
            number_of_images=x[0].number_of_images,
        )
        result = [mps.MPSTemporaryImage.temporary_image(buffer, image_descriptor=whole)]
        self.kernel.encode_batch(
            buffer,
            source_images=x,
            batch_normalization_state=self.state,
            destination_images=result,
        )
        return _readable(result, self.result_reads)

    def gradient(self, buffer: mps.MTLCommandBuffer, dy: Images) -> Images:
        arguments: dict[str, Any] = {
            "source_gradients": dy,
            "source_images": self.source,
            "batch_normalization_state": self.state,
        }
        self.statistics_gradient.encode_batch(buffer, **arguments)
        result = self.gradient_kernel.encode_batch(buffer, **arguments)
        return _readable(result, self.source_gradient_reads)

    def update(self, buffer: mps.MTLCommandBuffer) -> None:
        state = self.data.update_gamma_and_beta(buffer, self.state)
        self.kernel.reload_gamma_and_beta(buffer, gamma_and_beta_state=state)


class Chain(Kernels):
    """Layers one after the other."""

    def __init__(self, layers: list[Kernels]) -> None:
        self.layers = layers
        for before, behind in pairwise(layers):
            before.result_reads = behind.reads
            behind.source_gradient_reads = before.gradient_reads
        # An empty one hands on what it is given.
        self.reads = layers[0].reads if layers else 1
        self.gradient_reads = layers[-1].gradient_reads if layers else 1

    def forward(self, buffer: mps.MTLCommandBuffer, x: Images) -> Images:
        for layer in self.layers:
            x = layer.forward(buffer, x)
        return x

    def gradient(self, buffer: mps.MTLCommandBuffer, dy: Images) -> Images:
        for layer in reversed(self.layers):
            dy = layer.gradient(buffer, dy)
        return dy

    def update(self, buffer: mps.MTLCommandBuffer) -> None:
        for layer in self.layers:
            layer.update(buffer)


class Sum(Kernels):
    """body(x) + shortcut(x); the gradient of each summand is the one that comes in."""

    def __init__(self, on: mps.MTLDevice, body: Chain, shortcut: Chain) -> None:
        self.parts = (body, shortcut)
        self.add = mps.MPSCNNAdd(device=on)
        self.reads = body.reads + shortcut.reads
        self.gradient_reads = body.gradient_reads + shortcut.gradient_reads

    def _sum(self, buffer: mps.MTLCommandBuffer, parts: list[Images], reads: int) -> Images:
        result = self.add.encode_batch(buffer, primary_images=parts[0], secondary_images=parts[1])
        return _readable(result, reads)

    def forward(self, buffer: mps.MTLCommandBuffer, x: Images) -> Images:
        parts = [part.forward(buffer, x) for part in self.parts]
        return self._sum(buffer, parts, self.result_reads)

    def gradient(self, buffer: mps.MTLCommandBuffer, dy: Images) -> Images:
        parts = [part.gradient(buffer, dy) for part in self.parts]
        return self._sum(buffer, parts, self.source_gradient_reads)

    def update(self, buffer: mps.MTLCommandBuffer) -> None:
        for part in self.parts:
            part.update(buffer)


class Hand:
    """The same network, every kernel encoded by hand."""

    def __init__(self, on: mps.MTLDevice, workload: w.Workload) -> None:
        self.sources = begin.Sources(on, workload)
        self.layers = self.chain(workload.layers)
        self.loss: Any = mps.MPSCNNLoss(device=on, loss_descriptor=begin.loss(workload))

    def chain(self, layers: tuple[w.Layer, ...]) -> Chain:
        return Chain([made for layer in layers for made in self.make(layer)])

    def make(self, layer: w.Layer) -> list[Kernels]:
        on = self.sources.on
        match layer:
            case w.Dense():
                return [Weighted(on, "MPSCNNFullyConnected", self.sources.dense(layer))]
            case w.Convolution():
                return [Weighted(on, "MPSCNNConvolution", self.sources.convolution(layer))]
            case w.BatchNorm():
                return [Normalized(on, self.sources.normalization())]
            case w.Relu():
                return [self._relu()]
            case w.MaxPool() | w.GlobalAverage():
                largest, window, padding = self.sources.pool(layer)
                kind = "MPSCNNPoolingMax" if largest else "MPSCNNPoolingAverage"
                forward = getattr(mps, kind)(device=on, **window)
                forward.padding = padding
                return [Filter(forward, getattr(mps, f"{kind}Gradient")(device=on, **window))]
            case w.Flatten():
                return []
            case w.Residual(body, shortcut):
                shape = self.sources.shape
                left = self.chain(body)
                after, self.sources.shape = self.sources.shape, shape
                right = self.chain(shortcut)
                self.sources.shape = after
                return [Sum(on, left, right), self._relu()]
            case _:
                raise ValueError(f"the MPS layer is not measured with {layer}")

    def _relu(self) -> Filter:
        on = self.sources.on
        return Filter(
            mps.MPSCNNNeuron(device=on, neuron_descriptor=begin.relu()),
            mps.MPSCNNNeuronGradient(device=on, neuron_descriptor=begin.relu()),
        )

    def encode(self, buffer: mps.MTLCommandBuffer, x: Images, labels: list[Any]) -> None:
        y = self.layers.forward(buffer, x)
        dy = self.loss.encode_batch(buffer, source_images=y, labels=labels)
        self.layers.gradient(buffer, _readable(dy, self.layers.gradient_reads))
        self.layers.update(buffer)
