"""The loop around the step: validation, metrics, rates, early stopping, files, progress."""

import csv
import itertools
import math
import pickle
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import traingraph as tg
from traingraph import nn

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 5)).astype(np.float32)
Y = (X[:, 0] + 0.5 * X[:, 1] > 0).astype(np.int32) + (X[:, 2] > 1)
TRAINED, KEPT = (X[:70], Y[:70]), (X[70:], Y[70:])


def classifier(seed: int = 3, **given: Any) -> tg.MLCTrainingGraph:
    tg.MLCPlatform.set_rng_seed_to(seed)
    layers = [nn.dense(16), nn.batch_norm(), "relu", nn.dropout(0.2), nn.dense(3)]
    settings = {"optimizer": nn.adam(0.02), "device": "cpu", "batch_size": 16}
    return nn.model(layers, input=5, **(settings | given))


def regression(outputs: int = 2) -> tg.MLCTrainingGraph:
    tg.MLCPlatform.set_rng_seed_to(1)
    return nn.model([nn.dense(outputs)], input=5, batch_size=16, loss="mse", device="cpu")


# --- validation ----------------------------------------------------------------------------------


def test_each_epoch_has_its_validation_and_trains_as_without() -> None:
    alone, beside = classifier(), classifier()
    expected = alone.fit(*TRAINED, epochs=4)
    evaluations = []
    found = beside.fit(*TRAINED, epochs=4, validation=KEPT,
                       on_epoch=lambda _: evaluations.append(beside.evaluate(*KEPT)))  # fmt: skip
    assert [epoch.loss for epoch in found] == [epoch.loss for epoch in expected]
    assert [epoch.validation for epoch in expected] == [None] * 4
    for epoch, evaluation in zip(found, evaluations, strict=True):
        assert epoch.validation.loss == evaluation.loss
        assert epoch.validation.accuracy == evaluation.accuracy
    for name, values in alone.state().items():
        np.testing.assert_array_equal(values, beside.state()[name], err_msg=name)


def test_a_validation_may_weigh_its_samples() -> None:
    model = classifier()
    model.add_inputs({}, loss_label_weights={"w": tg.MLCTensor(shape=[16])})
    ones, twos = np.ones(70, np.float32), np.full(20, 2, np.float32)
    (epoch,) = model.fit(*TRAINED, label_weights=ones, validation=(*KEPT, twos))
    loss = model.evaluate(*KEPT, label_weights=twos).loss
    assert epoch.validation.loss == loss
    assert loss == pytest.approx(2 * model.evaluate(*KEPT, label_weights=twos / 2).loss, rel=1e-6)


def test_epochs_with_validations_are_records() -> None:
    (epoch,) = classifier().fit(*TRAINED, validation=KEPT, metrics=["confusion_matrix", "top_2"])
    again = pickle.loads(pickle.dumps(epoch))
    assert again.validation.loss == epoch.validation.loss
    assert again.learning_rate == epoch.learning_rate == pytest.approx(0.02)
    matrix = again.validation.metrics["confusion_matrix"]
    np.testing.assert_array_equal(matrix, epoch.validation.metrics["confusion_matrix"])
    assert "validation loss" in repr(epoch)
    assert "validation" not in repr(classifier().fit(*TRAINED)[0])


# --- metrics -------------------------------------------------------------------------------------


def test_metrics_of_classes_are_those_of_numpy() -> None:
    model = classifier()
    model.fit(*TRAINED, epochs=3)
    labels = Y.copy()
    labels[::7] = -1  # rows that do not count
    names = ["accuracy", "top_1", "top_2", "top_3", "confusion_matrix"]
    found = model.evaluate(X, labels, metrics=names)
    logits, counted = model.predict(X), labels >= 0
    order = np.argsort(-logits, axis=1)
    for k in (1, 2, 3):
        share = (order[:, :k] == labels[:, None]).any(axis=1)[counted].mean()
        assert found.metrics[f"top_{k}"] == pytest.approx(share, abs=1e-12)
    assert found.metrics["accuracy"] == found.accuracy == found.metrics["top_1"]
    matrix = np.zeros((3, 3), np.int64)
    np.add.at(matrix, (labels[counted], logits.argmax(axis=1)[counted]), 1)
    np.testing.assert_array_equal(found.metrics["confusion_matrix"], matrix)
    assert list(found.metrics) == names


