"""A network in the style of MobileNetV2: inverted residuals around depthwise convolutions."""

import torch
from whole import Network, classes, drawn

from traingraph import nn

Torch = torch.nn
# Channels and stride of each block; it widens its input by EXPANSION.
WIDE = [(16, 1), (24, 2), (24, 1), (32, 2), (32, 1), (64, 2), (64, 1)]
NARROW = [(4, 1), (6, 2), (6, 1), (8, 1)]
EXPANSION = 4


def norm(activation: str = "relu6") -> list[nn.Block | str]:
    return [nn.batch_norm(), activation] if activation else [nn.batch_norm()]


def block(inputs: int, channels: int, stride: int) -> nn.Block:
    width = EXPANSION * inputs
    layers = [
        *[nn.conv2d(width, 1, bias=False), *norm()],
        *[nn.conv2d(width, 3, stride=stride, padding=1, groups=width, bias=False), *norm()],
        *[nn.conv2d(channels, 1, bias=False), *norm("")],
    ]
    is_residual = stride == 1 and inputs == channels
    return nn.residual(layers) if is_residual else nn.sequential(layers)


class Block(Torch.Module):
    def __init__(self, inputs: int, channels: int, stride: int) -> None:
        super().__init__()
        width = EXPANSION * inputs
        self.inside = Torch.Sequential(
            Torch.Conv2d(inputs, width, 1, bias=False),
            Torch.BatchNorm2d(width),
            Torch.ReLU6(),
            Torch.Conv2d(width, width, 3, stride, 1, groups=width, bias=False),
            Torch.BatchNorm2d(width),
            Torch.ReLU6(),
            Torch.Conv2d(width, channels, 1, bias=False),
            Torch.BatchNorm2d(channels),
        )
        self.is_residual = stride == 1 and inputs == channels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.inside(x) if self.is_residual else self.inside(x)


def network(narrow: bool, dtype: str) -> Network:
    rows, side, count = (6, 12, 3) if narrow else (16, 32, 10)
    blocks = NARROW if narrow else WIDE
    first, last = (4, 12) if narrow else (16, 128)
    layers = [nn.conv2d(first, 3, stride=2, padding=1, bias=False), *norm()]
    twin = [
        Torch.Conv2d(3, first, 3, 2, 1, bias=False),
        Torch.BatchNorm2d(first),
        Torch.ReLU6(),
    ]
    inputs = first
    for channels, stride in blocks:
        layers.append(block(inputs, channels, stride))
        twin.append(Block(inputs, channels, stride))
        inputs = channels
    layers += [nn.conv2d(last, 1, bias=False), *norm(), nn.average_pool(), nn.flatten()]
    layers.append(nn.dense(count))
    twin += [
        Torch.Conv2d(inputs, last, 1, bias=False),
        Torch.BatchNorm2d(last),
        Torch.ReLU6(),
        Torch.AdaptiveAvgPool2d(1),
        Torch.Flatten(),
        Torch.Linear(last, count),
    ]
    x = nn.Input((3, side, side), data_type=dtype)
    return Network(
        inputs=x,
        outputs=nn.sequential(layers)(x),
        x=drawn(3, rows, 3, side, side, dtype=dtype),
        labels={"y": classes(4, count, rows)},
        twin=Torch.Sequential(*twin),
        twin_loss=Torch.functional.cross_entropy,
        # At larger rates rounding moves a sum over a kink of relu6, and the losses part.
        rate=0.01 if narrow else 0.0005,
        adam_rate=0.01,
    )
