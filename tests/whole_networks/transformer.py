"""An encoder of four layers with normalizations before attention and products, over words."""

import torch
from whole import Network, classes

from traingraph import nn

Torch = torch.nn
LAYERS = 4


class Layer(Torch.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.first_norm = Torch.LayerNorm(width)
        self.attention = Torch.MultiheadAttention(width, heads, batch_first=True)
        self.second_norm = Torch.LayerNorm(width)
        self.products = Torch.Sequential(
            Torch.Linear(width, 4 * width), Torch.GELU(), Torch.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first_norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.products(self.second_norm(x))


class Twin(Torch.Module):
    def __init__(self, words: int, steps: int, width: int, heads: int, count: int) -> None:
        super().__init__()
        self.words = Torch.Embedding(words, width)
        self.places = Torch.Embedding(steps, width)
        self.layers = Torch.Sequential(*[Layer(width, heads) for _ in range(LAYERS)])
        self.norm = Torch.LayerNorm(width)
        self.head = Torch.Linear(width, count)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.words(x) + self.places.weight
        return self.head(self.norm(self.layers(x)).mean(1))


def network(narrow: bool, dtype: str) -> Network:
    rows, steps, words, width, heads, count = (
        (3, 5, 7, 8, 2, 3) if narrow else (8, 32, 50, 64, 4, 5)
    )
    layer = [
        nn.residual([nn.layer_norm(), nn.attention(heads)]),
        nn.residual([nn.layer_norm(), nn.dense(4 * width, activation="gelu_erf"), nn.dense(width)]),
    ]
    body = nn.sequential(
        [nn.embedding(words, width, data_type=dtype), nn.positional_embedding(),
         *(LAYERS * layer), nn.layer_norm()]
    )  # fmt: skip
    x = nn.Input(steps, data_type="int32")
    return Network(
        inputs=x,
        outputs=nn.dense(count)(nn.flatten()(nn.mean(body(x), axis=1))),
        x=classes(9, words, rows, steps),
        labels={"y": classes(10, count, rows)},
        twin=Twin(words, steps, width, heads, count),
        twin_loss=Torch.functional.cross_entropy,
        rate=0.02,
        adam_rate=0.005 if narrow else 0.001,
    )
