"""Arrays that their library hands over in part, or not at all: converted, or refused with the
tensor's name and what to call."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import traingraph as tg
from traingraph import mps, nn

VALUES = np.array([[1.5, -2, 3.25], [0.1, 65280, -0.0]], np.float32)


def linear(dtype: str = "float32") -> Callable[..., Any]:
    x, graph = tg.MLCTensor(shape=[2, 3], data_type=dtype), tg.MLCGraph()
    y = graph.node(tg.MLCActivationLayer.linear(scale=1.0, bias=0.0), source=x)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    inference.add_outputs({"y": y})
    inference.compile(device="cpu")
    return lambda data, **given: (
        inference.execute(inputs_data={"x": data}, options="synchronous", **given).result
    )


def loads(data: Any) -> Any:
    layer = tg.MLCFullyConnectedLayer(
        descriptor=tg.MLCConvolutionDescriptor(
            kernel_sizes=(1, 1), input_feature_channel_count=3, output_feature_channel_count=2
        )
    )
    x, graph = tg.MLCTensor(shape=[1, 3]), tg.MLCGraph()
    layer.label = "head"
    graph.node(layer, source=x)
    inference = tg.MLCInferenceGraph(graph_objects=[graph])
    inference.add_inputs({"x": x})
    inference.compile(device="cpu")
    state = dict(inference.state())
    (name,) = (name for name, value in state.items() if value.size == 6)
    inference.load_state({**state, name: data})
    return inference.state()[name].reshape(2, 3)


def kernel(data: Any) -> Any:
    """The weights of a deprecated form of a convolution."""
    made = mps.MPSCNNConvolution(
        device=mps.create_system_default_device(),
        convolution_descriptor=mps.MPSCNNConvolutionDescriptor.cnn_convolution_descriptor(
            with_kernel_width=1,
            kernel_height=1,
            input_feature_channels=3,
            output_feature_channels=2,
        ),
        kernel_weights=data,
        bias_terms=None,
    )
    return made.data_source.weights().reshape(2, 3)


READERS = {
    "[MLCInferenceGraph.execute]": ("input 'x'", linear()),
    "[MLCInferenceGraph.load_state]": ("name", loads),
    "[MPSCNNConvolution]": ("kernel_weights", kernel),
}
reading = pytest.mark.parametrize("subject", READERS)


def bfloat16(values: np.ndarray) -> np.ndarray:
    """To the nearest one, halves to even, by PyTorch."""
    torch = pytest.importorskip("torch")
    return torch.from_numpy(values).bfloat16().float().numpy()


@reading
@pytest.mark.parametrize("form", ["dense", "strided", "transposed", "offset", "float16"])
def test_other_floats_are_converted(subject: str, form: str) -> None:
    torch = pytest.importorskip("torch")
    values = torch.from_numpy(VALUES).bfloat16()
    given = {
        "dense": values,
        "strided": values.repeat_interleave(2, 1)[:, ::2],
        "transposed": values.T.contiguous().T,
        "offset": torch.cat([values[:1, :1].flatten(), values.flatten()])[1:].reshape(2, 3),
        "float16": values.clamp(-1000, 1000).half(),
    }[form]
    result = READERS[subject][1](given)
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, given.float().numpy())


def test_numbers_of_any_kind_become_bfloat16() -> None:
    torch = pytest.importorskip("torch")
    run = linear("bfloat16")
    rng = np.random.default_rng(0)
    odd = np.array([np.nan, np.inf, -np.inf, 3.4e38, 1e-45, 1 + 2**-8], np.float32)
    for values in (odd.reshape(2, 3), rng.standard_normal((2, 3)).astype(np.float32), VALUES):
        expected = bfloat16(values)
        for given in (values, np.asfortranarray(values), torch.from_numpy(values).bfloat16()):
            np.testing.assert_array_equal(np.asarray(run(given), np.float32), expected)
    whole = np.arange(6).reshape(2, 3)
    np.testing.assert_array_equal(np.asarray(run(whole), np.float32), whole)


def test_bfloat16_is_not_written_as_another_type() -> None:
    torch = pytest.importorskip("torch")
    run, out = linear(), torch.zeros(2, 3, dtype=torch.bfloat16)
    with pytest.raises(
        tg.InvalidArgument, match=r"expected float32 memory for output 'y'.*bfloat16"
    ):
        run(VALUES, outputs_data={"y": out})
    with pytest.raises(tg.InvalidArgument, match=r"contiguous, aligned memory.*bfloat16"):
        tg.MLCTensor(data=out.T)
    assert not out.any()


def refused() -> list[Any]:
    torch = pytest.importorskip("torch")
    values = torch.from_numpy(VALUES)
    return [
        (values.to_sparse(), r"to_dense\(\)"),
        (values.to_sparse_csr(), r"to_dense\(\)"),
        (values.to("meta"), "has no memory"),
        (torch.quantize_per_tensor(values, 0.1, 0, torch.qint8), r"dequantize\(\)"),
        (torch.complex(values, values).conj(), r"resolve_conj\(\)"),
        (torch.complex(values, values).conj().imag, r"resolve_neg\(\)"),
    ]


@pytest.mark.parametrize("kind", ["uint16", "complex64", "float8_e4m3fn"])
@pytest.mark.parametrize("shape", [{}, {"shape": [2, 3]}], ids=["own shape", "shape"])
def test_memory_of_a_type_that_no_tensor_has(kind: str, shape: dict[str, list[int]]) -> None:
    torch = pytest.importorskip("torch")
    given = torch.zeros(2, 3, dtype=getattr(torch, kind))
    with pytest.raises(tg.DataTypeError, match=f"{kind}|Unsupported dtype"):
        tg.MLCTensor(data=given, **shape)


@reading
def test_what_has_a_gradient_is_read(subject: str) -> None:
    torch = pytest.importorskip("torch")
    values = torch.from_numpy(VALUES)
    for given in (torch.nn.Parameter(values.clone()), values.clone().requires_grad_() * 1):
        np.testing.assert_array_equal(READERS[subject][1](given), VALUES)


def test_a_library_that_hands_nothing_over_is_named() -> None:
    """As PyTorch was before it had a table of its functions."""

    class Old:
        requires_grad = True

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

        def __dlpack__(self, **_: Any) -> Any:
            raise BufferError("can't export\nframe #0")

    message = r"for input 'x' but 'Old' refuses: can't export; pass what its detach\(\) gives$"
    with pytest.raises(tg.DataTypeError, match=message):
        linear()(Old())


@reading
def test_what_a_library_refuses_is_named(subject: str) -> None:
    place, read = READERS[subject]
    for array, advice in refused():
        with pytest.raises(tg.DataTypeError) as error:
            read(array)
        assert subject in str(error.value)
        assert f"for {place}" in str(error.value)
        assert error.match(advice)


@reading
def test_errors_of_arrays_are_named(subject: str) -> None:
    class Broken:
        def __array__(self, *_: Any, **__: Any) -> Any:
            raise KeyError("no such column")

    class Stopped:
        def __array__(self, *_: Any, **__: Any) -> Any:
            raise KeyboardInterrupt

    place, read = READERS[subject]
    with pytest.raises(tg.DataTypeError, match=f"for {place}.*no such column"):
        read(Broken())
    with pytest.raises(KeyboardInterrupt):
        read(Stopped())


@reading
def test_masked_elements_are_refused(subject: str) -> None:
    place, read = READERS[subject]
    masked = np.ma.masked_greater(VALUES, 1e4)
    with pytest.raises(tg.InvalidArgument, match=f"for {place}.*1 of 6.*filled"):
        read(masked)
    np.testing.assert_array_equal(read(masked.filled(0)), masked.filled(0))
    np.testing.assert_array_equal(read(np.ma.array(VALUES)), VALUES)


def test_masked_memory_is_not_written() -> None:
    masked = np.ma.masked_greater(VALUES.copy(), 1e4)
    for write in (
        lambda: linear()(VALUES, outputs_data={"y": masked}),
        lambda: tg.MLCTensor(data=masked),
        lambda: tg.MLCTensorData(bytes_no_copy=masked),
        lambda: tg.MLCTensor(shape=[2, 3]).bind_and_write_data(data=masked),
    ):
        with pytest.raises(tg.InvalidArgument, match="masked"):
            write()


@pytest.mark.parametrize(
    ("data", "advice"),
    [
        (VALUES.astype(np.float64), r"astype\('float32'\)"),
        (VALUES[:, ::2], "ascontiguousarray"),
        (np.array([[1, "a"]], object), r"astype\('float32'\)"),
    ],
    ids=["float64", "strided", "objects"],
)
def test_refusals_say_what_to_call(data: Any, advice: str) -> None:
    with pytest.raises((tg.InvalidArgument, TypeError), match=advice):
        tg.MLCTensor(data=data, data_type="float32")


def test_a_source_alone_is_told_where_to_go() -> None:
    x, graph = tg.MLCTensor(shape=[2, 3]), tg.MLCGraph()
    with pytest.raises(TypeError, match=r"MLCGraph.node\(.*; write sources=\[source\]$"):
        graph.node(tg.MLCActivationLayer.relu(), source=x, disable_update=True)


class Sparse:
    """A table of SciPy, which offers nothing and makes arrays."""

    def toarray(self) -> np.ndarray:
        return VALUES


@reading
def test_a_sparse_table_makes_an_array(subject: str) -> None:
    place, read = READERS[subject]
    tables: list[Any] = [Sparse()]
    try:
        from scipy import sparse
    except ImportError:
        pass
    else:
        tables += [sparse.csr_matrix(VALUES), sparse.coo_array(VALUES)]
    for table in tables:
        with pytest.raises(tg.DataTypeError) as error:
            read(table)
        text = f"but got '{type(table).__name__}'"
        assert subject in str(error.value)
        assert place in str(error.value)
        assert text in str(error.value)
        if "MPSCNN" not in subject:
            assert str(error.value).endswith("; pass what its toarray() gives")
        np.testing.assert_array_equal(read(table.toarray()), VALUES)


class Frame:
    """A table of pandas: columns with names, of one type each."""

    def __init__(self, **columns: list[Any]) -> None:
        self.columns = list(columns)
        self.rows = list(zip(*columns.values(), strict=True))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.rows, object)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (Frame(a=[1, 2], b=[0.5, "n/a"], c=[1, 1]), "object; a 'str' in row 1 of column 'b'"),
        (Frame(a=[1, 2], b=[0.5, 3], c=[None, 1]), "object; a 'NoneType' in row 0 of column 'c'"),
        (np.array([[1, 2, 3], [4, 5, b"6"]], object), "object; a 'bytes' at (1, 2)"),
        (np.array([[1, 2, 3], [4, 5, 2**70]], object), "pass what astype('float32') gives"),
        (np.array([["1", "2", "3"]] * 2), "<U1"),
        ([[1, 2, 3], [4, "5", 6]], "in a 'list'; a 'str' at (1, 1)"),
        ([[1, 2, 3], [4, 5]], "in a 'list'"),
    ],
)
def test_the_item_that_is_no_number_is_named(given: Any, text: str) -> None:
    with pytest.raises(tg.DataTypeError) as error:
        linear()(given)
    message = str(error.value)
    assert "for input 'x' but" in message
    assert message.endswith(text) or text == "in a 'list'"


def test_so_is_that_of_a_parameter() -> None:
    text = r"but got object; a 'str' at \(1,\)$"
    with pytest.raises(tg.DataTypeError, match=text):
        tg.MLCTensor(data=np.array([1, "2"], object))
    numbers = np.array([[1, 2]], object)
    for call in (lambda: tg.MLCTensor(data=numbers), lambda: linear()(numbers)):
        with pytest.raises(tg.DataTypeError, match=r"got object; pass what astype\('float32'\)"):
            call()


def test_distributions_for_classes_say_how_they_are_given() -> None:
    x, y = np.ones((4, 2), np.float32), np.eye(4, 3, dtype=np.float32)
    model = nn.model([nn.dense(3)], input=2, batch_size=4, device="cpu")
    text = r"expected int32 for loss label 'y' but got float32; .* labels='one_hot'$"
    for call in (model.fit, model.evaluate):
        with pytest.raises(tg.DataTypeError, match=text):
            call(x, y)
    with pytest.raises(tg.DataTypeError, match=text):
        model.execute(inputs_data={"x": x}, loss_labels_data={"y": y})
    distributions = nn.model(
        [nn.dense(3)], input=2, batch_size=4, device="cpu", labels="one_hot"
    )  # fmt: skip
    assert np.isfinite(distributions.fit(x, y)[0].loss)
    # No label: nothing is said of classes.
    words = nn.model([nn.embedding(5, 2), nn.flatten(), nn.dense(3)], input=2, device="cpu")
    with pytest.raises(tg.DataTypeError, match=r"expected int32 for input 'x' but got float32$"):
        words.fit(x, np.zeros(4, np.int32))