@pytest.mark.parametrize("labels", ["classes", "one_hot"])
def test_equal_logits_count_by_their_index(labels: str) -> None:
    """As accuracy takes the first of equal classes: a network without weights is always that."""
    model = nn.model([nn.dense(5, weights_init="zeros")], input=4, batch_size=16, labels=labels)
    x, kinds = np.ones((50, 4), np.float32), np.arange(50) % 5
    given = kinds.astype(np.int32) if labels == "classes" else np.eye(5, dtype=np.float32)[kinds]
    names = [f"top_{k}" for k in range(1, 6)]
    for bias in ([0, 0, 0, 0, 0], [0, 1, 0, 1, 1]):
        name = next(name for name in model.named_parameters() if name.endswith("biases"))
        shape = model.state()[name].shape
        model.load_state(model.state() | {name: np.reshape(bias, shape).astype(np.float32)})
        found = model.evaluate(x, given, metrics=names)
        order = np.argsort(-model.predict(x), axis=1, kind="stable")
        for k, name in enumerate(names, start=1):
            assert found.metrics[name] == (order[:, :k] == kinds[:, None]).any(axis=1).mean()
        assert found.metrics["top_1"] == found.accuracy == 0.2


def test_more_places_than_classes_are_refused() -> None:
    text = "metric 'top_9' expected k of at most 3, the count of classes, but got 9"
    model = classifier()
    with pytest.raises(ValueError, match=re.escape(f"[fit] {text} in the validation")):
        model.fit(*TRAINED, validation=KEPT, metrics=["top_9"])
    assert model.optimizer.time_step == 1
    with pytest.raises(ValueError, match=re.escape(f"[evaluate] {text}")):
        model.evaluate(*KEPT, metrics=["top_9"])


def test_metrics_do_not_read_weights_of_samples() -> None:
    model = classifier(weights=True)
    x, y = KEPT
    ones, weights = np.ones(len(y), np.float32), np.arange(len(y), dtype=np.float32)
    plain, found = (
        model.evaluate(x, y, label_weights=w, metrics=["top_2", "confusion_matrix"])
        for w in (ones, weights)
    )
    assert found.accuracy == plain.accuracy
    for name, value in plain.metrics.items():
        np.testing.assert_array_equal(found.metrics[name], value)
    assert found.loss != plain.loss


