"""The next character of a text, at each place: an embedding, an LSTM and a product per step."""

import numpy as np
import torch
from whole import Network

from traingraph import nn

TEXT = (
    "A graph of layers is compiled once, and then its forward, gradient and update passes run many "
    "times. Each value has its place in one block of memory before the first step, so that a step "
    "neither allocates nor looks anything up. What follows is numbers, and these are the same bits "
    "whenever the same program runs."
)
LETTERS = sorted(set(TEXT))


class Twin(torch.nn.Module):
    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(len(LETTERS), width)
        self.lstm = torch.nn.LSTM(width, hidden, batch_first=True)
        self.head = torch.nn.Linear(hidden, len(LETTERS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.table(x))[0]).mT


def network(narrow: bool, dtype: str) -> Network:
    rows, steps, width, hidden = (3, 8, 6, 12) if narrow else (8, 32, 24, 128)
    layers = [
        nn.embedding(len(LETTERS), width, data_type=dtype),
        nn.lstm(hidden, returns_sequences=True),
        nn.dense(len(LETTERS)),
        nn.permute((2, 1)),
    ]
    text = np.array([LETTERS.index(letter) for letter in TEXT], np.int32)
    starts = np.random.default_rng(11).integers(0, len(text) - steps, rows)
    pieces = np.stack([text[start : start + steps + 1] for start in starts])
    x = nn.Input(steps, data_type="int32")
    return Network(
        inputs=x,
        outputs=nn.sequential(layers)(x),
        x=pieces[:, :-1].copy(),
        labels={"y": pieces[:, 1:].copy()},
        twin=Twin(width, hidden),
        twin_loss=torch.nn.functional.cross_entropy,
        rate=0.1,
        adam_rate=0.03 if narrow else 0.01,
    )
