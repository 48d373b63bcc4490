"""A program of nodes as a Python script: what the fuzz runs, and what can be pasted."""

import inspect
import re
from pathlib import Path

from random_graphs.numbers import numbers
from random_graphs.program import Program, gradients_reach, parameters, shapes

from . import losses, optimizers, windows
from .table import NODES

SOURCES = Path(__file__).with_name("sources.py").read_text().partition("\n\n")[2].rstrip()
HEAD = ["import zlib\n\n" + SOURCES, inspect.getsource(numbers).rstrip()]
BY_IMAGE = ("MPSCNNInstanceNormalizationNode", "MPSCNNGroupNormalizationNode")


def drawn(name: str, step: str, shape: str, kind: str, dtype: str, scale: float = 1.0) -> str:
    more = f", scale={scale!r}" if scale != 1 else ""
    return f"numbers(SEED, {name!r}, {step}, {shape}, {kind!r}{more}).astype({dtype!r})"


def source_of(program: Program, name: str) -> str:
    """The data source of a node that has parameters."""
    node, found = program["nodes"][name], shapes(program)
    sources = [found[source] for source in node["sources"]]
    roles = NODES[node["layer"]].parameters(node["options"], sources)
    is_affine = "gamma" in roles
    dtype = "float32" if is_affine else program["type"]
    arrays = [
        drawn(f"{name}_{role}", "0", str(shape), kind, dtype, scale)
        for role, (shape, kind, scale) in roles.items()
    ]
    arrays += ["None"] * (2 - len(arrays))
    rate, used = program["optimizer"]["common"]["learning_rate"], node["style"] == "gpu"
    slots = optimizers.slots(program["optimizer"]) if used else []
    training = f"on, [{', '.join(arrays)}], {'optimizer()' if used else None}, {slots}, {rate}"
    if not is_affine:
        return f"Weights({windows.descriptor(node['options'], sources[0])}, {training})"
    kind = "ByImage" if node["layer"] in BY_IMAGE else "ByBatch"
    options = node["options"]
    return f"{kind}({options['channels']}, {options['groups']}, {options['epsilon']}, {training})"


def forward(program: Program) -> list[str]:
    """The nodes; a function, because a graph of inference has nodes of its own."""
    lines = ["def network():"]
    lines += [f"    {name} = mps.MPSNNImageNode(handle={name!r})" for name in program["values"]]
    made = shapes(program)
    for name, node in program["nodes"].items():
        sources = [made[source] for source in node["sources"]]
        names = {"sources": node["sources"], "data": f"{name}_data"}
        text = NODES[node["layer"]].expression(node["options"], sources, names)
        lines.append(f"    {name} = {text}")
        if NODES[node["layer"]].parameters(node["options"], sources):
            lines.append(f"    {name}.training_style = 'update_device_{node['style']}'")
        lines.append(f"    {name}_0 = {name}.result_image")
        if node.get("stop"):
            lines.append(f"    {name}_0.stop_gradient = True")
    return [*lines, "    return locals()"]


