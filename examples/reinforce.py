"""REINFORCE balances a pole on a cart. PyTorch's is reinforce_torch.py.

It prints the steps of the episodes, of which each has at most 300.
"""

import numpy as np

import traingraph as tg
from traingraph import nn

tg.MLCPlatform.set_rng_seed_to(0)
rng = np.random.default_rng(0)


def pushed(state: np.ndarray, right: int) -> np.ndarray:
    """After 0.02 s of 10 N: place, speed, angle of the pole and its speed."""
    _, speed, angle, turning = state
    push = ((20 * right - 10) + 0.05 * turning**2 * np.sin(angle)) / 1.1
    turns = 9.8 * np.sin(angle) - np.cos(angle) * push
    turns /= 0.5 * (4 / 3 - 0.1 * np.cos(angle) ** 2 / 1.1)
    gains = speed, push - 0.05 * turns * np.cos(angle) / 1.1, turning, turns
    return state + np.float32(0.02) * np.array(gains, np.float32)


state, action = nn.Input(4), nn.Input(1, name="action", data_type="int32")
gain = nn.Input(1, name="gain")
logs = nn.dense(2)(nn.dense(64, activation="relu")(state))
logs = nn.activation("log_softmax")(logs)
loss = -gain * nn.gather(logs, action)
agent = nn.model(
    inputs=state, outputs=logs, loss=loss, optimizer=nn.adam(0.005),
    batch_size=300, any_batch_size=True,
)  # fmt: skip

lengths = []
for _ in range(200):
    states, actions = [rng.uniform(-0.05, 0.05, 4).astype(np.float32)], []
    while abs(states[-1][0]) < 2.4 and abs(states[-1][2]) < 0.21 and len(actions) < 300:
        right = rng.random() < np.exp(agent.predict(states[-1][None])[0, 1])
        actions.append([right])
        states.append(pushed(states[-1], right))
    lengths.append(len(actions))
    gains = np.cumsum(0.99 ** np.arange(len(actions)))[::-1, None]  # discounted, from each step on
    gains = (gains - gains.mean()) / (gains.std() + 1e-6)
    labels = {"action": np.array(actions, np.int32), "gain": gains.astype(np.float32)}
    agent.execute(inputs_data={"x": np.array(states[:-1])}, loss_labels_data=labels)
print(f"steps {np.mean(lengths[:30]):.0f} in the first 30 episodes, {np.mean(lengths[-30:]):.0f}")
