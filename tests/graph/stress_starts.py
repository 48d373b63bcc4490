"""Calls while threads cannot be started, and again while they can.

    python tests/graph/stress_starts.py --seconds 60 --seed 7

Each process draws calls on one graph, under a limit that comes and goes. What raises must have done
nothing: a second graph makes the calls that did not, without threads of the core, and both must
hold the same numbers after each. Handlers of what was accepted are called once.
"""

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from starts import Regression, no_threads

import traingraph as tg

Call = Callable[[Regression, random.Random], Any]
# How a call is made, and how on the graph that it is compared with.
CALLS: dict[str, tuple[Call, Call]] = {
    "execute": (lambda s, _: s.step().wait(), lambda s, _: s.step(options="synchronous")),
    "execute many": (
        lambda s, _: [s.step() for _ in range(5)][-1].wait(),
        lambda s, _: [s.step(options="synchronous") for _ in range(5)],
    ),
    "handler": (
        lambda s, _: s.step(completion_handler=s.is_called).wait(),
        lambda s, _: s.step(options="synchronous", completion_handler=s.is_called),
    ),
    "synchronous": (
        lambda s, _: s.step(options="synchronous"),
        lambda s, _: s.step(options="synchronous"),
    ),
    "update": (
        lambda s, _: s.update().wait(),
        lambda s, _: s.update(options="synchronous"),
    ),
    "rate": (
        lambda s, c: setattr(s.optimizer, "learning_rate", c.choice([0.1, 0.2])),
        lambda s, c: setattr(s.optimizer, "learning_rate", c.choice([0.1, 0.2])),
    ),
    "predict": (
        lambda s, _: s.training.predict(s.data["x"]),
        lambda s, _: s.training.predict(s.data["x"]),
    ),
    "fit": (
        lambda s, _: s.training.fit(s.data, labels=s.labels),
        lambda s, _: s.training.fit(s.data, labels=s.labels),
    ),
    "gradients": (
        lambda s, _: tg.check_gradients(s.training, s.data, s.labels),
        lambda s, _: None,
    ),
    "state": (
        lambda s, _: s.training.load_state(s.training.state()),
        lambda s, _: s.training.load_state(s.training.state()),
    ),
}


def differences(one: Regression, other: Regression) -> list[str]:
    a, b = one.training.state(), other.training.state()
    found = [name for name in a if not np.array_equal(a[name], b[name])]
    if one.optimizer.time_step != other.optimizer.time_step:
        found.append("optimizer.time_step")
    if len(one.called) != len(other.called):
        found.append("calls of handlers")
    return found


def attempt(given: Call, other: Call, one: Regression, two: Regression, seed: str) -> bool:
    """Whether the first graph took it."""
    try:
        given(one, random.Random(seed))
    except tg.DeviceError as error:
        if "start a thread" not in str(error):
            raise
        return False
    other(two, random.Random(seed))
    return True


def process(limit: str, seed: int) -> None:
    chance = random.Random(seed)
    one, two = (Regression(tg.MLCAdamOptimizer(learning_rate=0.1)) for _ in range(2))
    refused = 0
    for limited in (True, False, True, False):
        for number in range(12):
            name = chance.choice(sorted(CALLS))
            text = f"{seed} {number} {limited}"
            if name == "update":
                one.begin()
                two.begin()
            if limited:
                with no_threads(limit):
                    accepted = attempt(*CALLS[name], one, two, text)
            else:
                accepted = attempt(*CALLS[name], one, two, text)
                assert accepted, name
            refused += not accepted
            found = differences(one, two)
            assert not found, f"{name}, {'accepted' if accepted else 'refused'}: {found}"
            if name == "update" and not accepted:  # the begun step is still there
                one.update(options="synchronous")
                two.update(options="synchronous")
    print(refused)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 100000)
    parser.add_argument("--process", choices=["processes", "memory"], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.process:
        process(given.process, given.seed)
        return 0
    end, count, refused = time.monotonic() + given.seconds, 0, 0
    while time.monotonic() < end or count < 2:
        limit, seed = ("processes", "memory")[count % 2], given.seed + count
        command = [sys.executable, __file__, "--process", limit, "--seed", str(seed)]
        run = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if run.returncode != 0:
            print(f"{limit}, seed {seed}: {run.returncode}\n{run.stdout}{run.stderr[-4000:]}")
            return 1
        count, refused = count + 1, refused + int(run.stdout)
    print(f"seed {given.seed}: {count} processes, {refused} calls refused: held")
    return 0


if __name__ == "__main__":
    sys.exit(main())
