"""A program is plain data: values, nodes, losses, an optimizer, and how it is run."""

import math
from typing import Any

from random_nodes.table import NODES

from .layer import Shape, need, reached
from .table import LAYERS

Program = dict[str, Any]
ENTRIES = LAYERS | NODES  # of both surfaces: their names differ
MOST = 8000  # elements of a tensor


def is_of_nodes(program: Program) -> bool:
    """Whether it is written for `traingraph.mps`."""
    return bool(program.get("surface") == "mps")


def first(program: Program, name: str) -> str:
    """The node whose layer this one is: its own, unless it is run again."""
    return str(program["nodes"][name].get("again", name))


def last_of(nodes: dict[str, Any]) -> str:
    """The one whose first result a loss of the training graph's own compares."""
    return next(reversed(nodes), "")


def shapes(program: Program) -> dict[str, Shape]:
    """Of all values and results; raises Invalid."""
    found = {name: list(value["shape"]) for name, value in program["values"].items()}
    made: dict[str, Any] = {}
    for name, node in program["nodes"].items():
        need(all(source in found for source in node["sources"]), "a source is missing")
        sources = [found[source] for source in node["sources"]]
        layer = ENTRIES[node["layer"]]
        results = layer.results(node["options"], sources)
        parameters = layer.parameters(node["options"], sources)
        need(made.setdefault(first(program, name), parameters) == parameters, "other parameters")
        for k, shape in enumerate(results):
            need(min(shape, default=1) > 0 and math.prod(shape) <= MOST, "a size")
            found[f"{name}_{k}"] = shape
    need(bool(program["losses"]), "no loss")
    need(all(loss["source"] in found for loss in program["losses"]), "a loss without source")
    if program.get("loss_layer"):
        need(program["losses"][0]["source"] == f"{last_of(program['nodes'])}_0", "another loss")
    return found


def parameters(program: Program) -> dict[str, tuple[Shape, str, float]]:
    """Of all layers, by the variable's name."""
    found, all_shapes = {}, shapes(program)
    for name, node in program["nodes"].items():
        if "again" not in node:
            sources = [all_shapes[source] for source in node["sources"]]
            own = ENTRIES[node["layer"]].parameters(node["options"], sources)
            found |= {f"{name}_{role}": what for role, what in own.items()}
    return found


def trained(program: Program) -> list[str]:
    """Names of parameters and values that the optimizer updates."""
    found = [name for name, value in program["values"].items() if value["role"] == "trained"]
    for name in parameters(program):
        node = program["nodes"][name.split("_")[0]]
        running = ENTRIES[node["layer"]].running
        is_frozen = node.get("frozen") or node.get("style") == "none"
        if not is_frozen and name.split("_")[1] not in running:
            found.append(name)
    return found


def running(program: Program) -> list[str]:
    found = parameters(program)
    nodes = program["nodes"]
    return [p for p in found if p.split("_")[1] in ENTRIES[nodes[p.split("_")[0]]["layer"]].running]


def gradients_reach(program: Program) -> set[str]:
    """Results and values that a gradient of the losses comes to."""
    nodes = {name: {"sources": node["sources"]} for name, node in program["nodes"].items()
             if not node.get("stop")}  # fmt: skip
    ends = [loss.get(key) for loss in program["losses"] for key in ("source", "labels_from")]
    found = {end for end in ends if end}
    reading = reached(nodes, sorted(found)) & set(nodes)
    found |= {source for name in reading for source in nodes[name]["sources"]}
    return {one for one in found if one.rpartition("_")[0] in nodes or one in program["values"]}


def inputs_with_gradients(program: Program) -> list[str]:
    """Floats that a step is given; none where the program does not ask for them."""
    floats = [name for name, value in program["values"].items()
              if value["role"] == "input" and value["kind"] in ("normal", "coarse")]  # fmt: skip
    reached_ones = gradients_reach(program) if program["input_gradients"] else set()
    return [name for name in floats if name in reached_ones]
