"""The planner against its independent verifier, and the plan against the allocators."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import traingraph as tg

_testing = pytest.importorskip("traingraph._testing", reason="built with TRAINGRAPH_TESTING")

ALIGNMENT = 64


@st.composite
def buffers(draw):
    rows = []
    for index in range(draw(st.integers(1, 24))):
        first = draw(st.integers(0, 20))
        last = first + draw(st.integers(0, 6))
        replace = [k for k in range(index) if draw(st.booleans())]
        rows.append((draw(st.integers(0, 5)) * 100, first, last, replace))
    return rows


def overlap(a, b):
    return a[0] < b[1] and b[0] < a[1]


@given(buffers())
@settings(max_examples=300, deadline=None)
def test_plans_keep_live_buffers_apart(rows):
    offsets, total = _testing.plan_arena(rows)
    for i, (bytes_i, first_i, last_i, replace_i) in enumerate(rows):
        assert offsets[i] % ALIGNMENT == 0
        assert bytes_i == 0 or offsets[i] + bytes_i <= total
        for j, (bytes_j, first_j, last_j, replace_j) in enumerate(rows[:i]):
            if not bytes_i or not bytes_j or first_i > last_j or first_j > last_i:
                continue
            in_place = (last_j == first_i and j in replace_i) or (
                last_i == first_j and i in replace_j
            )
            same = offsets[i] == offsets[j] and bytes_i == bytes_j
            apart = not overlap(
                (offsets[i], offsets[i] + bytes_i), (offsets[j], offsets[j] + bytes_j)
            )
            assert apart or (in_place and same)


def test_memory_is_reused():
    # A chain in which each buffer is read once: two places serve all of them, one if in place.
    chain = [(1000, k, k + 1, []) for k in range(10)]
    assert _testing.plan_arena(chain)[1] == 2048
    in_place = [(1000, k, k + 1, [k - 1] if k else []) for k in range(10)]
    assert _testing.plan_arena(in_place)[1] == 1024


@pytest.mark.parametrize(
    ("rows", "offsets", "total", "text"),
    [
        ([(128, 0, 2, []), (128, 1, 3, [])], [0, 64], 192, "overlap"),
        ([(128, 0, 1, []), (128, 1, 3, [])], [0, 0], 128, "overlap"),
        ([(128, 0, 2, []), (128, 1, 3, [0])], [0, 0], 128, "overlap"),
        ([(128, 0, 1, []), (128, 1, 3, [0])], [0, 64], 192, "overlap"),
        ([(128, 0, 1, [])], [64], 128, "outside"),
        ([(128, 0, 1, [])], [32], 256, "outside"),
    ],
)
def test_the_verifier_refuses_broken_plans(rows, offsets, total, text):
    with pytest.raises(RuntimeError, match=text):
        _testing.verify_plan(rows, offsets, total)


def test_the_verifier_accepts_a_place_taken_over():
    _testing.verify_plan([(128, 0, 1, []), (128, 1, 3, [0])], [0, 0], 128)


def chain(count):
    graph = _testing.Graph()
    h = graph.add_input("float32", (4, 25))
    for _ in range(count):
        h = graph.add_op("softmax", {"axis": 1}, [h])[0]
    graph.keep(h)
    return graph


def test_a_step_with_room_shares_no_places():
    count, each = 6, 448  # 400 bytes, aligned
    graph = chain(count)

    def arena(split, unaliased_step_bytes):
        offsets, total = _testing.places(graph, split, unaliased_step_bytes)
        return sorted(at for at in offsets if at >= 0), total

    assert arena(False, count * 400) == ([k * each for k in range(count)], count * each)
    for shared in (arena(False, count * 400 - 1), arena(True, count * 400), arena(False, 0)):
        assert shared[1] < count * each
        assert len(set(shared[0])) < count


def test_counters_share_no_places_where_small_results_are_unaliased():
    graph = chain(6)

    def distinct(bytes_each, unaliased_result_bytes):
        return len(set(_testing.workspace_places(graph, bytes_each, unaliased_result_bytes)))

    assert distinct(131, 1 << 16) == 6
    assert distinct(131, 0) < 6
    assert distinct(257, 1 << 16) < 6


@pytest.mark.parametrize("micro_batches", [1, 3])
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_the_plan_is_what_the_allocators_are_asked_for(device, micro_batches):
    planned, allocated = _testing.planned_and_allocated(device, micro_batches)
    assert planned == allocated
    assert planned > 0


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_a_limit_keeps_what_the_allocators_are_asked_for_below_it(device):
    free, _ = _testing.planned_and_allocated(device)
    limit = free - (1 << 16)
    planned, allocated = _testing.planned_and_allocated(device, memory_limit=limit)
    assert planned == allocated
    assert planned <= limit


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("less", [0, 1, 1 << 16])
def test_the_plan_for_any_batch_size_is_what_the_allocators_are_asked_for(device, less):
    """A limit that is the plan itself is taken, and a smaller one kept for every size."""
    # On a GPU a workspace is the most that is there at once, of which nothing is computed again.
    less = less if device in ("cpu", "reference") else 0
    limit = None
    for _ in range(2):
        sizes = _testing.planned_and_allocated_for_any_size(device, memory_limit=limit)
        planned, after_compile, planned_later, after_all_sizes = sizes
        assert planned == after_compile
        assert planned_later == after_all_sizes
        # The kernels of metal count no rows: each size has a program, and constants, of its own.
        assert planned_later == planned or device == "metal"
        assert limit is None or planned <= limit
        limit = planned - less


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_the_plan_counts_the_constants_of_programs_for_each_size(device):
    sizes = _testing.planned_and_allocated_for_any_size(device, shares=False)
    planned, after_compile, planned_later, after_all_sizes = sizes
    assert planned == after_compile
    assert planned_later == after_all_sizes
    assert planned < planned_later < planned + (1 << 10)


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_the_plans_of_linked_graphs_with_user_gradients(device):
    planned, allocated = _testing.planned_and_allocated_linked(device)
    assert planned == allocated
    assert planned > 0


def test_everything_is_given_back():
    before = _testing.allocated_bytes()
    _testing.planned_and_allocated("cpu")
    _testing.planned_and_allocated_linked("cpu")
    assert _testing.allocated_bytes() == before


def test_without_memory_the_largest_entries_are_listed() -> None:
    x = tg.MLCTensor(shape=[4, 1 << 12])
    graph = tg.MLCGraph()
    graph.node(tg.MLCActivationLayer.relu(), source=x)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    inference.compile(device="cpu")
    values = np.linspace(-1, 1, 4 << 12, dtype=np.float32).reshape(4, 1 << 12)
    for _ in range(2):
        result = inference.execute(inputs_data={"x": values}, options="synchronous").result
        np.testing.assert_array_equal(result, np.maximum(values, 0))
        with pytest.raises(MemoryError) as caught:
            inference.execute(inputs_data={"x": values}, batch_size=3 << 32)
        assert "largest entries of this graph's memory plan" in str(caught.value)
        assert f"{3 << 46} bytes, saved: elementwise at layer " in str(caught.value)
    assert inference.memory_plan().total_bytes == values.nbytes


@pytest.mark.parametrize(
    "sizes",
    [[2**64 - 1], [2**63], [2**48 + 1], [2**64 - 64, 2**10], [2**47] * 3, [2**48] * 2],
    ids=str,
)
def test_more_than_can_be_is_refused(sizes):
    """One buffer, or what a kernel works in, or the sum of those that live at one time."""
    with pytest.raises(MemoryError, match=rf"\[memory_plan\] expected at most {2**48} bytes"):
        _testing.plan_arena([(size, 0, 1, []) for size in sizes])


def test_buffers_as_large_as_can_be():
    offsets, total = _testing.plan_arena([(2**48, k, k, []) for k in range(3)])
    assert (offsets, total) == ([0, 0, 0], 2**48)


def test_a_graph_that_works_in_more_than_can_be():
    x, graph = tg.MLCTensor(shape=[2**45]), tg.MLCGraph()
    parts = [graph.node(tg.MLCActivationLayer.tanh(), source=x) for _ in range(2)]
    graph.concatenate(parts, dimension=0)
    graph.node(tg.MLCActivationLayer.sigmoid(), source=parts[0])
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    with pytest.raises(tg.OutOfMemory, match=r"\[memory_plan\] expected at most"):
        inference.compile(device="null")
