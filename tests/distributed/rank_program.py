"""What one rank of the tests runs: python rank_program.py SCENARIO OPTIONS, options as JSON.

Prints one line of JSON. Without the variables of a launcher it is the one rank that others are
compared with.
"""

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from rank_batches import Batches
from rank_losses import losses
from rank_mistakes import fails, orders, refuses
from rank_networks import CLASSES, ROWS, Options, blocks, digest, network, samples, shape_of

import traingraph
from traingraph import nn

STEPS = 50


def steps(options: Options, world: Any) -> Options:
    """Losses of this rank's rows."""
    model = network(options, world)
    count = options.get("steps", STEPS)
    micro = options.get("micro_batches", 1)
    model.micro_batches = micro
    x, y = samples(options, ROWS * 4)
    rows = ROWS // world.size
    losses = []
    for step in range(count * micro):
        first = step % 4 * ROWS + world.rank * rows
        part = slice(first, first + rows)
        given = {"inputs_data": {"x": x[part]}, "loss_labels_data": {"y": y[part]}}
        if options.get("synchronous"):
            given["options"] = traingraph.MLCExecutionOptions.SYNCHRONOUS
        loss = model.execute(**given).result
        losses.append(float(np.asarray(loss).item()))
    buffers = ("momentum", "first_moment", "second_moment")
    plan = model.memory_plan()
    kept = [entry.bytes for entry in plan.entries if entry.name.endswith(buffers)]
    return {
        "losses": losses,
        "digest": digest(model),
        "buffer_bytes": sum(kept),
        "all_bytes": plan.persistent_bytes + plan.arena_bytes,
    }


def queues(options: Options, world: Any) -> Options:
    """Steps that nobody waits for, before each call of all ranks."""
    x, y = samples(options, ROWS)
    rows = ROWS // world.size
    models = [network(options, world)]
    losses = []
    for _ in range(options["steps"]):
        for model in models:
            for _ in range(3):
                model.execute(inputs_data={"x": x[:rows]}, loss_labels_data={"y": y[:rows]})
        losses.append(models[0].evaluate(x, labels=y).loss)
        models[-1].execute(inputs_data={"x": x[:rows]}, loss_labels_data={"y": y[:rows]})
        models.append(network(options, world))
        models[-1].execute(inputs_data={"x": x[:rows]}, loss_labels_data={"y": y[:rows]})
        losses.append(models[0].fit(x, labels=y)[-1].loss)
    return {"losses": losses}


def launches(options: Options, world: Any) -> Options:
    """On the device, of steps after those that are recorded."""
    from traingraph import _testing

    def count() -> int:
        return int(_testing.device_counters("cuda", world.local_rank)["launches"])

    model = network(options, world)
    x, y = samples(options, ROWS // world.size)
    counts = []
    for _ in range(6):
        before = count()
        model.execute(inputs_data={"x": x}, loss_labels_data={"y": y}).wait()
        counts.append(count() - before)
    return {"launches": counts[3:]}


def gradients(options: Options, world: Any) -> Options:
    """Of parameters after separate calls: those of all ranks.

    `part` of one rank: which of how many ranks it stands for.
    """
    place, count = options.get("part", (world.rank, world.size))
    rows = ROWS // count
    graph = traingraph.MLCGraph()
    declared = {
        "x": traingraph.MLCTensor(shape=[rows, *shape_of(options["net"])]),
        "y": traingraph.MLCTensor(shape=[rows, CLASSES]),
    }
    traingraph.MLCPlatform.set_rng_seed_to(7)
    nn.sequential(graph, declared["x"], blocks(options["net"]))
    training = traingraph.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=traingraph.MLCLossLayer.mean_squared_error(reduction_type=options["reduction"]),
    )
    training.add_inputs({"x": declared["x"]}, loss_labels={"y": declared["y"]})
    training.compile(
        device="cpu",
        distributed=world,
        synchronized_batch_norm=options.get("synchronized", False),
        gradient_exchange=options.get("exchange"),
    )
    random = np.random.default_rng(5)
    part = slice(place * rows, (place + 1) * rows)
    data = {
        name: random.standard_normal((ROWS, *tensor.descriptor.shape[1:])).astype(np.float32)[part]
        for name, tensor in declared.items()
    }
    training.bind_and_write_data(data, for_inputs=declared)
    training.execute_forward()
    training.execute_gradient()
    return {
        "gradients": [
            training.gradient_data(parameter, layer=layer).ravel().tolist()
            for layer in graph.layers
            for name in ("weights", "biases", "gamma", "beta")
            if (parameter := getattr(layer, name, None)) is not None
        ]
    }


def checks(options: Options, world: Any) -> Options:
    """Gradients of a rank's own rows, by difference quotients."""
    model = network(options, world)
    rows = ROWS // world.size
    x, y = samples(options, rows)
    if options.get("shard"):
        try:
            traingraph.check_gradients(model, {"x": x}, {"y": y})
        except traingraph.Unsupported as error:
            return {"error": str(error)}
    if world.rank == 0:
        rows_of_parameters = traingraph.check_gradients(model, {"x": x}, {"y": y}).rows
        return {"passed": [row.ok for row in rows_of_parameters]}
    return {}


