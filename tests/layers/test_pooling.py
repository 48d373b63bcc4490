"""Pooling: windows and paddings of each kind, ties, NaN, and wrong descriptors."""

import numpy as np
import pytest

import traingraph as tg
from harness import Case, Inference, checks, everywhere, node, train
from windows import policy, windows


def pooling(
    name,
    kind,
    source,
    kernel,
    strides=(1, 1),
    dilations=(1, 1),
    padding="same",
    counts=False,
    **more,
):
    """A case over a source (N, C, H, W)."""
    descriptor = tg.MLCPoolingDescriptor(
        type=kind,
        kernel_sizes=kernel,
        strides=strides,
        dilation_rates=dilations,
        padding_policy=policy(padding),
        count_includes_padding=counts,
    )

    def expected(x):
        shape = kernel, strides, dilations, padding
        if kind == "max":
            return windows(x, *shape, fill=-np.inf).max((4, 5))
        if kind == "l2_norm":
            return np.sqrt((windows(x, *shape) ** 2).sum((4, 5)))
        real = windows(np.ones_like(x), *shape).sum((4, 5))
        return windows(x, *shape).sum((4, 5)) / (kernel[0] * kernel[1] if counts else real)

    batch = len(source) if isinstance(source, np.ndarray) else source[0]
    return Case(
        name,
        lambda: tg.MLCPoolingLayer(descriptor=descriptor),
        expected,
        [source],
        rows=batch > 1,
        **more,
    )


def each_kind(name, *arguments, **fields):
    kinds = [("max", False), ("average", False), ("average", True), ("l2_norm", False)]
    return [
        pooling(
            f"{kind}{' counting padding' * counts}, {name}",
            kind,
            *arguments,
            counts=counts,
            **fields,
        )
        for kind, counts in kinds
    ]


CASES = [
    *each_kind("one pixel", (1, 1, 1, 1), (1, 1)),
    *each_kind("same", (2, 3, 5, 4), (3, 3)),
    *each_kind("halves", (2, 2, 6, 4), (2, 2), (2, 2)),
    *each_kind("same, odd remainder", (2, 2, 7, 5), (2, 3), (2, 2)),
    *each_kind("same, gaps", (2, 1, 8, 7), (2, 1), (3, 3)),
    *each_kind("same, dilation", (2, 2, 6, 7), (2, 3), (1, 2), (3, 2)),
    *each_kind("valid", (2, 2, 6, 5), (3, 2), (2, 2), padding="valid"),
    *each_kind("valid, the whole source", (3, 2, 4, 3), (4, 3), padding="valid"),
    *each_kind("valid, dilation", (2, 2, 7, 6), (3, 2), (2, 1), (2, 3), "valid"),
    *each_kind("sized", (2, 2, 7, 7), (3, 3), (2, 2), padding=(1, 1)),
    *each_kind("sized, unequal", (2, 2, 5, 4), (2, 3), (1, 2), padding=(0, 2)),
    *each_kind("sized, larger than the source", (2, 2, 4, 4), (2, 2), padding=(1, 1)),
    *each_kind("sized, dilation", (2, 2, 6, 5), (2, 2), (2, 1), (2, 2), padding=(1, 1)),
    *each_kind("blocks of channels", (2, 17, 4, 4), (3, 3), (2, 2)),
    *each_kind("255 elements", (1, 1, 16, 18), (15, 17), (1, 1), padding="valid"),
    *each_kind("256 elements", (1, 1, 17, 17), (16, 16), (1, 1), padding="valid"),
]

test_forward, test_gradient, test_backends, test_same_bits, test_batch = checks(CASES)


def image(rows):
    return np.array([[rows]], np.float64)


@everywhere
def test_the_first_largest_element_takes_the_gradient(device):
    x = image([[1, 3, 3], [3, 0, 3], [0, 0, 0]])
    case = pooling("ties", "max", x, (2, 2), padding="valid")
    # The slope of the squared error is 2 everywhere.
    _, (gradient,) = train(case, case.expected(x) - 1, device, "float32")
    np.testing.assert_array_equal(gradient, image([[0, 4, 0], [2, 0, 2], [0, 0, 0]]))


