"""Convolution, pooling and batch norm as ops: what no layer asks for."""

import numpy as np
import pytest

from op_harness import check_gradients, forward, gradients

WINDOW = {
    "kernel": (3, 2),
    "stride": (2, 1),
    "dilation": (1, 2),
    "padding_before": (1, 0),
    "padding_after": (0, 2),
}
MAX, AVERAGE, L2 = range(3)


def rand(*shape):
    return np.random.default_rng(len(shape)).uniform(-2, 2, shape)


def test_uneven_padding():
    check_gradients(
        "convolution", {**WINDOW, "groups": 2}, [rand(2, 4, 6, 5), rand(6, 2, 3, 2)], [0, 1]
    )
    adjoint = {**WINDOW, "groups": 2, "result_shape": [2, 4, 6, 5]}
    check_gradients(
        "convolution_gradient_data", adjoint, [rand(2, 6, 3, 5), rand(6, 2, 3, 2)], [0, 1]
    )
    for kind in (MAX, AVERAGE, L2):
        attributes = {**WINDOW, "kind": kind, "with_index": kind == MAX}
        check_gradients("pooling", attributes, [rand(2, 3, 6, 5)], [0])
    check_gradients("batch_norm", {}, [rand(3, 2, 4), rand(2), rand(2)], [0, 1, 2], tolerance=2e-7)


def test_one_operand_of_a_convolution():
    arrays = [rand(1, 2, 4, 4), rand(3, 2, 2, 2)]
    adjoint = {"kernel": (2, 2), "result_shape": [1, 2, 4, 4]}
    for wanted in ([0], [1]):
        check_gradients("convolution", {"kernel": (2, 2)}, arrays, wanted)
        data = [rand(1, 3, 3, 3), arrays[1]]
        check_gradients("convolution_gradient_data", adjoint, data, wanted)


def test_a_maximum_without_index_finds_it_again():
    arrays, dy = [rand(1, 1, 6, 5)], [rand(1, 1, 3, 5)]
    with_index = {**WINDOW, "with_index": True}
    (expected,) = gradients("pooling", with_index, arrays, [*dy, None], [0])
    (got,) = gradients("pooling", WINDOW, arrays, dy, [0])
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(("kernel", "dtype"), [((15, 17), "uint8"), ((16, 16), "int32")])
def test_the_index_holds_every_place(kernel, dtype):
    x = np.zeros((1, 1, *kernel))
    x[0, 0, -1, -1] = 1
    _, index = forward("pooling", {"kernel": kernel, "with_index": True}, [x])
    assert index.dtype == dtype
    assert index.item() == kernel[0] * kernel[1] - 1


def test_batch_norm_gives_its_statistics():
    x = rand(4, 3, 5)
    _, mean, inverse, variance = forward("batch_norm", {"epsilon": 0.25}, [x, rand(3), rand(3)])
    np.testing.assert_allclose(mean, x.mean((0, 2)), rtol=1e-12)
    np.testing.assert_allclose(variance, x.var((0, 2)), rtol=1e-12)
    np.testing.assert_allclose(inverse, 1 / np.sqrt(x.var((0, 2)) + 0.25), rtol=1e-12)


def test_the_statistics_have_no_gradient():
    with pytest.raises(Exception, match="batch statistics have no gradient"):
        gradients(
            "batch_norm", {}, [rand(4, 3), rand(3), rand(3)], [None, rand(3), None, None], [0]
        )


def test_wrong_shapes():
    x, w = rand(1, 4, 5, 5), rand(6, 2, 2, 2)
    pair = {"kernel": (2, 2), "groups": 2}
    for op, attributes, arrays, text in [
        ("convolution", pair, [rand(1, 3, 5, 5), w], "source of 4 channels"),
        ("convolution", {**pair, "groups": 4}, [rand(1, 8, 5, 5), w], "divisible by 4 groups"),
        ("convolution", {**pair, "kernel": (2, 3)}, [x, w], r"weights of a kernel \(2, 3\)"),
        ("convolution", {**pair, "stride": (0, 1)}, [x, w], "strides of 1 or more"),
        ("convolution", pair, [x, w, x], "2 inputs but got 3"),
        (
            "convolution_gradient_data",
            {**pair, "result_shape": [1, 4, 6, 5]},
            [rand(1, 6, 4, 4), w],
            r"gradient \(1, 6, 5, 4\) but got \(1, 6, 4, 4\)",
        ),
        ("pooling", {"kernel": (6, 1)}, [x], "within the padded source"),
        ("pooling", {"kind": AVERAGE, "with_index": True}, [x], "max pooling for a window index"),
        (
            "pooling_gradient",
            {"kernel": (2, 2), "kind": AVERAGE, "source_shape": [1, 4, 5, 5]},
            [x],
            r"\(1, 4, 4, 4\) but got \(1, 4, 5, 5\)",
        ),
        ("batch_norm", {}, [x, rand(4), rand(5)], r"beta \(4,?\) but got \(5,?\)"),
        ("batch_norm", {}, [rand(4), rand(4), rand(4)], r"source \(N, C, …\)"),
    ]:
        with pytest.raises(Exception, match=rf"\[{op}\] expected .*{text}"):
            forward(op, attributes, arrays)
