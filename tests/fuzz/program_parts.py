"""What the programs of the target `descriptors` stand on: small sources, and a use for everything.

`use(made)` puts a layer, tensor, optimizer or loss into a graph that trains for one step, encodes a
kernel, runs a graph of a node, and makes of a descriptor what it describes.
"""

import mmap
from collections.abc import Callable
from typing import Any

import encoding
import numpy as np
from kernels import Weights, commands

import traingraph as tg
from traingraph import mps

MOST = 2**24
"""Elements of the data that is given to a step."""
# Elements that the last thing asked for has, where another process sees them.
ASKED = mmap.mmap(-1, 8)


class TooLargeError(Exception):
    """The data of a step would be more than this program has, though the tensor can be."""


def asked(elements: int) -> None:
    ASKED[:8] = min(elements, 2**62).to_bytes(8, "little")


def tensor(*shape: int, data_type: str = "float32") -> tg.MLCTensor:
    return tg.MLCTensor(shape=list(shape or (2, 4, 5, 5)), data_type=data_type)


def data_of(one: tg.MLCTensor) -> np.ndarray:
    shape = list(one.descriptor.shape)
    asked(int(np.prod(shape, dtype=object)))
    if int(np.prod(shape, dtype=object)) > MOST:
        raise TooLargeError(f"{shape}")
    kind = one.descriptor.data_type.name.lower()
    return np.zeros(shape, "float32" if kind == "bfloat16" else kind)


def train(graph: Any, result: Any, given: list[Any], loss: Any = None, optimizer: Any = None,
          batch_size: int = 0) -> None:  # fmt: skip
    """One step, of the gradient too where there is a number to train."""
    if isinstance(result, list):
        result = result[0]
    if not isinstance(result, tg.MLCTensor):
        return
    names = {f"x{k}": one for k, one in enumerate(given)}
    labels = tensor(*result.descriptor.shape)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=loss or tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
        optimizer=optimizer or tg.MLCSGDOptimizer(learning_rate=0.125),
    )
    training.add_inputs(names, loss_labels={"labels": labels})
    training.compile(device="cpu")
    training.execute(
        inputs_data={name: data_of(one) for name, one in names.items()},
        loss_labels_data={"labels": data_of(labels)}, batch_size=batch_size, options="synchronous",
    )  # fmt: skip
    training.synchronize_updates()


def weighted(shape: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """A graph, a source and its product with weights that train."""
    graph, x = tg.MLCGraph(), tensor(*shape)
    layer = tg.MLCConvolutionLayer(
        descriptor=tg.MLCConvolutionDescriptor(
            kernel_sizes=(1, 1), input_feature_channel_count=shape[1],
            output_feature_channel_count=shape[1],
        )
    ) if len(shape) == 4 else tg.MLCActivationLayer.sigmoid()  # fmt: skip
    return graph, x, graph.node(layer, source=x)


def trained() -> Any:
    """A graph that was compiled, with "x0" and "labels"."""
    graph, x, y = weighted((2, 4, 5, 5))
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=0.125),
    )
    training.add_inputs({"x0": x}, loss_labels={"labels": tensor(*y.descriptor.shape)})
    training.compile(device="cpu")
    return training


def inference() -> Any:
    graph, x, _ = weighted((2, 4, 5, 5))
    one = tg.MLCInferenceGraph(graph_objects=[graph])
    one.add_inputs({"x0": x})
    one.compile(device="cpu")
    return one


def use_layer(layer: Any) -> None:
    """With as many sources as it takes."""
    shape: tuple[int, ...] = (2, 4, 5, 5)
    if isinstance(layer, tg.MLCConvolutionLayer):
        shape = (2, min(layer.descriptor.input_feature_channel_count, 64), 5, 5)
    elif isinstance(layer, tg.MLCFullyConnectedLayer):
        shape = (2, min(layer.descriptor.input_feature_channel_count, 4096))
    elif isinstance(layer, tg.MLCMatMulLayer):
        shape = (2, 4, 5)
    graph, x, y = weighted(shape)
    more: list[Any] = []
    if isinstance(layer, tg.MLCGatherLayer | tg.MLCScatterLayer):
        more = [tensor(*shape, data_type="int32")]
    if isinstance(layer, tg.MLCScatterLayer):
        more += [tensor(*shape)]
    last = None
    for _ in range(3):
        try:
            if len(more) == 0:
                result = graph.node(layer, source=y)
            else:
                result = graph.node(layer, sources=[y, *more])
        except tg.InvalidArgument as error:
            last = last or error
            more.append(tensor(*shape))
            continue
        train(graph, result[0] if isinstance(result, list) else result, [x, *more])
        return
    raise last or AssertionError(layer)


