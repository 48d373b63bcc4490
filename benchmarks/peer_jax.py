"""The workloads in JAX: one jitted step, channels last, buffers donated."""

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from . import workloads as w

jax: Any = importlib.import_module("jax")
jnp: Any = importlib.import_module("jax.numpy")
lax: Any = importlib.import_module("jax.lax")

AXES = ("NHWC", "HWIO", "NHWC")
# Steps of a recurrent layer in one turn of its loop. On a CPU eight take 1.8 times as long as one.
UNROLLED = 8 if jax.default_backend() == "gpu" else 1


class Forward:
    """Applies the table to an array, taking parameters and leaving batch statistics in order.

    Products take and give numbers of `kind`; statistics, sums and softmax are in float32.
    """

    def __init__(self, parameters: list[Any], kind: Any = np.float32) -> None:
        self.parameters = iter(parameters)
        self.kind = kind
        self.statistics: list[Any] = []

    def next(self) -> Any:
        return next(self.parameters).astype(self.kind)

    def dense(self, x: Any) -> Any:
        weights = self.next()
        return x.astype(self.kind) @ weights + self.next()

    def run(self, layers: tuple[w.Layer, ...], x: Any) -> Any:
        for layer in layers:
            x = self.one(layer, x)
        return x

    def one(self, layer: w.Layer, x: Any) -> Any:
        match layer:
            case w.Dense():
                return self.dense(x)
            case w.Convolution(_, _, kernel, stride):
                edge = [(kernel // 2, kernel // 2)] * 2
                return lax.conv_general_dilated(
                    x.astype(self.kind), self.next(), (stride, stride), edge, dimension_numbers=AXES
                )
            case w.BatchNorm():
                result, statistics = self.normalized(x, (0, 1, 2))
                self.statistics.append(statistics)
                return result
            case w.LayerNorm():
                return self.normalized(x, -1)[0]
            case w.Relu():
                return jax.nn.relu(x)
            case w.Gelu():
                return jax.nn.gelu(x, approximate=True)
            case w.MaxPool(size, stride, padding):
                shape, step = (1, size, size, 1), (1, stride or size, stride or size, 1)
                edge = [(0, 0), (padding, padding), (padding, padding), (0, 0)]
                return lax.reduce_window(x, -jnp.inf, lax.max, shape, step, edge)
            case w.GlobalAverage():
                return x.mean((1, 2))
            case w.Flatten():
                # In the order of (C, H, W), as everywhere else.
                return x.transpose(0, 3, 1, 2).reshape(len(x), -1)
            case w.Residual(body, shortcut, linear):
                joined = self.run(body, x) + self.run(shortcut, x)
                return joined if linear else jax.nn.relu(joined)
            case w.Lstm():
                for _ in layer.sources():
                    x = self.lstm(x)
                return x[:, -1]
            case w.Attention(_, heads):
                query, key, value = jnp.split(self.dense(x), 3, axis=-1)
                split = (*x.shape[:2], heads, -1)
                parts = [part.reshape(split) for part in (query, key, value)]
                attended = jax.nn.dot_product_attention(*parts, implementation=self.attention)
                return self.dense(attended.reshape(x.shape))
            case w.TokenMean():
                return x.mean(1)

    @property
    def attention(self) -> str:
        """cuDNN's kernels take 16 bits alone."""
        small = jnp.dtype(self.kind).itemsize == 2
        return "cudnn" if small and jax.default_backend() == "gpu" else "xla"

    def normalized(self, x: Any, axes: Any) -> tuple[Any, tuple[Any, Any]]:
        gamma, beta = next(self.parameters), next(self.parameters)
        wide = x.astype(np.float32)
        mean = wide.mean(axes, keepdims=True)
        variance = jnp.square(wide - mean).mean(axes, keepdims=True)
        result = (wide - mean) * (lax.rsqrt(variance + 1e-5) * gamma) + beta
        return result.astype(self.kind), (mean.squeeze(), variance.squeeze())

    def lstm(self, x: Any) -> Any:
        """One layer: all products with x first, then step by step."""
        from_source, from_state, biases = self.next(), self.next(), self.next()
        gates = (x.astype(self.kind) @ from_source + biases).swapaxes(0, 1)

        def step(state: Any, gates: Any) -> Any:
            hidden, cell = state
            i, f, g, o = jnp.split(gates + hidden @ from_state, 4, axis=-1)
            kept = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
            cell = kept.astype(np.float32)
            hidden = (jax.nn.sigmoid(o) * jnp.tanh(cell)).astype(self.kind)
            return (hidden, cell), hidden

        zeros = jnp.zeros((len(x), from_state.shape[0]), self.kind)
        start = zeros, zeros.astype(np.float32)
        return lax.scan(step, start, gates, unroll=UNROLLED)[1].swapaxes(0, 1)


def _update(o: w.Optimizer, t: Any, p: Any, g: Any, slots: Any) -> tuple[Any, Any]:
    if o.name == "adam":
        m = 0.9 * slots[0] + 0.1 * g
        v = 0.999 * slots[1] + 0.001 * g * g
        rate = o.rate * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        return p - rate * m / (jnp.sqrt(v) + 1e-8), (m, v)
    v = o.momentum * slots[0] + g + o.decay * p
    return p - o.rate * v, (v,)


def turned(p: w.Array) -> w.Array:
    """From (outputs, inputs, …) to the order that products and convolutions take here."""
    return np.ascontiguousarray(p.transpose((2, 3, 1, 0)) if p.ndim == 4 else p.T)


def placed(workload: w.Workload) -> list[Any]:
    """A source and its labels or its result's gradient."""
    return [
        jnp.asarray(np.ascontiguousarray(np.moveaxis(z, 1, -1)) if z.ndim == 4 else z)
        for z in w.data(workload)
    ]


def cross_entropy(result: Any, y: Any) -> Any:
    return -jnp.take_along_axis(jax.nn.log_softmax(result), y[:, None], 1).mean()


class Session:
    def __init__(
        self, workload: w.Workload, threads: int, variant: str, kind: Any = np.float32
    ) -> None:
        del threads  # set by the process's affinity and flags
        self.version: str = jax.__version__
        self.variant = variant or "jit"
        self.phases: dict[str, Callable[[], Any]] = {}
        o = workload.optimizer
        source, label = placed(workload)

        def loss(parameters: list[Any], x: Any, y: Any) -> tuple[Any, list[Any]]:
            forward = Forward(parameters, kind)
            result = forward.run(workload.layers, x).astype(np.float32)
            if not workload.classes:
                return jnp.square(result - y).mean(), []
            return cross_entropy(result, y), forward.statistics

        def step(state: Any, x: Any, y: Any) -> tuple[Any, Any]:
            parameters, slots, running, t = state
            (value, batch), gradients = jax.value_and_grad(loss, has_aux=True)(parameters, x, y)
            t = t + 1
            updated = [
                _update(o, t, *each) for each in zip(parameters, gradients, slots, strict=True)
            ]
            running = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, running, batch)
            return ([p for p, _ in updated], [s for _, s in updated], running, t), value

        start = [jnp.asarray(turned(p)) for p in w.parameters(workload)]
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

    def loss(self) -> float:
        return float(self.step())


class Gradients:
    """Forward and gradient, that of the source too, as one jitted function."""

    def __init__(self, workload: w.Workload, threads: int, variant: str) -> None:
        del threads  # set by the process's affinity and flags
        self.version: str = jax.__version__
        self.variant = variant or "jit"
        self.phases: dict[str, Callable[[], Any]] = {}
        source, y = placed(workload)

        def forward(x: Any, parameters: list[Any]) -> Any:
            result = Forward(parameters).run(workload.layers, x)
            return cross_entropy(result, y) if workload.classes else result

        def gradients(x: Any, parameters: list[Any], y: Any) -> Any:
            result, back = jax.vjp(forward, x, parameters)
            return result, back(jnp.ones(()) if workload.classes else y)

        start = [jnp.asarray(turned(p)) for p in w.parameters(workload)]
        self.compiled = partial(jax.jit(gradients), source, start, y)

    def step(self) -> Any:
        return jax.block_until_ready(self.compiled())

    def gradients(self) -> list[w.Array]:
        of_source, of_parameters = self.step()[1]
        return [np.asarray(values) for values in (of_source, *of_parameters)]
