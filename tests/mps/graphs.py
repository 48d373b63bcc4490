"""Short forms for tests of graphs of nodes: named arrays in, arrays out."""

from typing import Any

import numpy as np
from kernels import STEP, array, batch, commands, run

from differences import Slopes
from traingraph import mps


def source(name: str) -> Any:
    return mps.MPSNNImageNode(handle=name)


def graph_of(on: Any, *results: Any, dtype: str = "float64") -> Any:
    graph = mps.MPSNNGraph(
        device=on, result_images=list(results), results_are_needed=[True] * len(results)
    )
    graph.format, graph.makes_temporary_images = dtype, False
    return graph


def encode(graph: Any, given: dict[str, np.ndarray]) -> tuple[list[np.ndarray], list[Any]]:
    """All results and exported images, and the exported states."""
    on = graph.device
    buffer, images, states = commands(on), [], []
    first = graph.encode_batch(
        buffer, source_images=[batch(on, given[name]) for name in graph.source_image_handles],
        intermediate_images=images, destination_states=states,
    )  # fmt: skip
    run(buffer)
    return [array(one) for one in [first, *images]], states


def evaluate(on: Any, given: dict[str, np.ndarray], *results: Any) -> list[np.ndarray]:
    """Results in the type of what is given."""
    dtype = next(iter(given.values())).dtype.name
    return encode(graph_of(on, *results, dtype=dtype), given)[0]


def differences(on: Any, result: Any, given: dict[str, np.ndarray], name: str,
                dy: np.ndarray) -> Slopes:  # fmt: skip
    """The derivative of sum(dy * result) by one of the given arrays, by central differences."""
    graph = graph_of(on, result)
    return Slopes(lambda _: encode(graph, given)[0][0], given[name], dy, STEP)


def assert_same(got: np.ndarray, want: np.ndarray, device: str) -> None:
    """Bit for bit; a GPU may join operations of a graph that it runs one by one otherwise."""
    if device in ("cpu", "reference"):
        np.testing.assert_array_equal(got, want)
    else:
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
