"""Programs drawn from a seed, run in several ways that the documents promise to be the same."""

import pickle
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import traingraph as tg

ROWS, C = 6, 4  # of a whole batch; channels everywhere
SYNCHRONOUS = "synchronous"
Action = tuple[str, Any]


def optimizer(kind: int) -> tg.MLCOptimizer:
    descriptor = tg.MLCOptimizerDescriptor(
        learning_rate=0.02,
        regularization_type="l2" if kind % 2 else "none",
        regularization_scale=0.01,
    )
    return [
        lambda: tg.MLCSGDOptimizer(descriptor=descriptor),
        lambda: tg.MLCSGDOptimizer(descriptor=descriptor, momentum_scale=0.9),
        lambda: tg.MLCAdamOptimizer(descriptor=descriptor),
        lambda: tg.MLCAdamOptimizer(descriptor=descriptor, uses_amsgrad=True),
        lambda: tg.MLCRMSPropOptimizer(descriptor=descriptor, momentum_scale=0.5, is_centered=True),
    ][kind]()


class Plan:
    """What a seed stands for: a network, and what a program does with it."""

    def __init__(self, seed: int) -> None:
        draw = self.draw = np.random.default_rng(seed)
        self.seed = seed
        self.device = str(draw.choice(["cpu", "cpu", "cpu", "reference"]))
        moves = [*["none"] * 4, "folded", "transposed", "cut", "joined"]
        # What becomes of the axis of the samples before the first layer; all but "none" fix it.
        self.move = str(draw.choice(moves))
        self.images = bool(draw.integers(2)) and self.move == "none"
        self.precision = "mixed_float16" if draw.integers(8) == 0 else "float32"
        self.optimizer = int(draw.integers(5))
        self.micro = int(draw.choice([1, 1, 2, 3]))
        self.shape = [ROWS, C, 3, 3] if self.images else [ROWS, C]  # of the result
        given = {"folded": [ROWS // 2, 2 * C], "transposed": [C, ROWS], "cut": [2 * ROWS, C]}
        self.input = given.get(self.move, self.shape)
        kinds = ["weights", "again", "norm", "frozen norm", "dropout", "activation", "offset"]
        self.layers = [str(draw.choice(kinds)) for _ in range(draw.integers(2, 6))]
        self.layers = ["weights", *self.layers, "weights"]
        self.dropout_seeds = [int(n) for n in draw.integers(0, 3, len(self.layers))]
        self.actions = [self.action(k) for k in range(draw.integers(5, 12))]

    def action(self, k: int) -> Action:
        names = ["run"] * 5 + ["phases"] * 3 + ["fit", "flip", "inference", "evaluate"]
        name = str(self.draw.choice([*names, "output", "back", "state"]))
        rows = int(self.draw.integers(2, ROWS + 1))
        if self.move != "none":
            rows = ROWS
        if name in ("fit", "evaluate") and not self.has_samples:
            name = "run"
        if name == "fit":
            # One of fewer is refused.
            return name, (rows, max(self.micro, int(self.draw.integers(1, 4))))
        if name == "flip":
            return name, int(self.draw.integers(2 * len(self.layers)))
        return name, int(self.draw.integers(k + 1)) if name == "back" else rows

    @property
    def has_samples(self) -> bool:
        """Whether axis 0 counts them in what goes in and in what comes out."""
        return self.move in ("none", "joined")

    def arrays(self, index: int, rows: int) -> dict[str, np.ndarray]:
        draw = np.random.default_rng([self.seed, index])
        shapes = [self.input, self.shape]
        if self.has_samples:
            shapes = [[rows, *shape[1:]] for shape in shapes]
        return {
            name: draw.normal(size=shape).astype(np.float32)
            for name, shape in zip("xy", shapes, strict=True)
        }

    def batch(self, rows: int) -> dict[str, int]:
        """For the calls: none is asked for where there is no common extent."""
        return {"batch_size": rows} if self.has_samples else {}


@dataclass
class Memory:
    """What a program knows beside its graph: it survives the process."""

    flips: list[int] = field(default_factory=list)
    outputs: int = 0
    snapshots: list[dict[str, np.ndarray]] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)


class Run:
    """The plan's network under a seed of its own, and the plan's actions."""

    def __init__(
        self, plan: Plan, memory: Memory, start: int = 0, limit: int | None = None
    ) -> None:
        self.plan, self.memory = plan, memory
        tg.MLCPlatform.set_rng_seed_to(1 + start)
        for _ in range(start):
            tg.MLCDropoutLayer(rate=0.5, seed=1)  # numbers of layers and tensors differ
        numbers = np.random.default_rng(start)
        self.x, self.y = tg.MLCTensor(shape=plan.input), tg.MLCTensor(shape=plan.shape)
        self.graph = tg.MLCGraph()
        self.parameters: list[tg.MLCTensorParameter] = []
        self.offsets: list[tg.MLCTensorParameter] = []
        self.results: list[tg.MLCTensor] = []
        self.weighted: Any = None
        result = self.moved()
        for kind, seed in zip(plan.layers, plan.dropout_seeds, strict=True):
            result = self.add(kind, seed, result, numbers)
            self.results.append(result)
        self.training = tg.MLCTrainingGraph(
            graph_objects=[self.graph],
            loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
            optimizer=optimizer(plan.optimizer),
        )
        self.training.add_inputs({"x": self.x}, loss_labels={"y": self.y})
        self.training.set_training_tensor_parameters(self.offsets)
        self.training.micro_batches = plan.micro
        self.limit = limit
        self.wrote = False
        for index in memory.flips:
            self.flip(index)
        for index in range(memory.outputs):
            self.declare(index)

    def moved(self) -> tg.MLCTensor:
        if self.plan.move == "folded":
            return self.graph.reshape(self.plan.shape, source=self.x)
        if self.plan.move == "transposed":
            return self.graph.transpose([1, 0], source=self.x)
        if self.plan.move == "none":
            return self.x
        first, second = self.graph.split(self.x, split_count=2, dimension=0)
        if self.plan.move == "joined":
            return self.graph.concatenate([second, first], dimension=0)
        add = tg.MLCArithmeticLayer(operation="add")
        return self.graph.node(add, sources=[first, second])

    def add(self, kind: str, seed: int, source: Any, numbers: Any) -> tg.MLCTensor:
        def drawn(*shape: int) -> tg.MLCTensor:
            return tg.MLCTensor(
                data=numbers.normal(size=shape).astype(np.float32)
                * (0.15 if self.plan.images else 0.4)
            )

        if kind == "weights":
            size = 3 if self.plan.images else 1
            make = tg.MLCConvolutionLayer if self.plan.images else tg.MLCFullyConnectedLayer
            self.weighted = make(
                weights=drawn(1, C * C, size, size),
                biases=drawn(1, C, 1, 1),
                descriptor=tg.MLCConvolutionDescriptor(
                    kernel_sizes=(size, size),
                    input_feature_channel_count=C,
                    output_feature_channel_count=C,
                ),
            )
            self.parameters += [self.weighted.weights_parameter, self.weighted.biases_parameter]
            return self.graph.node(self.weighted, source=source)
        if kind == "again":
            return self.graph.node(self.weighted, source=source)
        if kind.endswith("norm"):
            layer = tg.MLCBatchNormalizationLayer(feature_channel_count=C, momentum=0.7)
            self.parameters += [layer.beta_parameter, layer.gamma_parameter]
            return self.graph.node(layer, sources=[source], disable_update=kind != "norm")
        if kind == "dropout":
            return self.graph.node(tg.MLCDropoutLayer(rate=0.3, seed=seed), source=source)
        if kind == "activation":
            return self.graph.node(tg.MLCActivationLayer.tanh(), source=source)
        offset = drawn(*(1, C, 1, 1)[: len(self.plan.shape)])
        self.offsets.append(tg.MLCTensorParameter(tensor=offset))
        return self.graph.node(tg.MLCArithmeticLayer(operation="add"), sources=[source, offset])

    def compile(self) -> "Run":
        options = {"device": self.plan.device, "precision": self.plan.precision}
        self.training.compile(memory_limit=self.limit, **options)
        return self

    # --- actions ---------------------------------------------------------------------------------

    def flip(self, index: int) -> None:
        parameter = self.parameters[index % len(self.parameters)]
        parameter.is_updatable = not parameter.is_updatable

    def declare(self, index: int) -> None:
        self.training.add_outputs({f"output {index}": self.results[index % len(self.results)]})

    def execute(self, arrays: dict[str, np.ndarray], rows: int) -> float:
        done = self.training.execute(
            inputs_data={"x": arrays["x"]},
            loss_labels_data={"y": arrays["y"]},
            **self.plan.batch(rows),
            options=SYNCHRONOUS,
        )
        return float(done.result)

    def phases(self, arrays: dict[str, np.ndarray], rows: int) -> float:
        """The same in three calls; between micro-batches the third is refused."""
        call = {**self.plan.batch(rows), "options": SYNCHRONOUS}
        self.training.bind_and_write_data(
            arrays, for_inputs={"x": self.x, "y": self.y}, **self.plan.batch(rows)
        )
        self.wrote = True
        loss = float(self.training.execute_forward(**call).result)
        self.training.execute_gradient(**call)
        try:
            self.training.execute_optimizer_update(options=SYNCHRONOUS)
        except ValueError as error:
            if "micro-batches before it but got" not in str(error):
                raise
        return loss

    def fit(self, arrays: dict[str, np.ndarray], rows: int) -> float:
        try:
            (epoch,) = self.training.fit(
                {"x": arrays["x"]}, labels={"y": arrays["y"]}, batch_size=rows, shuffle=False
            )
        except tg.InvalidArgument as error:
            if "all of them are frozen" not in str(error):
                raise
            return self.fit_by_hand(arrays, rows)
        return epoch.loss

    def fit_by_hand(self, arrays: dict[str, np.ndarray], rows: int) -> float:
        total = 0.0
        for k in range(0, len(arrays["x"]), rows):
            part = {name: a[k : k + rows] for name, a in arrays.items()}
            total += rows * self.execute(part, rows)
        return total / len(arrays["x"])

    def inference(self, arrays: dict[str, np.ndarray]) -> bytes:
        graph = tg.MLCInferenceGraph(graph_objects=[self.graph])
        graph.add_inputs({"x": self.x})
        graph.compile(device=self.plan.device)
        call = {**self.plan.batch(len(arrays["x"])), "options": SYNCHRONOUS}
        done = graph.execute(inputs_data={"x": arrays["x"]}, **call)
        return np.asarray(done.result).tobytes()

    def back(self, index: int) -> None:
        """To what was kept earlier; a graph that trains what was frozen then refuses it."""
        snapshots = self.memory.snapshots
        try:
            self.training.load_state(snapshots[index % len(snapshots)])
        except ValueError as error:
            if "[load] expected the tensors of this graph" not in str(error):
                raise

    def act(self, number: int, how: str) -> None:
        """`how`: as drawn; "other", by other calls; "quiet", without what changes nothing."""
        name, value = self.plan.actions[number]
        if name in ("run", "phases"):
            other = {"run": "phases", "phases": "run"}[name]
            call = other if how == "other" else name
            arrays = self.plan.arrays(number, value)
            self.memory.results.append(
                (self.execute if call == "run" else self.phases)(arrays, value)
            )
        elif name == "fit":
            rows, count = value
            arrays = self.plan.arrays(number, rows * count)
            call_all = self.fit_by_hand if how == "other" else self.fit
            self.memory.results.append(call_all(arrays, rows))
        elif name == "flip":
            self.flip(value)
            self.memory.flips.append(value)
        elif name == "output":
            self.declare(self.memory.outputs)
            self.memory.outputs += 1
        elif name == "back":
            self.memory.snapshots.append(self.training.state())
            self.back(value)
        elif how == "quiet":
            return
        elif name == "state":
            self.training.state()
        else:
            self.watch(name, self.plan.arrays(number, value))
        return

    def watch(self, name: str, arrays: dict[str, np.ndarray]) -> None:
        if name == "inference":
            self.inference(arrays)
            if self.plan.move == "none":
                self.training.predict(arrays["x"])
        else:
            self.training.evaluate({"x": arrays["x"]}, labels={"y": arrays["y"]})

    def acts(self, first: int, last: int, how: str = "as drawn") -> "Run":
        for number in range(first, last):
            self.act(number, how)
            # Copies that bind_and_write_data makes come on top.
            if self.limit is not None and not self.wrote:
                assert self.training.memory_plan().total_bytes <= self.limit
        return self

    def outcome(self) -> dict[str, Any]:
        """Every result and all that was trained, to the bit."""
        state = {name: array.tobytes() for name, array in self.training.state().items()}
        x = self.plan.arrays(-1 + 1000, ROWS)
        return {
            **state,
            "losses": list(map(repr, self.memory.results)),
            "inference": self.inference(x),
        }


def resumed(path: Path, file: Path, draw: Any) -> Run:
    """A network of other numbers that takes the file and goes on with the program's memory."""
    plan, memory = pickle.loads(path.read_bytes())
    run = Run(plan, memory, start=int(draw.integers(1, 4)))
    if draw.integers(2):
        run.compile().training.load(file)
        return run
    run.training.load(file)
    return run.compile()


def main(path: str, file: str, cut: int, seed: int) -> None:
    run = resumed(Path(path), Path(file), np.random.default_rng(seed))
    run.acts(cut, len(run.plan.actions))
    sys.stdout.buffer.write(pickle.dumps(run.outcome()))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
