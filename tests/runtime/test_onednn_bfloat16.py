"""Convolutions of bfloat16 and their gradients, by instructions for it where the machine has them,
beside the reference implementation in float64 over the same rounded numbers."""

import os

import numpy as np
import pytest
from test_cpu_halves import has_bfloat16_instructions
from test_onednn_kernels import CONVOLUTIONS, MANY_SAMPLES, convolution, numbers, run
from test_thread_counts import same_for_every_count

from op_harness import cast, declare, testing

HALF_UNIT = 2.0**-8  # of the last bit, relative


def rounded(x: np.ndarray) -> np.ndarray:
    """To nearest, ties to even."""
    bits = x.view(np.uint32).astype(np.uint64)
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    return bits.astype(np.uint32).view(np.float32)


def in_bfloat16(op: str, attributes: dict, arrays: list[np.ndarray], lays: bool) -> np.ndarray:
    graph = testing.Graph()
    inputs = declare(graph, arrays)
    result = graph.add_op(op, attributes, [cast(graph, v, "bfloat16") for v in inputs])[0]
    assert graph.type(result)[0] == "bfloat16"
    wide = graph.add_op("reorder", {}, [cast(graph, result, "float32")])[0]
    if lays:
        graph = testing.with_layouts(graph, "cpu")
    bound = dict(zip(inputs, arrays, strict=True))
    first, second = (graph.run("cpu", bound, [wide])[0] for _ in range(2))
    assert first.tobytes() == second.tobytes()
    return first


def check(op: str, attributes: dict, arrays: list[np.ndarray]) -> None:
    arrays = [rounded(a) for a in arrays]
    right = run(op, attributes, [a.astype("d") for a in arrays], "reference")[0]
    for lays in (False, True):
        got = in_bfloat16(op, attributes, arrays, lays)
        np.testing.assert_allclose(got, right, rtol=HALF_UNIT, atol=1e-5 * np.abs(right).max())


def all_three(name: str) -> list[tuple[str, dict, list[np.ndarray]]]:
    x, weights, attributes = CONVOLUTIONS[name]
    dy = numbers(3, run("convolution", attributes, [x, weights], "cpu")[0].shape)
    to_x = {**attributes, "result_shape": x.shape}
    to_weights = {**attributes, "result_shape": weights.shape}
    return [
        ("convolution", attributes, [x, weights]),
        ("convolution_gradient_data", to_x, [dy, weights]),
        ("convolution_gradient_weights", to_weights, [dy, x]),
    ]


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str) -> None:
    for op, attributes, arrays in all_three(name):
        check(op, attributes, arrays)


@pytest.mark.parametrize("name", MANY_SAMPLES)
def test_gradients_of_weights_in_parts_of_the_samples(name: str) -> None:
    n, c, size, o = MANY_SAMPLES[name]
    x, weights, attributes = convolution(n, c, size, o, (3, 3), before=(1, 1))
    dy = numbers(3, (n, o, *size))
    check("convolution_gradient_weights", {**attributes, "result_shape": weights.shape}, [dy, x])


def test_every_number_of_threads_gives_the_same_bits() -> None:
    x, weights, attributes = convolution(18, 64, (16, 16), 64, (3, 3), before=(1, 1))
    dy = numbers(3, x.shape)
    to_x = {**attributes, "result_shape": x.shape}
    to_weights = {**attributes, "result_shape": weights.shape}
    same_for_every_count(
        lambda: [
            in_bfloat16("convolution", attributes, [x, weights], True),
            in_bfloat16("convolution_gradient_data", to_x, [dy, weights], True),
            in_bfloat16("convolution_gradient_weights", to_weights, [dy, x], True),
        ]
    )


def test_a_sample_has_its_bits_in_every_row() -> None:
    x, weights, attributes = convolution(37, 32, (8, 8), 48, (3, 3), before=(1, 1))
    order = np.random.default_rng(4).permutation(len(x))
    right = in_bfloat16("convolution", attributes, [x, weights], True)
    moved = in_bfloat16("convolution", attributes, [x[order], weights], True)
    assert moved.tobytes() == right[order].tobytes()


@pytest.mark.skipif(not has_bfloat16_instructions(), reason="no instructions for bfloat16")
@pytest.mark.skipif(os.environ.get("TRAINGRAPH_ISA", "v4") != "v4", reason="of level v4 alone")
def test_operands_lie_in_pairs_for_the_instructions() -> None:
    """Else weights would have the layout of float32."""
    x, weights, attributes = CONVOLUTIONS["stride 2"]
    graph = testing.Graph()
    values = [cast(graph, value, "bfloat16") for value in declare(graph, [x, weights])]
    graph.add_op("convolution", attributes, values)
    assert "b1x2" in str(testing.with_layouts(graph, "cpu"))


@pytest.mark.skipif(not has_bfloat16_instructions(), reason="no instructions for bfloat16")
@pytest.mark.skipif(os.environ.get("TRAINGRAPH_ISA", "v4") != "v4", reason="of level v4 alone")
@pytest.mark.skipif("TRAINGRAPH_WINOGRAD" in os.environ, reason="about the choice without it")
def test_winograds_method_in_float32_comes_first_where_it_is_faster() -> None:
    """Then weights lie as those of float32."""
    x, weights, attributes = convolution(24, 64, (16, 16), 64, (3, 3), before=(1, 1))
    for op, given, arrays in (
        ("convolution", attributes, [x, weights]),
        ("convolution_gradient_data", {**attributes, "result_shape": x.shape}, [x, weights]),
    ):
        graph = testing.Graph()
        values = [cast(graph, value, "bfloat16") for value in declare(graph, arrays)]
        graph.add_op(op, given, values)
        assert "b1x2" not in str(testing.with_layouts(graph, "cpu"))
        check(op, given, arrays)
