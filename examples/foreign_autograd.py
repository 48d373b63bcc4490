"""Forward, gradient and update driven from somebody else's automatic differentiation.

The network's result is consumed outside of its graph, twice over: by NumPy code with a loss and a
gradient of its own, and, where it is installed, by PyTorch, which hands in the gradient of what it
computed behind the network and takes the gradient of the network's input for what lies before it.
"""

import argparse
import json

import numpy as np

from traingraph import (
    MLCActivationLayer,
    MLCConvolutionDescriptor,
    MLCFullyConnectedLayer,
    MLCGraph,
    MLCGraphCompilationOptions,
    MLCSGDOptimizer,
    MLCTensor,
    MLCTrainingGraph,
    sequential,
)

BATCH, INPUTS, HIDDEN, OUTPUTS = 32, 4, 16, 2
RATE = 0.5


class Network:
    """x → fully connected → tanh → fully connected; there is no loss in the graph."""

    def __init__(self, weights: list[np.ndarray], device: str = "cpu") -> None:
        # Over the caller's memory: synchronize_updates() writes trained weights into it.
        first, first_bias, second, second_bias = weights
        self.x = MLCTensor(shape=[BATCH, first.shape[1]])
        graph = MLCGraph()
        self.result = sequential(
            graph,
            self.x,
            [
                fully_connected(first, first_bias),
                MLCActivationLayer.tanh(),
                fully_connected(second, second_bias),
            ],
        )
        self.device = device
        self.training = MLCTrainingGraph(
            graph_objects=[graph], optimizer=MLCSGDOptimizer(learning_rate=RATE)
        )
        self.training.add_inputs({"x": self.x})
        # What the code outside says about the result goes here.
        self.incoming = self.training.allocate_user_gradient(self.result)
        # The gradient of the input too, for what lies before the network.
        self.training.compile(
            options=MLCGraphCompilationOptions.COMPUTE_ALL_GRADIENTS, device=device
        )

    def forward(self, x: np.ndarray) -> np.ndarray:
        """x (N, inputs) → result (N, outputs)."""
        self.write("x", x, self.x)
        return self.training.execute_forward(batch_size=BATCH).result

    def gradient(self, incoming: np.ndarray) -> np.ndarray:
        """The gradient of the result (N, outputs) → the gradient of x (N, inputs)."""
        self.write("incoming", incoming, self.incoming)
        self.training.execute_gradient(batch_size=BATCH)
        of_x = np.empty((BATCH, self.x.descriptor.shape[1]), np.float32)
        self.training.gradient_tensor(for_input=self.x).copy_data_from_device_memory(of_x)
        return of_x

    def update(self) -> None:
        self.training.execute_optimizer_update()

    def write(self, name: str, values: np.ndarray, tensor: MLCTensor) -> None:
        self.training.bind_and_write_data(
            {name: values},
            for_inputs={name: tensor},
            to=self.device,
            batch_size=BATCH,
            synchronous=True,
        )


def fully_connected(weights: np.ndarray, biases: np.ndarray) -> MLCFullyConnectedLayer:
    outputs, inputs = weights.shape
    return MLCFullyConnectedLayer(
        weights=MLCTensor(data=weights),
        biases=MLCTensor(data=biases),
        descriptor=MLCConvolutionDescriptor(
            kernel_sizes=(1, 1),
            input_feature_channel_count=inputs,
            output_feature_channel_count=outputs,
        ),
    )


def initial_weights(rng: np.random.Generator, inputs: int = INPUTS) -> list[np.ndarray]:
    shapes = [(HIDDEN, inputs), (HIDDEN,), (OUTPUTS, HIDDEN), (OUTPUTS,)]
    return [rng.normal(0, 0.3, shape).astype(np.float32) for shape in shapes]


