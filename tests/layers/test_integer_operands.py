"""Integers where a layer computes with floating-point numbers: a typed error, never their bits."""

import numpy as np
import pytest

import traingraph as tg

TYPES = ["int32", "int64", "uint8", "bool"]


def parameter(*shape, dtype="float32"):
    return tg.MLCTensor(data=np.ones(shape, dtype))


def channels(**more):
    return tg.MLCConvolutionDescriptor(
        kernel_sizes=1, input_feature_channel_count=3, output_feature_channel_count=3, **more
    )


def dense(weights=None, biases=None):
    return tg.MLCFullyConnectedLayer(
        weights=weights or parameter(3, 3), biases=biases, descriptor=channels()
    )


def convolution(weights=None, biases=None, **more):
    return tg.MLCConvolutionLayer(
        weights=weights or parameter(3, 3, 1, 1), biases=biases, descriptor=channels(**more)
    )


def transposed(weights=None, biases=None):
    return convolution(weights, biases, type="transposed")


def batch_norm(gamma=None, mean=None):
    return tg.MLCBatchNormalizationLayer(
        feature_channel_count=3,
        mean=mean or parameter(3),
        variance=parameter(3),
        gamma=gamma or parameter(3),
        beta=parameter(3),
    )


def attention(*weights):
    descriptor = tg.MLCMultiheadAttentionDescriptor(model_dimension=3, head_count=1)
    return tg.MLCMultiheadAttentionLayer(descriptor=descriptor, weights=list(weights))


def max_pooling():
    return tg.MLCPoolingLayer(descriptor=tg.MLCPoolingDescriptor(type="max", kernel_sizes=1))


def compiled(layer, shape, dtype="float32", sources=1):
    graph = tg.MLCGraph()
    source = tg.MLCTensor(shape=shape, data_type=dtype)
    graph.node(layer, sources=[source] * sources)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": source})
    inference.compile(device="cpu")


FLAT, IMAGE = [2, 3], [2, 3, 4, 4]
SOURCES = [(dense, FLAT), (convolution, IMAGE), (transposed, IMAGE), (batch_norm, IMAGE),
           (max_pooling, IMAGE)]  # fmt: skip


@pytest.mark.parametrize("dtype", [*TYPES, None])
@pytest.mark.parametrize(("make", "shape"), SOURCES)
def test_sources(make, shape, dtype):
    if dtype is None:
        compiled(make(), shape)
        return
    with pytest.raises(tg.DataTypeError, match=f"but got {dtype} at layer"):
        compiled(make(), shape, dtype)


PARAMETERS = [
    ("weights", lambda t: dense(parameter(3, 3, dtype=t)), FLAT, 1),
    ("biases", lambda t: dense(biases=parameter(3, dtype=t)), FLAT, 1),
    ("weights", lambda t: convolution(parameter(3, 3, 1, 1, dtype=t)), IMAGE, 1),
    ("biases", lambda t: convolution(biases=parameter(3, dtype=t)), IMAGE, 1),
    ("weights", lambda t: transposed(parameter(3, 3, 1, 1, dtype=t)), IMAGE, 1),
    ("gamma", lambda t: batch_norm(parameter(3, dtype=t)), IMAGE, 1),
    ("mean", lambda t: batch_norm(mean=parameter(3, dtype=t)), IMAGE, 1),
    ("weights", lambda t: attention(*[parameter(3, 3, dtype=t)] * 4), [2, 5, 3], 3),
]


@pytest.mark.parametrize("dtype", [*TYPES, "float32"])
@pytest.mark.parametrize(("make", "shape", "sources"), [case[1:] for case in PARAMETERS],
                         ids=[f"{k} {case[0]}" for k, case in enumerate(PARAMETERS)])  # fmt: skip
def test_parameters(make, shape, sources, dtype):
    if dtype == "float32":
        compiled(make(dtype), shape, sources=sources)
        return
    with pytest.raises(tg.DataTypeError, match=f"{dtype} at layer"):
        compiled(make(dtype), shape, sources=sources)
