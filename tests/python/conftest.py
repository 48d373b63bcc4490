"""Small graphs whose answers are known."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from traingraph import (
    MLCConvolutionDescriptor,
    MLCDevice,
    MLCFullyConnectedLayer,
    MLCGraph,
    MLCLossLayer,
    MLCOptimizer,
    MLCSGDOptimizer,
    MLCTensor,
    MLCTrainingGraph,
)


@dataclass
class Regression:
    """y = 2 x + 5 over x = 0, 1, 2, 3, from weight and bias 0."""

    graph: MLCGraph
    training: MLCTrainingGraph
    layer: MLCFullyConnectedLayer
    x: MLCTensor
    y: MLCTensor
    weights: MLCTensor
    biases: MLCTensor
    result: MLCTensor
    data: dict[str, Any]
    labels: dict[str, Any]

    def step(self, **keywords: Any) -> Any:
        return self.training.execute(
            inputs_data=self.data, loss_labels_data=self.labels, **keywords
        )


@pytest.fixture
def regression() -> Callable[..., Regression]:
    def make(
        optimizer: MLCOptimizer | None = None,
        device: MLCDevice | str = "cpu",
        data_type: str = "float32",
        reduction: str = "mean",
    ) -> Regression:
        x = MLCTensor(shape=[4, 1], data_type=data_type)
        y = MLCTensor(shape=[4, 1], data_type=data_type)
        weights = MLCTensor(shape=[1, 1], fill_with_data=0.0, data_type=data_type)
        biases = MLCTensor(shape=[1, 1], fill_with_data=0.0, data_type=data_type)
        layer = MLCFullyConnectedLayer(
            weights=weights,
            biases=biases,
            descriptor=MLCConvolutionDescriptor(
                kernel_sizes=(1, 1), input_feature_channel_count=1, output_feature_channel_count=1
            ),
        )
        graph = MLCGraph()
        result = graph.node(layer, source=x)
        training = MLCTrainingGraph(
            graph_objects=[graph],
            loss_layer=MLCLossLayer.mean_squared_error(reduction_type=reduction),
            optimizer=optimizer or MLCSGDOptimizer(learning_rate=0.05),
        )
        training.add_inputs({"x": x}, loss_labels={"y": y})
        training.add_outputs({"result": result})
        training.compile(device=device)
        array = np.arange(4, dtype=data_type).reshape(4, 1)
        return Regression(
            graph, training, layer, x, y, weights, biases, result,
            {"x": array}, {"y": 2 * array + 5},
        )  # fmt: skip

    return make
