"""A whole network in traingraph.nn and in PyTorch, over one batch, and how both train alike."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import traingraph as tg
from traingraph import nn

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Network:
    inputs: nn.Value
    outputs: nn.Value | list[nn.Value]
    x: np.ndarray
    labels: Arrays
    # The same network: the prediction or predictions of x, and the loss of these and the labels.
    twin: Any
    twin_loss: Callable[..., Any]
    # Of plain descent beside PyTorch, and of Adam where the batch is learned.
    rate: float
    adam_rate: float
    loss: str | nn.Value = "softmax_cross_entropy"

    def model(self, optimizer: tg.MLCOptimizer, device: str) -> tg.MLCTrainingGraph:
        tg.MLCPlatform.set_rng_seed_to(0)
        return nn.model(
            inputs=self.inputs,
            outputs=self.outputs,
            loss=self.loss,
            optimizer=optimizer,
            batch_size=len(self.x),
            device=device,
        )

    def losses(self, model: tg.MLCTrainingGraph, steps: int) -> list[float]:
        """Of steps over the batch."""
        return [
            float(
                model.execute(
                    inputs_data={"x": self.x}, loss_labels_data=self.labels, options="synchronous"
                ).result
            )
            for _ in range(steps)
        ]

    def losses_of_twin(self, model: tg.MLCTrainingGraph, steps: int) -> list[float]:
        """In float64, from the weights that the model has now, on a thread: what waits for work
        on more of them would keep cores from other tests."""
        import torch

        torch.set_num_threads(1)
        twin = self.twin.double().train()
        copy_parameters(model, twin)
        optimizer = torch.optim.SGD(twin.parameters(), lr=float32(self.rate))
        found = []
        for _ in range(steps):
            labels = [as_torch(array) for array in self.labels.values()]
            loss = self.twin_loss(twin(as_torch(self.x)), *labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found


def as_torch(array: np.ndarray) -> Any:
    import torch

    tensor = torch.tensor(array)
    return tensor.double() if tensor.is_floating_point() else tensor.long()


def float32(number: float) -> float:
    """As rates and numbers of layers are rounded here, also in graphs of float64."""
    return float(np.float32(number))


# --- parameters ----------------------------------------------------------------------------------

WEIGHTED = {"weight": ["weights"], "bias": ["biases"]}
NORMALIZED = {"weight": ["gamma"], "bias": ["beta"]}
# By the class in PyTorch: its parameters, and the roles here whose numbers each of them joins.
ROLES: dict[str, dict[str, list[str]]] = {
    "Conv2d": WEIGHTED,
    "ConvTranspose2d": WEIGHTED,
    "Linear": WEIGHTED,
    "BatchNorm2d": NORMALIZED,
    "LayerNorm": NORMALIZED,
    "Embedding": {"weight": ["weights"]},
    "MultiheadAttention": {
        "in_proj_weight": [f"weights.{part}" for part in ("query", "key", "value")],
        "in_proj_bias": [f"biases.{part}" for part in ("query", "key", "value")],
        "out_proj.weight": ["weights.output"],
        "out_proj.bias": ["biases.output"],
    },
}


def roles_of(module: Any) -> dict[str, list[str]]:
    """Empty for a class without parameters of its own."""
    name = type(module).__name__
    if name != "LSTM":
        return ROLES.get(name, {})
    names = {"weight_ih": "input_weights", "weight_hh": "hidden_weights", "bias_ih": "biases"}
    return {
        f"{theirs}_l{layer}": [f"{ours}.{4 * layer + gate}" for gate in range(4)]
        for layer in range(module.num_layers)
        for theirs, ours in names.items()
    }


def copy_parameters(model: tg.MLCTrainingGraph, twin: Any) -> None:
    """To modules in the order of the layers. Of the two biases of PyTorch's LSTM, which are added,
    the second ones become 0 and stay so."""
    import torch

    layers: dict[str, Arrays] = {}
    for name, tensor in model.named_parameters().items():
        at, _, role = name.split(".", 2)
        if role not in ("mean", "variance"):  # running: training does not read them
            layers.setdefault(at, {})[role] = np.array(tensor.data)
    modules = [module for module in twin.modules() if roles_of(module)]
    with torch.no_grad():
        for module, layer in zip(modules, layers.values(), strict=True):
            own = dict(module.named_parameters())
            for name, roles in roles_of(module).items():
                if name in own:
                    numbers = np.concatenate([layer.pop(role).ravel() for role in roles])
                    parameter = own.pop(name)
                    parameter.copy_(as_torch(numbers).reshape(parameter.shape))
            for name, parameter in own.items():
                assert name.startswith("bias_hh"), f"{module} has a {name} and its layer has none"
                parameter.zero_()
                parameter.requires_grad_(False)
            assert layer == {}, f"{module} has no {list(layer)}"


def drawn(seed: int, *shape: int, dtype: str = "float32") -> np.ndarray:
    """Normal numbers, the same in each type."""
    numbers = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return numbers.astype(dtype)


def classes(seed: int, count: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, count, shape).astype(np.int32)
