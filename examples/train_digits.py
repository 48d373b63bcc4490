"""A convolutional network on handwritten digits, trained by `fit` alone."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import traingraph as tg
from traingraph import nn

tg.MLCPlatform.set_rng_seed_to(0)
x, y = load_digits(return_X_y=True)
x = (x / 16).astype(np.float32).reshape(-1, 1, 8, 8)
y = y.astype(np.int32)
x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.2, random_state=0)

model = nn.model(
    [
        *[nn.conv2d(32, 3), nn.batch_norm(), "relu"],
        *[nn.conv2d(64, 3), nn.batch_norm(), "relu", nn.max_pool(2), nn.dropout(0.25)],
        *[nn.flatten(), nn.dense(128, activation="relu"), nn.dropout(0.5), nn.dense(10)],
    ],
    input=(1, 8, 8),
)
best = tg.EarlyStopping(patience=10)
epochs = model.fit(
    *(x_train, y_train),
    epochs=40,
    validation=(x_test, y_test),
    schedule=tg.RateSchedule.one_cycle(3e-3, steps=40 * 45),
    callbacks=[best],
)
print(f"accuracy {model.evaluate(x_test, y_test).accuracy:.4f}, best epoch {best.best_epoch}")
