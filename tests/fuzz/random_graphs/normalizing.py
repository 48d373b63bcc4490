"""What normalizations have in common."""

from typing import Any


def normalized(t: Any, x: Any, axes: tuple[int, ...], epsilon: float, at: Any) -> Any:
    """x less its mean over the axes, by its deviation; the mean and the variance."""
    mean = x.mean(axes, keepdim=True)
    variance = ((x - mean) ** 2).mean(axes, keepdim=True)
    if at.disturbed is None:
        return (x - mean) / t.sqrt(variance + epsilon), mean, variance
    # With rounding, the derivative that kernels compute, which takes it that the mean of the result
    # is 0: that is off by the mean's rounding times the square of the inverse deviation.
    mean = at.disturbed(mean.detach())
    variance = at.disturbed(((x - mean) ** 2).mean(axes, keepdim=True).detach())
    inverse = 1 / t.sqrt(variance + epsilon)
    unit = ((x - mean) * inverse).detach()
    along = (x * unit).mean(axes, keepdim=True)
    moved = inverse * (x - x.mean(axes, keepdim=True) - unit * along)
    return unit + moved - moved.detach(), mean, variance


def scaled(unit: Any, at: Any, shape: Any) -> Any:
    """By gamma and beta, which a layer may be without."""
    found = unit * at["gamma"].reshape(shape) if "gamma" in at else unit
    return found + at["beta"].reshape(shape) if "beta" in at else found
