"""The workloads over the MPS layer: as a graph of nodes, or kernel by kernel."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

import traingraph as tg
from traingraph import mps

from . import workloads as w

Images = list[mps.MPSImage]


class Updated:
    """An optimizer of a layer's own, and the vectors it keeps for two rows of numbers."""

    def __init__(self, on: mps.MTLDevice, o: w.Optimizer, sizes: tuple[int, int]) -> None:
        descriptor = mps.MPSNNOptimizerDescriptor(
            learning_rate=o.rate,
            regularization_type="l2" if o.decay else "none",
            regularization_scale=o.decay,
        )
        slots: tuple[str, ...] = ()
        self.optimizer: mps.MPSNNOptimizerAdam | mps.MPSNNOptimizerStochasticGradientDescent
        if o.name == "adam":
            slots = ("momentum", "velocity")
            self.optimizer = mps.MPSNNOptimizerAdam(
                device=on,
                beta1=0.9,
                beta2=0.999,
                epsilon=1e-8,
                time_step=0,
                optimizer_descriptor=descriptor,
            )
        else:
            slots = ("momentum",) if o.momentum else ()
            self.optimizer = mps.MPSNNOptimizerStochasticGradientDescent(
                device=on,
                momentum_scale=o.momentum,
                use_nesterov_momentum=False,
                optimizer_descriptor=descriptor,
            )
        self.slots: dict[str, Any] = {
            f"input_{name}_vectors": [_vector(on, size) for size in sizes] for name in slots
        }


def _vector(on: mps.MTLDevice, length: int) -> mps.MPSVector:
    descriptor = mps.MPSVectorDescriptor.vector_descriptor(with_length=length)
    return mps.MPSVector(device=on, descriptor=descriptor)


class Weights(mps.MPSCNNConvolutionDataSource):
    """Weights (O, I, kh, kw) and biases, if any, that an optimizer updates on the device."""

    def __init__(
        self,
        on: mps.MTLDevice,
        optimizer: w.Optimizer,
        weights: w.Array,
        biases: w.Array | None,
        stride: int = 1,
    ) -> None:
        self.values = np.ascontiguousarray(weights.transpose(0, 2, 3, 1))
        self.biases = biases
        outputs, inputs, height, width = weights.shape
        self.sizes = mps.MPSCNNConvolutionDescriptor.cnn_convolution_descriptor(
            with_kernel_width=width,
            kernel_height=height,
            input_feature_channels=inputs,
            output_feature_channels=outputs,
        )
        self.sizes.stride_in_pixels_x = self.sizes.stride_in_pixels_y = stride
        self.updated = Updated(on, optimizer, (weights.size, outputs))

    def descriptor(self) -> mps.MPSCNNConvolutionDescriptor:
        return self.sizes

    def weights(self) -> w.Array:
        return self.values

    def bias_terms(self) -> w.Array | None:
        return self.biases

    def update(self, command_buffer: Any, gradient_state: Any, source_state: Any) -> Any:
        self.updated.optimizer.encode(
            command_buffer,
            convolution_gradient_state=gradient_state,
            convolution_source_state=source_state,
            result_state=source_state,
            **self.updated.slots,
        )
        return source_state


class Normalization(mps.MPSCNNBatchNormalizationDataSource):
    """Gamma and beta that an optimizer updates on the device."""

    def __init__(
        self, on: mps.MTLDevice, optimizer: w.Optimizer, gamma: w.Array, beta: w.Array
    ) -> None:
        self.arrays = (gamma, beta)
        buffers = (mps.MTLBuffer(device=on, bytes=a.tobytes()) for a in self.arrays)
        self.state = mps.MPSCNNNormalizationGammaAndBetaState(
            **dict(zip(("gamma", "beta"), buffers, strict=True))
        )
        self.updated = Updated(on, optimizer, (gamma.size, gamma.size))

    def number_of_feature_channels(self) -> int:
        return len(self.arrays[0])

    def gamma(self) -> w.Array:
        return self.arrays[0]

    def beta(self) -> w.Array:
        return self.arrays[1]

    def epsilon(self) -> float:
        return 1e-5

    def update_gamma_and_beta(self, command_buffer: Any, batch_normalization_state: Any) -> Any:
        self.updated.optimizer.encode(
            command_buffer,
            batch_normalization_state=batch_normalization_state,
            result_state=self.state,
            **self.updated.slots,
        )
        return self.state


