"""What the user's data sources begin from; any object with the same methods serves as well."""

from typing import Any

from traingraph._core import MPSCNNConvolutionDescriptor, MPSDataType


class MPSCNNConvolutionDataSource:
    """Weights (O, kernel_height, kernel_width, I / groups) and biases (O) of a convolution."""

    def data_type(self) -> MPSDataType:
        """What an element of the weights is."""
        return MPSDataType.FLOAT32

    def descriptor(self) -> MPSCNNConvolutionDescriptor:
        """The sizes; asked for whenever the weights are read."""
        raise NotImplementedError(f"{type(self).__name__} has no descriptor()")

    def weights(self) -> Any:
        """An array of the weights."""
        raise NotImplementedError(f"{type(self).__name__} has no weights()")

    def bias_terms(self) -> Any:
        """An array of the biases, or None."""
        return None

    def load(self) -> bool:
        """Called before anything is read; False refuses."""
        return True

    def purge(self) -> None:
        """Called when everything was read."""

    def label(self) -> str | None:
        """A name for messages."""
        return None


class MPSCNNBatchNormalizationDataSource:
    """Gamma, beta and the statistics of inference, one number per channel."""

    def number_of_feature_channels(self) -> int:
        """How many channels."""
        raise NotImplementedError(f"{type(self).__name__} has no number_of_feature_channels()")

    def gamma(self) -> Any:
        """Factors, or None for ones."""
        return None

    def beta(self) -> Any:
        """Terms, or None for zeros."""
        return None

    def mean(self) -> Any:
        """Means of inference, or None for zeros."""
        return None

    def variance(self) -> Any:
        """Variances of inference, or None for ones."""
        return None

    def load(self) -> bool:
        """Called before anything is read; False refuses."""
        return True

    def purge(self) -> None:
        """Called when everything was read."""

    def label(self) -> str | None:
        """A name for messages."""
        return None

    def epsilon(self) -> float:
        """What is added to variances: the smallest normal number."""
        return 1.1754943508222875e-38


class MPSCNNInstanceNormalizationDataSource:
    """Gamma and beta, one number per channel."""

    #: How many channels; a subclass sets it.
    number_of_feature_channels: int

    def gamma(self) -> Any:
        """Factors, or None for ones."""
        return None

    def beta(self) -> Any:
        """Terms, or None for zeros."""
        return None

    def load(self) -> bool:
        """Called before anything is read; False refuses."""
        return True

    def purge(self) -> None:
        """Called when everything was read."""

    def label(self) -> str | None:
        """A name for messages."""
        return None

    def epsilon(self) -> float:
        """What is added to variances: the smallest normal number."""
        return 1.1754943508222875e-38


class MPSCNNGroupNormalizationDataSource(MPSCNNInstanceNormalizationDataSource):
    """The same, with groups of neighbouring channels that have their statistics in common."""

    #: How many groups; they divide the channels.
    number_of_groups: int
