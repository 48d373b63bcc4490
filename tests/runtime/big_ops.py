"""One op after another with work for eight threads, in extents that no vector or block divides."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from cpu_ops import numbers, scalars

Case = tuple[str, dict[str, Any], list[np.ndarray]]

IMAGES = (13, 24, 77, 75)  # 1.8 million
ROWS = (1301, 1111)
PADDED = {"kernel": (3, 3), "padding_before": (1, 1), "padding_after": (1, 1)}
WINDOW = {**PADDED, "stride": (2, 2)}


def function(name: str, arity: int = 1) -> dict[str, Any]:
    return {"list": scalars(arity, [(name, 0, 1 if arity == 2 else -1, 1, 1)])}


def _elementwise() -> Iterator[tuple[str, Case]]:
    x, y = numbers(IMAGES, -4, 4), numbers(IMAGES, -4, 4, seed=1)
    for name in ("tanh", "sigmoid", "gelu", "exp", "sin", "soft_plus"):
        yield name, ("elementwise", function(name), [x])
    yield "add", ("elementwise", function("add", 2), [x, y])
    channels = numbers((1, IMAGES[1], 1, 1), seed=2)
    yield "broadcast", ("elementwise", function("multiply", 2), [x, channels])
    odd = numbers((260_001, 7), -4, 4)
    yield "odd rows", ("elementwise", function("gelu"), [odd])
    yield "rows of numbers", ("elementwise", function("multiply", 2), [odd, numbers((260_001, 1))])
    steps = scalars(2, [("multiply", 0, 1, 0, 0), ("tanh", 2, -1, 1, 1), ("add", 3, 0, 0, 0)])
    yield "list", ("elementwise", {"list": steps}, [x, y])


def _sums() -> Iterator[tuple[str, Case]]:
    x = numbers(IMAGES)
    for axes in ([0], [1], [0, 2, 3], [2, 3], [0, 1, 2, 3]):
        yield f"sum {axes}", ("reduce", {"kind": 0, "axes": axes}, [x])
    yield "norm", ("reduce", {"kind": 1, "axes": [1]}, [numbers(ROWS)])
    yield "long sum", ("reduce", {"kind": 0, "axes": [0]}, [numbers((1_800_001,))])


def _norms() -> Iterator[tuple[str, Case]]:
    c = IMAGES[1]
    x, dy = numbers(IMAGES), numbers(IMAGES, seed=3)
    given = [x, numbers((c,), seed=1), numbers((c,), seed=2)]
    yield "batch norm", ("batch_norm", {}, given)
    given = [dy, x, numbers((c,), -0.1, 0.1), numbers((c,), 1, 2), numbers((c,), seed=4)]
    yield "batch norm gradient", ("batch_norm_gradient", {}, given)
    rows = [numbers((190_001, 11)), numbers((11,), seed=1), numbers((11,), seed=2)]
    yield "batch norm of rows", ("batch_norm", {}, rows)
    few = [numbers((301, 3, 50, 50)), numbers((3,), seed=1), numbers((3,), seed=2)]
    yield "batch norm of few channels", ("batch_norm", {}, few)


def _pooling() -> Iterator[tuple[str, Case]]:
    x = numbers(IMAGES)
    for kind, name in enumerate(("largest", "mean", "L2 norm")):
        attributes = {**WINDOW, "kind": kind, "with_index": kind == 0}
        yield f"pooling, {name}", ("pooling", attributes, [x])


def _classes() -> Iterator[tuple[str, Case]]:
    x = numbers(ROWS, -9, 9)
    yield "softmax", ("softmax", {"axis": 1}, [x])
    yield "softmax of channels", ("softmax", {"axis": 1}, [numbers(IMAGES, -9, 9)])
    labels = np.random.default_rng(1).integers(-1, ROWS[1], (ROWS[0], 1)).astype(np.int32)
    yield "cross entropy", ("softmax_cross_entropy", {"classes": ROWS[1]}, [x, labels])


# n, channels, side, results, kernel, and what differs from a stride, dilation and group of 1
CONVOLUTIONS = {
    "3x3": (13, 32, 28, 48, 3, {}),
    "of 3 channels": (13, 3, 64, 24, 7, {"stride": (2, 2)}),
    "1x1": (13, 64, 28, 96, 1, {}),
    "1x1 stride 2": (17, 64, 27, 80, 1, {"stride": (2, 2)}),
    "stride 2": (13, 40, 29, 64, 3, {"stride": (2, 2)}),
    "odd channels": (11, 17, 30, 30, 3, {}),
    "dilated": (6, 24, 40, 24, 3, {"dilation": (2, 2)}),
    "large weights": (19, 256, 4, 256, 3, {}),
    "large weights, four images": (4, 256, 8, 256, 3, {}),
    "one image": (1, 64, 56, 64, 3, {}),
    "one image of one channel": (1, 1, 300, 32, 5, {}),
    "two images": (2, 64, 40, 32, 5, {}),
    "three images": (3, 32, 57, 64, 3, {"stride": (2, 2)}),
    "groups": (13, 64, 28, 64, 3, {"groups": 4}),
    "depthwise": (13, 96, 56, 96, 3, {"groups": 96}),
    "many small images": (1500, 8, 6, 16, 3, {}),
}


def convolution(name: str) -> tuple[list[np.ndarray], dict[str, Any]]:
    n, c, side, o, kernel, more = CONVOLUTIONS[name]
    before = (kernel // 2, kernel // 2)
    sizes = {"kernel": (kernel, kernel), "padding_before": before, "padding_after": before}
    arrays = [numbers((n, c, side, side)), numbers((o, c // more.get("groups", 1), kernel, kernel))]
    return arrays, {**sizes, **more}


CASES: dict[str, Case] = {
    name: case
    for family in (_elementwise, _sums, _norms, _pooling, _classes)
    for name, case in family()
}
