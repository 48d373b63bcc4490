"""Arrays in a GPU's memory, in and out by DLPack: what is copied, in which order, what is refused.

Runs with --device only, beside PyTorch and CuPy where they see the GPU.
"""

from typing import Any

import numpy as np
import pytest

import traingraph as tg

pytest.importorskip("traingraph._testing", reason="built with TRAINGRAPH_TESTING")
from test_cuda import DATA, INPUTS, ROWS, SKIP, Classifier, Counted, uniform


def on_gpu(torch: Any, which: int, index: int = 0) -> dict[str, Any]:
    x, labels = DATA[which % len(DATA)]
    device = f"cuda:{index}"
    return {
        "inputs_data": {"x": torch.from_numpy(x.copy()).to(device)},
        "loss_labels_data": {"labels": torch.from_numpy(labels.copy()).to(device)},
    }


def step(network: Classifier, arguments: dict[str, Any]) -> Any:
    return network.training.execute(**arguments, options="synchronous").result


def numbers_sent(k: int) -> int:
    """The learning rate goes to the device in the first step."""
    return 1 if k == 0 else 0


class Relu:
    """An inference whose result is an output."""

    def __init__(self, device: str, shape: list[int]) -> None:
        self.x = tg.MLCTensor(shape=shape)
        graph = tg.MLCGraph()
        self.y = graph.node(tg.MLCActivationLayer.relu(), source=self.x)
        self.inference = tg.MLCInferenceGraph(graph_objects=[graph])
        self.inference.add_inputs({"x": self.x})
        self.inference.add_outputs({"y": self.y})
        self.inference.compile(device=device)

    def __call__(self, x: Any, **given: Any) -> Any:
        return self.inference.execute(inputs_data={"x": x}, options="synchronous", **given)


# --- in ------------------------------------------------------------------------------------------


def test_bound_arrays_are_used_in_place(gpu: str, torch: Any) -> None:
    network, other = Classifier(gpu), Classifier(gpu)
    arguments = on_gpu(torch, 1)
    arrays = arguments["inputs_data"] | arguments["loss_labels_data"]
    tensors = {"x": network.x, "labels": network.labels}
    with Counted(gpu) as device:
        network.training.bind_and_write_data(arrays, for_inputs=tensors)
    assert device.counts["copies_in"] == device.counts["copies_within"] == 0
    for k in range(5):
        with Counted(gpu) as device:
            loss = network.training.execute(inputs_data={}, options=SKIP).result
        assert loss == other.step(1)
        assert device.counts["copies_in"] == numbers_sent(k)
        assert device.counts["copies_within"] == 0
        assert k < 2 or device.counts["launches"] == 1
    # Another value at the same address: bound again, it is seen, and nothing is copied.
    arrays["x"].copy_(torch.from_numpy(DATA[2][0]))
    arrays["labels"].copy_(torch.from_numpy(DATA[2][1]))
    network.training.bind_and_write_data(arrays, for_inputs=tensors)
    with Counted(gpu) as device:
        loss = network.training.execute(inputs_data={}, options=SKIP).result
    assert loss == other.step(2)
    assert device.counts["copies_in"] == device.counts["copies_within"] == 0
    assert device.counts["launches"] == 1


def test_the_array_of_each_call_is_used_in_place(gpu: str, torch: Any) -> None:
    network, other = Classifier(gpu), Classifier(gpu)
    arguments = on_gpu(torch, 0)
    for k in range(6):
        arguments["inputs_data"]["x"].copy_(torch.from_numpy(DATA[k % 4][0]))
        arguments["loss_labels_data"]["labels"].copy_(torch.from_numpy(DATA[k % 4][1]))
        with Counted(gpu) as device:
            loss = step(network, arguments)
        assert loss == other.step(k)
        assert device.counts["copies_in"] == numbers_sent(k)
        assert device.counts["copies_within"] == 0
        assert k < 2 or device.counts["launches"] == 1


