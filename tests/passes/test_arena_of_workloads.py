"""The arena of each benchmark workload's step beside the bytes that must exist at one time.

Those are counted here from the text of the compiled graph: an order of the step by its rule, the
positions from where to where each value is needed, and what workspaces take. A result that may lie
in the place of an operand counts once, so the count is one that no plan goes below.
"""

import math
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import traingraph as tg

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from benchmarks import ours
from benchmarks import workloads as w

MOST = 1.05
TRAINED = [name for name in w.ON_CPU if w.WORKLOADS[name].trained]
VALUE = re.compile(
    r"%(?P<id>\d+) (?P<type>\w+) \((?P<shape>[^)]*)\)(?: layout (?P<layout>\w+))?"
    r"(?: writes %(?P<writes>\d+))?(?P<keep> keep)?"
)
SIZES = {"float32": 4, "int32": 4, "int64": 8, "uint8": 1, "bfloat16": 2, "float16": 2}


@dataclass
class Value:
    shape: list[int]
    bytes: int
    writes: int | None
    keep: bool


@dataclass
class Node:
    op: str
    name: str  # as the plan's entries have it
    phase: str
    inputs: list[int]
    outputs: list[int]
    workspace: int = 0


@dataclass
class Graph:
    values: dict[int, Value] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.roots: dict[int, int] = {}

    def value(self, found: re.Match[str]) -> int:
        """A value of a line, with the bytes that its layout takes."""
        shape = [int(n.removeprefix("N=")) for n in found["shape"].split(", ") if n]
        padded = list(shape)
        _, *blocks = (found["layout"] or "").split("b")
        sizes: dict[int, int] = {}
        for axis, size in (map(int, block.split("x")) for block in blocks):
            sizes[axis] = sizes.get(axis, 1) * size
        for axis, size in sizes.items():
            padded[axis] = -(-padded[axis] // size) * size
        number, writes = int(found["id"]), found["writes"]
        size = SIZES[found["type"]] * math.prod(padded)
        self.values[number] = Value(
            shape, size, int(writes) if writes else None, bool(found["keep"])
        )
        self.roots[number] = self.roots[int(writes)] if writes else number
        return number


def read(training: tg.MLCTrainingGraph) -> Graph:
    graph = Graph()
    phase = ""
    for line in training.compiled_description().splitlines():
        if not line.startswith("  "):
            phase = line.rstrip(":")
            if phase.startswith(("bound", "parameter", "step", "constant")):
                found = VALUE.search(line)
                assert found is not None
                graph.value(found)
            continue
        results, call = line.strip().split(" = ", 1)
        op, operands = re.match(r"(\w+)\(([^)]*)\)", call).groups()  # type: ignore[union-attr]
        outputs = [graph.value(found) for found in VALUE.finditer(results)]
        assert len(outputs) == results.count("%") - results.count("writes %")
        inputs = [int(operand[1:]) for operand in operands.split(", ") if operand]
        if op == "reshape":
            graph.roots[outputs[0]] = graph.roots[inputs[0]]
        name = op + re.search(r"( at layer .*)?$", call)[0]  # type: ignore[index]
        graph.nodes.append(Node(op, name, phase, inputs, outputs))
    return graph


def add_workspaces(graph: Graph, plan: Any) -> None:
    """The plan lists the results of a node, then its workspace."""
    of_nodes = {"saved", "gradient", "transient", "workspace"}
    entries = [entry for entry in plan.entries if entry.kind in of_nodes]
    own = {v for node in graph.nodes for v in node.outputs if graph.roots[v] == v}
    for node in graph.nodes:
        for output in node.outputs:
            if output in own:
                entry = entries.pop(0)
                assert entry.bytes == graph.values[output].bytes, (node, entry)
        if entries and entries[0].kind == "workspace" and entries[0].name == node.name:
            node.workspace = entries.pop(0).bytes
    assert not entries


def step_order(graph: Graph) -> list[Node]:
    """Each update stands behind what it reads and behind the last reader of what it writes."""
    read: set[int] = set()
    needed: list[Node] = []
    for node in reversed(graph.nodes):
        values = [graph.values[v] for v in node.outputs]
        if any(v.keep or v.writes is not None for v in values) or read & set(node.outputs):
            needed.insert(0, node)
            read |= set(node.inputs)
    order = [n for n in needed if n.phase != "update" and n.op != "reshape"]
    updates = [n for n in needed if n.phase == "update" and n.op != "reshape"]
    behind: dict[int, list[Node]] = {k: [] for k in range(-1, len(order))}
    for update in updates:
        roots = {graph.roots[v] for v in update.inputs + update.outputs}
        written = {graph.roots[v] for v in update.outputs if graph.values[v].writes is not None}
        at = -1
        for k, node in enumerate(order):
            makes = {graph.roots[v] for v in node.outputs} & roots
            if makes or {graph.roots[v] for v in node.inputs} & written:
                at = k
        behind[at].append(update)
    return behind[-1] + [n for k, node in enumerate(order) for n in (node, *behind[k])]


def aligned(count: int) -> int:
    return -(-count // 64) * 64


def most_live_bytes(graph: Graph, order: list[Node]) -> int:
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for k, node in enumerate(order):
        for output in node.outputs:
            if graph.roots[output] == output:
                first[output] = last[output] = k
        for root in (graph.roots[v] for v in node.inputs):
            if root in first:
                last[root] = k
    for v, value in graph.values.items():
        if value.keep and graph.roots[v] in first:
            last[graph.roots[v]] = len(order)
    most = 0
    for k, node in enumerate(order):
        live = [v for v in first if first[v] <= k <= last[v]]
        count = aligned(node.workspace) + sum(aligned(graph.values[v].bytes) for v in live)
        ends = [v for v in live if last[v] == k and first[v] < k]
        for output in (v for v in live if first[v] == k):
            if node.op not in ("elementwise", "batch_norm_gradient"):
                break
            like = graph.values[output]
            for v in ends:
                value = graph.values[v]
                if (value.bytes, value.shape) == (like.bytes, like.shape):
                    count -= aligned(like.bytes)
                    ends.remove(v)
                    break
        most = max(most, count)
    return most


@pytest.mark.parametrize("name", TRAINED)
def test_the_arena_is_hardly_larger_than_what_lives_at_one_time(name: str) -> None:
    before = tg.get_num_threads()
    try:
        training = ours.Session(w.WORKLOADS[name], 2, "cpu").training
    finally:
        tg.set_num_threads(before)
    graph = read(training)
    plan = training.memory_plan()
    add_workspaces(graph, plan)
    live = most_live_bytes(graph, step_order(graph))
    assert live <= plan.arena_bytes <= MOST * live