def training(program: Program) -> list[str]:
    """From the last node on: the gradient nodes, and the graph."""
    loss, outputs = program["losses"][0], program["outputs"]
    lines = [f"{loss['source'].rpartition('_')[0]} = nodes[{loss['source'].rpartition('_')[0]!r}]"]
    lines += [f"{loss['source']} = nodes[{loss['source']!r}]"]
    if loss.get("labels_from"):
        lines.append(f"{loss['labels_from']} = nodes[{loss['labels_from']!r}]")
    wanted = [f"nodes[{name!r}]" for name in outputs]
    if loss["form"] == "seed":
        begin = loss["source"].rpartition("_")[0]
        lines.append("y0 = mps.MPSNNImageNode(handle='y0')")
        lines.append(f"ends = {begin}.training_graph(with_source_gradient=y0)")
    else:
        lines += [f"{name} = mps.MPSNNImageNode(handle={name!r})" for name in ("y0", "w0")]
        lines.append(f"loss = {losses.expression(loss)}")
        if loss["form"] == "labels":
            lines.append("ends = loss.training_graph()")
        else:
            begin = "mps.MPSNNInitialGradientNode(source=loss.result_image)"
            lines.append(f"ends = {begin}.training_graph()")
            wanted.append("loss.result_image")
    for name in dropouts(program):
        state = f"nodes[{name!r}].result_state"
        lines += [f"{state}.export_from_graph = True", f"{state}.handle = {name!r}"]
    return [
        *lines,
        "handles = [one.result_image.handle for one in ends]",
        f"inputs = [name for name in {list(program['values'])} if name in handles]",
        "results = [one.result_image for name in inputs for one in ends"
        " if one.result_image.handle == name]",
        f"results += [{', '.join(wanted)}]",
        "needed = len(results)",
        "results += [one.result_image for one in ends if one.result_image.handle not in inputs]",
        "graph = mps.MPSNNGraph(device=on, result_images=results,"
        " results_are_needed=[k < needed for k in range(len(results))])",
        "graph.format, graph.makes_temporary_images = DTYPE, False",
    ]


def dropouts(program: Program) -> list[str]:
    nodes = program["nodes"]
    return [name for name, node in nodes.items() if node["layer"] == "MPSCNNDropoutNode"]


def given(program: Program) -> list[str]:
    """Entries of the dictionary of a step's images."""
    found, dtype = shapes(program), program["type"]

    def entry(name: str, shape: list[int], kind: str) -> str:
        rows = f"[rows, {', '.join(map(str, shape[1:]))}]"
        return f"{name!r}: {drawn(name, 'step', rows, kind, dtype)}"

    entries = [entry(name, v["shape"], v["kind"]) for name, v in program["values"].items()]
    loss = program["losses"][0]
    shape = found[loss["source"]]
    if loss["form"] == "seed":
        entries.append(entry("y0", shape, "normal"))
    elif not loss.get("labels_from"):
        entries.append(entry("y0", shape, losses.label(loss, shape)[1]))
    if loss.get("weighted"):
        entries.append(entry("w0", losses.weight_shape(loss, shape), "weight"))
    return entries


def step(program: Program) -> list[str]:
    """Encodes and commits one step; what it gives is read later."""
    loss, separate = program["losses"][0], program["separate"]
    batch = f"images(on, given[name], {separate})"
    lines = [f"    given = {{{', '.join(given(program))}}}"]
    states = ""
    if loss["form"] == "labels":
        shape = losses.image_shape(loss, shapes(program)[loss["source"]])
        weights = f"images(on, given['w0'], {separate})" if loss["weighted"] else "[None] * rows"
        lines += [
            f"    losses = images(on, np.full([rows, {', '.join(map(str, shape[1:]))}], np.nan,"
            f" DTYPE), {separate})",
            "    labels = [mps.MPSCNNLossLabels(loss_image=a, labels_image=b, weights_image=c)"
            f" for a, b, c in zip(losses, images(on, given['y0'], {separate}), {weights})]",
        ]
        states = ", source_states=[labels]"
    if not program["continues"]:
        lines.append("    buffer = queue.make_command_buffer()")
    lines += [
        "    intermediate, exported = [], []",
        "    first = graph.encode_batch(buffer, source_images=[" + batch
        + f" for name in graph.source_image_handles]{states},"
        " intermediate_images=intermediate, destination_states=exported)",
        "    given_back = ([] if first is None else [first]) + intermediate",
        f"    runs.append((given_back, exported, {'losses' if states else None}))",
    ]  # fmt: skip
    if program["continues"]:
        lines += ["    root = buffer.root_command_buffer", "    buffer.commit_and_continue()"]
    else:
        lines += ["    root = buffer", "    buffer.commit()"]
    if program["waits"]:
        lines.append("    root.wait_until_completed()")
        lines += ["    " + line for line in reading(program, "step")]
    if program["reloads"]:
        lines += ["    if step == 0:", "        graph.reload_from_data_sources()"]
    return lines


