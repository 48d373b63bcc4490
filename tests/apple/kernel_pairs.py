"""A kernel of the doubles and its gradient kernel, by the batch forms with given destinations."""

from collections.abc import Callable

import numpy as np
from mps_session import Session
from objective_c import Object

FORWARD = "encodeBatchToCommandBuffer:sourceImages:destinationStates:destinationImages:"
BACKWARD = (
    "encodeBatchToCommandBuffer:sourceGradients:sourceImages:gradientStates:destinationGradients:"
)


def run_forward(s: Session, kernel: Object, x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The result of this shape, without states."""
    results = s.blank_batch(*shape)
    form = "encodeBatchToCommandBuffer:sourceImages:destinationImages:"
    kernel.send(form, s.commands, s.batch(x), results)
    s.run()
    s.next_commands()
    return s.read_batch(results)


def run_pair(
    s: Session, kernel: Object, gradient: Object, x: np.ndarray, e: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The result, which has the shape of its gradient e, and the gradient of the source."""
    sources, results = s.batch(x), s.blank_batch(*e.shape)
    source_gradients = s.blank_batch(*x.shape)
    states = s.states(kernel, sources, results)
    kernel.send(FORWARD, s.commands, sources, states, results)
    gradient.send(BACKWARD, s.commands, s.batch(e), sources, states, source_gradients)
    s.run()
    s.next_commands()
    return s.read_batch(results), s.read_batch(source_gradients)


def set_all(kernel: Object, **properties: object) -> None:
    """Sets properties by their names in Apple's spelling."""
    for name, value in properties.items():
        kernel.send(f"set{name[0].upper()}{name[1:]}:", value)


def differences(
    function: Callable[[np.ndarray], np.ndarray], at: np.ndarray, e: np.ndarray
) -> np.ndarray:
    """The derivative of the sum of e * function by central differences in float64."""
    at = at.astype(np.float64)
    result = np.empty(at.shape)
    for place in np.ndindex(at.shape):
        step = np.zeros(at.shape)
        step[place] = 1e-6
        moved = function(at + step) - function(at - step)
        result[place] = (e.astype(np.float64) * moved).sum() / 2e-6
    return result
