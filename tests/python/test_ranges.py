"""Ranges that documents state are those that are checked, and no others are."""

import inspect
import math
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from test_descriptions import DESCRIBED, FORM, makers

import traingraph as tg
from metadata import TESTS
from traingraph import InvalidArgument, _core, mps

sys.path.append(str(TESTS / "mps"))
from coded import CASES, made

# By the words of a range: numbers outside of it, and its ends.
RANGES: dict[str, tuple[list[float], list[float]]] = {
    "a number": ([math.nan], [0.0]),
    "a finite number": ([math.nan, math.inf], [-1.0]),
    "a finite number; of CLAMP maybe infinite": ([math.nan], [-1.0]),
    "a finite number; of ReLUN maybe infinite": ([math.nan], [-1.0]),
    "a finite number of 0 or more": ([-1.0, math.nan, math.inf], [0.0]),
    "0 or more": ([-1], [0]),
    "from 0 to 1": ([-0.5, 1.5, math.nan], [0.0, 1.0]),
    "from 0 to less than 1": ([-0.5, 1.0, math.nan], [0.0, 0.99]),
    "above 0 and below 1": ([0.0, 1.0, math.nan], [0.01, 0.99]),
    "above 0": ([0.0, math.nan], [0.5]),
    "above 0 and not 1; or -1, for e": ([0.0, 1.0, -2.0, math.nan], [-1.0, 0.5]),
    "0": ([1], [0]),
    "0 or more, and a multiple of 4": ([-4, 2], [0, 4]),
    "0 or 1": ([-1, 2], [0, 1]),
    "1 or more": ([0], [1]),
    "1 or more; one may be -1": ([0, -2], [1, -1]),
    "from 1 to 2**31 - 1": ([0, 2**31], [1]),
    "from 1 to 2**24": ([0, 2**24 + 1], [1, 2**24]),
    "from 1 to 2**53": ([0, 2**53 + 1], [1, 2**53]),
    "from 0 to 2**53 - 1": ([-1, 2**53], [0, 2**53 - 1]),
}
# What no type says: arguments by class, and by name for all others.
GIVEN: dict[str, dict[str, Any]] = {
    "MLCActivationDescriptor": {"type": "linear"},
    "MLCLossDescriptor": {"type": "huber"},
    "MLCPoolingDescriptor": {"type": "max"},
    "MLCSliceLayer": {"start": [0], "end": [1]},
    "MLCSoftmaxLayer": {"operation": "softmax"},
    "MLCYOLOLossDescriptor": {"anchor_boxes": [1.0, 1.0]},
    "MLCTensor": {
        "data": lambda: tg.MLCTensorData(bytes_no_copy=bytearray(8)),
        "descriptor": lambda: tg.MLCTensorDescriptor(shape=[1]),
        "random_initializer_type": "uniform",
    },
    "MLCTensorDescriptor": {"shape": [1, 1, 1]},
    "MLCTensorData": {
        "bytes_no_copy": bytearray(8),
        "deallocator": lambda: lambda *_: None,
        "immutable_bytes_no_copy": b"12345678",
    },
    "MPSCNNNeuronPReLU": {"a": [0.5, 0.25]},
    "MPSNNNeuronDescriptor": {"with_type": "linear", "with_data": [0.5]},
    "MPSNNOptimizerDescriptor": {"with_learning_rate": 0.1},
}
BY_NAME: dict[str, Any] = {
    "constant_padding": [1],
    "device": "reference", "source": lambda: mps.MPSNNImageNode(handle="x"), "edge_mode": "zero",
    "reduction_type": "sum", "c": 2.0, "split_section_lengths": [1], "labels_image": lambda: image,
    "descriptor": lambda: tg.MLCOptimizerDescriptor(learning_rate=0.1), "bias_terms": lambda: None,
    "convolution_descriptor": lambda: one_weight, "kernel_weights": np.ones((1, 1, 1, 1), "f4"),
    "buffer": lambda: mps.MTLBuffer(device="reference", length=16), "parent_image": lambda: image,
    "with_buffer": lambda: mps.MTLBuffer(device="reference", length=16), "slice_range": (0, 1),
    "labels_descriptor": lambda: labels, "output_size": (1, 1), "transform_provider": lambda: None,
}  # fmt: skip
BY_TYPE = {"float": 0.5, "int": 1, "bool": False, "int | tuple[int, int]": (1, 1),
           "collections.abc.Sequence[int]": [1], "tuple[int, int, int]": (1, 1, 1),
           "str | os.PathLike[str]": "a file",
           "MLCTensor": lambda: tg.MLCTensor(shape=[1, 1, 1, 1], fill_with_data=1.0)}  # fmt: skip
