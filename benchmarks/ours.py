"""The workloads over the public Python surface."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import traingraph as tg

from . import workloads as w


class Network:
    """Builds the graph of a workload, layer by layer of the table."""

    def __init__(self, workload: w.Workload, data_type: str = "float32") -> None:
        self.data_type = data_type
        self.graph = tg.MLCGraph()
        self.start = w.parameters(workload)
        self.tensors: list[tg.MLCTensor] = []
        self.shape = workload.source
        self.x = tg.MLCTensor(shape=list(workload.source), data_type=data_type)
        self.result = self.add(workload.layers, self.x)

    def tensor(self) -> tg.MLCTensor:
        self.tensors.append(tg.MLCTensor(data=next(self.start).astype(self.data_type)))
        return self.tensors[-1]

    def add(self, layers: tuple[w.Layer, ...], x: tg.MLCTensor) -> tg.MLCTensor:
        for layer in layers:
            x = self.add_one(layer, x)
        return x

    def add_one(self, layer: w.Layer, x: tg.MLCTensor) -> tg.MLCTensor:
        node = self.graph.node
        match layer:
            case w.Dense(inputs, outputs):
                descriptor = _descriptor(inputs, outputs, 1, 1)
                weights, biases = self.tensor(), self.tensor()
                made = tg.MLCFullyConnectedLayer(
                    weights=weights, biases=biases, descriptor=descriptor
                )
                return node(made, source=x)
            case w.Convolution(inputs, outputs, kernel, stride):
                descriptor = _descriptor(inputs, outputs, kernel, stride)
                return node(
                    tg.MLCConvolutionLayer(weights=self.tensor(), descriptor=descriptor), source=x
                )
            case w.BatchNorm(channels):
                gamma, beta = self.tensor(), self.tensor()
                mean, variance = (
                    tg.MLCTensor(shape=[channels], fill_with_data=value, data_type=self.data_type)
                    for value in (0.0, 1.0)
                )
                return node(
                    tg.MLCBatchNormalizationLayer(
                        feature_channel_count=channels,
                        mean=mean,
                        variance=variance,
                        beta=beta,
                        gamma=gamma,
                        momentum=0.9,
                    ),
                    source=x,
                )
            case w.Relu():
                return node(tg.MLCActivationLayer.relu(), source=x)
            case w.MaxPool(size, stride, padding):
                return node(_pooling("max", size, stride or size, padding), source=x)
            case w.GlobalAverage(size):
                return self.flat(node(_pooling("average", size, size, 0), source=x))
            case w.Flatten():
                return self.flat(x)
            case w.Residual(body, shortcut, linear):
                joined = node(
                    tg.MLCArithmeticLayer(operation="add"),
                    sources=[self.add(body, x), self.add(shortcut, x)],
                )
                return joined if linear else node(tg.MLCActivationLayer.relu(), source=joined)
            case w.Lstm():
                return self.flat(node(self.lstm(layer), source=x))
            case w.LayerNorm(width):
                gamma, beta = self.tensor(), self.tensor()
                normalization = tg.MLCLayerNormalizationLayer(
                    normalized_shape=[width], beta=beta, gamma=gamma
                )
                return node(normalization, source=x)
            case w.Gelu():
                return node(tg.MLCActivationLayer.gelu(), source=x)
            case w.Attention():
                return node(self.attention(layer), sources=[x, x, x])
            case w.TokenMean():
                mean = tg.MLCReductionLayer(reduction_type="mean", dimension=1)
                return self.flat(node(mean, source=x))

    def parts(self, count: int) -> list[tg.MLCTensor]:
        """A parameter of the table that is several ones here."""
        start = next(self.start).astype(self.data_type)
        return [tg.MLCTensor(data=part) for part in np.split(start, count)]

    def lstm(self, layer: w.Lstm) -> tg.MLCLSTMLayer:
        lists: dict[str, list[tg.MLCTensor]] = {
            "input_weights": [], "hidden_weights": [], "biases": []
        }  # fmt: skip
        for _ in layer.sources():
            for tensors in lists.values():
                tensors += self.parts(4)
        descriptor = tg.MLCLSTMDescriptor(
            input_size=layer.inputs,
            hidden_size=layer.hidden,
            layer_count=layer.layers,
            returns_sequences=False,
        )
        return tg.MLCLSTMLayer(descriptor=descriptor, **lists)

    def attention(self, layer: w.Attention) -> tg.MLCMultiheadAttentionLayer:
        descriptor = tg.MLCMultiheadAttentionDescriptor(
            model_dimension=layer.width, head_count=layer.heads
        )
        weights, biases = self.parts(3), self.parts(3)
        weights.append(self.tensor())
        biases.append(self.tensor())
        return tg.MLCMultiheadAttentionLayer(descriptor=descriptor, weights=weights, biases=biases)

    def flat(self, x: tg.MLCTensor) -> tg.MLCTensor:
        batch, *rest = x.descriptor.shape
        size = 1
        for extent in rest:
            size *= extent
        return self.graph.reshape(shape=[batch, size], source=x)


def _descriptor(inputs: int, outputs: int, kernel: int, stride: int) -> tg.MLCConvolutionDescriptor:
    return tg.MLCConvolutionDescriptor(
        kernel_sizes=(kernel, kernel),
        input_feature_channel_count=inputs,
        output_feature_channel_count=outputs,
        strides=(stride, stride),
        padding_policy=tg.MLCPaddingPolicy.sized(y=kernel // 2, x=kernel // 2),
    )


def _pooling(kind: str, size: int, stride: int, padding: int) -> tg.MLCPoolingLayer:
    return tg.MLCPoolingLayer(
        descriptor=tg.MLCPoolingDescriptor(
            type=kind,
            kernel_sizes=(size, size),
            strides=(stride, stride),
            padding_policy=tg.MLCPaddingPolicy.sized(y=padding, x=padding),
        )
    )


def _loss(workload: w.Workload) -> tg.MLCLossLayer:
    mean = tg.MLCReductionType.MEAN
    if workload.classes:
        return tg.MLCLossLayer.softmax_cross_entropy(reduction_type=mean)
    return tg.MLCLossLayer.mean_squared_error(reduction_type=mean)


def _optimizer(o: w.Optimizer) -> tg.MLCOptimizer:
    if o.name == "adam":
        return tg.MLCAdamOptimizer(learning_rate=o.rate)
    return tg.MLCSGDOptimizer(
        learning_rate=o.rate,
        momentum_scale=o.momentum,
        regularization_type="l2" if o.decay else "none",
        regularization_scale=o.decay,
    )


class Session:
    """One compiled workload and the calls that run it."""

    def __init__(
        self,
        workload: w.Workload,
        threads: int,
        variant: str,
        precision: str = "float32",
        memory_limit: int | None = None,
        ranks: Any = None,
        data_type: str = "float32",
    ) -> None:
        self.variant = variant
        self.version = tg.__version__
        tg.set_num_threads(threads)
        network = Network(workload, data_type)
        x, y = (a.astype(data_type) if a.dtype == np.float32 else a for a in w.data(workload))
        labels = tg.MLCTensor(shape=list(y.shape), data_type=str(y.dtype))
        self.training = tg.MLCTrainingGraph(
            graph_objects=[network.graph],
            loss_layer=_loss(workload),
            optimizer=_optimizer(workload.optimizer),
        )
        self.training.add_inputs({"x": network.x}, loss_labels={"y": labels})
        self.training.compile(
            device=variant or "cpu",
            precision=precision,
            memory_limit=memory_limit,
            distributed=ranks,
        )
        now = tg.MLCExecutionOptions.SYNCHRONOUS
        inputs, labels_data = {"x": x}, {"y": y}
        execute = self.training.execute

        # Written out: functools.partial would copy the keywords in every step.
        def step() -> Any:
            return execute(inputs_data=inputs, loss_labels_data=labels_data, options=now)

        self.step = step
        bind = self.training.bind_and_write_data
        bind({"x": x}, for_inputs={"x": network.x})
        bind({"y": y}, for_inputs={"y": labels})
        self.phases: dict[str, Callable[[], Any]] = {
            "forward": partial(self.training.execute_forward, options=now),
            "gradient": partial(self.training.execute_gradient, options=now),
            "update": partial(self.training.execute_optimizer_update, options=now),
        }

    def loss(self) -> float:
        return float(self.step().result)

    def resident_step(self) -> None:
        """Over what is bound already, without waiting."""
        self.last = self.training.execute(
            inputs_data={}, options=tg.MLCExecutionOptions.SKIP_WRITING_INPUT_DATA_TO_DEVICE
        )


class Gradients:
    """A workload that is not trained: forward and gradient, one call each."""

    def __init__(self, workload: w.Workload, threads: int, variant: str) -> None:
        self.variant = variant
        self.version = tg.__version__
        tg.set_num_threads(threads)
        self.network = network = Network(workload)
        x, y = w.data(workload)
        labels = tg.MLCTensor(shape=list(y.shape), data_type=str(y.dtype))
        if workload.classes:
            network.graph.node(_loss(workload), sources=[network.result], loss_labels=[labels])
        self.training = training = tg.MLCTrainingGraph(graph_objects=[network.graph])
        training.add_inputs({"x": network.x}, loss_labels={"y": labels} if workload.classes else {})
        given = labels if workload.classes else training.allocate_user_gradient(network.result)
        training.compile(device=variant or "cpu", options="compute_all_gradients")
        bind = training.bind_and_write_data
        bind({"x": x, "y": y}, for_inputs={"x": network.x, "y": given})
        now = tg.MLCExecutionOptions.SYNCHRONOUS
        # Written in every step, and read in place.
        write = {"write": partial(bind, {"y": y}, for_inputs={"y": given}, synchronous=False)}
        self.phases: dict[str, Callable[[], Any]] = {
            "forward": partial(training.execute_forward, options=now),
            **({} if workload.classes else write),
            "gradient": partial(training.execute_gradient, options=now),
        }

    def step(self) -> None:
        for phase in self.phases.values():
            phase()

    def gradients(self) -> list[w.Array]:
        """Of the source, then of the parameters."""
        self.step()
        of_source = self.training.gradient_tensor(for_input=self.network.x)
        of_source.synchronize_data()
        (layer, *_) = self.network.graph.layers
        tensors = self.network.tensors
        return [of_source.data, *(self.training.gradient_data(t, layer=layer) for t in tensors)]
