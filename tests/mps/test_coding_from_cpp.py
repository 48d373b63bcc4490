"""Bytes that C++ reads and writes: every kernel class, there and back; damaged bytes."""

import json
import math
import os
import random
import shutil
import struct
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from coded import CASES, made, weights
from test_coding import archived, every_property, unarchived

from traingraph import MLCOptimizerDescriptor, _core, mps

_testing = pytest.importorskip("traingraph._testing", reason="built with TRAINGRAPH_TESTING")


# Kernels that only graphs make.
OF_GRAPHS = (
    "MPSNNConcatenation", "MPSNNReductionSpatialMean", "MPSNNReductionSpatialMeanGradient",
)  # fmt: skip


def test_every_class_is_known_to_both():
    assert set(_testing.coded_kinds()) == {*CASES, *OF_GRAPHS}


@pytest.mark.parametrize("name", OF_GRAPHS)
def test_kernels_of_graphs(name):
    kernel = getattr(_core, name)(device="cpu")
    kernel.label, kernel.makes_temporary_images = "one", False
    if hasattr(kernel, "clip_rect_source"):
        kernel.clip_rect_source = mps.MTLRegion(mps.MTLOrigin(2, 1), mps.MTLSize(3, 4, 5))
    data = archived(kernel)
    again = _testing.read_and_written(data, "cpu")
    assert json.loads(again) == json.loads(data)
    assert _testing.copied(again, "cpu", "reference") == again
    for other in (unarchived(kernel, again), kernel.copy()):
        assert every_property(other) == every_property(kernel)


@pytest.mark.parametrize("name", CASES)
def test_there_and_back(name):
    """Python's bytes are read and written by C++, read by Python, and by C++ again."""
    kernel = made(name)
    data = archived(kernel)
    again = _testing.read_and_written(data, "reference")
    assert json.loads(again) == json.loads(data)
    assert _testing.read_and_written(again, "cpu") == again
    assert _testing.copied(again, "reference", "cpu") == again
    assert every_property(unarchived(kernel, again)) == every_property(kernel)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("MPSNNOptimizer")])
def test_no_field_of_an_optimizer_is_lost(name):
    """What MPS cannot set but the core's descriptor has is in the bytes, and read from them."""
    data = json.loads(archived(made(name)))
    fields = data["values"]["optimizer_descriptor"]
    core = {key for key in dir(MLCOptimizerDescriptor) if not key.startswith("_")}
    core = {key for key in core if isinstance(getattr(MLCOptimizerDescriptor, key), property)}
    assert set(fields) == core - {"applies_gradient_clipping"} | {"apply_gradient_clipping"}
    for key, value in fields.items():
        if isinstance(value, float):
            other = json.loads(json.dumps(data))
            other["values"]["optimizer_descriptor"][key] = value + 0.5
            assert json.loads(_testing.read_and_written(json.dumps(other), "cpu")) == other, key


@pytest.mark.parametrize("kind", ["", "DepthWise", "SubPixel"])
def test_descriptors(kind):
    cls = getattr(mps, f"MPSCNN{kind}ConvolutionDescriptor")
    descriptor = cls.cnn_convolution_descriptor(
        with_kernel_width=3, kernel_height=2, input_feature_channels=4, output_feature_channels=16
    )
    if kind == "SubPixel":
        descriptor.sub_pixel_scale_factor = 2
    descriptor.set_batch_normalization_parameters_for_inference(
        with_mean=np.full(16, 0.5, np.float32), variance=np.full(16, 2, np.float32), epsilon=0.25
    )
    data = archived(descriptor)
    assert json.loads(_testing.read_and_written(data, "cpu")) == json.loads(data)


@pytest.mark.parametrize("kind", ["", "DepthWise", "SubPixel"])
def test_weights_of_each_descriptor(kind):
    source = weights()
    cls = getattr(mps, f"MPSCNN{kind}ConvolutionDescriptor")
    descriptor = cls.cnn_convolution_descriptor(
        with_kernel_width=2, kernel_height=3, input_feature_channels=2, output_feature_channels=4
    )
    if kind == "SubPixel":
        descriptor.sub_pixel_scale_factor = 2
    source.descriptor = lambda: descriptor
    source.array = source.array if kind != "DepthWise" else source.array[..., :1].copy()
    kernel = mps.MPSCNNConvolution(device="cpu", weights=source)
    data = archived(kernel)
    assert json.loads(_testing.read_and_written(data, "cpu")) == json.loads(data)
    other = unarchived(kernel, _testing.read_and_written(data, "cpu"), "cpu").data_source
    assert type(other.descriptor()) is cls
    assert other.weights().shape == source.array.shape


@pytest.mark.parametrize(
    "text",
    ["null", "true", "-0", "-9223372036854775808", "9223372036854775807", "0.1", "-1e-07",
     "1e+300", "1e22", "NaN", "Infinity", "-Infinity", '"\\u00e9\\ud83d\\ude00\\n\\"\\\\/"',
     '"\u00e9\U0001f600"', "[]", "{}", ' [1 ,\n{"a" : [ ]}, 2.0]'],
)  # fmt: skip
def test_numbers_and_texts_are_as_in_python(text):
    again = _testing.json_again(text)
    assert repr(json.loads(again)) == repr(json.loads(text))
    assert _testing.json_again(again) == again


