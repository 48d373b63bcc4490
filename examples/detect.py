"""A small one-stage detector finds circles, squares and triangles, and says where they are.

    python examples/detect.py --plot boxes.png

The network looks at an image once. Each of 8x8 cells says whether the middle of a shape is in it,
where, how large the shape is and of which kind, which is what the loss of YOLO compares. The images
are drawn while the network trains. It prints the average precision at half overlap (AP 50).
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

import traingraph as tg
from digits import picture
from traingraph import nn

SIDE, CELLS, BATCH = 64, 8, 32
CELL = SIDE // CELLS
KINDS = ["circle", "square", "triangle"]
ANCHOR = 2.0  # cells, a usual width and height of a shape


class Objects(NamedTuple):
    """Of one image."""

    kinds: np.ndarray  # (n,) indices into KINDS
    boxes: np.ndarray  # (n, 4) left, top, right, bottom in pixels
    scores: np.ndarray  # (n,) how sure the network is of kind and place


def draw(rng: np.random.Generator) -> tuple[np.ndarray, Objects]:
    """An image (3, SIDE, SIDE) of one to five shapes that do not touch, in noise."""
    image = rng.uniform(0, 0.4, (3, 1, 1)) + rng.normal(0, 0.05, (3, SIDE, SIDE))
    y, x = np.mgrid[:SIDE, :SIDE] + 0.5
    kinds, boxes = [], []
    for _ in range(rng.integers(1, 6)):
        size, kind = rng.uniform(9, 26), int(rng.integers(len(KINDS)))
        left, top = rng.uniform(0, SIDE - size, 2)
        box = [left, top, left + size, top + size]
        if any((overlap(np.array([box]), np.array(boxes)) > 0).ravel()):
            continue
        across, down = (x - left) / size - 0.5, (y - top) / size - 0.5
        inside = [
            across**2 + down**2 <= 0.25,
            np.maximum(abs(across), abs(down)) <= 0.5,
            (abs(down) <= 0.5) & (abs(across) <= (down + 0.5) / 2),
        ][kind]
        image = np.where(inside, rng.uniform(0.5, 1, (3, 1, 1)), image)
        kinds.append(kind)
        boxes.append(box)
    found = Objects(np.array(kinds), np.array(boxes), np.ones(len(kinds)))
    return image.astype(np.float32), found


def overlap(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Intersection over union of boxes (n, 4) and (m, 4): (n, m)."""
    a, b = a.reshape(-1, 1, 4), b.reshape(1, -1, 4)
    sides = np.minimum(a[..., 2:], b[..., 2:]) - np.maximum(a[..., :2], b[..., :2])
    both = sides.clip(0).prod(-1)
    areas = (a[..., 2:] - a[..., :2]).prod(-1) + (b[..., 2:] - b[..., :2]).prod(-1)
    return both / (areas - both)


def encode(objects: Objects) -> np.ndarray:
    """The label of an image (8, CELLS, CELLS): x, y, width, height, 1 for an object, kinds."""
    label = np.zeros((5 + len(KINDS), CELLS, CELLS), np.float32)
    for kind, box in zip(objects.kinds, objects.boxes / CELL, strict=True):
        x, y = (box[:2] + box[2:]) / 2
        place = label[:, int(y), int(x)]
        place[:5] = [x % 1, y % 1, *(box[2:] - box[:2]), 1]
        place[5 + kind] = 1
    return label


def decode(output: np.ndarray, least: float) -> Objects:
    """What the network sees with this score at least. Of boxes that overlap by half, the surest."""
    row, column = np.mgrid[:CELLS, :CELLS]
    x, y, seen = 1 / (1 + np.exp(-output[[0, 1, 4]]))
    sizes = ANCHOR * np.exp(output[2:4])
    kinds = np.exp(output[5:] - output[5:].max(0))
    scores = (seen * (kinds / kinds.sum(0)).max(0)).ravel()
    middles = np.stack([column + x, row + y])
    boxes = CELL * np.concatenate([middles - sizes / 2, middles + sizes / 2]).reshape(4, -1).T
    kept: list[int] = []
    for place in np.argsort(-scores, kind="stable"):
        if scores[place] >= least and (overlap(boxes[[place]], boxes[kept]) < 0.5).all():
            kept.append(place)
    return Objects(kinds.argmax(0).ravel()[kept], boxes[kept], scores[kept])


def average_precision(truth: list[Objects], found: list[Objects]) -> float:
    """At half overlap: the area below precision over recall, of all points; the mean of the kinds.

    Each kind must be in the truth.
    """
    areas = []
    for kind in range(len(KINDS)):
        expected = [objects.boxes[objects.kinds == kind] for objects in truth]
        rows = []  # score, and whether it is right
        for objects, boxes in zip(found, expected, strict=True):
            taken: set[int] = set()
            for place in np.argsort(-objects.scores, kind="stable"):
                if objects.kinds[place] != kind:
                    continue
                overlaps = overlap(objects.boxes[place], boxes)[0]
                overlaps[list(taken)] = 0
                right = len(boxes) > 0 and overlaps.max() >= 0.5
                if right:
                    taken.add(int(overlaps.argmax()))
                rows.append((objects.scores[place], right))
        rows.sort(key=lambda row: -row[0])
        right_so_far = np.cumsum([right for _, right in rows])
        precision = right_so_far / np.arange(1, len(rows) + 1)
        best_from_here = np.maximum.accumulate(precision[::-1])[::-1]
        recall = right_so_far / sum(map(len, expected))
        areas.append(float((best_from_here * np.diff(recall, prepend=0)).sum()))
    return float(np.mean(areas))


