import numpy as np
import pytest

import traingraph as tg
from harness import Case, checks, node

OPERATIONS = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
}
SHAPES = [
    ((4, 3), (4, 3)),
    ((2, 3, 4, 5), (2, 3, 4, 5)),
    ((2, 3), (3,)),
    ((3,), (2, 3)),
    ((2, 1), (1, 3)),
    ((2, 3), (2, 1)),
    ((2, 3, 4), (1,)),
    ((2, 3, 2, 2), (1, 3, 1, 1)),
]


def layer(operation):
    return lambda: tg.MLCArithmeticLayer(operation=operation)


def operand(shape, seed):
    """Numbers of both signs that stay away from 0, for the divisor."""
    rng = np.random.default_rng(seed)
    return rng.uniform(0.5, 2, shape) * rng.choice([-1, 1], shape)


def twice(operation):
    """Both sources are one tensor."""
    return lambda graph, sources, _: graph.node(
        layer(operation)(), sources=[sources[0], sources[0]]
    )


CASES = [
    Case(
        f"{name} {a} {b}",
        layer(name),
        function,
        [operand(a, 1), operand(b, 2)],
        rows=a == b,
    )
    for name, function in OPERATIONS.items()
    for a, b in SHAPES
] + [
    Case(
        f"{name} of a tensor with itself",
        layer(name),
        lambda x, f=function: f(x, x),
        [operand((3, 4), 3)],
        build=twice(name),
        rows=True,
    )
    for name, function in OPERATIONS.items()
]

test_forward, test_gradient, test_backends, test_same_bits, test_batch = checks(CASES)


@pytest.mark.parametrize("operation", list(tg.MLCArithmeticOperation))
def test_other_operations_say_so(operation):
    if operation.name.lower() in OPERATIONS:
        return
    with pytest.raises(NotImplementedError, match=operation.debug_description):
        node(layer(operation)(), (2, 3), (2, 3))


def test_wrong_sources():
    with pytest.raises(ValueError, match=r"\(2, 3\) and \(2, 4\) at layer"):
        node(layer("add")(), (2, 3), (2, 4))
    for shapes in ([(2, 3)], [(2, 3)] * 3):
        with pytest.raises(ValueError, match=f"expected 2 sources but got {len(shapes)}"):
            node(layer("add")(), *shapes)
    with pytest.raises(TypeError, match="but got int64"):
        node(layer("add")(), (2, 3), (2, 3), dtypes=["float32", "int64"])
    with pytest.raises(TypeError, match="float32 but got float64"):
        node(layer("add")(), (2, 3), (2, 3), dtypes=["float32", "float64"])
