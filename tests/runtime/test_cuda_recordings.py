"""The first launch of a recorded run with many beginnings, while the GPU is busy and while idle.

A process of its own makes each, for a launch that hangs cannot be ended within one.

Runs with --device only.
"""

import subprocess
import sys

import pytest

# Products that wait for nothing, one per input, and their sum. They are float64, so that each is a
# launch of its own. The first run is launched one by one, the second is recorded.
SCRIPT = """
import sys
import numpy as np
import traingraph as tg

DEVICE, BUSY, ROWS, WIDE = sys.argv[1], sys.argv[2] == "busy", 4, 4096
RNG = np.random.default_rng(2)


def dense(inputs, outputs, dtype):
    weights = RNG.standard_normal((outputs, inputs)).astype(dtype)
    return tg.MLCFullyConnectedLayer(
        weights=tg.MLCTensor(data=weights / np.sqrt(inputs).astype(dtype)),
        descriptor=tg.MLCConvolutionDescriptor(
            kernel_sizes=(1, 1),
            input_feature_channel_count=inputs,
            output_feature_channel_count=outputs,
        ),
    )


def compiled(graph, inputs, result):
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs(inputs)
    inference.add_outputs({"y": result})
    inference.compile(device=DEVICE)
    return inference


def long_run():
    x, graph = tg.MLCTensor(shape=[WIDE, WIDE]), tg.MLCGraph()
    layer, y = dense(WIDE, WIDE, np.float32), x
    for _ in range(60):
        y = graph.node(layer, source=y)
    y = graph.node(dense(WIDE, 1, np.float32), source=y)
    inference, data = compiled(graph, {"x": x}, y), np.zeros((WIDE, WIDE), np.float32)
    return lambda: inference.execute(inputs_data={"x": data}, batch_size=WIDE)


def check_beginnings(count, occupy):
    graph, total, expected, data, inputs = tg.MLCGraph(), None, 0, {}, {}
    for k in range(count):
        x, layer = tg.MLCTensor(shape=[ROWS, 16], data_type="float64"), dense(16, 8, np.float64)
        data[f"x{k}"], inputs[f"x{k}"] = RNG.standard_normal((ROWS, 16)), x
        expected = expected + data[f"x{k}"] @ np.array(layer.weights.data).reshape(8, 16).T
        y = graph.node(layer, source=x)
        add = tg.MLCArithmeticLayer(operation="ADD")
        total = y if total is None else graph.node(add, sources=[total, y])
    inference, handle = compiled(graph, inputs, total), None
    for k in range(4):
        if k == 1 and occupy:
            handle = occupy()
        result = inference.execute(inputs_data=data, batch_size=ROWS, options="synchronous").result
        np.testing.assert_allclose(np.array(result), expected, rtol=1e-12, atol=1e-12)
    if handle:
        handle.wait()


occupy = long_run() if BUSY else None
if occupy:
    occupy().wait()
for round in range(3):
    for count in (4, 7, 9, 10, 11, 13, 17, 33):
        check_beginnings(count, occupy)
print("done")
"""


@pytest.mark.parametrize("state", ["busy", "idle"])
def test_the_first_launch_of_a_run_with_many_beginnings(gpu: str, state: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, gpu, state], capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "done\n", done.stderr
