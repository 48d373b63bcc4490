"""Attention of 16 bits, in TF32 and in float32, beside float64 of the same operands.

GPUs have kernels per type and head size, for heads of whole pieces of 16 bytes and others, and for
plain scores and those with masks or dropout.
"""

import numpy as np
import pytest
from test_attention import Sample, numbers

from differences import assert_near
from harness import everywhere
from op_harness import cast, declare, forward, gradients, testing

# Half the distance of neighbouring numbers at 1. Probabilities and gradients of scores are rounded
# to as much before they are multiplied; to TF32 they are truncated.
# float32 has sums of up to 256 products.
UNITS = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "tf32": 2.0**-10, "float32": 2.0**-21}
HEADS = [1, 8, 20, 32, 40, 64, 72, 96, 128, 136, 200, 256]
LENGTHS = [(70, 70), (130, 65), (5, 200)]  # several tiles, and parts of one
# Features of a head, masks and the rate of dropout.
CASES = [(d, masks, 0.0) for d in HEADS for masks in ("", "c")]
CASES += [(d, *form) for d in (8, 40, 64, 96, 200)
          for form in (("", 0.3), ("k", 0.0), ("a", 0.3), ("cks", 0.3))]  # fmt: skip


def rounded(array, precision):
    """What an operand of this precision can be."""
    if precision == "float32":
        return array
    if precision == "float16":
        return array.astype(np.float16).astype(np.float32)
    dropped = np.uint32(16 if precision == "bfloat16" else 13)
    bits = array.view(np.uint32) + (np.uint32(1) << (dropped - np.uint32(1)))
    return (bits >> dropped << dropped).view(np.float32)


def run(sample, dy, precision, device):
    """The three results, and the gradients of what is wanted, in float32."""
    if precision.endswith("32"):
        op = "attention", sample.attributes | {"tf32": precision == "tf32"}, sample.arrays
        return [*forward(*op, device),
                *gradients(*op, [dy, None, None], sample.wanted, device)]  # fmt: skip
    graph = testing.Graph()
    arrays = [np.asarray(a) for a in sample.arrays]
    inputs = declare(graph, arrays)
    operands = [cast(graph, v, precision) if i < 3 else v for i, v in enumerate(inputs)]
    y, *statistics = graph.add_op("attention", sample.attributes, operands)
    seed = graph.add_input("float32", dy.shape)
    wanted = [inputs[i] for i in sample.wanted]
    found = graph.autodiff({y: cast(graph, seed, precision)}, wanted)
    graph.verify()
    bound = dict(zip([*inputs, seed], [*arrays, dy], strict=True))
    return graph.run(device, bound, [cast(graph, y, "float32"), *statistics, *found])


def with_rounded_sources(sample, precision):
    sample.arrays[:3] = [rounded(a, precision) for a in sample.arrays[:3]]
    dy = numbers(*sample.arrays[0].shape, seed=7, dtype="float32")
    return sample, rounded(dy, precision)


@everywhere
@pytest.mark.parametrize("precision", UNITS)
@pytest.mark.parametrize(("features", "masks", "rate"), CASES)
def test_beside_float64(features, masks, rate, precision, device):
    unit = UNITS[precision]
    for length, keys in LENGTHS:
        extents = (1, 2, length, keys, features)
        sample, dy = with_rounded_sources(
            Sample(extents, masks, rate=rate, dtype="float32"), precision
        )
        wide = [a.astype(np.float64) if np.asarray(a).dtype.kind == "f" else a
                for a in sample.arrays]  # fmt: skip
        op = "attention", sample.attributes, wide
        results = forward(*op)
        slopes = gradients(*op, [dy.astype(np.float64), None, None], sample.wanted)
        found = run(sample, dy, precision, device)
        for got, right in zip(found[:3], results, strict=True):
            assert_near(got, right, 4 * unit)
        # Scores share the rounding of their gradients, so all bounds are those of the largest one.
        bound = 4 * unit * max(np.abs(s).max() for s in slopes)
        for got, right in zip(found[3:], slopes, strict=True):
            np.testing.assert_allclose(got, right, rtol=0, atol=bound)


@everywhere
@pytest.mark.parametrize("precision", UNITS)
@pytest.mark.parametrize("features", [32, 64, 96])
@pytest.mark.parametrize("masks", ["", "k"])
def test_probabilities_of_large_scores_sum_to_1(features, masks, precision, device):
    sample = Sample((1, 2, 70, 70, features), masks, dtype="float32")
    sample.arrays[:2] = [40 * np.sign(a) for a in sample.arrays[:2]]
    sample.arrays[2] = np.ones_like(sample.arrays[2])
    y = run(*with_rounded_sources(sample, precision), precision, device)[0]
    np.testing.assert_allclose(y, 1, atol=4 * UNITS[precision])
