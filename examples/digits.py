"""Trains a convolutional network on handwritten digits.

    python examples/digits.py --plot digits.png

Without --data the images are scikit-learn's 1,797 digits of 8x8 pixels, a stratified fifth of them
held back for the test. A file of your own is a NumPy archive with

    x_train, x_test   (N, H, W) or (N, 1, H, W), H and W even and at least 4, any numeric type
    y_train, y_test   (N,) integers from 0 to 9

All images are divided by the largest absolute value in x_train.
"""

import argparse
import json
import sys
import time
import zipfile
import zlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np
from tqdm import tqdm

import traingraph as tg
from traingraph import nn

CLASSES = 10


class Split(NamedTuple):
    images: np.ndarray  # (N, 1, H, W) float32
    labels: np.ndarray  # (N,) int32


def expect(holds: bool, name: str, expected: str, got: object) -> None:
    if not holds:
        raise ValueError(f"{name}: expected {expected} but got {got}")


def check(name: str, images: np.ndarray, labels: np.ndarray) -> Split:
    """Raises ValueError that says what to change; names are x_<name> and y_<name>."""
    x, y = f"x_{name}", f"y_{name}"
    if images.ndim == 3:
        images = images[:, None]
    shape = images.shape
    expect(len(shape) == 4 and shape[1] == 1, x, "(N, H, W) or (N, 1, H, W)", shape)
    even = all(extent >= 4 and extent % 2 == 0 for extent in shape[2:])
    got = f"{shape[2]}x{shape[3]}; pad or crop the images"
    expect(even, x, "an even height and width of at least 4", got)
    finite = images.dtype.kind in "buif" and np.isfinite(images).all()
    expect(finite, x, "finite numbers", "NaN, infinity or other values; remove them")
    expect(labels.dtype.kind in "iu", y, "integers", f"{labels.dtype}; convert with astype(int)")
    one_each = labels.shape == shape[:1] and labels.size > 0
    expect(one_each, y, f"one label for each of the {len(images)} images in {x}", labels.shape)
    wrong = np.flatnonzero((labels < 0) | (labels >= CLASSES))
    if wrong.size:
        expect(False, y, f"labels from 0 to {CLASSES - 1}", f"{labels[wrong[0]]} in row {wrong[0]}")
    return Split(images.astype(np.float32), labels.astype(np.int32))


def load(path: str | None, seed: int) -> tuple[Split, Split]:
    """Training and test images, from 0 to 1 where they are not negative."""
    if path is None:
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split

        digits = load_digits()
        x_train, x_test, y_train, y_test = train_test_split(
            digits.images, digits.target, test_size=0.2, stratify=digits.target, random_state=seed
        )
    else:
        names = ("x_train", "x_test", "y_train", "y_test")
        try:
            archive = np.load(path)
            if isinstance(archive, np.ndarray):
                raise ValueError("it holds one array; save all four with numpy.savez")
            x_train, x_test, y_train, y_test = (archive[name] for name in names)
        except KeyError as error:
            raise ValueError(f"{path}: {error.args[0]}; save {', '.join(names)}") from error
        except (OSError, EOFError, ValueError, zipfile.BadZipFile, zlib.error) as error:
            raise ValueError(f"{path}: expected an archive of numpy.savez: {error}") from error
    train, test = check("train", x_train, y_train), check("test", x_test, y_test)
    size, other = train.images.shape[2:], test.images.shape[2:]
    expect(size == other, "x_test", f"images of {size} as in x_train", other)
    largest = np.abs(train.images).max()
    expect(largest > 0, "x_train", "images", "pixels that are all 0")
    train, test = (split._replace(images=split.images / largest) for split in (train, test))
    return train, test


def network(
    height: int, width: int, batch_size: int, optimizer: tg.MLCOptimizer, device: str
) -> tg.MLCTrainingGraph:
    return nn.model(
        [
            nn.sequential([nn.conv2d(32, 3), nn.batch_norm(), "relu"]),
            nn.sequential([nn.conv2d(64, 3), nn.batch_norm(), "relu", nn.max_pool(2)]),
            nn.flatten(),
            nn.dense(128, activation="relu"),
            nn.dense(CLASSES),
        ],
        input=(1, height, width),
        # Smoothed labels keep so small a data set from being learned by heart.
        loss=tg.MLCLossLayer.softmax_cross_entropy(label_smoothing=0.1),
        optimizer=optimizer,
        batch_size=batch_size,
        device=device,
    )


