"""Draws a program of nodes."""

from collections.abc import Callable
from random import Random
from typing import Any

from random_graphs.drawing import Drawing, draw_node
from random_graphs.layer import Shape, need, reached
from random_graphs.program import Program

from . import losses, optimizers
from .script import BY_IMAGE, flowing
from .table import NODES

STYLES = ["gpu", "gpu", "gpu", "gpu", "cpu", "none"]


class NodeDrawing(Drawing):
    layers = NODES

    def is_stopped(self, name: str) -> bool:
        return bool(self.nodes.get(name.partition("_")[0], {}).get("stop"))

    def read(self) -> str:
        """Mostly the newest image that gradients flow to: what no loss reads is cut off."""
        going = [name for name in self.flows if not self.is_stopped(name)]
        return going[-1] if self.chance(0.65) else super().read()

    def flow(self, fits: Callable[[Shape], bool], otherwise: str | None = None) -> str:
        """Often an image that stops gradients: only a second source may."""
        stopped = [n for n in self.flows if self.is_stopped(n) and fits(self.shapes[n])]
        if stopped and self.chance(0.5):
            return str(self.choice(stopped))
        return super().flow(fits, otherwise)

    def node(self, kind: str, source: str) -> dict[str, Any]:
        self.source = source
        node = self.fields(kind, source)
        if not node.get("stop"):
            node["stop"] = self.chance(0.04)
        return node

    def source_layer(self) -> str:
        return self.layer_of(self.source)

    def layer_of(self, name: str) -> str:
        """The class that makes an image."""
        return str(self.nodes.get(name.rpartition("_")[0], {}).get("layer", ""))


def draw(random: Random, devices: list[str]) -> Program:
    drawing = NodeDrawing(random, False)
    drawing.batch = True
    plane = [drawing.choice([1, 2, 3, 4, 5, 8, 9]) for _ in "yx"]
    for _ in range(drawing.choice([1, 1, 2])):
        shape = [drawing.rows, drawing.choice([1, 2, 3, 4, 5, 8, 9]), *plane]
        kind = "coarse" if drawing.chance(0.1) else "normal"
        drawing.flows.append(drawing.value("input", shape, kind))
    wanted = random.randrange(1, 13)
    for _ in range(3 * wanted):
        if len(drawing.nodes) < wanted:
            draw_node(drawing)
    nodes, optimizer = drawing.nodes, optimizers.draw(drawing)
    ends = [f"{name}_0" for name, node in nodes.items() if not node["stop"]]
    need(bool(ends), "no node")
    end = max(ends, key=lambda name: len(reached(nodes, [name])))
    loss = losses.draw(drawing, end, drawing.shapes[end])
    # What the loss does not read is no part of the network.
    kept = reached(nodes, [loss["source"], loss.get("labels_from", loss["source"])])
    nodes = {name: node for name, node in nodes.items() if name in kept}
    for node in nodes.values():
        node["style"] = drawing.choice(STYLES)
        if node["layer"] in BY_IMAGE and node["style"] == "gpu":
            node["style"] = "gpu" if optimizers.is_linear(optimizer) else "cpu"
    values = {name: v for name, v in drawing.values.items() if name in kept}
    # Gradients have to come to an input.
    program = {"nodes": nodes, "losses": [loss], "values": values}
    need(bool(flowing(program) & set(values)), "no gradient")
    device = random.choice(devices)
    types = ["float64", "float64", "float32"] if device == "reference" else ["float32"]
    varied, masked = drawing.chance(0.5), any("Dropout" in n["layer"] for n in nodes.values())
    results = [f"{name}_0" for name in nodes]
    outputs = [name for name in dict.fromkeys(random.choices(results, k=2)) if drawing.chance(0.3)]
    # Updates after the run, and numbers that the judge takes from it after each step.
    waits = any(n["style"] == "cpu" or "epsilon" in n["options"] for n in nodes.values())
    return program | {
        "surface": "mps", "seed": random.randrange(2**31), "device": device,
        "type": random.choice(types), "batch": True,
        "optimizer": optimizer, "micro": 1, "outputs": outputs,
        "rows": [random.randrange(1, drawing.rows + 1) if varied else drawing.rows
                 for _ in range(random.randrange(2, 5))],
        "separate": drawing.chance(0.2), "continues": drawing.chance(0.3),
        "waits": waits or drawing.chance(0.5), "reloads": drawing.chance(0.15),
        "inference": not masked and drawing.chance(0.3),
    }  # fmt: skip
