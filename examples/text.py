"""A small transformer learns to write Python's own help, character by character.

    python examples/text.py --plot text.png

PyTorch's is text_torch.py, which reads the weights that --initial writes and makes the same steps.
The text is that of help(topic), without the topics of the last tenth, which are held out.
"""

import argparse
import json
import pydoc_data.topics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from tqdm import tqdm

import traingraph as tg
from digits import picture
from traingraph import nn

CONTEXT, BATCH = 64, 32  # characters of a piece, pieces of a step
WIDTH, HEADS, LAYERS = 128, 4, 3
RATE = 3e-3

TEXT = "\n".join(text for _, text in sorted(pydoc_data.topics.topics.items()))
LETTERS = sorted(set(TEXT))
CODES = np.searchsorted(LETTERS, list(TEXT)).astype(np.int32)
TRAIN, HELD = np.split(CODES, [len(CODES) * 9 // 10])


def pieces(codes: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Characters, and for each of them the one that follows."""
    places = starts[:, None] + np.arange(CONTEXT)
    return codes[places], codes[places + 1]


class Batches:
    """Pieces from random places, the same ones in the same epoch of the same seed."""

    def __init__(self, seed: int, steps: int) -> None:
        self.seed, self.steps, self.epoch = seed, steps, 1

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        rng = np.random.default_rng([self.seed, self.epoch])
        for _ in range(self.steps):
            yield pieces(TRAIN, rng.integers(0, len(TRAIN) - CONTEXT, BATCH))


def network() -> tg.MLCTrainingGraph:
    layer = [
        nn.residual([nn.layer_norm(), nn.attention(HEADS, bias=False, causal=True)]),
        nn.residual([nn.layer_norm(), nn.dense(4 * WIDTH, activation="gelu_erf"), nn.dense(WIDTH)]),
    ]
    return nn.model(
        [
            *[nn.embedding(len(LETTERS), WIDTH), nn.positional_embedding(), *(LAYERS * layer)],
            *[nn.layer_norm(), nn.dense(len(LETTERS)), nn.permute((2, 1))],
        ],
        input=CONTEXT,
        batch_size=BATCH,
    )


def sample(predict: Callable[[np.ndarray], np.ndarray], seed: int, temperature: float) -> str:
    """400 characters that the network draws. Low temperatures prefer what is likely.

    predict gives the logits (1, characters, CONTEXT) for the codes (1, CONTEXT).
    """
    rng = np.random.default_rng(seed)
    codes = [LETTERS.index(letter) for letter in "The "]
    for _ in range(400):
        seen = codes[-CONTEXT:]
        padded = np.zeros((1, CONTEXT), np.int32)  # no step sees what is behind it
        padded[0, : len(seen)] = seen
        logits = predict(padded)[0, :, len(seen) - 1].astype(np.float64) / temperature
        chances = np.exp(logits - logits.max())
        codes.append(int(rng.choice(len(LETTERS), p=chances / chances.sum())))
    return "".join(LETTERS[code] for code in codes)


def plot(path: Path, losses: list[float], held: list[float]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for values, label in ((losses, "training"), (held, "held out")):
        axes.plot(range(1, len(values) + 1), values, "o-", markersize=4, label=label)
    axes.set(xlabel="epoch", ylabel="loss per character (nats)")
    axes.locator_params(axis="x", integer=True)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=120)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--steps", type=int, default=100, help="of each epoch")
    parser.add_argument("--seed", type=int, default=0, help="of weights, pieces and the sample")
    parser.add_argument("--temperature", type=float, default=0.7, help="of the sample, 0.01 to 100")
    parser.add_argument("--initial", type=Path, help="the .npz of the weights of the beginning")
    parser.add_argument("--plot", type=picture, metavar="PNG", help="draw the losses")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    chosen = parser.parse_args()
    # What would fail only when all is trained.
    if not 0.01 <= chosen.temperature <= 100:
        parser.error(f"--temperature: expected 0.01 to 100 but got {chosen.temperature}")
    if min(chosen.epochs, chosen.steps) < 1 or chosen.epochs * chosen.steps < 3:
        parser.error("--epochs, --steps: expected at least 1 each and 3 steps in all")
    return chosen


def main() -> None:
    chosen = options()
    tg.MLCPlatform.set_rng_seed_to(chosen.seed)
    model = network()
    if chosen.initial:
        state = model.state()
        np.savez(chosen.initial, **{name: state[name] for name in model.named_parameters()})

    held, start = [], time.perf_counter()
    with tqdm(total=chosen.epochs, unit="epoch") as bar:

        def after(epoch: tg.Epoch) -> None:
            held.append(epoch.validation.loss)
            bar.set_postfix(loss=f"{epoch.loss:.3f}", held_out=f"{held[-1]:.3f}")
            bar.update()

        epochs = model.fit(
            batches=Batches(chosen.seed, chosen.steps),
            epochs=chosen.epochs,
            validation=pieces(HELD, np.arange(0, len(HELD) - CONTEXT, CONTEXT)),
            schedule=tg.RateSchedule.one_cycle(RATE, steps=chosen.epochs * chosen.steps),
            on_epoch=after,
        )
    seconds = time.perf_counter() - start

    def predict(codes: np.ndarray) -> np.ndarray:
        return model.predict(codes, batch_size=1)

    written = sample(predict, chosen.seed, chosen.temperature)
    if chosen.plot:
        plot(chosen.plot, [epoch.loss for epoch in epochs], held)
    print(written)
    print(f"held-out loss {held[-1]:.3f} per character after {seconds:.0f} s")
    if chosen.json:
        summary = {"losses": [epoch.loss for epoch in epochs], "held_out": held}
        print(json.dumps({**summary, "sample": written, "seconds": round(seconds, 1)}))


if __name__ == "__main__":
    main()
