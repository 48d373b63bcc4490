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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np
from tqdm import tqdm

import traingraph as tg

CLASSES = 10


# --- data ----------------------------------------------------------------------------------------


class Split(NamedTuple):
    images: np.ndarray  # (N, 1, H, W) float32
    labels: np.ndarray  # (N,) int32


def check(name: str, images: np.ndarray, labels: np.ndarray) -> Split:
    """Raises ValueError that says what to change; names are x_<name> and y_<name>."""
    x, y = f"x_{name}", f"y_{name}"
    if images.ndim == 3:
        images = images[:, None]
    if images.ndim != 4 or images.shape[1] != 1:
        raise ValueError(f"{x}: expected (N, H, W) or (N, 1, H, W) but got {images.shape}")
    if any(extent < 4 or extent % 2 for extent in images.shape[2:]):
        raise ValueError(
            f"{x}: expected an even height and width of at least 4 but got "
            f"{images.shape[2]}x{images.shape[3]}; pad or crop the images"
        )
    if images.dtype.kind not in "buif" or not np.isfinite(images).all():
        raise ValueError(f"{x}: expected finite numbers; remove NaN, infinity and other values")
    if labels.dtype.kind not in "iu":
        raise ValueError(f"{y}: expected integers but got {labels.dtype}; convert with astype(int)")
    if labels.shape != images.shape[:1] or not labels.size:
        raise ValueError(
            f"{y}: expected one label for each of the {len(images)} images in {x} "
            f"but got shape {labels.shape}"
        )
    wrong = np.flatnonzero((labels < 0) | (labels >= CLASSES))
    if wrong.size:
        raise ValueError(
            f"{y}: expected labels from 0 to {CLASSES - 1} but got "
            f"{labels[wrong[0]]} in row {wrong[0]}"
        )
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
    if test.images.shape[2:] != train.images.shape[2:]:
        raise ValueError(
            f"x_test: expected images of {train.images.shape[2:]} as in x_train but "
            f"got {test.images.shape[2:]}"
        )
    largest = np.abs(train.images).max()
    if largest == 0:
        raise ValueError("x_train: expected images but all pixels are 0")
    train, test = (split._replace(images=split.images / largest) for split in (train, test))
    return train, test


def batches(split: Split, size: int, order: np.ndarray | None = None) -> Iterator[Split]:
    """Consecutive rows, in the given order; the last batch may be smaller."""
    rows = np.arange(len(split.labels)) if order is None else order
    for start in range(0, len(rows), size):
        some = rows[start : start + size]
        yield Split(split.images[some], split.labels[some])


# --- network -------------------------------------------------------------------------------------


def descriptor(size: int, inputs: int, outputs: int) -> tg.MLCConvolutionDescriptor:
    return tg.MLCConvolutionDescriptor(
        kernel_sizes=(size, size),
        input_feature_channel_count=inputs,
        output_feature_channel_count=outputs,
    )


def convolution(inputs: int, outputs: int) -> tg.MLCConvolutionLayer:
    return tg.MLCConvolutionLayer(descriptor=descriptor(3, inputs, outputs))


def fully_connected(inputs: int, outputs: int) -> tg.MLCFullyConnectedLayer:
    return tg.MLCFullyConnectedLayer(descriptor=descriptor(1, inputs, outputs))


def normalization(channels: int) -> tg.MLCBatchNormalizationLayer:
    # A short training: with the default momentum of 0.99 the running statistics would lag behind.
    return tg.MLCBatchNormalizationLayer(feature_channel_count=channels, momentum=0.9)


