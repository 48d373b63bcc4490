"""Arrays of other packages by DLPack: in, out, refused. What needs a GPU is in tests/runtime."""

import ctypes
import gc
import itertools
import weakref
from typing import Any

import numpy as np
import pytest

import traingraph as tg


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


class Offered:
    """Something that is on a device of this DLPack type, and offers nothing but that."""

    def __init__(self, kind: int, index: int = 0) -> None:
        self.kind, self.index = kind, index

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.kind, self.index

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("asked for memory that cannot be used")


class New:
    """A producer of NumPy's memory."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.array.__dlpack__(**keywords)


class Old(New):
    """One from before DLPack 1.0."""

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
        lambda a: a,
        np.asfortranarray,
        lambda a: np.repeat(a, 2, axis=1)[:, ::2],
        lambda a: a.astype(np.float64),
        lambda a: np.concatenate([a[:1], a])[1:],
    ],
    ids=["dense", "fortran", "strided", "float64", "offset"],
)
@pytest.mark.parametrize("offer", ["torch", "old", "new"])
def test_arrays_are_taken(make: Any, offer: str) -> None:
    inference, _ = relu([2, 3])
    array = offered(make(VALUES.copy()), offer)
    np.testing.assert_array_equal(run(inference, array), np.maximum(VALUES, 0))


def offered(array: np.ndarray, by: str) -> Any:
    """An array that another library offers, with the same strides but for those below 0."""
    if by == "torch":
        return pytest.importorskip("torch").from_numpy(array)
    return {"old": Old, "new": New}[by](array)


PARTS = (slice(None), slice(1, None, 2))


@pytest.mark.parametrize("offer", ["torch", "old", "new"])
@pytest.mark.parametrize("parts", itertools.product(PARTS, PARTS, PARTS), ids=str)
def test_each_axis_may_have_strides(parts: tuple[slice, ...], offer: str) -> None:
    """In: read by the strides, never as dense. Out: refused, as memory that is written."""
    whole = np.arange(-60, 60, dtype=np.float32).reshape(6, 5, 4)
    for array in (whole[parts], whole.T[parts].transpose(1, 0, 2)):
        inference, _ = relu(list(array.shape))
        np.testing.assert_array_equal(
            run(inference, offered(array, offer)), np.maximum(array, 0))  # fmt: skip
        tensor = offered(array, offer)
        if array.flags.c_contiguous:
            np.testing.assert_array_equal(tg.MLCTensor(data=tensor).data, array)
            continue
        with pytest.raises(ValueError, match="contiguous"):
            tg.MLCTensor(data=tensor)
        with pytest.raises(ValueError, match="contiguous"):
            run(inference, array, outputs_data={"y": tensor})


def test_strides_below_zero() -> None:
    whole = np.arange(-12, 12, dtype=np.float32).reshape(4, 3, 2)
    inference, _ = relu([4, 3, 2])
    for signs in itertools.product((1, -1), repeat=3):
        array = whole[tuple(slice(None, None, sign) for sign in signs)]
        np.testing.assert_array_equal(run(inference, New(array)), np.maximum(array, 0))


def test_the_owner_is_kept_as_long_as_needed(torch: Any) -> None:
    inference, _ = relu([2, 3])
    array = torch.from_numpy(VALUES.copy())
    run(inference, array)
    alive = weakref.ref(array.untyped_storage())
    del array
    run(inference, VALUES)
    gc.collect()
    assert alive() is None


def test_an_array_is_read_in_place(torch: Any) -> None:
    inference, _ = relu([2, 3])
    array = torch.zeros(2, 3)
    run(inference, array)
    array.fill_(2)
    skip = "synchronous|skip_writing_input_data_to_device"
    again = inference.execute(inputs_data={}, options=skip).result
    np.testing.assert_array_equal(again, np.full((2, 3), 2, np.float32))


def test_outputs_are_written(torch: Any) -> None:
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
    array = VALUES.copy()
    array.flags.writeable = False
    inference, _ = relu([2, 3])
    with pytest.raises(ValueError, match="writable"):
        run(inference, VALUES, outputs_data={"y": New(array)})
    np.testing.assert_array_equal(run(inference, New(array)), np.maximum(array, 0))


def test_a_parameter_is_written_through(torch: Any) -> None:
    array = torch.from_numpy(VALUES.copy())
    tensor = tg.MLCTensor(data=array)
    assert tensor.data.ctypes.data == array.data_ptr()
    assert tensor.descriptor.shape == [2, 3]


def test_bfloat16_needs_no_other_package(torch: Any) -> None:
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
    view = np.from_dlpack(y.device_data())
    assert view.shape == (2, 3)
    np.testing.assert_array_equal(view, np.maximum(VALUES, 0))
    run(inference, -VALUES)
    # The memory is the graph's: it shows the next result.
    np.testing.assert_array_equal(view, np.maximum(-VALUES, 0))
    del inference, y
    gc.collect()
    # It would be used again for these.
    others = [relu([2, 3])[0] for _ in range(4)]
    assert all(run(other, np.full((2, 3), 9)).max() == 9 for other in others)
    np.testing.assert_array_equal(view, np.maximum(-VALUES, 0))


def test_a_read_only_result_stays_read_only() -> None:
    inference, y = relu([2, 3])
    run(inference, VALUES)
    for data in (y.device_data(), tg.MLCTensor(data=VALUES).device_data()):
        assert not np.from_dlpack(data).flags.writeable
        assert data.bytes.readonly
    frozen = tg.MLCTensorData(immutable_bytes_no_copy=bytes(8))
    assert not np.from_dlpack(frozen).flags.writeable
    assert np.from_dlpack(tg.MLCTensorData(bytes_no_copy=bytearray(8))).flags.writeable
    read_only = VALUES.copy()
    read_only.flags.writeable = False
    tensor = tg.MLCTensor(data=read_only)
    assert not np.asarray(tensor).flags.writeable
    assert np.from_dlpack(tensor, copy=True).flags.writeable


def test_smaller_batches_show_their_rows() -> None:
    inference, y = relu([2, 3])
    inference.execute(inputs_data={"x": VALUES[:1]}, batch_size=1, options="synchronous")
    assert np.from_dlpack(y.device_data()).shape == (1, 3)


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


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"copy": "x"}, r"copy: bool \| None but got 'str'"),
        ({"max_version": ("a", 1)}, r"max_version\[0\]: int but got 'str'"),
        ({"max_version": 1}, "max_version: .* but got 'int'"),
        ({"max_version": (1,)}, "max_version: .* but got 'tuple'"),
        ({"dl_device": "cpu"}, "dl_device: .* but got 'str'"),
        ({"dl_device": np.ones(2)}, r"dl_device\[0\]: int but got 'numpy.float64'"),
        ({"stream": "1"}, "stream: int but got 'str'"),
    ],
)
def test_wrong_arguments_of_the_protocol(wrong: dict[str, object], text: str) -> None:
    tensor = tg.MLCTensor(data=VALUES.copy())
    for data in (tensor, tensor.device_data()):
        with pytest.raises(TypeError, match=rf"^\[{type(data).__name__}\] expected {text}"):
            data.__dlpack__(**wrong)


def test_raw_bytes_go_round() -> None:
    raw = tg.MLCTensorData(bytes_no_copy=bytearray(b"abcd"))
    view = np.from_dlpack(raw)
    assert (view.dtype, bytes(view)) == (np.uint8, b"abcd")
    view[0] = ord("z")
    assert bytes(raw.bytes) == b"zbcd"


@pytest.mark.parametrize("by", ["numpy", "torch"])
def test_views_keep_what_they_show(by: str) -> None:
    array = VALUES.copy()
    alive = weakref.ref(array)
    library = np if by == "numpy" else pytest.importorskip("torch")
    view = library.from_dlpack(tg.MLCTensor(data=array).device_data())
    del array
    gc.collect()
    assert alive() is not None
    np.testing.assert_array_equal(np.asarray(view), VALUES)
    del view
    gc.collect()
    assert alive() is None


def test_fit_takes_them(torch: Any) -> None:
    training = tg.nn.model([tg.nn.dense(3)], input=3, loss="mse", batch_size=2, device="cpu")
    samples = torch.from_numpy(np.tile(VALUES, (3, 1)))
    epochs = training.fit(inputs=samples, labels=samples, batch_size=2, epochs=1, shuffle_seed=3)
    assert epochs[0].loss > 0


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
def test_more_bytes_than_64_bits_count(torch: Any, dtype: str) -> None:
    """A view of one number, whose bits wrap round to none."""
    view = torch.zeros(1, dtype=getattr(torch, dtype)).expand(2**31, 2**30)
    with pytest.raises(tg.ShapeError, match=rf"at most {2**48} bytes but got \(2147"):
        tg.MLCTensor(data=view)


@pytest.mark.parametrize("stream", [2**63, "1", 1.5])
def test_a_stream_is_a_number(stream: object) -> None:
    data = tg.MLCTensorData(bytes_no_copy=np.zeros(4, np.float32))
    with pytest.raises((tg.InvalidArgument, TypeError), match=r"^\[MLCTensorData\] .* stream"):
        data.__dlpack__(stream=stream)
