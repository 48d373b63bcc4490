"""Queries, keys and values of one tensor, which one product of all three weights may project."""

import numpy as np
import pytest
from test_multihead_attention import D, M, Options

import traingraph as tg
from harness import empty, everywhere, tensor


@everywhere
@pytest.mark.parametrize("precision", ["float32", "tf32", "mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("masks", [(), ("key",), ("shared numbers",), ("key", "per head")])
@pytest.mark.parametrize("biases", [False, True])
def test_one_tensor_trains_as_three_equal_ones(biases, masks, precision, device):
    """Of one there may be one product of all three weights."""
    options = Options(masks, extents=(3, 20, 20), model=16, biases=biases)
    x = options.sources[0].astype(np.float32)

    def changes(count):
        tensors = [tensor(p, "float32") for p in options.parameters]
        inputs = {f"x{k}": empty(x.shape, "float32") for k in range(count)}
        sources = (list(inputs.values()) * 3)[:3]
        given = {f"m{k}": m.astype(np.float32) for k, m in enumerate(options.trained_masks)}
        inputs |= {name: empty(mask.shape, "float32") for name, mask in given.items()}
        graph = tg.MLCGraph()
        options.build(graph, [*sources, *(inputs[name] for name in given)], tensors)
        training = tg.MLCTrainingGraph(
            graph_objects=[graph],
            loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="sum"),
            optimizer=tg.MLCSGDOptimizer(learning_rate=0.125),
        )
        training.add_inputs(inputs, loss_labels={"y": empty(x.shape, "float32")})
        training.compile(device=device, precision=precision)
        data = given | {f"x{k}": x for k in range(count)}
        loss_labels = {"y": np.ones_like(x)}
        training.execute(inputs_data=data, loss_labels_data=loss_labels, options="synchronous")
        training.synchronize_updates()
        return [t.data - p.astype("float32")
                for t, p in zip(tensors, options.parameters, strict=True)]  # fmt: skip

    bounds = {"float32": 3e-6, "tf32": 2e-3, "mixed_float16": 4e-3, "mixed_bfloat16": 3e-2}
    of_three = changes(3)
    bound = bounds[precision] * max(np.abs(one).max() for one in of_three)
    for one, right in zip(changes(1), of_three, strict=True):
        np.testing.assert_allclose(one, right, rtol=0, atol=bound)


@pytest.mark.parametrize("how", ["self", "few rows", "other keys", "appended rows", "inference"])
@pytest.mark.parametrize("precision", ["float32", "mixed_bfloat16"])
def test_one_product_of_three_weights(precision, how):
    """Where a backend takes it, as one does that only plans."""
    x = tg.MLCTensor(shape=[2, 4 if how == "few rows" else 16, 16])
    descriptor = D(
        model_dimension=16, key_dimension=16, value_dimension=16, head_count=2, dropout=0.0,
        has_biases=True, has_attention_biases=False, adds_zero_attention=how == "appended rows",
    )  # fmt: skip
    graph = tg.MLCGraph()
    key = graph.node(tg.MLCActivationLayer.relu(), source=x) if how == "other keys" else x
    result = graph.node(M(descriptor=descriptor), sources=[x, key, x])
    if how == "inference":
        planned = tg.MLCInferenceGraph(graph_objects=[graph])
        planned.add_inputs({"x": x})
    else:
        planned = tg.MLCTrainingGraph(
            graph_objects=[graph],
            loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
            optimizer=tg.MLCSGDOptimizer(learning_rate=0.1),
        )
        labels = tg.MLCTensor(shape=list(result.descriptor.shape))
        planned.add_inputs({"x": x}, loss_labels={"y": labels})
    planned.compile(device="null", precision=precision)
    text = planned.compiled_description()
    assert ("joined=yes" in text) == (how == "self")
    projections = 1 if how == "self" else 3
    gradients = 0 if how == "inference" else projections + 2
    products = [line for line in text.splitlines() if "= matmul(" in line]
    assert len(products) == projections + 1 + gradients
    assert all("add(i0, i1)" in line for line in products[: projections + 1])  # the biases