def use_optimizer(optimizer: Any) -> None:
    graph, x, y = weighted((2, 4, 5, 5))
    train(graph, y, [x], optimizer=optimizer)


def use_loss(loss: Any) -> None:
    graph, x, y = weighted((2, 4, 5, 5))
    train(graph, y, [x], loss=loss)


def use_tensor(one: Any) -> None:
    """As a result of a graph before, or a source: of itself added to itself."""
    asked(int(np.prod(one.descriptor.shape, dtype=object)))
    if not str(one.descriptor.data_type.name).startswith(("FLOAT", "BFLOAT")):
        assert one.descriptor.tensor_allocation_size_in_bytes >= 1
        return
    graph = tg.MLCGraph()
    y = graph.node(tg.MLCArithmeticLayer(operation="add"), sources=[one, one])
    train(graph, y, [one])


class Source(Weights):
    """Weights of any descriptor, of one number."""

    def __init__(self, descriptor: Any) -> None:
        self.sizes, self.name = descriptor, "weights"
        groups = max(descriptor.groups, 1)
        shape = (descriptor.output_feature_channels, descriptor.kernel_height,
                 descriptor.kernel_width, descriptor.input_feature_channels // groups)  # fmt: skip
        try:
            self.array = np.broadcast_to(np.float32(0.5), shape)
        except (ValueError, OverflowError):
            self.array = np.full((1, 1, 1, 4), 0.5, np.float32)
        self.biases = None


class Channels:
    """A data source of numbers per channel, of any protocol."""

    number_of_groups = 2

    def __init__(self, number_of_feature_channels: int, epsilon: float) -> None:
        self.number_of_feature_channels, self.small = number_of_feature_channels, epsilon
        self.array = np.ones(4 if number_of_feature_channels != 3 else 3, np.float32)

    def gamma(self) -> Any:
        return self.array

    def mean(self) -> Any:
        return self.array

    variance = gamma

    def beta(self) -> Any:
        return None

    def epsilon(self) -> float:
        return self.small

    def label(self) -> str:
        return "channels"

    def load(self) -> bool:
        return True

    def purge(self) -> None:
        return None


def node(name: str = "x") -> Any:
    return mps.MPSNNImageNode(handle=name)


def finish(buffer: Any) -> None:
    buffer.commit()
    buffer.wait_until_completed()
    if buffer.error is not None:
        raise buffer.error


def use_kernel(kernel: Any, forward: Any = None, with_destination: bool = False) -> None:
    buffer = commands(kernel.device)
    encoding.encode(kernel, buffer, with_destination, 4, forward)
    finish(buffer)


def use_node(one: Any) -> None:
    made = getattr(one, "result_image", one)
    graph = mps.MPSNNGraph(device="cpu", result_images=[made], results_are_needed=[True])
    buffer = commands(graph.device)
    graph.encode_batch(
        buffer,
        source_images=[encoding.images(graph.device) for _ in graph.source_image_handles],
    )
    finish(buffer)


def image_descriptor(count: int) -> Any:
    return mps.MPSImageDescriptor.image_descriptor(
        with_channel_format="float32", width=9, height=9, feature_channels=4,
        number_of_images=count,
    )  # fmt: skip


def image(count: int = 2) -> Any:
    return mps.MPSImage(device="cpu", image_descriptor=image_descriptor(count))


BUFFERS: list[Any] = []
"""The command buffers of temporary images."""


def temporary() -> Any:
    BUFFERS.append(commands(mps.MTLDevice(device="cpu")))
    return mps.MPSTemporaryImage.temporary_image(BUFFERS[-1], image_descriptor=image_descriptor(2))


def use_image(one: Any) -> None:
    kernel = mps.MPSCNNSoftMax(device="cpu")
    asked(one.width * one.height * one.feature_channels * one.number_of_images)
    if one.width * one.height * one.feature_channels * one.number_of_images > MOST:
        raise TooLargeError(f"{one.number_of_images} of {one.width}x{one.height}")
    is_temporary = isinstance(one, mps.MPSTemporaryImage) and len(BUFFERS) > 0
    buffer = BUFFERS.pop() if is_temporary else commands(kernel.device)
    images = one.batch_representation()
    if is_temporary:
        written = image().batch_representation()
        kernel.encode_batch(buffer, source_images=written, destination_images=images)
    kernel.encode_batch(buffer, source_images=images)
    finish(buffer)


def use_vector(one: Any) -> None:
    asked(one.length)
    kernel = mps.MPSNNOptimizerStochasticGradientDescent(device="cpu", learning_rate=0.5)
    buffer = commands(kernel.device)
    kernel.encode(buffer, input_gradient_vector=one, input_values_vector=one,
                  result_values_vector=one)  # fmt: skip
    finish(buffer)


def use_convolution(descriptor: Any) -> None:
    for layer in (tg.MLCConvolutionLayer, tg.MLCFullyConnectedLayer):
        use_layer(layer(descriptor=descriptor))


def use_labels(one: Any) -> None:
    kernel = mps.MPSCNNLoss(
        device="cpu",
        loss_descriptor=mps.MPSCNNLossDescriptor.cnn_loss_descriptor(
            with_type="mean_squared_error", reduction_type="mean"
        ),
    )
    buffer = commands(kernel.device)
    kernel.encode(buffer, source_image=image(count=1), labels=one)
    finish(buffer)


def use_loss_data(one: Any) -> None:
    use_labels(mps.MPSCNNLossLabels(device="cpu", labels_descriptor=one))


# The first class that fits; what has no use beyond itself was made and set.
USES: list[tuple[type | tuple[type, ...], Callable[..., None]]] = [
    (tg.MLCTensorDescriptor, lambda one: use_tensor(tg.MLCTensor(descriptor=one))),
    (tg.MLCTensor, use_tensor),
    (tg.MLCConvolutionDescriptor, use_convolution),
    (tg.MLCPoolingDescriptor, lambda one: use_layer(tg.MLCPoolingLayer(descriptor=one))),
    (tg.MLCMatMulDescriptor, lambda one: use_layer(tg.MLCMatMulLayer(descriptor=one))),
    (tg.MLCActivationDescriptor, lambda one: use_layer(tg.MLCActivationLayer(descriptor=one))),
    (tg.MLCLossDescriptor, lambda one: use_loss(tg.MLCLossLayer(descriptor=one))),
    (tg.MLCOptimizerDescriptor, lambda one: use_optimizer(tg.MLCAdamOptimizer(descriptor=one))),
    (tg.MLCLossLayer, use_loss),
    (tg.MLCLayer, use_layer),
    (tg.MLCOptimizer, use_optimizer),
    ((mps.MPSNNFilterNode, mps.MPSNNImageNode), use_node),
    (mps.MPSKernel, use_kernel),
    (mps.MPSImageDescriptor,
     lambda one: use_image(mps.MPSImage(device="cpu", image_descriptor=one))),
    (mps.MPSImage, use_image),
    (mps.MPSVectorDescriptor, lambda one: use_vector(mps.MPSVector(device="cpu", descriptor=one))),
    (mps.MPSVector, use_vector),
    (mps.MPSCNNConvolutionDescriptor,
     lambda one: use_kernel(mps.MPSCNNConvolution(device="cpu", weights=Source(one)))),
    (mps.MPSNNNeuronDescriptor,
     lambda one: use_kernel(mps.MPSCNNNeuron(device="cpu", neuron_descriptor=one))),
    (mps.MPSCNNLossDescriptor,
     lambda one: use_kernel(mps.MPSNNForwardLoss(device="cpu", loss_descriptor=one))),
    (mps.MPSNNOptimizerDescriptor,
     lambda one: use_kernel(mps.MPSNNOptimizerRMSProp(
         device="cpu", decay=0.5, epsilon=0.5, optimizer_descriptor=one))),
    (mps.MPSCNNLossDataDescriptor, use_loss_data),
    (mps.MPSCNNLossLabels, use_labels),
]  # fmt: skip


def use(made: Any, **more: Any) -> None:
    for one in made if isinstance(made, list | tuple) else [made]:
        for cls, call in USES:
            if isinstance(one, cls):
                call(one, **(more if isinstance(one, mps.MPSKernel) else {}))
                break
