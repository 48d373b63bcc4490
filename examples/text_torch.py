"""The transformer of text.py in PyTorch, from the weights that its --initial wrote."""

import json
import time
from collections.abc import Iterator

import numpy as np
import torch
from torch import nn

import text
from text import CONTEXT, HEADS, LETTERS, WIDTH


class CausalAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = (
            nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = [
            product(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for product in (self.query, self.key, self.value)
        ]
        seen = nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        return self.output(seen.transpose(1, 2).flatten(2))


class Places(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(CONTEXT, WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.table


class Residual(nn.Sequential):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + super().forward(x)


def layer() -> list[nn.Module]:
    products = [nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)]
    return [
        Residual(nn.LayerNorm(WIDTH), CausalAttention()),
        Residual(nn.LayerNorm(WIDTH), *products),
    ]


def parameters(model: nn.Module) -> Iterator[nn.Parameter]:
    """In the order of the file: the beta of a normalization comes before its gamma."""
    for module in model.modules():
        own = list(module.parameters(recurse=False))
        yield from own[::-1] if isinstance(module, nn.LayerNorm) else own


def loss_of(x: np.ndarray, y: np.ndarray) -> torch.Tensor:
    return nn.functional.cross_entropy(model(torch.tensor(x)).mT, torch.tensor(y).long())


@torch.no_grad()
def held_out() -> float:
    starts = np.arange(0, len(text.HELD) - CONTEXT, CONTEXT)
    parts = np.split(starts, range(text.BATCH, len(starts), text.BATCH))
    losses = [loss_of(*text.pieces(text.HELD, part)).item() for part in parts]
    return float(np.average(losses, weights=[len(part) for part in parts]))


@torch.no_grad()
def predict(codes: np.ndarray) -> np.ndarray:
    return model(torch.tensor(codes)).mT.numpy()


chosen = text.options()
if chosen.initial is None:
    raise SystemExit("write the weights by text.py --initial FILE.npz, and name that file here too")
model = nn.Sequential(
    *[nn.Embedding(len(LETTERS), WIDTH), Places()],
    *[block for _ in range(text.LAYERS) for block in layer()],
    *[nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(LETTERS))],
)
with np.load(chosen.initial) as file, torch.no_grad():
    for parameter, name in zip(parameters(model), file.files, strict=True):
        assert parameter.shape == file[name].shape, name
        parameter.copy_(torch.tensor(file[name]))

optimizer = torch.optim.Adam(model.parameters())
rates = torch.optim.lr_scheduler.OneCycleLR(
    optimizer, text.RATE, total_steps=chosen.epochs * chosen.steps, cycle_momentum=False
)
batches, losses, held, start = text.Batches(chosen.seed, chosen.steps), [], [], time.perf_counter()
for epoch in range(1, chosen.epochs + 1):
    batches.set_epoch(epoch)
    total = 0.0
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        rates.step()
        total += loss.item()
    losses.append(total / chosen.steps)
    held.append(held_out())
    print(f"epoch {epoch} loss {losses[-1]:.3f} held out {held[-1]:.3f}")
seconds = time.perf_counter() - start
print(text.sample(predict, chosen.seed, chosen.temperature))
if chosen.json:
    print(json.dumps({"losses": losses, "held_out": held, "seconds": round(seconds, 1)}))
