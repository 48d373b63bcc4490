"""Training graphs of many kinds, compiled, with data: what check_gradients is tried on."""

from collections.abc import Callable
from typing import Any

import numpy as np

import traingraph as tg


def drawn(*shape: int, seed: int = 0, low: float = -1.0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).uniform(low, 1, shape)


def tensor(*shape: int, seed: int = 0, dtype: str = "float32", low: float = -1.0) -> Any:
    return tg.MLCTensor(data=drawn(*shape, seed=seed, low=low).astype(dtype))


def channels(inputs: int, outputs: int, size: int = 1) -> Any:
    return tg.MLCConvolutionDescriptor(
        kernel_sizes=(size, size), input_feature_channel_count=inputs,
        output_feature_channel_count=outputs,
    )  # fmt: skip


class Checked:
    """`build` adds the layers and returns the last tensor; the data is drawn."""

    def __init__(
        self, device: str, dtype: str = "float32", precision: str = "float32",
        loss: Any = None, micro_batches: int = 1, optimizer: Any = None,
    ) -> None:  # fmt: skip
        self.device, self.dtype, self.precision = device, dtype, precision
        self.graph = tg.MLCGraph()
        self.inputs: dict[str, Any] = {}
        self.data: dict[str, np.ndarray] = {}
        self.labels: dict[str, Any] = {}
        self.label_data: dict[str, np.ndarray] = {}
        self.weights: dict[str, Any] = {}
        self.weight_data: dict[str, np.ndarray] = {}
        self.trained: list[Any] = []
        self.stopped: list[Any] = []
        self.loss = loss or tg.MLCLossLayer.mean_squared_error(reduction_type="mean")
        self.micro_batches = micro_batches
        self.optimizer = optimizer or tg.MLCAdamOptimizer(learning_rate=0.01)

    def __getitem__(self, name: str) -> tuple[Any, ...]:
        return (self.inputs[name],)

    def parameter(self, *shape: int, seed: int = 0, low: float = -1.0) -> Any:
        return tensor(*shape, seed=seed, dtype=self.dtype, low=low)

    def input(self, *shape: int, name: str = "x", seed: int = 1) -> Any:
        self.inputs[name] = tg.MLCTensor(shape=list(shape), data_type=self.dtype)
        self.data[name] = drawn(*shape, seed=seed).astype(self.dtype)
        return self.inputs[name]

    def label(self, *shape: int, classes: int = 0) -> None:
        dtype = "int64" if classes else self.dtype
        self.labels["y"] = tg.MLCTensor(shape=list(shape), data_type=dtype)
        numbers = np.random.default_rng(7).integers(0, classes or 9, shape)
        self.label_data["y"] = (numbers if classes else drawn(*shape, seed=8)).astype(dtype)

    def dense(self, inputs: int, outputs: int, seed: int = 3) -> Any:
        return tg.MLCFullyConnectedLayer(
            weights=self.parameter(outputs, inputs, seed=seed),
            biases=self.parameter(outputs, seed=seed + 1), descriptor=channels(inputs, outputs),
        )  # fmt: skip

    def add(self, *layers: Any, to: Any) -> Any:
        return tg.sequential(self.graph, to, list(layers))

    def compiled(self) -> "Checked":
        self.training = tg.MLCTrainingGraph(
            graph_objects=[self.graph], loss_layer=self.loss, optimizer=self.optimizer
        )
        self.training.add_inputs(
            self.inputs, loss_labels=self.labels, loss_label_weights=self.weights
        )
        self.training.micro_batches = self.micro_batches
        self.training.set_training_tensor_parameters(
            [tg.MLCTensorParameter(tensor=one) for one in self.trained]
        )
        if self.stopped:
            self.training.stop_gradient(self.stopped)
        self.training.compile(device=self.device, precision=self.precision)
        return self

    def fed(self) -> dict[str, Any]:
        return {
            "inputs_data": self.data, "loss_labels_data": self.label_data,
            "loss_label_weights_data": self.weight_data,
        }  # fmt: skip

    def step(self, options: str = "synchronous") -> Any:
        return self.training.execute(**self.fed(), options=options)

    def check(self) -> Any:
        return tg.check_gradients(self.training, **self.fed())