def shortest(value):
    """As std::to_chars writes it: the digits of Python's repr, in the shorter of two forms."""
    decimal = Decimal(repr(value))
    digits = "".join(map(str, decimal.as_tuple().digits)).rstrip("0") or "0"
    scientific = digits[0] + ("." if digits[1:] else "") + digits[1:] + f"e{decimal.adjusted():+03}"
    # A whole number with the digits that it has, where repr has zeros.
    plain = f"{abs(value):.0f}" if value.is_integer() else f"{abs(decimal):f}"
    text = plain if len(plain) <= len(scientific) else scientific
    return ("-" if math.copysign(1, value) < 0 else "") + text


def numbers():
    """Powers of two, with the next numbers on both sides, and others of every size."""
    rng = random.Random(1)
    values = [0.0, -0.0, 1e5, 123456.0, 1e-5, 0.0001, 1e22, 1e23, sys.float_info.max]
    for exponent in range(-1074, 1024):
        power = math.ldexp(1.0, exponent)
        values += [-power, math.nextafter(power, 0), math.nextafter(power, math.inf)]
    values += [struct.unpack("<d", rng.randbytes(8))[0] for _ in range(2000)]
    values += [struct.unpack("<f", rng.randbytes(4))[0] for _ in range(2000)]
    values += [
        rng.randrange(10 ** rng.randrange(1, 24)) / 2 ** rng.randrange(20) for _ in range(2000)
    ]
    return [value for value in values if math.isfinite(value)]


def test_numbers_are_the_shortest_that_read_back():
    given = numbers()
    text = _testing.json_again(json.dumps(given)).decode()
    for value, written in zip(given, text[1:-1].split(", "), strict=True):
        assert written.removesuffix(".0") == shortest(value)
        assert struct.pack("<d", float(written)) == struct.pack("<d", value)
    assert _testing.json_again(text).decode() == text


COMMA = """
import locale
from traingraph import _testing
locale.setlocale(locale.LC_ALL, "de_DE.UTF-8")
assert locale.str(1.5) == "1,5"
assert _testing.json_again("[1.5, -2.5e-7, 1e300]") == b"[1.5, -2.5e-07, 1e+300]"
"""


def test_no_locale_changes_numbers(tmp_path):
    localedef = shutil.which("localedef")
    if localedef is None or not Path("/usr/share/i18n/locales/de_DE").exists():
        pytest.skip("no sources of locales")
    made = [localedef, "--no-archive", "-i", "de_DE", "-f", "UTF-8", tmp_path / "de_DE.UTF-8"]
    subprocess.run(made, check=True)
    environment = {**os.environ, "LOCPATH": str(tmp_path)}
    subprocess.run([sys.executable, "-c", COMMA], env=environment, check=True)


def test_of_several_values_the_last_counts():
    """As in Python."""
    text = archived(made("MPSCNNSoftMax")).decode()
    text = text.replace('"label": "layer 7"', '"label": "first", "label": "last"')
    again = _testing.read_and_written(text, "cpu")
    assert json.loads(again) == json.loads(text)
    assert json.loads(again)["values"]["label"] == "last"


def test_a_number_beyond_64_bits_is_no_whole_one():
    assert json.loads(_testing.json_again("92233720368547758070")) == 9.223372036854776e19


@pytest.mark.parametrize(
    "text",
    ["", " ", "nul", "tru", "+1", "01x", ".5", "1e", "0x10", "inf", "-inf", "nan", "'a'", '"a',
     '"\n"', '"\\x"', '"\\ud800"', "[1", "[1,]", "[1 2]", "{1: 2}", '{"a"}', '{"a": }',
     '{"a": 1,}', "1 1", "[" * 100000, "1" * 400 + "e999"],
)  # fmt: skip
def test_what_is_no_json(text):
    with pytest.raises(ValueError, match="at byte"):
        _testing.json_again(text)


def mutated(data, rng):
    """Some bytes replaced, removed, doubled or swapped for something that JSON knows."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        at = rng.randrange(len(data))
        what = rng.randrange(5)
        if what == 0:
            data[at] = rng.randrange(256)
        elif what == 1:
            del data[at : at + rng.randrange(1, 8)]
        elif what == 2:
            data[at:at] = data[at : at + rng.randrange(1, 8)]
        elif what == 3:
            data[at:at] = rng.choice(
                [b"-", b"9", b"[", b"]", b"{}", b"null", b'"', b",", b"e9", b"."]
            )
        else:
            data = data[:at]
        if not data:
            break
    return bytes(data)


@pytest.mark.parametrize("name", CASES)
def test_damaged_bytes_are_refused_or_read(name):
    """A typed error, or a kernel that can be written again; never anything else."""
    data = archived(made(name, "cpu"))
    rng = random.Random(name)
    refused = 0
    for _ in range(150):
        try:
            _testing.read_and_written(mutated(data, rng), "cpu")
        except (ValueError, TypeError):  # InvalidArgument, DataTypeError
            refused += 1
    assert refused > 50
    for length in range(0, len(data), max(len(data) // 60, 1)):
        with pytest.raises(ValueError, match="expected an archive"):
            _testing.read_and_written(data[:length], "cpu")
