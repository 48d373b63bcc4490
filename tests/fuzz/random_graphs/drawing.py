"""Draws a program."""

from collections.abc import Callable
from random import Random
from typing import Any

from . import losses, optimizers
from .layer import Invalid, Shape, joined, need
from .program import Program, gradients_reach, last_of, shapes, trained
from .table import LAYERS

WITH_SEVERAL = ["MLCLSTMLayer", "MLCSplitLayer"]
"""Layers with several results."""


class Drawing:
    """What is there when a layer is drawn."""

    layers = LAYERS

    def __init__(self, random: Random, judged_by_reference: bool) -> None:
        self.random, self.judged_by_reference = random, judged_by_reference
        self.batch = self.chance(0.75)  # axis 0 of all that flows
        self.rows = self.choice([1, 2, 3, 4, 5, 7, 8, 17])
        self.values: dict[str, dict[str, Any]] = {}
        self.shapes: dict[str, Shape] = {}
        self.flows: list[str] = []  # floats that a node may read
        self.nodes: dict[str, Any] = {}

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def choice(self, of: Any) -> Any:
        return self.random.choice(of)

    def value(self, role: str, shape: Shape, kind: str = "normal", **more: Any) -> str:
        name = f"v{len(self.values)}"
        self.values[name] = {"role": role, "shape": list(shape), "kind": kind, **more}
        self.shapes[name] = list(shape)
        return name

    def axis(self, shape: Shape) -> int:
        need(len(shape) > int(self.batch))
        return self.random.randrange(int(self.batch), len(shape))

    def flow(self, fits: Callable[[Shape], bool], otherwise: str | None = None) -> str:
        found = [name for name in self.flows if fits(self.shapes[name])]
        if not found and otherwise is not None:
            return otherwise
        need(bool(found))
        return str(self.choice(found))

    def read(self) -> str:
        """What the next node reads."""
        return str(self.choice(self.flows[-4:] if self.chance(0.8) else self.flows))

    def broadcasts(self, shape: Shape, other: Shape) -> bool:
        try:
            joined(shape, other)
        except Invalid:
            return False
        return len(other) == len(shape)

    def fields(self, kind: str, source: str) -> dict[str, Any]:
        """A new node of a class of layers that reads this source."""
        fields = self.layers[kind].draw(self, self.shapes[source])
        sources = [*fields.pop("before", []), source, *fields.pop("more", [])]
        sources = sources[::-1] if fields.pop("turned", False) else sources
        return {"layer": kind, "sources": sources, **fields}

    def node(self, kind: str, source: str) -> dict[str, Any]:
        """Maybe of a layer that is run again, or frozen."""
        has_parameters = self.layers[kind].has_parameters
        is_shared = has_parameters and self.layers[kind].reads_flow
        earlier = [n for n, one in self.nodes.items() if one["layer"] == kind]
        earlier = [n for n in earlier if not {"again", "frozen"} & set(self.nodes[n])]
        if is_shared and earlier and self.chance(0.25):
            again = self.choice(earlier)
            options = self.nodes[again]["options"]
            self.layers[kind].draw(
                self, self.shapes[source]
            )  # raises where it reads no such source
            return {"layer": kind, "again": again, "options": options, "sources": [source]}
        node = self.fields(kind, source)
        if has_parameters and self.chance(0.06):
            node["frozen"] = True
        return node


def draw_node(drawing: Drawing, of: list[str] | None = None) -> None:
    source, nodes = drawing.read(), drawing.nodes
    names = of or list(drawing.layers)
    often = [drawing.layers[name].often for name in names]
    kind = drawing.random.choices(names, often)[0]
    before = list(drawing.values)
    try:
        node = drawing.node(kind, source)
        name = f"n{len(nodes)}"
        trial = {"values": drawing.values, "nodes": {**nodes, name: node}, "losses": [1]}
        found = shapes({**trial, "losses": [{"source": source}]})
    except Invalid:
        for value in set(drawing.values) - set(before):
            drawing.values.pop(value)
            drawing.shapes.pop(value)
        return
    nodes[name] = node
    drawing.flows += [key for key in found if key not in drawing.shapes]
    drawing.shapes = found


