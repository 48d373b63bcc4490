"""Predictions that are no numbers: metrics say so, and no epoch with them is the best one."""

import math

import numpy as np
import pytest

import traingraph as tg
from traingraph import nn

NAMES = ["accuracy", "auc", "top_1"]


@pytest.mark.parametrize("rows", [1, 50])
def test_one_nan_makes_metrics_nan(rows):
    x, y = np.ones((50, 4), np.float32), (np.arange(50) % 2).astype(np.int32)
    x[:rows] = np.nan
    scores = nn.model([nn.dense(2)], input=4).evaluate(x, y, metrics=[*NAMES, "confusion_matrix"])
    assert math.isnan(scores.accuracy)
    assert all(math.isnan(scores.metrics[name]) for name in NAMES)
    assert scores.metrics["confusion_matrix"].sum() == 50 - rows


def test_of_one_logit():
    x, y = np.ones((50, 4), np.float32), (np.arange(50) % 2).astype(np.float32)[:, None]
    x[7] = np.nan
    model = nn.model([nn.dense(1)], input=4, loss="sigmoid_cross_entropy")
    scores = model.evaluate(x, y, metrics=["accuracy", "auc", "confusion_matrix"])
    assert math.isnan(scores.accuracy)
    assert all(math.isnan(scores.metrics[name]) for name in ("accuracy", "auc"))
    assert scores.metrics["confusion_matrix"].sum() == 49


def test_two_infinite_logits_have_no_area():
    x, y = np.full((6, 2), np.inf, np.float32), (np.arange(6) % 2).astype(np.int32)
    model = nn.model([nn.activation("relu")], input=2)
    assert math.isnan(model.evaluate(x, y, metrics=["auc"]).metrics["auc"])


@pytest.mark.parametrize("monitor", ["top_1", "accuracy", "auc"])
def test_no_epoch_with_nan_is_the_best(monitor):
    tg.MLCPlatform.set_rng_seed_to(3)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 4)).astype(np.float32)
    y = (rng.random(200) < 0.2).astype(np.int32)
    model = nn.model([nn.dense(16), "relu", nn.dense(2)], input=4, optimizer=nn.sgd(0.01))
    stop = tg.EarlyStopping(patience=9, monitor=monitor)
    model.fit(
        x,
        y,
        epochs=4,
        validation=(x, y),
        metrics=[monitor],
        callbacks=[stop],
        on_nonfinite="warn",
        schedule=lambda step: 3e38 if step >= 14 else 0.001,
    )
    assert stop.best_epoch <= 2
    assert np.isfinite(model.predict(x)).all()


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_row_that_is_not_finite_is_named_as_it_was_given(shuffle):
    x, y = np.ones((50, 4), np.float32), np.zeros(50, np.int32)
    x[37, 2] = np.nan
    model = nn.model([nn.dense(2)], input=4, batch_size=16)
    text = r"'x', as it was given, has NaN in row 37, at element 150 of \(50, 4\) in the forward"
    with pytest.raises(tg.NumericError, match=text):
        model.fit(x, y, shuffle=shuffle, options="check_numerics")
    with pytest.raises(tg.NumericError, match=r"has NaN in row 5, at element 22 of \(16, 4\)"):
        model.fit(batches=[(x[32:48], y[:16])], options="check_numerics")
    with pytest.raises(tg.NumericError, match=r"has NaN at element 22 of \(16, 4\)"):
        model.execute(inputs_data={"x": x[32:48]}, loss_labels_data={"y": y[:16]},
                      options="check_numerics|synchronous")  # fmt: skip
