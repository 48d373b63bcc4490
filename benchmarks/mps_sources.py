"""Where the networks of the MPS layer begin, and how what they train is updated."""

from typing import Any

import numpy as np

from traingraph import mps

from . import workloads as w


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


def relu() -> mps.MPSNNNeuronDescriptor:
    return mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(with_type="relu", a=0.0)


def loss(workload: w.Workload) -> mps.MPSCNNLossDescriptor:
    descriptor = mps.MPSCNNLossDescriptor.cnn_loss_descriptor(
        with_type="soft_max_cross_entropy" if workload.classes else "mean_squared_error",
        reduction_type="mean",
    )
    descriptor.reduce_across_batch = True
    return descriptor
