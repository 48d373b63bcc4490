"""The DCGAN of dcgan.py in PyTorch."""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

torch.manual_seed(0)
images = torch.tensor((load_digits().data / 8 - 1).astype(np.float32).reshape(-1, 1, 8, 8))


def distance(drawn: np.ndarray) -> float:
    a, b = drawn.reshape(-1, 64), images.numpy().reshape(-1, 64)
    both = np.linalg.eigvals(np.cov(a.T) @ np.cov(b.T)).real.clip(0)
    between = ((a.mean(0) - b.mean(0)) ** 2).sum()
    return between + a.var(0).sum() + b.var(0).sum() - 2 * np.sqrt(both).sum()


def wrong(images: torch.Tensor, label: float) -> torch.Tensor:
    logits = discriminator(images)
    return nn.functional.binary_cross_entropy_with_logits(logits, torch.full_like(logits, label))


generator = nn.Sequential(
    *[nn.Linear(16, 256), nn.Unflatten(1, (64, 2, 2)), nn.BatchNorm2d(64), nn.ReLU()],
    *[nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU()],
    *[nn.ConvTranspose2d(32, 1, 4, stride=2, padding=1), nn.Tanh()],
)
discriminator = nn.Sequential(
    *[nn.Conv2d(1, 32, 4, stride=2, padding=1), nn.LeakyReLU(0.2)],
    *[nn.Conv2d(32, 64, 4, stride=2, padding=1), nn.BatchNorm2d(64), nn.LeakyReLU(0.2)],
    *[nn.Flatten(), nn.Linear(256, 1)],
)
for network in (generator, discriminator):
    for parameter in network.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, 0, 0.05)
of_d = torch.optim.Adam(discriminator.parameters(), 5e-4, betas=(0.5, 0.999))
of_g = torch.optim.Adam(generator.parameters(), 5e-4, betas=(0.5, 0.999))

for epoch in range(12):
    for rows in torch.randperm(len(images)).chunk(28):
        fake = generator(torch.randn(len(rows), 16))
        of_d.zero_grad()
        (wrong(images[rows], 1) + wrong(fake.detach(), 0)).backward()
        of_d.step()
        of_g.zero_grad()
        wrong(fake, 1).backward()
        of_g.step()
    with torch.no_grad():
        drawn = generator.eval()(torch.randn(1797, 16)).numpy()
    generator.train()
    print(f"epoch {epoch + 1} distance {distance(drawn):.2f}")
