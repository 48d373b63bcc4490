"""Arrays of other packages by DLPack: in, out, refused. What needs a GPU is in tests/runtime."""

import ctypes
import gc
import weakref
from typing import Any

import numpy as np
import pytest

import traingraph as tg

torch = pytest.importorskip("torch")


class Offered:
    """Something that is on a device of this DLPack type, and offers nothing but that."""

    def __init__(self, kind: int, index: int = 0) -> None:
        self.kind, self.index = kind, index

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.kind, self.index

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("asked for memory that cannot be used")


class Old:
    """A producer from before DLPack 1.0."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.array.__dlpack__()


def relu(shape: list[int], dtype: str = "float32") -> tuple[tg.MLCInferenceGraph, tg.MLCTensor]:
    x = tg.MLCTensor(shape=shape, data_type=dtype)
    graph = tg.MLCGraph()
    y = graph.node(tg.MLCActivationLayer.relu(), source=x)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    inference.add_outputs({"y": y})
    inference.compile(device="reference" if dtype == "float64" else "cpu")
    return inference, y


def run(inference: tg.MLCInferenceGraph, x: Any, **given: Any) -> Any:
    return inference.execute(inputs_data={"x": x}, options="synchronous", **given).result


VALUES = np.linspace(-3, 3, 6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    "make",
    [
        torch.from_numpy,
        lambda a: torch.from_numpy(np.asfortranarray(a)),
        lambda a: torch.from_numpy(np.repeat(a, 2, axis=1))[:, ::2],
        lambda a: torch.from_numpy(a).double(),
        lambda a: torch.from_numpy(np.concatenate([a[:1], a]))[1:],
        Old,
    ],
    ids=["dense", "fortran", "strided", "float64", "offset", "old"],
)
def test_arrays_are_taken(make: Any) -> None:
    inference, _ = relu([2, 3])
    np.testing.assert_array_equal(run(inference, make(VALUES.copy())), np.maximum(VALUES, 0))


def test_the_owner_is_kept_as_long_as_needed() -> None:
    inference, _ = relu([2, 3])
    array = torch.from_numpy(VALUES.copy())
    run(inference, array)
    alive = weakref.ref(array.untyped_storage())
    del array
    run(inference, VALUES)
    gc.collect()
    assert alive() is None


def test_an_array_is_read_in_place() -> None:
    inference, _ = relu([2, 3])
    array = torch.zeros(2, 3)
    run(inference, array)
    array.fill_(2)
    skip = "synchronous|skip_writing_input_data_to_device"
    again = inference.execute(inputs_data={}, options=skip).result
    np.testing.assert_array_equal(again, np.full((2, 3), 2, np.float32))


def test_outputs_are_written() -> None:
    inference, _ = relu([2, 3])
    out = torch.full((2, 3), np.nan)
    run(inference, VALUES, outputs_data={"y": out})
    np.testing.assert_array_equal(out.numpy(), np.maximum(VALUES, 0))
    for wrong, message in [
        (torch.zeros(2, 3, dtype=torch.float64), "expected float32 memory"),
        (torch.zeros(3, 2).T, "contiguous"),
    ]:
        with pytest.raises(ValueError, match=message):
            run(inference, VALUES, outputs_data={"y": wrong})


def test_a_read_only_array_is_not_written() -> None:
    class ReadOnly(Old):
        def __dlpack__(self, stream: Any = None, max_version: Any = None) -> Any:
            return self.array.__dlpack__(max_version=max_version)

    array = VALUES.copy()
    array.flags.writeable = False
    inference, _ = relu([2, 3])
    with pytest.raises(ValueError, match="writable"):
        run(inference, VALUES, outputs_data={"y": ReadOnly(array)})
    np.testing.assert_array_equal(run(inference, ReadOnly(array)), np.maximum(array, 0))


def test_a_parameter_is_written_through() -> None:
    array = torch.from_numpy(VALUES.copy())
    tensor = tg.MLCTensor(data=array)
    assert tensor.data.ctypes.data == array.data_ptr()
    assert tensor.descriptor.shape == [2, 3]


def test_bfloat16_needs_no_other_package() -> None:
    array = torch.tensor([1.5, -2], dtype=torch.bfloat16)
    tensor = tg.MLCTensor(data=array)
    assert tensor.descriptor.data_type is tg.MLCDataType.BFLOAT16
    assert torch.equal(torch.from_dlpack(tensor.device_data()), array)


def test_other_devices_are_refused() -> None:
    inference, _ = relu([2, 3])
    with pytest.raises(ValueError, match=r"of the host or of an NVIDIA GPU but .* DLPack type 10"):
        run(inference, Offered(10))
    try:
        tg._core.gpus()
    except tg.DeviceError:
        for give in (
            lambda a: run(inference, a),
            lambda a: run(inference, VALUES, outputs_data={"y": a}),
            lambda a: tg.MLCTensor(data=a),
            lambda a: tg.MLCTensorData(bytes_no_copy=a),
        ):
            for kind in (2, 13):
                with pytest.raises(ValueError, match=r"memory of GPU 3; .* no GPU can be used"):
                    give(Offered(kind, 3))
    np.testing.assert_array_equal(run(inference, VALUES), np.maximum(VALUES, 0))


# --- out -----------------------------------------------------------------------------------------


def test_a_result_is_handed_out_where_it_lies() -> None:
    inference, y = relu([2, 3])
    with pytest.raises(ValueError, match="no forward pass has computed it"):
        y.device_data()
    run(inference, VALUES)
    view = torch.from_dlpack(y.device_data())
    assert view.shape == (2, 3)
    np.testing.assert_array_equal(view.numpy(), np.maximum(VALUES, 0))
    run(inference, -VALUES)
    # The memory is the graph's: it shows the next result.
    np.testing.assert_array_equal(view.numpy(), np.maximum(-VALUES, 0))
    del inference, y
    gc.collect()
    np.testing.assert_array_equal(view.numpy(), np.maximum(-VALUES, 0))


def test_smaller_batches_show_their_rows() -> None:
    inference, y = relu([2, 3])
    inference.execute(inputs_data={"x": VALUES[:1]}, batch_size=1, options="synchronous")
    assert torch.from_dlpack(y.device_data()).shape == (1, 3)


def test_parameters_and_plain_tensors() -> None:
    weights = tg.MLCTensor(data=np.ones((1, 3), np.float32))
    layer = tg.MLCFullyConnectedLayer(
        weights=weights,
        biases=None,
        descriptor=tg.MLCConvolutionDescriptor(
            kernel_sizes=(1, 1), input_feature_channel_count=3, output_feature_channel_count=1
        ),
    )
    assert np.from_dlpack(weights.device_data()).tolist() == [[1, 1, 1]]
    x, label = tg.MLCTensor(shape=[2, 3]), tg.MLCTensor(shape=[2, 1])
    graph = tg.MLCGraph()
    graph.node(layer, source=x)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph],
        loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean"),
        optimizer=tg.MLCSGDOptimizer(learning_rate=0.1),
    )
    training.add_inputs({"x": x}, loss_labels={"label": label})
    training.compile(device="reference")
    for _ in range(3):
        training.execute(
            inputs_data={"x": VALUES},
            loss_labels_data={"label": VALUES[:, :1]},
            options="synchronous",
        )
    seen = np.from_dlpack(weights.device_data()).copy()
    training.synchronize_updates()
    np.testing.assert_array_equal(seen.reshape(1, 3), weights.data)
    assert not np.array_equal(seen, np.ones((1, 3)))
    with pytest.raises(ValueError, match="has no data and no graph has computed it"):
        tg.MLCTensor(shape=[2]).device_data()


def test_the_protocol() -> None:
    data = tg.MLCTensor(data=VALUES.copy()).device_data()
    assert data.__dlpack_device__() == (1, 0)
    assert "read-only" in repr(data)
    assert data.length == VALUES.nbytes
    assert not np.from_dlpack(data).flags.writeable
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    assert name(data.__dlpack__()) == b"dltensor"
    assert name(data.__dlpack__(max_version=(0, 8))) == b"dltensor"
    assert name(data.__dlpack__(max_version=(1, 2))) == b"dltensor_versioned"
    assert name(data.__dlpack__(dl_device=(1, 0), copy=False)) == b"dltensor"
    for wrong in ({"dl_device": (2, 0)}, {"copy": True}):
        with pytest.raises(BufferError):
            data.__dlpack__(**wrong)


def test_raw_bytes_go_round() -> None:
    raw = tg.MLCTensorData(bytes_no_copy=bytearray(b"abcd"))
    view = np.from_dlpack(raw)
    assert (view.dtype, bytes(view)) == (np.uint8, b"abcd")
    view[0] = ord("z")
    assert bytes(raw.bytes) == b"zbcd"


def test_views_keep_what_they_show() -> None:
    array = VALUES.copy()
    alive = weakref.ref(array)
    view = torch.from_dlpack(tg.MLCTensor(data=array).device_data())
    del array
    gc.collect()
    assert alive() is not None
    np.testing.assert_array_equal(view.numpy(), VALUES)
    del view
    gc.collect()
    assert alive() is None


def test_fit_takes_them() -> None:
    x, label = tg.MLCTensor(shape=[2, 3]), tg.MLCTensor(shape=[2, 3])
    graph = tg.MLCGraph()
    graph.node(tg.MLCActivationLayer.relu(), source=x)
    training = tg.MLCTrainingGraph(
        graph_objects=[graph], loss_layer=tg.MLCLossLayer.mean_squared_error(reduction_type="mean")
    )
    training.add_inputs({"x": x}, loss_labels={"label": label})
    training.compile(device="cpu")
    samples = torch.from_numpy(np.tile(VALUES, (3, 1)))
    epochs = training.fit(inputs=samples, labels=samples, batch_size=2, epochs=1, shuffle_seed=3)
    assert epochs[0].loss > 0


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
def test_more_bytes_than_64_bits_count(dtype: str) -> None:
    """A view of one number, whose bits wrap round to none."""
    view = torch.zeros(1, dtype=getattr(torch, dtype)).expand(2**31, 2**30)
    with pytest.raises(tg.ShapeError, match=rf"at most {2**48} bytes but got \(2147"):
        tg.MLCTensor(data=view)


@pytest.mark.parametrize("stream", [2**63, "1", 1.5])
def test_a_stream_is_a_number(stream: object) -> None:
    data = tg.MLCTensorData(bytes_no_copy=np.zeros(4, np.float32))
    with pytest.raises((tg.InvalidArgument, TypeError), match=r"^\[MLCTensorData\] .* stream"):
        data.__dlpack__(stream=stream)
