"""What a GPU's memory holds, how a GPU is chosen, and several graphs, threads and GPUs at once.

Runs with --device only.
"""

import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import traingraph as tg

pytest.importorskip("traingraph._testing", reason="built with TRAINGRAPH_TESTING")
from test_cuda import Classifier, Counted, uniform
from test_cuda_arrays import Relu, on_gpu, step

# --- memory --------------------------------------------------------------------------------------


def test_a_checked_run_reads_no_values_back(gpu: str) -> None:
    network = Classifier(gpu)
    options = tg.MLCExecutionOptions.SYNCHRONOUS | tg.MLCExecutionOptions.CHECK_NUMERICS
    with Counted(gpu) as device:
        network.training.execute(**network.arguments(0), options=options)
    assert device.counts["copies_out"] == 1  # the loss
    big = Relu(gpu, [1000, 1001])
    values = uniform(1000, 1001)
    values[997, 3] = np.inf
    with pytest.raises(
        FloatingPointError, match=r"has infinity at element 998000 of \(1000, 1001\)"
    ):
        big.inference.execute(inputs_data={"x": values}, options=options)


def test_what_the_context_holds_is_told_apart(gpu: str) -> None:
    network = Classifier(gpu)
    plan = network.training.memory_plan()
    assert plan.context_bytes > 0
    assert plan.total_bytes == (
        plan.arena_bytes + plan.persistent_bytes + plan.staging_bytes + plan.exchange_bytes
    )
    assert "device's context" in str(plan)


def test_out_of_memory_lists_what_is_large(gpu: str) -> None:
    relu = Relu(gpu, [4, 1 << 20])
    values = uniform(4, 1 << 20)
    expected = np.maximum(values, 0)
    np.testing.assert_array_equal(relu(values).result, expected)
    for _ in range(2):
        with pytest.raises(MemoryError) as caught:
            relu.inference.execute(inputs_data={"x": values}, batch_size=1 << 19)
        assert "bytes on GPU 0 but" in str(caught.value)
        assert f"{4 << 39} bytes" in str(caught.value)
        assert "largest entries of this graph's memory plan" in str(caught.value)
        np.testing.assert_array_equal(relu(values).result, expected)


# --- devices -------------------------------------------------------------------------------------


def test_a_gpu_by_its_uuid(gpu: str) -> None:
    device = tg.MLCDevice.gpu(0)
    uuid = device.uuid
    assert len(uuid) == 40
    assert uuid.startswith("GPU-")
    assert tg.MLCDevice.gpu(uuid) == device
    assert tg.MLCDevice(gpu_devices=[tg.MLCDevice.gpu(uuid)]).actual_device_type.name == "GPU"
    relu = Relu(f"gpu:{uuid}", [2, 3])
    assert relu.inference.device == device
    assert Relu(f"gpu:{uuid[:20]}", [2, 3]).inference.device == device
    with pytest.raises(
        tg.DeviceError, match=f"(?s)UUID of one of\n  0: {uuid} .*but got 'GPU-0bad"
    ):
        tg.MLCDevice.gpu("GPU-0bad0000")
    with pytest.raises(ValueError, match="a UUID 'GPU-…' but got 'first'"):
        tg.MLCDevice.gpu("first")
    assert tg.MLCDevice.cpu().uuid == ""


def test_several_graphs_and_threads_on_one_gpu(gpu: str, torch: Any) -> None:
    reference = Classifier(gpu)
    expected = [reference.step(k) for k in range(30)]
    losses: dict[int, list[Any]] = {}

    def train(number: int) -> None:
        network = Classifier(gpu)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            losses[number] = [step(network, on_gpu(torch, k)) for k in range(30)]

    threads = [threading.Thread(target=train, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(losses[number] == expected for number in range(3))


def test_several_gpus_in_one_process(gpu: str, second_gpu: str, torch: Any) -> None:
    networks = [Classifier(gpu), Classifier(second_gpu)]
    for k in range(5):
        losses = []
        for index, network in enumerate(networks):
            with torch.cuda.device(index):  # older ones hand out arrays of the current device only
                losses.append(step(network, on_gpu(torch, k, index)))
        assert losses[0] == losses[1]
    with pytest.raises(ValueError, match=r"host or of GPU 1, .* but got memory of GPU 0; copy it"):
        step(networks[1], on_gpu(torch, 0, 0))
    assert tg.MLCDevice.gpu(0) != tg.MLCDevice.gpu(1)
    assert tg.MLCDevice.gpu(0).uuid != tg.MLCDevice.gpu(1).uuid
    relu = Relu(second_gpu, [2, 3])
    relu(uniform(2, 3))
    with torch.cuda.device(1):
        assert torch.from_dlpack(relu.y.device_data()).device.index == 1


def test_without_pytorch_nothing_else_changes(gpu: str) -> None:
    """The context is ours alone in a process of its own, so what it holds is measured."""
    program = """
import numpy as np, traingraph as tg
x = tg.MLCTensor(shape=[2]); graph = tg.MLCGraph()
graph.node(tg.MLCActivationLayer.relu(), source=x)
inference = tg.MLCInferenceGraph(graph_objects=[graph]); inference.add_inputs({"x": x})
inference.compile(device="gpu")
print(inference.memory_plan().context_bytes)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    print("context bytes:", done.stdout.strip())
    assert int(done.stdout) > 1 << 20
