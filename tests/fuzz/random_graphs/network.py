"""A program as a Python script: what the fuzz runs, and what can be pasted."""

import inspect
from typing import Any

from . import losses, optimizers
from .numbers import numbers
from .program import Program, parameters, running, shapes, trained
from .table import LAYERS

HEAD = "import zlib\n\nimport numpy as np\n\nimport traingraph as tg\n\n\n"


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
    for name, node in program["nodes"].items():
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
        lines.append(f"graph.node({made}, sources=[{loss['source']}], loss_labels=[y{k}])")
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


def outputs(program: Program) -> dict[str, tuple[str, list[int]]]:
    found = shapes(program)
    return {f"result {name}": (name, found[name]) for name in program["outputs"]}


def body(program: Program) -> str:
    entries = step_data(program)
    names = {part: [e.split(":")[0] for e in lines] for part, lines in entries.items()}
    declared = {p: "{" + ", ".join(f"{n}: {n[1:-1]}" for n in names[p]) + "}" for p in names}
    values = [n for n in trained(program) if n in program["values"]]
    options = [] if program["fused"] else ["DISABLE_LAYER_FUSION"]
    options += ["COMPUTE_ALL_GRADIENTS"] if program["input_gradients"] else []
    flags = " | ".join(f"tg.MLCGraphCompilationOptions.{name}" for name in options or ["NONE"])
    results = {name: v for name, (v, _) in outputs(program).items()}
    extent = (lambda s: f"[rows, {', '.join(map(str, s[1:]))}]") if program["batch"] else str
    arrays = ", ".join(
        f"{name!r}: np.full({extent(s)}, np.nan, {program['type']!r})"
        for name, (_, s) in outputs(program).items()
    )
    lines = [f"SEED = {program['seed']}", f"tg.set_num_threads({program['threads']})"]
    lines += build(program)
    lines += [
        f"optimizer = {optimizers.expression(program['optimizer'])}",
        "training = tg.MLCTrainingGraph(graph_objects=[graph], optimizer=optimizer)",
        f"training.add_inputs({declared['inputs']}, loss_labels={declared['labels']}, "
        f"loss_label_weights={declared['weights']})",
        "training.set_training_tensor_parameters([" + ", ".join(
            f"tg.MLCTensorParameter(tensor={n})" for n in values) + "])",
        f"training.add_outputs({{{', '.join(f'{k!r}: {v}' for k, v in results.items())}}})",
        f"training.micro_batches = {program['micro']}",
        f"training.compile(options={flags}, device={program['device']!r})",
    ]  # fmt: skip
    if program["limit"] and not program["phases"]:
        lines += [
            "total = training.memory_plan().total_bytes",
            "for share in (0.6, 0.8, 0.9, 1.0):",
            "    try:",
            f"        training.compile(options={flags}, device={program['device']!r}, "
            "memory_limit=int(total * share))",
            "        break",
            "    except MemoryError:",
            "        pass",
        ]
    lines += [
        "found = {}",
        f"trained = {{{', '.join(f'{n!r}: {n}' for n in trained(program))}}}",
        f"for step, rows in enumerate({program['rows']}):",
        *(f"    {part} = {{{', '.join(entries[part])}}}" for part in entries),
        f"    outputs = {{{arrays}}}",
        "    call = {'batch_size': %s, 'options': 'synchronous'}"
        % ("rows" if program["batch"] else "0"),
    ]
    last = f"(step + 1) % {program['micro']} == 0"
    if program["phases"]:
        every = f"{{{', '.join(f'**{declared[part]}' for part in entries)}}}"
        lines += [
            f"    training.bind_and_write_data({{**inputs, **labels, **weights}}, "
            f"for_inputs={every}, batch_size=call['batch_size'])",
            "    run = training.execute_forward(outputs_data=outputs, **call)",
            "    training.execute_gradient(**call)",
            f"    if {last}:",
            "        training.execute_optimizer_update(options='synchronous')",
        ]
    else:
        lines.append(
            "    run = training.execute(inputs_data=inputs, loss_labels_data=labels, "
            "loss_label_weights_data=weights, outputs_data=outputs, **call)"
        )
    lines += [
        "    found[f'loss {step}'] = np.array(run.result)",
        "    found |= {f'{name} {step}': array for name, array in outputs.items()}",
    ]
    if program["input_gradients"]:
        for name, v in program["values"].items():
            if v["role"] == "input" and v["kind"] in ("normal", "coarse"):
                lines += [
                    f"    gradient = np.empty({v['shape']}, {program['type']!r})",
                    f"    training.gradient_tensor({name}).copy_data_from_device_memory(gradient)",
                    f"    found[f'gradient {name} {{step}}'] = gradient"
                    + ("[:rows]" if program["batch"] else ""),
                ]
    lines += [
        f"    if {last}:",
        "        training.synchronize_updates()",
        "        found |= {f'trained {n} {step}': np.array(t.data) for n, t in trained.items()}",
    ]
    for name in running(program):
        lines.append(f"found['running {name}'] = np.array({name}.data)")
    return "\n".join(lines) + "\n"


def script(program: Program) -> str:
    return HEAD + inspect.getsource(numbers) + "\n\n" + body(program)
