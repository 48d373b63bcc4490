"""The workloads in onnxruntime-training: a compiled training graph and a compiled optimizer.

Its optimizers are AdamW, here without decay, and SGD without momentum: a step by SGD does less work
than elsewhere, and its losses differ from the second one on.
"""

import importlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from . import workloads as w
from .runner import OTHER_STEP

onnx: Any = importlib.import_module("onnx")
runtime: Any = importlib.import_module("onnxruntime")
api: Any = importlib.import_module("onnxruntime.training.api")
artifacts: Any = importlib.import_module("onnxruntime.training.artifacts")
blocks: Any = importlib.import_module("onnxruntime.training.onnxblock.optim")


class Network:
    """The table as an ONNX graph."""

    def __init__(self, workload: w.Workload) -> None:
        self.starts = w.parameters(workload)
        self.shape = workload.source  # of sequences, as they are now
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.trained: list[str] = []
        end = self.run(workload.layers, "x")
        self.add("Identity", end, to="result")

    def add(self, op: str, *inputs: str, to: str = "", **attributes: Any) -> str:
        result = to or f"value{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(op, list(inputs), [result], **attributes))
        return result

    def keep(self, values: w.Array) -> str:
        name = f"parameter{len(self.constants)}"
        self.constants.append(onnx.numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def parameter(self, turned: Callable[[w.Array], w.Array] = np.asarray) -> str:
        self.trained.append(self.keep(turned(next(self.starts))))
        return self.trained[-1]

    def constant(self, values: Any) -> str:
        return self.add("Constant", value=onnx.numpy_helper.from_array(np.asarray(values)))

    def run(self, layers: tuple[w.Layer, ...], x: str) -> str:
        for layer in layers:
            x = self.one(layer, x)
        return x

    def one(self, layer: w.Layer, x: str) -> str:
        match layer:
            case w.Dense() if len(self.shape) == 3:
                return self.dense(x)
            case w.Dense():
                return self.add("Gemm", x, self.parameter(), self.parameter(), transB=1)
            case w.Convolution(_, _, kernel, stride):
                sizes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2}
                return self.add("Conv", x, self.parameter(), pads=[kernel // 2] * 4, **sizes)
            case w.BatchNorm(channels):
                scale = [self.parameter(), self.parameter()]
                running = [self.keep(np.zeros(channels, "f")), self.keep(np.ones(channels, "f"))]
                result = self.add("BatchNormalization", x, *scale, *running, training_mode=1)
                self.nodes[-1].output.extend(f"{result}_{name}" for name in ("mean", "variance"))
                return result
            case w.Relu():
                return self.add("Relu", x)
            case w.MaxPool(size, stride, padding):
                sizes = {"kernel_shape": [size] * 2, "strides": [stride or size] * 2}
                return self.add("MaxPool", x, pads=[padding] * 4, **sizes)
            case w.GlobalAverage():
                return self.add("Flatten", self.add("GlobalAveragePool", x))
            case w.Flatten():
                return self.add("Flatten", x)
            case w.Residual(body, shortcut, linear):
                joined = self.add("Add", self.run(body, x), self.run(shortcut, x))
                return joined if linear else self.add("Relu", joined)
            case w.LayerNorm():
                result = self.add("LayerNormalization", x, self.parameter(), self.parameter())
                self.nodes[-1].output.extend(f"{result}_{name}" for name in ("mean", "scale"))
                return result
            case w.Gelu():
                return self.add("FastGelu", x, domain="com.microsoft")
            case w.TokenMean():
                self.shape = (self.shape[0], self.shape[2])
                return self.add("ReduceMean", x, axes=[1], keepdims=0)
            case w.Attention(width, heads):
                return self.attention(x, width, heads)
            case w.Lstm(_, hidden, layers):
                x = self.add("Transpose", x, perm=[1, 0, 2])
                for k in range(layers):
                    x = self.lstm(x, hidden, last=k == layers - 1)
                self.shape = (self.shape[0], hidden)
                return x

    def dense(self, x: str) -> str:
        """Of a sequence."""
        product = self.add("MatMul", x, self.parameter(np.transpose))
        return self.add("Add", product, self.parameter())

    def attention(self, x: str, width: int, heads: int) -> str:
        parts = [f"{x}_{name}" for name in ("query", "key", "value")]
        self.add("Split", self.dense(x), to=parts[0], axis=2)
        self.nodes[-1].output.extend(parts[1:])
        split = self.constant([*self.shape[:2], heads, width // heads])
        orders = [0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]
        query, key, value = (
            self.add("Transpose", self.add("Reshape", part, split), perm=order)
            for part, order in zip(parts, orders, strict=True)
        )
        scale = self.constant(np.float32((width // heads) ** -0.5))
        weights = self.add("Softmax", self.add("Mul", self.add("MatMul", query, key), scale))
        found = self.add("Transpose", self.add("MatMul", weights, value), perm=[0, 2, 1, 3])
        return self.dense(self.add("Reshape", found, self.constant(list(self.shape))))

    def lstm(self, x: str, hidden: int, last: bool) -> str:
        """One layer of (T, N, features), with the gates in ONNX's order."""

        def turned(p: w.Array) -> w.Array:
            i, f, g, o = np.split(p, 4)
            return np.concatenate([i, o, f, g])[None]

        weights = [self.parameter(turned) for _ in range(2)]
        zeros = self.constant(np.zeros((1, 4 * hidden), "f"))
        biases = self.add("Concat", self.parameter(turned), zeros, axis=1)
        # The gradient needs what LSTM may leave out: first states, and all results.
        states = [self.constant(np.zeros((1, self.shape[0], hidden), "f")) for _ in range(2)]
        sources = x, *weights, biases, "", *states
        every = self.add("LSTMTraining", *sources, hidden_size=hidden, domain="com.microsoft")
        results = ("last", "cell", "cells", "gates")
        self.nodes[-1].output.extend([f"{every}_{name}" for name in results])
        axis = self.constant([0 if last else 1])
        return self.add("Squeeze", f"{every}_last" if last else every, axis)


def _model(network: Network, workload: w.Workload) -> Any:
    float_type = onnx.TensorProto.FLOAT
    result = [workload.source[0], workload.classes or 1]
    graph = onnx.helper.make_graph(
        network.nodes,
        workload.name,
        [onnx.helper.make_tensor_value_info("x", float_type, workload.source)],
        [onnx.helper.make_tensor_value_info("result", float_type, result)],
        network.constants,
    )
    versions = {"": 17 if len(workload.source) == 3 else 15, "com.microsoft": 1}
    sets = [onnx.helper.make_opsetid(*version) for version in versions.items()]
    model = onnx.helper.make_model(graph, opset_imports=sets)
    model.ir_version = 8
    return model


class Session:
    def __init__(self, workload: w.Workload, threads: int, variant: str) -> None:
        runtime.set_default_logger_severity(3)  # or it tells of each of its passes
        self.version: str = runtime.__version__
        adam = workload.optimizer.name == "adam"
        self.variant = variant or ("" if adam else OTHER_STEP)
        self.phases: dict[str, Callable[[], Any]] = {}
        network = Network(workload)
        kinds = artifacts.LossType
        folder = self.folder = tempfile.TemporaryDirectory()
        artifacts.generate_artifacts(
            _model(network, workload),
            requires_grad=network.trained,
            frozen_params=[c.name for c in network.constants if c.name not in network.trained],
            loss=kinds.CrossEntropyLoss if workload.classes else kinds.MSELoss,
            optimizer=blocks.AdamW(eps=1e-8) if adam else blocks.SGD(),
            artifact_directory=folder.name,
        )
        at = Path(folder.name)
        options = runtime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        state = api.CheckpointState.load_checkpoint(str(at / "checkpoint"))
        model = api.Module(str(at / "training_model.onnx"), state, None, "cpu", options)
        optimizer = api.Optimizer(str(at / "optimizer_model.onnx"), model)
        optimizer.set_learning_rate(workload.optimizer.rate)
        model.train()
        x, y = w.data(workload)
        label = y.astype(np.int64) if workload.classes else y
        feed = [runtime.OrtValue.ortvalue_from_numpy(array) for array in (x, label)]

        def step() -> Any:
            loss = model(*feed)
            optimizer.step()
            model.lazy_reset_grad()
            return loss

        self.step = step

    def loss(self) -> float:
        loss = self.step()
        return float(loss.numpy() if hasattr(loss, "numpy") else loss)
