"""A detector in the style of YOLO: each cell of a grid says whether an object's middle is in it,
where that is, how large the object is and of which class, and its loss is an expression."""

import numpy as np
import torch
from whole import Network, drawn, float32

from traingraph import nn

Torch = torch.nn
CLASSES = 3
HEADS = {"confidence": 1, "middle": 2, "size": 2, "scores": CLASSES}
POSITION = 5.0  # what errors of boxes count beside those of confidences and classes


def labels(rows: int, cells: int, dtype: str) -> dict[str, np.ndarray]:
    """Two objects in each image: where they are, and for each cell a middle, log size and class."""
    random = np.random.default_rng(12)
    has = np.zeros((rows, 1, cells, cells))
    for image in has:
        image.reshape(-1)[random.choice(cells * cells, 2, replace=False)] = 1
    middle, size = random.uniform(0.1, 0.9, (2, rows, 2, cells, cells)).astype(np.float32)
    kind = random.integers(0, CLASSES, (rows, cells, cells)).astype(np.int32)
    floating = {"has": has, "at": middle, "log_size": np.log(size)}
    return {name: array.astype(dtype) for name, array in floating.items()} | {"kind": kind}


def loss(outputs: list[nn.Value], has: nn.Value, at: nn.Value, log_size: nn.Value,
         kind: nn.Value) -> nn.Value:  # fmt: skip
    confidence, middle, size, scores = outputs
    position = nn.square(nn.activation("sigmoid")(middle) - at) + nn.square(size - log_size)
    of_object = POSITION * nn.sum(position, axis=1) + nn.loss("softmax_cross_entropy", scores, kind)
    return nn.loss("sigmoid_cross_entropy", confidence, has) + has * of_object


def twin_loss(outputs: list[torch.Tensor], has: torch.Tensor, at: torch.Tensor,
              log_size: torch.Tensor, kind: torch.Tensor) -> torch.Tensor:  # fmt: skip
    confidence, middle, size, scores = outputs
    position = (middle.sigmoid() - at) ** 2 + (size - log_size) ** 2
    of_kind = Torch.functional.cross_entropy(scores, kind, reduction="none")[:, None]
    of_object = POSITION * position.sum(1, keepdim=True) + of_kind
    seen = Torch.functional.binary_cross_entropy_with_logits(confidence, has, reduction="none")
    return (seen + has * of_object).mean()


class Twin(Torch.Module):
    def __init__(self, body: list[Torch.Module], channels: int) -> None:
        super().__init__()
        self.body = Torch.Sequential(*body)
        self.heads = Torch.ModuleList([Torch.Conv2d(channels, n, 1) for n in HEADS.values()])

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        features = self.body(x)
        return [head(features) for head in self.heads]


def network(narrow: bool, dtype: str) -> Network:
    # Channels of a convolution, each of which halves the image.
    rows, side, widths = (3, 16, [4, 6]) if narrow else (8, 64, [16, 32, 64, 128])
    body: list[nn.Block | str] = []
    twin: list[Torch.Module] = []
    inputs = 3
    for channels in widths:
        body += [nn.conv2d(channels, 3, bias=False), nn.batch_norm(), "leaky_relu", nn.max_pool(2)]
        twin += [
            Torch.Conv2d(inputs, channels, 3, padding=1, bias=False),
            Torch.BatchNorm2d(channels),
            Torch.LeakyReLU(float32(0.01)),
            Torch.MaxPool2d(2),
        ]
        inputs = channels
    cells = side >> len(widths)
    x = nn.Input((3, side, side), data_type=dtype)
    features = nn.sequential(body)(x)
    outputs = [nn.conv2d(channels, 1)(features) for channels in HEADS.values()]
    given = labels(rows, cells, dtype)
    inputs_of_loss = [
        nn.Input(array.shape[1:], name=name, data_type=array.dtype) for name, array in given.items()
    ]
    return Network(
        inputs=x,
        outputs=outputs,
        loss=loss(outputs, *inputs_of_loss),
        x=drawn(13, rows, 3, side, side, dtype=dtype),
        labels=given,
        twin=Twin(twin, inputs),
        twin_loss=twin_loss,
        rate=0.02 if narrow else 0.005,
        adam_rate=0.02 if narrow else 0.005,
    )
