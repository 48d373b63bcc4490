"""Convolutions, grouped and depthwise too: windows, paddings, own parameters and refusals."""

import numpy as np
import pytest

import traingraph as tg
from harness import Case, Inference, checks, node, tensor, train
from windows import policy, windows


def convolution(
    name,
    source,
    outputs,
    kernel,
    groups=1,
    strides=(1, 1),
    dilations=(1, 1),
    padding="same",
    kind="standard",
    biases=True,
    weights=None,
    **more,
):
    """A case over a source (N, C, H, W)."""
    inputs = source[1]
    if kind == "depthwise":
        groups = inputs
    descriptor = tg.MLCConvolutionDescriptor(
        type=kind,
        kernel_sizes=kernel,
        input_feature_channel_count=inputs,
        output_feature_channel_count=outputs,
        group_count=groups,
        strides=strides,
        dilation_rates=dilations,
        padding_policy=policy(padding),
    )

    def layer(w, b=None):
        return tg.MLCConvolutionLayer(weights=w, biases=b, descriptor=descriptor)

    def expected(x, w, b=None):
        found = windows(x, kernel, strides, dilations, padding)
        by_group = found.reshape(len(x), groups, inputs // groups, *found.shape[2:])
        w = w.reshape(groups, outputs // groups, inputs // groups, *kernel)
        y = np.einsum("ngcpqij,gocij->ngopq", by_group, w).reshape(
            len(x), outputs, *found.shape[2:4]
        )
        return y if b is None else y + b.reshape(1, outputs, 1, 1)

    parameters = [weights or (1, outputs * inputs // groups, *kernel)]
    if biases:
        parameters.append((1, outputs, 1, 1))
    return Case(name, layer, expected, [source], parameters, rows=source[0] > 1, **more)


CASES = [
    convolution("1x1", (2, 3, 4, 5), 4, (1, 1)),
    convolution("one pixel", (1, 1, 1, 1), 1, (1, 1)),
    convolution("one pixel, 3x3", (2, 2, 1, 1), 3, (3, 3)),
    convolution("same", (2, 3, 5, 4), 4, (3, 3)),
    convolution("same, even kernel", (2, 2, 5, 6), 3, (2, 4)),
    convolution("same, stride", (2, 2, 7, 6), 3, (3, 3), strides=(2, 2)),
    convolution("same, one row more below", (2, 1, 6, 8), 2, (3, 2), strides=(2, 3)),
    convolution("same, stride beyond the kernel", (2, 2, 8, 7), 2, (1, 2), strides=(3, 3)),
    convolution("same, dilation", (2, 2, 6, 5), 2, (3, 2), dilations=(2, 3)),
    convolution("valid", (2, 3, 6, 5), 2, (3, 3), padding="valid"),
    convolution("valid, the whole source", (3, 3, 4, 3), 5, (4, 3), padding="valid"),
    convolution("valid, rows left over", (2, 2, 8, 9), 2, (3, 3), strides=(3, 4), padding="valid"),
    convolution("valid, dilation", (2, 2, 7, 8), 2, (3, 2), dilations=(2, 4), padding="valid"),
    convolution("sized", (2, 2, 5, 6), 3, (3, 3), padding=(1, 1)),
    convolution("sized, unequal", (2, 2, 5, 4), 3, (2, 3), padding=(0, 2)),
    convolution("sized beyond the kernel", (2, 1, 3, 2), 2, (2, 1), padding=(3, 2)),
    convolution(
        "sized, stride and dilation",
        (2, 2, 6, 7),
        2,
        (3, 2),
        strides=(2, 3),
        dilations=(2, 2),
        padding=(2, 1),
    ),
    convolution("groups", (2, 4, 4, 3), 6, (3, 3), groups=2),
    convolution("groups of one", (2, 3, 5, 4), 3, (2, 2), groups=3, strides=(2, 1)),
    convolution("depthwise", (2, 3, 5, 4), 3, (3, 3), kind="depthwise"),
    convolution("depthwise, twice", (2, 3, 5, 5), 6, (3, 3), kind="depthwise", strides=(2, 2)),
    convolution("without biases", (2, 2, 4, 4), 3, (3, 3), biases=False),
    convolution("weights as (O, C, kh, kw)", (2, 2, 4, 3), 3, (3, 2), weights=(3, 2, 3, 2)),
    convolution("flat weights", (2, 2, 4, 3), 3, (3, 2), weights=(36,)),
    convolution("whole blocks of channels", (2, 16, 2, 3), 16, (2, 1)),
    convolution("part of a block of channels", (2, 17, 3, 2), 9, (1, 2)),
]

test_forward, test_gradient, test_backends, test_same_bits, test_batch = checks(CASES)

# Too many parameters for finite differences; other backends are held against the reference.
LARGE = [
    convolution("many channels", (3, 32, 12, 11), 32, (3, 3)),
    convolution("many channels, stride", (2, 33, 9, 10), 47, (3, 3), strides=(2, 2)),
    convolution("many channels, 1x1", (3, 48, 7, 7), 64, (1, 1), biases=False),
    convolution("many groups", (2, 32, 8, 8), 64, (3, 3), groups=4, dilations=(2, 2)),
    convolution("many channels, depthwise", (2, 40, 9, 9), 40, (5, 5), kind="depthwise"),
    convolution("channels of colour", (3, 3, 33, 31), 16, (7, 7), strides=(2, 2), padding=(3, 3)),
    convolution("kernel of a row", (2, 8, 6, 30), 24, (1, 9), padding="valid"),
    convolution("many channels, 5x5", (2, 19, 7, 9), 13, (5, 5)),
    convolution("many channels, sized beyond the kernel", (2, 9, 5, 6), 10, (3, 3), padding=(3, 4)),
    convolution("more channels than fit shared memory", (2, 150, 12, 11), 6, (3, 3)),
    convolution("long rows", (1, 8, 3, 150), 9, (3, 3), padding="valid"),
]

test_large_backends, test_large_same_bits, test_large_batch = checks(LARGE)[2:]


def test_the_kernel_is_not_flipped():
    case = convolution("corner", (1, 1, 2, 2), 1, (2, 2), padding="valid", biases=False)
    case.parameters = [np.array([[[[1.0, 10.0], [100.0, 1000.0]]]])]
    assert Inference(case)(np.array([[[[1.0, 2.0], [3.0, 4.0]]]])).item() == 4321


def test_own_parameters_have_real_fans():
    descriptor = tg.MLCConvolutionDescriptor(
        kernel_sizes=(3, 5),
        input_feature_channel_count=32,
        output_feature_channel_count=64,
        group_count=2,
    )
    own = tg.MLCConvolutionLayer(descriptor=descriptor)
    weights = own.weights.data
    assert weights.shape == (1, 64 * 16, 3, 5)
    limit = np.sqrt(6 / (16 * 15 + 32 * 15))
    assert 0.99 * limit < np.abs(weights).max() <= limit
    assert abs(weights.mean()) < 0.02 * limit  # four standard errors
    assert own.biases.data.shape == (1, 64, 1, 1)
    assert not own.biases.data.any()
    assert tg.MLCConvolutionLayer(descriptor=descriptor, with_biases=False).biases is None


def test_columns_that_no_window_meets_have_no_gradient():
    case = convolution("left over", (1, 1, 1, 5), 1, (1, 2), strides=(1, 2), padding="valid")
    _, gradients = train(case, np.full((1, 1, 1, 2), 100.0))
    assert np.all(gradients[0][..., :4])
    assert gradients[0][..., 4] == 0


def layer(**fields):
    fields = {
        "kernel_sizes": (3, 3),
        "input_feature_channel_count": 4,
        "output_feature_channel_count": 6,
        "padding_policy": "valid",
        **fields,
    }
    return tg.MLCConvolutionLayer(descriptor=tg.MLCConvolutionDescriptor(**fields))


def test_wrong_descriptors():
    for fields, text in [
        ({"strides": (0, 1)}, "strides of 1 or more but got 0x1"),
        ({"dilation_rates": (1, -1)}, "dilation rates of 1 or more but got 1x-1"),
        ({"kernel_sizes": (0, 3)}, "kernel sizes of 1 or more but got 0x3"),
        ({"group_count": 0}, "4 → 6 channels in 0 groups"),
        ({"group_count": 3}, "channels divisible by 3 groups but got 4 → 6"),
        ({"group_count": 4}, "channels divisible by 4 groups but got 4 → 6"),
        ({"type": "depthwise"}, "channels divisible by 4 groups but got 4 → 6"),
        ({"type": "depthwise", "group_count": 2}, "as many groups as source channels, 4,"),
        ({"output_feature_channel_count": 0}, "1 or more channels"),
    ]:
        with pytest.raises(ValueError, match=r"\[Convolution\] expected .*" + text):
            layer(**fields)


def test_wrong_shapes():
    with pytest.raises(ValueError, match=r"source \(N, 4, H, W\) but got \(2, 3, 5, 5\) at layer"):
        node(layer(), (2, 3, 5, 5))
    with pytest.raises(ValueError, match=r"source \(N, 4, H, W\) but got \(2, 4, 5\) at layer"):
        node(layer(), (2, 4, 5))
    with pytest.raises(
        ValueError, match=r"within the padded source \(5, 2\) but got one of \(3, 3\) at layer"
    ):
        node(layer(), (2, 4, 5, 2))
    with pytest.raises(
        ValueError, match=r"within the padded source \(4, 7\) but got one of \(5, 3\) at layer"
    ):
        node(layer(dilation_rates=(2, 1), padding_policy=policy((1, 1))), (2, 4, 2, 5))
    with pytest.raises(ValueError, match="expected 1 source but got 2"):
        node(layer(), (2, 4, 5, 5), (2, 4, 5, 5))
    case = convolution("wrong", (1, 4, 5, 5), 6, (3, 3))
    with pytest.raises(
        ValueError, match=r"216 elements, \(6, 4, 3, 3\), but got \(1, 12, 3, 3\) at layer"
    ):
        node(case.layer(tensor(np.zeros((1, 12, 3, 3)), "float32")), (1, 4, 5, 5))
    weights = tensor(np.zeros((1, 24, 3, 3)), "float32")
    with pytest.raises(
        ValueError, match=r"6 elements, \(1, 6, 1, 1\), but got \(1, 5, 1, 1\) at layer"
    ):
        node(case.layer(weights, tensor(np.zeros((1, 5, 1, 1)), "float32")), (1, 4, 5, 5))