def draw_nodes(drawing: Drawing, wanted: int) -> None:
    """Many of them end in several results."""
    for _ in range(3 * wanted):
        if len(drawing.nodes) < wanted:
            draw_node(drawing)
    if drawing.chance(0.3):
        for _ in range(3):
            if f"{last_of(drawing.nodes)}_1" not in drawing.shapes:
                draw_node(drawing, WITH_SEVERAL)


def draw(random: Random, devices: list[str], judged_by_reference: bool) -> Program:
    device = random.choice(devices)
    drawing = Drawing(random, judged_by_reference and device != "reference")
    rank = drawing.choice([1, 2, 2, 3, 4, 4, 4, 4])
    shape = [drawing.rows] + [drawing.choice([1, 2, 3, 4, 5, 8, 9]) for _ in range(rank - 1)]
    kind = "coarse" if drawing.chance(0.1) else "normal"
    drawing.flows = [drawing.value("input", shape, kind)]
    nodes = drawing.nodes
    wanted = random.randrange(1, 11)
    draw_nodes(drawing, wanted)
    need(bool(nodes), "no node")
    read = {source for node in nodes.values() for source in node["sources"]}
    results = [name for name in drawing.shapes if name.startswith("n")]
    leaves = [name for name in results if name not in read]
    first = f"{last_of(nodes)}_0"
    others = [name for name in leaves if name != first and drawing.chance(0.4)]
    micro = drawing.choice([1, 1, 1, 1, 1, 2, 3])
    steps = random.randrange(2, 5) * micro
    varied = drawing.batch and drawing.chance(0.5)
    rows = [random.randrange(1, drawing.rows + 1) if varied else drawing.rows
            for _ in range(steps)]  # fmt: skip
    outputs = [name for name in dict.fromkeys(random.choices(results, k=2)) if drawing.chance(0.3)]
    program = {
        "seed": random.randrange(2**31), "device": device,
        "type": "float64" if device == "reference" else "float32", "batch": drawing.batch,
        "values": {name: v for name, v in drawing.values.items() if name in read},
        "nodes": nodes,
        "losses": [losses.draw(drawing, name, drawing.shapes[name]) for name in [first, *others]],
        "optimizer": optimizers.draw(drawing), "rows": rows, "micro": micro, "outputs": outputs,
        "phases": drawing.chance(0.5), "fused": drawing.chance(0.85),
        "input_gradients": drawing.chance(0.25), "limit": drawing.chance(0.1),
        "threads": drawing.choice([1, 1, 1, 2]),
    }  # fmt: skip
    return program | draw_uses(drawing, program)


def draw_uses(drawing: Drawing, program: Program) -> Program:
    """What else a program does with its graph."""
    nodes, ends = program["nodes"], [loss["source"] for loss in program["losses"]]
    for node in nodes.values():
        if drawing.chance(0.03) and node["layer"] != "MLCSplitLayer":
            node["stop"] = True
    going = [name for name in drawing.shapes if name in gradients_reach(program)]
    need(bool(set(going) & set(program["values"])), "no gradient")
    going = [name for name in going if name.startswith("n")]
    waits = program["input_gradients"] or program["micro"] > 1 or drawing.chance(0.75)
    keeps = bool(optimizers.slots(program["optimizer"]) and trained(program))
    rebound = keeps and program["micro"] == 1 and drawing.chance(0.15)
    again = drawing.chance(0.75) or any("again" in node for node in nodes.values())
    return {
        "loss_layer": len(ends) == 1 and drawing.chance(0.5),
        "split": 0 if again else drawing.random.randrange(len(nodes)),
        "inner": [name for name in going if drawing.chance(0.05)],
        "user": drawing.choice(going) if program["phases"] and drawing.chance(0.2) else None,
        "buffers": rebound or (keeps and drawing.chance(0.2)), "rebound": rebound,
        "waits": waits, "handles": drawing.chance(0.2), "inference": drawing.chance(0.2),
        "any_batch": drawing.chance(0.5),
    }  # fmt: skip
