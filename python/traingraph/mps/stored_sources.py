"""Data sources as plain values, and data sources over such values.

A kernel's archive holds what its data source gives at that moment; the kernel that is made of the
bytes has a data source of arrays.
"""

import base64
from collections.abc import Callable
from typing import Any

import numpy as np

from traingraph._core import (
    InvalidArgument,
    MPSCNNDepthWiseConvolutionDescriptor,
    MPSDataType,
)
from traingraph.mps.data_sources import (
    MPSCNNBatchNormalizationDataSource,
    MPSCNNConvolutionDataSource,
    MPSCNNGroupNormalizationDataSource,
    MPSCNNInstanceNormalizationDataSource,
)

_ELEMENTS = {"float32": MPSDataType.FLOAT32, "float64": MPSDataType.FLOAT64}


def _answer(source: Any, name: str, otherwise: Any = None) -> Any:
    """What a method, or a property, of the user's object says."""
    member = getattr(source, name, otherwise)
    return member() if callable(member) else member


def _packed(array: Any, dtype: str) -> Any:
    if array is None:
        return None
    return base64.b64encode(np.ascontiguousarray(array, dtype).tobytes()).decode()


def _unpacked(text: Any, dtype: str) -> Any:
    return None if text is None else np.frombuffer(base64.b64decode(text, validate=True), dtype)


def _loaded(source: Any, read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `read` gives between the source's load() and purge()."""
    if not _answer(source, "load", True):
        raise InvalidArgument("[NSKeyedArchiver] expected a data source to load but it said no")
    values = read()
    _answer(source, "purge")
    return values | {"label": _answer(source, "label")}


class ConvolutionOfArrays(MPSCNNConvolutionDataSource):
    """The arrays that a convolution was made of, by the form that Apple deprecates."""

    def __init__(self, descriptor: Any, weights: Any, biases: Any) -> None:
        """Copies of float32."""
        self._descriptor = descriptor
        self._weights = np.array(weights, np.float32)
        self._biases = None if biases is None else np.array(biases, np.float32)

    def descriptor(self) -> Any:
        """The sizes."""
        return self._descriptor

    def weights(self) -> Any:
        """(O, kernel_height, kernel_width, I / groups)."""
        return self._weights

    def bias_terms(self) -> Any:
        """(O), or None."""
        return self._biases


class StoredConvolution(ConvolutionOfArrays):
    """Weights of an archive."""

    def __init__(self, values: dict[str, Any], descriptor: Any) -> None:
        """Errors: another number of weights than the descriptor says."""
        self._label, self._descriptor = values["label"], descriptor
        self._type = values["data_type"]
        self._weights = _unpacked(values["weights"], self._type)
        self._biases = _unpacked(values["bias_terms"], self._type)
        sizes = (
            descriptor.output_feature_channels, descriptor.kernel_height, descriptor.kernel_width,
            1 if isinstance(descriptor, MPSCNNDepthWiseConvolutionDescriptor)
            else descriptor.input_feature_channels // descriptor.groups,
        )  # fmt: skip
        self._weights = self._weights.reshape(sizes)

    @staticmethod
    def values_of(source: Any) -> dict[str, Any]:
        """What a convolution's data source gives, but for its descriptor."""
        kind = MPSDataType(_answer(source, "data_type", MPSDataType.FLOAT32))
        dtype = next(name for name, one in _ELEMENTS.items() if one == kind)

        def read() -> dict[str, Any]:
            return {
                "data_type": dtype,
                "weights": _packed(source.weights(), dtype),
                "bias_terms": _packed(_answer(source, "bias_terms"), dtype),
            }

        return _loaded(source, read)

    def data_type(self) -> MPSDataType:
        """What an element of the weights is."""
        return _ELEMENTS[self._type]

    def label(self) -> str | None:
        """A name for messages."""
        return None if self._label is None else str(self._label)


class _StoredChannels:
    """Numbers per channel of an archive."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._values = values
        self._arrays = {name: _unpacked(text, "f4") for name, text in values["arrays"].items()}

    def gamma(self) -> Any:
        """Factors, or None for ones."""
        return self._arrays["gamma"]

    def beta(self) -> Any:
        """Terms, or None for zeros."""
        return self._arrays["beta"]

    def epsilon(self) -> float:
        """What is added to variances."""
        return float(self._values["epsilon"])

    def label(self) -> str | None:
        """A name for messages."""
        label = self._values["label"]
        return None if label is None else str(label)


def channels_of(source: Any, names: tuple[str, ...], smallest: float) -> dict[str, Any]:
    """What a normalization's data source gives."""

    def read() -> dict[str, Any]:
        values = {
            "number_of_feature_channels": int(_answer(source, "number_of_feature_channels")),
            "arrays": {name: _packed(_answer(source, name), "f4") for name in names},
            "epsilon": float(_answer(source, "epsilon", smallest)),
        }
        groups = _answer(source, "number_of_groups")
        return values if groups is None else values | {"number_of_groups": int(groups)}

    return _loaded(source, read)


class StoredBatchNormalization(_StoredChannels, MPSCNNBatchNormalizationDataSource):
    """Gamma, beta and statistics of an archive."""

    def number_of_feature_channels(self) -> int:
        """How many channels."""
        return int(self._values["number_of_feature_channels"])

    def mean(self) -> Any:
        """Means of inference, or None for zeros."""
        return self._arrays["mean"]

    def variance(self) -> Any:
        """Variances of inference, or None for ones."""
        return self._arrays["variance"]


class StoredInstanceNormalization(_StoredChannels, MPSCNNInstanceNormalizationDataSource):
    """Gamma and beta of an archive."""

    def __init__(self, values: dict[str, Any]) -> None:
        """Errors: arrays that are none."""
        super().__init__(values)
        self.number_of_feature_channels = int(values["number_of_feature_channels"])


class StoredGroupNormalization(StoredInstanceNormalization, MPSCNNGroupNormalizationDataSource):
    """Gamma, beta and groups of an archive."""

    def __init__(self, values: dict[str, Any]) -> None:
        """Errors: arrays that are none."""
        super().__init__(values)
        self.number_of_groups = int(values["number_of_groups"])