@everywhere
def test_padding_is_no_element_of_a_maximum(device):
    x = image([[-3, -2], [-5, -7]])
    result = Inference(pooling("negative", "max", x, (3, 3)), device, "float32")(x)
    np.testing.assert_array_equal(result, np.full((1, 1, 2, 2), -2))


@everywhere
def test_a_nan_is_the_maximum(device):
    x = image([[1, np.nan, 2], [3, 4, 5], [6, 7, 8]])
    result = Inference(pooling("NaN", "max", x, (2, 2), padding="valid"), device, "float32")(x)
    np.testing.assert_array_equal(result, image([[np.nan, np.nan], [7, 8]]))


@everywhere
def test_the_norm_of_zeros_has_no_gradient(device):
    x = image([[0, 0, 3], [0, 0, 4]])
    case = pooling("zeros", "l2_norm", x, (2, 2), padding="valid")
    _, (gradient,) = train(case, case.expected(x) - 1, device, "float32")
    # 2 x / y with y = 5 in the second window.
    np.testing.assert_allclose(gradient, image([[0, 0, 1.2], [0, 0, 1.6]]), rtol=1e-6)


def test_the_norm_is_no_mean():
    x = image([[1, 2], [3, 4]])
    case = pooling("sum of squares", "l2_norm", x, (2, 2), padding="valid")
    np.testing.assert_allclose(Inference(case)(x).item(), 5.477226, rtol=1e-6)


def layer(**fields):
    fields = {"type": "max", "kernel_sizes": (3, 3), "strides": (1, 1), **fields}
    fields.setdefault("padding_policy", "valid")
    return tg.MLCPoolingLayer(descriptor=tg.MLCPoolingDescriptor(**fields))


def test_wrong_descriptors():
    for fields, text in [
        ({"strides": (1, 0)}, "strides of 1 or more but got 1x0"),
        ({"dilation_rates": (0, 1)}, "dilation rates of 1 or more but got 0x1"),
        ({"kernel_sizes": (3, -1)}, "kernel sizes of 1 or more but got 3x-1"),
    ]:
        with pytest.raises(ValueError, match=r"\[Pooling\] expected " + text):
            layer(**fields)


def test_wrong_shapes():
    with pytest.raises(ValueError, match=r"source \(N, C, H, W\) but got \(2, 3, 5\) at layer"):
        node(layer(), (2, 3, 5))
    with pytest.raises(
        ValueError, match=r"within the padded source \(5, 2\) but got one of \(3, 3\) at layer"
    ):
        node(layer(), (2, 3, 5, 2))
    with pytest.raises(ValueError, match="expected 1 source but got 2"):
        node(layer(), (2, 3, 5, 5), (2, 3, 5, 5))
    for fields, place in [
        ({"kernel_sizes": (2, 2), "padding_policy": policy((0, 2))}, "position 0 of the width"),
        ({"dilation_rates": (4, 1), "padding_policy": "same"}, "position 0 of the height"),
    ]:
        with pytest.raises(ValueError, match=rf"cover an element .* {place} at layer"):
            node(layer(**{"kernel_sizes": (2, 3), **fields}), (1, 1, 2, 5))


@pytest.mark.parametrize("given", [{}, {"strides": None}])
def test_strides_default_to_the_kernel(given):
    descriptor = tg.MLCPoolingDescriptor(type="max", kernel_sizes=(2, 3), **given)
    assert descriptor.strides == (2, 3)
    assert (descriptor.stride_in_y, descriptor.stride_in_x) == (2, 3)
    result = node(tg.MLCPoolingLayer(descriptor=descriptor), (1, 1, 4, 9))
    assert list(result.descriptor.shape) == [1, 1, 2, 3]
    with pytest.raises(tg.InvalidArgument, match="strides of 1 or more but got 0x1"):
        tg.MLCPoolingDescriptor(type="max", kernel_sizes=(2, 3), strides=(0, 1))
