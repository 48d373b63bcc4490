"""Trains a classifier of handwritten digits with the MPS layer, in one of three ways.

    python examples/mps_classifier.py training_graph     # nodes; gradient nodes are added
    python examples/mps_classifier.py gradient_filters   # nodes; each gradient node made by hand
    python examples/mps_classifier.py by_hand            # kernels encoded one after another

All three train the same network on the same batches: scikit-learn's 1,797 digits of 8x8 pixels, a
fifth of them held back for the test. They print the same losses.
"""

import argparse
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from traingraph import mps

BATCH, CLASSES, FILTERS, EPOCHS = 64, 10, 16, 6
Images = list[mps.MPSImage]


# --- data ----------------------------------------------------------------------------------------


def digits() -> tuple[np.ndarray, np.ndarray]:
    """Images (N, 1, 8, 8) from 0 to 1, and labels (N, 10, 1, 1) of zeros and a one."""
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    images = (data.images[order] / 16).astype(np.float32)[:, None]
    labels = np.eye(CLASSES, dtype=np.float32)[data.target[order]]
    return images, labels.reshape(-1, CLASSES, 1, 1)


def batch_of(device: mps.MTLDevice, array: np.ndarray) -> Images:
    """One MPSImage of several images from (N, C, H, W), as the list that kernels take."""
    count, channels, height, width = array.shape
    descriptor = mps.MPSImageDescriptor.image_descriptor(
        with_channel_format="float32",
        width=width,
        height=height,
        feature_channels=channels,
        number_of_images=count,
    )
    image = mps.MPSImage(device=device, image_descriptor=descriptor)
    for index, one in enumerate(array):
        image.write_bytes(np.ascontiguousarray(one), image_index=index)
    return image.batch_representation()


def numbers(images: Images) -> np.ndarray:
    """The values of each image, a row each."""
    shape = images[0].feature_channels, images[0].height, images[0].width
    rows = np.empty((len(images), *shape), np.float32)
    for image, row in zip(images, rows, strict=True):
        image.read_bytes(row)
    return rows.reshape(len(images), -1)


# --- what the three ways share -------------------------------------------------------------------


class Weights(mps.MPSCNNConvolutionDataSource):
    """Weights (output channels, height, width, input channels) with an optimizer of their own."""

    def __init__(self, device: mps.MTLDevice, seed: int, outputs: int, size: int, inputs: int):
        bound = (size * size * inputs) ** -0.5
        random = np.random.default_rng(seed)
        shape = outputs, size, size, inputs
        self.arrays = (
            random.uniform(-bound, bound, shape).astype(np.float32),
            np.zeros(outputs, np.float32),
        )
        self.sizes = mps.MPSCNNConvolutionDescriptor.cnn_convolution_descriptor(
            with_kernel_width=size,
            kernel_height=size,
            input_feature_channels=inputs,
            output_feature_channels=outputs,
        )
        self.optimizer = mps.MPSNNOptimizerAdam(device=device, learning_rate=0.01)
        self.state: Any = None
        self.momentum, self.velocity = (
            [
                mps.MPSVector(
                    device=device,
                    descriptor=mps.MPSVectorDescriptor.vector_descriptor(with_length=array.size),
                )
                for array in self.arrays
            ]
            for _ in range(2)
        )

    def descriptor(self) -> mps.MPSCNNConvolutionDescriptor:
        return self.sizes

    def weights(self) -> np.ndarray:
        return self.arrays[0] if self.state is None else np.asarray(self.state.weights)

    def bias_terms(self) -> np.ndarray:
        return self.arrays[1] if self.state is None else np.asarray(self.state.biases)

    def update(self, command_buffer: Any, gradient_state: Any, source_state: Any) -> Any:
        """Encodes a step of Adam; graphs call it on their own."""
        self.state = source_state
        self.optimizer.encode(
            command_buffer,
            convolution_gradient_state=gradient_state,
            convolution_source_state=source_state,
            input_momentum_vectors=self.momentum,
            input_velocity_vectors=self.velocity,
            result_state=source_state,
        )
        return source_state


