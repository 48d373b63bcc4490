"""Networks that ranks train, but for the LSTM."""

from typing import Any

from traingraph import nn

CLASSES = 5


def blocks(net: str) -> list[Any]:
    return {
        "mlp": [nn.dense(24), "tanh", nn.dense(CLASSES)],
        "dropout": [nn.dense(24), nn.dropout(0.5), "relu", nn.dropout(0.2), nn.dense(CLASSES)],
        "batch_norm": [nn.dense(24), nn.batch_norm(), "relu", nn.dense(CLASSES)],
        "lenet": [
            *(nn.conv2d(4, 5, bias=False), nn.batch_norm(), "relu", nn.max_pool(2)),
            *(nn.conv2d(8, 3, bias=False), nn.batch_norm(), "relu", nn.flatten()),
            *(
                nn.dense(16, bias=False),
                nn.batch_norm(),
                "tanh",
                nn.dropout(0.3),
                nn.dense(CLASSES),
            ),
        ],
        # Sums over the batch that a batch of one does not need.
        "biases": [
            *(nn.conv2d(4, 3), nn.group_norm(2), "tanh", nn.conv2d(3, 3), nn.batch_norm()),
            *(nn.flatten(), nn.dense(CLASSES)),
        ],
        # Above the size that travels as a whole, and several buckets.
        "wide": [nn.dense(1500), "relu", nn.dense(1500), "relu", nn.dense(CLASSES)],
        "deep": [*[nn.dense(1100, activation="relu") for _ in range(7)], nn.dense(CLASSES)],
    }[net]