def resumes(options: Options, world: Any) -> Options:
    """Of a fit of many epochs those up to `epochs`, from the file that fewer or more have left."""
    model = network(options, world)
    x, y = samples(options, 3 * ROWS + 5)
    saved = []

    def asks(epoch: Any) -> bool:
        # By rank 0 alone.
        model.save(options["file"] + ".asked")
        saved.append(len(model.state()))
        return True

    epochs = model.fit(
        x,
        labels=y,
        epochs=options["epochs"],
        callbacks=[
            traingraph.EarlyStopping(patience=100, restores_best=False),
            traingraph.Checkpoint(path=options["file"], every_steps=3),
        ],
        resume=options["file"],
        on_epoch=asks,
    )
    model.save(options["file"] + ".all")
    error = ""
    try:
        model.save(options["file"] + ".no/folder")
    except OSError as failed:
        error = str(failed)
    return {
        "losses": [epoch.loss for epoch in epochs],
        "saved": saved,
        "error": error,
        "same": digest_of(options["file"] + ".all") == digest_of(options["file"] + ".asked"),
    }


def restarts(options: Options, world: Any) -> Options:
    """A fit whose rank 0 ends behind its third epoch, where torchrun has started it first."""
    model = network(options, world)
    x, y = samples(options, 3 * ROWS + 5)

    def asks(epoch: Any) -> bool:
        if epoch.number == 3 and os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0":
            os._exit(3)
        return True

    checkpoint = traingraph.Checkpoint(path=options["file"])
    model.fit(x, labels=y, epochs=5, callbacks=[asks, checkpoint], resume=options["file"])
    return {"digest": digest(model), "starts": os.environ.get("TORCHELASTIC_RESTART_COUNT")}


def peaks(options: Options, world: Any) -> Options:
    """Memory that compile and save have in between beside what is left of it, in bytes."""

    def of_process(name: str) -> int:
        status = Path("/proc/self/status").read_text()
        return 1024 * int(status.split(f"{name}:")[1].split()[0])

    model = network(options, world)
    found = [of_process("VmHWM") - of_process("VmRSS")]
    Path("/proc/self/clear_refs").write_text("5")  # forgets the peak
    before = of_process("VmRSS")
    model.save(options["file"])
    found.append(of_process("VmHWM") - before)
    bytes_of_state = sum(np.asarray(values).nbytes for values in model.state().values())
    return {"compile": found[0], "save": found[1], "state": bytes_of_state}


def digest_of(path: str) -> str:
    """Of what a file holds of a training, whichever rank counts its passes."""
    from safetensors.numpy import load_file

    whole = hashlib.sha256()
    for name, values in sorted(load_file(path).items()):
        if not name.startswith("fit."):
            whole.update(name.encode() + values.tobytes())
    return whole.hexdigest()


def fit(options: Options, world: Any) -> Options:
    """With a last batch that does not divide, and a validation that does not either."""
    model = network(options, world)
    x, y = samples(options, options.get("samples", 3 * ROWS + 5))
    asked = []
    stopping = traingraph.EarlyStopping(patience=options.get("patience", 100))
    validation = (x[:21], y[:21])
    metrics = ["top_2", "confusion_matrix"]
    arguments: Options = {"labels": y}
    inputs: Options = {"inputs": x}
    if options.get("iterates"):
        # The same batches on all ranks, each of which takes its rows.
        inputs = {"batches": Batches(x, y, ROWS, world, own=options["iterates"] == "own")}
        arguments = {}
    if options.get("file"):
        arguments["callbacks"] = [traingraph.CSVLog(path=options["file"])]
    epochs = model.fit(
        **inputs,
        **arguments,
        epochs=options.get("epochs", 4),
        validation=validation,
        metrics=metrics,
        on_epoch=lambda epoch: asked.append(epoch.number) or True,
        **({} if options.get("file") else {"callbacks": [stopping]}),
    )
    scored = model.evaluate(x, labels=y, metrics=metrics)
    return {
        "losses": [epoch.loss for epoch in epochs],
        "validations": [epoch.validation.loss for epoch in epochs],
        "accuracy": scored.accuracy,
        "loss": scored.loss,
        "confusion": scored.metrics["confusion_matrix"].tolist(),
        "asked": asked,
        "digest": digest(model),
    }


def part_of_world(colors: int) -> Any:
    """This rank's group of so many, by mpi4py; of none a mistake."""
    from mpi4py import MPI

    if colors == 0:
        return traingraph.distributed.from_mpi("world")
    world = MPI.COMM_WORLD
    return traingraph.distributed.from_mpi(world.Split(world.rank % colors, world.rank))


def main() -> None:
    options = json.loads(sys.argv[2])
    if "colors" in options:
        world = part_of_world(options["colors"])
    else:
        world = traingraph.distributed.world()
    result = {"rank": world.rank, "size": world.size, "engine": world.engine}
    result.update(
        {
            "steps": steps,
            "gradients": gradients,
            "launches": launches,
            "checks": checks,
            "peaks": peaks,
            "resumes": resumes,
            "restarts": restarts,
            "fit": fit,
            "fails": fails,
            "orders": orders,
            "queues": queues,
            "losses": losses,
            "refuses": refuses,
        }[sys.argv[1]](options, world)
    )
    print(json.dumps(result))


if __name__ == "__main__":
    main()
