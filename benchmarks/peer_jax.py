"""The workloads in JAX: one jitted step, channels last, buffers donated."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from . import workloads as w

jax: Any = importlib.import_module("jax")
jnp: Any = importlib.import_module("jax.numpy")
lax: Any = importlib.import_module("jax.lax")

AXES = ("NHWC", "HWIO", "NHWC")


class Forward:
    """Applies the table to an array, taking parameters and leaving batch statistics in order."""

    def __init__(self, parameters: list[Any]) -> None:
        self.parameters = iter(parameters)
        self.statistics: list[Any] = []

    def run(self, layers: tuple[w.Layer, ...], x: Any) -> Any:
        for layer in layers:
            x = self.one(layer, x)
        return x

    def one(self, layer: w.Layer, x: Any) -> Any:
        match layer:
            case w.Dense():
                weights = next(self.parameters)
                return x @ weights + next(self.parameters)
            case w.Convolution(_, _, kernel, stride):
                edge = [(kernel // 2, kernel // 2)] * 2
                weights = next(self.parameters)
                return lax.conv_general_dilated(
                    x, weights, (stride, stride), edge, dimension_numbers=AXES
                )
            case w.BatchNorm():
                gamma, beta = next(self.parameters), next(self.parameters)
                mean = x.mean((0, 1, 2))
                variance = jnp.square(x - mean).mean((0, 1, 2))
                self.statistics.append((mean, variance))
                return (x - mean) * (lax.rsqrt(variance + 1e-5) * gamma) + beta
            case w.Relu():
                return jax.nn.relu(x)
            case w.MaxPool(size, stride, padding):
                shape, step = (1, size, size, 1), (1, stride or size, stride or size, 1)
                edge = [(0, 0), (padding, padding), (padding, padding), (0, 0)]
                return lax.reduce_window(x, -jnp.inf, lax.max, shape, step, edge)
            case w.GlobalAverage():
                return x.mean((1, 2))
            case w.Flatten():
                # In the order of (C, H, W), as everywhere else.
                return x.transpose(0, 3, 1, 2).reshape(len(x), -1)
            case w.Residual(body, shortcut):
                return jax.nn.relu(self.run(body, x) + self.run(shortcut, x))


def _update(o: w.Optimizer, t: Any, p: Any, g: Any, slots: Any) -> tuple[Any, Any]:
    if o.name == "adam":
        m = 0.9 * slots[0] + 0.1 * g
        v = 0.999 * slots[1] + 0.001 * g * g
        rate = o.rate * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        return p - rate * m / (jnp.sqrt(v) + 1e-8), (m, v)
    v = o.momentum * slots[0] + g + o.decay * p
    return p - o.rate * v, (v,)


class Session:
    def __init__(self, workload: w.Workload, threads: int, variant: str) -> None:
        del threads  # set by the process's affinity and flags
        self.version: str = jax.__version__
        self.variant = variant or "jit"
        self.phases: dict[str, Callable[[], Any]] = {}
        o = workload.optimizer
        x, y = w.data(workload)
        x = np.ascontiguousarray(np.moveaxis(x, 1, -1)) if workload.images else x
        source, label = jnp.asarray(x), jnp.asarray(y)

        def loss(parameters: list[Any], x: Any, y: Any) -> tuple[Any, list[Any]]:
            forward = Forward(parameters)
            result = forward.run(workload.layers, x)
            if not workload.classes:
                return jnp.square(result - y).mean(), []
            chosen = jnp.take_along_axis(jax.nn.log_softmax(result), y[:, None], 1)
            return -chosen.mean(), forward.statistics

        def step(state: Any, x: Any, y: Any) -> tuple[Any, Any]:
            parameters, slots, running, t = state
            (value, batch), gradients = jax.value_and_grad(loss, has_aux=True)(parameters, x, y)
            t = t + 1
            updated = [
                _update(o, t, *each) for each in zip(parameters, gradients, slots, strict=True)
            ]
            running = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, running, batch)
            return ([p for p, _ in updated], [s for _, s in updated], running, t), value

        start = [jnp.asarray(self.turned(p)) for p in w.parameters(workload)]
        count = 2 if o.name == "adam" else 1
        slots = [tuple(jnp.zeros_like(p) for _ in range(count)) for p in start]
        channels = [b.channels for b in w.walk(workload.layers) if isinstance(b, w.BatchNorm)]
        running = [(jnp.zeros(c), jnp.ones(c)) for c in channels]
        self.state: Any = (start, slots, running, jnp.zeros(()))
        compiled = jax.jit(step, donate_argnums=0)

        def submit() -> Any:
            self.state, value = compiled(self.state, source, label)
            return value

        def bytes_of_a_step() -> int:
            """Of its arguments, its results beside them, and what it computes between."""
            known = compiled.lower(self.state, source, label).compile().memory_analysis()
            results = known.output_size_in_bytes - known.alias_size_in_bytes
            return int(known.argument_size_in_bytes + results + known.temp_size_in_bytes)

        self.submit: Callable[[], Any] = submit
        self.bytes_of_a_step = bytes_of_a_step

    def finish(self) -> None:
        jax.block_until_ready(self.state)

    def step(self) -> Any:
        value = self.submit()
        self.finish()
        return value

    @staticmethod
    def turned(p: w.Array) -> w.Array:
        """From (outputs, inputs, …) to the order that products and convolutions take here."""
        return np.ascontiguousarray(p.transpose((2, 3, 1, 0)) if p.ndim == 4 else p.T)

    def loss(self) -> float:
        return float(self.step())
