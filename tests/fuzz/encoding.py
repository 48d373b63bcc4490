"""Kernels of every class, encoded with small images and what else they read."""

import re
from typing import Any

import numpy as np
from coded import CASES
from kernels import batch, vector

from traingraph import mps


def plain(name: str) -> Any:
    cls, (arguments, _) = getattr(mps, name), CASES[name]
    given = {key: value() if callable(value) else value for key, value in arguments.items()}
    return cls(device="cpu", **given)


def images(on: Any, channels: int = 4, height: int = 9, width: int = 9) -> list[Any]:
    numbers = np.random.default_rng(channels).normal(size=(2, channels, height, width))
    return batch(on, numbers.astype(np.float32))


def optimize(kernel: Any, buffer: Any) -> None:
    """With every vector that the optimizer has a name for."""
    names = set(re.findall(r"\b(\w+_vector): MPSVector", type(kernel).encode.__doc__))
    if not getattr(kernel, "momentum_scale", 1):
        names.discard("input_momentum_vector")
    numbers = {"input_gradient_vector": [1, -2, 0, 1e30]}
    given = {name: vector(kernel.device, numbers.get(name, [1] * 4)) for name in sorted(names)}
    kernel.encode(buffer, **given)


def sources(kernel: Any, channels: int) -> dict[str, Any]:
    """What a kernel that is no gradient reads."""
    on = kernel.device
    if isinstance(kernel, mps.MPSCNNBinaryKernel):
        return {"primary_images": images(on, channels), "secondary_images": images(on, channels)}
    if isinstance(kernel, mps.MPSCNNFullyConnected):
        return {"source_images": images(on, channels, 3, 2)}
    return {"source_images": images(on, channels)}


def differentiate(kernel: Any, buffer: Any, forward: Any = None) -> None:
    """With the states and results of a forward kernel of its name."""
    if forward is None:
        forward = plain(type(kernel).__name__.removesuffix("Gradient"))
    forward = forward.copy(device=kernel.device)
    given, states = sources(forward, 4), list[Any]()
    if isinstance(forward, mps.MPSNNReshape):
        given["destination_images"] = images(kernel.device, 9, 4)
    results = forward.encode_batch(
        buffer, **given, destination_states=states, destination_state_is_temporary=False
    )
    kernel.encode_batch(
        buffer, source_gradients=results, source_images=next(iter(given.values())),
        gradient_states=states,
    )  # fmt: skip


def encode(kernel: Any, buffer: Any, with_destination: bool, channels: int,
           forward: Any = None) -> None:  # fmt: skip
    on = kernel.device
    given = {"destination_images": images(on, 16, 12, 12)} if with_destination else {}
    if isinstance(kernel, mps.MPSNNOptimizer):
        optimize(kernel, buffer)
    elif isinstance(kernel, mps.MPSNNGraph):
        several = [images(on, 4 if name == "x" else 8) for name in kernel.source_image_handles]
        kernel.encode_batch(buffer, source_images=several)
    elif isinstance(kernel, mps.MPSNNForwardLoss):
        kernel.encode_batch(buffer, source_images=images(on), labels=images(on),
                            destination_images=images(on, 1, 1, 1))  # fmt: skip
    elif isinstance(kernel, mps.MPSNNLossGradient):
        kernel.encode_batch(buffer, source_gradients=images(on, 1, 1, 1), source_images=images(on),
                            labels=images(on))  # fmt: skip
    elif isinstance(kernel, mps.MPSCNNGradientKernel):
        differentiate(kernel, buffer, forward)
    else:
        kernel.encode_batch(buffer, **sources(kernel, channels), **given)