def reading(program: Program, at: str) -> list[str]:
    """Parameters, and statistics of batch normalization."""
    lines = []
    for name in parameters(program):
        owner, role = name.split("_")
        which = int(role in ("biases", "beta"))
        if program["nodes"][owner]["style"] != "none":
            lines.append(f"found[f'trained {name} {{{at}}}'] = {owner}_data.values()[{which}]")
    for name in counted(program):
        lines.append(f"found[f'statistics {name} {{{at}}}'] = {name}_data.statistics")
    return lines


def counted(program: Program) -> list[str]:
    """Batch normalizations whose statistics are handed out: those that the CPU updates."""
    return [
        name
        for name, node in program["nodes"].items()
        if node["layer"] == "MPSCNNBatchNormalizationNode" and node["style"] == "cpu"
        if name in flowing(program)
    ]


def flowing(program: Program) -> set[str]:
    """Nodes and values that a gradient comes to. Others are not trained: a batch normalization
    takes the statistics of its data source."""
    return {name.rpartition("_")[0] or name for name in gradients_reach(program)}


def body(program: Program) -> str:
    loss, outputs = program["losses"][0], program["outputs"]
    fixed = [f"result {name}" for name in outputs] + ["loss"] * (loss["form"] == "image")
    owners = dict.fromkeys(name.split("_")[0] for name in parameters(program))
    lines = [f"SEED, DTYPE = {program['seed']}, {program['type']!r}"]
    lines.append(f"on = mps.MTLDevice(device={program['device']!r})")
    lines.append("queue = on.make_command_queue()")
    lines.append(f"def optimizer():\n    return {optimizers.expression(program['optimizer'])}")
    lines += [f"{name}_data = {source_of(program, name)}" for name in owners]
    lines += [*forward(program), "nodes = network()", *training(program), "found, runs = {}, []"]
    if program["continues"]:
        lines.append("buffer = mps.MPSCommandBuffer(from_command_queue=queue)")
    lines += [f"for step, rows in enumerate({program['rows']}):", *step(program)]
    lines += ["root.wait_until_completed()"]
    if not program["waits"]:
        lines += [f"step = {len(program['rows']) - 1}", *reading(program, "step")]
    lines += [
        "for step, (given_back, exported, losses) in enumerate(runs):",
        "    names = [f'gradient {name} {step}' for name in inputs]",
        f"    names += [f'{{name}} {{step}}' for name in {fixed}]",
        "    assert len(names) == len(given_back), (names, given_back)",
        "    found |= {name: array(one, DTYPE) for name, one in zip(names, given_back)}",
    ]
    if loss["form"] == "labels":
        lines.append("    found[f'loss {step}'] = array(losses, DTYPE)")
    for name in dropouts(program):
        lines.append(
            f"    found[f'mask {name} {{step}}'] = np.concatenate("
            f"[np.frombuffer(one.mask_data(), np.uint8)"
            f" for one in exported[graph.result_state_handles.index({name!r})]])"
        )
    if program["inference"]:
        lines += inference(program)
    return "\n".join(lines) + "\n"


def inference(program: Program) -> list[str]:
    """Another graph over the same data sources, which then give what was trained."""
    source = program["losses"][0]["source"]
    return [
        f"graph = mps.MPSNNGraph(device=on, result_image=network()[{source!r}])",
        "graph.format, graph.makes_temporary_images = DTYPE, False",
        "buffer = queue.make_command_buffer()",
        "last = graph.encode_batch(buffer, source_images=[images(on, given[name])"
        " for name in graph.source_image_handles])",
        "buffer.commit()",
        "buffer.wait_until_completed()",
        "found['inference'] = array(last, DTYPE)",
    ]


def script(program: Program) -> str:
    """With those functions and classes of the head that it uses."""
    text = body(program)
    for block in reversed("\n\n\n".join(HEAD).split("\n\n\n")):
        name = re.match(r"(?:def|class) (\w+)", block)
        if name is None or re.search(rf"\b{name[1]}\b", text):
            text = f"{block}\n\n\n{text}"
    return text
