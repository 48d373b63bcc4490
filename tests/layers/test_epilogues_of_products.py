"""What backends may compute together with a product before it, in every order."""

import numpy as np
import test_convolution
import test_fully_connected
import test_matmul

import traingraph as tg
from harness import Case, checks

A = tg.MLCActivationLayer
ACTIVATIONS = {"relu": (A.relu, lambda x: np.maximum(x, 0)), "tanh": (A.tanh, np.tanh)}
ARITHMETIC = {"add": np.add, "multiply": np.multiply}
EPILOGUES = [
    ("add",),
    ("add", "relu"),
    ("relu", "add"),
    ("tanh", "add"),
    ("relu", "add", "relu"),
    ("add", "relu", "add"),
    ("add", "add"),
    ("multiply", "add"),
    ("add", "multiply", "relu"),
    ("relu", "tanh"),
]
# A product as a case of its own, and the shape of what is added to each of its results.
PRODUCTS = [
    (
        Case(
            "fully connected",
            test_fully_connected.layer(9, 17),
            test_fully_connected.expected,
            [(6, 9)],
            [(17, 9), (17,)],
        ),
        (17,),
    ),
    (test_matmul.case((6, 9), (9, 17)), (17,)),
    (test_matmul.case((6, 9), (17, 9), alpha=-0.5, y=True), (17,)),
    (test_matmul.case((1, 70), (70, 33), alpha=0.25), (1, 33)),
    (test_matmul.case((2, 6, 9), (9, 17), alpha=0.5), (17,)),
    (test_convolution.convolution("convolution", (1, 16, 3, 2), 16, (1, 1)), (1, 16, 1, 1)),
    (
        test_convolution.convolution("without biases", (1, 16, 3, 2), 16, (1, 1), biases=False),
        (1, 16, 1, 1),
    ),
]


def with_epilogue(product, operand, epilogue):
    """The product, then each of these with an operand of its own where it takes one."""
    own, count = len(product.sources), sum(name in ARITHMETIC for name in epilogue)

    def build(graph, sources, parameters):
        x = product.node(graph, sources[:own], parameters)
        operands = iter(sources[own:])
        for name in epilogue:
            if name in ARITHMETIC:
                layer, others = tg.MLCArithmeticLayer(operation=name), [next(operands)]
            else:
                layer, others = ACTIVATIONS[name][0](), []
            x = graph.node(layer, sources=[x, *others])
        return x

    def expected(*arrays):
        x = product.expected(*arrays[:own], *arrays[own + count :])
        operands = iter(arrays[own : own + count])
        for name in epilogue:
            is_arithmetic = name in ARITHMETIC
            x = ARITHMETIC[name](x, next(operands)) if is_arithmetic else ACTIVATIONS[name][1](x)
        return x

    return Case(
        f"{product}, {', '.join(epilogue)}",
        None,
        expected,
        [*product.sources, *[operand] * count],
        product.parameters,
        build=build,
    )


CASES = [with_epilogue(*product, epilogue) for product in PRODUCTS for epilogue in EPILOGUES]

test_forward, test_gradient, test_backends, test_same_bits, _ = checks(CASES)
