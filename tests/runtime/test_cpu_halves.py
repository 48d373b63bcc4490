"""The CPU backend's kernels of 16 bits: lists of scalar functions over any mix of types, layouts
and broadcast operands, and whole steps, no op of which is left to the reference loops."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cpu_ops import LAYOUTS, numbers, scalars
from test_cpu_lists import LISTS, operands
from test_thread_counts import same_for_every_count

import traingraph as tg
from op_harness import cast, declare, testing
from traingraph import nn

HALVES = {"float16": 2.0**-11, "bfloat16": 2.0**-8}  # half a unit of the last bit


def in_types(
    attributes: dict[str, Any],
    arrays: list[np.ndarray],
    types: list[str],
    results: list[str],
    layout: str,
    device: str = "cpu",
) -> list[np.ndarray]:
    """A list over operands of these types, with all that have the result's shape in this layout."""
    graph = testing.Graph()
    inputs = declare(graph, arrays)
    given = []
    for value, array, dtype in zip(inputs, arrays, types, strict=True):
        if dtype != "float32":
            value = cast(graph, value, dtype)
        if layout != "plain" and array.ndim == 4 and array.shape[1] > 1:
            value = graph.add_op("reorder", {}, [value])[0]
            testing.set_layout(graph, value, *LAYOUTS[layout])
        given.append(value)
    found = graph.add_op("elementwise", {"list": attributes, "result_types": results}, given)
    wide = [
        value if dtype == "float32" else cast(graph, value, "float32")
        for value, dtype in zip(found, results, strict=True)
    ]
    if layout != "plain":
        wide = [graph.add_op("reorder", {}, [value])[0] for value in wide]
    graph = testing.with_layouts(graph, device)
    return graph.run(device, dict(zip(inputs, arrays, strict=True)), wide)


def mixes(count: int, half: str, seed: int) -> list[str]:
    """Float32 and 16 bits by chance, and one of 16 bits at least."""
    chosen = np.random.default_rng(seed).choice(["float32", half], count).tolist()
    chosen[seed % count] = half
    return chosen


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("name", LISTS)
def test_lists(name: str, half: str, layout: str) -> None:
    kinds, code = LISTS[name]
    for seed, shape in enumerate([(2, 16, 5, 7), (3, 10, 19, 23), (33, 10), (7, 1030), (1, 1)]):
        if layout != "plain" and len(shape) != 4:
            continue
        arrays = operands(kinds, shape)
        for types in (mixes(len(arrays), half, seed), [half] * len(arrays)):
            results = mixes(len(code["results"]), half, seed + 1)
            got = in_types(code, arrays, types, results, layout)
            right = in_types(code, arrays, types, results, "plain", "reference")
            for a, b in zip(got, right, strict=True):
                np.testing.assert_allclose(a, b, rtol=3 * HALVES[half], atol=1e-6)
                # Rounded once: all but few are the same number.
                assert np.mean(a == b) > 0.9 or a.size < 100 or "float32" in results


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("elements", [*range(1, 35), 1000, 8191])
def test_no_element_is_left_out(elements: int, half: str) -> None:
    code = scalars(2, [("subtract", 0, 1, 0, 0), ("absolute", 2, -1, 0, 0)], [3, 2])
    arrays = [numbers((elements,), seed=k) for k in range(2)]
    given = (code, arrays, [half, "float32"], ["float32", half], "plain")
    for a, b in zip(in_types(*given), in_types(*given, "reference"), strict=True):
        assert a.tobytes() == b.tobytes()


# --- products ------------------------------------------------------------------------------------

# Stacks, m, n, k: on both sides of what stays in float32 loops, and of what is cut into parts.
PRODUCTS = [
    ([], 3, 5, 7),
    ([], 32, 10, 64),
    ([], 33, 65, 129),
    ([], 257, 300, 511),
    ([], 40, 64, 8200),
    ([6], 40, 50, 60),
]


def product(
    half: str, result: str, sizes: tuple[list[int], int, int, int], turned: tuple[bool, bool]
) -> tuple[np.ndarray, np.ndarray]:
    """On cpu, and of the same rounded operands in float64."""
    lead, m, n, k = sizes
    shapes = [[*lead, m, k], [*lead, k, n]]
    plain = [numbers(tuple(shape), seed=s) for s, shape in enumerate(shapes)]
    arrays = [np.swapaxes(a, -1, -2).copy() if t else a for a, t in zip(plain, turned, strict=True)]
    graph = testing.Graph()
    inputs = declare(graph, arrays)
    halves = [cast(graph, value, half) for value in inputs]
    attributes = {"transpose_a": turned[0], "transpose_b": turned[1], "result_type": result}
    found = graph.add_op("matmul", attributes, halves)[0]
    kept = [cast(graph, value, "float32") for value in halves]
    kept.append(found if result == "float32" else cast(graph, found, "float32"))
    graph = testing.with_layouts(graph, "cpu")
    a, b, y = graph.run("cpu", dict(zip(inputs, arrays, strict=True)), kept)
    wide = [np.swapaxes(v, -1, -2) if t else v for v, t in zip((a, b), turned, strict=True)]
    return y, wide[0].astype("d") @ wide[1].astype("d")


@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("sizes", PRODUCTS, ids=str)
@pytest.mark.parametrize("half", HALVES)
def test_products(
    half: str, sizes: tuple[list[int], int, int, int], turned: tuple[bool, bool]
) -> None:
    for result in ("float32", half):
        got, right = product(half, result, sizes, turned)
        bound = 4e-6 + (0 if result == "float32" else HALVES[half])
        np.testing.assert_allclose(got, right, rtol=bound, atol=4e-6 * np.abs(right).max())


