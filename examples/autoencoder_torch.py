"""The autoencoder of autoencoder.py in PyTorch."""

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader

torch.manual_seed(0)
images = (load_digits().data / 16).astype(np.float32)
train, test = (torch.tensor(x) for x in train_test_split(images, test_size=0.2, random_state=0))

model = nn.Sequential(
    *[nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)],
    *[nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64)],
)
optimizer = torch.optim.Adam(model.parameters(), 3e-3)
for _ in range(40):
    for x in DataLoader(train, batch_size=32, shuffle=True):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), x).backward()
        optimizer.step()
error = nn.functional.mse_loss(model(test), test).item()
print(f"R² {1 - error / test.var(dim=0).mean().item():.3f}")
