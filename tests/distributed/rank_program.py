"""What one rank of the tests runs: python rank_program.py SCENARIO OPTIONS, options as JSON.

Prints one line of JSON. Without the variables of a launcher it is the one rank that others are
compared with.
"""

import hashlib
import json
import os
import sys
import threading
import time
from typing import Any

import numpy as np
from rank_batches import Batches
from rank_networks import CLASSES, blocks, shape_of

import traingraph
from traingraph import nn

ROWS = 24  # of all ranks
STEPS = 50

Options = dict[str, Any]


def device_of(options: Options, world: Any) -> str:
    """Of "cuda" a GPU for each rank."""
    device = options.get("device", "cpu")
    return f"gpu:{world.local_rank}" if device == "cuda" else device


def network(options: Options, world: Any) -> Any:
    """A compiled graph for one rank's part of ROWS samples."""
    data_type = options.get("type", "float32")
    rate = options.get("rate", 1)
    optimizer = {
        "sgd": lambda: nn.sgd(0.05 * rate, momentum=0.9),
        "adam": lambda: nn.adam(0.005 * rate),
    }[options.get("optimizer", "adam")]()
    traingraph.MLCPlatform.set_rng_seed_to(options.get("seed", 7))
    shared = {
        "optimizer": optimizer,
        "batch_size": options.get("batch", ROWS // world.size),
        "device": device_of(options, world),
        "distributed": world,
        "synchronized_batch_norm": options.get("synchronized", False),
        "shard_optimizer": options.get("shard", False),
        "gradient_exchange": options.get("exchange"),
        "any_batch_size": options.get("any_batch_size", False),
    }
    net = options["net"]
    model = nn.model(blocks(net), input=shape_of(net), input_type=data_type, **shared)
    if precision := options.get("precision"):
        model.compile(device=shared["device"], precision=precision, distributed=world)
    return model


def samples(options: Options, count: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(3)
    x = random.standard_normal((count, *shape_of(options["net"]))).astype(options.get("type", "float32"))
    return x, random.integers(0, CLASSES, count).astype(np.int32)


def ends(model: Any) -> list[bytes]:
    """Of the parameters the first and the last one, whose gradients are in different buckets."""
    values = list(model.named_parameters().values())
    model.synchronize_updates()
    return [values[k].data.tobytes() for k in (1, -1)]


def digest(model: Any) -> str:
    whole = hashlib.sha256()
    for name, values in sorted(model.state().items()):
        whole.update(name.encode() if "." not in name else b"")
        whole.update(np.ascontiguousarray(values).tobytes())
    return whole.hexdigest()


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
        loss = model.execute(inputs_data={"x": x[part]}, loss_labels_data={"y": y[part]}).result
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


def stops(own: Options, model: Any) -> None:
    """Calls between steps that one rank, or all of them, cannot make."""
    x, y = samples(own, 3 * ROWS + 5 if own["calls"] == "resume" else ROWS)
    y[-1] = own.get("label", 0)  # a row of the last rank
    if own["calls"] == "evaluate":
        model.evaluate(x, labels=y)
    elif own["calls"] == "checkpoint":
        model.fit(x, labels=y, callbacks=[traingraph.Checkpoint(path=own["file"])])
    elif own["calls"] == "fit":
        model.fit(x, labels=y, validation=(x[:4], y[:4]), **own["arguments"])
    elif own["calls"] == "resume":
        model.fit(x, labels=y, epochs=9, resume=own["file"])
    elif own["calls"] == "state":
        model.execute(inputs_data={"x": x[:4]}, loss_labels_data={"y": y[:4]})
        model.state()


def fails(options: Options, world: Any) -> Options:
    """What ends the training of ranks of which one is otherwise than the others."""
    own = {**options, **options.get("of_last", {})} if world.rank == world.size - 1 else options
    begun = time.monotonic()
    try:
        model = network(own, world)
        model.micro_batches = own.get("micro_batches", 1)
        if "calls" in own:
            stops(own, model)
            return {}
        x, y = samples(own, ROWS)
        rows = own.get("rows", ROWS // world.size)
        if "lives" in own:
            threading.Timer(own["lives"], os._exit, (3,)).start()
        before = ends(model)
        for step in range(1000):
            if step == own.get("leaves_at"):
                sys.exit(4)
            if step == own.get("raises_at"):
                raise RuntimeError("of the program")
            if step == own.get("ends_at"):
                os._exit(3)
            if step == own.get("sleeps_at"):
                time.sleep(own["seconds"])
                return {}
            # Waits, so that the error is that of this step.
            np.asarray(
                model.execute(inputs_data={"x": x[:rows]}, loss_labels_data={"y": y[:rows]}).result
            )
            if own.get("compares"):
                before = ends(model)
    except traingraph.Error as error:
        seconds = time.monotonic() - begun
        if own.get("compares"):
            return {"text": str(error), "kept": ends(model) == before}
        time.sleep(own.get("waits", 0))  # so that the end of this process tells nobody
        return {"error": type(error).__name__, "text": str(error), "seconds": seconds}
    return {}


def orders(options: Options, world: Any) -> Options:
    """Two graphs of equal sizes, which the last rank, or each rank's threads, step otherwise."""
    models = [network(options, world) for _ in range(2)]
    x, y = samples(options, ROWS // world.size)
    found: Options = {"texts": [], "kept": []}

    def step(model: Any, count: int) -> None:
        try:
            before = ends(model)
            for _ in range(count):
                np.asarray(
                    model.execute(inputs_data={"x": x}, loss_labels_data={"y": y}).result
                )
                before = ends(model)
        except traingraph.DistributedError as error:
            found["texts"].append(str(error))
            if options.get("device") != "cuda":  # which gives nothing any more
                found["kept"].append(ends(model) == before)

    for model in models:
        step(model, 1)
    if options.get("threads"):
        threads = [threading.Thread(target=step, args=(model, 100000)) for model in models]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    else:
        for model in models[:: -1 if world.rank == world.size - 1 else 1]:
            step(model, 1)
    return found


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
            "resumes": resumes,
            "restarts": restarts,
            "fit": fit,
            "fails": fails,
            "orders": orders,
        }[sys.argv[1]](options, world)
    )
    print(json.dumps(result))


if __name__ == "__main__":
    main()
