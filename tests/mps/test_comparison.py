"""MPSNNCompare and its node: 1 where a comparison holds, with a threshold for what is equal."""

import numpy as np
import pytest
from gradients import device as made
from gradients import execute, random
from graphs import evaluate, source
from kernels import array, batch, commands

from traingraph import InvalidArgument, ShapeError, Unsupported, mps

# By the difference of the two and the threshold.
TYPES = {
    "equal": lambda d, t: np.abs(d) <= t,
    "not_equal": lambda d, t: ~(np.abs(d) <= t),
    "less": lambda d, t: d < -t,
    "less_or_equal": lambda d, t: d <= t,
    "greater": lambda d, t: d > t,
    "greater_or_equal": lambda d, t: d >= -t,
}


def compared(a, b, on="reference", **properties):
    kernel = mps.MPSNNCompare(device=made(on))
    kernel.makes_temporary_images = False
    for key, value in properties.items():
        setattr(kernel, key, value)
    images = {
        "primary_images": batch(kernel.device, a),
        "secondary_images": batch(kernel.device, b),
    }
    return array(execute(lambda buffer: kernel.encode_batch(buffer, **images), kernel.device))


def whole_numbers(seed):
    return np.random.default_rng(seed).integers(-3, 4, (2, 3, 4, 5)).astype(np.float32)


def test_every_type_is_tested():
    assert {name.upper() for name in TYPES} == set(mps.MPSNNComparisonType.__members__)


@pytest.mark.parametrize("device", ["reference", "cpu"])
@pytest.mark.parametrize("threshold", [0, 1, 2.5])
@pytest.mark.parametrize("name", TYPES)
def test_against_numpy(name, threshold, device):
    a, b = whole_numbers(1), whole_numbers(2)
    b[0, 0, 0, :4] = np.nan, np.inf, -np.inf, 3e38
    a[0, 0, 1, :3] = np.nan, np.inf, -np.inf
    found = compared(a, b, device, comparison_type=name, threshold=threshold)
    with np.errstate(invalid="ignore"):
        difference = a - b
    expected = TYPES[name](difference, np.float32(threshold)).astype(np.float32)
    np.testing.assert_array_equal(found, expected)
    assert 0 < expected.mean() < 1


def test_what_it_begins_with():
    kernel = mps.MPSNNCompare(device=made())
    assert isinstance(kernel, mps.MPSCNNArithmetic)
    assert kernel.comparison_type == mps.MPSNNComparisonType.EQUAL
    assert kernel.threshold == 0
    a = whole_numbers(3)
    np.testing.assert_array_equal(compared(a, a), np.ones_like(a))


def test_scales_bias_bounds_and_strides_of_arithmetic():
    a, b = random(4, 2, 3, 4, 5), random(5, 2, 1, 4, 1)
    found = compared(
        a, b, comparison_type="greater", primary_scale=-2.0, secondary_scale=0.5, bias=0.25,
        maximum_value=1.0, secondary_stride_in_feature_channels=0, secondary_stride_in_pixels_x=0,
    )  # fmt: skip
    np.testing.assert_allclose(found, np.where(-2 * a > 0.5 * b, 1.0, 0.25))


def test_sixteen_bits():
    a, b = whole_numbers(6).astype(np.float16), whole_numbers(7).astype(np.float16)
    np.testing.assert_array_equal(compared(a, b, "cpu", comparison_type="less"), a < b)


def test_bad_comparisons_are_refused():
    kernel = mps.MPSNNCompare(device=made())
    for wrong in (-0.5, np.nan):
        with pytest.raises(InvalidArgument, match=r"MPSNNCompare.*threshold of 0 or more but got"):
            kernel.threshold = wrong
    with pytest.raises(ValueError, match="raw value 6"):
        kernel.comparison_type = 6
    with pytest.raises(ValueError, match="between"):
        kernel.comparison_type = "between"
    assert kernel.comparison_type == mps.MPSNNComparisonType.EQUAL
    with pytest.raises(ShapeError, match=r"MPSNNCompare\] expected secondary images of the"):
        compared(whole_numbers(1), whole_numbers(1)[:, :2])
    buffer = commands(made())
    images = batch(made(), whole_numbers(1).astype(np.float64))
    _, states = kernel.encode_batch(
        buffer, primary_images=images, secondary_images=images,
        destination_state_is_temporary=False,
    )  # fmt: skip
    gradient = mps.MPSCNNAddGradient(device=made(), is_secondary_source_filter=False)
    with pytest.raises(InvalidArgument, match="expected a state"):
        gradient.encode_batch(
            buffer, source_gradients=images, source_images=images, gradient_states=states
        )


@pytest.mark.parametrize("name", TYPES)
def test_nodes(name):
    a, b = whole_numbers(8), whole_numbers(9)
    node = mps.MPSNNComparisonNode(left_source=source("a"), right_source=source("b"))
    assert isinstance(node, mps.MPSNNBinaryArithmeticNode)
    assert node.comparison_type == mps.MPSNNComparisonType.EQUAL
    node.comparison_type = name
    found = evaluate(made("cpu"), {"a": a, "b": b}, node.result_image)[0]
    np.testing.assert_array_equal(found, TYPES[name](a - b, 0))
    assert node.result_state is None
    assert node.gradient_class() is None
    with pytest.raises(Unsupported, match=r"MPSNNComparisonNode.*this one has none"):
        node.gradient_filters(with_sources=[source("dy")])
    with pytest.raises(InvalidArgument, match=r"MPSNNComparisonNode\] expected two sources"):
        mps.MPSNNComparisonNode(sources=[source("a")])
