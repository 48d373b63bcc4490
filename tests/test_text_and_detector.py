"""The transformer and the detector of examples/: their parts, short runs, and what they reach."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

pytest.importorskip("tqdm")
pytest.importorskip("matplotlib")

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
PNG = b"\x89PNG\r\n\x1a\n"


def run(name: str, *arguments: object, threads: int = 1) -> dict:
    """What the program ends with, apart from the time."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *map(str, arguments), "--json"],
        capture_output=True, text=True, timeout=1800,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": str(threads)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary.pop("seconds") > 0
    return summary


@pytest.fixture
def text(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(EXAMPLES)
    import text

    return text


@pytest.fixture
def detect(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(EXAMPLES)
    import detect

    return detect


PROGRAMS = pytest.mark.parametrize("name", ["text.py", "detect.py"])


@PROGRAMS
def test_a_short_run_draws(name: str, tmp_path: Path) -> None:
    picture = tmp_path / "picture.png"
    summary = run(name, "--epochs", 1, "--steps", 4, "--plot", picture)
    assert np.isfinite(summary["losses"]).tolist() == [True]
    assert picture.read_bytes().startswith(PNG)
    assert picture.stat().st_size > 10_000


@pytest.mark.programs
@PROGRAMS
def test_a_seed_repeats_a_run(name: str) -> None:
    first, again, other = (
        run(name, "--epochs", 2, "--steps", 10, "--seed", seed, threads=2) for seed in (0, 0, 1)
    )
    assert first == again
    assert first["losses"] != other["losses"]


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        *(("text.py", ["--temperature", t], "0.01 to 100") for t in ("0", "nan", "-1")),
        *((name, ["--plot", path], "expected a .png in an existing folder")
          for name in ("text.py", "detect.py") for path in ("picture.jpg", "no/folder/x.png")),
        *((name, ["--epochs", e, "--steps", s], "3 steps in all")
          for name in ("text.py", "detect.py") for e, s in (("1", "2"), ("0", "9"))),
    ],
)  # fmt: skip
def test_arguments_are_checked_before_training(name: str, arguments: list, text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        run(name, *arguments)


# --- the transformer -----------------------------------------------------------------------------


def beside_pytorch(initial: Path, *arguments: object, threads: int = 1) -> tuple[dict, dict]:
    pytest.importorskip("torch")
    return (
        run("text.py", "--initial", initial, *arguments, threads=threads),
        run("text_torch.py", "--initial", initial, *arguments, threads=threads),
    )


def test_the_first_steps_are_pytorchs(tmp_path: Path) -> None:
    mine, theirs = beside_pytorch(tmp_path / "weights.npz", "--epochs", 1, "--steps", 4)
    for name in ("losses", "held_out"):
        # PyTorch adds Adam's epsilon at another place; with one of 1e-13 it is 4e-8.
        np.testing.assert_allclose(mine[name], theirs[name], rtol=5e-5)


@pytest.mark.programs
def test_the_transformer_learns_as_pytorchs(tmp_path: Path) -> None:
    """A sixth of the whole length, which docs/classes/nn.md gives."""
    mine, theirs = beside_pytorch(tmp_path / "weights.npz", "--epochs", 2, threads=2)
    for name in ("losses", "held_out"):
        assert mine[name][-1] == pytest.approx(theirs[name][-1], rel=0.02)
    assert mine["held_out"][-1] < 2.2


def test_no_character_sees_a_later_one(text: ModuleType) -> None:
    model = text.network()
    codes = np.random.default_rng(0).integers(0, len(text.LETTERS), (1, text.CONTEXT), np.int32)
    before = model.predict(codes, batch_size=1)
    codes[0, 40] = (codes[0, 40] + 1) % len(text.LETTERS)
    after = model.predict(codes, batch_size=1)
    changed = (before != after).any(axis=1)[0]
    assert not changed[:40].any()
    assert changed[40:].all()


def test_each_character_has_the_next_one_as_its_label(text: ModuleType) -> None:
    assert "".join(text.LETTERS[code] for code in text.CODES) == text.TEXT
    assert len(text.HELD) > 9 * text.CONTEXT
    x, y = text.pieces(text.HELD, np.array([0, 7]))
    assert x.shape == y.shape == (2, text.CONTEXT)
    np.testing.assert_array_equal(x[0], text.HELD[: text.CONTEXT])
    np.testing.assert_array_equal(x[:, 1:], y[:, :-1])
    assert y[1, -1] == text.HELD[7 + text.CONTEXT]


def test_epochs_have_their_own_pieces(text: ModuleType) -> None:
    batches = text.Batches(seed=3, steps=2)
    first = [x for x, _ in batches]
    assert len(first) == 2
    np.testing.assert_array_equal(first, [x for x, _ in batches])
    batches.set_epoch(2)
    for others in (batches, text.Batches(seed=4, steps=2)):
        assert (first[0] != next(iter(others))[0]).any()


def test_a_sample_follows_the_logits(text: ModuleType) -> None:
    """Of a network for which the next letter of the alphabet follows, or an equally likely one."""
    count = len(text.LETTERS)

    def successor(codes: np.ndarray) -> np.ndarray:
        return np.eye(count, dtype=np.float32)[(codes + 1) % count].swapaxes(1, 2)

    cold, hot = (text.sample(successor, 0, temperature) for temperature in (0.01, 100))
    codes = [text.LETTERS.index(letter) for letter in cold]
    assert len(cold) == len(hot) == 404
    assert cold[:4] == hot[:4] == "The "
    assert [(code + 1) % count for code in codes[3:-1]] == codes[4:]
    assert len(set(hot)) > count / 2
    assert text.sample(successor, 0, 100) == hot != text.sample(successor, 1, 100)


# --- the detector --------------------------------------------------------------------------------


def objects(detect: ModuleType, *rows: tuple[int, list[float], float]) -> tuple:
    kinds, boxes, scores = zip(*rows, strict=True) if rows else ((), (), ())
    return detect.Objects(np.array(kinds), np.array(boxes).reshape(-1, 4), np.array(scores))


def test_overlaps_are_shares_of_the_union(detect: ModuleType) -> None:
    boxes = np.array([[0, 0, 4, 4], [2, 0, 6, 4], [0, 0, 2, 4], [8, 8, 9, 9]], float)
    expected = [1, 8 / 24, 8 / 16, 0]
    np.testing.assert_allclose(detect.overlap(boxes[:1], boxes), [expected], rtol=1e-12)


def test_average_precision_of_known_answers(detect: ModuleType) -> None:
    a, b, c, d = [0, 0, 8, 8], [20, 20, 40, 40], [50, 50, 60, 60], [2, 50, 20, 60]
    truth = [
        objects(detect, (0, a, 1), (1, b, 1)),
        objects(detect, (0, b, 1), (0, d, 1), (2, c, 1)),
    ]
    assert detect.average_precision(truth, truth) == 1
    found = [
        # A circle where none is, a right one, the same again, a square that overlaps by 0.48.
        objects(
            detect, (0, c, 0.95), (0, a, 0.9), (0, [0, 0, 8, 7], 0.8), (1, [20, 20, 40, 29.6], 1)
        ),
        # Two right circles, and a triangle that overlaps by 0.56, behind one where none is.
        objects(detect, (0, b, 0.7), (0, d, 0.6), (2, [50, 50, 60, 55.6], 0.5), (2, a, 0.6)),
    ]
    # Precision of the circles is 0, 1/2, 1/3, 2/4, 3/5: from each point on, 3/5 is the best.
    circles, triangles = 3 / 5, 1 / 2
    expected = (circles + 0 + triangles) / 3
    assert detect.average_precision(truth, found) == pytest.approx(expected, rel=1e-12)
    assert detect.average_precision(truth, [objects(detect)] * 2) == 0


def test_shapes_fill_their_boxes(detect: ModuleType) -> None:
    rng = np.random.default_rng(5)
    seen = set()
    for _ in range(40):
        image, drawn = detect.draw(rng)
        assert image.shape == (3, detect.SIDE, detect.SIDE)
        overlaps = detect.overlap(drawn.boxes, drawn.boxes)
        np.testing.assert_array_equal(overlaps > 0, np.eye(len(drawn.boxes), dtype=bool))
        for kind, box in zip(drawn.kinds, drawn.boxes, strict=True):
            # A shape has one colour, at each place that has that of its middle.
            middle = image[:, int(box[1::2].mean()), int(box[::2].mean())]
            rows, columns = np.nonzero((image == middle[:, None, None]).all(axis=0))
            extent = [columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]
            np.testing.assert_allclose(extent, box, atol=2.1 if kind == 2 else 1.5)
            share = len(rows) / ((box[2] - box[0]) * (box[3] - box[1]))
            assert share == pytest.approx([np.pi / 4, 1, 1 / 2][kind], abs=0.15)
            seen.add(kind)
    assert seen == {0, 1, 2}


def test_labels_are_what_the_network_is_read_by(detect: ModuleType) -> None:
    """Logits that say exactly what a label does are read as its objects."""
    rng = np.random.default_rng(6)
    for _ in range(20):
        _, drawn = detect.draw(rng)
        label = detect.encode(drawn).astype(np.float64)
        with np.errstate(divide="ignore"):
            places = np.log(label[[0, 1, 4]]) - np.log(1 - label[[0, 1, 4]])
            sizes = np.log(label[2:4] / detect.ANCHOR)
        output = np.concatenate([places[:2], sizes, places[2:], 30 * label[5:]]).clip(-30, 30)
        found = detect.decode(output, 0.5)
        matches = detect.overlap(found.boxes, drawn.boxes)
        assert len(found.boxes) == len(drawn.boxes)
        assert matches.max(axis=1).min() > 0.999
        np.testing.assert_array_equal(drawn.kinds[matches.argmax(axis=1)], found.kinds)


def test_of_boxes_on_one_object_the_surest_stays(detect: ModuleType) -> None:
    output = np.full((8, detect.CELLS, detect.CELLS), -20.0)
    # Two neighbours whose boxes lie almost on one another, and one far away.
    for (row, column), x, score in (((3, 3), 4.0, 1.0), ((3, 4), -4.0, 2.0), ((6, 6), 0.0, 0.0)):
        output[:, row, column] = [x, 0, 0, 0, score, 9, 0, 0]
    found = detect.decode(output, 0.25)
    np.testing.assert_allclose(found.scores, 1 / (1 + np.exp([-2.0, 0.0])), rtol=1e-3)
    np.testing.assert_allclose(found.boxes[1], [44, 44, 60, 60])


@pytest.mark.programs
def test_the_detector_finds_shapes() -> None:
    assert run("detect.py", threads=2)["average_precision"] >= 0.9
