"""A program as a Python script: what the fuzz runs, and what can be pasted."""

import inspect

from . import optimizers
from .network import build, data, step_data
from .numbers import numbers
from .program import Program, inputs_with_gradients, parameters, running, shapes, trained

HEAD = "import zlib\n\nimport numpy as np\n\nimport traingraph as tg\n\n\n"


def arrays(program: Program, names: list[str], prefix: str) -> str:
    """A dictionary of arrays for results or their gradients."""
    found, kind = shapes(program), program["type"]
    entries = []
    for name in names:
        shape = ", ".join(map(str, found[name]))
        if program["batch"]:
            shape = f"rows, {', '.join(map(str, found[name][1:]))}"
        entries.append(f"'{prefix} {name}': np.full([{shape}], np.nan, {kind!r})")
    return f"{{{', '.join(entries)}}}"


def buffers(program: Program, name: str, step: str) -> list[str]:
    """What an optimizer keeps for a parameter, drawn: arrays as text."""
    shape, kind = trained_shapes(program)[name], program["type"]
    return [
        data(f"{name} {slot}", {"kind": drawn, "scale": scale}, shape, step, kind)
        for slot, drawn, scale in optimizers.slots(program["optimizer"])
    ]


def trained_shapes(program: Program) -> dict[str, list[int]]:
    found = {name: shape for name, (shape, _, _) in parameters(program).items()}
    found |= {name: value["shape"] for name, value in program["values"].items()}
    return {name: found[name] for name in trained(program)}


def rebinding(program: Program, step: str, indent: str) -> list[str]:
    return [
        f"{indent}training.bind_optimizer_data([{', '.join(buffers(program, name, step))}], "
        f"tensor={name})"
        for name in trained(program)
        if optimizers.slots(program["optimizer"])
    ]


def compiling(program: Program) -> list[str]:
    entries = step_data(program)
    names = {part: [e.split(":")[0] for e in lines] for part, lines in entries.items()}
    declared = {p: "{" + ", ".join(f"{n}: {n[1:-1]}" for n in names[p]) + "}" for p in names}
    values = [n for n in trained(program) if n in program["values"]]
    options = [] if program["fused"] else ["DISABLE_LAYER_FUSION"]
    options += ["COMPUTE_ALL_GRADIENTS"] if program["input_gradients"] else []
    options += ["ANY_BATCH_SIZE"] if program.get("any_batch") else []
    flags = " | ".join(f"tg.MLCGraphCompilationOptions.{name}" for name in options or ["NONE"])
    stopped = [f"{name}_0" for name, node in program["nodes"].items() if node.get("stop")]
    outputs = [f"'result {name}': {name}" for name in program["outputs"]]
    outputs += [f"'inner {n}': training.gradient_tensor({n})" for n in program.get("inner", [])]
    loss = "loss_layer=loss, " if program.get("loss_layer") else ""
    lines = [
        f"optimizer = {optimizers.expression(program['optimizer'])}",
        f"training = tg.MLCTrainingGraph(graph_objects=graphs, {loss}optimizer=optimizer)",
        f"training.add_inputs({declared['inputs']}, loss_labels={declared['labels']}, "
        f"loss_label_weights={declared['weights']})",
        "training.set_training_tensor_parameters([" + ", ".join(
            f"tg.MLCTensorParameter(tensor={n})" for n in values) + "])",
        f"training.add_outputs({{{', '.join(outputs)}}})",
        f"training.micro_batches = {program['micro']}",
    ]  # fmt: skip
    if stopped:
        lines.append(f"training.stop_gradient([{', '.join(stopped)}])")
    if program.get("user"):
        lines.append(f"incoming = training.allocate_user_gradient({program['user']})")
    if program.get("inference"):
        lines += [
            "inference = tg.MLCInferenceGraph(graph_objects=graphs)",
            f"inference.add_inputs({declared['inputs']}, loss_labels={declared['labels']}, "
            f"loss_label_weights={declared['weights']})",
            f"inference.add_outputs({{'inference': {program['losses'][0]['source']}}})",
            f"inference.compile(device={program['device']!r})",
        ]
    lines.append(f"training.compile(options={flags}, device={program['device']!r})")
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
    return lines


def in_phases(program: Program, declared: str, handler: str) -> list[str]:
    """Forward, gradient and update by calls of their own."""
    lines = [
        f"    training.bind_and_write_data({{**inputs, **labels, **weights}}, "
        f"for_inputs={declared}, batch_size=call['batch_size'])",
        f"    run = training.execute_forward(outputs_data=outputs, **call{handler})",
    ]
    if program.get("user"):
        value, shape = {"kind": "normal"}, shapes(program)[program["user"]]
        array = data("user", value, shape, "step", program["type"], program["batch"])
        lines.append(
            f"    training.bind_and_write_data({{'user': {array}}}, "
            "for_inputs={'user': incoming}, batch_size=call['batch_size'])"
        )
    given = "outputs_data=inner, " if program.get("inner") else ""
    return [
        *lines,
        f"    training.execute_gradient({given}**call)",
        f"    if (step + 1) % {program['micro']} == 0:",
        "        training.execute_optimizer_update(options=call['options'])",
    ]


