"""The network of a program as Python text, and the data of its steps."""

from typing import Any

from . import losses
from .program import Program, parameters, shapes
from .table import LAYERS


def build(program: Program) -> list[str]:
    """Tensors, layers, nodes and losses."""
    found, kind, lines = shapes(program), program["type"], []
    for name, v in program["values"].items():
        dtype = {"index": v.get("type", "int64"), "boolean": "boolean"}.get(v["kind"], kind)
        if v["role"] == "input":
            lines.append(f"{name} = tg.MLCTensor(shape={v['shape']}, data_type={dtype!r})")
        else:
            lines.append(f"{name} = tg.MLCTensor(data={data(name, v, v['shape'], '0', dtype)})")
    for name, (shape, what, scale) in parameters(program).items():
        given = {"kind": what, "scale": scale}
        lines.append(f"{name} = tg.MLCTensor(data={data(name, given, shape, '0', kind)})")
    lines.append("graph = tg.MLCGraph()")
    lines.append("graphs = [graph]")
    for number, (name, node) in enumerate(program["nodes"].items()):
        if number and number == program.get("split"):
            # The other nodes are in a graph of their own, and read tensors of the first one.
            lines += ["graph = tg.MLCGraph()", "graphs.append(graph)"]
        sources = [found[source] for source in node["sources"]]
        layer = LAYERS[node["layer"]]
        roles = layer.parameters(node["options"], sources)
        names = {role: f"{name}_{role}" for role in roles}
        own = node.get("again", name)
        if "again" not in node:
            lines.append(f"{name} = {layer.expression(node['options'], sources, names)}")
        frozen = ", disable_update=True" if node.get("frozen") else ""
        read = ", ".join(node["sources"])
        results = [key for key in found if key.rpartition("_")[0] == name]
        call = f"graph.node({own}, sources=[{read}]{frozen})"
        if len(results) > 1:
            lines += [call, f"{', '.join(results)} = graph.result_tensors({own})"]
        else:
            lines.append(f"{results[0]} = {call}")
    for k, loss in enumerate(program["losses"]):
        shape = found[loss["source"]]
        labels, what = losses.label(loss, shape)
        dtype = "int64" if what == "class" else kind
        lines.append(f"y{k} = tg.MLCTensor(shape={labels}, data_type={dtype!r})")
        if loss["weighted"]:
            weights = losses.weight_shape(loss, shape)
            lines.append(f"w{k} = tg.MLCTensor(shape={weights}, data_type={kind!r})")
        made = losses.expression(loss, f"w{k}")
        if program.get("loss_layer"):
            lines.append(f"loss = {made}")
        else:
            call = f"sources=[{loss['source']}], loss_labels=[y{k}]"
            lines.append(f"graph.node({made}, {call})")
    return lines


def data(name: str, value: dict[str, Any], shape: list[int], step: str, dtype: str,
         batch: bool = False) -> str:  # fmt: skip
    text = f"[rows, {', '.join(map(str, shape[1:]))}]" if batch else str(list(shape))
    more = "".join(f", {key}={value[key]!r}" for key in ("scale", "below") if key in value)
    dtype = {"boolean": "bool"}.get(dtype, dtype)
    call = f"numbers(SEED, {name!r}, {step}, {text}, {value['kind']!r}{more})"
    return f"{call}.astype({dtype!r})"


def step_data(program: Program) -> dict[str, list[str]]:
    """Entries of the dictionaries that a step is given."""
    found, kind, batch = shapes(program), program["type"], program["batch"]
    entries: dict[str, list[str]] = {"inputs": [], "labels": [], "weights": []}
    for name, v in program["values"].items():
        if v["role"] == "input":
            dtype = {"index": v.get("type"), "boolean": "bool"}.get(v["kind"], kind)
            entries["inputs"].append(f"{name!r}: {data(name, v, v['shape'], 'step', dtype, batch)}")
    for k, loss in enumerate(program["losses"]):
        shape = found[loss["source"]]
        labels, what = losses.label(loss, shape)
        value = {"kind": what, "below": shape[1] if what == "class" else 1}
        dtype = "int64" if what == "class" else kind
        entries["labels"].append(f"'y{k}': {data(f'y{k}', value, labels, 'step', dtype, batch)}")
        if loss["weighted"]:
            weights = losses.weight_shape(loss, shape)
            text = data(f"w{k}", {"kind": "weight"}, weights, "step", kind, batch)
            entries["weights"].append(f"'w{k}': {text}")
    return entries
