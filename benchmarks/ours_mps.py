"""The workloads over the MPS layer: as a graph of nodes, or kernel by kernel."""

from collections.abc import Callable
from typing import Any

import numpy as np

import traingraph as tg
from traingraph import mps

from . import mps_sources as begin
from . import workloads as w
from .mps_kernels import Hand, Images


class Nodes:
    """A training graph of nodes."""

    def __init__(self, on: mps.MTLDevice, workload: w.Workload) -> None:
        self.sources = begin.Sources(on, workload)
        last = self.add(workload.layers, mps.MPSNNImageNode(handle="x"))
        loss = mps.MPSCNNLossNode(source=last, loss_descriptor=begin.loss(workload))
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
            case _:
                raise ValueError(f"the MPS layer is not measured with {layer}")
        result: mps.MPSNNImageNode = node.result_image
        return result

    def encode(self, buffer: mps.MTLCommandBuffer, x: Images, labels: list[Any]) -> None:
        self.graph.encode_batch(buffer, source_images=[x], source_states=[labels])


def _images(on: mps.MTLDevice, values: w.Array) -> Images:
    """A batch that is one image of several: (N, C, H, W)."""
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
    return [image]


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
        forms: dict[str, Any] = {"nodes": Nodes, "hand": Hand}
        self.network = forms[form](on, workload)
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