def batches(rng: np.random.Generator, steps: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Points (N, inputs) and what the network is to say about them (N, outputs)."""
    mixing = rng.normal(size=(INPUTS, OUTPUTS)).astype(np.float32)
    points = rng.normal(size=(steps, BATCH, INPUTS)).astype(np.float32)
    return [(x, np.sin(x @ mixing)) for x in points]


def log_cosh(prediction: np.ndarray, target: np.ndarray) -> tuple[float, np.ndarray]:
    """A loss that no layer has: the mean of log cosh of the error, and its gradient."""
    error = prediction - target
    return float(np.log(np.cosh(error)).mean()), np.tanh(error) / np.float32(error.size)


def train_with_numpy(steps: int, seed: int, device: str) -> list[float]:
    """The losses of the steps."""
    rng = np.random.default_rng(seed)
    network = Network(initial_weights(rng), device)
    losses = []
    for x, target in batches(rng, steps):
        loss, incoming = log_cosh(network.forward(x), target)
        network.gradient(incoming)
        network.update()
        losses.append(loss)
    return losses


def train_with_pytorch(steps: int, seed: int, device: str) -> tuple[list[float], list[float]]:
    """The losses of a PyTorch program around the network, and of the same in PyTorch alone."""
    import torch

    class Foreign(torch.autograd.Function):
        """The network as a function that PyTorch differentiates."""

        @staticmethod
        def forward(ctx, x, network):
            ctx.network = network
            return torch.from_numpy(network.forward(x.detach().numpy()))

        @staticmethod
        def backward(ctx, incoming):
            return torch.from_numpy(ctx.network.gradient(incoming.contiguous().numpy())), None

    rng = np.random.default_rng(seed)
    weights = initial_weights(rng)
    encoder_weights = rng.normal(0, 0.5, (INPUTS, INPUTS)).astype(np.float32)
    data = batches(rng, steps)

    def train(middle, update) -> list[float]:
        """An encoder before and a loss behind `middle`; `update` changes what middle holds."""
        encoder = torch.tensor(encoder_weights, requires_grad=True)
        losses = []
        for x, target in data:
            prediction = middle(torch.from_numpy(x) @ encoder)
            loss = torch.nn.functional.smooth_l1_loss(prediction, torch.from_numpy(target))
            loss.backward()
            with torch.no_grad():
                encoder -= RATE * encoder.grad
                encoder.grad = None
            update()
            losses.append(loss.item())
        return losses

    own = [torch.tensor(array, requires_grad=True) for array in weights]

    def update_own() -> None:
        with torch.no_grad():
            for tensor in own:
                tensor -= RATE * tensor.grad
                tensor.grad = None

    def own_network(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ own[0].T + own[1]) @ own[2].T + own[3]

    network = Network(weights, device)
    mixed = train(lambda x: Foreign.apply(x, network), network.update)
    return mixed, train(own_network, update_own)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", action="store_true", help="end with a line of JSON")
    arguments = parser.parse_args()
    if arguments.steps < 1:
        parser.error(f"--steps: expected a number of at least 1, not {arguments.steps}")

    run = (arguments.steps, arguments.seed, arguments.device)
    losses = train_with_numpy(*run)
    print(f"NumPy: loss {losses[0]:.4f}, after {arguments.steps} steps {losses[-1]:.4f}")
    summary = {"numpy": losses, "mixed": None, "pytorch": None}
    try:
        summary["mixed"], summary["pytorch"] = train_with_pytorch(*run)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        print("PyTorch is not installed: the part with torch.autograd.Function is left out")
    else:
        mixed, alone = summary["mixed"], summary["pytorch"]
        apart = max(abs(a - b) for a, b in zip(mixed, alone, strict=True))
        print(f"PyTorch around the network: loss {mixed[0]:.4f}, at the end {mixed[-1]:.4f}")
        print(f"PyTorch alone: the same losses, at most {apart:.1e} apart")
    if arguments.json:
        print(json.dumps(summary))


if __name__ == "__main__":
    main()