def test_errors_under_a_sigmoid_loss_are_those_of_logits() -> None:
    model = nn.model([nn.dense(1)], input=5, batch_size=16, loss="sigmoid_cross_entropy")
    y = (Y[:, None] > 0).astype(np.float32)
    names = ["mean_absolute_error", "mean_squared_error"]
    found, difference = model.evaluate(X, y, metrics=names).metrics, model.predict(X) - y
    assert found[names[0]] == pytest.approx(np.abs(difference).mean(), rel=1e-6)
    assert found[names[1]] == pytest.approx(np.square(difference).mean(), rel=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_rows_of_zeros_have_no_class(dtype: str) -> None:
    """As they have no loss: they do not count."""
    model = nn.model([nn.dense(2)], input=4, batch_size=16, labels="one_hot")
    x = np.random.default_rng(2).normal(size=(40, 4)).astype(np.float32)
    labels = np.eye(2, dtype=dtype)[(x[:, 0] > 0).astype(int)]
    names = ["top_1", "auc", "confusion_matrix"]
    some = model.evaluate(x[8:], labels[8:], metrics=names)
    labels[:8] = 0
    found = model.evaluate(x, labels, metrics=names)
    assert found.accuracy == some.accuracy
    for name in names:
        np.testing.assert_array_equal(found.metrics[name], some.metrics[name], err_msg=name)
    assert found.metrics["confusion_matrix"].sum() == 32
    assert found.loss == pytest.approx(some.loss * 32 / 40, rel=1e-6)  # a mean over all rows


def test_metrics_of_images_count_each_position() -> None:
    tg.MLCPlatform.set_rng_seed_to(1)
    model = nn.model([nn.conv2d(3, 1)], input=(2, 4, 5), batch_size=4, device="cpu")
    x = RNG.normal(size=(6, 2, 4, 5)).astype(np.float32)
    labels = RNG.integers(0, 3, (6, 4, 5)).astype(np.int32)
    found = model.evaluate(x, labels, metrics=["top_2", "confusion_matrix"])
    logits = model.predict(x)
    order = np.argsort(-logits, axis=1)
    assert found.metrics["top_2"] == pytest.approx(
        (order[:, :2] == labels[:, None]).any(axis=1).mean(), abs=1e-12
    )
    matrix = np.zeros((3, 3), np.int64)
    np.add.at(matrix, (labels.ravel(), logits.argmax(axis=1).ravel()), 1)
    np.testing.assert_array_equal(found.metrics["confusion_matrix"], matrix)


def area(scores: np.ndarray, positive: np.ndarray) -> float:
    pairs = list(itertools.product(scores[positive], scores[~positive]))
    return sum((a > b) + 0.5 * (a == b) for a, b in pairs) / len(pairs)


@pytest.mark.parametrize("loss", ["softmax_cross_entropy", "sigmoid_cross_entropy"])
def test_the_area_under_the_curve_counts_ties_half(loss: str) -> None:
    is_softmax = loss == "softmax_cross_entropy"
    model = nn.model([nn.dense(2 if is_softmax else 1)], input=5, loss=loss, device="cpu")
    x = np.repeat(np.round(X), 2, axis=0)  # with many ties
    positive = RNG.random(len(x)) < 0.4
    labels = positive.astype(np.int32) if is_softmax else positive[:, None].astype(np.float32)
    found = model.evaluate(x, labels, metrics=["auc", "confusion_matrix", "accuracy"])
    logits = model.predict(x).astype(np.float64)
    scores = logits[:, 1] - logits[:, 0] if is_softmax else logits[:, 0]
    assert found.metrics["auc"] == pytest.approx(area(scores, positive), abs=1e-12)
    matrix = found.metrics["confusion_matrix"]
    assert matrix.sum() == len(x)
    assert np.trace(matrix) / len(x) == pytest.approx(found.metrics["accuracy"])
    assert matrix[1].sum() == positive.sum()
    # With the samples of one class there is no area.
    assert math.isnan(model.evaluate(x[positive], labels[positive], metrics=["auc"]).metrics["auc"])


def test_metrics_of_a_regression_are_those_of_numpy() -> None:
    model, targets = regression(), RNG.normal(size=(90, 2)).astype(np.float32)
    found = model.evaluate(X, targets, metrics=["mean_absolute_error", "mean_squared_error"])
    error = model.predict(X).astype(np.float64) - targets
    assert found.metrics["mean_absolute_error"] == pytest.approx(np.abs(error).mean(), rel=1e-6)
    assert found.metrics["mean_squared_error"] == pytest.approx((error**2).mean(), rel=1e-6)
    assert found.metrics["mean_squared_error"] == pytest.approx(found.loss, rel=1e-5)
    assert found.accuracy is None


# --- rates ---------------------------------------------------------------------------------------


def rates(schedule: tg.RateSchedule, steps: int) -> list[float]:
    return [schedule(step) for step in range(steps)]


def test_schedules_are_their_formulas() -> None:
    s, half = tg.RateSchedule, math.pi / 2
    assert rates(s.constant(0.5), 3) == [0.5, 0.5, 0.5]
    assert rates(s.steps(1.0, every=2, factor=0.5), 5) == [1, 1, 0.5, 0.5, 0.25]
    assert rates(s.exponential(2.0, factor=0.25, every=2), 4) == pytest.approx([2, 1, 0.5, 0.25])
    cosine = [1, 0.5 + 0.5 * math.cos(half / 2), 0.5, 0.5 - 0.5 * math.cos(half / 2), 0, 0]
    assert rates(s.cosine(1.0, steps=4), 6) == pytest.approx(cosine, abs=1e-15)
    assert rates(s.cosine(1.0, steps=2, last=0.5), 4) == pytest.approx([1, 0.75, 0.5, 0.5])
    assert rates(s.warm_up(0.4, steps=4), 6) == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.4, 0.4])
    joined = s.joined(schedules=[s.warm_up(1.0, steps=2), s.steps(1.0, every=1)], boundaries=[2])
    assert rates(joined, 5) == pytest.approx([0.5, 1, 1, 0.1, 0.01])
    few = s.one_cycle(1.0, steps=3)  # whose share of the way up is less than a step
    assert rates(few, 4) == pytest.approx([0.994415435, 0.462637103, 4e-06, 4e-06], rel=1e-6)
    assert rates(s.one_cycle(1.0, steps=4, rising=0.25), 1) == [1]
    assert repr(joined) == "<RateSchedule joined(warm_up(1, 2), 2: steps(1, 1, 0.1))>"


