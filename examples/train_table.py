"""A regression on a table, a pandas frame, trained by `fit` alone. Needs pandas."""

import pandas as pd
from sklearn.datasets import load_diabetes

import traingraph as tg
from traingraph import nn

tg.MLCPlatform.set_rng_seed_to(0)
frame: pd.DataFrame = load_diabetes(as_frame=True, scaled=False).frame
train, test = frame.sample(frac=0.8, random_state=0), frame
test = test.drop(train.index)
center, spread = train.mean(), train.std()
train, test = (train - center) / spread, (test - center) / spread
x_train, y_train = (train[c].to_numpy("float32") for c in (train.columns[:-1], ["target"]))
x_test, y_test = (test[c].to_numpy("float32") for c in (test.columns[:-1], ["target"]))

model = nn.model(
    [nn.dense(32), nn.batch_norm(), "relu", nn.dropout(0.3), nn.dense(1)], input=10, loss="mse"
)
epochs = model.fit(
    *(x_train, y_train),
    epochs=200,
    validation=(x_test, y_test),
    metrics=["mean_absolute_error"],
    schedule=tg.RateSchedule.cosine(1e-2, steps=200 * 12),
    callbacks=[tg.EarlyStopping(patience=20)],
)
error = model.evaluate(x_test, y_test, metrics=["mean_absolute_error"])
print(f"R² {1 - error.loss / y_test.var():.3f}")
print(f"mean absolute error {error.metrics['mean_absolute_error'] * spread['target']:.1f}")
