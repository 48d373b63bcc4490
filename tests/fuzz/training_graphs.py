"""Target: random training graphs beside PyTorch, or beside the reference where it is missing."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

from random_graphs.check import HAS_TORCH, check, script
from random_graphs.drawing import draw
from random_graphs.layer import Invalid
from random_graphs.smaller import smaller_programs

corpus = Path(__file__).parent / "corpus" / "training_graphs"
DEVICES = os.environ.get("FUZZ_DEVICES", "reference,cpu").split(",")

if HAS_TORCH:
    import torch

    torch.set_num_threads(1)


def make(random: Random) -> bytes:
    while True:
        try:
            return json.dumps(draw(random, DEVICES, not HAS_TORCH)).encode()
        except Invalid:
            pass


def run(content: bytes) -> str:
    return check(json.loads(content))


def smaller(content: bytes) -> Iterator[bytes]:
    for program in smaller_programs(json.loads(content)):
        yield json.dumps(program).encode()


def show(content: bytes) -> str:
    """A script that can be pasted."""
    return script(json.loads(content))
