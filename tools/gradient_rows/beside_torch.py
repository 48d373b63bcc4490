"""What PyTorch gives for a case, in float64, by its automatic differentiation."""

from typing import Any

import numpy as np
from random_graphs import losses
from random_graphs.torch_judge import Parameters

from .sample import Data, Sample


def judged(sample: Sample, data: Data, starts: list[np.ndarray]) -> Any:
    """Values, and gradients by the array's number."""
    import torch as t

    def tensor(array: np.ndarray, differentiated: bool) -> Any:
        made = t.tensor(array)
        return made.requires_grad_(True) if differentiated else made

    sources = [
        tensor(array, values.has_gradient)
        for array, values in zip(data.sources, sample.sources, strict=True)
    ]
    at = Parameters()
    at.frozen = sample.frozen
    kept = {}
    for role, array in data.parameters.items():
        trained = role not in sample.layer.running and not sample.frozen
        kept[role] = at[role] = tensor(array, trained)
    if sample.is_loss:
        weights = kept.get("weights", sources[2] if len(sources) > 2 else None)
        made = [compute_loss(t, sample, *sources[:2], weights)]
    else:
        found = sample.layer.compute(t, sample.options, sources, at)
        made = found if isinstance(found, list) else [found]
    total = sum((one * t.tensor(dy)).sum() for one, dy in zip(made, starts, strict=True)
                if one.is_floating_point())  # fmt: skip
    if t.is_tensor(total) and total.requires_grad:
        total.backward()
    values = [one.detach().numpy().astype(np.float64) for one in made]
    arrays = [*sources, *kept.values()]
    gradients = {
        k: (one.grad if one.grad is not None else t.zeros_like(one)).numpy()
        for k, one in enumerate(arrays)
        if one.requires_grad
    }
    return values, gradients


def compute_loss(t: Any, sample: Sample, y: Any, labels: Any, weights: Any) -> Any:
    if hasattr(sample.layer, "compute_loss"):
        return sample.layer.compute_loss(t, sample.options, y, labels, weights)
    return losses.compute(t, sample.options, y, labels, weights)
