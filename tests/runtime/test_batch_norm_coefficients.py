"""A batch norm that is given the coefficients of another one gives the same bits again."""

import numpy as np
import pytest

from op_harness import declare_with, forward, testing

RESULT, GIVEN = 1, 2  # what `coefficients` may be beside 0, inside the kernel
EPILOGUES = {
    "none": (1, []),
    "relu": (1, [("relu", 0, -1)]),
    "a sum": (2, [("add", 0, 1)]),
    "relu of a sum": (2, [("add", 0, 1), ("relu", 2, -1)]),
}
# Few and many parts of a channel, channels that fill no vector, matrices of few and many rows.
SHAPES = [(4, 16, 5, 7), (2, 48, 9, 9), (3, 17, 4, 4), (64, 8, 32, 32), (50, 100), (5000, 24)]


def attributes_of(epilogue, coefficients=0):
    inputs, code = EPILOGUES[epilogue]
    full = [(f, x, y, 0.0, 0.0) for f, x, y in code]
    epilogue = {"inputs": inputs, "code": full, "results": [inputs + len(code) - 1]}
    found = {"coefficients": coefficients}
    return found | ({"epilogue": epilogue} if code else {})


def arrays_of(shape, epilogue, dtype):
    rng = np.random.default_rng(3)
    # A mean far from 0, where it has to be kept in more than one number.
    x = (rng.normal(size=shape) + 300).astype(dtype)
    gamma, beta = (rng.uniform(-1, 1, shape[1]).astype("f4") for _ in range(2))
    added = [rng.normal(size=shape).astype(dtype)] if EPILOGUES[epilogue][0] > 1 else []
    return [x, gamma, beta, *added]


def ran(device, epilogue, arrays, last):
    """Results of a batch norm alone, of one that gives its coefficients, and of one given them."""
    graph = testing.Graph()
    inputs, operands = declare_with(graph, arrays, last)
    alone = graph.add_op("batch_norm", attributes_of(epilogue), operands)
    giving = graph.add_op("batch_norm", attributes_of(epilogue, RESULT), operands)
    again = graph.add_op("batch_norm", attributes_of(epilogue, GIVEN), [*operands, giving[-1]])
    assert (len(giving), len(again)) == (5, 1)
    plain = [graph.add_op("reorder", {}, [r])[0] for r in (*alone, *giving[:4], *again)]
    graph = testing.with_layouts(graph, device)
    found = graph.run(device, dict(zip(inputs, arrays, strict=True)), plain)
    return found[:4], found[4:8], found[8]


def check(device, shape, epilogue, last, dtype):
    alone, giving, again = ran(device, epilogue, arrays_of(shape, epilogue, dtype), last)
    assert [a.tobytes() for a in giving] == [a.tobytes() for a in alone]
    assert again.tobytes() == alone[0].tobytes()
    assert np.isfinite(np.asarray(again, "f4")).all()


@pytest.mark.parametrize("device", ["cpu"])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("epilogue", EPILOGUES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_same_bits(device, shape, epilogue, last):
    if device == "metal":
        pytest.skip("Apple's kernels keep to themselves what they work with")
    check(device, shape, epilogue, last, "float32")


@pytest.mark.parametrize("epilogue", EPILOGUES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_same_bits_of_16(gpu, shape, epilogue):
    check(gpu, shape, epilogue, True, "float16")


def test_what_has_no_kernel_for_it_says_so():
    arrays = arrays_of((4, 3, 2, 2), "none", "float32")
    with pytest.raises(NotImplementedError, match="coefficients"):
        forward("batch_norm", attributes_of("none", RESULT), arrays)


def test_coefficients_have_a_shape():
    arrays = [*arrays_of((4, 3, 2, 2), "none", "float32"), np.zeros((3, 5), "f4")]
    with pytest.raises(ValueError, match=r"expected coefficients \(3, 4\) but got \(3, 5\)"):
        forward("batch_norm", attributes_of("none", GIVEN), arrays)
