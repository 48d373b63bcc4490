"""The workloads in JAX on a GPU: one jitted step with donated buffers."""

import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # others need memory as well

from . import peer_jax
from . import workloads as w

# What products are computed in, and the type of their operands.
PRECISIONS = {
    "float32": ("float32", "float32"),
    "tf32": ("tensorfloat32", "float32"),
    "mixed_bfloat16": ("default", "bfloat16"),
}


class Session:
    """`step` runs one training step and returns at once."""

    def __init__(self, workload: w.Workload, precision: str) -> None:
        jax = peer_jax.jax
        (device, *_) = jax.devices()
        if device.platform != "gpu":
            raise ValueError(f"JAX has no GPU here but {device}")
        if precision not in PRECISIONS:
            raise ValueError(f"JAX is measured in {', '.join(PRECISIONS)}, not in {precision}")
        products, kind = PRECISIONS[precision]
        jax.config.update("jax_default_matmul_precision", products)
        session = peer_jax.Session(workload, 1, "", peer_jax.jnp.dtype(kind))
        self.losses = [session.loss() for _ in range(3)]
        self.step, self.finish = session.submit, session.finish
        for _ in range(3):
            self.step()
        self.finish()
        self.peak_bytes = session.bytes_of_a_step()