def test_schedules_are_those_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    of, s = torch.optim.lr_scheduler, tg.RateSchedule
    pairs = [
        (s.steps(0.3, every=7, factor=0.5), lambda o: of.StepLR(o, 7, 0.5)),
        (s.exponential(0.3, factor=0.9), lambda o: of.ExponentialLR(o, 0.9)),
        (s.cosine(0.3, steps=41, last=0.01), lambda o: of.CosineAnnealingLR(o, 40, 0.01)),
        (s.one_cycle(0.3, steps=40), lambda o: of.OneCycleLR(o, 0.3, total_steps=40)),
        (s.one_cycle(0.3, steps=40, rising=0.01),
         lambda o: of.OneCycleLR(o, 0.3, total_steps=40, pct_start=0.01)),
        (s.one_cycle(0.3, steps=40, rising=0.55),
         lambda o: of.OneCycleLR(o, 0.3, total_steps=40, pct_start=0.55)),
    ]  # fmt: skip
    for ours, theirs in pairs:
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.3)
        scheduler, expected = theirs(optimizer), []
        for _ in range(40):
            expected.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
        if "cosine" in repr(ours):  # whose last step is the last rate
            ours = s.cosine(0.3, steps=40, last=0.01)
        assert rates(ours, 40) == pytest.approx(expected, rel=1e-9), ours


@pytest.mark.parametrize("of_steps", [None, 3])
def test_each_step_has_its_rate(of_steps: int | None) -> None:
    """As a loop that sets it; a function of the program's is a schedule too."""
    looped, fitted = (classifier(optimizer=nn.sgd(9.0, momentum=0.9)) for _ in range(2))
    schedule = tg.RateSchedule.exponential(0.1, factor=0.8, every=of_steps or 1)
    for epoch in range(2):
        for number, first in enumerate(range(0, 70, 16)):
            looped.optimizer.learning_rate = schedule(5 * epoch + number)
            part = slice(first, min(first + 16, 70))
            data = {"inputs_data": {"x": TRAINED[0][part]}, "batch_size": part.stop - first}
            labels = {"y": TRAINED[1][part]}
            looped.execute(**data, loss_labels_data=labels, options="synchronous")
    given = schedule if of_steps else lambda step: 0.1 * 0.8**step
    epochs = fitted.fit(*TRAINED, epochs=2, shuffle=False, schedule=given)
    assert epochs[-1].learning_rate == pytest.approx(schedule(9), rel=1e-6)
    assert fitted.optimizer.learning_rate == epochs[-1].learning_rate
    for name, values in looped.state().items():
        np.testing.assert_array_equal(values, fitted.state()[name], err_msg=name)


