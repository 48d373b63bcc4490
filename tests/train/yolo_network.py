"""A YOLO network of nine convolutions, trained by steps that are in flight together."""

import sys
from pathlib import Path

import numpy as np

import traingraph as tg

IMAGES, SIDE, CELLS, CLASSES = 4, 32, 4, 2
ANCHORS = [(0.75, 1.0), (2.0, 1.5)]
# Output channels of each convolution, and whether the image is halved behind it.
LAYERS = [(8, True), (8, True), (16, True), (16, False), (8, False), (16, False), (16, False),
          (16, False), (len(ANCHORS) * (5 + CLASSES), False)]  # fmt: skip


def images(step: int) -> np.ndarray:
    random = np.random.default_rng(100 + step)
    return random.uniform(size=(IMAGES, 3, SIDE, SIDE)).astype(np.float32)


def labels(step: int) -> np.ndarray:
    """One box in each image, for one anchor."""
    random = np.random.default_rng(200 + step)
    made = np.zeros((IMAGES, len(ANCHORS), 5 + CLASSES, CELLS, CELLS), np.float32)
    for image in made:
        anchor, row, column = random.integers(0, [len(ANCHORS), CELLS, CELLS])
        box = image[anchor, :, row, column]
        box[:2], box[4] = random.uniform(size=2), 1
        box[2:4] = np.array(ANCHORS[anchor]) * random.uniform(0.8, 1.25, 2)
        box[5 + random.integers(CLASSES)] = 1
    return made.reshape(IMAGES, -1, CELLS, CELLS)


class Network:
    def __init__(self, seed: int, device: str, step: int = 0, rescores: bool = True) -> None:
        descriptor = tg.MLCYOLOLossDescriptor(
            anchor_boxes=np.float32(ANCHORS).tobytes(), anchor_box_count=len(ANCHORS)
        )
        descriptor.should_rescore = rescores
        random = np.random.default_rng(seed)
        self.x = tg.MLCTensor(shape=[IMAGES, 3, SIDE, SIDE])
        self.labels = tg.MLCTensor(shape=[IMAGES, LAYERS[-1][0], CELLS, CELLS])
        self.graph = tg.MLCGraph()
        at, inputs = self.x, 3
        self.convolutions, self.norms = [], []
        for k, (outputs, halved) in enumerate(LAYERS):
            is_last = k == len(LAYERS) - 1
            kernel = 1 if is_last else 3
            spread = np.sqrt(2 / (inputs * kernel**2))
            weights = spread * random.normal(size=(1, inputs * outputs, kernel, kernel))
            convolution = tg.MLCConvolutionLayer(
                weights=tg.MLCTensor(data=weights.astype(np.float32)),
                biases=tg.MLCTensor(data=np.zeros((1, outputs, 1, 1), np.float32)),
                descriptor=tg.MLCConvolutionDescriptor(
                    kernel_sizes=(kernel, kernel),
                    input_feature_channel_count=inputs,
                    output_feature_channel_count=outputs,
                ),
            )
            self.convolutions.append(convolution)
            at = self.graph.node(convolution, source=at)
            if not is_last:
                norm = tg.MLCBatchNormalizationLayer(
                    feature_channel_count=outputs,
                    mean=tg.MLCTensor(data=np.zeros((1, outputs, 1, 1), np.float32)),
                    variance=tg.MLCTensor(data=np.ones((1, outputs, 1, 1), np.float32)),
                    gamma=tg.MLCTensor(data=np.ones((1, outputs, 1, 1), np.float32)),
                    beta=tg.MLCTensor(data=np.zeros((1, outputs, 1, 1), np.float32)),
                )
                self.norms.append(norm)
                at = self.graph.node(norm, source=at)
                at = self.graph.node(tg.MLCActivationLayer.leaky_relu(), source=at)
            if halved:
                pooling = tg.MLCPoolingDescriptor(type="max", kernel_sizes=(2, 2), strides=(2, 2))
                at = self.graph.node(tg.MLCPoolingLayer(descriptor=pooling), source=at)
            inputs = outputs
        self.device = device
        self.training = tg.MLCTrainingGraph(
            graph_objects=[self.graph],
            loss_layer=tg.MLCYOLOLossLayer(descriptor=descriptor),
            optimizer=tg.MLCAdamOptimizer(
                descriptor=tg.MLCOptimizerDescriptor(learning_rate=0.004), time_step=step + 1
            ),
        )
        self.training.add_inputs({"image": self.x}, loss_labels={"boxes": self.labels})

    def tensors(self) -> list[tg.MLCTensor]:
        """Those that are trained, then running statistics."""
        trained = [t for c in self.convolutions for t in (c.weights, c.biases)]
        trained += [t for n in self.norms for t in (n.gamma, n.beta)]
        return trained + [t for n in self.norms for t in (n.mean, n.variance)]

    def compile(self) -> None:
        self.training.compile(device=self.device)

    def steps(self, first: int, last: int, batches: int = 1000) -> np.ndarray:
        """Losses (steps, images): each handler gets its own, in order, while others run."""
        seen: list[np.ndarray] = []

        def handler(result: tg.MLCTensor, error: Exception | None, seconds: float) -> None:
            assert error is None
            seen.append(result.data.copy())

        handles = [
            self.training.execute(
                inputs_data={"image": images(step % batches)},
                loss_labels_data={"boxes": labels(step % batches)},
                options="none",
                completion_handler=handler,
            )
            for step in range(first, last)
        ]
        handles[-1].wait()
        return np.stack(seen)

    def export(self) -> dict[str, np.ndarray]:
        self.training.synchronize_updates()
        found = {}
        for k, tensor in enumerate(self.tensors()):
            found[f"{k}"] = np.array(tensor.data)
            tensor.synchronize_optimizer_data()
            for j, moment in enumerate(tensor.optimizer_data):
                found[f"{k}.{j}"] = np.array(moment)
        return found

    def bind(self, found: dict[str, np.ndarray]) -> None:
        """Before it is compiled."""
        for k, tensor in enumerate(self.tensors()):
            tensor.bind_and_write_data(found[f"{k}"])
            moments = [found[name] for name in (f"{k}.0", f"{k}.1") if name in found]
            if moments:
                tensor.bind_optimizer_data(moments)


if __name__ == "__main__":
    device, step, last, source, target = sys.argv[1:]
    network = Network(seed=99, device=device, step=int(step))
    with np.load(Path(source)) as file:
        network.bind(dict(file))
    network.compile()
    losses = network.steps(int(step), int(last))
    np.savez(target, losses=losses, **network.export())
