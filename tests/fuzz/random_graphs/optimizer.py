"""What the fuzz knows of a class of optimizers; the table of optimizers.py is made of these."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .layer import Options


@dataclass(frozen=True)
class Optimizer:
    name: str
    """Of the class."""
    draw: Callable[[Any], Options]
    """(drawing) -> its own numbers, beside those that all optimizers have."""
    slots: Callable[[Options], list[tuple[str, str, float]]]
    """(its own numbers) -> what is kept for a parameter, in the order of its buffers: the name that
    `step` has for it, and the kind and scale of numbers that may stand there."""
    step: Callable[[Any, Any, dict[str, Any], float, dict[str, float], int], Any]
    """(torch, gradient, what is kept, learning rate, its own numbers, count from 1) -> what is
    taken off a parameter; `kept` is changed, and empty at first."""
    decouples_decay: bool = False
    """Whether L2 is taken off the parameter by itself, and L1 is refused."""
    often: int = 1
