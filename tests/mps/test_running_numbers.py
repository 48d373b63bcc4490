"""Numbers that a program is asked for at each encoding, and what one graph leaves to kernels."""

import numpy as np
import pytest
from gradients import backward, device, differences, execute, near, number_type, random
from graphs import encode, graph_of, source
from kernels import array, batch

from traingraph import mps


class Numbers:
    """Answers with the next number, for nodes of both kinds."""

    def __init__(self, *numbers):
        self.numbers = list(numbers)

    def alpha(self, source_image, destination_image):
        return self.numbers.pop(0)

    def scalar_weight(self, source_image, destination_image):
        return self.numbers.pop(0)


@pytest.mark.parametrize("device", ["reference", "cpu"])
def test_another_alpha_compiles_nothing(device):
    on, dtype = mps.MTLDevice(device=device), number_type(device)
    x, dy = random(1, 2, 3, 2, 4).astype(dtype), random(2, 2, 3, 1, 3).astype(dtype)
    node = mps.MPSNNGramMatrixCalculationNode(source=source("x"))
    made = node.gradient_filter(with_source=source("dy"))
    alphas = [0.25, 0.25, -1.5, 0.0, 3.0]
    node.property_call_back = Numbers(*alphas)
    graph = graph_of(on, node.result_image, made.result_image, dtype=np.dtype(dtype).name)
    rows = x.reshape(2, 3, 8).astype(np.float64)
    seed = dy.reshape(2, 3, 3)
    compiled = []
    for alpha in alphas:
        (y, dx), _ = encode(graph, {"x": x, "dy": dy})
        gram = alpha * rows @ rows.transpose(0, 2, 1)
        near(y.reshape(2, 3, 3), gram, 1e-13)
        expected = alpha * (seed + seed.transpose(0, 2, 1)) @ rows
        near(dx.reshape(2, 3, 8), expected, 1e-13)
        compiled.append(on.compilations)
    assert compiled[0] == compiled[-1]


@pytest.mark.parametrize("device", ["reference", "cpu"])
@pytest.mark.parametrize("loss", ["mean_squared_error", "soft_max_cross_entropy"])
def test_another_weight_compiles_nothing(loss, device):
    """Of a loss, its gradient by the predictions, and that by the labels."""
    on, dtype = mps.MTLDevice(device=device), number_type(device)
    given = {
        "x": random(1, 2, 4, 1, 2).astype(dtype),
        "t": np.abs(random(2, 2, 4, 1, 2)).astype(dtype),
        "dy": np.ones((2,) + (1,) * 3, dtype),
    }
    weights = [0.5, 2.0, -0.125]

    def results(back, weight=1.0):
        descriptor = mps.MPSCNNLossDescriptor.cnn_loss_descriptor(
            with_type=loss, reduction_type="mean"
        )
        descriptor.weight = weight
        node = mps.MPSNNForwardLossNode(
            source=source("x"), labels=source("t"), loss_descriptor=descriptor
        )
        by_both = node.gradient_filters(with_source=source("dy"))
        node.property_call_back = back
        results = (one.result_image for one in (node, *by_both))
        return graph_of(on, *results, dtype=np.dtype(dtype).name)

    # The loss and its two gradients each ask.
    graph = results(Numbers(*np.repeat(weights, 3)))
    compiled = []
    for weight in weights:
        found, _ = encode(graph, given)
        compiled.append(on.compilations)
        fixed, _ = encode(results(None, weight), given)
        for got, want in zip(found, fixed, strict=True):
            assert np.abs(want).max() > 0
            near(got, want, 1e-13)
    plain = len(weights) - 1  # those of the fixed weights between the first and the last
    assert compiled[-1] - compiled[0] == plain


def test_states_that_a_graph_hands_out_are_for_encoded_kernels():
    """Also in a later buffer."""
    on = device()
    a, b, old = source("a"), source("b"), random(1, 2, 3, 4, 5)
    product = mps.MPSNNMultiplicationNode(left_source=a, right_source=b)
    product.maximum_value = 0.5
    product.result_state.export_from_graph = True
    given = {"a": old, "b": random(2, *old.shape)}
    (y,), (states,) = encode(graph_of(on, product.result_image), given)
    assert isinstance(states[0], mps.MPSNNBinaryGradientState)
    assert isinstance(states[0], mps.MPSCNNArithmeticGradientState)
    gradient = mps.MPSCNNMultiplyGradient(device=on, is_secondary_source_filter=False)
    dy = random(3, *old.shape)

    def again(moved):
        kernel = mps.MPSCNNMultiply(device=on)
        kernel.maximum_value, kernel.makes_temporary_images = 0.5, False
        images = {"primary_images": batch(on, moved), "secondary_images": batch(on, given["b"])}
        return array(execute(lambda buffer: kernel.encode_batch(buffer, **images), on))

    np.testing.assert_array_equal(again(old), y)
    found = backward(gradient, dy, given["b"], states)
    near(found, differences(again, old, dy))
