"""ResNet-18 as it is used for images of CIFAR-10: a 3x3 stem and four stages of two blocks."""

import torch
from whole import Network, classes, drawn

from traingraph import nn

Torch = torch.nn


def block(channels: int, stride: int, shortcut: bool) -> nn.Block:
    return nn.sequential([
        nn.residual(
            [nn.conv2d(channels, 3, stride=stride, padding=1, bias=False), nn.batch_norm(), "relu",
             nn.conv2d(channels, 3, padding=1, bias=False), nn.batch_norm()],
            shortcut=[nn.conv2d(channels, 1, stride=stride, bias=False), nn.batch_norm()]
            if shortcut else None,
        ),
        "relu",
    ])  # fmt: skip


class Block(Torch.Module):
    def __init__(self, inputs: int, channels: int, stride: int, shortcut: bool) -> None:
        super().__init__()
        self.inside = Torch.Sequential(
            Torch.Conv2d(inputs, channels, 3, stride, 1, bias=False),
            Torch.BatchNorm2d(channels),
            Torch.ReLU(),
            Torch.Conv2d(channels, channels, 3, 1, 1, bias=False),
            Torch.BatchNorm2d(channels),
        )
        self.shortcut = Torch.Sequential()
        if shortcut:
            self.shortcut = Torch.Sequential(
                Torch.Conv2d(inputs, channels, 1, stride, bias=False), Torch.BatchNorm2d(channels)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.shortcut(x) + self.inside(x))


def network(narrow: bool, dtype: str) -> Network:
    widths = [4, 6, 8, 12] if narrow else [64, 128, 256, 512]
    rows, side, count = (6, 16, 3) if narrow else (8, 32, 10)
    stem = [nn.conv2d(widths[0], 3, bias=False), nn.batch_norm(), "relu"]
    twin = [
        Torch.Conv2d(3, widths[0], 3, padding=1, bias=False),
        Torch.BatchNorm2d(widths[0]),
        Torch.ReLU(),
    ]
    layers, inputs = list(stem), widths[0]
    for stage, channels in enumerate(widths):
        for place in range(2):
            stride = 2 if stage > 0 and place == 0 else 1
            layers.append(block(channels, stride, shortcut=stride == 2))
            twin.append(Block(inputs, channels, stride, shortcut=stride == 2))
            inputs = channels
    layers += [nn.average_pool(), nn.flatten(), nn.dense(count)]
    twin += [Torch.AdaptiveAvgPool2d(1), Torch.Flatten(), Torch.Linear(inputs, count)]
    x = nn.Input((3, side, side), data_type=dtype)
    return Network(
        inputs=x,
        outputs=nn.sequential(layers)(x),
        # Of the narrow one's draws this one has no sum so near to 0 that rounding moves it across,
        # behind which losses are percents apart: weights times 1 + 1e-6 change none by 1e-5.
        x=drawn(17 if narrow else 1, rows, 3, side, side, dtype=dtype),
        labels={"y": classes(2, count, rows)},
        twin=Torch.Sequential(*twin),
        twin_loss=Torch.functional.cross_entropy,
        # At larger rates PyTorch in float32 is 1e-4 off, too: few pixels are normalized together.
        rate=0.01 if narrow else 3e-5,
        adam_rate=0.002 if narrow else 0.0002,
    )