def loss_descriptor() -> mps.MPSCNNLossDescriptor:
    descriptor = mps.MPSCNNLossDescriptor.cnn_loss_descriptor(
        with_type="soft_max_cross_entropy", reduction_type="mean"
    )
    descriptor.reduce_across_batch = True  # the first loss image has the sum
    return descriptor


# --- nodes ---------------------------------------------------------------------------------------


class Nodes:
    """A network of nodes, trained by one graph and asked by another one."""

    def __init__(self, device: mps.MTLDevice, way: str) -> None:
        self.device = device
        self.convolution = Weights(device, 1, FILTERS, 3, 1)
        self.full = Weights(device, 2, CLASSES, 4, FILTERS)
        *nodes, loss = self.network()
        if way == "training_graph":
            (last,) = loss.training_graph()
        else:
            last = loss
            for node in reversed(nodes):
                last = node.gradient_filter(with_source=last.result_image)
        self.training = mps.MPSNNGraph(
            device=device, result_image=last.result_image, result_image_is_needed=False
        )

    def network(self) -> list[Any]:
        image = mps.MPSNNImageNode(handle="images")
        convolution = mps.MPSCNNConvolutionNode(source=image, weights=self.convolution)
        relu = mps.MPSCNNNeuronReLUNode(source=convolution.result_image, a=0.0)
        pool = mps.MPSCNNPoolingMaxNode(source=relu.result_image, filter_size=2)
        pool.padding_policy = "size_valid_only"
        full = mps.MPSCNNFullyConnectedNode(source=pool.result_image, weights=self.full)
        loss = mps.MPSCNNLossNode(source=full.result_image, loss_descriptor=loss_descriptor())
        return [convolution, relu, pool, full, loss]

    def encode(self, buffer: mps.MTLCommandBuffer, images: Images, labels: list[Any]) -> None:
        self.training.encode_batch(buffer, source_images=[images], source_states=[labels])

    def scores(self, images: Images) -> Images:
        *_, full, _ = self.network()  # with the weights that the sources have now
        graph = mps.MPSNNGraph(
            device=self.device, result_image=full.result_image, result_image_is_needed=True
        )
        graph.makes_temporary_images = False  # they are read after the buffer has run
        buffer = self.device.make_command_queue().make_command_buffer()
        result = graph.encode_batch(buffer, source_images=[images])
        buffer.commit()
        buffer.wait_until_completed()
        return result


# --- kernels -------------------------------------------------------------------------------------


class Trained:
    """A kernel with weights, its gradient kernel, and the weights that both are given."""

    def __init__(self, device: mps.MTLDevice, kind: str, source: Weights) -> None:
        self.source = source
        self.forward = getattr(mps, kind)(device=device, weights=source)
        self.gradient = getattr(mps, f"{kind}Gradient")(device=device, weights=source)
        weights, biases = (mps.MTLBuffer(device=device, bytes=a.tobytes()) for a in source.arrays)
        self.state = mps.MPSCNNConvolutionWeightsAndBiasesState(weights=weights, biases=biases)

    def update(self, buffer: mps.MTLCommandBuffer, gradients: Any) -> None:
        state = self.source.update(buffer, gradients, self.state)
        for kernel in (self.forward, self.gradient):
            kernel.reload_weights_and_biases(buffer, state=state)


