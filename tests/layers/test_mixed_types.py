"""Parameters of another type than the source, or of 16 bits: a typed error that names them."""

import pytest
from test_integer_operands import parameter as ones

import traingraph as tg

TYPES = ["float64", "float16", "int32"]


def with_statistics(layer, odd):
    parameters = {role: ones(4) for role in ("mean", "variance", "beta", "gamma")}
    return layer(feature_channel_count=4, **parameters | odd)


def batch_norm(**odd):
    return with_statistics(tg.MLCBatchNormalizationLayer, odd)


def instance_norm(**odd):
    return with_statistics(tg.MLCInstanceNormalizationLayer, odd)


def group_norm(**odd):
    parameters = {role: ones(4) for role in ("beta", "gamma")}
    return tg.MLCGroupNormalizationLayer(feature_channel_count=4, group_count=2, **parameters | odd)


def lstm(**odd):
    parameters = {
        "input_weights": [ones(4, 3) for _ in range(4)],
        "hidden_weights": [ones(4, 4) for _ in range(4)],
        "biases": [ones(4) for _ in range(4)],
        "peephole_weights": [ones(4) for _ in range(3)],
    }
    for role, tensor in odd.items():
        parameters[role][2] = tensor
    descriptor = tg.MLCLSTMDescriptor(input_size=3, hidden_size=4, layer_count=1)
    return tg.MLCLSTMLayer(descriptor=descriptor, **parameters)


def attention(attention_biases):
    descriptor = tg.MLCMultiheadAttentionDescriptor(
        model_dimension=4, head_count=2, has_biases=False, has_attention_biases=True
    )
    return tg.MLCMultiheadAttentionLayer(
        descriptor=descriptor,
        weights=[ones(4, 4) for _ in range(4)],
        attention_biases=[ones(1, 4), attention_biases],
    )


CASES = [
    *[(make, {role: (4,)}, [2, 4, 3, 3], f"{make.__name__}.{role}")
      for make in (batch_norm, instance_norm) for role in ("mean", "variance", "beta", "gamma")],
    *[(group_norm, {role: (4,)}, [2, 4, 3, 3], role) for role in ("beta", "gamma")],
    (lstm, {"input_weights": (4, 3)}, [2, 5, 3], "input_weights.2"),
    (lstm, {"hidden_weights": (4, 4)}, [2, 5, 3], "hidden_weights.2"),
    (lstm, {"biases": (4,)}, [2, 5, 3], "biases.2"),
    (lstm, {"peephole_weights": (4,)}, [2, 5, 3], "peephole_weights.2"),
    (attention, {"attention_biases": (1, 4)}, [2, 5, 4], "attention_biases.value"),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [*TYPES, "float32"])
@pytest.mark.parametrize(("make", "odd", "shape", "role"), CASES, ids=[case[3] for case in CASES])
def test_a_parameter(make, odd, shape, role, dtype):
    layer = make(**{name: ones(*extents, dtype=dtype) for name, extents in odd.items()})
    x = tg.MLCTensor(shape=shape)
    sources = [x] * (3 if make is attention else 1)
    graph = tg.MLCGraph()
    if dtype == "float32":
        graph.node(layer, sources=sources)
        return
    place = rf"for tensor '[^']*{role.rpartition('norm.')[2]}', {dtype} at layer"
    with pytest.raises(tg.DataTypeError, match=place):
        graph.node(layer, sources=sources)
    assert not graph.layers


def test_statistics_beside_a_source_of_float64():
    with pytest.raises(
        tg.DataTypeError, match=r"float64 and, for tensor .*mean', float32 at layer"
    ):
        tg.MLCGraph().node(batch_norm(), source=tg.MLCTensor(shape=[2, 4], data_type="float64"))


@pytest.mark.parametrize(("inputs", "outputs"), [(0, 2), (2, 0), (-3, -2)])
def test_channels_of_a_fully_connected_layer(inputs, outputs):
    descriptor = tg.MLCConvolutionDescriptor(
        kernel_sizes=1, input_feature_channel_count=inputs, output_feature_channel_count=outputs
    )
    for weights in ({}, {"weights": ones(6)}):
        with pytest.raises(
            tg.InvalidArgument, match=f"1 or more channels but got {inputs} → {outputs}"
        ):
            tg.MLCFullyConnectedLayer(descriptor=descriptor, **weights)


def test_options_of_attention_without_sizes_of_keys():
    descriptor = tg.MLCMultiheadAttentionDescriptor(
        model_dimension=8, head_count=2, dropout=0.25, has_biases=False, adds_zero_attention=True
    )
    assert (descriptor.key_dimension, descriptor.value_dimension) == (8, 8)
    assert (descriptor.dropout, descriptor.has_biases) == (0.25, False)
    assert (descriptor.adds_zero_attention, descriptor.has_attention_biases) == (True, False)
