"""Trains a network for twenty steps and prints a digest of its losses and parameters.

usage: python equal_bits.py NETWORK DEVICE
"""

import hashlib
import sys

import numpy as np

import traingraph as tg

BATCH, SIDE, CLASSES = 12, 12, 10


def fully_connected(inputs: int, outputs: int) -> tg.MLCLayer:
    return tg.MLCFullyConnectedLayer(
        descriptor=tg.MLCConvolutionDescriptor(
            kernel_sizes=(1, 1),
            input_feature_channel_count=inputs,
            output_feature_channel_count=outputs,
        )
    )


def convolution(inputs: int, outputs: int, size: int) -> tg.MLCLayer:
    return tg.MLCConvolutionLayer(
        descriptor=tg.MLCConvolutionDescriptor(
            kernel_sizes=(size, size),
            input_feature_channel_count=inputs,
            output_feature_channel_count=outputs,
        )
    )


def pooling() -> tg.MLCLayer:
    return tg.MLCPoolingLayer(
        descriptor=tg.MLCPoolingDescriptor(
            type="max", kernel_sizes=(2, 2), strides=(2, 2), padding_policy="valid"
        )
    )


def lenet() -> list[tg.MLCLayer]:
    return [
        convolution(1, 6, 5),
        tg.MLCActivationLayer.relu(),
        pooling(),
        convolution(6, 16, 3),
        tg.MLCBatchNormalizationLayer(feature_channel_count=16),
        tg.MLCActivationLayer.tanh(),
        pooling(),
        tg.MLCReshapeLayer(shape=[BATCH, 16 * (SIDE // 4) ** 2]),
        fully_connected(16 * (SIDE // 4) ** 2, 84),
        tg.MLCActivationLayer.relu(),
        tg.MLCDropoutLayer(rate=0.25, seed=3),
        fully_connected(84, CLASSES),
    ]


def mlp() -> list[tg.MLCLayer]:
    return [
        tg.MLCReshapeLayer(shape=[BATCH, SIDE * SIDE]),
        fully_connected(SIDE * SIDE, 64),
        tg.MLCActivationLayer.gelu(),
        fully_connected(64, 64),
        tg.MLCActivationLayer.relu(),
        fully_connected(64, CLASSES),
    ]


def main(network: str, device: str) -> None:
    tg.MLCPlatform.set_rng_seed_to(11)
    layers = {"lenet": lenet, "mlp": mlp}[network]()
    x = tg.MLCTensor(shape=[BATCH, 1, SIDE, SIDE])
    labels = tg.MLCTensor(shape=[BATCH], data_type="int64")
    graph = tg.MLCGraph()
    tg.sequential(graph, x, layers)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.softmax_cross_entropy(
            reduction_type="mean", class_count=CLASSES
        ),
        optimizer=tg.MLCAdamOptimizer(learning_rate=0.01),
    )
    training.add_inputs({"x": x}, loss_labels={"labels": labels})
    training.compile(device=device)
    random = np.random.default_rng(1)
    digest = hashlib.sha256()
    losses = []
    for _ in range(20):
        losses.append(
            training.execute(
                inputs_data={"x": random.normal(size=(BATCH, 1, SIDE, SIDE)).astype(np.float32)},
                loss_labels_data={"labels": random.integers(0, CLASSES, BATCH)},
                options="synchronous",
            ).result
        )
        digest.update(losses[-1].tobytes())
    training.synchronize_updates()
    for tensor in training.named_parameters().values():
        digest.update(np.array(tensor.data).tobytes())
    assert np.isfinite(losses).all()
    assert len(set(losses)) > 15
    print(digest.hexdigest())


if __name__ == "__main__":
    main(*sys.argv[1:])
