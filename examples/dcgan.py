"""A DCGAN draws digits: two networks of convolutions in turn. PyTorch's is dcgan_torch.py.

It prints Fréchet's distance between the pixels of drawn images and of digits.
"""

import numpy as np
from sklearn.datasets import load_digits

import traingraph as tg
from traingraph import nn

tg.MLCPlatform.set_rng_seed_to(0)
rng = np.random.default_rng(0)
images = (load_digits().data / 8 - 1).astype(np.float32).reshape(-1, 1, 8, 8)


def distance(drawn: np.ndarray) -> float:
    a, b = drawn.reshape(-1, 64), images.reshape(-1, 64)
    both = np.linalg.eigvals(np.cov(a.T) @ np.cov(b.T)).real.clip(0)
    between = ((a.mean(0) - b.mean(0)) ** 2).sum()
    return between + a.var(0).sum() + b.var(0).sum() - 2 * np.sqrt(both).sum()


def wrong(images: nn.Value, label: int) -> nn.Value:
    return nn.loss("sigmoid_cross_entropy", discriminator(images), label)


normal = {"weights_init": lambda shape: rng.normal(0, 0.05, shape)}
leaky = nn.activation("leaky_relu", a=0.2)
generator = nn.shared(
    [
        *[nn.dense(256, **normal), nn.reshape([64, 2, 2]), nn.batch_norm(), "relu"],
        *[nn.conv2d_transpose(32, 4, stride=2, **normal), nn.batch_norm(), "relu"],
        *[nn.conv2d_transpose(1, 4, stride=2, **normal), "tanh"],
    ]
)
discriminator = nn.shared(
    [
        *[nn.conv2d(32, 4, stride=2, **normal), leaky],
        *[nn.conv2d(64, 4, stride=2, **normal), nn.batch_norm(), leaky],
        *[nn.flatten(), nn.dense(1, **normal)],
    ]
)
real, z = nn.Input((1, 8, 8), name="real"), nn.Input(16, name="z")
fake, judged = generator(z), discriminator(real)
loss_d, loss_g = wrong(real, 1) + wrong(fake, 0), wrong(fake, 1)
adam = [nn.adam(5e-4, beta1=0.5) for _ in range(2)]
d = nn.model(inputs=real, outputs=judged, loss=loss_d, train=discriminator, optimizer=adam[0])
g = nn.model(inputs=z, outputs=fake, loss=loss_g, train=generator, optimizer=adam[1])

for epoch in range(12):
    for rows in np.array_split(rng.permutation(len(images)), 28):
        noise = rng.normal(size=(len(rows), 16)).astype(np.float32)
        d.execute(inputs_data={"real": images[rows]}, loss_labels_data={"z": noise})
        g.execute(inputs_data={"z": noise}, loss_labels_data={})
    drawn = g.predict(rng.normal(size=(1797, 16)).astype(np.float32))
    print(f"epoch {epoch + 1} distance {distance(drawn):.2f}")
