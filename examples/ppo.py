"""An actor and a critic balance poles by PPO, with its clipped ratio and the entropy.

It prints how many of 16 poles fall in 64 steps. PyTorch's is ppo_torch.py.
"""

import numpy as np

import traingraph as tg
from traingraph import nn

tg.MLCPlatform.set_rng_seed_to(0)
rng = np.random.default_rng(0)


def pushed(state: np.ndarray, right: np.ndarray) -> np.ndarray:
    """After 0.02 s of 10 N: place, speed, angle of each pole and its speed."""
    _, speed, angle, turning = state.T
    push = ((20 * right - 10) + 0.05 * turning**2 * np.sin(angle)) / 1.1
    turns = 9.8 * np.sin(angle) - np.cos(angle) * push
    turns /= 0.5 * (4 / 3 - 0.1 * np.cos(angle) ** 2 / 1.1)
    gains = speed, push - 0.05 * turns * np.cos(angle) / 1.1, turning, turns
    return (state + 0.02 * np.stack(gains, axis=1)).astype(np.float32)


state, action = nn.Input(4), nn.Input(1, name="action", data_type="int32")
before, advantage = nn.Input(1, name="before"), nn.Input(1, name="advantage")
logs = nn.dense(2)(nn.dense(64, activation="tanh")(state))
logs = nn.activation("log_softmax")(logs)
ratio = nn.exp(nn.gather(logs, action) - before)
gain = nn.minimum(ratio * advantage, nn.clip(ratio, 0.8, 1.2) * advantage)
entropy = -nn.sum(nn.exp(logs) * logs, axis=1)
loss = -gain - 0.01 * entropy
actor = nn.model(inputs=state, outputs=logs, loss=loss, optimizer=nn.adam(3e-3), batch_size=64)
values = [nn.dense(64, activation="tanh"), nn.dense(1)]
critic = nn.model(values, input=4, loss="mse", optimizer=nn.adam(1e-2), batch_size=64)

now = rng.uniform(-0.05, 0.05, (16, 4)).astype(np.float32)
states = np.empty((64, 16, 4), np.float32)
chosen, earned = np.empty((2, 64, 16, 1), np.float32)
right, fell = np.empty((2, 64, 16, 1), np.int32)
for iteration in range(15):
    for t in range(64):
        states[t], given = now, actor.predict(now)
        right[t] = rng.random((16, 1)) < np.exp(given[:, 1:])
        chosen[t] = np.take_along_axis(given, right[t], 1)
        now = pushed(now, right[t, :, 0])
        fell[t, :, 0] = (abs(now) > [2.4, np.inf, 0.21, np.inf]).any(axis=1)
        now = np.where(fell[t], rng.uniform(-0.05, 0.05, (16, 4)).astype(np.float32), now)
    ahead = critic.predict(now)
    for t in reversed(range(64)):
        earned[t] = ahead = 1 + 0.99 * ahead * (1 - fell[t])
    x = states.reshape(-1, 4)
    gains = earned.reshape(-1, 1) - critic.predict(x)
    labels = {"action": right.reshape(-1, 1), "before": chosen.reshape(-1, 1), "advantage": gains}
    actor.fit(x, labels, epochs=4)
    critic.fit(x, earned.reshape(-1, 1), epochs=4)
    print(f"iteration {iteration + 1} falls {fell.sum()}")
