"""Programs that are a little less than one: the steps by which a failure is made small."""

import copy
from collections.abc import Callable, Iterator
from typing import Any

from .layer import Invalid, reached
from .program import Program, shapes

PLAIN = {
    "micro": 1, "phases": False, "fused": True, "limit": False, "threads": 1, "outputs": [],
    "input_gradients": False, "separate": False, "continues": False, "waits": True,
    "reloads": False, "inference": False, "loss_layer": False, "split": 0, "inner": [],
    "user": None, "buffers": False, "rebound": False, "handles": False,
    "any_batch": False,
    "optimizer": {
        "kind": "sgd", "common": {"learning_rate": 0.1},
        "own": {"momentum_scale": 0.0, "uses_nesterov_momentum": False},
    },
}  # fmt: skip
Change = Callable[[Program], None]


def setting(where: list[Any], value: Any) -> Change:
    """Puts a value at a path of keys; None takes the key out."""

    def change(program: Program) -> None:
        one: Any = program
        for key in where[:-1]:
            one = one[key]
        if value is None:
            del one[where[-1]]
        else:
            one[where[-1]] = value

    return change


def without(name: str, cut: bool) -> Change:
    """A node is left out, or all before it: an input is read in place of what is gone."""

    def change(program: Program) -> None:
        all_shapes = shapes(program)
        nodes = program["nodes"]
        node = nodes[name] if cut else nodes.pop(name)
        readers = {name: node} if cut else nodes
        gone = [s for s in all_shapes if s.rpartition("_")[0] == name]
        for source in node["sources"] if cut else gone:
            if cut and not source.startswith("n"):
                continue
            value = f"v{100 + len(program['values'])}"
            new = {"role": "input", "shape": all_shapes[source], "kind": "normal"}
            same = [s for s in node["sources"] if all_shapes[s] == all_shapes[source]]
            if not cut and same and same[0].startswith("n"):
                value = same[0]
            else:
                program["values"][value] = new
            for reader in readers.values():
                reader["sources"] = [value if s == source else s for s in reader["sources"]]
            if not cut:
                before = [s for s in node["sources"] if s.startswith("n")]
                for loss in program["losses"]:
                    if loss["source"] == source and before:
                        loss["source"] = before[0]

    return change


def numbers_in(options: Any, where: list[Any]) -> Iterator[tuple[list[Any], Any]]:
    pairs: Any = []
    if isinstance(options, dict):
        pairs = options.items()
    elif isinstance(options, list):
        pairs = enumerate(options)
    elif isinstance(options, bool) and options:
        yield where, False
    elif isinstance(options, int) and options > 1:
        yield from ((where, value) for value in {1, options // 2, options - 1})
    for key, one in pairs:
        yield from numbers_in(one, [*where, key])


def resized(name: str, axis: int, extent: int) -> Change:
    def change(program: Program) -> None:
        own = program["values"][name]["shape"]
        for value in program["values"].values():
            shape = value["shape"]
            rows = axis == 0 and program["batch"] and value["role"] == "input"
            if shape == own or rows:
                value["shape"] = [*shape[:axis], extent, *shape[axis + 1 :]]
        if axis == 0 and program["batch"]:
            program["rows"] = [min(rows, extent) for rows in program["rows"]]
        elif axis == 0:
            program["rows"] = [extent for _ in program["rows"]]

    return change


def changes(program: Program) -> Iterator[Change]:
    rows, micro = program["rows"], program["micro"]
    yield from (setting([key], value) for key, value in PLAIN.items() if key in program)
    yield setting(["rows"], rows[:micro])
    yield setting(["rows"], rows[: max(1, len(rows) // 2)])
    for name in reversed(program["nodes"]):
        yield without(name, cut=False)
        yield without(name, cut=True)
    for k, loss in enumerate(program["losses"]):
        yield setting(["losses"], program["losses"][k : k + 1])
        for key in ("weight", "label_smoothing"):
            if key in loss:
                yield setting(["losses", k, key], None)
        yield setting(["losses", k, "weighted"], False)
        yield setting(["losses", k, "reduction_type"], "sum")
        if loss.get("form", "seed") != "seed":
            yield setting(["losses", k], {"source": loss["source"], "form": "seed"})
        if loss.get("type", "mean_squared_error") != "mean_squared_error":
            plain = {"type": "mean_squared_error", "classes": False, "label_smoothing": 0}
            yield setting(["losses", k], loss | plain)
    for part in ("common", "own"):
        for key in program["optimizer"][part]:
            if key != "learning_rate":
                yield setting(["optimizer", part, key], None)
    for name, node in program["nodes"].items():
        if node.get("style", "none") != "none":
            yield setting(["nodes", name, "style"], "none")
        for where, value in numbers_in(node["options"], ["nodes", name, "options"]):
            yield setting(where, value)
    for name, value in program["values"].items():
        for axis, extent in enumerate(value["shape"]):
            for less in {1, extent // 2, extent - 1}:
                if 0 < less < extent:
                    yield resized(name, axis, less)


def tidy(program: Program) -> None:
    """Takes out what no loss depends on."""
    nodes = program["nodes"]
    losses = program["losses"]
    wanted = reached(nodes, [loss.get(key, loss["source"]) for loss in losses
                             for key in ("source", "labels_from")])  # fmt: skip
    program["nodes"] = {name: node for name, node in nodes.items() if name in wanted}
    read = {s for node in program["nodes"].values() for s in node["sources"]}
    program["values"] = {name: v for name, v in program["values"].items() if name in read}
    program["outputs"] = [s for s in program["outputs"] if s.rpartition("_")[0] in wanted]


def smaller_programs(program: Program) -> Iterator[Program]:
    for change in changes(program):
        found = copy.deepcopy(program)
        try:
            change(found)
            tidy(found)
            shapes(found)
        except (Invalid, KeyError, IndexError, ValueError):
            continue
        if found != program and found["nodes"] and found["values"]:
            yield found