class Kernels:
    def __init__(self, device: mps.MTLDevice) -> None:
        self.device = device
        self.convolution = Trained(device, "MPSCNNConvolution", Weights(device, 1, FILTERS, 3, 1))
        self.full = Trained(device, "MPSCNNFullyConnected", Weights(device, 2, CLASSES, 4, FILTERS))
        relu = mps.MPSNNNeuronDescriptor.cnn_neuron_descriptor(with_type="relu", a=0.0)
        self.relu = mps.MPSCNNNeuron(device=device, neuron_descriptor=relu)
        self.relu_gradient = mps.MPSCNNNeuronGradient(device=device, neuron_descriptor=relu)
        window = {"kernel_width": 2, "kernel_height": 2}
        window |= {"stride_in_pixels_x": 2, "stride_in_pixels_y": 2}
        self.pool = mps.MPSCNNPoolingMax(device=device, **window)
        self.pool.padding = "size_valid_only"
        self.pool_gradient = mps.MPSCNNPoolingMaxGradient(device=device, **window)
        self.loss = mps.MPSCNNLoss(device=device, loss_descriptor=loss_descriptor())

    def encode(self, buffer: mps.MTLCommandBuffer, images: Images, labels: list[Any]) -> None:
        sources, states = [images], []
        forward = [self.convolution.forward, self.relu, self.pool, self.full.forward]
        for kernel in forward:
            result, state = kernel.encode_batch(
                buffer, source_images=sources[-1], destination_state_is_temporary=False
            )
            for image in result:
                image.read_count = 2  # by the next kernel, and by that one's gradient
            sources.append(result)
            states.append(state)
        for image in sources[-1]:
            image.read_count = 1  # by the loss alone
        gradients = self.loss.encode_batch(buffer, source_images=sources[-1], labels=labels)
        backward = [
            self.convolution.gradient,
            self.relu_gradient,
            self.pool_gradient,
            self.full.gradient,
        ]
        for kernel, source, state in reversed(
            list(zip(backward, sources[:-1], states, strict=True))
        ):
            gradients = kernel.encode_batch(
                buffer, source_gradients=gradients, source_images=source, gradient_states=state
            )
        self.convolution.update(buffer, states[0][0])
        self.full.update(buffer, states[3][0])

    def scores(self, images: Images) -> Images:
        buffer = self.device.make_command_queue().make_command_buffer()
        *before, last = self.convolution.forward, self.relu, self.pool, self.full.forward
        for kernel in before:
            images = kernel.encode_batch(buffer, source_images=images)
        last.makes_temporary_images = False
        result = last.encode_batch(buffer, source_images=images)
        buffer.commit()
        buffer.wait_until_completed()
        return result


# --- training ------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("way", choices=["training_graph", "gradient_filters", "by_hand"])
    parser.add_argument("--device", help='"cpu", "cuda", "reference"; the best there is otherwise')
    arguments = parser.parse_args()
    chosen = arguments.device
    device = mps.MTLDevice(device=chosen) if chosen else mps.create_system_default_device()
    network = Kernels(device) if arguments.way == "by_hand" else Nodes(device, arguments.way)
    images, labels = digits()
    trained = len(images) * 4 // 5 // BATCH * BATCH
    batches = [
        (batch_of(device, images[k : k + BATCH]), batch_of(device, labels[k : k + BATCH]))
        for k in range(0, trained, BATCH)
    ]
    queue = device.make_command_queue()
    for epoch in range(EPOCHS):
        losses = []
        for source, truths in batches:
            loss = batch_of(device, np.zeros((BATCH, 1, 1, 1), np.float32))
            pairs = [
                mps.MPSCNNLossLabels(loss_image=a, labels_image=b)
                for a, b in zip(loss, truths, strict=True)
            ]
            buffer = queue.make_command_buffer()
            network.encode(buffer, source, pairs)
            buffer.commit()
            losses.append(loss)
        buffer.wait_until_completed()
        mean = np.mean([numbers(loss)[0, 0] for loss in losses])
        print(f"epoch {epoch + 1}: loss {mean:.4f}")
    scores = numbers(network.scores(batch_of(device, images[trained:])))
    right = scores.argmax(1) == labels[trained:].reshape(-1, CLASSES).argmax(1)
    print(f"test accuracy {right.mean():.4f}")


if __name__ == "__main__":
    main()
