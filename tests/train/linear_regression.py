"""Linear regression of y = 2 x + 5 over four points: its numbers can be worked out by hand."""

from collections.abc import Sequence

import numpy as np

import traingraph as tg

POINTS = np.arange(4.0).reshape(4, 1)
LABELS = 2 * POINTS + 5


class LinearRegression:
    """Weight and bias start from 0; the loss is the mean squared error."""

    def __init__(
        self,
        optimizer: tg.MLCOptimizer | None,
        device: str = "reference",
        dtype: str = "float64",
        reduction: str = "mean",
    ) -> None:
        self.dtype = np.dtype(dtype)
        # The caller's own memory: what training writes shows here.
        self.weight = np.zeros((1, 1), dtype)
        self.bias = np.zeros((1, 1), dtype)
        self.x = tg.MLCTensor(shape=[4, 1], data_type=dtype)
        self.y = tg.MLCTensor(shape=[4, 1], data_type=dtype)
        self.layer = tg.MLCFullyConnectedLayer(
            weights=tg.MLCTensor(data=self.weight),
            biases=tg.MLCTensor(data=self.bias),
            descriptor=tg.MLCConvolutionDescriptor(
                kernel_sizes=(1, 1), input_feature_channel_count=1, output_feature_channel_count=1
            ),
        )
        self.graph = tg.MLCGraph()
        self.prediction = self.graph.node(self.layer, source=self.x)
        self.training = tg.MLCTrainingGraph(
            graph_objects=[self.graph],
            loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type=reduction),
            optimizer=optimizer,
        )
        self.training.add_inputs({"x": self.x}, loss_labels={"y": self.y})
        self.training.compile(options="none", device=device)

    def arguments(self, rows: Sequence[int] = (0, 1, 2, 3)) -> dict:
        some = list(rows)
        return {
            "inputs_data": {"x": POINTS[some].astype(self.dtype)},
            "loss_labels_data": {"y": LABELS[some].astype(self.dtype)},
            "batch_size": len(some),
        }

    def step(self, rows: Sequence[int] = (0, 1, 2, 3)) -> np.ndarray:
        """One update; returns the loss before it."""
        return self.training.execute(options="synchronous", **self.arguments(rows)).result

    def parameters(self) -> tuple[float, float]:
        self.training.synchronize_updates()
        return self.weight.item(), self.bias.item()


def infer(
    graph: tg.MLCInferenceGraph, data: dict[str, np.ndarray], **arguments: object
) -> np.ndarray:
    return graph.execute(inputs_data=data, options="synchronous", **arguments).result