class Sources:
    """What the layers of a table begin with, in the order of workloads.walk()."""

    def __init__(self, on: mps.MTLDevice, workload: w.Workload) -> None:
        self.on = on
        self.optimizer = workload.optimizer
        self.start = w.parameters(workload)
        _, *extents = workload.source
        # What a sample is by now: channels, rows, columns.
        self.shape = (*extents, 1, 1)[:3] if len(extents) == 1 else tuple(extents)

    def dense(self, layer: w.Dense) -> Weights:
        weights = next(self.start).reshape(layer.outputs, *self.shape)
        self.shape = (layer.outputs, 1, 1)
        return Weights(self.on, self.optimizer, weights, next(self.start))

    def convolution(self, layer: w.Convolution) -> Weights:
        self._shrink(layer.stride, layer.outputs)
        return Weights(self.on, self.optimizer, next(self.start), None, layer.stride)

    def normalization(self) -> Normalization:
        return Normalization(self.on, self.optimizer, next(self.start), next(self.start))

    def pool(self, layer: w.MaxPool | w.GlobalAverage) -> tuple[bool, dict[str, int], str]:
        """Whether it takes the largest; its window; its padding policy."""
        largest = isinstance(layer, w.MaxPool)
        stride = layer.stride or layer.size if isinstance(layer, w.MaxPool) else layer.size
        same = isinstance(layer, w.MaxPool) and layer.padding > 0
        self._shrink(stride, self.shape[0])
        window = dict.fromkeys(("kernel_width", "kernel_height"), layer.size)
        window |= dict.fromkeys(("stride_in_pixels_x", "stride_in_pixels_y"), stride)
        return largest, window, "size_same" if same else "size_valid_only"

    def _shrink(self, stride: int, channels: int) -> None:
        _, height, width = self.shape
        self.shape = (channels, -(-height // stride), -(-width // stride))


def _relu() -> mps.MPSNNNeuronDescriptor:
    return mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(with_type="relu", a=0.0)


def _loss(workload: w.Workload) -> mps.MPSCNNLossDescriptor:
    descriptor = mps.MPSCNNLossDescriptor.cnn_loss_descriptor(
        with_type="soft_max_cross_entropy" if workload.classes else "mean_squared_error",
        reduction_type="mean",
    )
    descriptor.reduce_across_batch = True
    return descriptor


class Nodes:
    """A training graph of nodes."""

    def __init__(self, on: mps.MTLDevice, workload: w.Workload) -> None:
        self.sources = Sources(on, workload)
        last = self.add(workload.layers, mps.MPSNNImageNode(handle="x"))
        loss = mps.MPSCNNLossNode(source=last, loss_descriptor=_loss(workload))
        (first,) = loss.training_graph()
        self.graph = mps.MPSNNGraph(
            device=on, result_image=first.result_image, result_image_is_needed=False
        )

    def add(self, layers: tuple[w.Layer, ...], x: mps.MPSNNImageNode) -> mps.MPSNNImageNode:
        for layer in layers:
            x = self.add_one(layer, x)
        return x

    def add_one(self, layer: w.Layer, x: mps.MPSNNImageNode) -> mps.MPSNNImageNode:
        node: Any
        match layer:
            case w.Dense():
                node = mps.MPSCNNFullyConnectedNode(source=x, weights=self.sources.dense(layer))
            case w.Convolution():
                weights = self.sources.convolution(layer)
                node = mps.MPSCNNConvolutionNode(source=x, weights=weights)
            case w.BatchNorm():
                data = self.sources.normalization()
                node = mps.MPSCNNBatchNormalizationNode(source=x, data_source=data)
            case w.Relu():
                node = mps.MPSCNNNeuronReLUNode(source=x, a=0.0)
            case w.MaxPool() | w.GlobalAverage():
                largest, window, padding = self.sources.pool(layer)
                pool = mps.MPSCNNPoolingMaxNode if largest else mps.MPSCNNPoolingAverageNode
                node = pool(source=x, **window)
                node.padding_policy = padding
            case w.Flatten():
                return x
            case w.Residual(body, shortcut):
                shape = self.sources.shape
                left = self.add(body, x)
                after, self.sources.shape = self.sources.shape, shape
                right = self.add(shortcut, x)
                self.sources.shape = after
                both = mps.MPSNNAdditionNode(left_source=left, right_source=right)
                node = mps.MPSCNNNeuronReLUNode(source=both.result_image, a=0.0)
        result: mps.MPSNNImageNode = node.result_image
        return result

    def encode(self, buffer: mps.MTLCommandBuffer, x: Images, labels: list[Any]) -> None:
        self.graph.encode_batch(buffer, source_images=[x], source_states=[labels])


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

    def __init__(self, on: mps.MTLDevice, kind: str, data: Weights) -> None:
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

    def __init__(self, on: mps.MTLDevice, data: Normalization) -> None:
        self.data = data
        self.statistics = mps.MPSCNNBatchNormalizationStatistics(device=on)
        self.kernel = mps.MPSCNNBatchNormalization(device=on, data_source=data)
        self.statistics_gradient = mps.MPSCNNBatchNormalizationStatisticsGradient(device=on)
        self.gradient_kernel = mps.MPSCNNBatchNormalizationGradient(device=on)

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
            number_of_images=len(x),
        )
        made = mps.MPSTemporaryImage.temporary_image(buffer, image_descriptor=whole)
        result = made.batch_representation()
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
        self.sources = Sources(on, workload)
        self.layers = self.chain(workload.layers)
        self.loss = mps.MPSCNNLoss(device=on, loss_descriptor=_loss(workload))

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

    def _relu(self) -> Filter:
        on = self.sources.on
        return Filter(
            mps.MPSCNNNeuron(device=on, neuron_descriptor=_relu()),
            mps.MPSCNNNeuronGradient(device=on, neuron_descriptor=_relu()),
        )

    def encode(self, buffer: mps.MTLCommandBuffer, x: Images, labels: list[Any]) -> None:
        y = self.layers.forward(buffer, x)
        dy = self.loss.encode_batch(buffer, source_images=y, labels=labels)
        self.layers.gradient(buffer, _readable(dy, self.layers.gradient_reads))
        self.layers.update(buffer)


def _images(on: mps.MTLDevice, values: w.Array) -> Images:
    """One per row of (N, C, H, W)."""
    number, channels, height, width = values.shape
    descriptor = mps.MPSImageDescriptor.image_descriptor(
        with_channel_format="float32",
        width=width,
        height=height,
        feature_channels=channels,
        number_of_images=number,
    )
    image = mps.MPSImage(device=on, image_descriptor=descriptor)
    for index, value in enumerate(values):
        image.write_bytes(value, image_index=index)
    return image.batch_representation()


class Session:
    """One workload as nodes or by hand, on a device, and the call that runs it."""

    def __init__(self, workload: w.Workload, threads: int, variant: str) -> None:
        self.variant = variant
        self.version = tg.__version__
        tg.set_num_threads(threads)
        form, _, device = variant.partition("@")
        on = mps.MTLDevice(device=device or "cpu")
        x, y = w.data(workload)
        number = len(x)
        if workload.classes:
            y = np.eye(workload.classes, dtype=np.float32)[y]
        self.x = _images(on, x if workload.images else x.reshape(number, -1, 1, 1))
        self.losses = _images(on, np.zeros((number, 1, 1, 1), np.float32))
        truth = _images(on, y.astype(np.float32).reshape(number, -1, 1, 1))
        self.labels = [
            mps.MPSCNNLossLabels(loss_image=a, labels_image=b)
            for a, b in zip(self.losses, truth, strict=True)
        ]
        self.queue = on.make_command_queue()
        self.network = {"nodes": Nodes, "hand": Hand}[form](on, workload)
        self.phases: dict[str, Callable[[], Any]] = {}

    def step(self) -> None:
        buffer = self.queue.make_command_buffer()
        self.network.encode(buffer, self.x, self.labels)
        buffer.commit()
        buffer.wait_until_completed()

    def loss(self) -> float:
        self.step()
        value = np.empty((1, 1, 1), np.float32)
        self.losses[0].read_bytes(value)
        return float(value[0, 0, 0])
