"""Ranks of which one is otherwise than the others, for the program of the ranks."""

import os
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
from rank_networks import CLASSES, ROWS, Options, digest, ends, network, samples

import traingraph


def stops(own: Options, model: Any) -> None:
    """Calls between steps that one rank, or all of them, cannot make."""
    x, y = samples(own, 3 * ROWS + 5 if own["calls"] == "resume" else ROWS)
    y[-1] = own.get("label", 0)  # a row of the last rank
    if own["calls"] == "evaluate":
        model.evaluate(x, labels=y)
    elif own["calls"] == "checkpoint":
        model.fit(x, labels=y, callbacks=[traingraph.Checkpoint(path=own["file"])])
    elif own["calls"] == "parameters":
        state = model.state()
        name = sorted(model.named_parameters())[0]
        state[name] = state[name] + own.get("more", 0)
        model.load_state(state)
        model.fit(x, labels=y)
    elif own["calls"] == "schedule":
        model.fit(x, labels=y, epochs=3, schedule=lambda step: 0.1 if step < 2 else own["later"])
    elif own["calls"] == "long epoch":
        x, y = np.tile(x, (10**5, 1)), np.tile(y, 10**5)
        if "lives" in own:
            threading.Timer(own["lives"], os._exit, (3,)).start()
        model.fit(x, labels=y)
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
    own = {**own, **options.get("of_rank", {}).get(str(world.rank), {})}
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
        if "stops" in own:
            stopped_after(own["stops"])
        before = ends(model)
        for step in range(own.get("steps", 1000)):
            if step == own.get("forks_at"):
                fork_and_raise(world)
            if step == own.get("evaluates_at"):
                model.evaluate(x, labels=y)
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


def refuses(options: Options, world: Any) -> Options:
    """Calls that the last rank, or `all` of them, refuse, and a fit of all behind them."""
    model = network(options, world)
    x, y = samples(options, 3 * ROWS)
    wrong = y.copy()
    is_last = world.rank == world.size - 1
    if options.get("all"):
        wrong[:] = CLASSES + 1
    elif is_last:
        wrong[-1] = CLASSES + 1
    limit = 0 if is_last or options.get("all") else None
    calls = {
        "fit": lambda: model.fit(x, labels=wrong),
        "validation": lambda: model.fit(x, labels=y, validation=(x, wrong)),
        "evaluate": lambda: model.evaluate(x, labels=wrong),
        "compile": lambda: model.compile(device="cpu", distributed=world, memory_limit=limit),
        "both": lambda: model.evaluate(x, labels=y) if is_last else model.fit(x, labels=y),
    }
    found = []
    begun = time.monotonic()
    for call in calls.values():
        try:
            call()
            found.append(["", ""])
        except traingraph.Error as error:
            found.append([type(error).__name__, str(error)])
    epochs = model.fit(x, labels=y, epochs=2)
    seconds = time.monotonic() - begun
    return {
        "found": dict(zip(calls, found, strict=True)),
        "losses": [epoch.loss for epoch in epochs],
        "digest": digest(model),
        "seconds": seconds,
    }


def stopped_after(seconds: float) -> None:
    """Stops this process then, until the test kills it."""
    command = f"sleep {seconds}; kill -STOP {os.getpid()}"
    subprocess.Popen(["sh", "-c", command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def fork_and_raise(world: Any) -> None:
    """In a child, which ends with its exception as a program does."""
    child = os.fork()
    if child == 0:
        world.abandon()
        raise RuntimeError("of the child")
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 1


def orders(options: Options, world: Any) -> Options:
    """Two graphs of equal sizes, which the last rank, or each rank's threads, step otherwise."""
    models = [network(options, world) for _ in range(2)]
    x, y = samples(options, ROWS // world.size)
    found: Options = {"texts": [], "kept": []}

    def step(model: Any, count: int) -> None:
        try:
            before = ends(model)
            for _ in range(count):
                np.asarray(model.execute(inputs_data={"x": x}, loss_labels_data={"y": y}).result)
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
