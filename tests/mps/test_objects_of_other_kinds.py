"""Objects of the program's that lack what is asked of them are named where they are given."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import traingraph.mps as mps


class Other:
    """Has none of the methods."""


class Sized(mps.MPSCNNInstanceNormalizationDataSource):
    number_of_feature_channels = 4


RELU = mps.MPSCNNNeuronReLU(device="cpu", a=0.1)
DATA = mps.NSKeyedArchiver.archived_data(with_root_object=RELU)
DESCRIPTOR = mps.MPSCNNConvolutionDescriptor.cnn_convolution_descriptor(
    with_kernel_width=1, kernel_height=1, input_feature_channels=1, output_feature_channels=1
)
NODE = mps.MPSNNImageNode(handle=None)
READ = mps.MPSKeyedUnarchiver
CONVOLUTION = r"\[MPSCNNConvolutionDataSource\] expected a data source: an object with descriptor"
MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "weights of a kernel": (
        lambda: mps.MPSCNNConvolution(device="cpu", weights=Other()),
        CONVOLUTION + " but got '.*Other'",
    ),
    "weights of a node": (
        lambda: mps.MPSCNNConvolutionNode(source=NODE, weights=3), CONVOLUTION + " but got 'int'",
    ),
    "weights that are an array": (
        lambda: mps.MPSCNNFullyConnected(device="cpu", weights=np.ones(3)), CONVOLUTION,
    ),
    "statistics": (
        lambda: mps.MPSCNNBatchNormalization(device="cpu", data_source=Other()),
        r"\[MPSCNNBatchNormalizationDataSource\] expected a data source: an object with number_of",
    ),
    "gamma and beta": (
        lambda: mps.MPSCNNInstanceNormalization(device="cpu", data_source=3),
        r"\[MPSCNNInstanceNormalizationDataSource\] expected a data source: an object with numb",
    ),
    "a coder of a kernel": (
        lambda: RELU.encode_with_coder(3),
        r"\[MPSKernel.encode_with_coder\] expected coder: an object with encode\(\) but got 'int'",
    ),
    "a coder of a descriptor": (
        lambda: DESCRIPTOR.encode_with_coder(Other()),
        r"\[MPSCNNConvolutionDescriptor.encode_with_coder\] expected coder: an object with encode",
    ),
    "a class of an archive": (
        lambda: READ.unarchived_object_of_class(3, from_data=DATA, device="cpu"),  # type: ignore
        r"\[MPSKeyedUnarchiver\] expected a class but got 'int'",
    ),
    "classes of an archive": (
        lambda: READ.unarchived_object_of_classes(3, from_data=DATA, device="cpu"),  # type: ignore
        r"\[MPSKeyedUnarchiver\] expected classes but got 'int'",
    ),
    "bytes of an archive": (
        lambda: READ.unarchive_object(with_data=3, device="cpu"),  # type: ignore
        r"\[MPSKeyedUnarchiver\] expected data: bytes but got 'int'",
    ),
    "a key": (
        lambda: mps.NSKeyedArchiver().encode(1, for_key=3),  # type: ignore
        r"\[NSKeyedArchiver.encode\] expected for_key: str but got 'int'",
    ),
    "a padding of none": (
        lambda: mps.MPSNNDefaultPadding(None),
        r"\[MPSNNDefaultPadding\] expected method: MPSNNPaddingMethod \| str but got 'NoneType'",
    ),
    "a padding of a truth value": (
        lambda: mps.MPSNNDefaultPadding.padding(with_method=True),
        r"\[MPSNNDefaultPadding\] expected method: MPSNNPaddingMethod \| str but got 'bool'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", MISTAKES)
def test_what_is_missing_is_named(what: str) -> None:
    call, text = MISTAKES[what]
    with pytest.raises(TypeError, match=text):
        call()


def test_objects_that_have_it_are_taken() -> None:
    assert mps.MPSCNNInstanceNormalization(device="cpu", data_source=Sized()).data_source
    padding = mps.MPSNNDefaultPadding(np.int64(mps.MPSNNPaddingMethod.SIZE_FULL))
    assert padding.padding_method() == mps.MPSNNPaddingMethod.SIZE_FULL
    found = READ.unarchived_object_of_class(mps.MPSCNNNeuronReLU, from_data=DATA, device="cpu")
    assert isinstance(found, mps.MPSCNNNeuronReLU)
