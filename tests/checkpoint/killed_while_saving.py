"""Saves again and again in children that are killed, and looks at what is left.

usage: python killed_while_saving.py DIRECTORY KILLS

The launcher builds its graph and executes nothing, so that its children may be forked.
"""

import json
import mmap
import os
import random
import signal
import struct
import sys
import time
from pathlib import Path

import numpy as np

import traingraph as tg

CHANNELS = 512  # two megabytes in two tensors


def build() -> tg.MLCInferenceGraph:
    graph = tg.MLCGraph()
    x = tg.MLCTensor(shape=[1, CHANNELS])
    for _ in range(2):
        weights = tg.MLCTensor(shape=[CHANNELS, CHANNELS], fill_with_data=0.0)
        layer = tg.MLCFullyConnectedLayer(
            weights=weights,
            descriptor=tg.MLCConvolutionDescriptor(
                kernel_sizes=(1, 1),
                input_feature_channel_count=CHANNELS,
                output_feature_channel_count=CHANNELS,
            ),
        )
        x = graph.node(layer, source=x)
    return tg.MLCInferenceGraph(graph_objects=[graph])


def set_number(graph: tg.MLCInferenceGraph, number: int) -> None:
    names = graph.named_parameters()
    graph.load_state({name: np.full((CHANNELS,) * 2, number, np.float32) for name in names})


def save_for_ever(graph: tg.MLCInferenceGraph, path: Path, number: int, shared: mmap.mmap) -> None:
    """Says in shared memory which number is begun and which is in the file."""
    while True:
        number += 1
        set_number(graph, number)
        struct.pack_into("<q", shared, 0, number)
        graph.save(path)
        struct.pack_into("<q", shared, 8, number)


def number_in(path: Path) -> int:
    """The one number that all of the file consists of."""
    raw = path.read_bytes()
    (length,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8 : 8 + length])
    del header["__metadata__"]
    assert len(header) == 2
    assert 8 + length + sum(b - a for a, b in (e["data_offsets"] for e in header.values())) == len(
        raw
    )
    values = np.frombuffer(raw, np.float32, offset=8 + length)
    assert values.size == 2 * CHANNELS**2
    assert (values == values[0]).all()
    return int(values[0])


def main(directory: Path, kills: int) -> None:
    chance = random.Random(1)
    path = directory / "file"
    graph = build()
    graph.save(path)
    start = time.perf_counter()
    graph.save(path)
    duration = time.perf_counter() - start
    shared = mmap.mmap(-1, 16)
    found = {"killed": 0, "old": 0, "new": 0, "partial": 0}
    number = 0
    for _ in range(kills):
        struct.pack_into("<qq", shared, 0, number, number)
        child = os.fork()
        if child == 0:
            save_for_ever(graph, path, number, shared)
        time.sleep(chance.uniform(0, 4 * duration))
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        found["killed"] += os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        begun, finished = struct.unpack_from("<qq", shared)
        left = sorted(os.listdir(directory))
        assert left in (["file"], [".file.partial", "file"]), left
        found["partial"] += len(left) == 2
        number = number_in(path)
        assert number in (begun, finished), (begun, number, finished)
        found["old" if number == finished else "new"] += 1
        graph.load(path)
    # What was left over is replaced by the next save.
    set_number(graph, 7)
    graph.save(path)
    assert os.listdir(directory) == ["file"]
    assert number_in(path) == 7
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
