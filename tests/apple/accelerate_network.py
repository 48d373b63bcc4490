"""A network that uses every kind of kernel of the BNNS backend, and what its training gives.

As a program, `accelerate_network.py train STEPS` trains on "bnns" and lets go of all that it has
made, so that what the double of Accelerate has counted can be read from stderr; the other names of
PROGRAMS compile what the backend leaves to other loops.
"""

import gc
import sys

import numpy as np

import small_layers
import traingraph as tg

BATCH, CLASSES = 4, 5
PADDED = tg.MLCPaddingPolicy.sized(y=1, x=0)


class Network:
    def __init__(self, device: str, optimizer: tg.MLCOptimizer | None = None) -> None:
        tg.MLCPlatform.set_rng_seed_to(1)
        graph = tg.MLCGraph()
        x = tg.MLCTensor(shape=[BATCH, 2, 8, 8])
        label = tg.MLCTensor(shape=[BATCH, CLASSES])
        self.layers = [
            small_layers.convolution(2, 4),
            tg.MLCActivationLayer.tanh(),
            tg.MLCBatchNormalizationLayer(feature_channel_count=4),
            small_layers.halving("average"),
            small_layers.convolution(4, 6, strides=(2, 1), padding_policy=PADDED),
            tg.MLCActivationLayer.relu(),
            small_layers.halving("l2_norm"),
            tg.MLCReshapeLayer(shape=[BATCH, 6]),
            small_layers.dense(6, CLASSES),
        ]
        result = tg.sequential(graph, x, self.layers)
        self.training = tg.MLCTrainingGraph(
            graph_objects=[graph],
            loss_layer=tg.MLCLossLayer.softmax_cross_entropy(reduction_type="mean"),
            optimizer=optimizer or tg.MLCAdamOptimizer(learning_rate=0.01),
        )
        self.training.add_inputs({"x": x}, loss_labels={"label": label})
        self.training.compile(device=device)
        assert result.descriptor.shape == [BATCH, CLASSES]

    def train(self, steps: int) -> list[float]:
        rng = np.random.default_rng(2)
        images = rng.uniform(-1, 1, (BATCH, 2, 8, 8)).astype(np.float32)
        labels = np.eye(CLASSES, dtype=np.float32)[rng.integers(0, CLASSES, BATCH)]
        losses = []
        for _ in range(steps):
            call = self.training.execute(
                inputs_data={"x": images},
                loss_labels_data={"label": labels},
                options="synchronous",
            )
            losses.append(float(call.result))
        self.training.synchronize_updates()
        return losses

    def parameters(self) -> dict[str, np.ndarray]:
        named = self.training.named_parameters()
        return {name: np.array(tensor.data) for name, tensor in named.items()}


def train(steps: str) -> None:
    print(Network("bnns").train(int(steps)))


def train_maximum() -> None:
    graph = tg.MLCGraph()
    x = tg.MLCTensor(shape=[2, 4, 6, 6])
    small = graph.node(small_layers.convolution(4, 4), source=x)
    result = graph.node(small_layers.halving("max"), source=small)
    small_layers.regression(graph, x, result).compile(device="bnns")


def padded_maximum() -> None:
    """Of numbers below 0, next to padding that BNNS documents as zeros."""
    descriptor = tg.MLCPoolingDescriptor(
        type="max",
        kernel_sizes=(3, 3),
        strides=(2, 2),
        padding_policy=tg.MLCPaddingPolicy.sized(y=1, x=1),
    )
    graph = tg.MLCGraph()
    x = tg.MLCTensor(shape=[1, 1, 5, 5])
    graph.node(tg.MLCPoolingLayer(descriptor=descriptor), source=x)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    inference.compile(device="bnns")
    data = -np.arange(1, 26, dtype=np.float32).reshape(1, 1, 5, 5)
    result = inference.execute(inputs_data={"x": data}, options="synchronous").result
    assert result.max() < 0


PROGRAMS = {f.__name__: f for f in (train, train_maximum, padded_maximum)}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](*sys.argv[2:])
    gc.collect()