def test_other_arrays_are_copied_once_on_the_device(gpu: str, torch: Any) -> None:
    network, other = Classifier(gpu), Classifier(gpu)
    batches = [on_gpu(torch, k) for k in range(4)]
    for k in range(8):
        with Counted(gpu) as device:
            loss = step(network, batches[k % 4])
        assert loss == other.step(k)
        assert device.counts["copies_in"] == numbers_sent(k)
        assert device.counts["copies_within"] == (2 if k > 0 else 0)
        assert k < 3 or device.counts["launches"] == 1
    # From the host again: a copy to the device each, the same recorded run.
    with Counted(gpu) as device:
        loss = network.step(0)
    assert loss == other.step(0)
    assert (device.counts["copies_in"], device.counts["launches"]) == (2, 1)


def test_a_tensors_own_data_on_the_device(gpu: str, torch: Any) -> None:
    values = uniform(3, 4)
    array = torch.from_numpy(values).cuda()
    x = tg.MLCTensor(data=array)
    assert x.data is None
    assert x.descriptor.shape == [3, 4]
    graph = tg.MLCGraph()
    graph.node(tg.MLCActivationLayer.relu(), source=x)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    inference.compile(device=gpu)
    with Counted(gpu) as device:
        result = inference.execute(inputs_data={}, options=SKIP).result
    np.testing.assert_array_equal(result, np.maximum(values, 0))
    assert device.counts["copies_in"] == device.counts["copies_within"] == 0
    x.synchronize_data()
    np.testing.assert_array_equal(x.data, values)


def test_parameters_come_from_the_device(gpu: str, torch: Any) -> None:
    network, other = Classifier(gpu), Classifier(gpu)
    with Counted(gpu) as device:
        for layer in network.layers:
            for tensor in (layer.weights, layer.biases):
                tensor.bind_and_write_data(torch.from_numpy(np.array(tensor.data)).cuda())
        losses = [step(network, on_gpu(torch, k)) for k in range(3)]
    assert device.counts["copies_in"] <= 3  # the numbers of a step
    assert losses == [other.step(k) for k in range(3)]
    for a, b in zip(network.parameters(), other.parameters(), strict=True):
        np.testing.assert_array_equal(a, b)
    weights = network.layers[0].weights
    view = torch.from_dlpack(weights.device_data())
    assert view.is_cuda
    np.testing.assert_array_equal(view.cpu().numpy().reshape(weights.data.shape), weights.data)


def test_misaligned_arrays_are_copied(gpu: str, torch: Any) -> None:
    relu = Relu(gpu, [2, 3])
    whole = torch.arange(-4, 8, device="cuda", dtype=torch.float32)
    for first in (1, 0, 3):
        part = whole[first : first + 6].reshape(2, 3)
        result = relu(part).result
        np.testing.assert_array_equal(result, part.clamp(min=0).cpu().numpy())


def test_the_owner_is_kept_while_the_device_reads(gpu: str, torch: Any) -> None:
    network, other = Classifier(gpu), Classifier(gpu)
    handles, expected = [], []
    for k in range(40):
        arguments = on_gpu(torch, k)
        handles.append(network.training.execute(**arguments))
        del arguments  # PyTorch hands the memory out again as soon as it is free
        torch.full((ROWS, INPUTS), np.nan, device="cuda")
        expected.append(other.step(k))
    assert [handle.result for handle in handles] == expected


