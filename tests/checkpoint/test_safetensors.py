"""The file format: beside the package of that name, and against files that are broken."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import traingraph as tg


def small_graph(data_type: str = "float32", bias_shape: tuple = (1, 2)) -> tg.MLCInferenceGraph:
    weights = np.arange(6, dtype=data_type).reshape(2, 3)
    layer = tg.MLCFullyConnectedLayer(
        weights=tg.MLCTensor(data=weights),
        biases=tg.MLCTensor(data=np.array([7, 8], data_type).reshape(bias_shape)),
        descriptor=tg.MLCConvolutionDescriptor(
            kernel_sizes=(1, 1), input_feature_channel_count=3, output_feature_channel_count=2
        ),
    )
    layer.label = "fc"
    graph = tg.MLCGraph()
    graph.node(layer, source=tg.MLCTensor(shape=[4, 3], data_type=data_type))
    return tg.MLCInferenceGraph(graph_objects=[graph])


W = {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}
B = {"dtype": "F32", "shape": [1, 2], "data_offsets": [24, 32]}
DATA = np.arange(8, dtype="<f4").tobytes()


def file_of(header: Any, data: bytes = DATA) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def load(directory: Path, content: bytes) -> dict[str, np.ndarray]:
    graph = small_graph()
    (directory / "file").write_bytes(content)
    graph.load(directory / "file")
    return graph.state()


def good(**replaced: Any) -> dict[str, Any]:
    return {"1.fc.weights": W, "1.fc.biases": B, **replaced}


# --- the package ---------------------------------------------------------------------------------


@pytest.mark.parametrize("data_type", ["float32", "float64"])
def test_the_package_reads_what_we_write(tmp_path: Path, data_type: str) -> None:
    safetensors = pytest.importorskip("safetensors")
    numpy = pytest.importorskip("safetensors.numpy")
    graph = small_graph(data_type)
    graph.save(tmp_path / "file")
    found = numpy.load_file(tmp_path / "file")
    expected = graph.state()
    assert set(found) == set(expected) == {"1.fc.weights", "1.fc.biases"}
    for name, array in expected.items():
        assert found[name].dtype == array.dtype == data_type
        np.testing.assert_array_equal(found[name], array)
    with safetensors.safe_open(tmp_path / "file", framework="numpy") as file:
        assert file.metadata() == {"format": "traingraph", "version": tg.__version__}


def test_the_package_reads_every_kind_of_number_and_name(tmp_path: Path) -> None:
    numpy = pytest.importorskip("safetensors.numpy")
    from checkpoint_network import Network

    network = Network()
    network.convolution.label = 'a.b "c"\n\\ä\u2028\U0001f600\x7f'
    network.steps(0, 2)
    network.training.save(tmp_path / "file")
    found = numpy.load_file(tmp_path / "file")
    expected = network.training.state()
    assert set(found) == set(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, strict=True)
    assert found["state.time_step"] == 3
    other = Network(seed=50)
    other.convolution.label = network.convolution.label
    other.training.load(tmp_path / "file")
    assert other.training.state().keys() == expected.keys()


def test_we_read_what_the_package_writes(tmp_path: Path) -> None:
    numpy = pytest.importorskip("safetensors.numpy")
    arrays = {
        "1.fc.weights": np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32),
        "1.fc.biases": np.array([[1, -0.0]], np.float32),
    }
    numpy.save_file(arrays, tmp_path / "file", metadata={"format": "np", "ä": "\n"})
    graph = small_graph()
    graph.load(tmp_path / "file")
    for name, array in graph.state().items():
        assert array.tobytes() == arrays[name].tobytes()


# --- files made by hand --------------------------------------------------------------------------


def test_a_file_made_by_hand(tmp_path: Path) -> None:
    found = load(tmp_path, file_of(good()))
    assert found["1.fc.weights"].ravel().tolist() == [0, 1, 2, 3, 4, 5]
    assert found["1.fc.biases"].ravel().tolist() == [6, 7]
    # Any order, any space, escapes, an empty tensor somewhere.
    text = json.dumps(good(), indent=2).replace("fc", "\\u0066\\u0063").encode() + b" \n"
    assert load(tmp_path, file_of(text))["1.fc.biases"].ravel().tolist() == [6, 7]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "at least 8 bytes"),
        (struct.pack("<Q", 100) + b"{}", "100 bytes, which is more than the file has"),
        (struct.pack("<Q", 2**64 - 1) + b"{}", "more than the file has"),
        (struct.pack("<Q", 2**63) + b"{}", "more than the file has"),
        (file_of(b""), "expected '{' first"),
        (file_of(b" {}"), "expected '{' first"),
        (file_of(b"{"), "expected '\"'"),
        (file_of(b"{}x"), "nothing after"),
        (file_of(b"{},"), "nothing after"),
        (file_of(b'{"a":{},}'), "expected dtype, shape and data_offsets"),
        (file_of(b'{"a"}'), "expected ':'"),
        (file_of(b'{"a'), "the text has no end"),
        (file_of(b'{"a\n":1}'), "control character"),
        (file_of(b'{"\\x":1}'), "unknown escape"),
        (file_of(b'{"\\u12'), "hexadecimal"),
        (file_of(b'{"\\ud800":1}'), "half of a pair"),
        (file_of(b'{"\\udc00":1}'), "half of a pair"),
        (file_of(b'{"\xff":1}'), "not UTF-8"),
        (file_of(b'{"\xc0\x80":1}'), "not UTF-8"),
        (file_of(b'{"\xed\xa0\x80":1}'), "not UTF-8"),
        (file_of(b'{"a":{"dtype":1}}'), "expected '\"'"),
        (file_of(b'{"a":{"dtype":"F32","shape":[01],"data_offsets":[0,4]}}'), "leading zero"),
        (file_of(b'{"a":{"shape":[-1]}}'), "whole number"),
        (file_of(b'{"a":{"shape":[1.5]}}'), "expected ']'"),
        (file_of(b'{"a":{"shape":[9223372036854775808]}}'), "too large"),
        (file_of(b'{"a":{"other":1}}'), "but got 'other'"),
        (file_of(b'{"a":{"dtype":"F32","dtype":"F32"}}'), "twice"),
        (file_of(b'{"__metadata__":{"a":1}}'), "expected '\"'"),
        (file_of(b'{"__metadata__":{"a":"","a":""}}'), "twice"),
        (file_of(b'{"__metadata__":{},"__metadata__":{}}'), "twice"),
        (file_of({"a": {**W, "data_offsets": [0, 4, 8]}}), "two data_offsets"),
        (file_of({"a": W, "b": {**B, "data_offsets": [20, 28]}}), "expected 'b' from byte 24"),
        (file_of({"a": W, "b": {**B, "data_offsets": [25, 33]}}), "expected 'b' from byte 24"),
        (file_of({"a": W, "b": {**B, "data_offsets": [24, 16]}}), "expected '"),
        (file_of({"a": W}), "expected 24 bytes of data after the header but got 32"),
        (file_of(good(), DATA[:-1]), "truncated"),
        (file_of(good(), DATA + b"x"), "expected 32 bytes of data"),
        (file_of({"a": {**W, "shape": [2, 2]}, "b": B}), "expected the bytes of F32 (2, 2)"),
        (file_of({"a": {**W, "shape": [2**62, 2**62]}, "b": B}), "expected the bytes of F32"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, content: bytes, text: str) -> None:
    with pytest.raises(tg.InvalidArgument) as raised:
        load(tmp_path, content)
    assert text in str(raised.value)
    assert "is no safetensors file" in str(raised.value)


@pytest.mark.parametrize(("dtype", "count"), [("I32", 2), ("U32", 2), ("F8_E4M3", 8), ("", 2)])
def test_another_type_is_a_difference(tmp_path: Path, dtype: str, count: int) -> None:
    biases = {**B, "dtype": dtype, "shape": [1, count]}
    with pytest.raises(ValueError, match=f"'1.fc.biases': expected float32 but got {dtype}"):
        load(tmp_path, file_of(good(**{"1.fc.biases": biases})))


IGNORED = {"dtype": "F32", "shape": [2], "data_offsets": [32, 40]}


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"dtype": "F33"}, "expected a type of the format but got F33"),
        ({"dtype": ""}, "expected a type of the format but got "),
        ({"shape": [3]}, r"expected the bytes of F32 \(3,\)"),
        ({"dtype": "C64"}, r"expected the bytes of C64 \(2,\)"),
        ({"dtype": "F4", "shape": [3]}, r"expected the bytes of F4 \(3,\)"),
        ({"dtype": "F4", "shape": [2**62, 2]}, r"expected the bytes of F4"),
        ({"dtype": "F8_E8M0", "shape": [8]}, ""),
        ({"dtype": "F6_E2M3", "shape": [2**61, 0], "data_offsets": [32, 32]}, "the bytes of"),
        ({"dtype": "F6_E2M3", "shape": [4, 0], "data_offsets": [32, 32]}, ""),
        ({"dtype": "F4", "shape": [16]}, ""),
        ({}, ""),
    ],
)
def test_what_an_inference_graph_ignores_is_checked(
    tmp_path: Path, entry: dict[str, Any], text: str
) -> None:
    entry = {**IGNORED, **entry}
    data = DATA + bytes(entry["data_offsets"][1] - entry["data_offsets"][0])
    content = file_of(good(**{"optimizer.1.fc.weights.momentum": entry}), data)
    if text:
        with pytest.raises(tg.InvalidArgument, match=text):
            load(tmp_path, content)
    else:
        assert load(tmp_path, content)["1.fc.biases"].ravel().tolist() == [6, 7]


# --- only what is needed is read -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "text"),
    [
        (b"\xff" * 8, "which is more than the file has"),
        (struct.pack("<Q", 2**39), "which is more than 100 MB"),
        (file_of({"1.fc.weights": {**W, "shape": [2**38], "data_offsets": [0, 2**40]}}, b""),
         r"expected shape \(2, 3\)"),
        (file_of(good(**{"optimizer.x": {**W, "shape": [2**38 - 8],
                                         "data_offsets": [32, 2**40]}}), DATA), ""),
    ],
)  # fmt: skip
def test_a_huge_file_is_read_as_far_as_it_matters(tmp_path: Path, header: bytes, text: str) -> None:
    """A terabyte that a file system need not store."""
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.write(header)
        file.truncate(len(header.removesuffix(DATA)) + 2**40)
    graph = small_graph()
    if text:
        with pytest.raises(tg.InvalidArgument, match=text):
            graph.load(path)
    else:
        graph.load(path)
        assert graph.state()["1.fc.biases"].ravel().tolist() == [6, 7]


# --- fuzzing -------------------------------------------------------------------------------------

VALID = file_of({"__metadata__": {"k": "v\\u00e4"}, **good()})
PIECES = st.sampled_from(
    [b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"\\u", b"\\ud83d", b"0", b"9" * 19, b"-",
     b"\x00", b"\xff", b"\xf0\x9f", b" ", b"__metadata__", b"F32", b"BOOL", b"[0,24]", b"[24,32]"]
)  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """The valid file with bytes changed, removed, repeated or put in."""
    content = bytearray(VALID)
    for _ in range(draw(st.integers(1, 4))):
        # The header is where most goes wrong; the length before it is kept in half of the cases.
        at = draw(st.integers(0, len(content)))
        end = min(len(content), at + draw(st.integers(0, 12)))
        kind = draw(st.integers(0, 4))
        if kind == 0:
            content[at:end] = draw(st.binary(max_size=8))
        elif kind == 1:
            content[at:at] = draw(PIECES)
        elif kind == 2:
            del content[at:end]
        elif kind == 3:
            content[at:at] = content[at:end]
        else:
            content[0:8] = struct.pack("<Q", draw(st.integers(0, 2**64 - 1) | st.integers(0, 300)))
    if draw(st.booleans()) and len(content) >= 8 + len(DATA):
        content[0:8] = struct.pack("<Q", len(content) - 8 - len(DATA))
    return bytes(content)


@given(mutated())
@settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_broken_file_is_refused_or_read_as_the_package_reads_it(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "mutated"
    path.write_bytes(content)
    graph = small_graph()
    before = {name: array.tobytes() for name, array in graph.state().items()}
    refused = ""
    try:
        graph.load(path)
    except tg.InvalidArgument as error:
        refused = str(error)
    if refused:
        assert "mutated'" in refused
        after = {name: array.tobytes() for name, array in graph.state().items()}
        assert after == before
        return
    after = graph.state()
    assert all(np.asarray(array).tobytes() in content for array in after.values())
    try:
        from safetensors.numpy import load as load_bytes
    except ImportError:
        return
    theirs = load_bytes(content)
    assert set(theirs) == set(after)
    for name, array in after.items():
        assert theirs[name].tobytes() == array.tobytes()
