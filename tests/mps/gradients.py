"""Kernels in float64 on the reference backend, and their gradients by central differences."""

from collections.abc import Callable
from typing import Any

import numpy as np
from kernels import STEP, array, batch, commands, run

from differences import Slopes, assert_near
from traingraph import mps

DEVICE = "reference"


def device(name: str = DEVICE) -> Any:
    return mps.MTLDevice(device=name)


def number_type(device: str) -> type[np.floating[Any]]:
    """What images hold on it: float64 is the reference implementation's, for Metal has none."""
    return np.float64 if device == "reference" else np.float32


def near(found: np.ndarray, expected: np.ndarray | Slopes, float64: float = 1e-6) -> None:
    """Within the bound of its type, relative to the largest number of the array."""
    bound = {np.float64: float64, np.float32: 4e-6}[found.dtype.type]
    if isinstance(expected, Slopes):
        expected.assert_near(found, bound)
    else:
        assert_near(found, expected, bound)


def random(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def execute(encode: Callable[[Any], Any], on: Any = None) -> Any:
    """What `encode` returns, after its command buffer has run."""
    buffer = commands(device() if on is None else on)
    result = encode(buffer)
    run(buffer)
    return result


def forward(kernel: Any, *sources: np.ndarray) -> tuple[np.ndarray, list[Any]]:
    """The result and the states of a kernel with one or two sources."""
    kernel.makes_temporary_images = False
    on = kernel.device
    given = {"source_images": batch(on, sources[0])}
    if len(sources) == 2:
        given = {
            "primary_images": batch(on, sources[0]),
            "secondary_images": batch(on, sources[1]),
        }
    result, states = execute(
        lambda buffer: kernel.encode_batch(buffer, **given, destination_state_is_temporary=False),
        on,
    )
    return array(result), states


def backward(kernel: Any, dy: np.ndarray, x: np.ndarray, states: list[Any]) -> np.ndarray:
    """The gradient of the form without a destination, which sets the kernel's properties."""
    kernel.makes_temporary_images = False
    on = kernel.device
    return array(
        execute(
            lambda buffer: kernel.encode_batch(
                buffer,
                source_gradients=batch(on, dy),
                source_images=batch(on, x),
                gradient_states=states,
            ),
            on,
        )
    )


def differences(f: Callable[[np.ndarray], np.ndarray], at: np.ndarray, dy: np.ndarray) -> Slopes:
    """The derivative of sum(dy * f) by central differences."""
    return Slopes(f, at, dy, STEP)


def check(kernel: Any, gradient_kernel: Any, x: np.ndarray, expected: Any = None) -> None:
    """A kernel of one source against NumPy, and its gradient against central differences."""
    y, states = forward(kernel, x)
    if expected is not None:
        near(y, expected, 1e-9)
    dy = random(99, *y.shape)
    dx = backward(gradient_kernel, dy, x, states)
    assert np.abs(dx).max() > 0
    near(dx, differences(lambda moved: forward(kernel, moved)[0], x, dy))