def test_a_result_is_fed_back(gpu: str, torch: Any) -> None:
    """A view of the graph's own memory is copied before the run writes there."""
    x = tg.MLCTensor(shape=[4, 4])
    graph = tg.MLCGraph()
    h = graph.node(tg.MLCActivationLayer.tanh(), source=x)
    y = graph.node(tg.MLCActivationLayer.linear(scale=2, bias=1), source=h)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    inference.compile(device=gpu)
    values = uniform(4, 4)
    result = inference.execute(inputs_data={"x": values}, options="synchronous").result
    for _ in range(4):
        expected = 2 * np.tanh(result) + 1
        view = y.device_data()
        result = inference.execute(inputs_data={"x": view}, options="synchronous").result
        np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_cupy(gpu: str) -> None:
    cupy = pytest.importorskip("cupy")
    relu = Relu(gpu, [2, 3])
    values = uniform(2, 3)
    np.testing.assert_array_equal(relu(cupy.asarray(values)).result, np.maximum(values, 0))
    out = cupy.zeros((2, 3), np.float32)
    relu(cupy.asarray(values), outputs_data={"y": out})
    np.testing.assert_array_equal(cupy.asnumpy(out), np.maximum(values, 0))
    managed = cupy.ndarray((2, 3), np.float32, memptr=cupy.cuda.malloc_managed(24))
    managed[...] = cupy.asarray(values)
    np.testing.assert_array_equal(relu(managed).result, np.maximum(values, 0))
    view = cupy.from_dlpack(relu.y.device_data())
    np.testing.assert_array_equal(cupy.asnumpy(view), np.maximum(values, 0))


# --- out -----------------------------------------------------------------------------------------


def test_outputs_are_written_on_the_device(gpu: str, torch: Any) -> None:
    relu = Relu(gpu, [2, 3])
    values = uniform(2, 3)
    x, out = torch.from_numpy(values).cuda(), torch.zeros(2, 3, device="cuda")
    for _ in range(3):
        out.zero_()
        with Counted(gpu) as device:
            handle = relu(x, outputs_data={"y": out})
        np.testing.assert_array_equal(out.cpu().numpy(), np.maximum(values, 0))
        assert device.counts["copies_in"] == device.counts["copies_out"] == 0
        assert device.counts["copies_within"] == 1
    np.testing.assert_array_equal(handle.result, np.maximum(values, 0))


def test_gradients_are_written_on_the_device(gpu: str, torch: Any) -> None:
    grads = []
    for where in ("host", "gpu"):
        network = Classifier(gpu)
        weights = network.layers[1].weights
        network.training.add_outputs({"dw": network.training.gradient_tensor(for_input=weights)})
        network.training.compile(device=gpu)
        shape = tuple(weights.descriptor.shape)
        out = np.zeros(shape, np.float32) if where == "host" else torch.zeros(shape, device="cuda")
        network.training.execute(
            **network.arguments(0), outputs_data={"dw": out}, options="synchronous"
        )
        grads.append(out if where == "host" else out.cpu().numpy())
    np.testing.assert_array_equal(*grads)
    assert np.abs(grads[0]).max() > 0


def test_a_result_is_a_view_until_the_next_step(gpu: str, torch: Any) -> None:
    relu = Relu(gpu, [2, 3])
    values = uniform(2, 3)
    relu(values)
    with Counted(gpu) as device:
        view = torch.from_dlpack(relu.y.device_data())
    assert view.is_cuda
    assert device.counts["copies_within"] == device.counts["copies_out"] == 0
    np.testing.assert_array_equal(view.cpu().numpy(), np.maximum(values, 0))
    relu(-values)
    np.testing.assert_array_equal(view.cpu().numpy(), np.maximum(-values, 0))
    del relu
    np.testing.assert_array_equal(view.cpu().numpy(), np.maximum(-values, 0))


def test_device_memory_is_described(gpu: str, torch: Any) -> None:
    relu = Relu(gpu, [2, 3])
    relu(uniform(2, 3))
    data = relu.y.device_data()
    assert data.__dlpack_device__() == (2, 0)
    assert repr(data) == "<MLCTensorData of 24 bytes on GPU 0, read-only>"
    with pytest.raises(ValueError, match="on GPU 0; read them by DLPack"):
        _ = data.bytes
    for stream in (None, -1, 1, 2, torch.cuda.Stream().cuda_stream):
        data.__dlpack__(stream=stream)
    for stream in (0, -2):
        with pytest.raises(BufferError, match=f"None, -1, 1, 2 .* but got {stream}"):
            data.__dlpack__(stream=stream)
    raw = tg.MLCTensorData(bytes_no_copy=torch.zeros(40, dtype=torch.uint8, device="cuda"))
    assert raw.length == 40
    np.testing.assert_array_equal(relu(raw).result, np.zeros((2, 3)))


