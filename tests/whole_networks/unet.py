"""A U-Net that gives each pixel a class: transposed convolutions on the way up, and skips."""

import numpy as np
import torch
from whole import Network, drawn

from traingraph import nn

Torch = torch.nn


def pair(channels: int) -> nn.Block:
    one = [nn.batch_norm(), "relu"]
    return nn.sequential(
        [nn.conv2d(channels, 3, bias=False), *one, nn.conv2d(channels, 3, bias=False), *one]
    )


def twin_pair(inputs: int, channels: int) -> Torch.Module:
    return Torch.Sequential(
        Torch.Conv2d(inputs, channels, 3, padding=1, bias=False),
        Torch.BatchNorm2d(channels),
        Torch.ReLU(),
        Torch.Conv2d(channels, channels, 3, padding=1, bias=False),
        Torch.BatchNorm2d(channels),
        Torch.ReLU(),
    )


def up_and_down(x: nn.Value, widths: list[int]) -> nn.Value:
    """Halves, goes on with the lower levels, doubles, and joins what was before."""
    here = pair(widths[0])(x)
    if len(widths) == 1:
        return here
    below = up_and_down(nn.max_pool(2)(here), widths[1:])
    above = nn.conv2d_transpose(widths[0], 2, stride=2, padding="valid")(below)
    return pair(widths[0])(nn.concatenate([here, above]))


class UpAndDown(Torch.Module):
    def __init__(self, inputs: int, widths: list[int]) -> None:
        super().__init__()
        first, *lower = widths
        self.before = twin_pair(inputs, first)
        self.below = UpAndDown(first, lower) if lower else None
        if lower:
            self.above = Torch.ConvTranspose2d(lower[0], first, 2, 2)
            self.after = twin_pair(2 * first, first)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        here = self.before(x)
        if self.below is None:
            return here
        above = self.above(self.below(torch.max_pool2d(here, 2)))
        return self.after(torch.cat([here, above], 1))


def network(narrow: bool, dtype: str) -> Network:
    widths = [4, 6, 8] if narrow else [16, 32, 64, 128]
    rows, side, count = (2, 8, 3) if narrow else (4, 32, 4)
    x = nn.Input((3, side, side), data_type=dtype)
    given = drawn(5, rows, 3, side, side)
    # The channel that is largest in the mean of a neighbourhood, or none of them.
    around = sum(np.roll(given, (i, j), (2, 3)) for i in (-1, 0, 1) for j in (-1, 0, 1)) / 9
    labels = np.where(around.max(1) > 0.3, around.argmax(1), count - 1).astype(np.int32)
    return Network(
        inputs=x,
        outputs=nn.conv2d(count, 1)(up_and_down(x, widths)),
        x=given.astype(dtype),
        labels={"y": labels},
        twin=Torch.Sequential(UpAndDown(3, widths), Torch.Conv2d(widths[0], count, 1)),
        twin_loss=Torch.functional.cross_entropy,
        rate=0.05 if narrow else 0.02,
        adam_rate=0.01,
    )
