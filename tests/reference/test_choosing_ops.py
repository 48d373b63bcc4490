"""Ops that compare, and numbers that are known when a program is made."""

import numpy as np
import pytest

from harness import everywhere
from op_harness import check_gradients, forward, testing

TYPES = ["float32", "float64", "int8", "uint8", "int32", "int64"]
COMPARISONS = [np.equal, np.not_equal, np.less, np.greater, np.less_equal, np.greater_equal]
LOGICAL = [np.logical_and, np.logical_or, np.logical_not]
LOGICAL += [lambda x, y: ~(x & y), lambda x, y: ~(x | y), np.logical_xor]


def few(shape, dtype="float64", seed=1):
    return np.random.default_rng(seed).integers(0, 4, shape).astype(dtype)


@everywhere
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("number", range(6))
def test_compare(number, dtype, device):
    for shapes in [((3, 4), (3, 4)), ((2, 3, 4), (3, 1)), ((5, 1, 7), (1, 6, 1)), ((70,), ())]:
        x, y = (few(shape, dtype, k) for k, shape in enumerate(shapes))
        found = forward("compare", {"comparison": number}, [x, y], device)[0]
        assert found.dtype == np.bool_
        np.testing.assert_array_equal(found, COMPARISONS[number](x, y))


@everywhere
@pytest.mark.parametrize("number", range(6, 12))
def test_logical(number, device):
    x, y = few((3, 5), bool, 1), few((5,), bool, 2)
    operands = [x] if number == 8 else [x, y]
    found = forward("compare", {"comparison": number}, operands, device)[0]
    np.testing.assert_array_equal(found, LOGICAL[number - 6](*operands))


@everywhere
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64", "bool", "int32"])
def test_extremum(dtype, largest, device):
    for shape in [(5,), (3, 40), (40, 3), (2, 3, 4), (2, 17, 33), (1, 1)]:
        x = few(shape, dtype)
        for axis in range(len(shape)):
            attributes = {"axis": axis, "largest": largest}
            value, place = forward("extremum", attributes, [x], device)
            assert (value.dtype, place.dtype) == (x.dtype, np.int32)
            right = (np.argmax if largest else np.argmin)(x, axis)
            np.testing.assert_array_equal(place, np.expand_dims(right, axis))
            np.testing.assert_array_equal(value, np.take_along_axis(x, place.astype(int), axis))
            numbers = forward("extremum", attributes | {"numbers": True}, [x], device)[1]
            assert numbers.dtype == np.float32
            np.testing.assert_array_equal(numbers, place)


@pytest.mark.parametrize("largest", [True, False])
def test_gradient_of_extremum(largest):
    x = np.random.default_rng(2).permutation(60).reshape(3, 4, 5).astype(float)
    for axis in range(3):
        check_gradients("extremum", {"axis": axis, "largest": largest}, [x], [0])


@everywhere
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_one_hot(dtype, device):
    for shape in [(4, 1), (3, 1, 2, 5), (1, 1, 1)]:
        classes = np.random.default_rng(3).integers(-1, 6, shape).astype(dtype)
        attributes = {"classes": 6, "type": "float32"}
        found = forward("one_hot", attributes, [classes], device)[0]
        right = classes == np.arange(6).reshape(1, 6, *[1] * (len(shape) - 2))
        np.testing.assert_array_equal(found, right.astype(np.float32))


@everywhere
@pytest.mark.parametrize("dtype", TYPES)
def test_constant(dtype, device):
    attributes = {"type": dtype, "shape": [2, 2], "numbers": [1.0, 2.0, 3.0, 4.0]}
    found = forward("constant", attributes, [], device)[0]
    np.testing.assert_array_equal(found, np.array([[1, 2], [3, 4]], dtype))
    found = forward("constant", attributes | {"numbers": [7.0]}, [], device)[0]
    np.testing.assert_array_equal(found, np.full((2, 2), 7, dtype))


REFUSED = [
    ("compare", {}, [("float32", (2,)), ("float64", (2,))], "one data type but got float32 and fl"),
    ("compare", {}, [("float32", (2,)), ("float32", (3,))], r"broadcast but got \(2,?\) and \(3"),
    ("compare", {"comparison": 6}, [("int8", (2,)), ("int8", (2,))], "expected bool but got int8"),
    ("compare", {"comparison": 8}, [("bool", (2,)), ("bool", (2,))], "expected 1 inputs but got 2"),
    ("extremum", {"axis": 2}, [("float32", (2, 3))], "axis below 2 but got 2"),
    ("one_hot", {"classes": 3}, [("float32", (2, 1))], "of int32 or int64 but got"),
    ("one_hot", {"classes": 3}, [("int32", (2, 2))], r"classes \(N, 1, …\)"),
    ("constant", {"shape": [3], "numbers": [1.0, 2.0]}, [], "one number or 3 numbers but got 2"),
]


@pytest.mark.parametrize(("op", "attributes", "inputs", "text"), REFUSED)
def test_wrong_operands(op, attributes, inputs, text):
    graph = testing.Graph()
    values = [graph.add_input(dtype, shape) for dtype, shape in inputs]
    with pytest.raises(ValueError, match=text):
        graph.add_op(op, attributes, values)