# --- order ---------------------------------------------------------------------------------------


def test_the_producers_work_stands_before_ours(gpu: str, torch: Any) -> None:
    relu = Relu(gpu, [64, 64])
    side = torch.cuda.Stream()
    x = torch.zeros(64, 64, device="cuda")
    torch.cuda.synchronize()
    for k in range(1, 6):
        with torch.cuda.stream(side):
            torch.cuda._sleep(100_000_000)  # some 50 ms
            x.fill_(k)
            busy = not side.query()
            result = relu(x).result
        assert busy
        np.testing.assert_array_equal(result, np.full((64, 64), k))


def gradient_of_a_product(torch: Any, device: str, size: int, to: Any) -> None:
    """A gradient pass does not wait for the device, so the consumer's stream must."""
    x, w, label = (tg.MLCTensor(shape=[size, size]) for _ in range(3))
    graph = tg.MLCGraph()
    graph.node(tg.MLCMatMulLayer(descriptor=tg.MLCMatMulDescriptor()), sources=[x, w])
    training = tg.MLCTrainingGraph(
        graph_objects=[graph], loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="sum")
    )
    training.add_inputs({"x": x, "w": w}, loss_labels={"label": label})
    training.compile(device=device, options="compute_all_gradients")
    gradient = training.gradient_tensor(for_input=x)
    for k in (1, 2, 3, 4):
        data = {
            "x": to(torch.full((size, size), float(k))),
            "w": to(torch.ones(size, size)),
            "label": to(torch.zeros(size, size)),
        }
        training.bind_and_write_data(data, for_inputs={"x": x, "w": w, "label": label})
        training.execute_forward()
        training.execute_gradient()
        seen = torch.from_dlpack(gradient.device_data())[:: size // 8, :: size // 8].clone()
        assert seen.tolist() == [[2.0 * k * size * size] * 8] * 8


def test_our_work_stands_before_the_consumers(gpu: str, torch: Any) -> None:
    with torch.cuda.stream(torch.cuda.Stream()):
        gradient_of_a_product(torch, gpu, 4096, lambda array: array.cuda())
    gradient_of_a_product(torch, gpu, 4096, lambda array: array.cuda())


def test_the_same_on_the_cpu() -> None:
    gradient_of_a_product(pytest.importorskip("torch"), "cpu", 16, lambda array: array)


# --- refused -------------------------------------------------------------------------------------


def test_what_does_not_fit_is_refused(gpu: str, torch: Any) -> None:
    relu = Relu(gpu, [2, 3])
    good = torch.ones(2, 3, device="cuda")
    for wrong, error, message in [
        (good.double(), TypeError, "expected float32 for input 'x' but got float64 on GPU 0; conv"),
        (good.int(), TypeError, "got int32 on GPU 0"),
        (torch.ones(3, 2, device="cuda").T, ValueError, "strided array on GPU 0; make it contig"),
        (torch.ones(2, 4, device="cuda"), ValueError, r"expected shape \(2, 3\) but got \(2, 4\)"),
    ]:
        with pytest.raises(error, match=message):
            relu(wrong)
    with pytest.raises(TypeError, match="expected float32 for output 'y' but got float64 on GPU 0"):
        relu(good, outputs_data={"y": good.double()})
    with pytest.raises(ValueError, match=r"expected shape \(2, 3\)"):
        relu(good, outputs_data={"y": torch.ones(3, 3, device="cuda")})
    assert relu(good).result.sum() == 6


def test_a_graph_on_the_cpu_takes_no_memory_of_a_gpu(gpu: str, torch: Any) -> None:
    relu = Relu("cpu", [2, 3])
    good = torch.ones(2, 3, device="cuda")
    message = "memory of the host, because the graph is compiled for cpu, but got memory of GPU 0"
    with pytest.raises(ValueError, match=message):
        relu(good)
    with pytest.raises(ValueError, match=message):
        relu(good.cpu(), outputs_data={"y": good})
    with pytest.raises(ValueError, match=message):
        relu.inference.bind_and_write_data({"x": good}, for_inputs={"x": relu.x})
    assert relu(good.cpu()).result.sum() == 6


def test_indices_on_the_device_are_checked(gpu: str, torch: Any) -> None:
    x = tg.MLCTensor(shape=[4, 3])
    indices = tg.MLCTensor(shape=[4, 2], data_type="int64")
    graph = tg.MLCGraph()
    graph.gather(with_dimension=1, source=x, indices=indices)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x, "indices": indices})
    inference.compile(device=gpu)
    values = torch.arange(12, device="cuda", dtype=torch.float32).reshape(4, 3)
    picked = torch.tensor([[0, 2]] * 4, device="cuda")
    data = {"x": values, "indices": picked}
    result = inference.execute(inputs_data=data, options="synchronous").result
    np.testing.assert_array_equal(result, values.cpu().numpy()[:, [0, 2]])
    picked[2, 1] = 3
    with pytest.raises(ValueError, match=r"an index from 0 to 2 but got 3 at \(2, 1\)"):
        inference.execute(inputs_data=data, options="synchronous")


