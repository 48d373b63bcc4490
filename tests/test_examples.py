"""The programs in examples/ as a user runs them."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("tqdm")

DIGITS = Path(__file__).resolve().parents[1] / "examples" / "digits.py"
PNG = b"\x89PNG\r\n\x1a\n"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(DIGITS), *map(str, arguments)]
    without_gpu = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(command, capture_output=True, text=True, timeout=900, env=without_gpu)


def images(count: int, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """A bright row whose place tells the class, where there are so many rows, in noise."""
    rng = np.random.default_rng(count)
    labels = rng.integers(0, min(height, 10), count)
    pictures = rng.integers(0, 60, (count, height, width), np.uint8)
    pictures[np.arange(count), labels] += 150
    return pictures, labels


@pytest.fixture
def archive(tmp_path: Path) -> Callable[..., Path]:
    def make(height: int = 6, width: int = 4, **changes: Callable | None) -> Path:
        x_train, y_train = images(130, height, width)
        x_test, y_test = images(33, height, width)
        arrays = {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}
        for name, change in changes.items():
            if change is None:
                del arrays[name]
            else:
                arrays[name] = change(arrays[name])
        path = tmp_path / "images.npz"
        np.savez(path, **arrays)
        return path

    return make


# Lines with code, imports and documents apart; what its last words are at least.
SHORT = {"train_digits": (28, "accuracy", 0.98), "train_table": (24, "R²", 0.5)}


@pytest.mark.parametrize("name", SHORT)
def test_short_programs_train_well(name: str) -> None:
    if name == "train_table":
        pytest.importorskip("pandas")
    most, word, least = SHORT[name]
    program = DIGITS.with_name(f"{name}.py")
    lines = program.read_text().splitlines()
    code = [line for line in lines if line and not re.match(r'import |from |"""', line)]
    assert len(code) <= most
    done = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True, text=True, timeout=900,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = re.search(rf"{word} (\d\.\d+)", done.stdout)
    assert found, done.stdout
    assert float(found[1]) >= least


def test_digits_are_learned(tmp_path: Path) -> None:
    picture = tmp_path / "digits.png"
    done = run("--json", "--plot", picture)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary["test_accuracy"] >= 0.985
    assert summary["steps"] == 450
    assert summary["seconds"] > 0
    assert picture.read_bytes().startswith(PNG)
    assert picture.stat().st_size > 10_000
    # Each epoch ends with its loss and accuracy.
    ends = [line for line in done.stderr.splitlines() if "loss=" in line]
    counts = {int(re.search(r"(\d+)/10 ", line)[1]) for line in ends}  # type: ignore[index]
    assert counts >= set(range(1, 11))
    assert all("test_accuracy=" in line for line in ends)


@pytest.mark.programs
def test_seeds_repeat_a_run() -> None:
    results = [
        json.loads(run("--epochs", 1, "--seed", 3, "--json").stdout.splitlines()[-1])
        for _ in range(2)
    ]
    assert results[0]["test_accuracy"] == results[1]["test_accuracy"]


@pytest.mark.parametrize(
    ("height", "width", "channel"), [(4, 4, False), (6, 10, True), (16, 8, False)], ids=str
)
def test_images_of_your_own(
    archive: Callable[..., Path], height: int, width: int, channel: bool
) -> None:
    def shaped(x: np.ndarray) -> np.ndarray:
        return x[:, None] if channel else x

    path = archive(height, width, x_train=shaped, x_test=shaped)
    done = run("--data", path, "--epochs", 6, "--batch-size", 20, "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary["steps"] == 6 * 7  # the last batch of an epoch has 10 rows
    assert summary["test_accuracy"] > 0.8


def test_a_batch_larger_than_the_data(archive: Callable[..., Path]) -> None:
    done = run("--data", archive(), "--epochs", 1, "--batch-size", 4096, "--json")
    assert json.loads(done.stdout.splitlines()[-1])["steps"] == 1


def nan(x: np.ndarray) -> np.ndarray:
    return np.where(x == x.max(), np.nan, x)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"y_test": None}, "y_test is not a file in the archive; save x_train, x_test"),
        ({"x_train": nan}, "x_train: expected finite numbers"),
        ({"x_train": lambda x: x * 0}, "x_train: expected images but got pixels that are all 0"),
        ({"x_test": lambda x: x[:, :, :3]}, "x_test: expected an even height and width"),
        ({"x_train": lambda x: x[:, :2]}, "at least 4 but got 2x4"),
        ({"x_test": lambda x: np.tile(x, (1, 1, 2))}, "x_test: expected images of (6, 4)"),
        ({"x_train": lambda x: x[0]}, "x_train: expected (N, H, W) or (N, 1, H, W)"),
        ({"x_train": lambda x: np.stack([x] * 3, 1)}, "but got (130, 3, 6, 4)"),
        ({"x_train": lambda x: x.astype(str)}, "x_train: expected finite numbers"),
        ({"y_train": lambda y: y[1:]}, "y_train: expected one label for each of the 130 images"),
        ({"y_train": lambda y: y + 0.5}, "y_train: expected integers but got float64"),
        ({"y_test": lambda y: y + 9}, "y_test: expected labels from 0 to 9 but got"),
        ({"y_train": lambda y: y - 1}, "y_train: expected labels from 0 to 9 but got -1"),
        ({"x_test": lambda x: x[:0], "y_test": lambda y: y[:0]}, "y_test: expected one label"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_data_ends_in_one_line(
    archive: Callable[..., Path], changes: dict, expected: str
) -> None:
    refuses(expected, "--data", archive(**changes))


def refuses(expected: str, *arguments: object) -> None:
    done = run(*arguments)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("digits.py: error: ")
    assert expected in line


@pytest.mark.parametrize(
    ("content", "expected"),
    [(None, "No such file"), (b"", "No data left"), (b"PK\3\4 no archive", "not a zip file")],
    ids=["missing", "empty", "broken"],
)
def test_a_file_that_is_no_archive(tmp_path: Path, content: bytes | None, expected: str) -> None:
    path = tmp_path / "file.npz"
    if content is not None:
        path.write_bytes(content)
    refuses(expected, "--data", path)


def test_a_file_with_one_array(tmp_path: Path) -> None:
    np.save(tmp_path / "one.npy", np.zeros(3))
    refuses("save all four with numpy.savez", "--data", tmp_path / "one.npy")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--device", "abacus"], "cpu, reference"),
        (["--device", "gpu"], "GPU"),
        (["--epochs", "0"], "--epochs: expected a number from 1 to"),
        (["--batch-size", "many"], "--batch-size: expected a number from 1 to"),
        (["--seed", "-1"], "--seed"),
        (["--plot", "picture.jpg"], "--plot: expected a .png"),
        (["--plot", "no/such/folder/picture.png"], "existing folder"),
        (["--speed", "9"], "unrecognized arguments: --speed 9"),
    ],
    ids=str,
)
def test_wrong_options_end_in_one_line(arguments: list[str], expected: str) -> None:
    refuses(expected, *arguments)


# --- the MPS layer -------------------------------------------------------------------------------

CLASSIFIER = DIGITS.with_name("mps_classifier.py")


@pytest.mark.programs
def test_a_classifier_is_trained_in_three_ways() -> None:
    printed = []
    for way in ("training_graph", "gradient_filters", "by_hand"):
        done = subprocess.run(
            [sys.executable, str(CLASSIFIER), way], capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout.splitlines())
    assert printed[0] == printed[1] == printed[2]
    assert float(printed[0][-1].removeprefix("test accuracy ")) >= 0.96
