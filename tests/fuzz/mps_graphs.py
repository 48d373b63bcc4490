"""Target: random training graphs of MPS nodes beside PyTorch, or beside the reference."""

import json
from pathlib import Path
from random import Random

from random_graphs.layer import Invalid
from random_nodes.drawing import draw
from training_graphs import DEVICES, run, show, smaller

__all__ = ["corpus", "make", "run", "show", "smaller"]
corpus = Path(__file__).parent / "corpus" / "mps_graphs"


def make(random: Random) -> bytes:
    while True:
        try:
            return json.dumps(draw(random, DEVICES)).encode()
        except Invalid:
            pass
