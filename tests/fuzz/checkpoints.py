"""Target: a file is loaded by training graphs and an inference graph, and a step is run."""

import json
import struct
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from checkpoint_network import SYNCHRONOUS, Network, bits
from mutation import TEXTS, change_bytes, change_json, hostile

import traingraph as tg

corpus = Path(__file__).parent / "corpus" / "checkpoints"
PATH = Path(tempfile.mkdtemp()) / "file"
TYPES = ["F64", "F32", "F16", "BF16", "I64", "I32", "U8", "BOOL", "U64", "F8_E4M3", "F4", "F33", ""]
DATA = [0.0, -1.0, np.nan, np.inf, 1e38, 1e-45]

NETWORKS = [Network(), Network(compile_now=False)]
NETWORKS[1].training.compile(device="cpu", precision="mixed_float16")
for network in NETWORKS:
    network.steps(0, 1)
GRAPHS = [network.training for network in NETWORKS] + [NETWORKS[0].inference()]


def saved(graph: Any) -> bytes:
    graph.save(PATH)
    return PATH.read_bytes()


def parts(content: bytes) -> tuple[dict[str, Any], bytes]:
    (length,) = struct.unpack_from("<Q", content)
    return json.loads(content[8 : 8 + length]), content[8 + length :]


SEEDS = [saved(graph) for graph in GRAPHS]
HEADERS = [parts(content)[0] for content in SEEDS]
STATES = [graph.state() for graph in GRAPHS]


def entry_changed(random: Random, header: dict[str, Any]) -> dict[str, Any]:
    """One tensor with another type, shape, place or name."""
    name = random.choice([name for name in header if name != "__metadata__"])
    entry = dict(header[name])
    kind = random.randrange(5)
    if kind == 0:
        entry["dtype"] = random.choice(TYPES)
    elif kind == 1:
        entry["shape"] = [hostile(random) for _ in range(random.randrange(6))]
    elif kind == 2:
        entry["data_offsets"] = [hostile(random), hostile(random)]
    elif kind == 3:
        return {other if other != name else random.choice(TEXTS): header[other] for other in header}
    else:
        entry["shape"] = [*entry["shape"], *random.choice([[1], [0], [2**62, 4], [1] * 500])]
    return {**header, name: entry}


def make(random: Random) -> bytes:
    content = random.choice(SEEDS)
    kind = random.randrange(6)
    if kind == 0:
        return change_bytes(random, content)
    header, data = parts(content)
    if kind == 1:
        header = change_json(random, header, HEADERS)
    elif kind in (2, 3):
        header = entry_changed(random, header)
    else:  # the values, of which the last ones are the numbers of a state
        name = random.choice([name for name in header if name != "__metadata__"])
        begin, end = header[name]["data_offsets"]
        new = random.choice([
            random.randbytes(end - begin),
            (np.float32(random.choice(DATA)).tobytes() * (end - begin))[: end - begin],
            struct.pack("<q", random.choice([0, -1, 1, 2**53 + 1, 2**63 - 1, -(2**63)]))
            * ((end - begin) // 8 + 1),
        ])  # fmt: skip
        data = data[:begin] + new[: end - begin] + data[end:]
    text = json.dumps(header).encode(errors="replace")
    length = random.choice(
        [len(text)] * 30 + [0, 7, len(text) - 1, len(text) + 1, 2**63, 2**64 - 1]
    )
    return struct.pack("<Q", length) + text + data


def run(content: bytes) -> str:
    PATH.write_bytes(content)
    words = []
    for graph, state in zip(GRAPHS, STATES, strict=True):
        try:
            graph.load(PATH)
        except tg.InvalidArgument:
            # Nothing has changed; a load before may have added a loss scale.
            now = graph.state()
            assert bits({name: now[name] for name in state}) == bits(state)
            words.append("no")
            continue
        now = graph.state()
        assert all(now[name].tobytes() in content for name in graph.named_parameters())
        words.append("yes")
        if graph is not GRAPHS[2]:
            network = NETWORKS[GRAPHS.index(graph)]
            network.step(0, options=SYNCHRONOUS)
            after = graph.state()
            number = after["state.time_step"]
            assert 1 < number <= 2**53 + 1, number
            assert not np.isnan(after.get("state.loss_scale", np.float32([1]))).any()
        graph.load_state(state)
    return " ".join(words)