class Images:
    """Batches for fit, the same ones in the same epoch of the same seed."""

    def __init__(self, seed: int, steps: int) -> None:
        self.seed, self.steps, self.epoch = seed, steps, 1

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        rng = np.random.default_rng([self.seed, self.epoch])
        for _ in range(self.steps):
            images, objects = zip(*(draw(rng) for _ in range(BATCH)), strict=True)
            yield np.stack(images), np.stack([encode(each) for each in objects])


def network() -> tg.MLCTrainingGraph:
    def convolution(channels: int) -> list[nn.Block | str]:
        return [nn.conv2d(channels, 3, bias=False), nn.batch_norm(), "leaky_relu"]

    anchors = tg.MLCYOLOLossDescriptor(anchor_boxes=[(ANCHOR, ANCHOR)], anchor_box_count=1)
    return nn.model(
        [
            *[*convolution(16), nn.max_pool(2), *convolution(32), nn.max_pool(2)],
            *[*convolution(64), nn.max_pool(2), *convolution(128), *convolution(128)],
            nn.conv2d(5 + len(KINDS), 1),
        ],
        input=(3, SIDE, SIDE),
        loss=tg.MLCYOLOLossLayer(descriptor=anchors),
        batch_size=BATCH,
    )


def plot(
    path: Path, losses: list[float], images: np.ndarray, truth: list[Objects], found: list[Objects]
) -> None:
    """Losses, and images with the boxes of the network; dotted is what it should find."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    colours = ["tab:orange", "tab:cyan", "tab:pink"]
    figure = Figure(figsize=(13, 6), layout="constrained")
    curve, pictures = np.ravel(figure.subfigures(1, 2, width_ratios=(3, 7)))
    axes = curve.subplots()
    axes.plot(range(1, len(losses) + 1), losses, "o-", markersize=4)
    axes.set(title="Training", xlabel="epoch", ylabel="mean loss of an image")
    axes.locator_params(axis="x", integer=True)
    axes.grid(alpha=0.3)
    grid = pictures.subplots(3, 5).ravel()
    for axes, image, *both in zip(grid, images, truth, found, strict=False):
        axes.imshow(image.transpose(1, 2, 0).clip(0, 1), extent=(0, SIDE, SIDE, 0))
        axes.set_axis_off()
        for (kinds, boxes, scores), is_found in zip(both, (False, True), strict=True):
            for kind, (left, top, right, bottom), score in zip(kinds, boxes, scores, strict=True):
                line = {"color": colours[kind]} if is_found else {"color": "w", "ls": ":"}
                shape = Rectangle((left, top), right - left, bottom - top, fill=False, **line)
                axes.add_patch(shape)
                if is_found:
                    text = f"{KINDS[kind]} {score:.2f}"
                    axes.text(left, max(top - 1, 3), text, color="w", fontsize=6)
    figure.savefig(path, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--steps", type=int, default=100, help="of each epoch")
    parser.add_argument("--seed", type=int, default=0, help="of weights and images")
    parser.add_argument("--plot", type=picture, metavar="PNG", help="draw the losses and boxes")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    options = parser.parse_args()
    # What would fail only when all is trained.
    if min(options.epochs, options.steps) < 1 or options.epochs * options.steps < 3:
        parser.error("--epochs, --steps: expected at least 1 each and 3 steps in all")
    tg.MLCPlatform.set_rng_seed_to(options.seed)
    model, start = network(), time.perf_counter()
    with tqdm(total=options.epochs, unit="epoch") as bar:

        def after(epoch: tg.Epoch) -> None:
            bar.set_postfix(loss=f"{epoch.loss:.2f}")
            bar.update()

        epochs = model.fit(
            batches=Images(options.seed, options.steps),
            epochs=options.epochs,
            schedule=tg.RateSchedule.one_cycle(5e-3, steps=options.epochs * options.steps),
            on_epoch=after,
        )
    seconds = time.perf_counter() - start

    rng = np.random.default_rng([options.seed, 0])  # no epoch has the number 0
    drawn, truth = zip(*(draw(rng) for _ in range(300)), strict=True)
    images = np.stack(drawn)
    outputs = model.predict(images)
    precision = average_precision(truth, [decode(output, 0.01) for output in outputs])
    losses = [epoch.loss for epoch in epochs]
    if options.plot:
        plot(options.plot, losses, images, truth, [decode(output, 0.5) for output in outputs[:15]])
    print(f"AP 50 {precision:.4f} over {len(images)} held-out images after {seconds:.0f} s")
    if options.json:
        summary = {"average_precision": precision, "losses": losses}
        print(json.dumps({**summary, "seconds": round(seconds, 1)}))


if __name__ == "__main__":
    main()
