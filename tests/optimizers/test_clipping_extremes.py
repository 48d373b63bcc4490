"""Clipping by norms that are 0, or whose squares a type cannot hold."""

import numpy as np
import pytest

import traingraph as tg
from op_harness import forward

KINDS = ["by_norm", "by_global_norm"]
DEVICES = pytest.mark.parametrize("device", ["reference", "cpu"])


@DEVICES
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("factor", "limit", "step"),
    [
        (0.0, 0.0, 0.0),
        (1.0, 0.0, 0.0),
        (0.0, 1.0, 0.0),
        (1e25, 1.0, 1.0),
        (1e37, 1.0, 1.0),
        (1e-25, 1e-27, 1e-27),
        (1e-25, 1.0, 1e-25),
        (2.0, float("inf"), 2.0),
    ],
)
def test_a_step_of_a_clipped_gradient(device, kind, factor, limit, step):
    x, y, graph = tg.MLCTensor(shape=[1, 1]), tg.MLCTensor(shape=[1, 1]), tg.MLCGraph()
    layer = tg.MLCFullyConnectedLayer(
        weights=tg.MLCTensor(shape=[1, 1], fill_with_data=0.0),
        descriptor=tg.MLCConvolutionDescriptor(
            kernel_sizes=(1, 1), input_feature_channel_count=1, output_feature_channel_count=1
        ),
    )
    graph.node(layer, source=x)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_absolute_error("sum"),
        optimizer=tg.MLCSGDOptimizer(
            learning_rate=1.0,
            applies_gradient_clipping=True,
            gradient_clipping_type=kind,
            maximum_clipping_norm=limit,
        ),
    )
    training.add_inputs({"x": x}, loss_labels={"y": y})
    training.compile(device=device)
    training.execute(
        inputs_data={"x": np.full((1, 1), factor, np.float32)},
        loss_labels_data={"y": np.full((1, 1), -1, np.float32)},  # the gradient is x
        options="synchronous",
    )
    training.synchronize_updates()
    np.testing.assert_allclose(layer.weights.data.item(), -step, rtol=1e-5)


@DEVICES
@pytest.mark.parametrize("scale", [1.0, 1e25, 1e-25])
@pytest.mark.parametrize("shape", [(5,), (3, 4), (40, 1100), (7, 70000)])
def test_norms_of_any_size(device, scale, shape):
    x = (np.random.default_rng(3).normal(size=shape) * scale).astype(np.float32)
    (got,) = forward("reduce", {"kind": 1, "axes": list(range(len(shape)))}, [x], device=device)
    np.testing.assert_allclose(got.item(), np.linalg.norm(x.astype(np.float64)), rtol=2e-6)


@DEVICES
@pytest.mark.parametrize("axes", [[0], [1]])
def test_sums_whose_parts_are_too_large(device, axes):
    x = np.array([[3e38, 3e38, -3e38, -3e38], [3e38, 5e37, -3e38, 0.0]], np.float32)
    x = np.vstack([x, -x, x, -x])
    (got,) = forward("reduce", {"kind": 0, "axes": axes}, [x], device=device)
    np.testing.assert_allclose(got, x.astype(np.float64).sum(axes[0], keepdims=True), rtol=1e-6)