def convnet(**options: Any) -> Checked:
    """Convolution, batch norm, ReLU, pooling, dropout."""
    net = Checked(loss=tg.MLCLossLayer.softmax_cross_entropy(reduction_type="mean"), **options)
    net.normalization = tg.MLCBatchNormalizationLayer(
        feature_channel_count=6, mean=net.parameter(6, seed=30),
        variance=net.parameter(6, seed=31, low=0.5), beta=net.parameter(6, seed=32),
        gamma=net.parameter(6, seed=33, low=0.5),
    )  # fmt: skip
    convolution = tg.MLCConvolutionLayer(
        weights=net.parameter(6, 2, 3, 3, seed=5), biases=net.parameter(6, seed=6),
        descriptor=channels(2, 6, 3),
    )  # fmt: skip
    convolution.label = "first"
    halved = tg.MLCPoolingDescriptor(type="max", kernel_sizes=(2, 2), strides=(2, 2))
    net.add(
        convolution, net.normalization, tg.MLCActivationLayer.relu(),
        tg.MLCPoolingLayer(descriptor=halved), tg.MLCReshapeLayer(shape=(4, 96)),
        tg.MLCDropoutLayer(rate=0.25), net.dense(96, 5), to=net.input(4, 2, 8, 8),
    )  # fmt: skip
    net.label(4, classes=5)
    return net.compiled()


def lstm(**options: Any) -> Checked:
    net = Checked(**options)
    descriptor = tg.MLCLSTMDescriptor(input_size=3, hidden_size=4, layer_count=1)
    layer = tg.MLCLSTMLayer(
        descriptor=descriptor,
        input_weights=[net.parameter(4, 3, seed=k) for k in range(4)],
        hidden_weights=[net.parameter(4, 4, seed=10 + k) for k in range(4)],
        biases=[net.parameter(4, seed=20 + k) for k in range(4)],
    )
    net.add(layer, to=net.input(2, 5, 3))
    net.label(2, 5, 4)
    return net.compiled()


def attention(**options: Any) -> Checked:
    """The bias of the keys changes nothing: its gradient is 0 in theory."""
    net = Checked(**options)
    layer = tg.MLCMultiheadAttentionLayer(
        descriptor=tg.MLCMultiheadAttentionDescriptor(model_dimension=4, head_count=2),
        weights=[net.parameter(4, 4, seed=k) for k in range(4)],
        biases=[net.parameter(4, seed=10 + k) for k in range(4)], attention_biases=None,
    )  # fmt: skip
    x = net.input(2, 3, 4)
    net.graph.node(layer, sources=[x, x, x])
    net.label(2, 3, 4)
    return net.compiled()


def weighted(**options: Any) -> Checked:
    """Reduction none, and label weights, one of them 0."""
    net = Checked(loss=tg.MLCLossLayer.huber_loss(reduction_type="none", delta=0.5), **options)
    net.add(net.dense(3, 2), to=net.input(4, 3))
    net.label(4, 2)
    net.weights["w"] = tg.MLCTensor(shape=[4, 2], data_type=net.dtype)
    net.weight_data["w"] = drawn(4, 2, seed=9).astype(net.dtype)
    net.weight_data["w"][1] = 0
    return net.compiled()


def shared(**options: Any) -> Checked:
    """One tensor in two layers: one row, whose gradient is a sum."""
    net = Checked(**options)
    weights = net.parameter(3, 3, seed=2)
    first, second = (
        tg.MLCFullyConnectedLayer(weights=weights, biases=None, descriptor=channels(3, 3))
        for _ in range(2)
    )
    net.add(first, tg.MLCActivationLayer.tanh(), second, to=net.input(4, 3))
    net.label(4, 3)
    return net.compiled()


def residual(**options: Any) -> Checked:
    """A split, two ways that meet again, and a concatenation."""
    net = Checked(**options)
    split = tg.MLCSplitLayer(split_count=2, dimension=1)
    net.graph.node(split, source=net.add(net.dense(4, 6), to=net.input(5, 4)))
    left, right = net.graph.result_tensors(split)
    inner = net.add(net.dense(3, 3, seed=5), tg.MLCActivationLayer.sigmoid(), to=left)
    total = net.graph.node(tg.MLCArithmeticLayer(operation="add"), sources=[left, inner])
    both = net.graph.concatenate([total, right], dimension=1)
    net.add(net.dense(6, 2, seed=9), to=both)
    net.label(5, 2)
    return net.compiled()


