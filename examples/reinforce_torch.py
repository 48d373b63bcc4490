"""REINFORCE of reinforce.py in PyTorch."""

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
rng = np.random.default_rng(0)


def pushed(state: np.ndarray, right: int) -> np.ndarray:
    """After 0.02 s of 10 N: place, speed, angle of the pole and its speed."""
    _, speed, angle, turning = state
    push = ((20 * right - 10) + 0.05 * turning**2 * np.sin(angle)) / 1.1
    turns = 9.8 * np.sin(angle) - np.cos(angle) * push
    turns /= 0.5 * (4 / 3 - 0.1 * np.cos(angle) ** 2 / 1.1)
    gains = speed, push - 0.05 * turns * np.cos(angle) / 1.1, turning, turns
    return state + np.float32(0.02) * np.array(gains, np.float32)


agent = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2), nn.LogSoftmax(dim=1))
optimizer = torch.optim.Adam(agent.parameters(), 0.005)

lengths = []
for _ in range(200):
    states, actions = [rng.uniform(-0.05, 0.05, 4).astype(np.float32)], []
    while abs(states[-1][0]) < 2.4 and abs(states[-1][2]) < 0.21 and len(actions) < 300:
        with torch.no_grad():
            right = rng.random() < agent(torch.tensor(states[-1][None]))[0, 1].exp().item()
        actions.append([right])
        states.append(pushed(states[-1], right))
    lengths.append(len(actions))
    gains = np.cumsum(0.99 ** np.arange(len(actions)))[::-1, None]  # discounted, from each step on
    gains = (gains - gains.mean()) / (gains.std() + 1e-6)
    logs = agent(torch.tensor(np.array(states[:-1])))
    logs = logs.gather(1, torch.tensor(actions, dtype=torch.int64))
    loss = -(torch.tensor(gains.astype(np.float32)) * logs).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"steps {np.mean(lengths[:30]):.0f} in the first 30 episodes, {np.mean(lengths[-30:]):.0f}")
