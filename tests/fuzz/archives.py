"""Target: an archive is made a kernel, a graph or a descriptor, which is then encoded and run."""

import json
import warnings
from pathlib import Path
from random import Random
from typing import Any

from coded import CASES, made
from encoding import encode, plain
from graphs import graph_of, source
from kernels import commands
from kernels import run as finish
from mutation import change_bytes, change_json, change_number
from test_graph_coding import GRAPHS

import traingraph as tg
from traingraph import mps

corpus = Path(__file__).parent / "corpus" / "archives"
ON = {name: mps.MTLDevice(device=name) for name in ("cpu", "reference")}
# Where these are large and nothing bounds the result, the work is what was asked for. Windows count
# because a policy of full size gives results as large as they are.
SIZES = (
    "scale_factor", "padding_size", "resize_", "reshape", "size_before", "size_after",
    "dilation_rate", "kernel_width", "kernel_height",
)  # fmt: skip
BOUND = 2**20
"""Elements of one result."""


def archived(one: Any) -> dict[str, Any]:
    data = mps.NSKeyedArchiver.archived_data(with_root_object=one)
    content: dict[str, Any] = json.loads(data)
    return content


SEEDS = [archived(make(name)) for name in CASES for make in (plain, lambda name: made(name, "cpu"))]
SEEDS += 10 * [archived(graph_of(ON["cpu"], *make(source("x")))) for make in GRAPHS.values()]
SEEDS += [archived(plain("MPSCNNConvolution").data_source.descriptor())]


def make(random: Random) -> bytes:
    seed = random.choice(SEEDS)
    if random.randrange(6) == 0:
        return change_bytes(random, json.dumps(seed).encode())
    if random.randrange(20) == 0:
        return json.dumps({**seed, "class": random.choice(SEEDS)["class"]}).encode()
    if random.randrange(2) == 0:
        values = change_number(random, seed["values"])
    else:
        values = change_json(random, seed["values"], SEEDS)
    return json.dumps({"class": seed["class"], "values": values}).encode()


def asks_for_much(value: Any) -> bool:
    """Whether the sizes in an archive make a result of more than BOUND elements."""
    product, left = 1, [("", value)]
    while left:
        key, one = left.pop()
        if isinstance(one, dict):
            left += one.items()
        elif isinstance(one, list):
            left += [(key, item) for item in one]
        elif isinstance(one, int | float) and any(size in key for size in SIZES):
            product *= max(1, int(abs(one))) if abs(one) < 2**62 else 1
    return product * 2000 > BOUND


def run(content: bytes) -> str:
    on = ON["reference" if len(content) % 8 == 0 else "cpu"]
    try:
        kernel = mps.MPSKeyedUnarchiver.unarchive_object(with_data=content, device=on)
    except (tg.Error, TypeError) as error:
        if "incompatible function" in str(error):
            raise
        return "refused"
    values = json.loads(content)["values"]
    # Written and read again; the other one, where it is taken, has lost nothing.
    try:
        other = mps.MPSKeyedUnarchiver.unarchive_object(
            with_data=mps.NSKeyedArchiver.archived_data(with_root_object=kernel), device=on
        )
    except tg.Error:
        return "refused when written again"
    assert json.dumps(archived(other)) == json.dumps(archived(kernel))
    if not isinstance(kernel, mps.MPSKernel):
        return "a descriptor"
    much = asks_for_much(values)
    if much and isinstance(kernel, mps.MPSNNGraph):
        return "much work"
    buffer = commands(on)
    kinds = {mps.MPSNNOptimizer: "optimizer", mps.MPSNNGraph: "graph", mps.MPSKernel: "kernel"}
    kind = next(name for cls, name in kinds.items() if isinstance(kernel, cls))
    try:
        with warnings.catch_warnings(action="ignore"):
            encode(
                kernel, buffer, much or len(content) % 3 == 0, 12 if len(content) % 4 == 0 else 4
            )
            finish(buffer)
    except (tg.Error, TypeError, AttributeError):
        return f"{kind} refused at encoding"
    assert buffer.error is None or isinstance(buffer.error, tg.Error), buffer.error
    return f"{kind} ran" if buffer.error is None else f"{kind} ended with an error"
