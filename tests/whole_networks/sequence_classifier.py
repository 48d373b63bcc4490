"""Two layers of LSTM over sequences of numbers, and a class from what the last step gives."""

import torch
from whole import Network, classes, drawn

from traingraph import nn


class Twin(torch.nn.Module):
    def __init__(self, inputs: int, hidden: int, count: int) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(inputs, hidden, 2, batch_first=True)
        self.head = torch.nn.Linear(hidden, count)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(x)[0][:, -1])


def network(narrow: bool, dtype: str) -> Network:
    rows, steps, inputs, hidden, count = (4, 6, 3, 5, 3) if narrow else (16, 28, 12, 96, 6)
    x = nn.Input((steps, inputs), data_type=dtype)
    return Network(
        inputs=x,
        outputs=nn.dense(count)(nn.lstm(hidden, layers=2)(x)),
        x=drawn(7, rows, steps, inputs, dtype=dtype),
        labels={"y": classes(8, count, rows)},
        twin=Twin(inputs, hidden, count),
        twin_loss=torch.nn.functional.cross_entropy,
        rate=0.1,
        adam_rate=0.02 if narrow else 0.005,
    )
