"""PPO of ppo.py in PyTorch."""

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
rng = np.random.default_rng(0)


def pushed(state: np.ndarray, right: np.ndarray) -> np.ndarray:
    """After 0.02 s of 10 N: place, speed, angle of each pole and its speed."""
    _, speed, angle, turning = state.T
    push = ((20 * right - 10) + 0.05 * turning**2 * np.sin(angle)) / 1.1
    turns = 9.8 * np.sin(angle) - np.cos(angle) * push
    turns /= 0.5 * (4 / 3 - 0.1 * np.cos(angle) ** 2 / 1.1)
    gains = speed, push - 0.05 * turns * np.cos(angle) / 1.1, turning, turns
    return (state + 0.02 * np.stack(gains, axis=1)).astype(np.float32)


actor = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2), nn.LogSoftmax(dim=1))
critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))
of_actor = torch.optim.Adam(actor.parameters(), 3e-3)
of_critic = torch.optim.Adam(critic.parameters(), 1e-2)

now = rng.uniform(-0.05, 0.05, (16, 4)).astype(np.float32)
states = np.empty((64, 16, 4), np.float32)
chosen, earned = np.empty((2, 64, 16, 1), np.float32)
right, fell = np.empty((2, 64, 16, 1), np.int64)
for iteration in range(15):
    for t in range(64):
        with torch.no_grad():
            states[t], given = now, actor(torch.tensor(now)).numpy()
        right[t] = rng.random((16, 1)) < np.exp(given[:, 1:])
        chosen[t] = np.take_along_axis(given, right[t], 1)
        now = pushed(now, right[t, :, 0])
        fell[t, :, 0] = (abs(now) > [2.4, np.inf, 0.21, np.inf]).any(axis=1)
        now = np.where(fell[t], rng.uniform(-0.05, 0.05, (16, 4)).astype(np.float32), now)
    x = torch.tensor(states.reshape(-1, 4))
    with torch.no_grad():
        ahead, expected = critic(torch.tensor(now)).numpy(), critic(x)
    for t in reversed(range(64)):
        earned[t] = ahead = 1 + 0.99 * ahead * (1 - fell[t])
    action, before, target = (torch.tensor(a.reshape(-1, 1)) for a in (right, chosen, earned))
    for rows in (rows for _ in range(4) for rows in torch.randperm(len(x)).chunk(16)):
        logs, gain = actor(x[rows]), (target - expected)[rows]
        ratio = (logs.gather(1, action[rows]) - before[rows]).exp()
        gain = torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain)
        entropy = -(logs.exp() * logs).sum(dim=1, keepdim=True)
        of_actor.zero_grad()
        (-gain - 0.01 * entropy).mean().backward()
        of_actor.step()
        of_critic.zero_grad()
        nn.functional.mse_loss(critic(x[rows]), target[rows]).backward()
        of_critic.step()
    print(f"iteration {iteration + 1} falls {fell.sum()}")
