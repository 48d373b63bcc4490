"""An autoencoder squeezes digits of 64 pixels into 8 numbers. PyTorch's is autoencoder_torch.py."""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import traingraph as tg
from traingraph import nn

tg.MLCPlatform.set_rng_seed_to(0)
images = (load_digits().data / 16).astype(np.float32)
train, test = train_test_split(images, test_size=0.2, random_state=0)

model = nn.model(
    [nn.dense(64), "relu", nn.dense(8), nn.dense(64), "relu", nn.dense(64)],
    input=64,
    loss="mse",
    optimizer=nn.adam(3e-3),
)
model.fit(train, train, epochs=40)
error = model.evaluate(test, test).loss
print(f"R² {1 - error / test.var(axis=0).mean():.3f}")