class Network:
    """One graph of layers in a training and an inference graph, which share the weights."""

    def __init__(self, height: int, width: int, batch_size: int, device: str) -> None:
        self.batch_size = batch_size
        features = 64 * (height // 2) * (width // 2)
        halved = tg.MLCPoolingDescriptor(
            type=tg.MLCPoolingType.MAX, kernel_sizes=(2, 2), strides=(2, 2)
        )
        x = tg.MLCTensor(shape=[batch_size, 1, height, width])
        label = tg.MLCTensor(shape=[batch_size], data_type=tg.MLCDataType.INT32)
        graph = tg.MLCGraph()
        layers = [
            convolution(1, 32),
            normalization(32),
            tg.MLCActivationLayer.relu(),
            convolution(32, 64),
            normalization(64),
            tg.MLCActivationLayer.relu(),
            tg.MLCPoolingLayer(descriptor=halved),
            tg.MLCReshapeLayer(shape=[batch_size, features]),
            fully_connected(features, 128),
            tg.MLCActivationLayer.relu(),
            fully_connected(128, CLASSES),
        ]
        tg.sequential(graph, x, layers)
        # Smoothed labels keep so small a data set from being learned by heart.
        loss = tg.MLCLossLayer.softmax_cross_entropy(
            reduction_type=tg.MLCReductionType.MEAN, label_smoothing=0.1
        )
        self.optimizer = tg.MLCAdamOptimizer(learning_rate=1e-3)
        self.training = tg.MLCTrainingGraph(
            graph_objects=[graph], loss_layer=loss, optimizer=self.optimizer
        )
        self.training.add_inputs({"x": x}, loss_labels={"label": label})
        self.training.compile(options=tg.MLCGraphCompilationOptions.NONE, device=device)
        self.inference = tg.MLCInferenceGraph(graph_objects=[graph])
        self.inference.add_inputs({"x": x})
        self.inference.compile(options=tg.MLCGraphCompilationOptions.NONE, device=device)

    def train(self, batch: Split) -> float:
        """One step; returns the mean loss of the batch before it."""
        step = self.training.execute(
            inputs_data={"x": batch.images},
            loss_labels_data={"label": batch.labels},
            batch_size=len(batch.labels),
            options=tg.MLCExecutionOptions.SYNCHRONOUS,
        )
        return float(step.result)

    def predict(self, split: Split) -> np.ndarray:
        """Unnormalised log probabilities (N, CLASSES)."""
        results = [
            self.inference.execute(
                inputs_data={"x": batch.images},
                batch_size=len(batch.labels),
                options=tg.MLCExecutionOptions.SYNCHRONOUS,
            ).result
            for batch in batches(split, self.batch_size)
        ]
        return np.concatenate(results)


def accuracy(logits: np.ndarray, labels: np.ndarray) -> float:
    return float((logits.argmax(axis=1) == labels).mean())


# --- picture -------------------------------------------------------------------------------------


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
    for axes in (upper, lower):
        axes.grid(alpha=0.3)

    scores = np.exp(logits - logits.max(axis=1, keepdims=True))
    scores /= scores.sum(axis=1, keepdims=True)
    sureness = scores[np.arange(len(test.labels)), test.labels]
    pictures.suptitle("Least sure test images (red: wrong)")
    grid = pictures.subplots(3, 5).ravel()
    for axes in grid:
        axes.set_axis_off()
    for axes, row in zip(grid, np.argsort(sureness), strict=False):
        guess = int(scores[row].argmax())
        right = guess == test.labels[row]
        axes.imshow(test.images[row, 0], cmap="gray_r")
        axes.set_title(
            f"{guess} ({scores[row, guess]:.0%})" if right else f"{guess}, is {test.labels[row]}",
            fontsize=10,
            color="black" if right else "tab:red",
        )
    figure.savefig(path, dpi=120)


# --- command -------------------------------------------------------------------------------------


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, without the usage."""
        self.exit(2, f"{self.prog}: error: {' '.join(message.split())}\n")


def at_least(least: int, text: str) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"expected a number of at least {least}, not {text!r}")
    return int(text)


def count(text: str) -> int:
    return at_least(1, text)


def seed(text: str) -> int:
    # The range that scikit-learn and NumPy accept.
    value = at_least(0, text)
    if value >= 2**32:
        raise argparse.ArgumentTypeError(f"expected a number below 2**32, not {text}")
    return value


def picture(text: str) -> Path:
    path = Path(text)
    if path.suffix.lower() != ".png" or not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"expected a .png in an existing folder, not {text!r}")
    return path


def options_of(parser: Parser, arguments: Sequence[str] | None) -> argparse.Namespace:
    parser.add_argument("--data", metavar="FILE.npz", help="your own images instead of the digits")
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
        network = Network(height, width, batch_size, options.device)
    except (ValueError, tg.Error) as error:
        parser.error(str(error))

    order = np.random.default_rng(options.seed)
    losses, accuracies, steps = [], [], 0
    logits = np.empty((0, CLASSES))
    for epoch in range(options.epochs):
        # Small steps at the end settle the weights. A new rate compiles nothing.
        if epoch == options.epochs * 2 // 3:
            network.optimizer.learning_rate /= 10
        total = 0.0
        rows = order.permutation(len(train.labels))
        with tqdm(
            desc=f"epoch {epoch + 1}/{options.epochs}",
            total=-(-len(rows) // batch_size),
            unit="step",
        ) as bar:
            for batch in batches(train, batch_size, rows):
                total += network.train(batch) * len(batch.labels)
                steps += 1
                bar.update()
            losses.append(total / len(rows))
            logits = network.predict(test)
            accuracies.append(accuracy(logits, test.labels))
            bar.set_postfix(loss=f"{losses[-1]:.4f}", test_accuracy=f"{accuracies[-1]:.2%}")
    seconds = time.perf_counter() - start

    if options.plot:
        plot(options.plot, losses, accuracies, test, logits)
    print(f"test accuracy {accuracies[-1]:.2%} after {steps} steps in {seconds:.1f} s")
    if options.json:
        summary = {"test_accuracy": accuracies[-1], "seconds": round(seconds, 3), "steps": steps}
        print(json.dumps(summary))
    return 0


if __name__ == "__main__":
    sys.exit(main())