def plot(
    path: Path, losses: list[float], accuracies: list[float], test: Split, logits: np.ndarray
) -> None:
    """Curves of the training, and the test images that the network was least sure about."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5), layout="constrained")
    curves, pictures = np.ravel(figure.subfigures(1, 2, width_ratios=(5, 6)))
    upper, lower = curves.subplots(2, 1, sharex=True)
    epochs = range(1, len(losses) + 1)
    upper.plot(epochs, losses, "o-", color="tab:blue", markersize=4)
    upper.set(title="Training (loss of smoothed labels, 0.5 at best)", ylabel="mean loss")
    lower.plot(epochs, [100 * value for value in accuracies], "o-", color="tab:green", markersize=4)
    lower.set(xlabel="epoch", ylabel="test accuracy (%)")
    lower.locator_params(axis="x", integer=True)
    upper.grid(alpha=0.3)
    lower.grid(alpha=0.3)
    scores = np.exp(logits - logits.max(axis=1, keepdims=True))
    scores /= scores.sum(axis=1, keepdims=True)
    sureness = scores[np.arange(len(test.labels)), test.labels]
    pictures.suptitle("Least sure test images (red: wrong)")
    grid = pictures.subplots(3, 5).ravel()
    for axes in grid:
        axes.set_axis_off()
    for axes, row in zip(grid, np.argsort(sureness), strict=False):
        guess, label = int(scores[row].argmax()), test.labels[row]
        axes.imshow(test.images[row, 0], cmap="gray_r")
        text = f"{guess} ({scores[row, guess]:.0%})" if guess == label else f"{guess}, is {label}"
        axes.set_title(text, fontsize=10, color="black" if guess == label else "tab:red")
    figure.savefig(path, dpi=120)


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, without the usage."""
        self.exit(2, f"{self.prog}: error: {' '.join(message.split())}\n")


def number(least: int, most: int, text: str) -> int:
    if not text.isdecimal() or not least <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"expected a number from {least} to {most}, not {text!r}")
    return int(text)


def picture(text: str) -> Path:
    path = Path(text)
    if path.suffix.lower() != ".png" or not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"expected a .png in an existing folder, not {text!r}")
    return path


def options_of(parser: Parser, arguments: Sequence[str] | None) -> argparse.Namespace:
    parser.add_argument("--data", metavar="FILE.npz", help="your own images instead of the digits")
    count, seed = partial(number, 1, 2**31 - 1), partial(number, 0, 2**32 - 1)
    parser.add_argument("--epochs", type=count, default=10)
    parser.add_argument("--batch-size", type=count, default=32)
    parser.add_argument("--seed", type=seed, default=0, help="of the split, weights and order")
    parser.add_argument("--device", default="cpu", help="cpu, gpu, any, reference")
    parser.add_argument("--plot", type=picture, metavar="PNG", help="draw the training and images")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = Parser(
        prog="digits.py", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    options = options_of(parser, arguments)
    tg.MLCPlatform.set_rng_seed_to(options.seed)
    start = time.perf_counter()
    try:
        train, test = load(options.data, options.seed)
        batch_size = min(options.batch_size, len(train.labels))
        height, width = train.images.shape[2:]
        optimizer = nn.adam(1e-3)
        model = network(height, width, batch_size, optimizer, options.device)
    except (ValueError, tg.Error) as error:
        parser.error(str(error))

    losses, accuracies = [], []
    with tqdm(total=options.epochs, unit="epoch") as bar:

        def after(epoch: tg.Epoch) -> None:
            losses.append(epoch.loss)
            accuracies.append(model.evaluate(test.images, test.labels).accuracy)
            # Small steps at the end settle the weights. A new rate compiles nothing.
            if epoch.number == options.epochs * 2 // 3:
                optimizer.learning_rate /= 10
            bar.set_postfix(loss=f"{losses[-1]:.4f}", test_accuracy=f"{accuracies[-1]:.2%}")
            bar.update()

        epochs = model.fit(train.images, train.labels, epochs=options.epochs, on_epoch=after)
    seconds = time.perf_counter() - start
    steps = sum(epoch.steps for epoch in epochs)

    if options.plot:
        plot(options.plot, losses, accuracies, test, model.predict(test.images))
    print(f"test accuracy {accuracies[-1]:.2%} after {steps} steps in {seconds:.1f} s")
    if options.json:
        summary = {"test_accuracy": accuracies[-1], "seconds": round(seconds, 3), "steps": steps}
        print(json.dumps(summary))
    return 0


if __name__ == "__main__":
    sys.exit(main())
