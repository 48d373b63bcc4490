"""Copies between layouts, element by element: all sizes of elements, blocks of several axes."""

import itertools

import numpy as np
import pytest

from op_harness import testing

SHAPE = (3, 17, 5, 4)
LAYOUTS = {
    "plain": ([], []),
    "channels last": ([0, 2, 3, 1], []),
    "turned": ([3, 1, 0, 2], []),
    "blocks of 8": ([0, 1, 2, 3], [(1, 8)]),
    "two axes": ([1, 0, 2, 3], [(1, 16), (0, 2)]),
    "an axis twice": ([0, 1, 2, 3], [(1, 4), (0, 2), (1, 2)]),
}


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "float32", "float64", "int64"])
def test_elements_come_back(dtype):
    x = np.random.default_rng(4).permutation(np.prod(SHAPE)).reshape(SHAPE).astype(dtype)
    for layouts in itertools.permutations(LAYOUTS, 3):
        graph = testing.Graph()
        given = graph.add_input(dtype, SHAPE)
        value = given
        for layout in (*layouts, "plain"):
            value = graph.add_op("reorder", {}, [value])[0]
            testing.set_layout(graph, value, *LAYOUTS[layout])
        (found,) = graph.run("reference", {given: x}, [value])
        np.testing.assert_array_equal(found, x, err_msg=str(layouts))