def test_lengths_on_the_device_show_in_the_results(gpu: str, torch: Any) -> None:
    """Nobody waits to look at them: wrong ones give NaN, and so a loss that is none."""
    x, lengths = tg.MLCTensor(shape=[3, 4, 2]), tg.MLCTensor(shape=[3], data_type="int32")
    weights = [tg.MLCTensor(data=np.full((2, 2), 0.5, np.float32)) for _ in range(8)]
    layer = tg.MLCLSTMLayer(
        descriptor=tg.MLCLSTMDescriptor(input_size=2, hidden_size=2, layer_count=1),
        input_weights=weights[:4],
        hidden_weights=weights[4:],
    )
    graph = tg.MLCGraph()
    graph.node(layer, sources=[x, lengths])
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x, "lengths": lengths})
    inference.compile(device=gpu)
    given = torch.tensor([4, 2, 0], device="cuda", dtype=torch.int32)
    data = {"x": torch.ones(3, 4, 2, device="cuda"), "lengths": given}
    result = inference.execute(inputs_data=data, options="synchronous").result
    assert np.isfinite(result).all()
    assert (result != 0).any(axis=2).sum(axis=1).tolist() == [4, 2, 0]
    for wrong in ([5, 1, 1], [2, 3, 1], [1, 0, -1]):
        given.copy_(torch.tensor(wrong, dtype=torch.int32))
        result = inference.execute(inputs_data=data, options="synchronous").result
        assert np.isnan(result).all()


# --- fit -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [3 * ROWS, 3 * ROWS + 5])
def test_fit_gathers_rows_where_they_lie(gpu: str, torch: Any, rows: int) -> None:
    """Shuffled rows of arrays on the GPU are gathered by it, to the same bits."""
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, (rows, INPUTS)).astype(np.float32)
    labels = rng.integers(0, 5, rows)
    resident, sent = Classifier(gpu), Classifier(gpu)
    arrays = [torch.from_numpy(array).to("cuda") for array in (x, labels)]
    resident.training.fit(*arrays, epochs=1, shuffle_seed=4)
    with Counted(gpu) as device:
        epochs = resident.training.fit(*arrays, epochs=2, shuffle_seed=5)
    sent.training.fit(x, labels, epochs=1, shuffle_seed=4)
    expected = sent.training.fit(x, labels, epochs=2, shuffle_seed=5)
    assert [epoch.loss for epoch in epochs] == [epoch.loss for epoch in expected]
    for mine, theirs in zip(resident.parameters(), sent.parameters(), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    # The order of each epoch, and no rows.
    assert device.counts["copies_in"] <= 2 + len(epochs)
