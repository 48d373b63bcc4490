"""One weight that a mean squared error pulls to 2."""

import numpy as np

import traingraph as tg

X = np.array([[1.0], [2.0]], np.float32)
Y = 2 * X


class Line:
    def __init__(
        self,
        optimizer: tg.MLCOptimizer | None,
        device: str = "cpu",
        parameter: "Line | None" = None,
    ) -> None:
        self.device = device
        self.x = tg.MLCTensor(shape=[2, 1])
        self.y = tg.MLCTensor(shape=[2, 1])
        if parameter is None:
            self.weight = tg.MLCTensor(shape=[1, 1], fill_with_data=0.0)
            self.weight.label = "w"
        else:
            self.weight = parameter.weight
        layer = tg.MLCFullyConnectedLayer(
            weights=self.weight,
            descriptor=tg.MLCConvolutionDescriptor(
                kernel_sizes=(1, 1), input_feature_channel_count=1, output_feature_channel_count=1
            ),
        )
        graph = tg.MLCGraph()
        graph.node(layer, source=self.x)
        self.training = tg.MLCTrainingGraph(
            graph_objects=[graph],
            loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
            optimizer=optimizer,
        )
        self.training.add_inputs({"x": self.x}, loss_labels={"y": self.y})

    def compile(self) -> "Line":
        self.training.compile(device=self.device)
        return self

    def start(self, **keywords: object) -> tg.MLCExecution:
        return self.training.execute(inputs_data={"x": X}, loss_labels_data={"y": Y}, **keywords)

    def step(self) -> None:
        self.start(options="synchronous")

    def value(self) -> float:
        self.weight.synchronize_data()
        return float(self.weight.data.item())

    def gradient(self) -> float:
        """Of the mean of (w x - 2 x)², by hand."""
        return float(2 * ((self.value() - 2) * X**2).mean())