def test_products_have_the_same_bits_with_every_number_of_threads() -> None:
    def products() -> list[np.ndarray]:
        return [product("bfloat16", "float32", sizes, (False, True))[0] for sizes in PRODUCTS]

    same_for_every_count(products)


def test_a_row_of_a_product_has_its_bits_wherever_it_lies() -> None:
    a, b = numbers((300, 500), seed=1), numbers((500, 200), seed=2)
    order = np.random.default_rng(3).permutation(len(a))
    found = []
    for rows in (a, a[order]):
        graph = testing.Graph()
        inputs = declare(graph, [rows, b])
        halves = [cast(graph, value, "bfloat16") for value in inputs]
        result = graph.add_op("matmul", {"result_type": "float32"}, halves)
        found += testing.with_layouts(graph, "cpu").run(
            "cpu", dict(zip(inputs, [rows, b], strict=True)), result
        )
    assert found[0][order].tobytes() == found[1].tobytes()


def has_bfloat16_instructions() -> bool:
    file = Path("/proc/cpuinfo")
    return file.exists() and "avx512_bf16" in file.read_text()


@pytest.mark.skipif(not has_bfloat16_instructions(), reason="no instructions for bfloat16")
@pytest.mark.skipif(os.environ.get("TRAINGRAPH_ISA", "v4") != "v4", reason="of level v4 alone")
def test_products_of_bfloat16_are_not_widened() -> None:
    """Else float32 forms of all operands would lie in the workspace."""
    model = nn.model([nn.dense(512)], input=(512,), batch_size=64, device="cpu")
    model.compile(device="cpu", precision="mixed_bfloat16")
    entries = [e for e in model.memory_plan().entries if e.name.startswith("matmul")]
    assert entries
    assert all(e.bytes < 512 * 512 * 4 for e in entries if e.kind == "workspace"), entries


def test_the_gradient_of_relu_takes_every_number() -> None:
    """All bits of 16, NaN among them, in place of what the result was."""
    bits = np.arange(1 << 16, dtype=np.uint32)
    patterns = {"bfloat16": (bits << 16).view(np.float32)}
    patterns["float16"] = bits.astype(np.uint16).view(np.float16).astype(np.float32)
    code = scalars(2, [("relu_gradient", 0, 1, 0, 0)], [2])
    for half, y in patterns.items():
        arrays = [numbers(y.shape, seed=1), y]
        given = (code, arrays, [half, half], [half], "plain")
        for a, b in zip(in_types(*given), in_types(*given, "reference"), strict=True):
            np.testing.assert_array_equal(a, b)


# --- whole steps ---------------------------------------------------------------------------------

NETWORKS: dict[str, tuple[Callable[[], list[Any]], tuple[int, ...]]] = {
    "dense": (lambda: [nn.dense(700), "relu", nn.dropout(0.3), nn.dense(10)], (500,)),
    "convolutions": (
        lambda: [
            *(nn.conv2d(16, 3), nn.batch_norm(), "relu", nn.max_pool(2)),
            *(nn.conv2d(24, 3), "tanh", nn.flatten(), nn.dense(10)),
        ],
        (3, 32, 32),
    ),
    "lstm": (lambda: [nn.lstm(40), nn.dense(10)], (20, 30)),
    "attention": (
        lambda: [nn.dense(32), nn.layer_norm(), nn.attention(4), nn.flatten(), nn.dense(10)],
        (12, 8),
    ),
}
PRECISIONS = ["float32", "mixed_float16", "mixed_bfloat16"]


def state_after_steps(name: str, precision: str) -> list[np.ndarray]:
    blocks, source = NETWORKS[name]
    tg.MLCPlatform.set_rng_seed_to(5)
    model = nn.model(blocks(), input=source, batch_size=64, device="cpu")
    model.compile(device="cpu", precision=precision)
    rng = np.random.default_rng(3)
    data = {"x": rng.normal(size=(64, *source)).astype(np.float32)}
    labels = {"y": rng.integers(0, 10, 64).astype(np.int32)}
    for _ in range(2):
        model.execute(inputs_data=data, loss_labels_data=labels, options="synchronous")
    return [np.asarray(v) for _, v in sorted(model.state().items())]


@pytest.mark.parametrize("precision", PRECISIONS[1:])
@pytest.mark.parametrize("name", NETWORKS)
def test_every_number_of_threads_gives_the_same_bits(name: str, precision: str) -> None:
    found = same_for_every_count(lambda: state_after_steps(name, precision))
    assert all(np.isfinite(v).all() for v in found)


# What the last of the backend's own entries says where the reference loops are next.
LEFT = "no operand of 16 bits", "no float32 kernel for operands of 16 bits"


def test_no_op_of_a_step_is_left_to_the_reference_loops() -> None:
    program = "import op_harness, test_cpu_halves as t\n"
    program += "for n in t.NETWORKS:\n for p in t.PRECISIONS: t.state_after_steps(n, p)\n"
    # Of integers the largest one is the reference's: the test sees what is left.
    program += (
        "op_harness.forward('extremum', {'axis': 0}, [t.np.arange(3, dtype='int32')], 'cpu')\n"
    )
    folders = [str(Path(__file__).parents[k]) for k in (0, 1)]
    environment = {**os.environ, "TRAINGRAPH_VERBOSE": "dispatch"}
    environment["PYTHONPATH"] = os.pathsep.join([*folders, *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    left = [line for line in done.stderr.splitlines() if line.endswith(LEFT)]
    assert {line.split(":")[2].split()[2] for line in left} == {"extremum"}, left