def steps(program: Program) -> list[str]:
    entries = step_data(program)
    every = [e.split(":")[0] for part in entries.values() for e in part]
    declared = f"{{{', '.join(f'{n}: {n[1:-1]}' for n in every)}}}"
    waits, handles = program.get("waits", True), program.get("handles")
    rows = "rows" if program["batch"] else "0"
    handler = ", completion_handler=handler" if handles else ""
    lines = [
        f"for step, rows in enumerate({program['rows']}):",
        *(f"    {part} = {{{', '.join(entries[part])}}}" for part in entries),
        f"    outputs = {arrays(program, program['outputs'], 'result')}",
        f"    inner = {arrays(program, program.get('inner', []), 'inner')}",
        f"    call = {{'batch_size': {rows}, 'options': {'synchronous' if waits else 'none'!r}}}",
    ]
    if handles:
        lines += [
            "    def handler(result, error, seconds, step=step):",
            "        handled[f'handled {step}'] = np.array(result.data)",
        ]
    if program["phases"]:
        lines += in_phases(program, declared, handler)
    else:
        lines.append(
            "    run = training.execute(inputs_data=inputs, loss_labels_data=labels, "
            "loss_label_weights_data=weights, outputs_data={**outputs, **inner}, "
            f"**call{handler})"
        )
    lines.append("    runs.append((run, {**outputs, **inner}))")
    if program["input_gradients"]:
        lines += input_gradients(program)
    if program.get("rebound"):
        lines += ["    if step == 0:", *rebinding(program, "1", " " * 8)]
    if waits:
        lines += [
            f"    if (step + 1) % {program['micro']} == 0:",
            "        training.synchronize_updates()",
            "        found |= {f'trained {name} {step}': np.array(tensor.data)"
            " for name, tensor in trained.items()}",
        ]
    return lines


def input_gradients(program: Program) -> list[str]:
    lines = []
    for name in inputs_with_gradients(program):
        lines += [
            f"    gradient = np.empty({program['values'][name]['shape']}, {program['type']!r})",
            f"    training.gradient_tensor({name}).copy_data_from_device_memory(gradient)",
            f"    found[f'gradient {name} {{step}}'] = gradient"
            + ("[:rows]" if program["batch"] else ""),
        ]
    return lines


def ending(program: Program) -> list[str]:
    """What is read when all steps were submitted."""
    lines = []
    if program.get("inference"):
        source, rows = program["losses"][0]["source"], "rows" if program["batch"] else "0"
        lines += [
            f"last = {arrays(program, [source], 'inference')}['inference {source}']",
            "run = inference.execute(inputs_data=inputs, loss_labels_data=labels, "
            "loss_label_weights_data=weights, outputs_data={'inference': last}, "
            f"batch_size={rows}, options='synchronous')",
            "found['inference'] = last",
        ]
        if program.get("loss_layer"):  # no layer of the graph: the prediction is the result
            lines.append("found['inference result'] = np.array(run.result)")
    lines += [
        "for step, (run, written) in enumerate(runs):",
        "    found[f'loss {step}'] = np.array(run.result)",
        "    found |= {f'{name} {step}': array for name, array in written.items()}",
        "training.synchronize_updates()",
        "for name, (run, _) in zip(handled, runs):",
        "    # A tensor of the whole batch.",
        "    found[name] = handled[name].reshape(-1)[: np.size(run.result)]",
    ]
    if not program.get("waits", True):
        lines.append(
            "found |= {f'trained {n} {step}': np.array(t.data) for n, t in trained.items()}"
        )
    for name in running(program):
        lines.append(f"found['running {name}'] = np.array({name}.data)")
    if program.get("buffers"):
        lines += [
            "for name, tensor in trained.items():",
            "    tensor.synchronize_optimizer_data()",
            "    for k, kept in enumerate(tensor.optimizer_data):",
            "        found[f'buffer {name} {k}'] = kept",
        ]
    return lines


def body(program: Program) -> str:
    lines = [f"SEED = {program['seed']}", f"tg.set_num_threads({program['threads']})"]
    lines += [*build(program), *compiling(program), "found, handled, runs = {}, {}, []"]
    lines.append(f"trained = {{{', '.join(f'{n!r}: {n}' for n in trained(program))}}}")
    lines += rebinding(program, "0", "") if program.get("buffers") else []
    return "\n".join([*lines, *steps(program), *ending(program)]) + "\n"


def script(program: Program) -> str:
    return HEAD + inspect.getsource(numbers) + "\n\n" + body(program)