def tensors(**options: Any) -> Checked:
    """Trained tensors that no layer holds."""
    net = Checked(**options)
    factor = net.parameter(3, 4, seed=2)
    factor.label = "factor"
    net.trained = [factor]
    product = tg.MLCMatMulLayer(descriptor=tg.MLCMatMulDescriptor())
    net.graph.node(product, sources=[net.input(2, 3), factor])
    net.label(2, 4)
    return net.compiled()


def stopped(**options: Any) -> Checked:
    """The first layer's gradient comes by one of two ways, and that of another one by none."""
    net = Checked(**options)
    one = net.add(net.dense(3, 3), to=net.input(4, 3))
    way = net.add(tg.MLCActivationLayer.tanh(), to=one)
    net.stopped = [way]
    product = net.graph.node(tg.MLCArithmeticLayer(operation="multiply"), sources=[one, way])
    cut = net.add(net.dense(3, 3, seed=11), to=net.inputs["x"])
    net.stopped.append(cut)
    net.graph.node(tg.MLCArithmeticLayer(operation="add"), sources=[product, cut])
    net.label(4, 3)
    return net.compiled()


def rescored(**options: Any) -> Checked:
    """A loss of which a part lets no gradient through."""
    descriptor = tg.MLCYOLOLossDescriptor(anchor_boxes=[1.0, 1.5, 2.5, 0.75], anchor_box_count=2)
    descriptor.should_rescore = True
    net = Checked(loss=tg.MLCYOLOLossLayer(descriptor=descriptor), **options)
    layer = tg.MLCConvolutionLayer(
        weights=net.parameter(14, 3, 1, 1), biases=net.parameter(14, seed=2),
        descriptor=channels(3, 14),
    )  # fmt: skip
    net.add(layer, to=net.input(2, 3, 3, 3))
    net.label(2, 14, 3, 3)
    boxes = np.abs(drawn(2, 2, 7, 3, 3, seed=5)) + 0.05
    boxes[:, :, 4] = boxes[:, :, 4] > 0.4
    boxes[:, :, 5] = boxes[:, :, 4]
    boxes[:, :, 6] = 0
    net.label_data["y"] = boxes.reshape(2, 14, 3, 3).astype(net.dtype)
    return net.compiled()


def looked_up(scales: bool = False, **options: Any) -> Checked:
    """Rows of a table, of which one has no gradient and others are first made shorter."""
    net = Checked(**options)
    layer = tg.MLCEmbeddingLayer(
        descriptor=tg.MLCEmbeddingDescriptor(
            embedding_count=5, embedding_dimension=3, padding_index=1, maximum_norm=0.9,
            scales_gradient_by_frequency=scales,
        ),
        weights=net.parameter(5, 3, seed=4),
    )  # fmt: skip
    net.inputs["ids"] = tg.MLCTensor(shape=[4, 2], data_type="int32")
    net.data["ids"] = np.int32([[0, 1], [2, 0], [4, 1], [1, 0]])
    net.add(layer, tg.MLCActivationLayer.tanh(), net.dense(3, 2), to=net.inputs["ids"])
    net.label(4, 2, 2)
    return net.compiled()


def parts(**options: Any) -> Checked:
    """A step of three micro-batches, with dropout."""
    net = Checked(micro_batches=3, **options)
    net.add(net.dense(3, 8), tg.MLCDropoutLayer(rate=0.5), net.dense(8, 2), to=net.input(4, 3))
    net.label(4, 2)
    return net.compiled()


def large(**options: Any) -> Checked:
    """Weights of more than 1,024 elements."""
    net = Checked(**options)
    net.add(net.dense(40, 50), tg.MLCActivationLayer.tanh(), net.dense(50, 2), to=net.input(4, 40))
    net.label(4, 2)
    return net.compiled()


NETWORKS: list[Callable[..., Checked]] = [
    convnet, lstm, attention, weighted, shared, residual, tensors, stopped, rescored, looked_up,
    parts, large,
]  # fmt: skip
