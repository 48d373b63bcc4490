"""Forks beside threads that are in the library.

    python tests/graph/stress_forks.py --seconds 60 --seed 7

Three threads repeat calls of stress_threads.py and of the table below, on one graph, while children
are forked. Each makes one call and ends, by itself or at the end of the interpreter. A call in a
child works or raises one of the package's errors. Fails with a hang, a crash, or another error; a
hang's Python stack is printed.
"""

import argparse
import collections
import faulthandler
import gc
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
from stress_threads import CALLS as PAIRS
from stress_threads import Call, Run, Subject

import traingraph as tg
from traingraph import mps, nn

CHILD_SECONDS = 20
CHILDREN = 25  # of a round
QUEUE = mps.MTLDevice(device="cpu").make_command_queue()
CALLS: dict[str, Call] = {}


def call(function: Call) -> Call:
    CALLS[function.__name__] = function
    return function


@call
def make_a_graph(s: Subject, chance: random.Random) -> Any:
    x = tg.MLCTensor(data=np.ones((4, 3), np.float32))
    graph = tg.MLCGraph()
    graph.node(tg.MLCActivationLayer.relu(), source=x)
    return tg.MLCInferenceGraph(graph_objects=[graph]), x.data.sum()


@call
def make_and_fit_a_model(s: Subject, chance: random.Random) -> Any:
    model = nn.model([nn.dense(4), nn.dense(3)], input=2, device="cpu")
    return model.fit(np.ones((4, 2), np.float32), np.zeros(4, np.int32))


@call
def collect(s: Subject, chance: random.Random) -> Any:
    return gc.collect()


@call
def wait_for_work_in_flight(s: Subject, chance: random.Random) -> Any:
    handles = [s.step() for _ in range(chance.randrange(1, 4))]
    return [handle.result for handle in handles]


def image() -> Any:
    shape = mps.MPSImageDescriptor.image_descriptor(
        with_channel_format="float32", width=2, height=2, feature_channels=1
    )
    made = mps.MPSImage(device="cpu", image_descriptor=shape)
    made.write_bytes(np.ones((1, 2, 2), np.float32))
    return made


@call
def commit(s: Subject, chance: random.Random) -> Any:
    buffer = QUEUE.make_command_buffer()
    if chance.randrange(2):
        buffer.add_completed_handler(lambda _: None)
    tanh = mps.MPSCNNNeuronTanH(device="cpu", a=1.0, b=1.0 + chance.randrange(3))
    tanh.encode(buffer, source_image=image(), destination_image=image())
    buffer.commit()
    return buffer.wait_until_completed()


@call
def read_an_image(s: Subject, chance: random.Random) -> Any:
    return image().read_bytes(np.empty((1, 2, 2), np.float32))


@call
def set_threads(s: Subject, chance: random.Random) -> Any:
    return tg.set_num_threads(1)


ALL = {**PAIRS, **CALLS}


class Beside(Run):
    """Threads of the parent, each of which repeats one call."""

    calls = ALL


def live(subject: Subject, name: str, chance: random.Random) -> str:
    """In the child: what its call came to; raises what the package does not."""
    subject.building = threading.Lock()  # another thread may have had it
    try:
        ALL[name](subject, chance)
    except tg.DeviceError:
        return "refused"
    except tg.Error:
        return "another error"
    return "worked"


def fork(subject: Subject, name: str, seed: str) -> str:
    """How the child's call ended."""
    chance = random.Random(seed)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(CHILD_SECONDS)
        faulthandler.dump_traceback_later(CHILD_SECONDS - 5)
        try:
            if chance.randrange(2):
                threading.Thread(target=gc.collect).start()
            said = live(subject, name, chance)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os.write(write, said.encode())
        if chance.randrange(2):
            os._exit(0)
        sys.exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        signal_number = os.WTERMSIG(status)
        said = "hangs" if signal_number == signal.SIGALRM else f"ends by signal {signal_number}"
    elif status != 0:
        said = "raises another error"
    return said


def stress(seconds: float, seed: int, names: list[str], folder: Path) -> tuple[Any, list[str]]:
    """Outcomes by kind, and failures; ends at the first."""
    end = time.monotonic() + seconds
    outcomes: collections.Counter[str] = collections.Counter()
    chance = random.Random(seed)
    while time.monotonic() < end:
        subject = Subject(folder)
        beside = tuple(chance.choice(names) for _ in range(3))
        run = Beside(subject, beside, f"{seed}", 3600)
        for thread in run.threads:
            thread.start()
        for number in range(CHILDREN):
            name = chance.choice(names)
            said = fork(subject, name, f"{seed} {number} {chance.random()}")
            outcomes[said] += 1
            if said not in ("worked", "refused", "another error"):
                return outcomes, [f"{name} in a child beside {', '.join(beside)}: {said}"]
            if run.failures or time.monotonic() > end:
                break
            time.sleep(chance.random() * 0.004)
        run.end = 0
        for thread in run.threads:
            thread.join(60)
            if thread.is_alive():
                run.failures.append("a thread of the parent hangs")
        if run.failures:
            return outcomes, [f"beside {', '.join(beside)}: {text}" for text in run.failures]
    return outcomes, []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 100000)
    parser.add_argument("--only", nargs="+", metavar="CALL", default=sorted(ALL))
    given = parser.parse_args()
    faulthandler.enable()
    process, folder = os.getpid(), Path(tempfile.mkdtemp(prefix="traingraph-forks-"))
    try:
        outcomes, failures = stress(given.seconds, given.seed, given.only, folder)
    finally:
        if os.getpid() == process:
            shutil.rmtree(folder, ignore_errors=True)  # threads may go on
    print(f"seed {given.seed}: {dict(outcomes.most_common())}")
    print("\n".join(failures) or "held", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
