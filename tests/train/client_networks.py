"""What the tests of client behaviours build their networks from."""

import numpy as np

import traingraph as tg

SYNCHRONOUS = tg.MLCExecutionOptions.SYNCHRONOUS


def descriptor(inputs: int, outputs: int, kernel: tuple = (1, 1)) -> tg.MLCConvolutionDescriptor:
    return tg.MLCConvolutionDescriptor(
        kernel_sizes=kernel,
        input_feature_channel_count=inputs,
        output_feature_channel_count=outputs,
    )


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def inference_of(graph: tg.MLCGraph, device: str = "cpu", **inputs: tg.MLCTensor):
    result = tg.MLCInferenceGraph(graph_objects=[graph])
    result.add_inputs(inputs)
    result.compile(options="none", device=device)
    return result


def training_of(
    graph: tg.MLCGraph,
    inputs: dict[str, tg.MLCTensor],
    labels: dict[str, tg.MLCTensor],
    loss: tg.MLCLossLayer,
    weights: dict[str, tg.MLCTensor] | None = None,
    optimizer: tg.MLCOptimizer | None = None,
    device: str = "cpu",
) -> tg.MLCTrainingGraph:
    result = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=loss,
        optimizer=optimizer or tg.MLCSGDOptimizer(learning_rate=0.01),
    )
    result.add_inputs(inputs, loss_labels=labels, loss_label_weights=weights)
    result.compile(options="none", device=device)
    return result


def sgd(rate: float = 0.01, **keywords: object) -> tg.MLCSGDOptimizer:
    return tg.MLCSGDOptimizer(learning_rate=rate, **keywords)
