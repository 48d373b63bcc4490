"""A small network with known arithmetic: x → fc1 → tanh → fc2, in float64 on any backend's type."""

from typing import Any

import numpy as np

import traingraph as tg

ROWS, INPUTS, HIDDEN, OUTPUTS = 6, 5, 4, 3


def array(shape: tuple[int, ...], seed: int, dtype: str = "float64") -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(dtype)


def dense(outputs: int, inputs: int, seed: int, dtype: str, biases: bool = True) -> Any:
    return tg.MLCFullyConnectedLayer(
        weights=tg.MLCTensor(data=array((outputs, inputs), seed, dtype)),
        biases=tg.MLCTensor(data=array((outputs,), seed + 1, dtype)) if biases else None,
        descriptor=tg.MLCConvolutionDescriptor(
            kernel_sizes=(inputs, outputs),
            input_feature_channel_count=inputs,
            output_feature_channel_count=outputs,
        ),
    )


def identity(features: int) -> Any:
    """A layer with a weight to train, whose result is its source."""
    return tg.MLCFullyConnectedLayer(
        weights=tg.MLCTensor(data=np.eye(features, dtype=np.float32)),
        descriptor=tg.MLCConvolutionDescriptor(
            kernel_sizes=(features, features),
            input_feature_channel_count=features,
            output_feature_channel_count=features,
        ),
    )


class Network:
    """The layers and tensors; `loss` and `optimizer` belong to the training graph."""

    def __init__(self, dtype: str = "float64", dropout: float = 0.0) -> None:
        self.dtype = dtype
        self.x = tg.MLCTensor(shape=[ROWS, INPUTS], data_type=dtype)
        self.y = tg.MLCTensor(shape=[ROWS, OUTPUTS], data_type=dtype)
        self.fc1 = dense(HIDDEN, INPUTS, 1, dtype)
        self.tanh = tg.MLCActivationLayer.tanh()
        self.fc2 = dense(OUTPUTS, HIDDEN, 3, dtype)
        self.graph = tg.MLCGraph()
        self.h1 = self.graph.node(self.fc1, source=self.x)
        self.h2 = self.graph.node(self.tanh, source=self.h1)
        if dropout:
            self.h2 = self.graph.node(tg.MLCDropoutLayer(rate=dropout, seed=7), source=self.h2)
        self.result = self.graph.node(self.fc2, source=self.h2)
        self.data = {"x": array((ROWS, INPUTS), 10, dtype)}
        self.labels = {"y": array((ROWS, OUTPUTS), 11, dtype)}

    def training(self, optimizer: Any = None, reduction: str = "mean") -> Any:
        training = tg.MLCTrainingGraph(
            graph_objects=[self.graph],
            loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type=reduction),
            optimizer=optimizer,
        )
        training.add_inputs({"x": self.x}, loss_labels={"y": self.y})
        return training

    def feed(self, training: Any) -> None:
        """What the separate calls read."""
        training.bind_and_write_data(
            {**self.data, **self.labels}, for_inputs={"x": self.x, "y": self.y}
        )

    def parameters(self) -> list[np.ndarray]:
        return [
            np.array(p.data)
            for layer in (self.fc1, self.fc2)
            for p in (layer.weights, layer.biases)
        ]

    def gradients(self) -> dict[str, np.ndarray]:
        """Of the mean squared error, by NumPy."""
        w1, b1, w2, b2 = (np.asarray(p, np.float64) for p in self.parameters())
        x, y = (np.asarray(a, np.float64) for a in (self.data["x"], self.labels["y"]))
        h1 = x @ w1.T + b1
        h2 = np.tanh(h1)
        result = h2 @ w2.T + b2
        d_result = 2 * (result - y) / y.size
        d_h2 = d_result @ w2
        d_h1 = d_h2 * (1 - h2**2)
        return {"x": d_h1 @ w1, "h1": d_h1, "h2": d_h2, "result": d_result, "w1": d_h1.T @ x}


def read(tensor: Any) -> np.ndarray:
    """The newest value, through the call that Apple's programs use."""
    out = np.empty(tensor.descriptor.shape, np.dtype(tensor.descriptor.data_type.name.lower()))
    tensor.copy_data_from_device_memory(out, synchronize_with_device=False)
    return out