def test_a_training_goes_on_with_its_rates_and_numbers(tmp_path: Path) -> None:
    schedule = tg.RateSchedule.one_cycle(0.05, steps=30)
    whole, begun, resumed = classifier(), classifier(), classifier(seed=8)
    expected = whole.fit(*TRAINED, epochs=6, schedule=schedule, validation=KEPT)
    begun.fit(*TRAINED, epochs=2, schedule=schedule, validation=KEPT)
    begun.save(tmp_path / "two.safetensors")
    resumed.load(tmp_path / "two.safetensors")
    found = resumed.fit(*TRAINED, first_epoch=3, epochs=6, schedule=schedule, validation=KEPT)
    assert [epoch.number for epoch in found] == [3, 4, 5, 6]
    assert [epoch.learning_rate for epoch in found] == [e.learning_rate for e in expected[2:]]
    for name, values in whole.state().items():
        np.testing.assert_array_equal(values, resumed.state()[name], err_msg=name)
    # An order of its own seed follows from the epoch's number.
    begun.fit(*TRAINED, epochs=4, first_epoch=3, shuffle_seed=5, schedule=schedule)
    resumed.load(tmp_path / "two.safetensors")
    for number in (3, 4):
        resumed.fit(*TRAINED, epochs=number, first_epoch=number, shuffle_seed=5, schedule=schedule)
    np.testing.assert_array_equal(begun.predict(X), resumed.predict(X))


# --- callbacks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("monitor", ["loss", "accuracy", "top_2"])
def test_early_stopping_keeps_the_best_weights(monitor: str) -> None:
    model, states, seen = classifier(), [], []

    def note(epoch: tg.Epoch) -> None:
        states.append(model.predict(X))
        validation = epoch.validation
        seen.append(validation.metrics.get(monitor) or getattr(validation, monitor))

    stop = tg.EarlyStopping(patience=4, monitor=monitor)
    metrics = [monitor] if monitor == "top_2" else []
    done = model.fit(*TRAINED, epochs=200, validation=KEPT, metrics=metrics,
                     callbacks=[note, stop])  # fmt: skip
    better = min if monitor == "loss" else max
    assert stop.best == better(seen)
    assert stop.best_epoch == seen.index(better(seen)) + 1
    assert len(done) == len(seen) == stop.best_epoch + 4 < 200
    np.testing.assert_array_equal(model.predict(X), states[stop.best_epoch - 1])
    assert model.optimizer.time_step == 5 * len(done) + 1  # the rest of the state goes on


@pytest.mark.parametrize("given", [{}, {"validation": KEPT}, {"validation": KEPT, "resume": True}])
def test_what_is_watched_is_looked_for_before_the_first_step(given: dict[str, Any]) -> None:
    model, heard = classifier(), list[int]()
    stop = tg.EarlyStopping(patience=1, monitor="losss")
    before = model.state()
    with pytest.raises(ValueError, match=r"expected monitor of loss.*did you mean 'loss'\?$"):
        model.fit(*TRAINED, callbacks=[lambda epoch: heard.append(epoch.number), stop], **given)
    assert heard == []
    assert model.optimizer.time_step == 1
    for name, value in model.state().items():
        np.testing.assert_array_equal(value, before[name])


def test_early_stopping_without_validation_watches_the_loss() -> None:
    model = classifier()
    stop = tg.EarlyStopping(patience=1, min_delta=1e9, restores_best=False)
    done = model.fit(*TRAINED, epochs=9, callbacks=[stop])
    assert len(done) == 2  # the first one is the best one, the second is no better
    assert (stop.best, stop.best_epoch) == (done[0].loss, 1)


def test_every_callback_hears_of_the_last_epoch() -> None:
    heard: list[str] = []

    def first(epoch: tg.Epoch) -> bool:
        heard.append(f"first {epoch.number}")
        return epoch.number < 2

    def second(epoch: tg.Epoch) -> None:
        heard.append(f"second {epoch.number}")

    done = classifier().fit(*TRAINED, epochs=5, callbacks=[first, second], on_epoch=second)
    assert len(done) == 2
    assert heard == ["first 1", "second 1", "second 1", "first 2", "second 2", "second 2"]


def test_what_a_callback_raises_ends_the_fit_with_the_epochs() -> None:
    def fails(epoch: tg.Epoch) -> None:
        if epoch.number == 2:
            raise ArithmeticError("enough")

    with pytest.raises(ArithmeticError, match="enough") as error:
        classifier().fit(*TRAINED, epochs=5, callbacks=[fails], validation=KEPT)
    (first,) = error.value.epochs  # of the second not all have heard
    assert (first.number, first.validation is not None) == (1, True)
    assert error.traceback[-1].name == "fails"  # the line that has raised it


