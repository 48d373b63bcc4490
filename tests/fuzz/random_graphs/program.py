"""A program is plain data: values, nodes, losses, an optimizer, and how it is run."""

import math
from typing import Any

from .layer import Shape, need
from .table import LAYERS

Program = dict[str, Any]
MOST = 8000  # elements of a tensor


def first(program: Program, name: str) -> str:
    """The node whose layer this one is: its own, unless it is run again."""
    return str(program["nodes"][name].get("again", name))


def shapes(program: Program) -> dict[str, Shape]:
    """Of all values and results; raises Invalid."""
    found = {name: list(value["shape"]) for name, value in program["values"].items()}
    made: dict[str, Any] = {}
    for name, node in program["nodes"].items():
        need(all(source in found for source in node["sources"]), "a source is missing")
        sources = [found[source] for source in node["sources"]]
        layer = LAYERS[node["layer"]]
        results = layer.results(node["options"], sources)
        parameters = layer.parameters(node["options"], sources)
        need(made.setdefault(first(program, name), parameters) == parameters, "other parameters")
        for k, shape in enumerate(results):
            need(min(shape, default=1) > 0 and math.prod(shape) <= MOST, "a size")
            found[f"{name}_{k}"] = shape
    need(bool(program["losses"]), "no loss")
    need(all(loss["source"] in found for loss in program["losses"]), "a loss without source")
    return found


def parameters(program: Program) -> dict[str, tuple[Shape, str, float]]:
    """Of all layers, by the variable's name."""
    found, all_shapes = {}, shapes(program)
    for name, node in program["nodes"].items():
        if "again" not in node:
            sources = [all_shapes[source] for source in node["sources"]]
            own = LAYERS[node["layer"]].parameters(node["options"], sources)
            found |= {f"{name}_{role}": what for role, what in own.items()}
    return found


def trained(program: Program) -> list[str]:
    """Names of parameters and values that the optimizer updates."""
    found = [name for name, value in program["values"].items() if value["role"] == "trained"]
    for name in parameters(program):
        node = program["nodes"][name.split("_")[0]]
        running = LAYERS[node["layer"]].running
        if not node.get("frozen") and name.split("_")[1] not in running:
            found.append(name)
    return found


def running(program: Program) -> list[str]:
    found = parameters(program)
    nodes = program["nodes"]
    return [p for p in found if p.split("_")[1] in LAYERS[nodes[p.split("_")[0]]["layer"]].running]
