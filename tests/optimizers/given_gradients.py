"""Trained tensors that start at 0 and whose gradients the test gives, number by number."""

from collections.abc import Sequence

import numpy as np

import traingraph as tg


class Given:
    def __init__(
        self, optimizer: tg.MLCOptimizer, sizes: Sequence[int], device: str, start: float = 0.0
    ) -> None:
        graph = tg.MLCGraph()
        self.tensors = [tg.MLCTensor(shape=[1, n], fill_with_data=start) for n in sizes]
        moved = [graph.node(tg.MLCReshapeLayer(shape=[1, n]), source=tensor)
                 for n, tensor in zip(sizes, self.tensors, strict=True)]  # fmt: skip
        self.training = tg.MLCTrainingGraph(graph_objects=[graph], optimizer=optimizer)
        self.training.set_training_tensor_parameters(
            [tg.MLCTensorParameter(tensor=tensor) for tensor in self.tensors]
        )
        self.gradients = {
            f"dy{k}": self.training.allocate_user_gradient(y) for k, y in enumerate(moved)
        }
        self.training.compile(device=device)

    def step(self, *gradients: np.ndarray) -> None:
        self.training.execute_forward(options="synchronous")
        data = {f"dy{k}": np.float32(g).reshape(1, -1) for k, g in enumerate(gradients)}
        self.training.bind_and_write_data(data, for_inputs=self.gradients)
        self.training.execute_gradient(options="synchronous")
        self.training.execute_optimizer_update(options="synchronous")

    def values(self) -> list[np.ndarray]:
        self.training.synchronize_updates()
        return [np.array(tensor.data)[0] for tensor in self.tensors]
