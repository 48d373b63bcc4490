"""Networks that ranks train, what they train on, and what is left of it."""

import hashlib
from typing import Any

import numpy as np

import traingraph
from traingraph import nn

CLASSES = 5
FEATURES, ROWS = 12, 24  # ROWS: of all ranks
IMAGE = (1, 12, 12)

Options = dict[str, Any]


def shape_of(net: str) -> tuple[int, ...]:
    """Of a sample."""
    return {
        "lstm": (4, FEATURES), "lenet": IMAGE, "biases": IMAGE,
        "lstm_of_two": (64, 256), "lenet_digits": (1, 8, 8), "resnet18_cifar": (3, 32, 32),
    }.get(net, (FEATURES,))  # fmt: skip


def convolved(channels: int, kernel: int = 3, stride: int = 1) -> list[Any]:
    return [nn.conv2d(channels, kernel, stride=stride, bias=False), nn.batch_norm()]


def resnet18() -> list[Any]:
    layers = [*convolved(64), "relu"]
    for channels, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        for first in (stride, 1):
            body = [*convolved(channels, 3, first), "relu", *convolved(channels)]
            shortcut = None if first == 1 else convolved(channels, 1, first)
            layers += [nn.residual(body, shortcut=shortcut), "relu"]
    return [*layers, nn.average_pool(4), nn.flatten(), nn.dense(CLASSES)]


def blocks(net: str) -> list[Any]:
    if net == "resnet18_cifar":
        return resnet18()
    return {
        "lstm": [nn.lstm(6), nn.flatten(), nn.dense(CLASSES)],
        # As in the benchmarks.
        "lstm_of_two": [nn.lstm(256, returns_sequences=True), nn.lstm(256), nn.dense(CLASSES)],
        "lenet_digits": [
            *(*convolved(32), "relu", *convolved(64), "relu", nn.max_pool(2), nn.flatten()),
            *(nn.dense(128), "relu", nn.dense(CLASSES)),
        ],
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


def device_of(options: Options, world: Any) -> str:
    """Of "cuda" a GPU for each rank."""
    device = options.get("device", "cpu")
    return f"gpu:{world.local_rank}" if device == "cuda" else device


def network(options: Options, world: Any) -> Any:
    """A compiled graph for one rank's part of ROWS samples."""
    data_type = options.get("type", "float32")
    rate = options.get("rate", 1)
    optimizer = {
        "sgd": lambda: nn.sgd(0.05 * rate, momentum=0.9),
        "adam": lambda: nn.adam(0.005 * rate),
    }[options.get("optimizer", "adam")]()
    traingraph.MLCPlatform.set_rng_seed_to(options.get("seed", 7))
    shared = {
        "optimizer": optimizer,
        "batch_size": options.get("batch", ROWS // world.size),
        "device": device_of(options, world),
        "distributed": world,
        "synchronized_batch_norm": options.get("synchronized", False),
        "shard_optimizer": options.get("shard", False),
        "gradient_exchange": options.get("exchange"),
        "any_batch_size": options.get("any_batch_size", False),
    }
    net = options["net"]
    model = nn.model(blocks(net), input=shape_of(net), input_type=data_type, **shared)
    if precision := options.get("precision"):
        model.compile(device=shared["device"], precision=precision, distributed=world)
    return model


def samples(options: Options, count: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(3)
    shape = (count, *shape_of(options["net"]))
    x = random.standard_normal(shape).astype(options.get("type", "float32"))
    return x, random.integers(0, CLASSES, count).astype(np.int32)


def ends(model: Any) -> list[bytes]:
    """Of the parameters the first and the last one, whose gradients are in different buckets."""
    values = list(model.named_parameters().values())
    model.synchronize_updates()
    return [values[k].data.tobytes() for k in (1, -1)]


def digest(model: Any) -> str:
    whole = hashlib.sha256()
    for name, values in sorted(model.state().items()):
        whole.update(name.encode() if "." not in name else b"")
        whole.update(np.ascontiguousarray(values).tobytes())
    return whole.hexdigest()
