"""Layers with parameters of their own, and a graph that trains over them."""

import traingraph as tg


def descriptor(inputs, outputs, size, **keywords):
    return tg.MLCConvolutionDescriptor(
        kernel_sizes=(size, size),
        input_feature_channel_count=inputs,
        output_feature_channel_count=outputs,
        **keywords,
    )


def dense(inputs, outputs):
    return tg.MLCFullyConnectedLayer(descriptor=descriptor(inputs, outputs, 1))


def convolution(inputs, outputs, size=3, **keywords):
    return tg.MLCConvolutionLayer(descriptor=descriptor(inputs, outputs, size, **keywords))


def halving(kind):
    """Windows of 2 by 2 beside each other."""
    return tg.MLCPoolingLayer(
        descriptor=tg.MLCPoolingDescriptor(type=kind, kernel_sizes=(2, 2), strides=(2, 2))
    )


def regression(graph, x, result, rate=0.1):
    """Squared errors of the result, by SGD; its data are "x" and "y"."""
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=rate),
    )
    y = tg.MLCTensor(shape=list(result.descriptor.shape))
    training.add_inputs({"x": x}, loss_labels={"y": y})
    return training
