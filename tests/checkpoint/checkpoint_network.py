"""A network with everything that a checkpoint has to keep: convolution, batch norm, dropout."""

import sys
from pathlib import Path

import numpy as np

import traingraph as tg

BATCH = 8
SYNCHRONOUS = tg.MLCExecutionOptions.SYNCHRONOUS


def optimizers() -> dict[str, tg.MLCOptimizer]:
    return {
        "adam": tg.MLCAdamOptimizer(learning_rate=0.01),
        "amsgrad": tg.MLCAdamOptimizer(
            descriptor=tg.MLCOptimizerDescriptor(learning_rate=0.01), uses_amsgrad=True
        ),
        "momentum": tg.MLCSGDOptimizer(learning_rate=0.05, momentum_scale=0.9),
    }


def filled(*shape: int, seed: int) -> tg.MLCTensor:
    values = np.random.default_rng(seed).normal(size=shape) * 0.3
    return tg.MLCTensor(data=values.astype(np.float32))


class Network:
    """Images (8, 3, 6, 6) → 5 classes. `others` layers are made before its own."""

    def __init__(
        self,
        optimizer: tg.MLCOptimizer | None = None,
        device: str = "cpu",
        seed: int = 1,
        others: int = 0,
        compile_now: bool = True,
    ) -> None:
        for _ in range(others):
            tg.MLCDropoutLayer(rate=0.5, seed=1)
        self.x = tg.MLCTensor(shape=[BATCH, 3, 6, 6])
        self.labels = tg.MLCTensor(shape=[BATCH], data_type="int64")
        self.convolution = tg.MLCConvolutionLayer(
            weights=filled(1, 12, 3, 3, seed=seed),
            biases=filled(1, 4, 1, 1, seed=seed + 1),
            descriptor=tg.MLCConvolutionDescriptor(
                kernel_sizes=(3, 3), input_feature_channel_count=3, output_feature_channel_count=4
            ),
        )
        self.convolution.label = "conv"
        self.norm = tg.MLCBatchNormalizationLayer(feature_channel_count=4)
        self.full = tg.MLCFullyConnectedLayer(
            weights=filled(1, 144 * 5, 1, 1, seed=seed + 2),
            biases=filled(1, 5, 1, 1, seed=seed + 3),
            descriptor=tg.MLCConvolutionDescriptor(
                kernel_sizes=(1, 1),
                input_feature_channel_count=144,
                output_feature_channel_count=5,
            ),
        )
        self.graph = tg.MLCGraph()
        self.result = tg.sequential(
            self.graph,
            self.x,
            [
                self.convolution,
                self.norm,
                tg.MLCActivationLayer.relu(),
                tg.MLCDropoutLayer(rate=0.3, seed=0),
                tg.MLCReshapeLayer(shape=[BATCH, 144]),
                self.full,
            ],
        )
        self.optimizer = optimizer or tg.MLCAdamOptimizer(learning_rate=0.01)
        self.training = tg.MLCTrainingGraph(
            graph_objects=[self.graph],
            loss_layer=tg.MLCLossLayer.softmax_cross_entropy(reduction_type="mean"),
            optimizer=self.optimizer,
        )
        self.training.add_inputs({"x": self.x}, loss_labels={"labels": self.labels})
        if compile_now:
            self.training.compile(device=device)

    def inference(self, device: str = "cpu") -> tg.MLCInferenceGraph:
        inference = tg.MLCInferenceGraph(graph_objects=[self.graph])
        inference.add_inputs({"x": self.x})
        inference.compile(device=device)
        return inference

    def step(self, index: int, **keywords: object) -> tg.MLCExecution:
        """The step of this number, always with the same data."""
        numbers = np.random.default_rng(100 + index)
        return self.training.execute(
            inputs_data={"x": numbers.normal(size=(BATCH, 3, 6, 6)).astype(np.float32)},
            loss_labels_data={"labels": numbers.integers(0, 5, BATCH)},
            **keywords,
        )

    def steps(self, first: int, last: int) -> list[float]:
        return [float(self.step(k, options=SYNCHRONOUS).result) for k in range(first, last)]


def bits(state: dict[str, np.ndarray]) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in state.items()}


def main(device: str, first: int, last: int, load: str, save: str, others: int, seed: int) -> None:
    """One process: every optimizer from step to step, from file to file."""
    tg.MLCPlatform.set_rng_seed_to(seed)
    for name in optimizers():
        network = Network(optimizers()[name], device, seed=others + 1, others=others)
        if load:
            network.training.load(Path(load) / f"{name}.safetensors")
        losses = network.steps(first, last)
        network.training.save(Path(save) / f"{name}.safetensors")
        print(name, np.array(losses[-1]).tobytes().hex())


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:4]), *sys.argv[4:6], *map(int, sys.argv[6:8]))