one_weight = mps.MPSCNNConvolutionDescriptor.cnn_convolution_descriptor(
    with_kernel_width=1, kernel_height=1, input_feature_channels=1, output_feature_channels=1
)
image = mps.MPSImage(
    device="reference",
    image_descriptor=mps.MPSImageDescriptor.image_descriptor(
        with_channel_format="float32", width=1, height=1, feature_channels=1
    ),
)
labels = mps.MPSCNNLossDataDescriptor.cnn_loss_data_descriptor(
    with_data=np.ones(1, "f4"), layout="height_x_width_x_feature_channels", size=(1, 1, 1)
)
# Of lists with more entries than one.
LENGTHS = {"output_size": 2, "MLCTensorDescriptor.shape": 3}
# Those whose numbers are checked by what takes them.
TAKEN: dict[str, Callable[[Any], Any]] = {
    "MLCActivationDescriptor": lambda one: tg.MLCActivationLayer(descriptor=one),
    "MLCConvolutionDescriptor": lambda one: tg.MLCConvolutionLayer(descriptor=one),
    "MLCLossDescriptor": lambda one: tg.MLCLossLayer(descriptor=one),
    "MLCMatMulDescriptor": lambda one: tg.MLCMatMulLayer(descriptor=one),
    "MLCPoolingDescriptor": lambda one: tg.MLCPoolingLayer(descriptor=one),
    "MPSNNNeuronDescriptor": lambda one: mps.MPSCNNNeuron(
        device="reference", neuron_descriptor=one
    ),
    "MPSVectorDescriptor": lambda one: mps.MPSVector(device="reference", descriptor=one),
}
ARGUMENT = re.compile(r"(?:^|, )(\w+): (.*?)(?: = (.*?))?(?=, \w+: |$)")
NUMBER = re.compile(
    r"(int|float|tuple\[int(, int)+\]|"
    r"(list|collections\.abc\.Sequence)\[int\])( \| None)?"
)


class Maker:
    """One form of a constructor or of a function that makes an object, and one of its numbers."""

    def __init__(self, owner: str, name: str, form: str, argument: str, text: str) -> None:
        self.owner, self.name, self.argument = owner, name, argument
        self.types = {key: kind for key, kind, _ in ARGUMENT.findall(form)}
        self.needed = [key for key, _, default in ARGUMENT.findall(form) if not default]
        stated = re.search(r"Range: (.*)\.$", text)
        self.range = stated[1] if stated else None

    def __repr__(self) -> str:
        return f"{self.owner}.{self.name} {self.argument}".replace(".__init__", "")

    def value(self, key: str) -> Any:
        known = GIVEN.get(self.owner, {}) | CASES.get(self.owner, ({},))[0]
        found = known.get(key, BY_NAME.get(key, BY_TYPE.get(self.types[key])))
        if found is None:
            raise LookupError(f"{self}: no {key}: {self.types[key]}")
        return found() if callable(found) else found

    def make(self, number: float) -> None:
        kind, given = self.types[self.argument], {key: self.value(key) for key in self.needed}
        known = LENGTHS.get(f"{self.owner}.{self.argument}", LENGTHS.get(self.argument))
        several = (known or kind.count("int")) if "[" in kind else 0
        given[self.argument] = (number,) * several if several else number
        call = getattr(_core, self.owner)
        one = (call if self.name == "__init__" else getattr(call, self.name))(**given)
        if self.owner.endswith("Node"):
            mps.MPSNNGraph(device="reference", result_image=one.result_image)
        else:
            TAKEN.get(self.owner, lambda made: made)(one)


def numbers() -> Iterator[Maker]:
    """Of gradient nodes they are the forward node's."""
    for owner in sorted({*DESCRIBED, *TAKEN}):
        if owner.endswith("GradientNode"):
            continue
        for name, document in makers(owner).items():
            texts = dict(re.findall(r"^\* (\w+): (.*)$", document, re.MULTILINE))
            for form in FORM.findall(document):
                for argument, kind, _ in ARGUMENT.findall(form):
                    if NUMBER.fullmatch(kind) and argument != "slice_range":  # first and count
                        yield Maker(owner, name, form, argument, texts[argument])


STATED = [maker for maker in numbers() if maker.range is not None]
FREE = [maker for maker in numbers() if maker.range is None]


def test_there_are_some() -> None:
    assert {maker.range for maker in STATED} <= set(RANGES)
    assert len(STATED) > 150
    assert len(FREE) > 5


@pytest.mark.parametrize("maker", STATED, ids=repr)
def test_a_stated_range_is_checked(maker: Maker) -> None:
    outside, ends = RANGES[str(maker.range)]
    for number in outside:
        with pytest.raises(InvalidArgument):
            maker.make(number)
    for number in ends:
        maker.make(number)


@pytest.mark.parametrize("maker", FREE, ids=repr)
def test_a_number_without_a_range_is_not_refused(maker: Maker) -> None:
    for number in (-1.0, math.nan) if maker.types[maker.argument] == "float" else (0, 5):
        maker.make(number)


# --- what can be set -----------------------------------------------------------------------------


def settable() -> Iterator[tuple[str, str, str]]:
    """Class, property and text of the numbers of kernels that can be set, each once."""
    known: set[property] = set()
    for name in CASES:
        for key, value in inspect.getmembers_static(getattr(mps, name)):
            if not isinstance(value, property) or value.fset is None or value in known:
                continue
            kind = re.search(r"-> (\S+)\n", value.fget.__doc__ or "")
            if kind is not None and kind[1] in ("int", "float"):
                known.add(value)
                yield name, key, f"{kind[1]}: {value.__doc__}"


PROPERTIES = {f"{name}.{key}": (name, key, text) for name, key, text in settable()}


def test_there_are_some_properties() -> None:
    stated = [text for _, _, text in PROPERTIES.values() if "Range: " in text]
    assert len(stated) > 20
    assert len(PROPERTIES) > len(stated)


@pytest.mark.parametrize(("name", "key", "text"), PROPERTIES.values(), ids=PROPERTIES.keys())
def test_a_range_of_a_property_is_checked(name: str, key: str, text: str) -> None:
    kernel, stated = made(name), re.search(r"Range: (.*)\.$", text)
    if stated is not None:
        for number in RANGES[stated[1]][0]:
            with pytest.raises(InvalidArgument):
                setattr(kernel, key, number)
        for number in RANGES[stated[1]][1]:
            setattr(kernel, key, number)
    else:
        for number in (-1.0, math.nan) if text.startswith("float") else (-1, 0):
            setattr(kernel, key, number)