def test_rows_of_a_file_are_the_epochs(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("epoch,loss,seconds,learning_rate\n1,2,3,4\n")
    model, log = classifier(), tg.CSVLog(path=path)
    given = {"validation": KEPT, "metrics": ["top_2", "confusion_matrix"]}
    epochs = model.fit(*TRAINED, epochs=3, callbacks=[log], **given)
    more = tg.CSVLog(path=path, appends=True)
    epochs += model.fit(*TRAINED, epochs=4, first_epoch=4, callbacks=[more], **given)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["epoch", "loss", "seconds", "learning_rate", "validation_loss",
                             "validation_accuracy", "validation_top_2"]  # fmt: skip
    for row, epoch in zip(rows, epochs, strict=True):
        assert int(row["epoch"]) == epoch.number
        assert float(row["loss"]) == epoch.loss
        assert float(row["validation_loss"]) == epoch.validation.loss
        assert float(row["validation_top_2"]) == epoch.validation.metrics["top_2"]
    with pytest.raises(OSError, match="no_such"):
        model.fit(*TRAINED, callbacks=[tg.CSVLog(path=tmp_path / "no_such" / "log.csv")])


# --- progress ------------------------------------------------------------------------------------


def test_progress_is_drawn_where_it_is_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    classifier().fit(*TRAINED, epochs=2)
    assert capfd.readouterr() == ("", "")
    classifier().fit(*TRAINED, epochs=2, progress=True)
    drawn = capfd.readouterr().err
    assert "epoch 1/2" in drawn
    assert "epoch 2/2: 100%" in drawn
    assert "5/5" in drawn
    assert "loss=" in drawn


@pytest.mark.parametrize("counts", [True, False])
def test_a_bar_ends_with_the_steps_of_its_epoch(
    counts: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """Before the validation and the callbacks, whose output begins a line."""
    pytest.importorskip("tqdm")

    class Batches:
        def __iter__(self) -> Any:
            return iter([(TRAINED[0][:16], TRAINED[1][:16])] * 5)

    def say(epoch: tg.Epoch) -> None:
        print(f"after {epoch.number}", file=sys.stderr, flush=True)

    given: dict[str, Any] = {"epochs": 2, "progress": True, "callbacks": [say]}
    if counts:
        classifier().fit(*TRAINED, **given)
    else:
        classifier().fit(batches=Batches(), **given)
    lines = capfd.readouterr().err.split("\n")
    assert [line for line in lines if "after" in line] == ["after 1", "after 2"]
    for number in (1, 2):
        assert f"epoch {number}/2: 100%" in lines[2 * number - 2]
        assert "5/5" in lines[2 * number - 2]


def test_progress_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pytest.raises(ImportError) as error:
        classifier().fit(*TRAINED, progress=True)
    assert error.value.__notes__ == ["fit(progress=True) draws with it: pip install tqdm"]


# --- losses that are no numbers ------------------------------------------------------------------


def test_a_loss_that_is_not_finite_ends_the_fit() -> None:
    bad = X[:70].copy()
    bad[20, 1] = np.nan  # in the second step
    text = r"expected a loss that is finite but the loss is nan in step 2 of epoch 1, which has"
    with pytest.raises(tg.NumericError, match=text) as error:
        classifier().fit(bad, Y[:70], epochs=3, shuffle=False)
    assert error.value.epochs == []


def test_or_is_told_of_once_an_epoch() -> None:
    bad = X[:70].copy()
    bad[20, 1] = np.nan
    with pytest.warns(RuntimeWarning, match=r"^\[fit\] the loss is nan in step ") as warnings:
        epochs = classifier().fit(bad, Y[:70], epochs=2, shuffle=False, on_nonfinite="warn")
    assert len(warnings) == len(epochs) == 2
    assert math.isnan(epochs[-1].loss)


# --- mistakes ------------------------------------------------------------------------------------

NUMBERS = "accuracy, top_<k>, mean_absolute_error, mean_squared_error, auc, confusion_matrix"
STOP = tg.EarlyStopping(patience=1, monitor="auc")
MISTAKES = [
    ({"validation": X},
     "validation: (inputs, labels) or (inputs, labels, label_weights) but got 'numpy.ndarray'"),
    ({"validation": (X,)}, "(inputs, labels, label_weights) but got 1 items"),
    ({"validation": (X[:, :3], Y)}, "samples, (N, 5), but got (90, 3) in the validation"),
    ({"metrics": ["auc"]}, "[fit] expected validation, which metrics are of, but got none"),
    ({"metrics": ["acc"], "validation": KEPT}, f"expected a metric of {NUMBERS} but got 'acc'"),
    ({"metrics": ["top_0"], "validation": KEPT}, "but got 'top_0'"),
    ({"metrics": ["auc"], "validation": KEPT}, "metric 'auc' expected two classes but got 3"),
    ({"metrics": "auc", "validation": KEPT}, "expected metrics: "),
    ({"schedule": 0.1}, "expected schedule: RateSchedule | collections.abc.Callable[[int], float]"),
    ({"schedule": lambda step: math.inf}, "expected a finite rate of function in step 0 but got"),
    ({"schedule": lambda step: "x"}, "expected the rate of schedule: a number but got 'str'"),
    ({"callbacks": [3]}, "expected callbacks[0]: "),
    ({"callbacks": [STOP]}, "[EarlyStopping] expected monitor of loss but got 'auc'; it is of the "
                            "validation, pass one"),
    ({"callbacks": [STOP], "validation": KEPT}, "expected monitor of loss, accuracy but got 'auc'; "
                                                "name it in metrics"),
    ({"on_nonfinite": "ignore"}, "expected on_nonfinite of raise, warn but got 'ignore'"),
    ({"epochs": 2, "first_epoch": 3}, "[fit] expected epochs, the number of the last one, of at "
                                      "least 3, the first one, but got 2"),
    ({"first_epoch": 0}, "[fit] expected first_epoch of at least 1 but got 0"),
    ({"validation_data": KEPT}, "did you mean validation?"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "text"), MISTAKES, ids=range(len(MISTAKES)))
def test_mistakes_are_told(given: dict[str, Any], text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(text)):
        classifier().fit(*TRAINED, **given)


@pytest.mark.parametrize(("make", "text"), [
    (lambda s: s.cosine(0.1, steps=0), "[RateSchedule] expected steps of at least 1 but got 0"),
    (lambda s: s.constant(math.nan), "[RateSchedule] expected rate: a finite number but got nan"),
    (lambda s: s.exponential(0.1, factor=0.0), "expected factor above 0 but got 0"),
    (lambda s: s.one_cycle(0.1, steps=2), "expected steps of at least 3 but got 2"),
    (lambda s: s.one_cycle(0.1, steps=9, rising=1.0), "expected rising between 0 and 1 but got 1"),
    (lambda s: s.joined(schedules=[s.constant(1.0)], boundaries=[3]),
     "expected a boundary between each two of the schedules but got 1 for 1"),
    (lambda s: s.joined(schedules=[s.constant(1.0)] * 3, boundaries=[3, 3]),
     "expected boundaries that rise from above 0 but got 3 after 3"),
    (lambda s: s.constant(1.0)(-1), "expected a step of at least 0 but got -1"),
    (lambda s: tg.EarlyStopping(patience=0), "expected patience to be 1 or more but got 0"),
    (lambda s: tg.EarlyStopping(patience=1, min_delta=-1.0), "a finite number of 0 or more but"),
    (lambda s: tg.CSVLog(path=""), "[CSVLog] expected a path but got an empty one"),
], ids=range(11))  # fmt: skip
def test_wrong_numbers_of_what_a_fit_is_given(make: Any, text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        make(tg.RateSchedule)


def test_metrics_that_a_loss_lacks_are_refused_by_name() -> None:
    targets = RNG.normal(size=(90, 2)).astype(np.float32)
    for name in ("accuracy", "auc", "confusion_matrix", "top_1"):
        with pytest.raises(ValueError, match=rf"metric '{name}' expected the loss softmax_cross_e"):
            regression().evaluate(X, targets, metrics=[name])
    with pytest.raises(ValueError, match="labels of the predictions' shape"):
        classifier().evaluate(*KEPT, metrics=["mean_squared_error"])
